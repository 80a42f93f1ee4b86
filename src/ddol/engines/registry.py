"""What an engine is, and finding one by its name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, TypeGuard

import numpy as np

from ddol.algorithm import Algorithm
from ddol.engines.errors import SetupError
from ddol.engines.feed import Feed
from ddol.engines.kinds import engine_named, imported, require
from ddol.engines.setup import Setup
from ddol.engines.state import State
from ddol.engines.state_checks import check_start
from ddol.engines.workers.partition import Snapshots
from ddol.streams.errors import DataError
from ddol.streams.rows import Block

if TYPE_CHECKING:
    from ddol.recording import Moment
    from ddol.schedules.events import Events


class Engine(Protocol):
    """Where rounds run. Engines differ in nothing that the result shows.

    Its class has the method ``open(algorithm, state, setup)``: where all agents sit, what they know, which
    is copied, and what is wished for.
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
        """Give threads and communicators back."""


class ScheduledEngine(Engine, Protocol):
    """An engine that plays events; it is opened with the schedule besides.

    `play` takes examples in, and plays what can happen with them: as many rounds as come of it, not as many
    as the block has. A round is as many turns as there are agents.
    """

    def begin(self, passes: int, n_streams: int) -> None:
        """Say how often the streams are read, and how many there are."""

    def end(self) -> Snapshots:
        """The streams are over: play whatever is left to happen; the last snapshot is of the end."""

    def sent(self) -> tuple[int, int, int]:
        """Messages sent, their bytes, and how many of them were lost."""

    def moments(self) -> tuple[Moment, ...]:
        """The run by its time; the last is now."""

    def events(self) -> Events | None:
        """What happened, if it was recorded, with rows numbered as in the whole data."""


def is_scheduled(engine: Engine | None) -> TypeGuard[ScheduledEngine]:
    """Whether an engine plays events; it is asked after every block, so nobody counts its methods."""
    return hasattr(engine, "moments")


def open_engine(
    algorithm: Algorithm,
    state: State,
    setup: Setup,
    feed: Feed,
    agents: int | None = None,
    trusted: bool = False,
) -> Engine:
    """Open the engine that a setup names, at a state, for rounds or for its schedule.

    The state is that of all agents, or of the `agents` of this process. It is looked at unless it is
    `trusted`: one that was made for this very run.
    """
    try:
        if not trusted:
            check_start(algorithm, state, setup.schedule.plays_events, agents)
        return _opened(algorithm, state, setup, feed)
    except DataError:
        raise
    except ValueError as error:
        raise SetupError(str(error)) from error


def _opened(algorithm: Algorithm, state: State, setup: Setup, feed: Feed) -> Engine:
    kind = engine_named(setup.engine)
    asking = algorithm.asking
    if asking is not None and asking.neighbours:
        require(setup.engine, "asks", "`query` of neighbours")
    if not setup.schedule.plays_events:
        if setup.schedule.certificate:
            require(setup.engine, "certificate", "a certificate of rounds")
        opened: Engine = imported(kind.engine).open(algorithm, state, setup)
        return opened
    require(setup.engine, "schedules", setup.schedule.described)
    scheduled: ScheduledEngine = imported(kind.scheduled).open(algorithm, state, setup)
    scheduled.begin(feed.passes, feed.n_streams)
    return scheduled
