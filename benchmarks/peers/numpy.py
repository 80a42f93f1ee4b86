"""NumPy: weighted majority as one would write it, a loop over rounds, vectorised over experts."""

from __future__ import annotations

import numpy as np

from benchmarks.contest import Contestant, Outcome
from benchmarks.data import Advice
from benchmarks.workloads import Data, Workload

VERSION = np.__version__
_ALPHA = 0.9


def contestants(workload: Workload, data: Data) -> list[Contestant]:
    """Weighted majority only."""
    if workload.network != "alone" or not isinstance(data, Advice):
        return []
    settings = "for each round: w @ said, w[said != y] *= alpha"
    return [Contestant("numpy loop", settings, lambda: Outcome(majority(data)))]


def majority(data: Advice) -> float:
    """Share of wrong votes of weighted majority."""
    w = np.ones(data.said.shape[1])
    wrong = 0
    for said, y in zip(data.said, data.y.tolist(), strict=True):
        if (1.0 if w @ said >= 0.0 else -1.0) != y:
            wrong += 1
        w[said != y] *= _ALPHA
        # Weights would vanish after some thousand mistakes.
        w /= w.max()
    return wrong / len(data.y)
