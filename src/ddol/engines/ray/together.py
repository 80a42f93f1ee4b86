"""The actors of a job as the learner of one of them sees them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ddol.engines.errors import RankLostError
from ddol.engines.groups.dealing import Dealt, deal_shares, of_all
from ddol.engines.groups.grouped import Grouped
from ddol.engines.learner import Learner
from ddol.engines.registry import Engine
from ddol.engines.workers.partition import Snapshots
from ddol.streams.rows import Block
from ddol.streams.stream import Position

if TYPE_CHECKING:
    from ddol.engines.ray.host import Host


class Together:
    """The actors of a job, which play one run: what `SingleProcess` is to a run in one process."""

    alone = False

    def __init__(self, host: Host, agents: int) -> None:
        self.host, self.agents = host, agents

    def follow(self, learner: Learner) -> None:
        """Play what this actor's agents see of the feed."""
        learner.follow_here()

    def blocks(self, learner: Learner) -> Iterator[tuple[Block, Position | None]]:
        """Deal the examples of this actor's agents."""
        blocks = deal_shares(self.host.group, Dealt.of(learner), learner.position)
        return self.host.noting_the_first(blocks)

    def play(self, engine: Engine, block: Block, after: Sequence[int], meets: bool) -> Snapshots:
        """Play rounds of the own agents."""
        assert isinstance(engine, Grouped)
        return engine.play(block, after, meets)

    def position(self, learner: Learner, own: Position) -> Position:
        """The position of all streams."""
        return of_all(self.host.group, learner, own)

    def after_block(self, learner: Learner) -> None:
        """Keep copies of all agents from time to time."""
        self.host.keep()

    def at_end(self) -> None:
        """Nothing: the driver asks every actor for its part."""

    def recover(self, learner: Learner) -> None:
        """Leave that to the driver, who knows who is lost."""
        raise RankLostError("an actor was lost")
