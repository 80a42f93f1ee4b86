"""Whose fault it is that a result is none: the data's, or the algorithm's."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ddol.algorithm import Algorithm
from ddol.engines.state import State
from ddol.streams.arrays import RowsStream
from ddol.streams.errors import DataError
from ddol.streams.stream import Stream

_PIECE = 1 << 17


def check_numbers(
    algorithm: Algorithm, state: State, weights: np.ndarray, streams: Sequence[Stream]
) -> None:
    """Refuse a result that is none; streams in memory, where nobody looked before, are looked at first."""
    if np.isfinite(weights).all() and np.isfinite(state.loss).all():
        return
    if algorithm.update.experts:
        check_advice(algorithm, streams)
    for stream in streams:
        if isinstance(stream, RowsStream):
            stream.rows.check_finite(stream.describe())
    raise FloatingPointError(out_of_range(algorithm))


def out_of_range(algorithm: Algorithm) -> str:
    """What to do about weights that are no numbers any more.

    Examples
    --------
    >>> from ddol.presets import adaptive
    >>> out_of_range(adaptive())
    'the weights of adaptive left the range of numbers; lower the rate or scale the features'
    """
    if algorithm.name == "adaptive":
        ways = "lower the rate or scale the features"
    else:
        ways = "lower the rate, scale the features, give a radius, or use the algorithm adaptive"
    return f"the weights of {algorithm.name} left the range of numbers; {ways}"


def check_advice(algorithm: Algorithm, streams: Sequence[Stream]) -> None:
    """Refuse advice that is no class; called when an expert's was none, so that somebody is at fault.

    Examples
    --------
    >>> from ddol.presets import dwm_i
    >>> from ddol.streams.arrays import array_stream
    >>> check_advice(dwm_i(), [array_stream([[1.0, 0.5]], [1])])
    Traceback (most recent call last):
    ddol.streams.errors.DataError: X: found 0.5 in row 0, column 1, expected the advice of ...
    """
    known = _classes_of_advice(algorithm)
    for stream in streams:
        if isinstance(stream, RowsStream):
            at = _first_other(stream.rows.data, known)
            if at is not None:
                row, column = divmod(at, stream.rows.n_features)
                raise DataError(
                    f"{stream.describe()}: found {stream.rows.data[at]:g} in row {row}, column "
                    f"{column}, {_expected(algorithm)}"
                )
    raise DataError(f"found an expert without advice, {_expected(algorithm)}")


def check_dense(algorithm: Algorithm, streams: list[Stream]) -> None:
    """Refuse sparse rows in the place of experts' advice; values are looked at while they are used."""
    for stream in streams:
        sparse = isinstance(stream, RowsStream) and not stream.rows.dense
        if algorithm.update.experts and sparse:
            raise DataError(f"{stream.describe()}: found sparse rows, {_expected(algorithm)}")


def _first_other(values: np.ndarray, allowed: Sequence[float]) -> int | None:
    """Place of the first value that is none of the allowed ones, looked for where a cache holds it."""
    for lo in range(0, len(values), _PIECE):
        known = np.isin(values[lo : lo + _PIECE], allowed)
        if not known.all():
            return lo + int(known.argmin())
    return None


def _expected(algorithm: Algorithm) -> str:
    known = ", ".join(f"{c:g}" for c in _classes_of_advice(algorithm)[:10])
    return f"expected the advice of experts, which is one of {known}; make it with ddol.streams.coding.stumps"


def _classes_of_advice(algorithm: Algorithm) -> list[float]:
    n_classes = getattr(algorithm.update, "n_classes", 2)
    return [-1.0, 1.0] if n_classes == 2 else [float(k) for k in range(n_classes)]
