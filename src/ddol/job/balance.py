"""Class weights, ``--class-weight``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ddol.streams.coding.encoder import Encoder
from ddol.streams.coding.encoding import Encoding
from ddol.streams.coding.labels import listed
from ddol.streams.errors import DataError
from ddol.streams.over.parallel import ParallelStream, ParsingPool
from ddol.streams.rows import Rows
from ddol.streams.stream import Stream

BALANCED = "balanced"


@dataclass(frozen=True)
class ClassWeights:
    """What an example of each class counts, as a change of rows.

    Parameters
    ----------
    weights : tuple of float
        By number of the class.

    Examples
    --------
    >>> rows = Rows.from_dense(np.eye(2), [-1.0, 1.0])
    >>> ClassWeights((0.5, 2.0), two=True)(rows).weight
    array([0.5, 2. ])
    """

    weights: tuple[float, ...]
    two: bool
    """Whether labels are −1 and +1, and not numbers of classes."""

    def __call__(self, rows: Rows, where: Callable[[int], str] | None = None) -> Rows:
        """The rows, whose weights are those of their classes times their own."""
        weight = np.array(self.weights)[numbers(rows.y, self.two)]
        return replace(rows, weight=weight * rows.weight if len(rows.weight) else weight)


def numbers(y: np.ndarray, two: bool) -> np.ndarray:
    """Number of the class of every label as it is learned."""
    return (y > 0.0).astype(np.int64) if two else y.astype(np.int64)


def class_weights(
    wanted: str,
    encoding: Encoding,
    parts: Sequence[Stream],
    gather: Callable[[list[Any]], list[Any]],
    parsers: int | None = None,
) -> ClassWeights:
    """What each class counts: n/(classes · examples of the class), or as given.

    Parameters
    ----------
    wanted : "balanced", or such as "yes=5,no=1"
    encoding : Encoding
        Of the data.
    parts : streams
        Which are read once to count labels, where classes are balanced.
    gather : function that joins the lists of all processes
    parsers : threads that read
    """
    if encoding.classes is None:
        raise DataError(f"--class-weight {wanted}: found labels that are numbers, expected classes")
    two = encoding.n_outputs == 1
    if wanted != BALANCED:
        return ClassWeights(_given(wanted, encoding), two)
    counts = np.zeros(len(encoding.classes), np.int64)
    for part in parts:
        if not part.restartable:
            raise DataError(
                f"--class-weight balanced: {part.describe()} cannot be read twice, and labels are counted "
                "first; give a file, or weights such as yes=5,no=1"
            )
        counts += _counted(part, encoding, parsers)
    total = np.sum(gather([counts.tolist()]), axis=0)
    if not total.all():
        missing = encoding.classes[int(np.argmin(total))]
        raise DataError(f"--class-weight balanced: found no example of the class {missing}")
    return ClassWeights(tuple((total.sum() / (len(total) * total)).tolist()), two)


def _counted(part: Stream, encoding: Encoding, parsers: int | None) -> np.ndarray:
    """Examples of every class."""
    assert encoding.classes is not None
    found = np.zeros(len(encoding.classes), np.int64)
    encoder = Encoder(encoding, learning=False, skip=True)
    for rows, _ in ParallelStream(encoder.stream(part), ParsingPool(parsers)).read():
        found += np.bincount(numbers(rows.y, encoding.n_outputs == 1), minlength=len(found))
    return found


def _given(wanted: str, encoding: Encoding) -> tuple[float, ...]:
    """Weights that were given by label."""
    found: dict[str, float] = {}
    for pair in wanted.split(","):
        label, _, weight = pair.rpartition("=")
        try:
            found[label] = float(weight)
        except ValueError:
            found[label] = -1.0
        if not label or not 0.0 <= found[label] < np.inf:
            raise DataError(
                f"--class-weight {wanted}: found {pair!r}, expected balanced or weights such as yes=5,no=1"
            )
    labels = [str(label) for label in encoding.labels().tolist()]
    if unknown := sorted(set(found) - set(labels)):
        raise DataError(
            f"--class-weight {wanted}: found no class {unknown[0]!r}, expected "
            f"{listed(encoding.classes or ())}"
        )
    return tuple(found.get(label, 1.0) for label in labels)
