"""The interface of engines: what hosts the agents of a run, and what plays lists of events on them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from ddol.engines.state import State
from ddol.engines.workers.partition import Snapshots
from ddol.streams.errors import DataError
from ddol.streams.rows import Block

if TYPE_CHECKING:
    from ddol.recording import Moment
    from ddol.schedules.events import Events


class Engine(Protocol):
    """Hosts the agents of a run and plays its plan. The result does not depend on the engine.

    Its class has the method ``open(algorithm, state, setup)``. The state is copied.

    An engine that has `schedules` among its `Capabilities` is opened for a list of events where
    ``setup.schedule.needs_events(algorithm)``, and then has `turns`, a `Turns`. One that is `remote` reads
    streams by itself: it has ``follow(feed, past, look)``, as `ddol.engines.ray.rounds.Ray` has.
    """

    name: str
    workers: int

    def play(self, block: Block, after: Sequence[int] = ()) -> Snapshots:
        """Play the rounds of a block, or what can happen with its examples.

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


class MessageCounts(NamedTuple):
    """What agents have sent so far."""

    messages: int
    bytes: int
    lost: int = 0
    """Messages among them that did not arrive."""
    edges: np.ndarray | None = None
    """Sender, receiver, messages and bytes of every edge that was used; None if not counted."""
    refused: np.ndarray | None = None
    """Messages that were refused because they are not finite, by sender; None if not checked."""


class Turns(ABC):
    """Plays a list of events on the agents of an engine.

    `play` takes examples in, and plays what can happen with them: as many rounds as come of it, not as many
    as the block has. A round is as many turns as there are agents.
    """

    passes = n_streams = 1

    @property
    def kernel_workers(self) -> Sequence[Any]:
        """The workers that host the agents, in their order; none where they are in other processes."""
        return ()

    def begin(self, passes: int, n_streams: int) -> None:
        """Take note how often the streams are read, and how many there are."""
        self.passes, self.n_streams = passes, n_streams

    @abstractmethod
    def play(self, block: Block, after: Sequence[int] = ()) -> Snapshots:
        """Take examples in, and play what can happen with them; the last snapshot is of now."""

    @abstractmethod
    def end(self) -> Snapshots:
        """The streams are over: play what is left to happen; the last snapshot is of the end."""

    @abstractmethod
    def sent(self) -> MessageCounts:
        """Messages sent so far."""

    def moments(self) -> tuple[Moment, ...]:
        """The run by its time; the last is now. Empty where no time is kept."""
        return ()

    def events(self) -> Events | None:
        """The recorded events, with rows numbered as in the whole data; None if they are not recorded."""
        return None

    def state_dict(self) -> dict[str, np.ndarray]:
        """All but the state of the agents that it takes to go on from here, for checkpoints."""
        return {}

    def load_state_dict(self, kept: Mapping[str, np.ndarray], where: str) -> None:
        """Go on from what `state_dict` of another run like this one returned."""
        raise DataError(f"{where}: found messages and labels under way, expected none; start again")


def seen_between(rounds: int, counters: np.ndarray, weights: np.ndarray) -> Snapshots:
    """One snapshot after so many rounds, from counters (N, 4) and weights (N, outputs, D) of all agents."""
    gaps = weights - weights.mean(axis=0)
    distance = float(np.sqrt(np.mean(np.sum(gaps * gaps, axis=(1, 2)))))
    return Snapshots(np.array([rounds]), counters[None], np.array([[distance, np.nan]]))
