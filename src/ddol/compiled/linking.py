"""Object code put where it can be called, without LLVM.

Compiled code names whatever is outside of it by whole addresses, and to link it is to write these down. To
load LLVM for that would take a fifth of the time of a short command. What is not as simple is left to it.
"""

from __future__ import annotations

import ctypes
import functools
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

# As ELF numbers them; <elf.h> has all.
_64_BITS = b"\x7fELF\x02\x01\x01"
_X86_64 = 62
_CONTENT, _SYMBOLS, _PLACES = 1, 2, 4
_WRITTEN_TO, _IN_MEMORY = 1, 2
_ELSEWHERE = 0
_WHOLE_ADDRESS = 1
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_PLACE = struct.Struct("<QQq")
_ADDRESS = struct.Struct("<Q")
_READ_AND_RUN = 1 | 4  # of <sys/mman.h>


class NotSimpleError(Exception):
    """There is something in the code, or about this system, that takes LLVM."""


class Loaded(NamedTuple):
    """A function in memory: good while its owner lives."""

    address: int
    owner: Any


class _Section(NamedTuple):
    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry: int


class _Object:
    """An object file: its sections, and its symbols as (name, section, value)."""

    def __init__(self, code: bytes) -> None:
        self.code = code
        if not code.startswith(_64_BITS):
            raise NotSimpleError("another format")
        header = _HEADER.unpack_from(code)
        machine, first, count = header[2], header[6], header[12]
        if machine != _X86_64:
            raise NotSimpleError("another processor")
        table = code[first : first + count * _SECTION.size]
        self.sections = [_Section(*each) for each in _SECTION.iter_unpack(table)]
        [symbols] = (section for section in self.sections if section.kind == _SYMBOLS)
        names = self.content(self.sections[symbols.link])
        self.symbols = [
            (names[name : names.index(b"\0", name)].decode(), section, value)
            for name, _, _, section, value, _ in _SYMBOL.iter_unpack(self.content(symbols))
        ]

    def content(self, section: _Section) -> bytes:
        return self.code[section.offset : section.offset + section.size]

    def laid_out(self) -> tuple[dict[int, int], int]:
        """Where sections begin that are needed in memory, and how long they are together."""
        starts, end = {}, 0
        for number, section in enumerate(self.sections):
            flags = section.flags & (_WRITTEN_TO | _IN_MEMORY)
            if section.kind == _CONTENT and flags == _IN_MEMORY:
                start = -(-end // section.alignment) * section.alignment
                starts[number], end = start, start + section.size
        return starts, end

    def addresses(self, starts: dict[int, int], base: int) -> Iterator[tuple[int, int]]:
        """Places in memory, and the address to be written there."""
        for section in self.sections:
            if section.kind != _PLACES or section.info not in starts:
                continue
            for place, info, shift in _PLACE.iter_unpack(self.content(section)):
                name, home, value = self.symbols[info >> 32]
                if info & 0xFFFFFFFF != _WHOLE_ADDRESS:
                    raise NotSimpleError("part of an address")
                if home == _ELSEWHERE:
                    found = _address_of(name)
                elif home in starts:
                    found = base + starts[home] + value
                else:
                    raise NotSimpleError(f"{name} is in memory of its own")
                yield starts[section.info] + place, found + shift


def link(symbol: str, code: bytes) -> Loaded:
    """Put object code into memory and link it against this process.

    Raises
    ------
    NotSimpleError
        It takes LLVM to do that.
    """
    try:
        return _linked(symbol, _Object(code))
    except (struct.error, ValueError, IndexError, OSError, ImportError) as error:
        raise NotSimpleError(str(error)) from None


def _linked(symbol: str, found: _Object) -> Loaded:
    import mmap  # not with these names on every system

    starts, size = found.laid_out()
    memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for number, start in starts.items():
        section = found.sections[number]
        memory[start : start + section.size] = found.content(section)
    for place, address in found.addresses(starts, base):
        _ADDRESS.pack_into(memory, place, address)
    [home] = {
        base + starts[section] + value
        for name, section, value in found.symbols
        if name == symbol and section in starts
    }
    if _process().mprotect(ctypes.c_void_p(base), ctypes.c_size_t(size), _READ_AND_RUN):
        raise NotSimpleError("memory is not to be run")
    return Loaded(home, memory)


@functools.cache
def _process() -> ctypes.CDLL:
    return ctypes.CDLL(None)


@functools.cache
def _address_of(name: str) -> int:
    """Where a function of the C library is."""
    function = getattr(_process(), name, None)
    if function is None:
        raise NotSimpleError(f"no {name}")
    return ctypes.cast(function, ctypes.c_void_p).value or 0
