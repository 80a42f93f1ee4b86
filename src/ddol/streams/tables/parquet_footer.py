"""How many rows the groups of a Parquet file have, from its footer.

The footer is a Thrift structure in the compact protocol; all but the counts is passed over. There are some
twenty numbers for every column of every group, so that it is compiled code that walks.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ddol.compiled import bytes_at, entry, inner, integers
from ddol.streams.errors import DataError

_MAGIC = b"PAR1"
_TAIL = 8
_ROW_GROUPS, _NUM_ROWS = 4, 3
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)
_DEEPEST = 32


def group_rows(read: Callable[[int, int], bytes], size: int, where: str) -> list[int]:
    """Rows of each row group.

    Parameters
    ----------
    read
        Gives the bytes between two places of the file.
    size
        Of the file.
    where
        What messages call it.
    """
    tail = read(max(0, size - _TAIL), size)
    length = int.from_bytes(tail[:4], "little") if len(tail) == _TAIL else 0
    if tail[4:] != _MAGIC or not 0 < length <= size - _TAIL:
        raise _damaged(where, "no footer")
    footer = np.frombuffer(read(size - _TAIL - length, size - _TAIL), np.uint8)
    counts, levels = np.empty(len(footer) + 1, np.int64), np.zeros(3 * _DEEPEST, np.int64)
    arrays = (footer, levels, counts)
    groups = _walk(len(footer), *(array.ctypes.data for array in arrays))
    if groups < 0:
        raise _damaged(where, "a damaged footer")
    found: list[int] = counts[:groups].tolist()
    if any(count < 0 for count in found):
        raise _damaged(where, "a group of less than no rows")
    return found


def _damaged(where: str, found: str) -> DataError:
    return DataError(f"{where}: found {found}, expected a Parquet file; check or write it again")


@inner
def _number(data, p, size):  # type: ignore[no-untyped-def]
    """The number at a place, without a sign, and the place after it; beyond the end if it has none."""
    value, shift = 0, 0
    while p < size and shift < 64:
        byte = data[p]
        p += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, p
    return 0, size + 1


@inner
def _signed(value):  # type: ignore[no-untyped-def]
    return (value >> 1) ^ -(value & 1)


@inner
def _opened(data, p, size, kind, level):  # type: ignore[no-untyped-def]
    """Begin a list, map or structure at a level: values left or -1, their types, field; the place within."""
    count, kinds = -1, 0
    if kind in (_LIST, _SET):
        head = data[p] if p < size else 0
        p += 1
        count, kinds = head >> 4, 17 * (head & 15)
        if count == 15:
            count, p = _number(data, p, size)
    elif kind == _MAP:
        count, p = _number(data, p, size)
        if count > 0:
            kinds = data[p] if p < size else 0
            p += 1
        count *= 2
    elif kind != _STRUCT:
        p = size + 1
    level[0], level[1], level[2] = count, kinds, 0
    return size + 1 if kind != _STRUCT and count < 0 else p


@entry("int64(int64, int64, int64, int64)")
def _walk(size, data, levels, counts):  # type: ignore[no-untyped-def]
    """Write the rows of every group down: how many groups, or -1 where it is no footer.

    `levels` has three numbers for each structure, list or map that the place is in; see `_opened`.
    """
    data, counts = bytes_at(data), integers(counts)
    top = integers(levels)
    top[0] = -1
    p, depth, groups = 0, 0, 0
    while depth >= 0:
        level = integers(levels + 24 * depth)
        in_group = depth == 2 and top[2] == _ROW_GROUPS
        if level[0] == 0:
            depth -= 1
            continue
        if level[0] < 0:
            head = data[p] if p < size else 0
            p += 1
            if p > size:
                return -1
            if head == 0:
                groups += in_group
                depth -= 1
                continue
            kind, step = head & 15, head >> 4
            if step:
                level[2] += step
            else:
                value, p = _number(data, p, size)
                level[2] = _signed(value)
        else:
            level[0] -= 1
            kinds = level[1]
            kind, level[1] = kinds >> 4, (kinds & 15) << 4 | kinds >> 4  # of a map in turns
            if kind in (_TRUE, _FALSE):
                kind = _BYTE  # truth values take a byte in a list, and none in a structure
        if kind == _BYTE:
            p += 1
        elif _I16 <= kind <= _I64:
            value, p = _number(data, p, size)
            if in_group and level[2] == _NUM_ROWS:
                counts[groups] = _signed(value)
        elif kind == _DOUBLE:
            p += 8
        elif kind == _BINARY:
            value, p = _number(data, p, size)
            p = size + 1 if value < 0 or value > size else p + value
        elif kind != _TRUE and kind != _FALSE:
            depth += 1
            if depth == _DEEPEST:
                return -1
            p = _opened(data, p, size, kind, integers(levels + 24 * depth))
            if depth == 2 and top[2] == _ROW_GROUPS:
                counts[groups] = -1
        if p > size:
            return -1
    return groups
