"""Keeping whoever decodes a table on the core of the thread that waits for it."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

_DECODES = "async-executor"
"""How the names of those threads of polars begin; they live as long as the process."""

_decoders: list[int] = []


@contextmanager
def on_one_core(polars: Any) -> Iterator[None]:
    """While this is entered, this thread stays where it is, and polars' only one decodes there as well.

    This thread sleeps meanwhile, so its core is free. On another one every line of the memory that was read
    here would have to be fetched before it is written again, which takes longer than decoding. Which core it
    is remains the system's choice from piece to piece. Where polars has several threads they are left alone.
    """
    if polars.thread_pool_size() > 1 or not _decoding():
        yield
        return
    allowed, here = os.sched_getaffinity(0), {_c_library().sched_getcpu()}
    try:
        for thread in (0, *_decoding()):
            _keep(thread, here)
        yield
    finally:
        _keep(0, allowed)


def _keep(thread: int, cores: set[int]) -> None:
    """Keep a thread on some cores, where that is allowed: it is faster there, and right anywhere."""
    with suppress(OSError):
        os.sched_setaffinity(thread, cores)


def _decoding() -> list[int]:
    """Threads with which polars decodes: none before the first piece, or elsewhere than in Linux."""
    if not _decoders and hasattr(os, "sched_setaffinity"):
        tasks = Path("/proc/self/task").iterdir()
        _decoders.extend(int(each.name) for each in tasks if _name(each).startswith(_DECODES))
    return _decoders


def _name(task: Path) -> str:
    """A thread's name; none if it has ended since it was listed."""
    try:
        return (task / "comm").read_text()
    except OSError:
        return ""


@cache
def _c_library() -> Any:
    return ctypes.CDLL(None)
