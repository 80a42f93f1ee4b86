"""Dealing in a group of processes: each reads what its own agents see, in common rounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ddol.engines.groups.grouped import Group
from ddol.streams.dealing import deal
from ddol.streams.errors import DataError
from ddol.streams.over.sharing import for_agents
from ddol.streams.rows import Block
from ddol.streams.stream import Position, Stream

if TYPE_CHECKING:
    from ddol.engines.learner import Learner


@dataclass(frozen=True)
class Dealt:
    """How a run's streams are dealt; see `ddol.streams.dealing.deal`."""

    streams: list[Stream]
    n_agents: int
    batch: int = 1
    passes: int = 1
    block_rounds: Callable[[], int] | None = None

    @classmethod
    def of(cls, learner: Learner) -> Dealt:
        """What a learner follows."""
        algorithm, feed = learner.algorithm, learner.feed
        return cls(
            list(feed.streams),
            algorithm.n_agents,
            algorithm.batch,
            feed.passes,
            learner.rounds_at_a_time,
        )


class _Own:
    """The `Team` of processes that deal to their own agents each."""

    def __init__(self, group: Group, n_agents: int) -> None:
        self.group = group
        self.agents = group.own(n_agents)

    def fewest(self, rounds: int) -> int:
        most, least = self.group.most([rounds, -rounds if rounds else -(1 << 62)])
        return -least if most else 0

    def places(self, own: list[Position]) -> list[Position]:
        return [place for each in self.group.gather(own) for place in each]


def deal_shares(
    group: Group, dealt: Dealt, position: Position | None = None
) -> Iterator[tuple[Block, Position]]:
    """Yield blocks of the same rounds and features on every process, each with its own examples.

    Parameters
    ----------
    group
        The processes.
    dealt
        What is dealt. Streams of other processes' agents are never read.
    position
        Of all streams, as it comes with every block.
    """
    team, streams = _Own(group, dealt.n_agents), dealt.streams
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
    asked = dealt.block_rounds or (lambda: 1 << 40)
    affordable = -group.most([-asked()])[0]
    blocks = deal(
        streams, dealt.n_agents, dealt.batch, dealt.passes, position, lambda: affordable, team
    )
    for block, after in blocks:
        width, affordable = _agreed(group, block.n_rounds, block.rows.n_features, asked())
        rows = block.rows if block.rows.dense else block.rows.widen(width)
        yield Block(rows, block.table), after
    _agreed(group, 0, 0, 0)


def _agreed(group: Group, rounds: int, n_features: int, asked: int) -> tuple[int, int]:
    """Features of the widest block, and rounds of the next one; the present must have as many everywhere."""
    most, least, width, affordable = group.most([rounds, -rounds, n_features, -asked])
    if most != -least:
        raise DataError(
            f"the ranks read different data: one has {most} rounds where another has {-least}; "
            "give all of them the same file"
        )
    return width, -affordable
