"""Recovery from a lost worker: a copy of its agents on another worker, and a common moment to go back to.

*What is kept*: after a block, each worker's own agents and those of the worker before it in a circle, so that
every agent is on two workers. *When*: at most once in `SECONDS`. *Who restores what*: all workers find the
newest moment of which every agent is still known, and each gets its own agents from a worker that has them.

Workers that play rounds agree on all of this through their `Group` (`Recovery.keep`, `Recovery.restore`).
Asynchronous workers never wait for each other: the next worker in the circle keeps the copy
(`Recovery.hold`), and a worker that was started again asks it (`Recovery.held`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ddol.algorithm import Algorithm
from ddol.engines.kernels import COPIES
from ddol.engines.state import State, sharing
from ddol.engines.workers.shares import joined_parts, part_of

if TYPE_CHECKING:
    from ddol.engines.groups.grouped import Group

SECONDS = 1.0
"""Between two copies: the most that has to be learned again after a loss."""

Share = tuple[int, int]
"""First agent and number of agents."""


@dataclass(frozen=True)
class Copy:
    """Some agents as they were at a moment of the run.

    Parameters
    ----------
    version : int
        Number of the moment, counted from 1; 0 is the beginning of the run, of which there are no copies.
    share : (first, agents)
    part : State, or what asynchronous agents need
    past : object
        What belongs to the run at that moment: the same on every worker.
    """

    version: int
    share: Share
    part: Any
    past: Any = None

    def apart(self) -> Copy:
        """The same in memory of its own."""
        return replace(self, part=self.part.copy())


class Recovery:
    """The copies that one worker keeps."""

    def __init__(self) -> None:
        self.copies: list[Copy] = []
        self.complete = 0
        """Snapshots of which this worker knows that all workers have them."""
        self._made = time.monotonic()

    @property
    def version(self) -> int:
        """The newest moment of which this worker has a copy."""
        return max((copy.version for copy in self.copies), default=0)

    def due(self) -> bool:
        """Whether the last copy is old enough for a new one."""
        return time.monotonic() - self._made > SECONDS

    # Workers that play rounds together.

    def keep(self, group: Group, share: Share, part: State, past: Callable[[], Any]) -> None:
        """Make copies if they are due anywhere; all workers call it after the same block."""
        if group.reduce([int(self.due())])[0]:
            self._snapshot(group, Copy(self.version + 1, share, part.copy(), past()))

    def _snapshot(self, group: Group, own: Copy) -> None:
        given = group.snapshot(own)
        made = [own] if given is own else [own, given]
        self.copies += made
        del given
        # A worker that is lost before all have met here takes the others back to the moment before.
        group.reduce([])
        self.copies = made
        self.complete += 1
        self.done()

    def restore(self, group: Group, algorithm: Algorithm) -> Copy | None:
        """The own agents at the newest moment that is complete; None where there is none.

        All workers call it after a loss, and then have copies on two workers again.
        """
        held = group.gather([(copy.version, copy.share) for copy in self.copies])
        version, pieces = newest_complete(held, algorithm.n_agents)
        # Newer copies are of moments that not all workers have reached; they would be taken for later ones.
        self.copies = [copy for copy in self.copies if copy.version == version]
        if not version:
            return None
        shares = group.shares(algorithm.n_agents)
        found: list[tuple[Copy, Share]] = []
        for share, used in pieces:
            having = [rank for rank, copies in enumerate(held) if (version, share) in copies]
            takers = [rank for rank, other in enumerate(shares) if _common(other, used)[1]]
            missing = [rank for rank in takers if rank not in having]
            copy = next((copy for copy in self.copies if copy.share == share), None)
            if missing:
                copy = group.restore(copy, having[0], missing) or copy
            if group.rank in takers and copy is not None:
                found.append((copy, _common(shares[group.rank], used)))
        own = Copy(version, shares[group.rank], _put_together(algorithm, found), found[0][0].past)
        self._snapshot(group, own)
        return own

    # Workers that do not wait for each other.

    def hold(self, copy: Copy) -> None:
        """Keep a copy for the worker before this one."""
        self.copies = [copy]
        self.copies = [copy.apart()]  # what came through a shared store must not fill it

    def held(self, version: int) -> Copy | None:
        """The copy that another worker has left here."""
        return next((copy for copy in self.copies if copy.version == version), None)

    def done(self) -> None:
        """Copies were made just now."""
        self._made = time.monotonic()


def newest_complete(
    held: Sequence[Sequence[tuple[int, Share]]], n_agents: int
) -> tuple[int, list[tuple[Share, Share]]]:
    """The newest moment of which every agent is known, and where to find its agents.

    Parameters
    ----------
    held : sequence of (version, share) for every worker
        The copies that each has.
    n_agents : int

    Returns
    -------
    tuple
        The version, 0 where none is complete, and pairs of shares: one that was copied, and the agents of it
        that are to be used.

    Examples
    --------
    >>> newest_complete([[(1, (0, 2)), (1, (2, 2)), (2, (0, 2))], [(1, (2, 2))]], n_agents=4)
    (1, [((0, 2), (0, 2)), ((2, 2), (2, 2))])
    """
    for version in sorted({version for copies in held for version, _ in copies}, reverse=True):
        known = {share for copies in held for other, share in copies if other == version}
        pieces, reached = [], 0
        while reached < n_agents:
            share = max((s for s in sorted(known) if s[0] <= reached), key=sum, default=(0, 0))
            if sum(share) <= reached:
                break
            pieces.append((share, (reached, sum(share) - reached)))
            reached = sum(share)
        else:
            return version, pieces
    return 0, []


def _common(one: Share, other: Share) -> Share:
    """Agents of both."""
    first = max(one[0], other[0])
    return first, max(0, min(sum(one), sum(other)) - first)


def _put_together(algorithm: Algorithm, found: Sequence[tuple[Copy, Share]]) -> State:
    """The agents that are wanted of some copies, as one part of the state."""
    parts = [
        copy.part if copy.share == used else part_of(copy.part, used[0] - copy.share[0], used[1])
        for copy, used in found
    ]
    if len(parts) == 1:
        return parts[0]
    return joined_parts(parts, [used for _, used in found], sharing(algorithm) != COPIES)
