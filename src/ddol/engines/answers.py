"""From labels as users have them to the answers that algorithms learn from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ddol.algorithm import Algorithm
from ddol.streams.arrays import RowsStream, array_stream
from ddol.streams.discovery import Wishes, learn_encoding, peek
from ddol.streams.encoder import Encoder
from ddol.streams.encoding import Encoding
from ddol.streams.errors import DataError
from ddol.streams.frames import frame_streams, is_frame
from ddol.streams.generated import GeneratedStream
from ddol.streams.labels import Label, listed
from ddol.streams.limited import ReadAhead
from ddol.streams.stream import Stream

_PIECE = 1 << 17


def check_classes(algorithm: Algorithm, classes: Sequence[Label]) -> tuple[Label, ...]:
    """Refuse labels that the algorithm cannot tell apart.

    Examples
    --------
    >>> from ddol.presets import dogd
    >>> check_classes(dogd(), [0.0, 1.0])
    (0.0, 1.0)
    >>> check_classes(dogd(), [1.0, 2.0, 3.0])
    Traceback (most recent call last):
    ddol.streams.errors.DataError: found 3 classes (1, 2, 3), expected 2 for ...
    """
    found = tuple(sorted(c if isinstance(c, str) else float(c) for c in classes))
    n_classes = getattr(algorithm.update, "n_classes", None)
    expected = n_classes or (2 if algorithm.outputs == 1 else algorithm.outputs)
    if len(found) == expected:
        return found
    if n_classes is not None and len(found) < expected and set(found) <= set(range(expected)):
        return tuple(float(k) for k in range(expected))
    if not found:
        raise DataError("found no example; expected at least one")
    names = listed(found, 10)
    noun = "class" if len(found) == 1 else "classes"
    hint = (
        "learn from data that has both"
        if len(found) == 1
        else f"for more classes use outputs={len(found)}, for numbers a regression loss"
    )
    raise DataError(
        f"found {len(found)} {noun} ({names}), expected {expected} for {algorithm.name} with the "
        f"loss {algorithm.loss.name}; {hint}"
    )


def as_streams(streams: Any, checked: bool = True, n_agents: int = 1) -> list[Stream]:
    """Streams from what users give: (X, y), a stream, a generator, a data frame with partitions, or a list.

    Features are `checked` to be finite unless whoever reads them is stricter.
    """
    if isinstance(streams, Stream):
        return [streams]
    if callable(streams) or isinstance(streams, Iterator):
        return [GeneratedStream(streams)]
    if is_frame(streams):
        return frame_streams(streams, n_agents)
    if isinstance(streams, tuple) and len(streams) in (2, 3) and not isinstance(streams[0], Stream):
        X, y, weight = (*streams, None)[:3]
        return [array_stream(X, y, weight, checked=checked)]
    if not isinstance(streams, list | tuple) or not streams:
        raise TypeError(
            f"found {type(streams).__name__} as `streams`, expected (X, y), a stream, a "
            "generator, or a list of these, one for each agent"
        )
    return [as_streams(one, checked)[0] for one in streams]


def encoded(
    algorithm: Algorithm,
    streams: Any,
    classes: Sequence[Label] | None = None,
    checked: bool = True,
) -> tuple[list[Stream], Encoder]:
    """Streams with encoded columns and labels, and what encodes them.

    Parameters
    ----------
    algorithm : Algorithm
    streams : (X, y), a stream, or a list of either
    classes : sequence of labels, optional
        All labels; by default those of the arrays in memory, or those that the files show.
    checked : bool
        Refuse features that are not finite now, and not when they have been learned from.
    """
    found = as_streams(streams, checked and not algorithm.update.experts, algorithm.n_agents)
    widths = sorted({s.n_features for s in found if s.n_features is not None})
    if len(widths) > 1 and all(isinstance(s, RowsStream) for s in found):
        raise DataError(
            f"found streams with {widths[0]} and {widths[-1]} features, expected the same number; "
            "give every agent the same columns"
        )
    if algorithm.classification:
        _check_dense(algorithm, found)
    parts = [s if s.restartable else ReadAhead(s) for s in found]
    encoder = Encoder(_encoding(algorithm, parts, classes))
    return [encoder.stream(part) for part in parts], encoder


def _encoding(
    algorithm: Algorithm, streams: list[Stream], classes: Sequence[Label] | None
) -> Encoding:
    """Labels of arrays as they are; of files, what their beginnings show."""
    numbered = algorithm.outputs > 1
    if all(isinstance(stream, RowsStream) for stream in streams):
        if not algorithm.classification:
            return Encoding()
        if classes is None:
            rows = [s.rows for s in streams if isinstance(s, RowsStream)]
            classes = sorted(set().union(*(distinct(each.y) for each in rows)))
        return Encoding(classes=check_classes(algorithm, classes), numbered=numbered)
    given = None if classes is None else tuple(classes)
    wishes = Wishes(classes=given, classification=algorithm.classification)
    encoding = learn_encoding(streams, wishes, [peek(stream, wishes) for stream in streams])
    if encoding.classes is None:
        return encoding
    known = check_classes(algorithm, encoding.classes)
    return replace(encoding, classes=known, numbered=numbered)


def distinct(y: np.ndarray) -> list[float]:
    """Different labels; two of them, the usual case, are found without sorting all.

    Examples
    --------
    >>> distinct(np.array([1.0, -1.0, 1.0])), distinct(np.array([2.0, 0.0, 1.0]))
    ([-1.0, 1.0], [0.0, 1.0, 2.0])
    """
    if len(y):
        low, high = y.min(), y.max()
        if np.count_nonzero(y == low) + np.count_nonzero(y == high) == len(y):
            return [float(low), float(high)]
    return np.unique(y).tolist()


def _check_dense(algorithm: Algorithm, streams: list[Stream]) -> None:
    """Refuse sparse rows in the place of experts' advice; values are looked at while they are used."""
    for stream in streams:
        sparse = isinstance(stream, RowsStream) and not stream.rows.dense
        if algorithm.update.experts and sparse:
            raise DataError(f"{stream.describe()}: found sparse rows, {_expected(algorithm)}")


def check_features(algorithm: Algorithm, streams: Sequence[Stream]) -> None:
    """Refuse features in memory that are not finite, or no advice, where nobody looked before."""
    if algorithm.update.experts:
        check_advice(algorithm, streams)
    for stream in streams:
        if isinstance(stream, RowsStream):
            stream.rows.check_finite(stream.describe())


def check_advice(algorithm: Algorithm, streams: Sequence[Stream]) -> None:
    """Refuse advice that is no class; called when an expert's was none, so that somebody is at fault.

    Examples
    --------
    >>> from ddol.presets import dwm_i
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


def _first_other(values: np.ndarray, allowed: Sequence[float]) -> int | None:
    """Place of the first value that is none of the allowed ones, looked for where a cache holds it."""
    for lo in range(0, len(values), _PIECE):
        known = np.isin(values[lo : lo + _PIECE], allowed)
        if not known.all():
            return lo + int(known.argmin())
    return None


def _expected(algorithm: Algorithm) -> str:
    known = ", ".join(f"{c:g}" for c in _classes_of_advice(algorithm)[:10])
    return (
        f"expected the advice of experts, which is one of {known}; make it with ddol.streams.stumps"
    )


def _classes_of_advice(algorithm: Algorithm) -> list[float]:
    n_classes = getattr(algorithm.update, "n_classes", 2)
    return [-1.0, 1.0] if n_classes == 2 else [float(k) for k in range(n_classes)]
