"""Intrinsics of compiled code beyond plain Python: pointers, calls by address, atomics.

Here is what each means to the interpreter, which runs it where NUMBA_DISABLE_JIT=1 is set and
outside of hot loops; `ddol.compiled.compiler` has the machine code of the same names.

Loops over a row are written once for dense and sparse rows: the row's values are ``x[0..n)`` and
``column(index, j)`` says which feature the j-th value belongs to. The dense variant is compiled with
an integer in the place of ``index``, so that ``column`` is ``j`` there and the loop vectorises.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import struct
import time
from collections.abc import Iterator
from typing import Any, get_type_hints

import numpy as np


def column(index: Any, j: int) -> int:
    """Feature of the j-th value of a row: ``j`` in a dense row, ``index[j]`` in a sparse one."""
    return j if isinstance(index, int) else int(index[j])


def sparse(index: Any) -> bool:
    """Whether a row is sparse; what is said for sparse rows only is not compiled for dense ones."""
    return not isinstance(index, int)


# --- memory --------------------------------------------------------------------------------------


def _pointer(address: int, kind: Any) -> Any:
    return ctypes.cast(int(address), ctypes.POINTER(kind))


def floats(address: int) -> Any:
    """The float64 numbers at an address, to be indexed."""
    return _pointer(address, ctypes.c_double)


def integers(address: int) -> Any:
    """The int64 numbers at an address."""
    return _pointer(address, ctypes.c_int64)


def indices(address: int) -> Any:
    """The uint32 numbers at an address."""
    return _pointer(address, ctypes.c_uint32)


def ints(address: int) -> Any:
    """The int32 numbers at an address."""
    return _pointer(address, ctypes.c_int32)


def bytes_at(address: int) -> Any:
    """The bytes at an address."""
    return _pointer(address, ctypes.c_uint8)


def address_of(pointer: Any, places: int) -> int:
    """Address of an element of what a pointer points to, or of an array, or of bytes."""
    if isinstance(pointer, bytes):
        return (ctypes.cast(ctypes.c_char_p(pointer), ctypes.c_void_p).value or 0) + places
    if isinstance(pointer, np.ndarray):
        return int(pointer.ctypes.data) + places * pointer.itemsize
    size = ctypes.sizeof(pointer._type_)
    return ctypes.addressof(pointer.contents) + places * size


def row(w: Any, k: int, D: int) -> Any:
    """Row k, a constant, of a state: D numbers which no other row shares, as the compiler may count on."""
    if isinstance(w, np.ndarray):
        return w[k * D : (k + 1) * D]
    return floats(address_of(w, k * D))


def bits(number: float) -> int:
    """The bits of a float64, as an integer: how an address travels among numbers."""
    return int(np.float64(number).view(np.int64))


def from_bits(word: int) -> float:
    """The float64 that has these bits."""
    return float(np.uint64(word).view(np.float64))


def first_of(address: int, byte: int) -> int:
    """Which of the 64 bytes at an address is the first that is `byte`; 64 for none."""
    place = ctypes.string_at(int(address), 64).find(bytes([byte]))
    return 64 if place < 0 else place


def word_at(address: int) -> np.uint64:
    """The eight bytes at an address, the first of them the lowest."""
    return np.uint64(int.from_bytes(ctypes.string_at(int(address), 8), "little"))


def trailing_zeros(word: int) -> int:
    """Number of zero bits below the lowest bit that is set; 64 of 0."""
    word = int(word)
    return (word & -word).bit_length() - 1 if word else 64


def copy_floats(source: int, target: int) -> None:
    """Copy eight float64 from one address to another."""
    ctypes.memmove(int(target), int(source), 64)


def copy_raised(source: int, target: int) -> None:
    """Copy eight uint32, each one larger, from one address to another."""
    for k, number in enumerate(indices(source)[:8]):
        indices(target)[k] = number + 1


def prefetch(address: int) -> None:
    """Ask for the cache line behind an address, to be read at once: into the nearest cache."""


def prefetch_far(address: int) -> None:
    """Ask for the cache line behind an address, to be read soon: into the second cache.

    Many lines at a time may be under way to that one.
    """


@functools.cache
def _fields(kind: Any) -> dict[str, type]:
    """Names and types of the fields of a NamedTuple: int, float, bool, or a NamedTuple of these."""
    return get_type_hints(kind)


def _size(kind: Any) -> int:
    return sum(map(_size, _fields(kind).values())) if hasattr(kind, "_fields") else 8


@functools.cache
def places_of(kind: Any) -> dict[str, tuple[int, type]]:
    """Where each field of a NamedTuple lies, in bytes, and its type."""
    found, place = {}, 0
    for name, field in _fields(kind).items():
        found[name] = place, field
        place += _size(field)
    return found


@functools.cache
def layout_of(kind: Any) -> struct.Struct:
    """How the fields of a NamedTuple lie in memory: 8 bytes each, those of another one in its place."""
    return struct.Struct("=" + _format(kind))


def _format(kind: Any) -> str:
    if hasattr(kind, "_fields"):
        return "".join(map(_format, _fields(kind).values()))
    return "d" if kind is float else "q"


@functools.cache
def _holds_others(kind: Any) -> bool:
    return any(hasattr(found, "_fields") for found in _fields(kind).values())


def flat(values: tuple) -> tuple:
    """The numbers in a NamedTuple and in those that it holds."""
    if not _holds_others(type(values)):
        return values
    inner = (flat(value) if isinstance(value, tuple) else (value,) for value in values)
    return tuple(itertools.chain.from_iterable(inner))


def _nested(kind: Any, numbers: Iterator[Any]) -> Any:
    if hasattr(kind, "_fields"):
        return kind(*(_nested(found, numbers) for found in _fields(kind).values()))
    return next(numbers)


def unpacked(kind: Any, data: Any) -> Any:
    """The NamedTuple whose fields lie one after the other in memory; see `parts.packed`."""
    layout = layout_of(kind)
    held = data if isinstance(data, bytes) else ctypes.string_at(data, layout.size)
    return _nested(kind, iter(layout.unpack(held)))


# --- calls ---------------------------------------------------------------------------------------


def _word(argument: Any) -> int:
    """An int64, or the address that a pointer has; `int` of a pointer would read its bytes as digits."""
    return address_of(argument, 0) if hasattr(argument, "contents") else int(argument)


def _called(result: Any, address: int, arguments: tuple) -> Any:
    kinds = {float: ctypes.c_double, np.float64: ctypes.c_double}
    types = [kinds.get(type(a), ctypes.c_int64) for a in arguments]
    plain = [
        float(a) if kind is ctypes.c_double else _word(a)
        for a, kind in zip(arguments, types, strict=True)
    ]
    return ctypes.CFUNCTYPE(result, *types)(int(address))(*plain)


def call_float(address: int, arguments: tuple) -> float:
    """Call the C function at an address, which returns a double."""
    return float(_called(ctypes.c_double, address, arguments))


def call_int(address: int, arguments: tuple) -> int:
    """Call the C function at an address, which returns an int64."""
    return int(_called(ctypes.c_int64, address, arguments))


def call_int32(address: int, arguments: tuple) -> int:
    """Call the C function at an address, which returns an int, as MPI's do."""
    return int(_called(ctypes.c_int32, address, arguments))


def call_void(address: int, arguments: tuple) -> None:
    """Call the C function at an address, which returns nothing."""
    _called(None, address, arguments)


# --- threads -------------------------------------------------------------------------------------
# The interpreter runs one thread at a time, so that plain reads and writes are atomic there.


def atomic_add(words: Any, i: int, value: int) -> int:
    """Add to an int64 in one step and return what was there before."""
    before = int(words[i])
    words[i] = before + value
    return before


def atomic_load(words: Any, i: int) -> int:
    """Read an int64, and see all that its writer wrote before it (acquire)."""
    return int(words[i])


def atomic_store(words: Any, i: int, value: int) -> None:
    """Write an int64 after everything written before it (release)."""
    words[i] = value


def pause() -> None:
    """Tell the processor that this is a spin loop; does nothing but on x86."""


def yield_core() -> None:
    """Let another thread have the core."""


def nap(microseconds: int) -> None:
    """Let this thread sleep."""
    time.sleep(microseconds * 1e-6)
