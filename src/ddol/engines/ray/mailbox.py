"""Messages from other processes, and waiting for them."""

from __future__ import annotations

import threading
import time
from collections.abc import Hashable
from typing import Any


class StaleError(Exception):
    """The epoch has ended, since an actor was lost: the message will not come."""


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
        self.longest = 0.0
        """Seconds of the longest wait that ended well."""
        self._wait: tuple[int, float] | None = None
        """Sender of the message that is waited for, and since when."""

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
                began = time.monotonic()
                self._wait = sender, began
                self._changed.wait_for(lambda: wanted in self._messages or self._stale)
                self.longest, self._wait = max(self.longest, time.monotonic() - began), None
            if self._stale:
                raise StaleError
            return self._messages.pop(wanted)

    def waiting(self) -> tuple[int | None, float]:
        """Sender of the message that is waited for, None if none is, and seconds of the wait so far."""
        wait = self._wait  # another thread may set it meanwhile
        return (None, 0.0) if wait is None else (wait[0], time.monotonic() - wait[1])

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
