"""The interface of engines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from ddol.engines.state import State
from ddol.engines.workers.partition import Snapshots
from ddol.streams.rows import Block

if TYPE_CHECKING:
    from ddol.recording import Moment
    from ddol.schedules.events import Events


class Engine(Protocol):
    """Plays rounds. The result does not depend on the engine.

    Its class has the method ``open(algorithm, state, setup)``. The state is copied.
    """

    name: str
    workers: int

    def play(self, block: Block, after: Sequence[int] = ()) -> Snapshots:
        """Play the rounds of a block.

        Parameters
        ----------
        block : Block
        after : rising numbers from 0 to the block's rounds
            A snapshot is taken when so many rounds are played.
        """

    def state(self) -> State:
        """The state of all agents, in memory of its own."""

    def counters(self) -> State:
        """Counters of all agents, to be read only."""

    def weights(self) -> np.ndarray:
        """Primal weights of the copies: (copies, outputs, D)."""

    def close(self) -> None:
        """Free threads and communicators."""


class ScheduledEngine(Engine, Protocol):
    """An engine that plays events; it is opened with the schedule besides.

    `play` takes examples in, and plays what can happen with them: as many rounds as come of it, not as many
    as the block has. A round is as many turns as there are agents.
    """

    def begin(self, passes: int, n_streams: int) -> None:
        """Say how often the streams are read, and how many there are."""

    def end(self) -> Snapshots:
        """The streams are over: play what is left to happen; the last snapshot is of the end."""

    def sent(self) -> tuple[int, int, int]:
        """Messages sent, their bytes, and how many of them were lost."""

    def moments(self) -> tuple[Moment, ...]:
        """The run by its time; the last is now."""

    def events(self) -> Events | None:
        """The recorded events, with rows numbered as in the whole data; None where they are not recorded."""
