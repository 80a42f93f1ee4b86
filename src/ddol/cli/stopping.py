"""Stopping between two blocks when a signal asks for it."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any


class StoppedError(Exception):
    """A signal ended the run."""

    def __init__(self, number: int, advice: str = "") -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}{advice and '; '}{advice}")
        self.number = number

    @property
    def exit_code(self) -> int:
        """128 + the signal's number, as shells have it."""
        return 128 + self.number


class Signals:
    """While this is entered, SIGINT and SIGTERM are remembered instead of obeyed.

    A second signal, or the first where nothing could be resumed, stops the run at once.

    Parameters
    ----------
    at_once : bool
        Whether to stop without waiting for the end of a block: reading a pipe may never end.
        May be changed at any time.

    Examples
    --------
    >>> with Signals() as signals:
    ...     signal.raise_signal(signal.SIGTERM)
    ...     print(signals.caught)
    15
    """

    def __init__(self, at_once: bool = False) -> None:
        self.at_once = at_once
        self.caught: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Signals:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._catch)
        return self

    def __exit__(self, *failure: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _catch(self, number: int, frame: FrameType | None) -> None:
        if self.at_once or self.caught is not None:
            raise StoppedError(number)
        self.caught = number
