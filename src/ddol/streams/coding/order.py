"""Detect rows that are sorted by label, which misleads online learning."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import lgamma, log
from typing import Any

import numpy as np

from ddol.streams.coding.labels import Label, listed
from ddol.streams.coding.summary import label_cells
from ddol.streams.over.wrapped import ReadAhead
from ddol.streams.raw import Cells, Text
from ddol.streams.stream import Stream

LONG_RUN = 1000
"""Rows of one class at the beginning of a stream that are worth a warning."""
_RARE = 0.1
"""Labels are grouped if they change no more often than this share of what chance would bring."""
_ENOUGH = 10
"""Changes that chance would bring at least, before few of them mean anything."""
_CHANCE = 0.01
"""Chance that shuffled rows would stand in groups."""
_MOST_CHANGES = 100
_MOST_ROWS = 1 << 16


@dataclass
class LabelOrder:
    """How labels follow each other in the rows of a stream that were looked at.

    Parameters
    ----------
    classification
        Whether labels are classes; else they are numbers, and it is rising or falling that matters.

    Examples
    --------
    >>> order = LabelOrder()
    >>> order.add(np.repeat([0.0, 1.0, 2.0], 50))
    >>> order.changes, order.grouped
    (2, True)
    >>> order.doubt("iris.csv", "use --shuffle")
    'iris.csv: rows with the same label stand together: the first 50 rows have the label 0 only, ...
    """

    classification: bool = True
    rows: int = 0
    changes: int = 0
    run: int = 0
    first: Label | None = None
    rises: int = 0
    falls: int = 0
    _last: Label | None = None
    _counts: dict[Label, int] | None = field(default_factory=dict)

    def with_labels(self, cells: Cells) -> LabelOrder:
        """Updated by more labels."""
        self.add(cells)
        return self

    def add(self, cells: Cells) -> None:
        """Look at the labels of the next rows, the first 65,536 of them; missing ones are passed over."""
        given = cells.codes if isinstance(cells, Text) else cells
        labels = given[:_MOST_ROWS]
        labels = labels if isinstance(cells, Text) else np.asarray(labels, np.float64)
        labels = labels[labels >= 0] if isinstance(cells, Text) else labels[~np.isnan(labels)]
        if not len(labels):
            return
        if not self.classification:
            self._add_numbers(labels)
            return
        starts = np.concatenate([[0], np.flatnonzero(labels[1:] != labels[:-1]) + 1])
        self.rows += len(labels)
        self._add_runs(cells, labels[starts], np.diff(starts, append=len(labels)))

    def _add_runs(self, cells: Cells, labels: np.ndarray, lengths: np.ndarray) -> None:
        names: Any = cells.values.__getitem__ if isinstance(cells, Text) else float
        begins, last = names(labels[0]), self._last
        self.first = begins if self.first is None else self.first
        if self.changes == 0 and self.first == begins:
            self.run += int(lengths[0])
        self.changes += len(lengths) - 1 + (last is not None and last != begins)
        self._last = names(labels[-1])
        if self.changes > max(_MOST_CHANGES, _RARE * self.rows):
            self._counts = None  # so many changes are no groups, however many rows each label has
        if self._counts is not None:
            for label, length in zip(map(names, labels.tolist()), lengths.tolist(), strict=True):
                self._counts[label] = self._counts.get(label, 0) + length

    def _add_numbers(self, numbers: np.ndarray) -> None:
        before = [] if self._last is None else [self._last]
        steps = np.diff(np.concatenate([before, numbers]))
        self.rises += int(np.count_nonzero(steps > 0.0))
        self.falls += int(np.count_nonzero(steps < 0.0))
        self._last = float(numbers[-1])
        self.rows += len(numbers)

    @property
    def expected(self) -> float:
        """Changes of the label that shuffled rows would have."""
        shares = [count / self.rows for count in (self._counts or {}).values()]
        return (self.rows - 1) * (1.0 - sum(share * share for share in shares))

    @property
    def grouped(self) -> bool:
        """Whether rows with the same label are adjacent far more often than by chance."""
        if not self.classification:
            few, many = sorted((self.rises, self.falls))
            return many >= _ENOUGH and few <= _RARE * _RARE * many
        if not self._counts or len(self._counts) < 2:
            return False
        if self.expected >= _ENOUGH and self.changes <= _RARE * self.expected:
            return True
        return self.changes == len(self._counts) - 1 and self._chance_of_groups() < log(_CHANCE)

    @property
    def suspect(self) -> bool:
        """Whether the order needs a warning."""
        return self.grouped or (self.classification and self.run >= LONG_RUN)

    def _chance_of_groups(self) -> float:
        """Logarithm of the chance that shuffled rows have one group for each label."""
        counts = list((self._counts or {}).values())
        orders = lgamma(self.rows + 1) - sum(lgamma(count + 1) for count in counts)
        return lgamma(len(counts) + 1) - orders

    def doubt(self, name: str, remedy: str) -> str | None:
        """A warning if the order is one to be warned of; None if it is not.

        Parameters
        ----------
        name
            Of the data.
        remedy
            What to do.
        """
        if self.grouped and not self.classification:
            way = "rise" if self.rises > self.falls else "fall"
            return (
                f"{name}: the labels of the first {self.rows:,} rows only {way}, so that the next one is "
                f"easily predicted from the last; the errors counted while learning are too low; {remedy}"
            )
        if self.grouped:
            return (
                f"{name}: rows with the same label stand together: the first {self.run:,} rows have the "
                f"label {listed([self.first or 0.0])} only, and it changes {self.changes:,} "
                f"{'time' if self.changes == 1 else 'times'} in {self.rows:,} rows, by chance about "
                f"{self.expected:,.0f} times; the errors counted while learning are too low, and the model "
                f"forgets the labels that came first; {remedy}"
            )
        if self.classification and self.run >= LONG_RUN and self.first is not None:
            return (
                f"{name}: the first {self.run:,} rows have the label {listed([self.first])} only; an "
                f"online learner forgets what it has not seen for long; {remedy}"
            )
        return None


def order_of_beginning(stream: Stream, label: str | None, classification: bool) -> LabelOrder:
    """Order of the labels in the first block of a stream, which can still be read from its beginning.

    Parameters
    ----------
    stream
        A restartable stream, or a `ReadAhead`.
    label
        The label's column, if the stream is one of tables.
    classification
        See `LabelOrder`.
    """
    order, block = LabelOrder(classification), first_block(stream)
    cells = None if block is None else label_cells(block, label)
    if cells is not None and not (isinstance(cells, Text) and not classification):
        order.add(cells)
    return order


def first_block(stream: Stream) -> Any:
    """The first block of a stream, which can still be read from its beginning; None if it is empty."""
    blocks = stream.look() if isinstance(stream, ReadAhead) else stream.read()
    return next(iter(blocks), (None, None))[0]
