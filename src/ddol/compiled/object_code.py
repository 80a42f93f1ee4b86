"""Object code of a function, by ways into Numba that it does not promise to keep.

They give code that runs without Numba, in any process, and calls that cost what a call in C costs. Where
Numba has changed so that something here fails, `ddol.compiled.compiler` does without it.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import math
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from llvmlite import ir
from numba import types
from numba.core.codegen import JITCodeLibrary, JITCPUCodegen
from numba.core.compiler import Compiler
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import _FunctionCompiler  # type: ignore[attr-defined]
from numba.core.registry import cpu_target

from ddol.compiled.target import target


class ObjectCode(NamedTuple):
    """A function that is compiled.

    ``machine_code`` is None where the function refers to memory of this process; it is in memory at
    ``address`` then, and ``owner`` keeps it there.
    """

    symbol: str
    machine_code: bytes | None
    address: int
    owner: Any


class _Bare(_FunctionCompiler):
    """Numba's compiler, without any of its ways in from Python or C."""

    def _customize_flags(self, flags: Any) -> Any:
        flags.no_cpython_wrapper = flags.no_cfunc_wrapper = flags.no_compile = True
        flags.enable_pyobject = False
        return flags


class _Library(JITCodeLibrary):
    """Code of one function and those that it calls.

    A function that others only call is linked into them as it is: it is optimised once, where it ends up.
    """

    whole = False
    """This is what somebody calls by its address."""

    def _optimize_final_module(self) -> None:
        if self.whole:
            super()._optimize_final_module()

    def _finalize_specific(self) -> None:
        if self.whole:
            super()._finalize_specific()

    def get_pointer_to_function(self, name: str) -> int:
        known = any(f.name == name and not f.is_declaration for f in self._final_module.functions)
        if not known and not self.whole:
            return 0  # what has no way in from Python
        if not self._finalized:
            self.whole = True
        return int(super().get_pointer_to_function(name))


class _Codegen(JITCPUCodegen):
    """Numba's code generator, for the level of the processor."""

    _library_class = _Library

    def _customize_tm_options(self, options: dict[str, Any]) -> None:
        super()._customize_tm_options(options)
        options["cpu"] = target().cpu

    def _customize_tm_features(self) -> str:
        return target().features

    def set_env(self, env_name: str, env: Any) -> None:
        if self._engine.is_symbol_defined(env_name):  # not of what is only linked into others
            super().set_env(env_name, env)


_codegen = functools.cache(_Codegen)


@contextlib.contextmanager
def _for_the_level() -> Iterator[None]:
    """Let Numba compile as we want it: what users compile with it is not our business."""
    context = cpu_target.target_context
    theirs = context._internal_codegen
    context._internal_codegen = _codegen("ddol")
    try:
        yield
    finally:
        context._internal_codegen = theirs


@global_compiler_lock
@_for_the_level()
def compile_object(
    function: Callable,
    result: Any,
    arguments: tuple[Any, ...],
    options: dict[str, Any],
    apart: bool,
) -> ObjectCode:
    """Compile to a C function of Numba's types; what its arguments point to may be known to be apart."""
    bare = _Bare(function, cpu_target, options, {}, Compiler)
    made = bare.compile(arguments, result)
    library, symbol = made.library, "ddol." + made.fndesc.llvm_func_name
    library.add_ir_module(_c_function(cpu_target.target_context, made.fndesc, symbol, apart))
    # Nobody else calls what is in here. A function that is also part of another module would be taken
    # from there when it is linked, and may be compiled to other instructions there.
    for each in library._final_module.functions:
        if not each.is_declaration and each.name != symbol:
            each.linkage = "internal"
    library.whole = True
    library.finalize()
    if _stands_alone(library):
        return ObjectCode(symbol, library._get_compiled_object(), 0, None)
    return ObjectCode(symbol, None, library.get_pointer_to_function(symbol), library)


def _c_function(context: Any, description: Any, symbol: str, apart: bool) -> Any:
    """Give a function of Numba's the form of C.

    Numba's own callbacks call the function instead of inlining it and know how to raise in Python:
    twice the price of a call, and code that works beside Numba only. Here an error gives NaN.
    """
    module = context.create_module(symbol)
    convention, result, arguments = context.call_conv, description.restype, description.argtypes
    kind = convention.get_function_type(result, arguments)
    callee = ir.Function(module, kind, description.llvm_func_name)
    returned = context.get_value_type(result)
    wrapper_kind = ir.FunctionType(returned, [context.get_value_type(a) for a in arguments])
    wrapper = ir.Function(module, wrapper_kind, symbol)
    for argument in wrapper.args:
        if apart and isinstance(argument.type, ir.PointerType):
            argument.add_attribute("noalias")
    builder = ir.IRBuilder(wrapper.append_basic_block())
    status, out = convention.call_function(builder, callee, result, arguments, wrapper.args)
    if result is types.float64:
        out = builder.select(status.is_ok, out, ir.Constant(ir.DoubleType(), math.nan))
    builder.ret(out)
    return module


def _stands_alone(library: Any) -> bool:
    """Whether code works in another process: it calls the C library only, and holds no address."""
    if _holds_addresses(library):
        return False
    module, process = library._final_module, ctypes.CDLL(None)
    called = [f.name for f in module.functions if f.is_declaration]
    missing = [n for n in called if not n.startswith("llvm.") and not hasattr(process, n)]
    # Quotients of wide integers and powers of integers become calls of the compiler's own library.
    wide = re.search(r"\b[us](div|rem|itofp) i128|\bfpto[us]i .* to i128", str(module))
    return not (missing or wide or "llvm.powi" in str(called))


def _holds_addresses(library: Any) -> bool:
    """Whether code refers to functions of ctypes or to large arrays, which are elsewhere next time."""
    called = library._linking_libraries
    return library.has_dynamic_globals or any(_holds_addresses(each) for each in called)
