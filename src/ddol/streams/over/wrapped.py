"""Streams over another one: mapped, limited, read ahead, or weighted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar, TypeAlias

import numpy as np

from ddol.streams.arrays import RowsStream
from ddol.streams.errors import DataError
from ddol.streams.rows import Floats, Rows
from ddol.streams.stream import Parsed, Piece, Position, Stream, pieces_of


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


_MOST_CHUNKS = 4
"""Text of so many chunks is read at a time at most: memory is bounded."""


def for_agents(stream: Stream, first: int, last: int, n_agents: int, processes: int = 1) -> Stream:
    """The same stream without what only other agents would see of it.

    Rows of other agents stay, so that blocks and positions are the same, but they may be empty.
    A stream that cannot pass over rows, or whose order is another than that of the file, is
    returned as it is.

    Parameters
    ----------
    stream
        To be dealt round-robin.
    first, last
        Agents whose rows are needed; `last` is exclusive.
    n_agents
        Agents in all.
    processes
        Among which they are divided: so many times the text is read at a time, that each of them
        finds as much of its own in it, and they meet less often.

    Examples
    --------
    >>> from ddol.streams.text.libsvm import LibsvmStream
    >>> for_agents(LibsvmStream(("a.libsvm",)), 0, 2, 4).keep
    (0, 2, 4)
    """
    if isinstance(stream, WrappedStream):
        below = for_agents(stream.stream, first, last, n_agents, processes)
        return replace(stream, stream=below) if stream.in_place else stream
    if hasattr(stream, "keep"):
        changeable: Any = stream
        chunk = changeable.chunk_bytes * min(processes, _MOST_CHUNKS)
        return replace(changeable, keep=(first, last, n_agents), chunk_bytes=chunk)
    return stream


@dataclass(frozen=True)
class WeightedStream(WrappedStream):
    """Another stream whose rows have weights from a file, one per line.

    Parameters
    ----------
    stream
        Where the rows come from.
    path
        Text file with as many numbers as there are rows.
    """

    path: str

    in_place = False
    own_positions = True

    @cached_property
    def weights(self) -> Floats:
        """All numbers of the file."""
        try:
            with open(self.path, encoding="utf-8") as file:  # noqa: PTH123
                found = np.array([float(line) for line in file if line.strip()])
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise DataError(
                f"{self.path}: cannot be read as weights ({reason}), expected one number per line"
            ) from None
        if not np.all(found >= 0.0) or not np.all(np.isfinite(found)):
            line = int(np.argmin((found >= 0.0) & np.isfinite(found))) + 1
            raise DataError(f"{self.path}:{line}: found a weight below 0 or not finite")
        return found

    @property
    def n_examples(self) -> int | None:
        """Number of rows: that of the weights."""
        return len(self.weights)

    def read(
        self, position: Position | None = None, pass_number: int = 0
    ) -> Iterator[tuple[Rows, Position]]:
        """Yield the rows with their weights."""
        at, row = (position["at"], position["row"]) if position else (None, 0)
        for rows, after in self.stream.read(at, pass_number):
            weight = self.weights[row : row + len(rows)]
            row += len(rows)
            if len(weight) < len(rows):
                self._refuse("more")
            yield replace(rows, weight=weight), {"at": after, "row": row}
        if row < len(self.weights):
            self._refuse("fewer")

    def _refuse(self, more: str) -> None:
        raise DataError(
            f"{self.path}: found {len(self.weights)} weights, and {more} rows in {self.describe()}; "
            "expected one for each row"
        )
