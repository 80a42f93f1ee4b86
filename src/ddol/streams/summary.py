"""What one look through a stream tells: its size and its labels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ddol.streams.errors import DataError
from ddol.streams.stream import Stream

MOST_LABELS = 1024


@dataclass(frozen=True)
class Summary:
    """Size and labels of a stream.

    Parameters
    ----------
    n_examples, n_features
        Rows and columns.
    labels
        Distinct labels in ascending order, or None when there are more than 1,024 of them.
    """

    n_examples: int
    n_features: int
    labels: tuple[float, ...] | None


def scan(stream: Stream) -> Summary:
    """Look through a whole stream once; LIBSVM text in a hundred-megabytes-a-second pass.

    Examples
    --------
    >>> from ddol.streams.arrays import array_stream
    >>> scan(array_stream(np.eye(3), [2, 1, 2]))
    Summary(n_examples=3, n_features=3, labels=(1.0, 2.0))
    """
    if not stream.restartable:
        raise DataError(
            f"{stream.describe()} cannot be looked through before it is learned from; "
            "give a file, or state the labels and the number of features"
        )
    own = getattr(stream, "scan", None)
    return own() if own is not None else scan_by_reading(stream)


def scan_by_reading(stream: Stream) -> Summary:
    """Summary of any stream, by reading all of it."""
    n_examples, n_features = 0, stream.n_features or 0
    labels: np.ndarray | None = np.empty(0)
    for rows, _ in stream.read():
        n_examples += len(rows)
        n_features = max(n_features, rows.n_features)
        if labels is not None:
            labels = joined(labels, rows.y)
            labels = None if len(labels) > MOST_LABELS else labels
    found = None if labels is None else tuple(labels.tolist())
    return Summary(n_examples, n_features, found)


def joined(labels: np.ndarray, more: np.ndarray) -> np.ndarray:
    """All labels in rising order, each once.

    As ``np.union1d``, which would import all of ``numpy.ma`` for it.

    Examples
    --------
    >>> joined(np.array([2.0]), np.array([3.0, 1.0, 3.0])).tolist()
    [1.0, 2.0, 3.0]
    """
    found = np.sort(np.concatenate([labels, more]))
    return found[np.diff(found, prepend=np.nan) != 0.0]
