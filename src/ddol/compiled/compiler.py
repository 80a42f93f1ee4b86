"""Numba's part: Python functions to machine code.

Importing this module costs what Numba costs; processes that find all they need in the store do not.
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
from numba.core import cgutils
from numba.core.codegen import JITCPUCodegen
from numba.core.compiler import Compiler
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import _FunctionCompiler  # type: ignore[attr-defined]
from numba.core.registry import cpu_target
from numba.core.typing.templates import infer, infer_global, make_intrinsic_template
from numba.extending import overload, register_jitable

from ddol.compiled import intrinsics

# Sums may be reordered so that dot products use vector registers; NaN and infinity keep their meaning.
REORDER = {"reassoc", "contract", "nsz"}

_WORD, _HALF, _BYTE = ir.IntType(64), ir.IntType(32), ir.IntType(8)
_TYPES = {
    "void": types.void,
    "double": types.float64,
    "int64": types.int64,
    "double*": types.CPointer(types.float64),
    "int64*": types.CPointer(types.int64),
    "uint32*": types.CPointer(types.uint32),
    "struct*": types.CPointer(types.uint8),
}


class Code(NamedTuple):
    """A function that is compiled and loaded, and its object code where other processes can use it."""

    address: int
    symbol: str
    machine_code: bytes | None
    keep: Any
    """Owner of the memory at `address`."""


class _Bare(_FunctionCompiler):
    """Numba's compiler, without any of its ways in from Python or C."""

    def _customize_flags(self, flags: Any) -> Any:
        flags.no_cpython_wrapper = flags.no_cfunc_wrapper = flags.no_compile = True
        flags.enable_pyobject = False
        return flags


class _HalfWidth(JITCPUCodegen):
    """Numba's code generator, with vectors of 256 bits where the processor has 512.

    Rows are short, and each step waits for the one before. A wide vector leaves a longer rest of the row,
    takes longer to sum up, and crosses a cache line each time that memory is not aligned to it.
    """

    def _customize_tm_features(self) -> str:
        features = super()._customize_tm_features()
        return f"{features},+prefer-256-bit" if "+avx512f" in features else features


_half_width = functools.cache(_HalfWidth)


@contextlib.contextmanager
def _short_vectors() -> Iterator[None]:
    """Let Numba compile for short rows: what users compile with it is not our business."""
    context = cpu_target.target_context
    theirs = context._internal_codegen
    context._internal_codegen = _half_width("ddol")
    try:
        yield
    finally:
        context._internal_codegen = theirs


@global_compiler_lock
@_short_vectors()
def compile_function(
    function: Callable, result: str, arguments: tuple[str, ...], sums: bool
) -> Code:
    """Compile to a C function; ``sums`` may be reordered, or not.

    Raises
    ------
    numba.core.errors.NumbaError
        What the function says has no compiled form.
    """
    options: dict[str, Any] = {"error_model": "numpy"} | ({"fastmath": REORDER} if sums else {})
    bare = _Bare(function, cpu_target, options, {}, Compiler)
    made = bare.compile(tuple(_TYPES[kind] for kind in arguments), _TYPES[result])
    symbol = "ddol." + made.fndesc.llvm_func_name
    made.library.add_ir_module(_c_function(cpu_target.target_context, made.fndesc, symbol))
    # Nobody else calls it: one copy is compiled, in the place of its only call.
    made.library._final_module.get_function(made.fndesc.llvm_func_name).linkage = "internal"
    made.library.finalize()
    code = made.library._get_compiled_object() if _stands_alone(made.library) else None
    return Code(made.library.get_pointer_to_function(symbol), symbol, code, made.library)


def _c_function(context: Any, description: Any, symbol: str) -> Any:
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


def register(function: Callable, inlined: bool) -> None:
    """Let compiled functions call this one."""
    options: dict[str, Any] = {"no_cfunc_wrapper": True, "error_model": "numpy"}
    register_jitable(**options, **({"forceinline": True} if inlined else {}))(function)


def reason(error: Exception) -> str:
    """The one line of a compiler's message that says what is wrong, and where."""
    text = str(error)
    said = [line.strip() for line in text.splitlines()]
    telling = [line for line in said if line and not line.startswith(("Failed in", "During:"))]
    found = telling[0].split(", defined at ")[0] if telling else type(error).__name__
    if found.endswith("signature:"):
        found = f"no compiled form of {telling[1].removeprefix('>>> ')}"
    place = re.search(r"line (\d+)", text)
    return f"{found[:200]} (line {place[1]})" if place else found[:200]


# --- intrinsics ----------------------------------------------------------------------------------


@overload(intrinsics.column, inline="always")
def _column(index, j):  # type: ignore[no-untyped-def]  # Numba compares signatures
    if isinstance(index, types.Integer):
        return lambda index, j: j
    return lambda index, j: index[j]


def _means(name: str) -> Callable:
    """Give an intrinsic its machine code: a function of LLVM values, after that of Numba's types."""
    stub = getattr(intrinsics, name)

    def bind(definition: Callable) -> Callable:
        template = make_intrinsic_template(stub, definition, name, prefer_literal=False, kwargs={})
        infer(template)
        infer_global(stub, types.Function(template))
        return definition

    return bind


