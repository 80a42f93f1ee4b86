"""What the driver of a Ray job says while it waits: for whom, and for how long."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ddol.engines.news import tell
from ddol.engines.ray.host import Status

_LEAST = 3.0
"""Seconds before a wait is worth a line."""

_START = 10.0
"""The same before an actor is there at all."""

_TIMES = 10.0
"""So many times the longest wait that ended well is worth one, too."""


_FAR, _WORTH = 2.0, 100_000.0
"""An actor with half the examples of the others, and so many less, is worth a line."""


class Watch:
    """Looks at what actors tell, and names those for whom the others wait.

    Parameters
    ----------
    shares : (first, agents) of every actor
    """

    def __init__(self, shares: Sequence[tuple[int, int]]) -> None:
        self.shares = shares
        self.deadline = _LEAST
        self.statuses: Sequence[Status] = ()
        self._next: dict[int, float] = {}

    def look(self, statuses: Sequence[Status]) -> None:
        """Say for whom others wait longer than they have ever had to, at growing intervals."""
        self.statuses = statuses
        longest = max((status.longest for status in statuses), default=0.0)
        self.deadline = max(_LEAST, _TIMES * longest)
        waited: dict[int, float] = {}
        waiting = {status.rank for status in statuses if status.waits_for is not None}
        for status in statuses:
            # Who waits is not to blame.
            if status.waits_for is not None and status.waits_for not in waiting:
                waited[status.waits_for] = max(waited.get(status.waits_for, 0.0), status.waited)
        rounds = {status.rank: status.rounds for status in statuses}
        for rank, seconds in waited.items():
            if seconds > self._next.setdefault(rank, self.deadline):
                behind = max(rounds.values()) - rounds.get(rank, 0)
                late = f", {behind:,} rounds behind" if behind else ""
                self.say(f"waiting for {self.named(rank)} since {seconds:.0f} s{late}")
                self._next[rank] = 2 * seconds
        self._next = {
            rank: then for rank, then in self._next.items() if rank in waited or rank < -1
        }

    def name_stragglers(self, examples: Mapping[int, int]) -> None:
        """Say who is far behind the others where nobody waits, at growing intervals."""
        if len(examples) < 2:
            return
        middle = sorted(examples.values())[len(examples) // 2]
        for rank, seen in examples.items():
            behind = middle - seen
            if seen < middle / _FAR and behind > self._next.setdefault(-2 - rank, _WORTH):
                self.say(f"{self.named(rank)} is {behind:,} examples behind the others")
                self._next[-2 - rank] = 2 * behind

    def waits_for_start(self, ranks: Sequence[int], seconds: float) -> None:
        """Say which actors have not answered yet, at growing intervals."""
        if seconds > self._next.setdefault(-1, max(_START, self.deadline)):
            who = ", ".join(self.named(rank) for rank in ranks[:4]) + (
                "…" if len(ranks) > 4 else ""
            )
            self.say(f"waiting for Ray to start {who} since {seconds:.0f} s")
            self._next[-1] = 2 * seconds

    def named(self, rank: int) -> str:
        """An actor, with its agents.

        Examples
        --------
        >>> Watch([(0, 4), (4, 1)]).named(0)
        'actor 0 (agents 0–3)'
        """
        first, agents = self.shares[rank]
        return f"actor {rank} (" + (
            f"agent {first})" if agents == 1 else f"agents {first}–{first + agents - 1})"
        )

    def say(self, text: str) -> None:
        """One line on standard error, and in the log of the live page."""
        tell(text)
