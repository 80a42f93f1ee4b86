"""The actors of a job as the learner of one of them sees them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ddol.engines.errors import RankLostError
from ddol.engines.groups.dealing import Dealt, deal_shares, of_all
from ddol.engines.learner import Learner
from ddol.streams.rows import Block
from ddol.streams.stream import Position

if TYPE_CHECKING:
    from ddol.engines.ray.host import Host


class Together:
    """The actors of a job, which play one run: what `SingleProcess` is to a run in one process."""

    alone = False

    def __init__(self, host: Host, agents: int) -> None:
        self.host, self.agents = host, agents

    def plays_feed(self, learner: Learner) -> bool:
        """Not elsewhere: this actor plays what its agents see of it."""
        return False

    def blocks(self, learner: Learner) -> Iterator[tuple[Block, Position | None]]:
        """Deal the examples of this actor's agents."""
        blocks = deal_shares(self.host.group, Dealt.of(learner), learner.position)
        return self.host.noting_the_first(blocks)

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
