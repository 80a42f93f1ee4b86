"""Reading ahead in a thread, for work that releases the interpreter's lock."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import Any, TypeVar

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
