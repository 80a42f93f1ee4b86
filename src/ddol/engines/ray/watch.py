"""Reports of the driver about actors that others wait for, or that are far behind."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence

from ddol.engines.news import tell
from ddol.engines.ray.host import Status

_LEAST = 3.0
"""Seconds before a wait is worth a line."""

_START = 10.0
"""The same before an actor is there at all."""

_PATIENCE = 10.0
"""The same before an actor that does not answer may be given up."""

_TIMES = 10.0
"""A wait of so many times the longest one that ended well is worth a line, too."""


_FAR, _WORTH = 2.0, 100_000.0
"""An actor with half the examples of the others, and so many less, is worth a line."""


class Watch:
    """Looks at the actors' statuses, and reports those that the others wait for.

    Parameters
    ----------
    shares : (first, agents) of every actor
    """

    def __init__(self, shares: Sequence[tuple[int, int]]) -> None:
        self.shares = shares
        self.deadline = _LEAST
        self._rounds: dict[int, int] = {}
        self._told: set[int] = set()
        """Ranks that were reported as given up."""
        self._learned: dict[int, tuple[int, float]] = {}
        """Examples of every actor, and the time since when."""
        self._next: dict[int, float] = {}

    def look(self, statuses: Sequence[Status]) -> list[int]:
        """Report actors that others wait for longer than ever before, at growing intervals.

        Returns
        -------
        list
            Ranks that may be given up: others have waited for long, and they do not answer either.
        """
        longest = max((status.longest for status in statuses), default=0.0)
        self.deadline = max(_LEAST, _TIMES * longest)
        waited: dict[int, float] = {}
        waiting = {status.rank for status in statuses if status.waits_for is not None}
        for status in statuses:
            # An actor that waits itself is not to blame.
            if status.waits_for is not None and status.waits_for not in waiting:
                waited[status.waits_for] = max(waited.get(status.waits_for, 0.0), status.waited)
        # An actor that does not answer is where it was when it did.
        self._rounds |= {status.rank: status.rounds for status in statuses}
        for rank, seconds in waited.items():
            if seconds > self._next.setdefault(rank, self.deadline):
                behind = max(self._rounds.values()) - self._rounds.get(rank, 0)
                late = f", {behind:,} rounds behind" if behind else ""
                self.say(f"waiting for {self.named(rank)} since {seconds:.0f} s{late}")
                self._next[rank] = 2 * seconds
        self._next = {
            rank: then for rank, then in self._next.items() if rank in waited or rank < -1
        }
        answering = {status.rank for status in statuses}
        return self._given_up({r: s for r, s in waited.items() if r not in answering})

    def _given_up(self, silent: Mapping[int, float]) -> list[int]:
        """Of actors that have not answered for some seconds, those to be given up; each is returned once."""
        found = [
            rank for rank, seconds in silent.items() if seconds > max(_PATIENCE, self.deadline)
        ]
        self._told &= silent.keys()
        new = [rank for rank in found if rank not in self._told]
        self._told |= set(new)
        return new

    def look_at_turns(self, examples: Mapping[int, int], silent: Collection[int]) -> list[int]:
        """Report asynchronous actors that are far behind, or that have learned nothing for longer than ever.

        Parameters
        ----------
        examples : number of examples of every actor that has not ended
        silent : ranks of those that did not answer when they were asked

        Returns
        -------
        list
            Ranks that may be given up; see `look`.
        """
        self._name_stragglers(examples)
        now, most = time.monotonic(), max(examples.values(), default=0)
        if self._learned.keys() - examples.keys():  # an actor has ended
            self._learned = {}
        for rank, seen in examples.items():
            before, since = self._learned.get(rank, (seen, now))
            if seen > before:
                self.deadline = max(self.deadline, _TIMES * (now - since))
                self._next.pop(rank, None)
            if seen > before or rank not in self._learned:
                self._learned[rank] = seen, now
        idle = {rank: now - self._learned[rank][1] for rank in examples}
        late = {rank for rank, seconds in idle.items() if seconds > self.deadline}
        if late and len(late) == len(examples):  # all wait, and one that waits is not to blame
            late = late.intersection(silent) or {min(examples, key=examples.__getitem__)}
        for rank in sorted(late):
            if idle[rank] > self._next.setdefault(rank, self.deadline):
                behind = f", {most - examples[rank]:,} examples behind" * (examples[rank] < most)
                self.say(f"waiting for {self.named(rank)} since {idle[rank]:.0f} s{behind}")
                self._next[rank] = 2 * idle[rank]
        return self._given_up({rank: idle[rank] for rank in late if rank in silent})

    def _name_stragglers(self, examples: Mapping[int, int]) -> None:
        """Report actors that are far behind the others, at growing intervals."""
        if len(examples) < 2:
            return
        middle = sorted(examples.values())[len(examples) // 2]
        for rank, seen in examples.items():
            behind = middle - seen
            if seen < middle / _FAR and behind > self._next.setdefault(-2 - rank, _WORTH):
                self.say(f"{self.named(rank)} is {behind:,} examples behind the others")
                self._next[-2 - rank] = 2 * behind

    def waits_for_start(self, ranks: Sequence[int], seconds: float) -> None:
        """Report actors that have not answered yet, at growing intervals."""
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
