"""Seeded shuffling of a stream in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ddol.streams.over.wrapped import WrappedStream
from ddol.streams.rows import Rows, concatenate
from ddol.streams.stream import Position, Stream

_PIECE_BYTES = 8 << 20
_BEGINNING: dict[str, Any] = {"at": None, "window": 0, "done": 0}


@dataclass(frozen=True)
class ShuffledStream(WrappedStream):
    """Another stream in random order, by permuting windows of consecutive rows.

    A window is as many blocks of the stream as reach `memory` bytes. Data that fit in one
    window, and all data that are in memory already, are permuted as a whole. Larger files
    keep their large-scale order: a file sorted by class should be shuffled on disk first.
    Every pass has another order.

    Parameters
    ----------
    stream
        Where the rows come from.
    seed
        Seed of the order; the generator of a window is seeded by (seed, pass, window).
    memory
        Bytes that close a window.

    Examples
    --------
    >>> from ddol.streams.arrays import array_stream
    >>> stream = ShuffledStream(array_stream(np.eye(5), np.arange(5)), seed=1)
    >>> sorted(y for rows, _ in stream.read() for y in rows.y.tolist())
    [0.0, 1.0, 2.0, 3.0, 4.0]
    """

    seed: int = 0
    memory: int = 64 << 20

    in_place = False
    own_positions = True

    def read(
        self, position: Position | None = None, pass_number: int = 0
    ) -> Iterator[tuple[Rows, Position]]:
        """Yield the rows of one window after the other, in pieces, in random order."""
        at = position or _BEGINNING
        number, done = at["window"], at["done"]
        for start, after, rows in self._windows(at["at"], pass_number):
            order = self._order(len(rows), pass_number, number)
            step = max(1, _PIECE_BYTES * len(rows) // max(1, rows.nbytes))
            for lo in range(done, len(rows), step):
                hi = min(lo + step, len(rows))
                end = {"at": start, "window": number, "done": hi}
                if hi == len(rows):
                    end = {"at": after, "window": number + 1, "done": 0}
                yield rows.take(order[lo:hi]), end
            number, done = number + 1, 0
            # The next window is gathered now; two at once would double the memory.
            del rows

    def locate(self, position: Position | None, row: int) -> str:
        """Where the window of the row begins; change labels below a shuffle, not above it."""
        return f"{self.stream.locate(self.below(position), 0)} or after it (the rows are shuffled)"

    def _windows(
        self, block: Position | None, pass_number: int
    ) -> Iterator[tuple[Position | None, Position, Rows]]:
        """Yield windows with the positions before and after them."""
        pieces: list[Rows] = []
        start, after = block, block
        for rows, after in self.stream.read(block, pass_number):
            pieces.append(rows)
            if sum(piece.nbytes for piece in pieces) >= self.memory:
                yield start, after, _joined(pieces)
                start = after
        if pieces:
            yield start, after, _joined(pieces)

    def _order(self, n: int, pass_number: int, window: int) -> np.ndarray:
        return np.random.default_rng([self.seed, pass_number, window]).permutation(n)


def is_shuffled(stream: Stream) -> bool:
    """Whether a stream is shuffled, so that every pass has another order.

    Examples
    --------
    >>> from ddol.streams.arrays import array_stream
    >>> stream = array_stream([[1.0]], [1])
    >>> is_shuffled(stream), is_shuffled(ShuffledStream(stream))
    (False, True)
    """
    while isinstance(stream, WrappedStream) and not isinstance(stream, ShuffledStream):
        stream = stream.stream
    return isinstance(stream, ShuffledStream)


def _joined(pieces: list[Rows]) -> Rows:
    rows = concatenate(pieces)
    pieces.clear()
    return rows
