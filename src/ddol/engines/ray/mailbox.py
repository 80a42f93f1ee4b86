"""Messages from other processes, and waiting for them."""

from __future__ import annotations

import threading
import time
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any


class StaleError(Exception):
    """The epoch has ended, since an actor was lost: the message will not come."""


@dataclass(frozen=True)
class Wait:
    """A wait for a message."""

    sender: int
    began: float

    @property
    def seconds(self) -> float:
        """Seconds so far."""
        return time.monotonic() - self.began


class Mailbox:
    """Messages by key, in epochs: a new epoch begins when an actor was lost, and forgets the old one.

    Any thread may `post`; the one that plays takes. Messages of an epoch that has not begun here yet
    are kept, since others may be ahead.

    Examples
    --------
    >>> box = Mailbox()
    >>> box.post(0, ("sum", 1), sender=2, message=[1.0])
    >>> box.take(("sum", 1), sender=2)
    [1.0]
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._messages: dict[tuple[int, Hashable, int], Any] = {}
        self._over = -1
        """The last epoch that has ended."""
        self.epoch = 0
        self.wait: Wait | None = None
        self.longest = 0.0

    def post(self, epoch: int, key: Hashable, sender: int, message: Any) -> None:
        """Put a message into the box; one of an epoch that has ended is dropped."""
        with self._changed:
            if epoch >= self.epoch:
                self._messages[epoch, key, sender] = message
                self._changed.notify_all()

    def take(self, key: Hashable, sender: int) -> Any:
        """Wait for a message, without using the processor, and take it out of the box.

        Raises
        ------
        StaleError
            The epoch has ended.
        """
        wanted = (self.epoch, key, sender)
        with self._changed:
            if wanted not in self._messages and not self._stale:
                self.wait = Wait(sender, time.monotonic())
                self._changed.wait_for(lambda: wanted in self._messages or self._stale)
                self.longest = max(self.longest, self.wait.seconds)
                self.wait = None
            if self._stale:
                raise StaleError
            return self._messages.pop(wanted)

    @property
    def _stale(self) -> bool:
        return self.epoch <= self._over

    def end_epoch(self, epoch: int) -> None:
        """Wake a thread that waits: nothing more will come in this epoch.

        It may be called late, when the next epoch has begun, or early, before this one has.
        """
        with self._changed:
            self._over = max(self._over, epoch)
            self._changed.notify_all()

    def begin_epoch(self, epoch: int) -> None:
        """Forget messages of earlier epochs."""
        with self._changed:
            self.epoch = epoch
            self._messages = {key: v for key, v in self._messages.items() if key[0] >= epoch}
