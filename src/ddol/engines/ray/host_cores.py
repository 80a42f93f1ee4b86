"""Which core an actor plays on, where actors have a machine to themselves."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path


class HostCores:
    """The cores that this process may use, of which it takes one where every core has an actor.

    An actor has threads of its own, of polars and of Ray; they work one after the other. Wherever all cores
    are busy the system lets those of all actors change places, and memory goes from core to core with them:
    a tenth of the time. Where there are more cores than actors it is left alone, since others may be at
    work there, and so it is where actors must take turns.

    Examples
    --------
    >>> HostCores({4, 5}).core(0, here=1), HostCores({4, 5}).core(1, here=2)
    (None, 5)
    """

    def __init__(self, cores: set[int] | None = None) -> None:
        known = getattr(os, "sched_getaffinity", None)
        self.allowed = cores or (known(0) if known is not None else set())

    def core(self, number: int, here: int) -> int | None:
        """The core of actor `number` of so many on this node, if it has one to itself."""
        return sorted(self.allowed)[number] if here == len(self.allowed) else None

    def take(self, number: int, here: int) -> None:
        """Put all threads there are on the core; those that they start are where they are."""
        core = self.core(number, here)
        for thread in _threads() if self.allowed else ():
            with suppress(OSError):  # it has ended, or may not be moved
                os.sched_setaffinity(thread, self.allowed if core is None else {core})


def seats(nodes: Sequence[str]) -> Iterator[tuple[int, tuple[int, int]]]:
    """Every actor, the how-manieth on its node it is, and how many are there.

    Examples
    --------
    >>> list(seats(["a", "b", "a"]))
    [(0, (0, 2)), (1, (0, 1)), (2, (1, 2))]
    """
    for rank, node in enumerate(nodes):
        yield rank, (nodes[:rank].count(node), nodes.count(node))


def _threads() -> list[int]:
    """All threads of this process."""
    return [int(each.name) for each in Path("/proc/self/task").iterdir()]
