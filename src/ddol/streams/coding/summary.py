"""Size and labels of a stream, from one reading."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ddol.streams.coding.labels import Label
from ddol.streams.errors import DataError
from ddol.streams.raw import Named, Raw, Text
from ddol.streams.rows import Rows
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
    labels: tuple[Label, ...] | None


def scan(stream: Stream, label: str | None = None) -> Summary:
    """Look through a whole stream once; LIBSVM text in a hundred-megabytes-a-second pass.

    Parameters
    ----------
    stream
        Restartable.
    label
        The label's column, where the stream is one of tables.

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
    return own() if own is not None else scan_by_reading(stream, label)


def scan_by_reading(stream: Stream, label: str | None = None) -> Summary:
    """Summary of any stream, by reading all of it."""
    n_examples, n_features = 0, stream.n_features or 0
    numbers, texts = np.empty(0), set[str]()
    for block, _ in stream.read():
        n_examples += len(block)
        n_features = max(n_features, block.n_features if isinstance(block, Rows) else 0)
        if len(numbers) + len(texts) <= MOST_LABELS:
            cells = label_cells(block, label)
            if isinstance(cells, Text):
                texts |= {cells.values[code] for code in np.unique(cells.codes) if code >= 0}
            elif cells is not None:
                numbers = joined(numbers, np.asarray(cells, np.float64))
    numbers = numbers[~np.isnan(numbers)]
    found: tuple[Label, ...] | None = (*numbers.tolist(), *sorted(texts))
    if found is not None and len(found) > MOST_LABELS:
        found = None
    return Summary(n_examples, n_features, found)


def label_cells(block: Raw, label: str | None) -> Any:
    """Labels of a block as its file has them, numbers or `Text`; None where it has none."""
    if isinstance(block, Rows):
        return block.y
    if isinstance(block, Named):
        return block.label
    return block.columns.get(label or "")


def joined(labels: np.ndarray, more: np.ndarray) -> np.ndarray:
    """All labels in rising order, each once.

    As ``np.union1d``, which would import all of ``numpy.ma`` for it.

    Examples
    --------
    >>> joined(np.array([2.0]), np.array([3.0, 1.0, 3.0])).tolist()
    [1.0, 2.0, 3.0]
    """
    found = np.sort(np.concatenate([labels, more]))
    return found[np.append(True, found[1:] != found[:-1])[: len(found)]]
