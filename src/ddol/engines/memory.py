"""The memory that a run needs, said before it is taken, and kept once it is."""

from __future__ import annotations

import contextlib
import ctypes
import os
from math import prod
from pathlib import Path

from ddol.algorithm import Algorithm
from ddol.engines.kernels import COPIES
from ddol.engines.state import numbers_sent, sharing
from ddol.engines.state_checks import expected_state
from ddol.streams.errors import DataError

_CGROUPS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h

_NOTHING = 16 << 20
"""Bytes that any machine has: nobody asks the system about less."""


def keep_memory() -> None:
    """Let the C library use again what was freed, instead of giving it back to the system.

    Block after block needs as much as the one before, and pages that come anew must be cleared: a
    tenth of the time from text to model.
    """
    tune = getattr(ctypes.CDLL(None), "mallopt", None) if os.name == "posix" else None
    if tune is not None:
        tune(_MMAP_THRESHOLD, 64 << 20)
        tune(_TRIM_THRESHOLD, 256 << 20)


def bytes_needed(algorithm: Algorithm, n_features: int) -> int:
    """Bytes of the states of all agents, of a copy of them, and of their messages.

    Examples
    --------
    >>> from ddol.communicate.topologies import ring
    >>> from ddol.presets import dogd
    >>> bytes_needed(dogd().on(ring(64)), 10**6) // 2**20
    1464
    """
    states = sum(
        8 * prod(n or 0 for n in each.shape)
        for each in expected_state(algorithm, n_features).values()
    )
    copies = algorithm.n_agents if sharing(algorithm) == COPIES else 1
    return 2 * states + 8 * copies * numbers_sent(algorithm, n_features)


def bytes_available() -> int | None:
    """Bytes that this process can still have; None where the system does not say."""
    found = []
    with contextlib.suppress(OSError, ValueError, IndexError):
        told = Path("/proc/meminfo").read_text(encoding="ascii")
        found.append(1024 * int(told.split("MemAvailable:")[1].split()[0]))
    for name in _CGROUPS:
        with contextlib.suppress(OSError, ValueError):
            found.append(int(Path(name).read_text(encoding="ascii")))
    return min(found, default=None)


def check_memory(algorithm: Algorithm, n_features: int) -> None:
    """Refuse a run that does not fit this machine, with the figure and what to do."""
    needed = bytes_needed(algorithm, n_features)
    available = None if needed < _NOTHING else bytes_available()
    if available is None or needed <= available:
        return
    n = algorithm.n_agents
    fewer = (
        [] if sharing(algorithm) != COPIES else ["a complete graph, whose agents share one copy"]
    )
    raise DataError(
        f"{n} agents with {n_features} features each need {needed / 1e9:.1f} GB for states and "
        f"messages, this machine has {available / 1e9:.1f} GB left; use --bits, fewer agents"
        f"{''.join(f', or {each}' for each in fewer)}"
    )
