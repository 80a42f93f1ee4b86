"""CSV text, read in chunks and parsed by polars."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddol.streams.columns import Columns, choose_columns
from ddol.streams.errors import DataError
from ddol.streams.files import check_first_reading, describe_paths, read_once
from ddol.streams.parallel import in_order
from ddol.streams.rows import Rows, no_rows
from ddol.streams.stream import Parsed, Piece, Position
from ddol.streams.text import BEGINNING, CHUNK_BYTES, Chunk, Load, advanced, cut, progress_in


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
        File names, plain or compressed; ``-`` is standard input.
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
    chunk_bytes: int = CHUNK_BYTES

    @property
    def restartable(self) -> bool:
        """Whether the text can be read again; a pipe cannot."""
        return not any(map(read_once, self.paths))

    @property
    def n_features(self) -> int | None:
        """Number of columns besides label and weight; None for a pipe."""
        return len(self._layout.columns.features) if self.restartable else None

    def read(
        self, position: Position | None = None, pass_number: int = 0
    ) -> Iterator[tuple[Rows, Position]]:
        """Yield the rows of one chunk after the other, and where the next begins."""
        return in_order((piece() for piece in self.pieces(position, pass_number)), position)

    def pieces(self, position: Position | None = None, pass_number: int = 0) -> Iterator[Piece]:
        """Yield chunks that have yet to be read; see `Stream`."""
        check_first_reading(self.paths, position or pass_number)
        import_polars(self.describe())
        layout = self._layout if self.restartable else None
        for load in cut(self.paths, position or BEGINNING, self.chunk_bytes):
            if layout is None:
                layout = self._layout_of(load())
            yield partial(self._piece, load, layout)
        yield self._last_piece

    def _piece(self, load: Load, layout: _Layout) -> Parsed:
        chunk = load()
        rows = self._parse(chunk, layout)
        return Parsed(
            rows,
            lambda position: advanced(position or BEGINNING, chunk, len(rows)),
            lambda row: f"{chunk.path}:{self._line_of(chunk, row, layout)}",
        )

    def _last_piece(self) -> Parsed:
        def after(position: Position | None) -> Position:
            position = position or BEGINNING
            if not position["row"]:
                raise DataError(
                    f"{self.describe()}: found no rows below the header, expected examples; "
                    "check how the file was made"
                )
            return position

        return Parsed(no_rows(), after, lambda row: self.describe())

    def _line_of(self, chunk: Chunk, row: int, layout: _Layout) -> int:
        for number, (line, _) in enumerate(self._cells(chunk, layout)):
            if number == row:
                return line
        return chunk.first_line()

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
        for piece in self.pieces(position):
            parsed = piece()
            if len(parsed.block):
                return parsed.locate(row)
        return self.describe()

    @cached_property
    def _layout(self) -> _Layout:
        for load in cut(self.paths[:1], BEGINNING, 1 << 16):
            return self._layout_of(load())
        raise DataError(f"{self.describe()}: found an empty file, expected examples")

    def _layout_of(self, chunk: Chunk) -> _Layout:
        first = next(self._split(chunk.text.tobytes().decode("utf-8", "replace")), [])
        header = self.header
        if header is None:
            header = any(_number(cell) is None for cell in first)
        names = first if header else [f"column {k}" for k in range(len(first))]
        names = [name.strip() for name in names]
        return _Layout(choose_columns(names, self.label, self.weight, self.describe()), header)

    def _parse(self, chunk: Chunk, layout: _Layout) -> Rows:
        table = self._parse_fast(chunk, layout)
        if table is None:
            # Something is wrong or unusual: go through the cells one by one, to name it.
            cells = self._cells(chunk, layout)
            listed = [self._check(chunk.path, line, row, layout) for line, row in cells]
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

    def _cells(self, chunk: Chunk, layout: _Layout) -> Iterator[tuple[int, list[str]]]:
        """Yield line numbers and cells, without header and blank lines."""
        text = chunk.text.tobytes().decode("utf-8", "replace")
        for line, row in enumerate(self._split(text), chunk.first_line()):
            if row and not (layout.header and line == 1):
                yield line, row

    def _split(self, text: str) -> Iterator[list[str]]:
        return csv.reader(text.splitlines(), delimiter=self.delimiter)

    def _check(self, path: str, line: int, row: Sequence[str], layout: _Layout) -> list[float]:
        columns = layout.columns
        where = f"{path}:{line}"
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
