"""Where predictions go: lines, CSV or Parquet, with the identifiers of the examples beside them."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, TextIO

import numpy as np

from ddol.cli.errors import printable
from ddol.job.predictions import text_of
from ddol.storage import naming, written_beside
from ddol.streams.coding.encoder import Encoder
from ddol.streams.coding.labels import listed
from ddol.streams.errors import DataError
from ddol.streams.raw import Raw, Table, Text
from ddol.streams.rows import Rows


class Sink(Protocol):
    """Takes predictions, block after block."""

    def add(self, found: np.ndarray, ids: Sequence[str] | None) -> None:
        """Write the predictions (n,) or (n, classes) of the next examples, with their identifiers."""


@contextmanager
def opened(out: str | None, columns: Sequence[str], id_: str | None) -> Iterator[Sink]:
    """What writes predictions, by the extension of a file: .csv and .tsv, .parquet, or lines.

    Parameters
    ----------
    out : str or None
        File name; None is standard output.
    columns : sequence of str
        What the columns of a table are called.
    id_ : str or None
        The column of identifiers, if they are to be written.
    """
    ending = "" if out is None else Path(out).suffix.lower()
    names = [*([] if id_ is None else [id_]), *columns]
    if out is None:
        yield _PredictionLines(sys.stdout, None)
    elif ending in (".parquet", ".pq"):
        with written_beside(out) as beside, _ParquetTable.opened(out, str(beside), names) as table:
            yield table
    else:
        with written_beside(out) as beside:
            file = beside.open("w", encoding="utf-8", newline="")
            try:
                comma = {".csv": ",", ".tsv": "\t", ".tab": "\t"}.get(ending)
                yield (
                    _PredictionLines(file, out)
                    if comma is None
                    else _CsvTable(file, out, names, comma)
                )
            finally:
                with naming(out):  # what is buffered is written now
                    file.close()


@dataclass
class _PredictionLines:
    """A line for each example; its identifier stands before a tabulator."""

    file: TextIO
    out: str | None

    def add(self, found: np.ndarray, ids: Sequence[str] | None) -> None:
        text = text_of(found)
        if ids is not None:
            text = "".join(f"{i}\t{t}\n" for i, t in zip(ids, text.splitlines(), strict=True))
        with _named(self.out):
            self.file.write(_for_terminal(text) if self.file.isatty() else text)
            self.file.flush()


class _CsvTable:
    """Comma- or tab-separated cells below a line of names."""

    def __init__(self, file: TextIO, out: str, names: Sequence[str], comma: str) -> None:
        self.file, self.out, self.comma = file, out, comma
        self._write([names])

    def add(self, found: np.ndarray, ids: Sequence[str] | None) -> None:
        values = found.reshape(len(found), -1).tolist()
        rows = values if ids is None else ([i, *row] for i, row in zip(ids, values, strict=True))
        self._write(rows)

    def _write(self, rows: Any) -> None:
        text = io.StringIO()
        csv.writer(text, delimiter=self.comma, lineterminator="\n").writerows(rows)
        with naming(self.out):
            self.file.write(text.getvalue())
            self.file.flush()


class _ParquetTable:
    """A Parquet file, a row group for each block; columns have the types of the first one."""

    def __init__(self, out: str, path: str, names: Sequence[str]) -> None:
        try:
            import pyarrow as pa
            import pyarrow.parquet as pq
        except ImportError:
            raise DataError(
                f"{out}: writing Parquet needs the pyarrow package; pip install ddol[tables]"
            ) from None
        self.pa, self.pq = pa, pq
        self.out, self.path, self.names = out, path, names
        self.writer: Any = None

    @classmethod
    @contextmanager
    def opened(cls, out: str, path: str, names: Sequence[str]) -> Iterator[_ParquetTable]:
        table = cls(out, path, names)
        try:
            yield table
        finally:
            if table.writer is not None:
                with naming(out):
                    table.writer.close()

    def add(self, found: np.ndarray, ids: Sequence[str] | None) -> None:
        values = found.reshape(len(found), -1)
        columns = [self.pa.array(column.tolist()) for column in values.T]
        columns = columns if ids is None else [self.pa.array(list(ids)), *columns]
        table = self.pa.table(dict(zip(self.names, columns, strict=True)))
        with naming(self.out):
            if self.writer is None:
                self.writer = self.pq.ParquetWriter(self.path, table.schema)
            self.writer.write_table(table)


@dataclass(frozen=True)
class Identified:
    """Encoded rows, and which examples they are."""

    rows: Rows
    ids: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.rows)


def identifying(encoder: Encoder, id_: str) -> Callable[[Raw, Callable[[int], str]], Any]:
    """A change of blocks to encoded rows with their identifiers; rows that are skipped have none."""

    def change(block: Raw, where: Callable[[int], str]) -> Any:
        cells = block.columns.get(id_) if isinstance(block, Table) else None
        if not isinstance(block, Table):
            raise DataError(f"{where(0)}: --id {id_} is for tables; here columns have no names")
        if cells is None:
            names = listed(list(block.columns), 8)
            raise DataError(f"{where(0)}: found no column {id_!r} among {names}; correct --id")
        rows = encoder.rows(block, where)
        kept = range(len(block)) if len(rows) == len(block) else _kept(_silent(encoder), block)
        return Identified(rows, tuple(_word(cells, row) for row in kept))

    return change


def _kept(encoder: Encoder, block: Table, first: int = 0) -> list[int]:
    """Numbers of the rows of a block that are not skipped, found by halves."""
    n = len(block)
    left = len(encoder.rows(block))
    if left in (0, n):
        return list(range(first, first + left))
    half = n // 2
    return [
        *_kept(encoder, block.slice(0, half), first),
        *_kept(encoder, block.slice(half, n), first + half),
    ]


def _silent(encoder: Encoder) -> Encoder:
    """The same encoder, which counts what it skips by itself."""
    return Encoder(encoder.start, learning=False, labelled=encoder.labelled, skip=True)


def _word(cells: Any, row: int) -> str:
    if isinstance(cells, Text):
        return cells.cell(row) or ""
    return listed([float(cells[row])])


def without_column(encoder: Encoder, id_: str) -> Encoder:
    """An encoder that ignores the identifiers, which are no features."""
    known = replace(encoder.start, dropped=(*encoder.start.dropped, id_))
    return Encoder(known, False, encoder.labelled, encoder.skip, encoder.warn)


@contextmanager
def _named(out: str | None) -> Iterator[None]:
    if out is None:
        yield
        return
    with naming(out):
        yield


def _for_terminal(text: str) -> str:
    """Labels as a terminal may have them; a file or a program gets them as they are."""
    return "".join(f"{printable(line)}\n" for line in text.split("\n")[:-1])
