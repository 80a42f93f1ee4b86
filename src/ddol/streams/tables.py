"""CSV text, read in chunks and parsed by polars."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddol.streams.columns import Columns, choose_columns
from ddol.streams.errors import DataError
from ddol.streams.files import (
    BEGINNING,
    STDIN,
    Chunk,
    Place,
    describe_paths,
    progress_in,
    read_chunks,
    walk,
)
from ddol.streams.rows import Rows
from ddol.streams.stream import Position


def import_polars(where: str) -> Any:
    """Import polars, or say which extra brings it."""
    try:
        import polars
    except ImportError:
        raise DataError(f"{where}: reading tables needs polars; pip install ddol[tables]") from None
    return polars


@dataclass(frozen=True)
class CsvStream:
    """A stream over one or more CSV files of numbers, read one after the other.

    All cells must be finite numbers. Lines may not be broken inside quotes.

    Parameters
    ----------
    paths
        File names, plain or ending in ``.gz``, ``.bz2`` or ``.zst``; ``-`` is standard input.
    label, weight
        Name or number of these columns; see `choose_columns` for the default.
    header
        Whether the first line of every file names the columns. By default it does when it
        has a cell that is not a number.
    delimiter
        What separates the cells.
    n_examples
        Number of rows when it is known.
    chunk_bytes
        Text that is read at a time.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "two.csv")
    >>> _ = path.write_text("height,label\\n1.5,1\\n1.25,0\\n")
    >>> [(rows, position)] = CsvStream((str(path),)).read()
    >>> rows.data, rows.y
    (array([1.5 , 1.25]), array([1., 0.]))
    """

    paths: tuple[str, ...]
    label: str | int | None = None
    weight: str | int | None = None
    header: bool | None = None
    delimiter: str = ","
    n_examples: int | None = None
    chunk_bytes: int = 2 << 20

    @property
    def restartable(self) -> bool:
        """Whether the text can be read again; standard input cannot."""
        return STDIN not in self.paths

    @property
    def n_features(self) -> int | None:
        """Number of columns besides label and weight; None for standard input."""
        return len(self._layout.columns.features) if self.restartable else None

    def read(
        self, position: Position | None = None, pass_number: int = 0
    ) -> Iterator[tuple[Rows, Position]]:
        """Yield the rows of one chunk after the other, and where the next begins."""
        if not self.restartable and (position or pass_number):
            raise DataError("standard input cannot be read twice; give a file instead")
        import_polars(self.describe())
        at = position or BEGINNING
        row = at["row"]
        layout = self._layout if self.restartable else None
        for chunk, place in walk(self.paths, at, self.chunk_bytes):
            layout = layout or self._layout_of(chunk)
            rows = self._parse(chunk, place, layout)
            row += len(rows)
            if len(rows):
                yield rows, {**place.after(chunk), "row": row, "skipped": 0}
        if not row:
            raise DataError(
                f"{self.describe()}: found no rows below the header, expected examples; "
                "check how the file was made"
            )

    def describe(self) -> str:
        """Name of the file, or of the first and how many more."""
        return describe_paths(self.paths)

    def progress(self, position: Position | None) -> tuple[int, int] | None:
        """Bytes read and in total, as the files are stored."""
        return progress_in(self.paths, position)

    def locate(self, position: Position | None, row: int) -> str:
        """File and line of row `row` of the block after `position`."""
        at = position or BEGINNING
        if not self.restartable:
            return f"{self.describe()}: row {at['row'] + row + 1}"
        for chunk, place in walk(self.paths, at, self.chunk_bytes):
            cells = list(self._cells(chunk, place, self._layout))
            if cells:
                return f"{place.path}:{cells[row][0]}"
        return self.describe()

    @cached_property
    def _layout(self) -> _Layout:
        for chunk in read_chunks(self.paths[0], 0, 1 << 16):
            return self._layout_of(chunk)
        raise DataError(f"{self.describe()}: found an empty file, expected examples")

    def _layout_of(self, chunk: Chunk) -> _Layout:
        first = next(self._split(chunk.text.tobytes().decode("utf-8", "replace")), [])
        header = self.header
        if header is None:
            header = any(_number(cell) is None for cell in first)
        names = first if header else [f"column {k}" for k in range(len(first))]
        names = [name.strip() for name in names]
        return _Layout(choose_columns(names, self.label, self.weight, self.describe()), header)

    def _parse(self, chunk: Chunk, place: Place, layout: _Layout) -> Rows:
        table = self._parse_fast(chunk, layout)
        if table is None:
            # Something is wrong or unusual: go through the cells one by one, to name it.
            cells = self._cells(chunk, place, layout)
            listed = [self._check(place, line, row, layout) for line, row in cells]
            table = np.array(listed).reshape(len(listed), len(layout.columns.names))
        return rows_of_table(table, layout.columns)

    def _parse_fast(self, chunk: Chunk, layout: _Layout) -> NDArray[np.float64] | None:
        polars = import_polars(self.describe())
        names = [str(number) for number in range(len(layout.columns.names))]
        skip = layout.header and chunk.offset == 0
        try:
            frame = polars.read_csv(
                io.BytesIO(chunk.text.data),
                has_header=False,
                skip_lines=int(skip),
                separator=self.delimiter,
                schema=dict.fromkeys(names, polars.Float64),
            )
        except polars.exceptions.PolarsError:
            return None
        table = frame.to_numpy(order="c")
        with np.errstate(invalid="ignore", over="ignore"):
            return table if np.isfinite(table.sum()) else None

    def _cells(
        self, chunk: Chunk, place: Place, layout: _Layout
    ) -> Iterator[tuple[int, list[str]]]:
        """Yield line numbers and cells, without header and blank lines."""
        text = chunk.text.tobytes().decode("utf-8", "replace")
        for line, row in enumerate(self._split(text), place.line):
            if row and not (layout.header and line == 1):
                yield line, row

    def _split(self, text: str) -> Iterator[list[str]]:
        return csv.reader(text.splitlines(), delimiter=self.delimiter)

    def _check(self, place: Place, line: int, row: Sequence[str], layout: _Layout) -> list[float]:
        columns = layout.columns
        where = f"{place.path}:{line}"
        if len(row) != len(columns.names):
            raise DataError(
                f"{where}: found {len(row)} cells, expected {len(columns.names)}; "
                "correct the line or the delimiter"
            )
        values = []
        for number, cell in enumerate(row):
            value = _number(cell)
            if value is None or not np.isfinite(value):
                role = "label" if number == columns.label else "cell"
                raise DataError(
                    f"{where}: column {columns.names[number]!r}: {_complaint(cell.strip(), role)}"
                )
            values.append(value)
        return values


@dataclass(frozen=True)
class _Layout:
    columns: Columns
    header: bool


def rows_of_table(table: NDArray[np.float64], columns: Columns) -> Rows:
    """Rows of a numeric table, with label and weight taken out.

    Examples
    --------
    >>> rows_of_table(np.array([[1.0, 5.0], [0.0, 6.0]]), Columns(("y", "x"), 0)).data
    array([5., 6.])
    """
    weight = None if columns.weight is None else table[:, columns.weight]
    return Rows.from_dense(table[:, columns.features], table[:, columns.label], weight)


def _number(cell: str) -> float | None:
    try:
        return None if "_" in cell else float(cell)
    except ValueError:
        return None


def _complaint(cell: str, role: str) -> str:
    if not cell:
        advice = "drop the row" if role == "label" else "impute missing values or drop the row"
        return f"found a missing {role}, expected a number; {advice}"
    if _number(cell) is not None:
        return f"found {cell!r}, expected a finite number; impute missing values or drop the row"
    return f"found the text {cell[:40]!r}, expected a number; encode text as numbers or drop it"
