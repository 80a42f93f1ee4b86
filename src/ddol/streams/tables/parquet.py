"""Parquet tables through polars, a row group at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from functools import cache, cached_property, partial
from typing import Any

from ddol.streams.errors import DataError
from ddol.streams.formats import ReadOptions
from ddol.streams.over.parallel import in_order
from ddol.streams.raw import Table
from ddol.streams.store.files import check_readable, describe_paths, is_remote, read_range, size_of
from ddol.streams.store.login import login_of
from ddol.streams.store.room import check_room
from ddol.streams.stream import Parsed, Piece, Position
from ddol.streams.tables.frames import is_strange, polars_reading, table_of_frame
from ddol.streams.tables.one_core import on_one_core
from ddol.streams.tables.parquet_footer import group_rows
from ddol.values import dataclass

_PIECE_BYTES = 8 << 20
_KNOWN_TO_POLARS = ("s3", "s3a", "gs", "az", "abfs", "abfss", "http", "https", "file")


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
        Columns to leave out, and those of the model where there is one: what nobody looks at may hold
        anything, and is given as zeros.
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
        step = self.piece_rows or max(1, _PIECE_BYTES // (8 * self._width))
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
    def _counts(self) -> dict[int, list[int]]:
        return {}

    def _count(self, file: int) -> list[int]:
        """Rows of the groups of a file."""
        if file not in self._counts:
            path = self.paths[file]
            check_readable(path)
            size = size_of(path)
            assert size is not None
            self._counts[file] = group_rows(partial(read_range, path), size, path)
        return self._counts[file]

    def _groups(self, file: int) -> list[_Group]:
        """The groups of a file of which rows are read."""
        first, last = 0, sum(self._count(file))
        if self.part is not None:
            earlier = sum(sum(self._count(each)) for each in range(file))
            first, last = self.part[0] - earlier, self.part[1] - earlier
        found, before = [], 0
        scan = cache(partial(self.scan, file))  # which has read the footer, for all groups
        for number, rows in enumerate(self._count(file)):
            own = max(0, first - before), min(rows, last - before)
            if own[0] < own[1]:
                found.append(_Group(self, scan, file, number, before, *own))
            before += rows
        return found

    @cached_property
    def _width(self) -> int:
        if self.columns is not None:
            return max(1, len(self.columns))
        with polars_reading(self.paths[0]):
            return max(1, len(self.scan(0).collect_schema()))

    def scan(self, file: int) -> Any:
        """The file as a lazy frame with the columns that are needed."""
        path = self.paths[file]
        with polars_reading(path) as polars:
            frame = polars.scan_parquet(self._source(file), glob=False, **login_of(path))
            kinds = frame.collect_schema()  # it keeps the footer from now on
            if self.drop or self.known is not None:
                unseen = [name for name in kinds if self._is_unseen(polars, name, kinds[name])]
                frame = frame.with_columns(**dict.fromkeys(unseen, polars.lit(0.0)))
            return frame if self.columns is None else frame.select(list(self.columns))

    def _is_unseen(self, polars: Any, name: str, kind: Any) -> bool:
        """Whether nobody will look at a column: it is left out, or no model could have been told of it."""
        extra = self.known is not None and name not in self.known
        return name in self.drop or (extra and is_strange(polars, kind))

    def _source(self, file: int) -> str | bytes:
        path = self.paths[file]
        if not is_remote(path):
            return path
        if path.partition("://")[0] in _KNOWN_TO_POLARS:
            from ddol.streams.store.remote import in_parts

            return in_parts(path)
        if file not in self._kept:
            self._kept.clear()
            self._kept[file] = read_range(path, 0, size_of(path) or 0)
        return self._kept[file]

    @cached_property
    def _kept(self) -> dict[int, bytes]:
        """The present file, where it comes from a store that polars cannot read in parts."""
        return {}


class _Group:
    """Rows `first` to `last` (exclusive) of a row group, in memory from the first piece to the last."""

    def __init__(
        self,
        stream: ParquetStream,
        scan: Callable[[], Any],
        file: int,
        number: int,
        before: int,
        first: int,
        last: int,
    ) -> None:
        self.stream, self.scan, self.file, self.number = stream, scan, file, number
        self.before, self.first, self.last = before, first, last
        self.left = last - first
        self._lock = threading.Lock()
        self._frame: Any = None

    def __len__(self) -> int:
        return self.last - self.first

    def piece(self, lo: int, hi: int) -> Parsed:
        """Rows `lo` to `hi` (exclusive) of the group."""
        path = self.stream.paths[self.file]
        with polars_reading(path) as polars, self._lock:
            if self._frame is None:
                # A value takes a byte or more, whatever it takes in the file.
                least = len(self) * self.stream._width
                check_room(
                    f"{path}: group {self.number}", least, "write it with smaller row groups"
                )
                rows = self.scan().slice(self.before + self.first, len(self))
                with on_one_core(polars):
                    frame = rows.collect()
                if frame.height != len(self):
                    raise DataError(
                        f"{path}: found {frame.height} rows in group {self.number}, expected {len(self)} "
                        "as its footer says; write the file again"
                    )
                self._frame = frame
            piece = self._frame[lo - self.first : hi - self.first]
            self.left -= hi - lo
            if not self.left:
                self._frame = None
        with polars_reading(path):
            table = table_of_frame(piece, path)
        ended = hi == self.last
        end = {"file": self.file, "group": self.number + ended, "row": 0 if ended else hi}
        return Parsed(
            table, lambda position: end, lambda row: f"{path}: row {self.before + lo + row + 1}"
        )


def open_parquet(paths: tuple[str, ...], options: ReadOptions) -> ParquetStream:
    """Stream over Parquet files."""
    return ParquetStream(paths, options.columns, options.drop, options.kinds)
