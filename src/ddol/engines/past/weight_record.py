"""Weights over time, for whoever wants to see them move."""

from __future__ import annotations

import numpy as np

from ddol.engines.registry import Engine
from ddol.recording import WeightHistory

_MOST = 512


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
        if len(self._rounds) >= _MOST:
            self.every *= 2
            self._rounds, self._weights = self._rounds[1::2], self._weights[1::2]

    def history(self) -> WeightHistory | None:
        """What was kept."""
        if not self._rounds:
            return None
        return WeightHistory(np.array(self._rounds), np.array(self._weights))
