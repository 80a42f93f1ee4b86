"""The shadow of a run in rounds, which follows block by block."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ddol.algorithm import Algorithm
from ddol.engines.events import keeping
from ddol.engines.state import State
from ddol.engines.workers.partition import Snapshots
from ddol.engines.workers.shadow import ShadowLearner, moment_of
from ddol.recording import Moment
from ddol.schedules.keeping import Kept, below, under
from ddol.streams.rows import Block


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
        last = np.array([now.mistakes, now.loss, now.expected, now.examples]).T
        rounds = [*seen.rounds.tolist(), piece.n_rounds]
        counters = np.concatenate([seen.counters, last[None]])
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
        """What it takes to go on from here, for checkpoints."""
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
