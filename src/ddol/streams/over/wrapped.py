"""Streams over another stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ddol.streams.stream import Position, Stream


@dataclass(frozen=True)
class WrappedStream:
    """Another stream, changed on the way: all that a change leaves as it is.

    Who wraps a stream adds `read`, and says what else is different.

    Parameters
    ----------
    stream
        The stream below.
    """

    stream: Stream

    in_place: ClassVar[bool] = True
    """Whether row k is row k of the wrapped stream, so that rows that are not needed can be skipped there."""
    own_positions: ClassVar[bool] = False
    """Whether positions are ``{"at": position below, …}`` rather than those below."""

    def below(self, position: Position | None) -> Position | None:
        """The position of the stream below."""
        return position["at"] if position and self.own_positions else position

    @property
    def n_features(self) -> int | None:
        """Number of columns, as in the stream below."""
        return self.stream.n_features

    @property
    def n_examples(self) -> int | None:
        """Number of rows, as in the stream below."""
        return self.stream.n_examples

    @property
    def restartable(self) -> bool:
        """Whether the stream below can be read again."""
        return self.stream.restartable

    def describe(self) -> str:
        """Name of the stream below."""
        return self.stream.describe()

    def progress(self, position: Position | None) -> tuple[int, int] | None:
        """Progress of the stream below."""
        return self.stream.progress(self.below(position))

    def locate(self, position: Position | None, row: int) -> str:
        """Place of a row in the stream below."""
        return self.stream.locate(self.below(position), row)
