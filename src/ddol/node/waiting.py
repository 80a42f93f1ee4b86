"""Predictions that wait for labels, by identifier, and the identifiers answered or expired."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterator
from typing import NamedTuple

from ddol.node.features import LiveRow

WAITING, ANSWERED, EXPIRED, UNKNOWN = "waiting", "answered", "expired", "unknown"


_BEGUN = time.time() - time.monotonic()


def clock() -> float:
    """Seconds since 1970 by the clock of the start: when the clock is set, no prediction expires."""
    return _BEGUN + time.monotonic()


class Pending(NamedTuple):
    """A prediction that waits: its row, what was predicted, and when (seconds of the clock)."""

    row: LiveRow
    said: float
    """The number of the label that was predicted, or the score of a regression; NaN where there was none."""
    time: float


class WaitingRoom:
    """Bounded memory of predictions; the oldest make room, and count as expired.

    Parameters
    ----------
    most : int
        Most predictions that wait, and most answered or expired identifiers that are remembered.
    expire : float
        Seconds after which a prediction expires.

    Examples
    --------
    >>> import numpy as np
    >>> room = WaitingRoom(most=1, expire=60.0)
    >>> row = LiveRow(np.ones(1), None)
    >>> room.add("a", Pending(row, 1.0, 0.0)); room.add("b", Pending(row, 1.0, 1.0))
    >>> room.status("a"), room.status("b"), room.status("c"), room.expired
    ('expired', 'waiting', 'unknown', 1)
    """

    def __init__(self, most: int, expire: float) -> None:
        if most < 1:
            raise ValueError(f"`waiting` must be at least 1, it is {most}")
        self.most, self.seconds = most, expire
        self.pending: OrderedDict[str, Pending] = OrderedDict()
        self.done: OrderedDict[str, str] = OrderedDict()
        self.expired = 0

    def __len__(self) -> int:
        return len(self.pending)

    def add(self, name: str, pending: Pending) -> None:
        """Keep a prediction; a second one of the same name takes the place of the first."""
        if name in self.pending:
            del self.pending[name]
        elif len(self.pending) >= self.most:
            self._drop_oldest()
        self.pending[name] = pending
        if self.done:
            self.done.pop(name, None)

    def purge(self, now: float) -> None:
        """Drop what has waited too long."""
        pending, latest = self.pending, now - self.seconds
        while pending and next(iter(pending.values())).time < latest:
            self._drop_oldest()

    def limit(self, most: int) -> None:
        """Let so many wait from now on."""
        self.most = most
        while len(self.pending) > most:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        name, _ = self.pending.popitem(last=False)
        self.expired += 1
        self._remember(name, EXPIRED)

    def _remember(self, name: str, what: str) -> None:
        self.done[name] = what
        if len(self.done) > self.most:
            self.done.popitem(last=False)

    def status(self, name: str) -> str:
        """Whether a prediction waits, was answered, has expired, or is not known."""
        return WAITING if name in self.pending else self.done.get(name, UNKNOWN)

    def take(self, name: str) -> Pending:
        """A waiting prediction, which is answered now."""
        pending = self.pending.pop(name)
        self._remember(name, ANSWERED)
        return pending

    def finished(self, what: str) -> Iterator[str]:
        """Identifiers that were answered, or that expired."""
        return (name for name, became in self.done.items() if became == what)
