"""Examples that are in memory already: NumPy arrays, scipy matrices, data frames."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ddol.streams.errors import DataError
from ddol.streams.rows import Rows
from ddol.streams.stream import Position

_NUMBERS = "biuf"
_LOSING = "cmM"
"""Kinds of which NumPy would make real numbers without a word: complex numbers, and times."""


@dataclass(frozen=True)
class RowsStream:
    """A stream over rows in memory, given whole and never copied.

    Examples
    --------
    >>> stream = RowsStream(Rows.from_dense(np.eye(2), [0, 1]))
    >>> [(len(rows), position) for rows, position in stream.read()]
    [(2, 2)]
    """

    rows: Rows
    name: str = "array"

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return self.rows.n_features

    @property
    def n_examples(self) -> int:
        """Number of rows."""
        return len(self.rows)

    @property
    def restartable(self) -> bool:
        """Memory can be read again."""
        return True

    def read(
        self, position: Position | None = None, pass_number: int = 0
    ) -> Iterator[tuple[Rows, Position]]:
        """Yield all rows at once, or nothing when `position` is the end."""
        if not position and len(self.rows):
            yield self.rows, len(self.rows)

    def describe(self) -> str:
        """Name of the array."""
        return self.name

    def progress(self, position: Position | None) -> tuple[int, int] | None:
        """Rows read and in total."""
        return position or 0, len(self.rows)

    def locate(self, position: Position | None, row: int) -> str:
        """Name and row number."""
        return f"{self.name}: row {(position or 0) + row}"


def array_stream(
    X: Any, y: ArrayLike, weight: ArrayLike | None = None, name: str = "X", checked: bool = True
) -> RowsStream:
    """Stream over an array, a scipy sparse matrix or a data frame of numbers.

    A C-contiguous float64 array and a canonical float64 CSR matrix are used where they lie.

    Parameters
    ----------
    X
        Features, one row per example; every value must be finite.
    y
        One label or target per row.
    weight
        One importance per row; all 1 if not given.
    name
        What messages call it.
    checked
        Whether the features are checked here, and not by the reader.

    Examples
    --------
    >>> stream = array_stream([[1, 2], [3, 4]], [0, 1])
    >>> stream.n_examples, stream.n_features
    (2, 2)
    """
    if is_sparse(X):
        if X.dtype.kind not in _NUMBERS:
            raise _no_numbers(X, name)
        rows = Rows.from_csr(X, y, weight)
    else:
        rows = Rows.from_dense(_numbers(X, name), y, weight)
    return RowsStream(rows.check_finite(name, features=checked), name)


def is_sparse(X: Any) -> bool:
    """Whether this is a matrix of SciPy, which is not imported to find out: its owner has done so."""
    sparse = sys.modules.get("scipy.sparse")
    return sparse is not None and bool(sparse.issparse(X))


def _numbers(X: Any, name: str) -> np.ndarray:
    values = X.to_numpy() if hasattr(X, "to_numpy") else np.asarray(X)
    if values.dtype.kind in _LOSING or any(map(_is_time, getattr(X, "dtypes", ()))):
        raise _no_numbers(X, name)
    try:
        return np.ascontiguousarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise _no_numbers(X, name) from None


def _is_time(kind: Any) -> bool:
    """Whether a column of this type has dates, times or durations: polars would make numbers of them."""
    return str(kind).lower().startswith(("date", "time", "duration"))


def _no_numbers(X: Any, name: str) -> DataError:
    return DataError(
        f"{name}: found {_first_text_column(X)}, expected numbers; "
        "turn such columns into numbers, drop them, or give the whole frame with its label among the columns"
    )


def _first_text_column(X: Any) -> str:
    for column in getattr(X, "columns", ()):
        kind = X[column].dtype
        try:
            X[column].to_numpy().astype(np.float64)
        except (TypeError, ValueError):
            return f"column {column!r} of type {kind}"
        if _is_time(kind):
            return f"column {column!r} of type {kind}"
    return f"values of type {getattr(X, 'dtype', None) or np.asarray(X).dtype}"
