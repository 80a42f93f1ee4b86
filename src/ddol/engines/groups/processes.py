"""The processes that play one run together: a single one, or those of a job."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from ddol.streams.dealing import deal
from ddol.streams.rows import Block
from ddol.streams.stream import Position

if TYPE_CHECKING:
    from ddol.engines.learner import Learner


class Processes(Protocol):
    """Who plays a run, how they read its streams, and what happens when one of them is lost."""

    alone: bool
    """Whether there is one only."""

    agents: int | None
    """How many agents' states this process begins with; None for those of all."""

    def plays_feed(self, learner: Learner) -> bool:
        """Play the learner's feed to its end elsewhere; False where this process reads it."""

    def blocks(self, learner: Learner) -> Iterator[tuple[Block, Position | None]]:
        """Deal the examples of this process's agents, from the learner's position on.

        Blocks without a position are in the midst of rounds that all processes have agreed on.
        """

    def position(self, learner: Learner, own: Position) -> Position:
        """The position of all streams, from that of those which this process reads."""

    def after_block(self, learner: Learner) -> None:
        """Keep what is needed to go on without a process."""

    def at_end(self) -> None:
        """Make sure that all processes have the result."""

    def recover(self, learner: Learner) -> None:
        """Take the learner back to where all processes that are left can go on."""


class SingleProcess:
    """A run in one process."""

    alone = True
    agents: int | None = None

    def plays_feed(self, learner: Learner) -> bool:
        """Not elsewhere."""
        return False

    def blocks(self, learner: Learner) -> Iterator[tuple[Block, Position | None]]:
        """Deal all examples."""
        algorithm, feed = learner.algorithm, learner.feed
        return deal(
            feed.streams,
            algorithm.n_agents,
            algorithm.batch,
            feed.passes,
            learner.position,
            learner.rounds_at_a_time,
        )

    def position(self, learner: Learner, own: Position) -> Position:
        """All streams are its own."""
        return own

    def after_block(self, learner: Learner) -> None:
        """Nothing to keep."""

    def at_end(self) -> None:
        """Nobody to wait for."""

    def recover(self, learner: Learner) -> None:
        """Nobody was lost."""
