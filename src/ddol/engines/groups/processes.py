"""The workers that play one run: a single process, or a group. The learner calls them; they never call it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

from ddol.algorithm import Algorithm
from ddol.engines.groups.dealing import Dealt, deal_shares, of_all
from ddol.engines.groups.recovery import Copy, Recovery
from ddol.streams.dealing import deal
from ddol.streams.rows import Block
from ddol.streams.stream import Position

if TYPE_CHECKING:
    from ddol.engines.groups.grouped import Group, Grouped


class Processes(Protocol):
    """Who plays a run, how they read its streams, and what happens when one of them is lost."""

    alone: bool
    """Whether there is one only."""

    recovers: bool
    """Whether they go on by themselves where one is lost; else whoever watches them takes care of it."""

    agents: int | None
    """How many agents' states this process begins with; None for those of all."""

    def blocks(
        self, dealt: Dealt, position: Position | None
    ) -> Iterator[tuple[Block, Position | None]]:
        """Deal the examples of this process's agents, from a position on.

        Blocks without a position are in the midst of rounds that all processes have agreed on.
        """

    def position(self, own: Position, n_streams: int) -> Position:
        """The position of all streams, from that of those which this process reads."""

    def keep(self, engine: Any, past: Callable[[], Any]) -> None:
        """Make copies from which the others can go on if a process is lost."""

    def finish(self) -> None:
        """Make sure that all processes have the result."""

    def recover(self, engine: Any, algorithm: Algorithm, on_lost: str) -> Copy | None:
        """The moment from which all processes that are left go on; None for the beginning."""


class SingleProcess:
    """A run in one process."""

    alone = True
    recovers = False
    agents: int | None = None

    def blocks(
        self, dealt: Dealt, position: Position | None
    ) -> Iterator[tuple[Block, Position | None]]:
        """Deal all examples."""
        each = dealt.n_agents, dealt.batch, dealt.passes
        return deal(dealt.streams, *each, position, dealt.block_rounds)

    def position(self, own: Position, n_streams: int) -> Position:
        """All streams are its own."""
        return own

    def keep(self, engine: Any, past: Callable[[], Any]) -> None:
        """No copies: there is no other process."""

    def finish(self) -> None:
        """Nothing to wait for."""

    def recover(self, engine: Any, algorithm: Algorithm, on_lost: str) -> Copy | None:
        """No other process can be lost."""
        raise NotImplementedError


class Together:
    """The workers of a group, as the learner of each of them sees them.

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
        """Deal the examples of this worker's agents."""
        return deal_shares(self.group, dealt, position)

    def position(self, own: Position, n_streams: int) -> Position:
        """The position of all streams."""
        return of_all(self.group, own, n_streams)

    def keep(self, engine: Grouped, past: Callable[[], Any]) -> None:
        """Copy the own agents to another worker, if that was long ago."""
        self.recovery.keep(self.group, engine.share, engine.worker.state, past)

    def finish(self) -> None:
        """Nothing: whoever watches the group asks every worker for its part."""

    def recover(self, engine: Any, algorithm: Algorithm, on_lost: str) -> Copy | None:
        """Left to whoever watches the group, and knows which worker is lost."""
        raise NotImplementedError
