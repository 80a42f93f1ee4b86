"""The record of a run in rounds: its events, and the shadow of its certificate."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ddol.algorithm import Algorithm
from ddol.engines.events import keeping
from ddol.engines.events.row_pool import RowNumbers
from ddol.engines.state import State
from ddol.engines.workers.partition import Snapshots
from ddol.engines.workers.shadow import ShadowLearner, moment_of
from ddol.recording import Moment
from ddol.schedules.events import PREDICT, Events
from ddol.schedules.keeping import Kept, below, under
from ddol.schedules.rounds import events_of_rounds
from ddol.schedules.wiring import Wiring
from ddol.streams.rows import Block


class RoundLog:
    """Records synchronous rounds as events, from their tables, for any engine.

    Parameters
    ----------
    algorithm : Algorithm
        Of one example a turn.
    """

    def __init__(self, algorithm: Algorithm) -> None:
        if algorithm.batch > 1:
            raise ValueError(
                f"a recording is of one example a turn, `batch` is {algorithm.batch}; use 1"
            )
        self.algorithm = algorithm
        self.numbers = RowNumbers(algorithm.n_agents)
        self.tables: list[np.ndarray] = []

    def add(self, block: Block) -> None:
        """Rounds that were played."""
        self.tables.append(self.numbers.add(block.table[:, :, 0])[0])

    def fill(self, examples: np.ndarray, passes: int) -> None:
        """Put all rounds of a run in place of those that were added, where no process has seen all.

        Every agent sees its examples one after the other.

        Parameters
        ----------
        examples : (N,) of int
            Those of every agent, in all passes together.
        passes : int
        """
        lengths = examples // passes
        seen = np.arange(int(lengths.max()))[:, None] < lengths
        table = np.where(seen, np.cumsum(seen).reshape(seen.shape) - 1, -1)
        self.numbers = RowNumbers(self.algorithm.n_agents)
        self.tables = [self.numbers.add(table)[0] for _ in range(passes)]

    def events(self, passes: int, n_streams: int) -> Events:
        """All rounds, with those in which the last labels arrive."""
        n, delay = self.algorithm.n_agents, self.algorithm.delay
        table = np.concatenate([*self.tables, np.full((delay, n), -1, np.int64)])
        if self.numbers.count:
            named = self.numbers.in_the_data(passes, n_streams)
            table = np.where(table >= 0, named[table], -1)
        mixing = self.algorithm.mixing
        wires = Wiring.of(mixing)
        events = events_of_rounds(table, wires, self.algorithm.period, delay)
        if len(wires.sender) == n * n and not mixing.is_uniform_complete:
            # All hear all, with copies of their own: as on the virtual clock a round takes a unit of time.
            events.time[events.kind == PREDICT] -= 1.0
        return events


class RoundShadow:
    """The shadow of a run in rounds, and its moments.

    Parameters
    ----------
    algorithm : Algorithm
        One that `ShadowLearner.covers`.
    """

    def __init__(self, algorithm: Algorithm) -> None:
        self.algorithm = algorithm
        self.learner: ShadowLearner | None = None
        self._moments: list[Moment] = []
        self._last: Moment | None = None

    def follow(
        self, piece: Block, before: int, loss: np.ndarray, seen: Snapshots, now: State
    ) -> None:
        """Follow a piece that was played.

        Parameters
        ----------
        piece : Block
            With the scores of its rows.
        before : int
            Rounds before it.
        loss : (N,)
            Of every agent, before it.
        seen : Snapshots
            Of some of its rounds.
        now : State
            The counters after it.
        """
        if self.learner is None:
            self.learner = ShadowLearner(self.algorithm, now.n_features)
        rounds = [*seen.rounds.tolist(), piece.n_rounds]
        counters = np.concatenate([seen.counters, now.by_agent[None]])
        sums = self.learner.follow_block(piece, rounds, loss, counters[:, :, 1])
        made = [
            moment_of(before + r, float(before + r), c, s)
            for r, c, s in zip(rounds, counters, sums, strict=True)
        ]
        self._moments += made[:-1]
        self._last = made[-1]

    def moments(self) -> tuple[Moment, ...]:
        """The run by its rounds, which take a unit of time each; the last is now."""
        if self._last is None:
            return ()
        return (*(m for m in self._moments if m.rounds < self._last.rounds), self._last)

    def state_dict(self) -> Kept:
        """The shadow and its moments, for checkpoints."""
        if self.learner is None:
            return {}
        shadow = under("shadow", keeping.shadow_state(self.learner))
        return shadow | under("moments", keeping.moments_state(self.moments()))

    def load_state_dict(self, kept: Mapping[str, np.ndarray], n_features: int, where: str) -> None:
        """Go on from where another one was."""
        self.learner = ShadowLearner(self.algorithm, n_features)
        keeping.load_shadow(self.learner, below("shadow", kept), where)
        self._moments = keeping.moments_from(below("moments", kept), self.learner, where)
        self._last = self._moments[-1] if self._moments else None
