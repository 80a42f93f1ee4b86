"""Parquet tables through polars, a slice of rows at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ddol.streams.columns import Columns, choose_columns
from ddol.streams.errors import DataError
from ddol.streams.files import check_readable, describe_paths
from ddol.streams.rows import Rows
from ddol.streams.stream import Position
from ddol.streams.tables import import_polars, rows_of_table

_SLICE_BYTES = 8 << 20


@dataclass(frozen=True)
class ParquetStream:
    """A stream over one or more Parquet files with the same columns of numbers.

    Parameters
    ----------
    paths
        File names.
    label, weight
        Name or number of these columns; see `choose_columns` for the default.
    slice_rows
        Rows that are read at a time; by default as many as take 8 MB.
    """

    paths: tuple[str, ...]
    label: str | int | None = None
    weight: str | int | None = None
    slice_rows: int | None = None

    @property
    def restartable(self) -> bool:
        """Files can be read again."""
        return True

    @property
    def n_features(self) -> int:
        """Number of columns besides label and weight."""
        return len(self._columns.features)

    @cached_property
    def n_examples(self) -> int:
        """Number of rows in all files, from their footers."""
        polars = import_polars(self.describe())
        return int(self._frame.select(polars.len()).collect().item())

    def read(
        self, position: Position | None = None, pass_number: int = 0
    ) -> Iterator[tuple[Rows, Position]]:
        """Yield the rows of one slice after the other; positions count rows."""
        if not self.n_examples:
            raise DataError(f"{self.describe()}: found no rows, expected examples")
        step = self.slice_rows or max(1, _SLICE_BYTES // (8 * len(self._columns.names)))
        for first in range(position or 0, self.n_examples, step):
            frame = self._frame.slice(first, step).collect()
            table = frame.cast(import_polars(self.describe()).Float64).to_numpy(order="c")
            self._check(table, first)
            yield rows_of_table(table, self._columns), first + len(table)

    def describe(self) -> str:
        """Name of the file, or of the first and how many more."""
        return describe_paths(self.paths)

    def progress(self, position: Position | None) -> tuple[int, int] | None:
        """Rows read and in total."""
        return position or 0, self.n_examples

    def locate(self, position: Position | None, row: int) -> str:
        """Name and row number."""
        return f"{self.describe()}: row {(position or 0) + row}"

    @cached_property
    def _frame(self) -> Any:
        polars = import_polars(self.describe())
        for path in self.paths:
            check_readable(path)
        frame = polars.scan_parquet(list(self.paths))
        try:
            frame.collect_schema()
        except polars.exceptions.PolarsError as error:
            reason = str(error).splitlines()[0]
            raise DataError(f"{self.describe()}: not a Parquet file ({reason})") from None
        return frame

    @cached_property
    def _columns(self) -> Columns:
        polars = import_polars(self.describe())
        schema = self._frame.collect_schema()
        for name, kind in schema.items():
            if not (kind.is_numeric() or kind == polars.Boolean):
                raise DataError(
                    f"{self.describe()}: column {name!r}: found the type {kind}, expected "
                    "numbers; encode the column as numbers or drop it"
                )
        return choose_columns(list(schema), self.label, self.weight, self.describe())

    def _check(self, table: np.ndarray, first: int) -> None:
        with np.errstate(invalid="ignore", over="ignore"):
            if np.isfinite(table.sum()):
                return
        bad = np.argwhere(~np.isfinite(table))
        if len(bad):
            row, column = bad[0]
            role = "label" if column == self._columns.label else "value"
            raise DataError(
                f"{self.locate(first, int(row))}: column {self._columns.names[column]!r}: found a "
                f"missing or infinite {role}, expected a finite number; drop or impute it"
            )
