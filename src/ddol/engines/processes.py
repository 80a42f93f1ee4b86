"""The processes that play a run. The learner calls them; they never call it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from ddol.algorithm import Algorithm
from ddol.streams.dealing import deal
from ddol.streams.rows import Block
from ddol.streams.stream import Position, Stream

if TYPE_CHECKING:
    from ddol.engines.groups.recovery import Copy


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


class Processes(Protocol):
    """The processes that play a run, and what they do when one of them is lost."""

    alone: bool
    """Whether there is one only."""

    recovers: bool
    """Whether they go on by themselves where one is lost; else the driver takes care of it."""

    agents: int | None
    """How many agents' states this process begins with; None for those of all."""

    def blocks(
        self, dealt: Dealt, position: Position | None
    ) -> Iterator[tuple[Block, Position | None]]:
        """Deal the examples of this process's agents, from a position on.

        Each block comes with the position right after it, of the streams that this process reads. Blocks
        without one are in the midst of rounds that all processes have agreed on.
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
