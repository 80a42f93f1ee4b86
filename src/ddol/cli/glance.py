"""A look at the beginning of the data: enough to know the labels, without reading all of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ddol.streams.errors import DataError
from ddol.streams.rows import Rows
from ddol.streams.summary import MOST_LABELS, joined

LONG_RUN = 1000
"""Rows of one class at the beginning of a stream that are worth a warning."""

_MOST_KEPT = 256 << 20


@dataclass(frozen=True)
class Glance:
    """What the beginning of a stream shows.

    Parameters
    ----------
    labels : tuple of float
        Distinct labels, in rising order.
    rows : int
        Rows that were read.
    run : int
        Rows before a second label appears.
    first : float
        The label of those rows.
    """

    labels: tuple[float, ...]
    rows: int
    run: int
    first: float


def glance(
    blocks: Iterable[tuple[Rows, object]], least_rows: int, name: str, kept: bool = False
) -> Glance:
    """Read until there are two labels and enough rows.

    Parameters
    ----------
    blocks : what a stream's ``read`` yields
    least_rows : int
        Rows to see at least, if the stream has them.
    name : str
        Of the stream.
    kept : bool
        Whether the blocks stay in memory, which then bounds how far to look.

    Examples
    --------
    >>> rows = Rows.from_dense(np.eye(3), [1, 1, 2])
    >>> glance([(rows, 3)], 1, "eye")
    Glance(labels=(1.0, 2.0), rows=3, run=2, first=1.0)
    """
    labels, rows, run, size = np.empty(0), 0, 0, 0
    first = np.nan
    for block, _ in blocks:
        first = first if rows else float(block.y[0])
        if len(labels) < 2:
            run += _leading(block.y, first)
        labels = joined(labels, block.y)[: MOST_LABELS + 1]
        rows += len(block)
        size += block.nbytes
        if len(labels) > 1 and rows >= least_rows:
            break
        if kept and size > _MOST_KEPT:
            raise DataError(
                f"{name}: found one class only (label {labels[0]:g}) in the first {rows} rows, "
                "expected two; shuffle the data, or name the labels with --labels"
            )
    return Glance(tuple(labels.tolist()), rows, run, first)


def _leading(y: np.ndarray, label: float) -> int:
    other = y != label
    return int(other.argmax()) if other.any() else len(y)
