"""Parquet tables through pyarrow, a row group at a time."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

from ddol.streams.coding.columns import one_of
from ddol.streams.errors import DataError
from ddol.streams.formats import ReadOptions
from ddol.streams.over.parallel import in_order
from ddol.streams.raw import Table
from ddol.streams.store.files import check_readable, describe_paths, is_remote, open_bytes
from ddol.streams.store.room import check_room
from ddol.streams.stream import Parsed, Piece, Position
from ddol.streams.tables.frames import import_arrow, is_strange, table_of_arrow

_PIECE_BYTES = 8 << 20


@dataclass(frozen=True)
class ParquetStream:
    """A stream over one or more Parquet files, read one after the other, as `Table`.

    A position says which file, which of its row groups, and how many rows of it were read.

    Parameters
    ----------
    paths
        File names.
    columns
        Columns that are needed; the others are not read. All if not given.
    drop, known
        Columns to leave out, and those of the model where there is one. Columns whose values are never used
        may have any type, and become zeros.
    piece_rows
        Rows that are given at a time; by default as many as take 8 MB.
    part
        Only rows between these numbers, of all files together.

    Examples
    --------
    >>> import polars, tempfile, pathlib
    >>> path = str(pathlib.Path(tempfile.mkdtemp(), "two.parquet"))
    >>> polars.DataFrame({"age": [30.0, 40.0], "ill": [True, False]}).write_parquet(path)
    >>> [(table, position)] = ParquetStream((path,)).read()
    >>> table.columns["age"], position
    (array([30., 40.]), {'file': 0, 'group': 1, 'row': 0})
    """

    paths: tuple[str, ...]
    columns: tuple[str, ...] | None = None
    drop: tuple[str, ...] = ()
    known: Collection[str] | None = None
    piece_rows: int | None = None
    part: tuple[int, int] | None = None

    @property
    def n_features(self) -> None:
        """Columns have names."""

    @property
    def restartable(self) -> bool:
        """Files can be read again."""
        return True

    @cached_property
    def n_examples(self) -> int:
        """Number of rows that are read of all files, from their footers."""
        return sum(len(group) for file in range(len(self.paths)) for group in self._groups(file))

    def read(
        self, position: Position | None = None, pass_number: int = 0
    ) -> Iterator[tuple[Table, Position]]:
        """Yield rows of one group after the other."""
        return in_order((piece() for piece in self.pieces(position, pass_number)), position)

    def pieces(self, position: Position | None = None, pass_number: int = 0) -> Iterator[Piece]:
        """Yield parts of groups that have yet to be read; see `Stream`."""
        at = position or {"file": 0, "group": 0, "row": 0}
        if not self.n_examples and self.part is None:
            raise DataError(f"{self.describe()}: found no rows, expected examples")
        for file in range(at["file"], len(self.paths)):
            for group in self._groups(file):
                if file > at["file"] or group.number >= at["group"]:
                    here = file == at["file"] and group.number == at["group"]
                    yield from self._cut(group, max(at["row"] if here else 0, group.first))

    def _cut(self, group: _Group, first: int) -> Iterator[Piece]:
        width = len(self.columns_of(group.file)[0])
        step = self.piece_rows or max(1, _PIECE_BYTES // (8 * max(1, width)))
        group.left = group.last - first
        for lo in range(first, group.last, step):
            yield partial(group.piece, lo, min(lo + step, group.last))

    def describe(self) -> str:
        """Name of the file, or of the first and how many more."""
        return describe_paths(self.paths)

    def progress(self, position: Position | None) -> tuple[int, int] | None:
        """Rows read and in total."""
        at = position or {"file": 0, "group": 0, "row": 0}
        done = 0
        for file in range(min(at["file"] + 1, len(self.paths))):
            for group in self._groups(file):
                if file < at["file"] or group.number < at["group"]:
                    done += len(group)
                elif group.number == at["group"]:
                    done += max(0, at["row"] - group.first)
        return done, self.n_examples

    def locate(self, position: Position | None, row: int) -> str:
        """File and row number."""
        at = position or {"file": 0, "group": 0, "row": 0}
        found = self._groups(at["file"])
        group = next((group for group in found if group.number >= at["group"]), None)
        before = 0 if group is None else group.before + max(at["row"], group.first)
        return f"{self.paths[at['file']]}: row {before + row + 1}"

    def part_of(self, number: int, parts: int) -> ParquetStream:
        """The rows of one of `parts` contiguous parts, about equal in rows."""
        n = self.n_examples
        return replace(self, part=(n * number // parts, n * (number + 1) // parts))

    @cached_property
    def _opened(self) -> dict[int, _ParquetFile]:
        return {}

    def _file(self, number: int) -> _ParquetFile:
        if number not in self._opened:
            self._opened[number] = _ParquetFile.open(self.paths[number])
        return self._opened[number]

    def _groups(self, file: int) -> list[_Group]:
        """The row groups of a file of which rows are read."""
        opened = self._file(file)
        first, last = 0, sum(opened.rows)
        if self.part is not None:
            earlier = sum(sum(self._file(each).rows) for each in range(file))
            first, last = self.part[0] - earlier, self.part[1] - earlier
        found, before = [], 0
        for number, rows in enumerate(opened.rows):
            own = max(0, first - before), min(rows, last - before)
            if own[0] < own[1]:
                found.append(_Group(self, file, number, before, *own))
            before += rows
        return found

    def columns_of(self, file: int) -> tuple[list[str], list[str]]:
        """Columns that a file's tables have, and those among them whose values are never used."""
        kinds = self._file(file).kinds
        unused = [
            name
            for name, kind in kinds.items()
            if name in self.drop
            or (self.known is not None and name not in self.known and is_strange(kind))
        ]
        return list(self.columns if self.columns is not None else kinds), unused

    def load(self, file: int, group: int) -> Any:
        """One row group as a table of pyarrow: only columns that are needed, on the calling thread."""
        opened = self._file(file)
        names, unused = self.columns_of(file)
        needed = [name for name in names if name not in unused]
        lost = [name for name in needed if name not in opened.kinds]
        if lost:
            raise DataError(
                f"{opened.path}: found no column {lost[0]!r}, expected {one_of(opened.kinds, lost[0])}"
            )
        # A value takes a byte or more, whatever it takes in the file.
        least = opened.rows[group] * max(1, len(needed))
        check_room(f"{opened.path}: group {group}", least, "write it with smaller row groups")
        table = opened.read(group, needed)
        if len(table) != opened.rows[group]:
            raise DataError(
                f"{opened.path}: found {len(table)} rows in group {group}, expected {opened.rows[group]} "
                "as its footer says; write the file again"
            )
        return table


