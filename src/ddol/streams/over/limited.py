"""The beginning of a stream, and what was read ahead of one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ddol.streams.errors import DataError
from ddol.streams.over.wrapped import WrappedStream
from ddol.streams.rows import Rows
from ddol.streams.stream import Position, Stream


@dataclass(frozen=True)
class LimitedStream(WrappedStream):
    """The first rows of another stream.

    Parameters
    ----------
    stream : Stream
    limit : int
        Most rows of a pass.

    Examples
    --------
    >>> from ddol.streams.arrays import array_stream
    >>> short = LimitedStream(array_stream([[1.0], [2.0], [3.0]], [1, 0, 1]), 2)
    >>> [len(rows) for rows, _ in short.read()]
    [2]
    """

    limit: int

    own_positions = True

    @property
    def n_examples(self) -> int | None:
        """Number of rows, if known."""
        known = self.stream.n_examples
        return None if known is None else min(known, self.limit)

    def read(
        self, position: Position | None = None, pass_number: int = 0
    ) -> Iterator[tuple[Rows, Position]]:
        """Yield rows until there are enough."""
        at, read = (position["at"], position["read"]) if position else (None, 0)
        if read >= self.limit:
            return
        for rows, after in self.stream.read(at, pass_number):
            rows = rows.slice(0, self.limit - read)
            read += len(rows)
            yield rows, {"at": after, "read": read}
            if read >= self.limit:
                return

    def progress(self, position: Position | None) -> tuple[int, int] | None:
        """Rows read and in total, if the limit is what ends the stream."""
        known = self.stream.n_examples
        if known is not None and known < self.limit:
            return self.stream.progress(self.below(position))
        return (position["read"] if position else 0), self.limit


class ReadAhead:
    """A stream that can be read once, of which the beginning has been looked at already.

    Parameters
    ----------
    stream : Stream
    """

    restartable = False
    n_examples = None

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.n_features = stream.n_features
        self._rest = stream.read()
        self._seen: list[tuple[Rows, Position]] = []
        self._begun = False

    def look(self) -> Iterator[tuple[Rows, Position]]:
        """Yield the blocks of the beginning, and keep them for `read`."""
        for item in self._rest:
            self._seen.append(item)
            yield item

    def read(
        self, position: Position | None = None, pass_number: int = 0
    ) -> Iterator[tuple[Rows, Position]]:
        """Yield all blocks, once."""
        if self._begun or position or pass_number:
            raise DataError(f"{self.describe()} cannot be read twice; give a file instead")
        self._begun = True
        while self._seen:
            yield self._seen.pop(0)
        yield from self._rest

    def describe(self) -> str:
        """Name of the stream."""
        return self.stream.describe()

    def progress(self, position: Position | None) -> tuple[int, int] | None:
        """Unknown."""
        return None

    def locate(self, position: Position | None, row: int) -> str:
        """Row number."""
        return self.stream.locate(position, row)
