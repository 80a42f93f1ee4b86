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

    def follow(self, learner: Learner) -> None:
        """Play the learner's feed to its end, from its position on."""

    def blocks(self, learner: Learner) -> Iterator[tuple[Block, Position]]:
        """Deal the examples of this process's agents, from the learner's position on."""

    def fewest(self, rounds: int) -> int:
        """The smallest of every process's numbers."""

    def after_block(self, learner: Learner) -> None:
        """Keep what is needed to go on without a process."""

    def at_end(self) -> None:
        """Make sure that all processes have the result."""

    def recover(self, learner: Learner) -> None:
        """Take the learner back to where all processes that are left can go on."""


class SingleProcess:
    """One process, which has nobody to lose."""

    def follow(self, learner: Learner) -> None:
        """Play the feed here."""
        learner.follow_here()

    def blocks(self, learner: Learner) -> Iterator[tuple[Block, Position]]:
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

    def fewest(self, rounds: int) -> int:
        """Its own number."""
        return rounds

    def after_block(self, learner: Learner) -> None:
        """Nothing to keep."""

    def at_end(self) -> None:
        """Nobody to wait for."""

    def recover(self, learner: Learner) -> None:
        """Nobody was lost."""
