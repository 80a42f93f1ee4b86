"""Stop at signals: the first ends the run between two blocks, the second at once."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType
from typing import Any

_STOPPING = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)
_PATIENCE = 0.8
"""Seconds that a second signal leaves for an orderly end."""


class StoppedError(BaseException):
    """A signal ended the run; it may come anywhere, and code that recovers from errors must not catch it."""

    def __init__(self, number: int, advice: str = "", again: bool = False) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}{advice and '; '}{advice}")
        self.number = number
        self.again = again
        """Whether this was a second signal: then there is no time for anything else."""

    @property
    def exit_code(self) -> int:
        """128 + the signal's number, as shells have it."""
        return 128 + self.number


class Signals:
    """While this is entered, SIGINT, SIGTERM and SIGHUP (a closed terminal) are remembered instead of obeyed.

    A second signal, or the first where waiting could take for ever, stops the run at once. Should
    that not happen, because compiled code is at work and Python hears nothing, a thread ends the process.

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
        self._ended = threading.Event()
        self._pipe: tuple[int, int] | None = None
        self._wakeup = -1

    def __enter__(self) -> Signals:
        if threading.current_thread() is threading.main_thread():
            for number in _STOPPING:
                if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup leaves it
                    self._before[number] = signal.signal(number, self._catch)
            self._pipe = os.pipe()
            os.set_blocking(self._pipe[1], False)
            self._wakeup = signal.set_wakeup_fd(self._pipe[1], warn_on_full_buffer=False)
            threading.Thread(target=self._guard, args=(self._pipe[0],), daemon=True).start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._ended.set()
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if self._pipe is not None:
            signal.set_wakeup_fd(self._wakeup)
            os.close(self._pipe[1])  # the guard reads the end of it, and leaves

    def _catch(self, number: int, frame: FrameType | None) -> None:
        again = self.caught is not None
        self.caught = number
        if self.at_once or again:
            raise StoppedError(number, again=again)

    def _guard(self, pipe: int) -> None:
        """End the process if the second signal has not done so."""
        heard = 0
        while arrived := os.read(pipe, 64):
            numbers = [n for n in arrived if n in _STOPPING]
            heard += len(numbers)
            if heard > 1 and numbers and not self._ended.wait(_PATIENCE):
                os.write(2, f"stopped by {signal.Signals(numbers[-1]).name}\n".encode())
                os._exit(128 + numbers[-1])
        os.close(pipe)
