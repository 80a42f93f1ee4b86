"""Naming a file at which a library ends the whole process: Rust does so where memory cannot be had."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

_HANDLER = ctypes.CFUNCTYPE(None, ctypes.c_int)


class _Watch:
    """The files that are read at the moment, and what to do if the process is to be aborted meanwhile."""

    def __init__(self) -> None:
        self.files: list[str] = []
        self.lock = threading.Lock()
        self._own = _HANDLER(self._say)
        self._before: int | None = None

    def begin(self, file: str) -> None:
        with self.lock:
            self.files.append(file)
            if len(self.files) == 1:
                self._before = _on_abort(ctypes.cast(self._own, ctypes.c_void_p).value)

    def end(self, file: str) -> None:
        with self.lock:
            self.files.remove(file)
            if not self.files:
                _on_abort(self._before)

    def _say(self, number: int) -> None:
        files = " or ".join(sorted(set(self.files)))
        text = f"ddol: {files}: cannot be read (its reader gave up); check the file, or write it again\n"
        os.write(2, text.encode())
        os._exit(2)


def _on_abort(handler: int | None) -> int | None:
    """Set what is done at SIGABRT; what was done before. Python's own handlers would come too late."""
    before: int | None = _c_signal()(signal.SIGABRT, handler)
    return before


@cache
def _c_signal() -> Any:
    """The C library's `signal`."""
    found = ctypes.CDLL(None).signal
    found.restype, found.argtypes = ctypes.c_void_p, [ctypes.c_int, ctypes.c_void_p]
    return found


_watch = _Watch()


@contextmanager
def named_at_abort(file: str) -> Iterator[None]:
    """While this is entered, an abort of the process is one line that names the file, and exit code 2.

    A page of a damaged file may ask for 2⁶¹ bytes, and nothing in Python hears of the end.

    Examples
    --------
    >>> with named_at_abort("table.parquet"):
    ...     pass
    """
    if os.name != "posix":
        yield
        return
    _watch.begin(file)
    try:
        yield
    finally:
        _watch.end(file)
