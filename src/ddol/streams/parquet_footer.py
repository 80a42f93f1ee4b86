"""How many rows the groups of a Parquet file have, from its footer.

The footer is a Thrift structure in the compact protocol; all but the counts is passed over.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ddol.streams.errors import DataError

_MAGIC = b"PAR1"
_TAIL = 8
_ROW_GROUPS, _NUM_ROWS = 4, 3
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)


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
    footer = _Compact(read(size - _TAIL - length, size - _TAIL))
    try:
        counts = footer.row_groups()
    except (IndexError, RecursionError, OverflowError):
        raise _damaged(where, "a damaged footer") from None
    if any(count < 0 for count in counts):
        raise _damaged(where, "a group of less than no rows")
    return counts


def _damaged(where: str, found: str) -> DataError:
    return DataError(f"{where}: found {found}, expected a Parquet file; check or write it again")


@dataclass
class _Compact:
    """A place in a structure."""

    data: bytes
    at: int = 0

    def row_groups(self) -> list[int]:
        """Rows of the groups of a FileMetaData."""
        counts: list[int] = []
        for field, kind in self._fields():
            if field == _ROW_GROUPS and kind == _LIST:
                counts = [self._rows_of_group() for _ in range(self._list()[0])]
            else:
                self._pass(kind)
        return counts

    def _rows_of_group(self) -> int:
        rows = -1
        for field, kind in self._fields():
            if field == _NUM_ROWS and kind == _I64:
                rows = self._signed()
            else:
                self._pass(kind)
        return rows

    def _fields(self) -> Any:
        """Numbers and types of the fields of a structure, each to be read before the next."""
        field = 0
        while head := self._byte():
            step, kind = head >> 4, head & 15
            field = field + step if step else self._signed()
            yield field, kind

    def _byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def _unsigned(self) -> int:
        value, shift = 0, 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
            if shift > 63:
                raise OverflowError

    def _signed(self) -> int:
        value = self._unsigned()
        return (value >> 1) ^ -(value & 1)

    def _list(self) -> tuple[int, int]:
        head = self._byte()
        count = head >> 4
        count = self._unsigned() if count == 15 else count
        if count > len(self.data):
            raise OverflowError
        return count, head & 15

    def _pass(self, kind: int) -> None:
        if kind == _BYTE:
            self.at += 1
        elif kind in (_I16, _I32, _I64):
            self._unsigned()
        elif kind == _DOUBLE:
            self.at += 8
        elif kind == _BINARY:
            length = self._unsigned()  # reading it moves the place
            self.at += length
        elif kind in (_LIST, _SET):
            count, inner = self._list()
            for _ in range(count):
                # Truth values take a byte in a list and none in a structure.
                self._pass(_BYTE if inner in (_TRUE, _FALSE) else inner)
        elif kind == _MAP:
            self._pass_map()
        elif kind == _STRUCT:
            for _, inner in self._fields():
                self._pass(inner)
        elif kind not in (_TRUE, _FALSE):
            raise OverflowError

    def _pass_map(self) -> None:
        count = self._unsigned()
        if not count:
            return
        if count > len(self.data):
            raise OverflowError
        kinds = self._byte()
        for _ in range(count):
            self._pass(kinds >> 4)
            self._pass(kinds & 15)
