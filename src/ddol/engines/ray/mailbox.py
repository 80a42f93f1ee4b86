"""Letters that other processes have sent, and whoever waits for them."""

from __future__ import annotations

import threading
import time
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any


class StaleError(Exception):
    """Somebody was lost: what is being waited for will not come in this epoch."""


@dataclass(frozen=True)
class Wait:
    """For whom somebody waits, and since when."""

    sender: int
    since: float

    @property
    def seconds(self) -> float:
        """How long it has been."""
        return time.monotonic() - self.since


class Mailbox:
    """Letters by key, in epochs: a new epoch begins when somebody was lost, and forgets the old one.

    Any thread may `post`; the one that plays takes. Letters of an epoch that has not begun here yet
    are kept, since others may be ahead.

    Examples
    --------
    >>> box = Mailbox()
    >>> box.post(0, ("sum", 1), sender=2, letter=[1.0])
    >>> box.take(("sum", 1), sender=2)
    [1.0]
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._letters: dict[tuple[int, Hashable, int], Any] = {}
        self._over = -1
        """The last epoch that has ended."""
        self.epoch = 0
        self.wait: Wait | None = None
        self.longest = 0.0

    def post(self, epoch: int, key: Hashable, sender: int, letter: Any) -> None:
        """Put a message into the box; one of an epoch that is over is dropped."""
        with self._changed:
            if epoch >= self.epoch:
                self._letters[epoch, key, sender] = letter
                self._changed.notify_all()

    def take(self, key: Hashable, sender: int) -> Any:
        """Wait for a letter, without using the processor, and take it out of the box.

        Raises
        ------
        StaleError
            The epoch has ended.
        """
        wanted = (self.epoch, key, sender)
        with self._changed:
            if wanted not in self._letters and not self._stale:
                self.wait = Wait(sender, time.monotonic())
                self._changed.wait_for(lambda: wanted in self._letters or self._stale)
                self.longest = max(self.longest, self.wait.seconds)
                self.wait = None
            if self._stale:
                raise StaleError
            return self._letters.pop(wanted)

    @property
    def _stale(self) -> bool:
        return self.epoch <= self._over

    def end_epoch(self, epoch: int) -> None:
        """Wake whoever waits: nothing more will come in this epoch.

        The word may come late, when the next one has begun, or early, before this one has.
        """
        with self._changed:
            self._over = max(self._over, epoch)
            self._changed.notify_all()

    def begin_epoch(self, epoch: int) -> None:
        """Forget letters of earlier epochs."""
        with self._changed:
            self.epoch = epoch
            self._letters = {key: v for key, v in self._letters.items() if key[0] >= epoch}
