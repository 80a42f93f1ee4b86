"""The MPI engine: every rank plays its own agents, and the others go on where one is lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ddol.algorithm import Algorithm
from ddol.engines.errors import RankLostError
from ddol.engines.groups.dealing import GroupProcesses
from ddol.engines.groups.grouped import Grouped
from ddol.engines.groups.recovery import Copy
from ddol.engines.mpi.ranks import Ranks, open_ranks
from ddol.engines.news import tell
from ddol.engines.setup import Setup
from ddol.engines.state import State


class Mpi(Grouped):
    """Rounds of all agents, each rank playing those of its own; see `Grouped`."""

    name = "mpi"

    @classmethod
    def open(cls, algorithm: Algorithm, state: State, setup: Setup) -> Mpi:
        """As many workers as the job has ranks, whatever the setup asks for."""
        return cls(algorithm, state, open_ranks())


class MpiProcesses(GroupProcesses):
    """The ranks of an MPI job, which play one run; see `ddol.engines.processes.Processes`."""

    recovers = True

    def __init__(self) -> None:
        self.ranks: Ranks = open_ranks()
        super().__init__(self.ranks)
        self._size = self.ranks.size

    def keep(self, engine: Grouped, past: Callable[[], Any]) -> None:
        """Copies are of use only where MPI survives the loss of a rank."""
        if self.ranks.survives:
            super().keep(engine, past)

    def finish(self) -> None:
        """Make sure that no rank was lost before all had the result."""
        if self.ranks.survives and not self.ranks.all_well(True):
            raise RankLostError

    def recover(self, engine: Any, algorithm: Algorithm, on_lost: str) -> Copy | None:
        """Go on without the ranks that were lost, from the newest moment that the others know."""
        if on_lost == "end":
            raise RuntimeError(
                "a rank of the job was lost; go on with --resume if there is a checkpoint"
            )
        if isinstance(engine, Grouped):
            engine.abandon()
        self.ranks.shrink()
        found = self.recovery.restore(self.ranks, algorithm)
        if found is None and self.ranks.reduce([self.recovery.complete])[0]:
            raise RuntimeError(
                "too many ranks were lost at once: the agents of one of them and their copies are "
                "gone; start again, with --resume if there is a checkpoint"
            )
        if self.ranks.leads:
            self._tell(0 if found is None else found.part.rounds)
        self._size = self.ranks.size
        return found

    def _tell(self, rounds: int) -> None:
        lost, left = self._size - self.ranks.size, self.ranks.size
        who = "1 rank was" if lost == 1 else f"{lost} ranks were"
        others = "1 rank goes" if left == 1 else f"{left} ranks go"
        tell(f"{who} lost; {others} on with all agents from round {rounds}")
