"""NumPy: weighted majority as one would write it, a loop over rounds, vectorised over experts."""

from __future__ import annotations

import numpy as np

from benchmarks.contest import Contestant, Outcome
from benchmarks.data import Advice
from benchmarks.workloads import Data, Workload

VERSION = np.__version__
_ALPHA = 0.9
_RESCALED = 256
"""Rounds after which weights are made larger again, before they vanish."""


def contestants(workload: Workload, data: Data) -> list[Contestant]:
    """Weighted majority only."""
    if workload.network != "alone" or not isinstance(data, Advice):
        return []
    settings = "for each round: w @ said, w *= np.where(said != y, alpha, 1)"
    return [Contestant("numpy loop", settings, lambda: Outcome(majority(data)))]


def majority(data: Advice) -> float:
    """Share of wrong votes of weighted majority."""
    w = np.ones(data.said.shape[1])
    wrong = 0
    for t, (said, y) in enumerate(zip(data.said, data.y.tolist(), strict=True)):
        wrong += (1.0 if w @ said >= 0.0 else -1.0) != y
        w *= np.where(said != y, _ALPHA, 1.0)
        if t % _RESCALED == 0:
            w /= w.max()
    return wrong / len(data.y)
