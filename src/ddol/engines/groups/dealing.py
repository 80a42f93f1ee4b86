"""A group of processes plays one run: each deals to its own agents, in common rounds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from ddol.algorithm import Algorithm
from ddol.engines.groups.grouped import Group, Grouped
from ddol.engines.groups.recovery import Copy, Recovery
from ddol.engines.pace import Pace
from ddol.engines.processes import Dealt
from ddol.streams.dealing import Ahead, deal
from ddol.streams.errors import DataError
from ddol.streams.over.wrapped import for_agents
from ddol.streams.rows import Block
from ddol.streams.stream import Position


class _OwnAgents:
    """The `Team` of processes that deal to their own agents each.

    They agree on as many rounds as all of them surely have and play within a quarter of a second; each cuts
    these into blocks by itself.
    """

    def __init__(self, group: Group, dealt: Dealt) -> None:
        self.group, self._to_stop = group, dealt.to_stop
        first, agents = group.shares(dealt.n_agents)[group.rank]
        self.agents = range(first, first + agents)
        self.n_features = 0
        self._one = len(dealt.streams) == 1
        self._pace = Pace()
        self._agreed, self._began = 0, 0.0

    def fewest(self, ahead: Ahead) -> int:
        now = time.perf_counter()
        if self._agreed:
            self._pace.took(self._agreed, now - self._began)
        sure = max(ahead.rounds, ahead.left or 0)
        own = min(sure, self._pace.rounds, self._to_stop())
        most, least, none, self.n_features = self.group.reduce(
            [own, -own or -(1 << 62), int(not own), ahead.n_features]
        )
        if self._one and most and none:
            raise DataError(
                f"the ranks read different data: one has {most} rounds where another has 0; "
                "give all of them the same file"
            )
        self._agreed, self._began = (-least if most else 0), now
        return self._agreed

    def knows_places(self, agreed: bool) -> bool:
        return agreed


class GroupProcesses:
    """The processes of a group, as the learner of each sees them; see `ddol.engines.processes.Processes`.

    Parameters
    ----------
    group : Group
    agents : int, optional
        How many agents' states this worker begins with; all of them if it is not given.
    recovery : Recovery, optional
        What this worker keeps of the run.
    """

    alone = False
    recovers = False

    def __init__(
        self, group: Group, agents: int | None = None, recovery: Recovery | None = None
    ) -> None:
        self.group, self.agents = group, agents
        self.recovery = recovery or Recovery()

    def blocks(
        self, dealt: Dealt, position: Position | None
    ) -> Iterator[tuple[Block, Position | None]]:
        """Deal the examples of this process's agents, in the same rounds and of the same features everywhere.

        Streams of other processes' agents are never read. Positions, of the own streams, come with those
        blocks that all processes end with the same round.
        """
        group, team, streams = self.group, _OwnAgents(self.group, dealt), dealt.streams
        group.check_same(
            {
                "the number of streams": len(streams),
                "agents": dealt.n_agents,
                "batch": dealt.batch,
                "passes": dealt.passes,
            }
        )
        if len(streams) == 1:
            own = team.agents
            streams = [for_agents(streams[0], own.start, own.stop, dealt.n_agents, group.size)]
        blocks = deal(
            streams, dealt.n_agents, dealt.batch, dealt.passes, position, dealt.block_rounds, team
        )
        for block, after in blocks:
            rows = block.rows if block.rows.dense else block.rows.widen(team.n_features)
            yield Block(rows, block.table), after

    def position(self, own: Position, n_streams: int) -> Position:
        """The position of all streams; all workers have played so far."""
        if n_streams == 1:  # which every worker reads
            return own
        places = [place for each in self.group.gather(own["streams"]) for place in each]
        return {**own, "streams": places}

    def keep(self, engine: Grouped, past: Callable[[], Any]) -> None:
        """Copy the own agents to another worker, if that was long ago."""
        self.recovery.keep(self.group, engine.share, engine.worker.state, past)

    def finish(self) -> None:
        """Nothing: the driver asks every worker for its part."""

    def recover(self, engine: Any, algorithm: Algorithm, on_lost: str) -> Copy | None:
        """Left to the driver, which knows what worker is lost."""
        raise NotImplementedError
