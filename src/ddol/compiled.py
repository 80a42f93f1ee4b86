"""How Python functions become parts of the compiled kernel.

A part (a loss, one loop of an update rule, a communicator) is a plain Python function. It is
compiled on its own, to a C function, and the kernel calls it by its address. So no combination of parts
is ever compiled together, every part hits Numba's disk cache on its own, and a user's part is compiled
exactly like ours.

Loops over a row are written once for dense and sparse rows: the row's values are ``x[0..n)`` and
``column(index, j)`` says which feature the j-th value belongs to. The dense variant is compiled with
an integer in the place of ``index``, so that ``column`` is ``j`` there and the loop vectorises.
"""

from __future__ import annotations

import ctypes
import functools
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload

POINTER = types.CPointer(types.float64)
DENSE = types.int64
SPARSE = types.CPointer(types.uint32)

# Sums may be reordered so that dot products use vector registers; NaN and infinity keep their meaning.
REORDER = {"reassoc", "contract", "nsz"}


def column(index: Any, j: int) -> int:
    """Feature of the j-th value of a row: ``j`` in a dense row, ``index[j]`` in a sparse one."""
    return j if isinstance(index, int) else int(index[j])


@overload(column, inline="always")
def _column(index, j):  # type: ignore[no-untyped-def]  # Numba compares signatures
    if isinstance(index, types.Integer):
        return lambda index, j: j
    return lambda index, j: index[j]


class CompileError(TypeError):
    """A user's function does not fit the kernel: the message says which and what was expected."""


def check_arguments(function: Any, expected: str) -> None:
    """Refuse what cannot be called as ``expected`` says.

    Examples
    --------
    >>> check_arguments(lambda z, y: z - y, "value(z, y, p)")
    Traceback (most recent call last):
    ddol.compiled.CompileError: `<lambda>(z, y)` takes 2 arguments, expected 3: value(z, y, p)
    """
    if not inspect.isfunction(function):
        raise CompileError(f"found {function!r}, expected a Python function {expected}")
    signature = inspect.signature(function)
    wanted, found = expected.count(",") + 1, len(signature.parameters)
    if found != wanted:
        shown = f"{function.__name__}{signature}"
        raise CompileError(f"`{shown}` takes {found} arguments, expected {wanted}: {expected}")


@functools.cache
def compile_part(function: Callable, signature: Any, expected: str) -> Any:
    """Compile ``function`` to a C function of the given Numba ``signature``; ``.address`` calls it.

    ``expected`` says how the kernel calls it, such as "value(z, y, p)", for messages.
    """
    check_arguments(function, expected)
    if numba.config.DISABLE_JIT:
        return _Interpreted(function, signature)
    options: dict[str, Any] = {"error_model": "numpy", "fastmath": REORDER}
    try:
        return numba.cfunc(signature, cache=_cacheable(function), **options)(function)
    except Exception as error:
        raise CompileError(
            f"`{function.__name__}` does not compile as {expected}: {_reason(error)}; use numbers, "
            "loops and functions of `math`, and put numba.njit on functions that it calls"
        ) from None


class _Interpreted:
    """The function as it is, behind the address of a callback: for runs with NUMBA_DISABLE_JIT=1."""

    def __init__(self, function: Callable, signature: Any) -> None:
        kinds: dict[Any, Any] = {
            types.void: None,
            types.float64: ctypes.c_double,
            types.int64: ctypes.c_int64,
            POINTER: ctypes.POINTER(ctypes.c_double),
            SPARSE: ctypes.POINTER(ctypes.c_uint32),
        }
        arguments = [kinds[kind] for kind in signature.args]
        self.callback = ctypes.CFUNCTYPE(kinds[signature.return_type], *arguments)(function)
        self.address = ctypes.cast(self.callback, ctypes.c_void_p).value


def _reason(error: Exception) -> str:
    """The one line of a compiler's message that says what is wrong, and where."""
    text = str(error)
    said = [line.strip() for line in text.splitlines()]
    telling = [line for line in said if line and not line.startswith(("Failed in", "During:"))]
    found = telling[0].split(", defined at ")[0] if telling else type(error).__name__
    if found.endswith("signature:"):
        found = f"no compiled form of {telling[1].removeprefix('>>> ')}"
    place = re.search(r"line (\d+)", text)
    return f"{found[:200]} (line {place[1]})" if place else found[:200]


