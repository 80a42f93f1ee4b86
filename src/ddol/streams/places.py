"""Positions in streams, checked where they come from a file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ddol.streams.errors import DataError
from ddol.streams.rows import Rows
from ddol.streams.stream import Position, Stream

_KEYS = {"block", "skip", "dealt"}
_NO_PLACE = (TypeError, KeyError, IndexError, AttributeError, OverflowError, RecursionError)


def check_position(position: Any, n_streams: int, own: Sequence[int] | None = None) -> None:
    """Refuse what `ddol.streams.dealing.deal` does not yield for so many streams.

    Parameters
    ----------
    position
        What is to be checked.
    n_streams
        Streams that there are.
    own
        Those that are read here; all if not given.

    Examples
    --------
    >>> check_position({"pass": 0, "streams": [{"block": None, "skip": -1, "dealt": 0}]}, 1)
    Traceback (most recent call last):
    ddol.streams.errors.DataError: found a position that is not one of 1 stream, expected one from ...
    """
    if not _is_position(position, n_streams, range(n_streams) if own is None else own):
        raise DataError(
            f"found a position that is not one of {n_streams} stream{'s' * (n_streams > 1)}, expected one "
            "from a checkpoint of this run; start the run again"
        )


def _is_position(position: Any, n_streams: int, own: Sequence[int]) -> bool:
    if not isinstance(position, dict) or position.keys() != {"pass", "streams"}:
        return False
    places = position["streams"]
    if not isinstance(places, list) or len(places) != n_streams:
        return False
    read = [places[k] for k in own]
    if not all(isinstance(each, dict) and each.keys() == _KEYS for each in read):
        return False
    counts = [position["pass"], *(place[each] for place in read for each in ("skip", "dealt"))]
    return all(type(count) is int and count >= 0 for count in counts)


def read_from(
    stream: Stream, block: Position | None, pass_number: int
) -> Iterator[tuple[Rows, Position]]:
    """The blocks of a stream; a place that is none of its own shows when the first is asked for."""
    if block is None:
        return stream.read(block, pass_number)
    with meant_for(stream):  # some begin to read ahead at once
        return _first_with_care(stream, stream.read(block, pass_number))


def _first_with_care(
    stream: Stream, blocks: Iterator[tuple[Rows, Position]]
) -> Iterator[tuple[Rows, Position]]:
    with meant_for(stream):
        first = next(blocks, None)
    if first is not None:
        yield first
        yield from blocks


@contextmanager
def meant_for(stream: Stream) -> Iterator[None]:
    """Say it in one line if what is done fails because a place is none of the stream's own."""
    try:
        yield
    except _NO_PLACE as error:
        raise DataError(
            f"{stream.describe()}: found a position of another stream ({type(error).__name__}), expected one "
            "from a checkpoint of this run; start the run again"
        ) from error
