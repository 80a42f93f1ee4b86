"""Held-out examples, which are predicted and never learned from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from ddol.streams.over.wrapped import WrappedStream
from ddol.streams.rows import Rows, concatenate
from ddol.streams.stream import Position

_MOST_BYTES = 16 << 20


class HeldOut:
    """The first examples that were held out, as many as fit into a bounded memory."""

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self.most_bytes = most_bytes
        self.pieces: list[Rows] = []
        self.reached = 0
        """Rows of the stream that have been looked at."""

    def __len__(self) -> int:
        return sum(map(len, self.pieces))

    @property
    def full(self) -> bool:
        """Whether no more is kept."""
        return sum(piece.nbytes for piece in self.pieces) >= self.most_bytes

    def rows(self) -> Rows:
        """All of them, as one block."""
        self.pieces = [concatenate(self.pieces)]
        return self.pieces[0]


@dataclass(frozen=True)
class HoldoutStream(WrappedStream):
    """Another stream without a share of its examples, every k-th for 1/k, which are kept aside.

    Parameters
    ----------
    stream
        Where the rows come from, in the same order in every pass.
    share
        Of the examples, as a fraction p/q: p of any q that follow one another are held out.
    held
        Where they are kept.

    Examples
    --------
    >>> from ddol.streams.arrays import array_stream
    >>> stream = HoldoutStream(array_stream(np.eye(5), np.arange(5)), Fraction(1, 3))
    >>> [(rows, _)] = stream.read()
    >>> rows.y, stream.held.rows().y
    (array([0., 1., 3., 4.]), array([2.]))
    """

    share: Fraction
    held: HeldOut = field(default_factory=HeldOut)

    in_place = False  # rows are dealt by their place in what is left
    own_positions = True

    @property
    def n_examples(self) -> int | None:
        """Rows that are left, if known."""
        known = self.stream.n_examples
        return None if known is None else known - int(known * self.share)

    def read(
        self, position: Position | None = None, pass_number: int = 0
    ) -> Iterator[tuple[Rows, Position]]:
        """Yield the rows that are left."""
        at, row = (position["at"], position["row"]) if position else (None, 0)
        if row > self.held.reached or (pass_number and not self.held.reached):
            self.look_through(row if not pass_number else None)
        for rows, after in self.stream.read(at, pass_number):
            left = self._split(rows, row)
            row += len(rows)
            if len(left):
                yield left, {"at": after, "row": row}

    def _split(self, rows: Rows, first: int) -> Rows:
        """The rows that are left of a block that begins with row `first`."""
        before = np.arange(first, first + len(rows) + 1) * self.share.numerator
        out = np.diff(before // self.share.denominator) > 0
        if first == self.held.reached and not self.held.full:
            if out.any():
                self.held.pieces.append(rows.take(np.flatnonzero(out)))
            self.held.reached = first + len(rows)
        return rows.take(np.flatnonzero(~out)) if out.any() else rows

    def look_through(self, most_rows: int | None = None) -> None:
        """Find the held-out examples of a stream that another process reads or has read."""
        row = 0
        for rows, _ in self.stream.read():
            if self.held.full or (most_rows is not None and row >= most_rows):
                return
            self._split(rows, row)
            row += len(rows)

    def locate(self, position: Position | None, row: int) -> str:
        """Where the block of the row begins."""
        place = self.stream.locate(self.below(position), 0)
        return f"{place} or after it (some rows are held out)"
