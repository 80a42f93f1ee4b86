"""The interface of every source of examples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeAlias, runtime_checkable

Position: TypeAlias = Any
"""A JSON-able value that says where reading stands; only its own stream understands it."""


@dataclass(frozen=True)
class Parsed:
    """A piece of a stream that was read.

    Parameters
    ----------
    block
        Its rows; there may be none.
    after
        The position after it, from the one before it; called in the order of the stream.
    locate
        Where a row of the block is, for messages.
    """

    block: Any
    after: Callable[[Position | None], Position]
    locate: Callable[[int], str]


Piece: TypeAlias = Callable[[], Parsed]
"""A piece of a stream that is read when it is called, in any thread."""


@runtime_checkable
class Stream(Protocol):
    """A restartable source of examples: a description of where they are, not an open file.

    `read` may be called any number of times. The position that comes with some rows
    restarts right after them, with the same rows in the same blocks as an uninterrupted
    reading would have given.

    A stream that several threads can parse also has ``pieces(position, pass_number)``, an iterator
    of `Piece`: it is advanced by one thread at a time, and its pieces are called by any.

    Examples
    --------
    >>> from ddol.streams.arrays import array_stream
    >>> stream = array_stream([[1.0], [2.0]], [1, -1])
    >>> isinstance(stream, Stream), stream.n_examples, stream.restartable
    (True, 2, True)
    """

    @property
    def n_features(self) -> int | None:
        """Number of columns, or None when it is unknown before reading."""

    @property
    def n_examples(self) -> int | None:
        """Number of rows in one pass, or None when it is unknown before reading."""

    @property
    def restartable(self) -> bool:
        """Whether `read` can be called more than once; standard input can be read once only."""

    def read(
        self, position: Position | None = None, pass_number: int = 0
    ) -> Iterator[tuple[Any, Position]]:
        """Yield blocks of rows and the position right after each.

        A reader yields what its format has (`ddol.streams.raw.Raw`), an encoded stream `Rows`.

        Parameters
        ----------
        position
            Where to go on; None for the beginning.
        pass_number
            Which pass over the data this is; only a shuffle depends on it.
        """

    def describe(self) -> str:
        """Short name for tables and messages, such as the file's."""

    def progress(self, position: Position | None) -> tuple[int, int] | None:
        """Return work done and in total at `position` (bytes or rows), or None if unknown."""

    def locate(self, position: Position | None, row: int) -> str:
        """Where row `row` of the block that begins at `position` is, for messages."""


def described(streams: Sequence[Stream]) -> str:
    """Names of streams in a few words.

    Examples
    --------
    >>> from ddol.streams.arrays import array_stream
    >>> described([array_stream([[1.0]], [1])] * 5)
    'X, X, X and 2 more'
    """
    names = ", ".join(stream.describe() for stream in streams[:3])
    return f"{names} and {len(streams) - 3} more" if len(streams) > 3 else names


def pieces_of(
    stream: Stream, position: Position | None = None, pass_number: int = 0
) -> Iterator[Piece]:
    """Pieces of any stream; one that has none of its own is read from front to back."""
    own = getattr(stream, "pieces", None)
    return (
        own(position, pass_number) if own is not None else _as_pieces(stream, position, pass_number)
    )


def _as_pieces(stream: Stream, position: Position | None, pass_number: int) -> Iterator[Piece]:
    before = position
    for rows, after in stream.read(position, pass_number):
        parsed = Parsed(rows, partial(_constant, after), partial(stream.locate, before))
        yield partial(_constant, parsed, None)
        before = after


def _constant(value: Any, _: Any = None) -> Any:
    return value
