"""Dealing in a group of processes: each reads what its own agents see, in common rounds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ddol.engines.pace import Pace
from ddol.streams.dealing import Ahead, deal
from ddol.streams.errors import DataError
from ddol.streams.over.wrapped import for_agents
from ddol.streams.rows import Block
from ddol.streams.stream import Position, Stream

if TYPE_CHECKING:
    from ddol.engines.groups.grouped import Group


@dataclass(frozen=True)
class Dealt:
    """How a run's streams are dealt; see `ddol.streams.dealing.deal`."""

    streams: list[Stream]
    n_agents: int
    batch: int = 1
    passes: int = 1
    block_rounds: Callable[[], int] | None = None
    to_stop: Callable[[], int] = lambda: 1 << 40
    """Rounds to the next that all processes must end a block with."""


class _Own:
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
        self._agreed, self._since = 0, 0.0

    def fewest(self, ahead: Ahead) -> int:
        now = time.perf_counter()
        if self._agreed:
            self._pace.took(self._agreed, now - self._since)
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
        self._agreed, self._since = (-least if most else 0), now
        return self._agreed

    def knows_places(self, agreed: bool) -> bool:
        return agreed


def of_all(group: Group, position: Position, n_streams: int) -> Position:
    """The position of all streams, from that of every process's own; all must have played so far."""
    if n_streams == 1:  # which every process reads
        return position
    places = [place for own in group.gather(position["streams"]) for place in own]
    return {**position, "streams": places}


def deal_shares(
    group: Group, dealt: Dealt, position: Position | None = None
) -> Iterator[tuple[Block, Position | None]]:
    """Yield blocks of every process's own examples, in the same rounds and of the same features.

    Positions, of the own streams, come with those blocks that all processes end with the same round.

    Parameters
    ----------
    group
        The processes.
    dealt
        What is dealt. Streams of other processes' agents are never read.
    position
        Of all streams, as it comes with every block.
    """
    team, streams = _Own(group, dealt), dealt.streams
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
