"""Cells of a table as numbers, texts and weights; rows with invalid cells are noted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddol.compiled import entry, integers
from ddol.streams.raw import Text
from ddol.streams.rows import LARGEST, Floats

FILL = "expected none; drop the row, or train with --missing zero or --missing mean"


def note(bad: dict[int, str], rows: NDArray[np.bool_], message: str) -> None:
    """Note what is wrong with some rows, unless something was wrong with them before."""
    for row in np.flatnonzero(rows).tolist():
        bad.setdefault(row, message)


def side_by_side(columns: Sequence[Floats], out: Floats) -> bool:
    """Write columns next to each other, and tell whether all numbers are below `LARGEST` in size.

    Parameters
    ----------
    columns
        Of float64, as many and as long as those of `out`; each by itself in memory, or of a matrix, or one
        number over and over.
    out
        A matrix whose rows lie one after the other.

    Examples
    --------
    >>> out = np.empty((2, 2))
    >>> side_by_side([np.array([1.0, 2.0]), np.array([3.0, np.inf])], out), out.tolist()
    (False, [[1.0, 3.0], [2.0, inf]])
    """
    n, m = out.shape
    addresses = np.array([column.ctypes.data for column in columns], np.int64)
    steps = np.array([column.strides[0] // 8 for column in columns], np.int64)
    places = addresses.ctypes.data, steps.ctypes.data, out.ctypes.data
    return bool(_lay(n, m, *places))


_ABREAST = 8
"""Columns that are read at the same time: their numbers fill a cache line of a row."""

_FRACTION, _EXPONENT = 52, 0x7FF
"""Bits of a number's fraction, and those of its exponent."""

_BITS = int(np.log2(LARGEST))
_ABOVE = _EXPONENT + 1 - (1023 + _BITS)
"""Added to the exponent of a larger number, or of one that is not finite, it gives one bit more."""


@entry("int64(int64, int64, int64, int64, int64)")
def _lay(n, m, columns, steps, out):  # type: ignore[no-untyped-def]
    """Write columns into rows of `m` numbers, as bits; 1 if all are below `LARGEST`."""
    columns, steps, out = integers(columns), integers(steps), integers(out)
    strange = 0
    for first in range(0, m, _ABREAST):
        last = min(first + _ABREAST, m)
        for row in range(n):
            for k in range(first, last):
                bits = integers(columns[k])[row * steps[k]]
                out[row * m + k] = bits
                strange |= ((bits >> _FRACTION) & _EXPONENT) + _ABOVE
    return 1 if strange <= _EXPONENT else 0


def text_of(cells: NDArray[Any]) -> Text:
    """Numbers or truth values as text: whole numbers without a point."""
    if cells.dtype == np.bool_:
        return Text(cells.astype(np.int64), ("false", "true"))
    values, codes = np.unique(cells, return_inverse=True)
    missing = np.isnan(values)
    texts = [str(int(v)) if v == np.rint(v) else repr(float(v)) for v in values[~missing]]
    return Text(np.where(missing[codes], -1, codes), tuple(texts))


def numbers_of(name: str, cells: Any, bad: dict[int, str]) -> Floats:
    """Parse text as numbers."""
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
    """Weights as one array; rows whose weight is not a finite number of at least 0 are noted."""
    weight = np.ascontiguousarray(weight)  # a column of a matrix is not: its address would mislead
    for row in np.flatnonzero(~((weight >= 0.0) & (weight < np.inf))).tolist():
        found = "no weight" if np.isnan(weight[row]) else f"the weight {weight[row]:g}"
        bad.setdefault(row, f"found {found}, expected a number of at least 0; drop the row")
    return weight
