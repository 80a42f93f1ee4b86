"""Reading only the rows of some agents, where a stream can pass over the others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ddol.streams.over.wrapped import WrappedStream
from ddol.streams.stream import Stream

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
