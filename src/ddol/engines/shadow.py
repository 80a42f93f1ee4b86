"""The shadow of a network, with the memory that its addresses point to; see `kernels.shadow`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ddol.algorithm import Algorithm
from ddol.engines.kernels import shadow as kernel
from ddol.engines.kernels.shadow import Shadow
from ddol.engines.worker import rates_of
from ddol.trace import ShadowSums
from ddol.update.rates import evaluate

_ROUNDS_TRIED = 1024


class ShadowLearner:
    """One serial learner beside the network, fed with all gradients.

    For mirror descent with the Euclidean map or the signed entropy it is the algorithm itself, with the rate
    of play s at the s-th play; for others it is Euclidean, on a ball, at the rate R/√(Σ‖g‖²).

    Parameters
    ----------
    algorithm : Algorithm
    n_features : int
    radius : float
        Of the ball for algorithms that have none of these mirrors.
    """

    def __init__(self, algorithm: Algorithm, n_features: int, radius: float = 1.0) -> None:
        update: Any = algorithm.update
        kind = _kind(update)
        own = kind != kernel.NO_SHADOW and _rate_falls(algorithm)
        self.algorithm = algorithm
        self.entropy = own and kind == kernel.ENTROPY
        self.radius = update.domain.radius if own else radius
        self.l2 = update.l2 if own else 0.0
        self.rate = algorithm.rate if own else None
        self.rates = np.empty(0)
        self.scalars = np.zeros((algorithm.outputs, kernel.N_SCALARS))
        self.scalars[:, kernel.FACTOR] = 1.0
        self.sums = np.zeros(kernel.N_SUMS)
        self.sums[kernel.SMALLEST] = math.inf
        self.drift = np.zeros(algorithm.n_agents)
        self._begin(n_features)

    @staticmethod
    def covers(algorithm: Algorithm) -> bool:
        """Whether the certificate's assumptions hold: convex losses, and scores that are linear."""
        return not algorithm.update.experts and getattr(algorithm.loss, "convex", True)

    def _begin(self, n_features: int) -> None:
        outputs, sides = self.algorithm.outputs, 2 if self.entropy else 1
        start = self.radius / (2 * n_features) if self.entropy else 0.0
        self.weights = np.full((outputs, sides, n_features), start)
        if self.entropy:
            self.scalars[:, kernel.SIZE] = self.radius
            self.scalars[:, kernel.LEAST] = start
            self.sums[kernel.SMALLEST] = min(self.sums[kernel.SMALLEST], start)

    def widen(self, n_features: int) -> None:
        """Make room for features that have not been seen before."""
        more = n_features - self.weights.shape[2]
        self.weights = np.concatenate(
            [self.weights, np.zeros((*self.weights.shape[:2], more))], axis=2
        )

    def memory(self, most_plays: int) -> Shadow:
        """The shadow by address, for so many plays at most."""
        first, scale, exponent = int(self.sums[kernel.PLAYS]) + 1, 0.0, -1.0
        if self.rate is not None:
            self.rates, scale, exponent = rates_of(self.rate, first, most_plays)
        return Shadow(
            kind=kernel.ENTROPY if self.entropy else kernel.EUCLIDEAN,
            radius=self.radius,
            l2=self.l2,
            outputs=self.algorithm.outputs,
            D=self.weights.shape[2],
            weights=self.weights.ctypes.data,
            scalars=self.scalars.ctypes.data,
            sums=self.sums.ctypes.data,
            drift=self.drift.ctypes.data,
            rates=self.rates.ctypes.data if len(self.rates) else 0,
            first_play=first,
            scale=scale,
            exponent=exponent,
        )

    def seen(self) -> ShadowSums:
        """What the certificate is made of, as it is now."""
        return ShadowSums(
            entropy=self.entropy,
            radius=self.radius,
            outputs=self.algorithm.outputs,
            plays=int(self.sums[kernel.PLAYS]),
            rated_squares=float(self.sums[kernel.RATED]),
            last_rate=float(self.sums[kernel.LAST_RATE]),
            longest=float(self.sums[kernel.LONGEST]),
            smallest=float(self.sums[kernel.SMALLEST]),
            drift=self.drift.copy(),
        )


def _kind(update: Any) -> int:
    """The shadow that an update is itself, played serially, if it is one."""
    mirror, domain = getattr(update, "mirror", None), getattr(update, "domain", None)
    if mirror is None or domain is None:
        return kernel.NO_SHADOW
    from ddol.update.domains import EVERYWHERE, L1_BALL, L2_BALL
    from ddol.update.mirrors import euclidean, signed_entropy

    if mirror is signed_entropy and domain.kind == L1_BALL and update.l2 == 0.0:
        return kernel.ENTROPY
    flat = mirror is euclidean and domain.kind in (EVERYWHERE, L2_BALL)
    return kernel.EUCLIDEAN if flat else kernel.NO_SHADOW


def _rate_falls(algorithm: Algorithm) -> bool:
    return bool(np.all(np.diff(evaluate(algorithm.rate, 1, _ROUNDS_TRIED)) <= 0))
