"""Going on without a lost process: copies of its agents at a neighbour, and a common way back."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ddol.algorithm import Algorithm
from ddol.engines.errors import RankLostError
from ddol.engines.groups.dealing import Dealt, deal_shares, of_all
from ddol.engines.groups.grouped import Grouped, joined_parts
from ddol.engines.kernels import COPIES
from ddol.engines.mpi.ranks import Ranks, open_ranks
from ddol.engines.news import tell
from ddol.engines.setup import Setup
from ddol.engines.state import State, sharing
from ddol.streams.rows import Block
from ddol.streams.stream import Position

if TYPE_CHECKING:
    from ddol.engines.learner import Learner

SECONDS = 1.0
"""Between two copies: what a lost process costs at most, beside the time to read it again."""


@dataclass(frozen=True)
class Part:
    """The agents of one process as they were after a block."""

    first: int
    agents: int
    state: State


@dataclass(frozen=True)
class Copy:
    """What a process needs to go back to the end of a block.

    ``parts`` are its own agents, and those of another process, on another host if there are several.
    ``past`` belongs to the run and is the same everywhere: the position of the streams, and the curves so
    far.
    """

    version: int
    parts: tuple[Part, ...]
    past: Any


class Safekeeping:
    """Copies of every process's agents, each at two processes, so that one may be lost.

    Two versions are kept: a process may die while the newest is being made, and then not
    everybody has it.

    Parameters
    ----------
    ranks : Ranks
    """

    def __init__(self, ranks: Ranks) -> None:
        self.ranks = ranks
        self.copies: list[Copy] = []
        self._made = time.monotonic()

    def due(self) -> bool:
        """Whether the last copies are old enough for new ones; all processes must ask."""
        old = time.monotonic() - self._made > SECONDS
        return self.ranks.survives and self.ranks.most([int(old)])[0] > 0

    def make(self, engine: Grouped, past: Any) -> None:
        """Make copies; all processes must call it."""
        own = Part(*engine.share, engine.worker.state.copy())
        other = self.ranks.pass_on(own)
        version = self.copies[-1].version + 1 if self.copies else 1
        self.copies = [*self.copies[-1:], Copy(version, (own, other), past)]
        self._made = time.monotonic()

    def bring_back(self, algorithm: Algorithm) -> tuple[State, Any] | None:
        """Put the newest state together that all processes know, or None for the beginning."""
        ranks = self.ranks
        newest = self.copies[-1].version if self.copies else 0
        version = -ranks.most([-newest])[0]
        # Newer ones are not everybody's; kept, they would be mistaken for later ones.
        self.copies = held = [copy for copy in self.copies if copy.version == version]
        parts = held[0].parts if held else ()
        holders: dict[tuple[int, int], int] = {}
        for rank, has in enumerate(ranks.gather([(part.first, part.agents) for part in parts])):
            for share in has:
                holders.setdefault(share, rank)
        if version == 0:
            return None
        shares = sorted(holders)
        if sum(agents for _, agents in shares) != algorithm.n_agents:
            raise RuntimeError(
                "too many ranks were lost at once: the agents of one of them and their copies are "
                "gone; start again, with --resume if there is a checkpoint"
            )
        states = [self._fetched(share, holders[share], parts) for share in shares]
        return joined_parts(states, shares, sharing(algorithm) != COPIES), held[0].past

    def _fetched(self, share: tuple[int, int], holder: int, parts: tuple[Part, ...]) -> State:
        """One part, from the process that holds it."""
        own = [part.state for part in parts if (part.first, part.agents) == share]
        found: State = self.ranks.from_one(own[0] if own else None, holder)
        return found


class Mpi(Grouped):
    """Rounds of all agents, each rank playing those of its own; see `Grouped`."""

    name = "mpi"

    @classmethod
    def open(cls, algorithm: Algorithm, state: State, setup: Setup) -> Mpi:
        """As many workers as the job has ranks, whatever is wished for."""
        return cls(algorithm, state, open_ranks())


class MpiGroup:
    """The processes of an MPI job, which play one run.

    What `ddol.engines.groups.processes.SingleProcess` is where there is one.
    """

    alone = False
    agents: int | None = None

    def __init__(self) -> None:
        self.ranks = open_ranks()
        self.safe = Safekeeping(self.ranks)
        self._size = self.ranks.size
        self._beginning: Any = None

    def plays_feed(self, learner: Learner) -> bool:
        """Not elsewhere: this process plays what its agents see of it."""
        return False

    def blocks(self, learner: Learner) -> Iterator[tuple[Block, Position | None]]:
        """Deal this process's share of the examples."""
        if self._beginning is None:
            self._beginning = learner.past()
        return deal_shares(self.ranks, Dealt.of(learner), learner.position)

    def position(self, learner: Learner, own: Position) -> Position:
        """The position of all streams."""
        return of_all(self.ranks, learner, own)

    def after_block(self, learner: Learner) -> None:
        """Keep copies of all agents from time to time."""
        assert isinstance(learner.engine, Grouped)
        if self.safe.due():
            self.safe.make(learner.engine, learner.past())

    def at_end(self) -> None:
        """Make sure that nobody was lost before everybody had the result."""
        if self.ranks.survives and not self.ranks.all_well(True):
            raise RankLostError

    def recover(self, learner: Learner) -> None:
        """Go on without the processes that were lost, from the last common copy."""
        if learner.setup.on_lost == "end":
            raise RuntimeError(
                "a rank of the job was lost; go on with --resume if there is a checkpoint"
            )
        while True:
            try:
                self._recover(learner)
                break
            except RankLostError:  # one more, while the others were being brought together
                continue

    def _recover(self, learner: Learner) -> None:
        ranks = self.ranks
        if isinstance(learner.engine, Grouped):
            learner.engine.abandon()
        ranks.shrink()
        state, past = self.safe.bring_back(learner.algorithm) or (None, self._beginning)
        learner.go_back(state, past)
        if isinstance(learner.engine, Grouped):
            self.safe.make(learner.engine, past)
        if ranks.leads:
            self._tell(0 if learner.engine is None else learner.engine.counters().rounds)
        self._size = ranks.size

    def _tell(self, rounds: int) -> None:
        lost, left = self._size - self.ranks.size, self.ranks.size
        who = "1 rank was" if lost == 1 else f"{lost} ranks were"
        others = "1 rank goes" if left == 1 else f"{left} ranks go"
        tell(f"{who} lost; {others} on with all agents from round {rounds}")