@dataclass(frozen=True)
class _ParquetFile:
    """The footer of a file, which is read once."""

    path: str
    footer: Any
    rows: tuple[int, ...]
    kinds: dict[str, Any]

    @classmethod
    def open(cls, path: str) -> _ParquetFile:
        check_readable(path)
        import_arrow(path)
        with _reading(path), _source(path) as file:
            import pyarrow.parquet

            footer = pyarrow.parquet.read_metadata(file)
            rows = tuple(footer.row_group(k).num_rows for k in range(footer.num_row_groups))
            schema = footer.schema.to_arrow_schema()
        if min(rows, default=0) < 0:
            raise DataError(f"{path}: found a group of less than no rows; write the file again")
        names = list(dict.fromkeys(schema.names))
        return cls(
            path,
            footer,
            rows,
            {name: schema.field(schema.names.index(name)).type for name in names},
        )

    def read(self, group: int, names: list[str]) -> Any:
        """Columns of a row group; in a store, ranges that lie side by side are one request."""
        with _reading(self.path), _source(self.path) as file:
            import pyarrow.parquet

            opened = pyarrow.parquet.ParquetFile(
                file, metadata=self.footer, pre_buffer=is_remote(self.path)
            )
            return opened.read_row_group(group, columns=names, use_threads=False).select(names)


def _source(path: str) -> Any:
    """An open file, for pyarrow."""
    import pyarrow

    return open_bytes(path) if is_remote(path) else pyarrow.OSFile(path)


@contextmanager
def _reading(path: str) -> Iterator[None]:
    """Turn pyarrow's errors about a damaged file into a `DataError` that names it."""
    try:
        if is_remote(path):
            from ddol.streams.store.remote import waiting_for

            with waiting_for(path):
                yield
        else:
            yield
    except DataError:
        raise
    except Exception as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise DataError(
            f"{path}: cannot be read ({reason[:200]}); expected a Parquet file; check or write it again"
        ) from None


class _Group:
    """Rows `first` to `last` (exclusive) of a row group, in memory from the first piece to the last."""

    def __init__(
        self, stream: ParquetStream, file: int, number: int, before: int, first: int, last: int
    ) -> None:
        self.stream, self.file, self.number = stream, file, number
        self.before, self.first, self.last = before, first, last
        self.left = last - first
        self._lock = threading.Lock()
        self._table: Any = None

    def __len__(self) -> int:
        return self.last - self.first

    def piece(self, lo: int, hi: int) -> Parsed:
        """Rows `lo` to `hi` (exclusive) of the group."""
        path = self.stream.paths[self.file]
        with self._lock:
            if self._table is None:
                self._table = self.stream.load(self.file, self.number)
            piece = self._table.slice(lo, hi - lo)
            self.left -= hi - lo
            if not self.left:
                self._table = None
        names, unused = self.stream.columns_of(self.file)
        with _reading(path):
            table = table_of_arrow(piece, path, names, unused)
        ended = hi == self.last
        end = {"file": self.file, "group": self.number + ended, "row": 0 if ended else hi}
        return Parsed(
            table, lambda position: end, lambda row: f"{path}: row {self.before + lo + row + 1}"
        )


def open_parquet(paths: tuple[str, ...], options: ReadOptions) -> ParquetStream:
    """Stream over Parquet files."""
    return ParquetStream(paths, None, options.drop, options.kinds or None)
