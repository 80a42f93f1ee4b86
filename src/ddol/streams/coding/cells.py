"""Cells of a table as numbers, texts and weights; those that are none are noted by their row."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddol.streams.raw import Text
from ddol.streams.rows import Floats

FILL = "expected none; drop the row, or train with --missing zero or --missing mean"


def note(bad: dict[int, str], rows: NDArray[np.bool_], message: str) -> None:
    """Note what is wrong with some rows, unless something was wrong with them before."""
    for row in np.flatnonzero(rows).tolist():
        bad.setdefault(row, message)


def is_finite(matrix: Floats | None) -> bool:
    """Whether one look shows that all numbers are finite; their sum may overflow where they are."""
    if matrix is None:
        return False
    with np.errstate(invalid="ignore", over="ignore"):
        return bool(np.isfinite(matrix.sum()))


def text_of(cells: NDArray[Any]) -> Text:
    """Numbers or truth values as text: whole numbers without a point."""
    if cells.dtype == np.bool_:
        return Text(cells.astype(np.int64), ("false", "true"))
    values, codes = np.unique(cells, return_inverse=True)
    missing = np.isnan(values)
    texts = [str(int(v)) if v == np.rint(v) else repr(float(v)) for v in values[~missing]]
    return Text(np.where(missing[codes], -1, codes), tuple(texts))


def numbers_of(name: str, cells: Any, bad: dict[int, str]) -> Floats:
    """Text as the numbers that it says."""
    if not isinstance(cells, Text):
        return np.asarray(cells, np.float64)
    numbers = np.full(len(cells.values) + 1, np.nan)
    for place, value in enumerate(cells.values):
        try:
            numbers[place] = float(value)
        except ValueError:
            text = f"column {name!r}: found the text {value[:40]!r}, expected a number"
            note(bad, cells.codes == place, text)
    return numbers[cells.codes]


def checked_weights(weight: Floats, bad: dict[int, str]) -> Floats:
    """Weights side by side in memory; those that are no finite numbers of at least 0 are noted."""
    weight = np.ascontiguousarray(weight)  # a column of a matrix is not: its address would mislead
    for row in np.flatnonzero(~((weight >= 0.0) & (weight < np.inf))).tolist():
        found = "no weight" if np.isnan(weight[row]) else f"the weight {weight[row]:g}"
        bad.setdefault(row, f"found {found}, expected a number of at least 0; drop the row")
    return weight
