"""Threads that work together again and again."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any


class OthersFailedError(Exception):
    """A worker left its rounds because another one failed."""


class WorkerThreads:
    """Threads that work together again and again, and sleep in between.

    The calling thread is the first of them.
    """

    def __init__(self, workers: int) -> None:
        self.size = workers
        self._orders: list[SimpleQueue] = [SimpleQueue() for _ in range(workers - 1)]
        self._reports: SimpleQueue = SimpleQueue()
        for w, orders in enumerate(self._orders, start=1):
            thread = threading.Thread(
                target=_serve, args=(w, orders, self._reports), name=f"ddol-{w}", daemon=True
            )
            thread.start()
        self.close: Callable[[], Any] = weakref.finalize(self, _dismiss, self._orders)

    def work(self, work: Callable[[int], None], stop: Callable[[], None]) -> None:
        """Call ``work(w)`` in every thread; the first error calls `stop` and is raised.

        Parameters
        ----------
        work
            What thread w does.
        stop
            Makes the others leave early, by raising `OthersFailedError`.
        """
        for orders in self._orders:
            orders.put((work, stop))
        errors = [_attempt(work, stop, 0)]
        while len(errors) <= len(self._orders):
            try:
                errors.append(self._reports.get())
            except BaseException as error:  # Ctrl-C, while the others are still at work
                stop()
                errors[0] = errors[0] or error
        failed = [error for error in errors if error is not None]
        causes = [error for error in failed if not isinstance(error, OthersFailedError)]
        if failed:
            raise (causes or failed)[0]


def _attempt(work: Callable[[int], None], stop: Callable[[], None], w: int) -> BaseException | None:
    try:
        work(w)
    except BaseException as error:  # raised again by the calling thread
        stop()
        return error
    return None


def _serve(w: int, orders: SimpleQueue, reports: SimpleQueue) -> None:
    while True:
        order = orders.get()
        if order is None:
            return
        work, stop = order
        reports.put(_attempt(work, stop, w))
        del order, work, stop  # what it refers to must not live until the next one


def _dismiss(orders: list[SimpleQueue]) -> None:
    for each in orders:
        each.put(None)
