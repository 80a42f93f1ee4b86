"""The history of a run: curves, the error of the last examples, and weights over time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from ddol.algorithm import Algorithm
from ddol.engines.drift import Recent
from ddol.engines.registry import Engine
from ddol.engines.workers.partition import Snapshots
from ddol.recording import Recorder, WeightHistory

if TYPE_CHECKING:
    from ddol.engines.state import State

_MOST_POINTS = 512


class History:
    """Curves, the error of the last examples, and, on request, weights over time.

    Parameters
    ----------
    algorithm : Algorithm
        On its network.
    state : State, optional
        Where the run goes on from.
    """

    def __init__(self, algorithm: Algorithm, state: State | None = None) -> None:
        self.curves = Recorder(algorithm.n_agents)
        self.recent = Recent(algorithm.classification)
        if state is not None:
            self.recent.begin(state.examples.sum(), state.mistakes.sum(), state.loss.sum())
        self.weights: WeightRecord | None = None

    def keep(self, before: int, seen: Snapshots) -> Snapshots:
        """Keep the snapshots that are points of the curves, and number all of them from the run's start."""
        if not len(seen.rounds):
            return seen
        rounds = before + seen.rounds
        self.recent.look(seen.counters)
        # A scheduled run may see a point of its last piece only when it is known that the round is over.
        points = self.curves.between(self.curves.last, int(rounds[-1]))
        mine = slice(None) if rounds.tolist() == points else np.isin(rounds, points)
        self.curves.record(rounds[mine], seen.counters[mine], *seen.metrics[mine].T)
        return seen._replace(rounds=rounds)

    def keep_now(self, seen: Snapshots) -> None:
        """The same for a single snapshot of now, where the curves' points are not known beforehand."""
        rounds = int(seen.rounds[0])
        if self.curves.between(self.curves.last, rounds):
            self.curves.record([rounds], seen.counters, *seen.metrics.T)

    def restore(self, curves: Mapping[str, np.ndarray]) -> None:
        """Take up the curves of an earlier moment, and look at their points again."""
        self.curves.restore(curves)
        self.recent.begin()
        for point in zip(curves["examples"], curves["mistakes"], curves["loss"], strict=True):
            self.recent.add(*point)


class WeightRecord:
    """Weights at every k-th round; beyond 512 points every second one is dropped, and k doubled.

    Parameters
    ----------
    every : int
        k.
    """

    def __init__(self, every: int) -> None:
        if every < 1:
            raise ValueError(f"`record_weights` must be at least 1 round, it is {every}")
        self.every = every
        self._rounds: list[int] = []
        self._weights: list[np.ndarray] = []

    def next_round(self, rounds: int) -> int:
        """First round after ``rounds`` that is to be recorded."""
        return (rounds // self.every + 1) * self.every

    def look(self, rounds: int, engine: Engine) -> None:
        """Keep the weights, if so many rounds are a multiple of k."""
        if rounds % self.every:
            return
        self._rounds.append(rounds)
        self._weights.append(np.array(engine.weights()))
        if len(self._rounds) >= _MOST_POINTS:
            self.every *= 2
            self._rounds, self._weights = self._rounds[1::2], self._weights[1::2]

    def history(self) -> WeightHistory | None:
        """The recorded weights; None where there are none."""
        if not self._rounds:
            return None
        return WeightHistory(np.array(self._rounds), np.array(self._weights))
