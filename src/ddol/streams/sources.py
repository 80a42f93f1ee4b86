"""Streams from what users give: arrays, frames, generators, streams, or one of them for each agent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ddol.streams.arrays import array_stream
from ddol.streams.generated import GeneratedStream
from ddol.streams.stream import Stream
from ddol.streams.tables.frames import frame_streams, is_frame, with_answers


def as_streams(streams: Any, checked: bool = True, n_agents: int = 1) -> list[Stream]:
    """Streams from what users give: (X, y), a stream, a generator, a data frame with partitions, or a list.

    Features are `checked` to be finite unless the reader checks them itself.
    """
    if _is_stream(streams):
        return [streams]
    if callable(streams) or isinstance(streams, Iterator):
        return [GeneratedStream(streams)]
    if is_frame(streams):
        return frame_streams(streams, n_agents)
    if isinstance(streams, tuple) and len(streams) in (2, 3) and not _is_stream(streams[0]):
        given, answers, weight = (*streams, None)[:3]
        X, y = with_answers(given, answers)
        return [array_stream(X, y, weight, checked=checked)]
    if not isinstance(streams, list | tuple) or not streams:
        raise TypeError(
            f"found {type(streams).__name__} as `streams`, expected (X, y), a data frame, "
            "a stream, a generator, or a list of these, one for each agent"
        )
    return [as_streams(one, checked)[0] for one in streams]


def _is_stream(given: Any) -> bool:
    """Whether this is a stream; that an array is none would take the protocol alone long to find out."""
    return hasattr(given, "read") and isinstance(given, Stream)
