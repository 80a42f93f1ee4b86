"""Reading ahead in a thread, for work that releases the interpreter's lock."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from ddol.streams.rows import Rows
from ddol.streams.stream import Position, Stream

T = TypeVar("T")


def prefetch(items: Iterator[T], depth: int = 2) -> Iterator[T]:
    """Yield `items`, computing up to `depth` of them ahead in a background thread.

    An exception of `items` is raised where its item would have been. Closing the iterator
    ends the thread after the item it is working on.

    Examples
    --------
    >>> list(prefetch(iter(range(5))))
    [0, 1, 2, 3, 4]
    """
    ready: queue.Queue[tuple[str, Any]] = queue.Queue(maxsize=max(2, depth))
    stopped = threading.Event()
    thread = threading.Thread(target=_work, args=(items, ready, stopped), daemon=True)
    thread.start()
    try:
        while True:
            kind, item = ready.get()
            if kind == "end":
                return
            if kind == "error":
                raise item
            yield item
    finally:
        stopped.set()
        # One item at most waits for room; after it the thread sees that it is stopped, and
        # its last message fits as well.
        while not ready.empty():
            ready.get_nowait()
        thread.join()


def _work(items: Iterator[T], ready: queue.Queue, stopped: threading.Event) -> None:
    try:
        for item in items:
            ready.put(("item", item))
            if stopped.is_set():
                break
        close = getattr(items, "close", None)
        if close is not None:
            close()
        ready.put(("end", None))
    except BaseException as error:  # handed to the reading thread, which raises it
        ready.put(("error", error))


@dataclass(frozen=True)
class PrefetchedStream:
    """Another stream, read ahead in a thread while what it gave is learned from.

    Blocks and positions are those of the stream below. Standard input is better left alone: a
    thread that waits for it cannot be ended.

    Parameters
    ----------
    stream
        Where the rows come from.

    Examples
    --------
    >>> from ddol.streams.arrays import array_stream
    >>> [len(rows) for rows, _ in PrefetchedStream(array_stream([[1.0]], [1])).read()]
    [1]
    """

    stream: Stream

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

    def read(
        self, position: Position | None = None, pass_number: int = 0
    ) -> Iterator[tuple[Rows, Position]]:
        """Yield rows that have been read ahead."""
        return prefetch(self.stream.read(position, pass_number))

    def describe(self) -> str:
        """Name of the stream below."""
        return self.stream.describe()

    def progress(self, position: Position | None) -> tuple[int, int] | None:
        """Progress of the stream below."""
        return self.stream.progress(position)

    def locate(self, position: Position | None, row: int) -> str:
        """Place of a row in the stream below."""
        return self.stream.locate(position, row)