def _cacheable(function: Callable) -> bool:
    """Numba caches beside the source file: functions typed into an interpreter have none.

    It tells functions apart by line, name and byte code, which does not hold the names that are
    called: two lambdas on one line, of sinh and of asinh, would be the same to it.
    """
    code: Any = function.__code__
    named_in_file = Path(code.co_filename).is_file() and function.__name__ != "<lambda>"
    return named_in_file and not function.__closure__ and function.__module__ != "__main__"


def scalar(function: Callable | None, expected: str) -> int:
    """Address of ``double f(double…, const double *parameters)``: losses and link functions.

    ``expected`` names the arguments, such as "value(z, y, p)".
    """
    if function is None:
        return 0
    numbers = [types.float64] * expected.count(",")
    return int(compile_part(function, types.float64(*numbers, POINTER), expected).address)


def _call(result: Any, llvm_result: Any) -> Any:
    """Make an intrinsic that calls the C function at ``address`` with a tuple of arguments."""

    @intrinsic
    def call(typing_context: Any, address: Any, arguments: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            inner = [builder.extract_value(values[1], k) for k in range(len(signature.args[1]))]
            kind = ir.FunctionType(llvm_result, [value.type for value in inner])
            found = builder.call(builder.inttoptr(values[0], kind.as_pointer()), inner)
            return context.get_dummy_value() if result is types.void else found

        return result(address, arguments), generate

    return call


def _call_through_ctypes(result: Any) -> Callable:
    """Make the same call from the interpreter, for runs with NUMBA_DISABLE_JIT=1."""
    kinds = {float: ctypes.c_double, np.float64: ctypes.c_double}

    def call(address: int, arguments: tuple) -> Any:
        types_ = [kinds.get(type(a), ctypes.c_int64) for a in arguments]
        plain = [
            float(a) if k is ctypes.c_double else int(a)
            for a, k in zip(arguments, types_, strict=True)
        ]
        return ctypes.CFUNCTYPE(result, *types_)(int(address))(*plain)

    return call


def _pointer(kind: Any) -> Any:
    """Make an intrinsic that turns an address into a pointer, which compiled code indexes."""

    @intrinsic
    def pointer(typing_context: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            return builder.inttoptr(values[0], context.get_value_type(types.CPointer(kind)))

        return types.CPointer(kind)(address), generate

    return pointer


def _pointer_through_ctypes(kind: Any) -> Callable:
    def pointer(address: int) -> Any:
        return ctypes.cast(int(address), ctypes.POINTER(kind))

    return pointer


@intrinsic
def _prefetch(typing_context: Any, address: Any) -> Any:
    """Ask for the cache line behind an address, to be read soon."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        name = "llvm.prefetch.p0i8" if "i8*" in str(byte) else "llvm.prefetch.p0"
        function = cgutils.get_or_insert_function(builder.module, kind, name)
        read, near, data = (ir.Constant(word, k) for k in (0, 3, 1))
        builder.call(function, [builder.inttoptr(values[0], byte), read, near, data])
        return context.get_dummy_value()

    return types.void(address), generate


if numba.config.DISABLE_JIT:

    def prefetch(address: int) -> None:
        """Nothing: the interpreter is slower than any memory."""

    floats = _pointer_through_ctypes(ctypes.c_double)
    integers = _pointer_through_ctypes(ctypes.c_int64)
    indices = _pointer_through_ctypes(ctypes.c_uint32)
    call_float = _call_through_ctypes(ctypes.c_double)
    call_int = _call_through_ctypes(ctypes.c_int64)
    call_void = _call_through_ctypes(None)
else:
    prefetch = _prefetch
    floats = _pointer(types.float64)
    integers = _pointer(types.int64)
    indices = _pointer(types.uint32)
    call_float = _call(types.float64, ir.DoubleType())
    call_int = _call(types.int64, ir.IntType(64))
    call_void = _call(types.void, ir.VoidType())
