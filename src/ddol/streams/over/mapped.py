"""Streams whose rows are changed on the way: an intercept, mapped labels, hashed columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

from ddol.streams.arrays import RowsStream
from ddol.streams.over.parallel import pieces_of
from ddol.streams.over.wrapped import WrappedStream
from ddol.streams.rows import Rows
from ddol.streams.stream import Parsed, Piece, Position, Stream

Change: TypeAlias = Callable[[Rows, Callable[[int], str]], Rows]
"""New rows from old; the second argument says where a row is, for messages."""


@dataclass(frozen=True)
class MappedStream(WrappedStream):
    """Another stream with every block of rows changed by a function.

    Parameters
    ----------
    stream
        Where the rows come from; positions are its own.
    change
        New rows from old, row by row.
    width
        Number of columns after the change, or None when unknown.
    all_rows
        Whether the change leaves no row out.
    """

    change: Change
    width: int | None
    all_rows: bool = True

    @property
    def n_features(self) -> int | None:
        """Number of columns after the change."""
        return self.width

    @property
    def n_examples(self) -> int | None:
        """Number of rows, if it is that of the stream below."""
        return self.stream.n_examples if self.all_rows else None

    def read(
        self, position: Position | None = None, pass_number: int = 0
    ) -> Iterator[tuple[Rows, Position]]:
        """Yield the changed rows and the position after them."""
        before = position
        for rows, after in self.stream.read(position, pass_number):
            yield self.change(rows, partial(self.stream.locate, before)), after
            before = after

    def pieces(self, position: Position | None = None, pass_number: int = 0) -> Iterator[Piece]:
        """Yield pieces of the stream below that are changed where they are parsed."""
        for piece in pieces_of(self.stream, position, pass_number):
            yield partial(self._changed, piece)

    def _changed(self, piece: Piece) -> Parsed:
        parsed = piece()
        if not len(parsed.block):
            return parsed
        return replace(parsed, block=self.change(parsed.block, parsed.locate))


def mapped(stream: Stream, change: Change, width: int | None, all_rows: bool = True) -> Stream:
    """Stream with changed rows; rows in memory are changed once, here.

    Parameters
    ----------
    stream, change, width, all_rows
        See `MappedStream`.
    """
    if isinstance(stream, RowsStream):
        return replace(stream, rows=change(stream.rows, partial(stream.locate, None)))
    return MappedStream(stream, change, width, all_rows)


def with_intercept(stream: Stream) -> Stream:
    """Stream with a constant 1 as column 0, every other column moved up by one.

    Examples
    --------
    >>> from ddol.streams.arrays import array_stream
    >>> [(rows, _)] = with_intercept(array_stream([[5.0], [6.0]], [0, 1])).read()
    >>> rows.data
    array([1., 5., 1., 6.])
    """
    width = None if stream.n_features is None else stream.n_features + 1
    return mapped(stream, _add_intercept, width)


def _add_intercept(rows: Rows, where: Callable[[int], str]) -> Rows:
    return rows.with_intercept()
