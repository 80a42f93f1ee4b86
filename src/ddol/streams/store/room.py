"""How much memory this process can still allocate, and checks against it."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator
from pathlib import Path

from ddol.streams.errors import DataError

_GROUPS = Path("/sys/fs/cgroup")
_OWN_GROUPS = Path("/proc/self/cgroup")
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h

NOTHING = 16 << 20
"""Requests up to this many bytes are allowed without asking the system."""


def keep_memory() -> None:
    """Let the C library use again what was freed, instead of giving it back to the system.

    Block after block needs as much as the one before, and pages that come anew must be cleared: a
    tenth of the time from text to model.
    """
    tune = getattr(ctypes.CDLL(None), "mallopt", None) if os.name == "posix" else None
    if tune is not None:
        tune(_MMAP_THRESHOLD, 64 << 20)
        tune(_TRIM_THRESHOLD, 256 << 20)
        os.environ.setdefault(
            "ARROW_DEFAULT_MEMORY_POOL", "system"
        )  # pyarrow, if it is imported later


def check_room(where: str, needed: int, advice: str) -> None:
    """Refuse a file that would take more memory than is left: a small archive may be large.

    Parameters
    ----------
    where
        What messages call it.
    needed
        Bytes.
    advice
        What to do instead.

    Examples
    --------
    >>> check_room("a.npz", 2**60, "write it as text")
    Traceback (most recent call last):
    ddol.streams.errors.DataError: a.npz: found 1152921504.6 GB of numbers, expected at most the ...
    """
    left = None if needed < NOTHING else bytes_available()
    if left is not None and needed > left:
        raise DataError(
            f"{where}: found {needed / 1e9:.1f} GB of numbers, expected at most the {left / 1e9:.1f} GB that "
            f"are left of this machine's memory; {advice}"
        )


def bytes_available() -> int | None:
    """Bytes that this process can still allocate; None if the system does not report it.

    The machine may have a limit, the group of processes that this one is in (a container), each group
    around it, and the process itself (``ulimit -v``).
    """
    found = [*_left_on_the_machine(), *_left_in_groups(), *_left_of_addresses()]
    return max(0, min(found)) if found else None


def _left_on_the_machine() -> Iterator[int]:
    with contextlib.suppress(OSError, ValueError, IndexError):
        text = Path("/proc/meminfo").read_text(encoding="ascii")
        yield 1024 * int(text.split("MemAvailable:")[1].split()[0])


def _left_in_groups() -> Iterator[int]:
    """What is left to the groups that this process is in, from its own one up to the outermost that is seen.

    In a container its own group is the outermost, whatever it is called outside.
    """
    with contextlib.suppress(OSError, ValueError):
        for line in _OWN_GROUPS.read_text(encoding="utf-8").splitlines():
            _, kinds, place = line.split(":", 2)
            if kinds == "":
                files, roots = ("memory.max", "memory.current"), (_GROUPS, _GROUPS / "unified")
            elif "memory" in kinds.split(","):
                files = ("memory.limit_in_bytes", "memory.usage_in_bytes")
                roots = (_GROUPS / kinds, _GROUPS / "memory")
            else:
                continue
            own = Path(place.lstrip("/"))
            for root in roots:
                for group in (own, *own.parents):
                    yield from _left_in_group(root / group, *files)


def _left_in_group(folder: Path, limit: str, used: str) -> Iterator[int]:
    with contextlib.suppress(OSError, ValueError):  # there is no such group, or no limit
        most = int((folder / limit).read_text(encoding="ascii"))
        taken = int((folder / used).read_text(encoding="ascii"))
        # The page cache is released by the system when memory is needed.
        text = (folder / "memory.stat").read_text(encoding="ascii").splitlines()
        pages = dict(line.split(maxsplit=1) for line in text)
        cached = (int(pages.get(name, 0)) for name in ("active_file", "inactive_file"))
        yield most - taken + sum(cached)


def _left_of_addresses() -> Iterator[int]:
    with contextlib.suppress(OSError, ValueError, ImportError):
        import resource  # not on every system

        most, _ = resource.getrlimit(resource.RLIMIT_AS)
        if most != resource.RLIM_INFINITY:
            pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
            yield most - pages * resource.getpagesize()