def _pointer(name: str, kind: Any) -> None:
    @_means(name)
    def pointer(typing: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            return builder.inttoptr(values[0], context.get_value_type(types.CPointer(kind)))

        return types.CPointer(kind)(types.int64), generate


def _call(name: str, result: Any, llvm_result: Any) -> None:
    """Define a call of the C function at an address with a tuple of arguments."""

    @_means(name)
    def call(typing: Any, address: Any, arguments: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            inner = [builder.extract_value(values[1], k) for k in range(len(signature.args[1]))]
            kind = ir.FunctionType(llvm_result, [value.type for value in inner])
            found = builder.call(builder.inttoptr(values[0], kind.as_pointer()), inner)
            if result is types.void:
                return context.get_dummy_value()
            return builder.sext(found, _WORD) if llvm_result is _HALF else found

        return result(types.int64, arguments), generate


_pointer("floats", types.float64)
_pointer("integers", types.int64)
_pointer("indices", types.uint32)
_pointer("ints", types.int32)
_pointer("bytes_at", types.uint8)
_call("call_float", types.float64, ir.DoubleType())
_call("call_int", types.int64, _WORD)
_call("call_int32", types.int64, _HALF)
_call("call_void", types.void, ir.VoidType())


@_means("address_of")
def _address_of(typing: Any, pointer: Any, places: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.ptrtoint(builder.gep(values[0], [values[1]]), _WORD)

    return types.int64(pointer, types.int64), generate


@_means("bits")
def _bits(typing: Any, number: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.bitcast(values[0], _WORD)

    return types.int64(types.float64), generate


@_means("from_bits")
def _from_bits(typing: Any, word: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.bitcast(values[0], ir.DoubleType())

    return types.float64(types.uint64), generate


@_means("first_of")
def _first_of(typing: Any, address: Any, byte: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        kind = ir.VectorType(_BYTE, 64)
        found = builder.load(builder.inttoptr(values[0], kind.as_pointer()), align=1)
        wanted = ir.Constant(kind, ir.Undefined)
        wanted = builder.insert_element(wanted, builder.trunc(values[1], _BYTE), _HALF(0))
        everywhere = ir.Constant(ir.VectorType(_HALF, 64), [0] * 64)
        wanted = builder.shuffle_vector(wanted, wanted, everywhere)
        same = builder.bitcast(builder.icmp_unsigned("==", found, wanted), _WORD)
        return builder.cttz(same, ir.Constant(ir.IntType(1), 0))  # 64 of 0

    return types.int64(types.int64, types.int64), generate


def _prefetch(name: str, locality: int) -> None:
    """Define a request for a cache line; locality 3 is the nearest cache."""

    @_means(name)
    def prefetch(typing: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            byte = _BYTE.as_pointer()
            kind = ir.FunctionType(ir.VoidType(), [byte, _HALF, _HALF, _HALF])
            name = "llvm.prefetch.p0i8" if "i8*" in str(byte) else "llvm.prefetch.p0"
            function = cgutils.get_or_insert_function(builder.module, kind, name)
            read, near, data = (ir.Constant(_HALF, k) for k in (0, locality, 1))
            builder.call(function, [builder.inttoptr(values[0], byte), read, near, data])
            return context.get_dummy_value()

        return types.void(types.int64), generate


_prefetch("prefetch", 3)
_prefetch("prefetch_far", 2)


@_means("unpacked")
def _unpacked(typing: Any, kind: Any, data: Any) -> Any:
    """Load all fields at once: the kernel reads them from registers, not through the pointer."""
    named = kind.instance_class
    found = {float: types.float64, bool: types.boolean, int: types.int64}
    fields = [found[field] for field in intrinsics.field_types(named)]
    result = types.NamedTuple(fields, named)

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        loaded = []
        for k, field in enumerate(fields):
            place = builder.gep(values[1], [ir.Constant(_WORD, 8 * k)])
            stored = ir.DoubleType() if field is types.float64 else _WORD
            value = builder.load(builder.bitcast(place, stored.as_pointer()))
            if field is types.boolean:
                value = builder.icmp_signed("!=", value, ir.Constant(_WORD, 0))
            loaded.append(value)
        return context.make_tuple(builder, result, loaded)

    return result(kind, data), generate


# --- atomics, which Numba does not offer on the CPU: LLVM's own instructions ---------------------


@_means("atomic_add")
def _atomic_add(typing: Any, words: Any, i: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        place = builder.gep(values[0], [values[1]])
        return builder.atomic_rmw("add", place, values[2], "acq_rel")

    return types.int64(words, types.int64, types.int64), generate


@_means("atomic_load")
def _atomic_load(typing: Any, words: Any, i: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.load_atomic(builder.gep(values[0], [values[1]]), "acquire", 8)

    return types.int64(words, types.int64), generate


@_means("atomic_store")
def _atomic_store(typing: Any, words: Any, i: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        builder.store_atomic(values[2], builder.gep(values[0], [values[1]]), "release", 8)
        return context.get_dummy_value()

    return types.void(words, types.int64, types.int64), generate


@_means("pause")
def _pause(typing: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        # Inline assembly would abort the interpreter; elsewhere than on x86 yielding is enough.
        if builder.module.triple.startswith(("x86", "i386", "i686", "amd64")):
            kind = ir.FunctionType(ir.VoidType(), [])
            builder.call(builder.module.declare_intrinsic("llvm.x86.sse2.pause", (), kind), [])
        return context.get_dummy_value()

    return types.void(), generate


@_means("yield_core")
def _yield_core(typing: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        kind = ir.FunctionType(_HALF, [])
        function = cgutils.get_or_insert_function(builder.module, kind, "sched_yield")
        builder.call(function, [])
        return context.get_dummy_value()

    return types.void(), generate
