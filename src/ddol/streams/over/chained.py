"""Several streams as one, read one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ddol.streams.rows import Rows
from ddol.streams.stream import Position, Stream


@dataclass(frozen=True)
class ChainedStream:
    """Several streams with the same columns, read one after the other.

    Parameters
    ----------
    streams
        What is read.
    are_passes
        Whether they are one stream several times over: each is read as its own pass.

    Examples
    --------
    >>> from ddol.streams.arrays import array_stream
    >>> one = array_stream([[1.0]], [1])
    >>> ChainedStream((one, one)).n_examples
    2
    """

    streams: tuple[Stream, ...]
    are_passes: bool = False

    @property
    def n_features(self) -> int | None:
        """Largest number of columns; None when one is unknown."""
        widths = [stream.n_features for stream in self.streams]
        known = [width for width in widths if width is not None]
        return max(known) if len(known) == len(widths) else None

    @property
    def n_examples(self) -> int | None:
        """Number of rows in all streams; None when one is unknown."""
        counts = [stream.n_examples for stream in self.streams]
        known = [count for count in counts if count is not None]
        return sum(known) if len(known) == len(counts) else None

    @property
    def restartable(self) -> bool:
        """Whether all can be read again."""
        return all(stream.restartable for stream in self.streams)

    def read(
        self, position: Position | None = None, pass_number: int = 0
    ) -> Iterator[tuple[Rows, Position]]:
        """Yield the rows of one stream after the other."""
        first, at = (position["stream"], position["at"]) if position else (0, None)
        for number in range(first, len(self.streams)):
            turn = number if self.are_passes else pass_number
            for rows, after in self.streams[number].read(at, turn):
                yield rows, {"stream": number, "at": after}
            at = None

    def describe(self) -> str:
        """Name of the first stream and how many more there are."""
        first, more = self.streams[0].describe(), len(self.streams) - 1
        return first if not more else f"{first} and {more} more"

    def progress(self, position: Position | None) -> tuple[int, int] | None:
        """Work done and in total in all streams."""
        present, at = (position["stream"], position["at"]) if position else (0, None)
        done = 0
        total = 0
        for number, stream in enumerate(self.streams):
            pair = stream.progress(at if number == present else None)
            if pair is None:
                return None
            done += pair[1] if number < present else pair[0]
            total += pair[1]
        return done, total

    def locate(self, position: Position | None, row: int) -> str:
        """Place of a row of the block after `position`."""
        present, at = (position["stream"], position["at"]) if position else (0, None)
        while present < len(self.streams):
            stream = self.streams[present]
            if next(stream.read(at), None) is not None:
                return stream.locate(at, row)
            present, at = present + 1, None
        return self.describe()
