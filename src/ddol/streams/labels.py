"""Labels as they stand in the data, and the numbers that the algorithms learn from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from ddol.compiled import entry, floats, inner
from ddol.streams.errors import DataError
from ddol.streams.mapped import mapped
from ddol.streams.rows import Floats, Rows
from ddol.streams.stream import Stream


@inner
def _encode_two(n, given, codes, known, coded):  # type: ignore[no-untyped-def]
    """The same for two labels, by vectors: which comes next cannot be guessed. False if one is unknown."""
    low, high, strange = known[0], known[1], 0
    for row in range(n):
        label = given[row]
        strange += (label != low) & (label != high) & (label == label)
    if strange == 0 and codes != 0:
        for row in range(n):
            label = given[row]
            code = coded[0] if label == low else coded[1]
            floats(codes)[row] = code if label == label else label
    return strange == 0


@entry("int64(int64, int64, int64, int64, int64, int64)")
def _encode(n, labels, codes, values, numbers, n_values):  # type: ignore[no-untyped-def]
    """Write the number of every label into `codes`; -1, or the first row with an unknown label."""
    if n_values == 2 and _encode_two(n, floats(labels), codes, floats(values), floats(numbers)):
        return -1
    given, known, coded, k = floats(labels), floats(values), floats(numbers), 0
    for row in range(n):
        label = given[row]
        if known[k] != label:
            k = 0
            while k < n_values - 1 and known[k] < label:
                k += 1
        missing = label != label
        if known[k] != label and not missing:
            return row
        if codes != 0:
            floats(codes)[row] = label if missing else coded[k]
    return -1


@dataclass(frozen=True)
class Labels:
    """The distinct labels of a classification problem, in ascending order.

    Two labels are learned as −1 and +1, more as the class numbers 0, 1, 2, …

    Parameters
    ----------
    values
        Two or more distinct labels, ascending. `binary_labels` and `class_labels` make
        them from what a scan has found.
    numbered
        Learn class numbers even where there are just two.

    Examples
    --------
    >>> labels = Labels((1.0, 2.0))
    >>> labels.encode([2, 1, 2])
    array([ 1., -1.,  1.])
    >>> labels.decode(labels.encode([2, 1, 2]))
    array([2., 1., 2.])
    """

    values: tuple[float, ...]
    numbered: bool = False

    def __post_init__(self) -> None:
        ascending = all(a < b for a, b in zip(self.values, self.values[1:], strict=False))
        if len(self.values) < 2 or not ascending:
            raise DataError(
                f"labels must be two or more different numbers in ascending order, "
                f"found {_listed(self.values)}"
            )

    @property
    def binary(self) -> bool:
        """Whether there are just two, learned as −1 and +1."""
        return len(self.values) == 2 and not self.numbered

    def encode(self, y: ArrayLike, where: Callable[[int], str] = "row {}".format) -> Floats:
        """Numbers to learn from: −1 and +1 for two labels, class numbers for more.

        A row that was passed over has NaN for a label, and keeps it; ``where`` names a row whose label
        is none of these.
        """
        y = np.ascontiguousarray(y, dtype=np.float64)
        values = np.array(self.values, np.float64)
        numbers = np.array([-1.0, 1.0]) if self.binary else np.arange(len(values), dtype=np.float64)
        # Labels are often the numbers to learn from already, and then are only looked at.
        same = np.array_equal(values, numbers)
        codes = np.empty(0 if same else len(y))
        given = y.ctypes.data, 0 if same else codes.ctypes.data
        bad = _encode(len(y), *given, values.ctypes.data, numbers.ctypes.data, len(values))
        if bad >= 0:
            raise DataError(f"{where(bad)}: {self._complain(y[bad])}")
        return y if same else codes

    def decode(self, codes: ArrayLike) -> Floats:
        """Labels of encoded numbers; of real scores for two labels, by their sign."""
        codes = np.asarray(codes, dtype=np.float64)
        numbers = (codes > 0) if self.binary else codes
        return np.asarray(self.values)[numbers.astype(np.int64)]

    def _complain(self, label: float) -> str:
        return (
            f"found label {label:g}, expected one of {_listed(self.values)}; "
            "correct it or learn with all labels known"
        )


def binary_labels(found: Sequence[float] | None, where: str = "y") -> Labels:
    """Labels of a two-class problem, or `DataError` when there are not just two.

    Parameters
    ----------
    found
        All distinct labels, as `scan` returns them; None for very many.
    where
        What messages call the data.

    Examples
    --------
    >>> binary_labels((0.0, 1.0)).values
    (0.0, 1.0)
    >>> binary_labels((0.0, 1.0, 2.0), "a.csv")
    Traceback (most recent call last):
    ...
    ddol.streams.errors.DataError: a.csv: found 3 labels (0, 1, 2), expected two classes; ...
    """
    values = _several(found, where)
    if len(values) > 2:
        raise DataError(
            f"{where}: found {len(values)} labels ({_listed(values)}), expected two classes; "
            "use a multi-class algorithm, or a regression loss if they are quantities"
        )
    return Labels(values)


def class_labels(found: Sequence[float] | None, where: str = "y") -> Labels:
    """Labels of a problem with two or more classes.

    Parameters
    ----------
    found, where
        See `binary_labels`.

    Examples
    --------
    >>> class_labels((3.0, 5.0, 4.0)).encode([5, 3])
    array([2., 0.])
    """
    return Labels(_several(found, where))


def labelled(stream: Stream, labels: Labels) -> Stream:
    """Stream with encoded labels; one that is not known is an error that names its place.

    Examples
    --------
    >>> from ddol.streams.arrays import array_stream
    >>> stream = array_stream([[1.0], [2.0]], [7, 9])
    >>> [(rows, _)] = labelled(stream, Labels((7.0, 9.0))).read()
    >>> rows.y
    array([-1.,  1.])
    """
    return mapped(stream, partial(_encode_rows, labels), stream.n_features)


def _encode_rows(labels: Labels, rows: Rows, where: Callable[[int], str]) -> Rows:
    return replace(rows, y=labels.encode(rows.y, where))


def _several(found: Sequence[float] | None, where: str) -> tuple[float, ...]:
    if found is None:
        raise DataError(
            f"{where}: found more than 1,024 labels, expected classes; "
            "use a regression loss for quantities"
        )
    values = tuple(sorted(set(found)))
    if len(values) == 1:
        raise DataError(
            f"{where}: found one class only (label {values[0]:g}), expected two; "
            "check that the data are complete"
        )
    return values


def _listed(values: Sequence[float]) -> str:
    shown = ", ".join(f"{value:g}" for value in values[:6])
    return shown if len(values) <= 6 else f"{shown}, …"
