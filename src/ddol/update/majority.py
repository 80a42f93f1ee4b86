"""Weighted majority: experts in the place of features, votes in the place of scores.

A wrong expert's log-weight drops by log(1/α). DWM-I (Algorithm 2) averages log-weights, a geometric mean;
DWM-A (Algorithm 3) averages the weights. It is mirror descent with the entropy, rate log(1/α) and the
experts' 0/1 losses as the gradient.

Slots: the log-weight θ and v = exp(θ − ref), so that a vote needs no exponential.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from ddol.compiled import column, inner
from ddol.update.rule import DUAL, LINEAR, LOG, PRIMAL, Layout, Loops, Update

REF, TOTAL, AGE = 0, 1, 2
PENALTY, CLASSES = 0, 1

TIE = 1e-12
"""Votes that differ by less than this fraction of the total weight are tied: rounding must not decide."""


def score(w, s, p, x, index, n, D, which):
    """Two classes: (votes for +1 − votes for −1) / all votes. More: the share of votes for `which`."""
    votes, total = 0.0, 0.0
    if p[CLASSES] == 2.0:
        for j in range(n):
            weight = w[D + column(index, j)]
            votes += weight * x[j]
            total += weight
        votes /= total
        return votes if abs(votes) > TIE else 0.0
    for j in range(n):
        weight = w[D + column(index, j)]
        total += weight
        votes += weight if x[j] == which else 0.0
    return votes / total


def step(w, s, p, x, index, n, D, g, eta, share):
    drop = p[PENALTY] * share
    factor = math.exp(-drop)
    total = 0.0
    for j in range(n):
        d = column(index, j)
        wrong = x[j] != g
        w[d] -= drop if wrong else 0.0
        w[D + d] *= factor if wrong else 1.0
        total += w[D + d]
    s[TOTAL] = total
    s[AGE] += 1.0


def absorb_dual(w, s, p, delta, x, index, n, D, g, eta, share):
    for j in range(n):
        delta[column(index, j)] += p[PENALTY] * share if x[j] != g else 0.0


def commit_dual(w, s, p, delta, peak, index, n, D, eta):
    total = 0.0
    for j in range(n):
        d = column(index, j)
        w[d] -= delta[d]
        w[D + d] *= math.exp(-delta[d])
        delta[d] = 0.0
        total += w[D + d]
    s[TOTAL] = total
    s[AGE] += 1.0


def absorb_primal(w, s, p, delta, x, index, n, D, g, eta, share):
    """The mean weight loses (1 − α)/N for each agent at which the expert is wrong."""
    loss = -math.expm1(-p[PENALTY]) * share
    for j in range(n):
        delta[column(index, j)] += loss if x[j] != g else 0.0


def commit_primal(w, s, p, delta, peak, index, n, D, eta):
    total = 0.0
    for j in range(n):
        d = column(index, j)
        if delta[d] != 0.0:
            w[d] += math.log1p(-delta[d])
            w[D + d] *= 1.0 - delta[d]
            delta[d] = 0.0
        total += w[D + d]
    s[TOTAL] = total
    s[AGE] += 1.0


@inner
def _recentre(w, s, D):
    largest = -math.inf
    for d in range(D):
        largest = max(largest, w[d])
    total = 0.0
    for d in range(D):
        w[D + d] = math.exp(w[d] - largest)
        total += w[D + d]
    s[REF] = largest
    s[TOTAL] = total
    s[AGE] = 0.0


def finish(w, s, p, D, t, eta):
    # Products drift and shrink; exponentials are taken anew before either can be seen.
    if s[AGE] >= 1000.0 or s[TOTAL] < 1e-100:
        _recentre(w, s, D)


def pack(w, s, p, D, out):
    for d in range(D):
        out[d] = w[d]


def unpack(w, s, p, D, averaged):
    for d in range(D):
        w[d] = averaged[d]
    _recentre(w, s, D)


def weights(w, s, p, D, out):
    total = 0.0
    for d in range(D):
        total += w[D + d]
    for d in range(D):
        out[d] = w[D + d] / total


DUAL_LOOPS = Loops(score, None, step, absorb_dual, commit_dual, finish, pack, unpack, weights)
PRIMAL_LOOPS = Loops(score, None, step, absorb_primal, commit_primal, finish, pack, unpack, weights)


@dataclass(frozen=True)
class Majority(Update):
    """Multiply the weight of every wrong expert by α.

    Parameters
    ----------
    alpha : float in (0, 1)
    n_classes : int
        2: advice and answers are −1 and +1. More: they are 0, 1, …, n_classes − 1.
    randomized : bool
        Follow one expert, drawn with probability w_p/Σw, instead of the majority.
    """

    alpha: float = 0.9
    n_classes: int = 2
    randomized: bool = False

    grows: bool = field(init=False, default=False)
    merges: bool = field(init=False, default=False)
    experts: bool = field(init=False, default=True)

    def __post_init__(self) -> None:
        if not 0.0 < self.alpha < 1.0:
            raise ValueError(f"`alpha` must lie strictly between 0 and 1, it is {self.alpha}")
        if self.n_classes < 2:
            raise ValueError(f"`n_classes` must be at least 2, it is {self.n_classes}")

    def start(self, n_features: int) -> np.ndarray:
        """Every expert has weight 1."""
        return np.zeros((1, n_features))

    def weights(self, state: np.ndarray) -> np.ndarray:
        """Weights that sum to 1."""
        relative = np.exp(state[0] - state[0].max())
        return relative / relative.sum()

    def learn(self, state: np.ndarray, gradient: np.ndarray, rate: float) -> np.ndarray:
        """θ − log(1/α) where the expert was wrong; `gradient` holds the experts' 0/1 losses."""
        return state + math.log(self.alpha) * gradient

    def share(self, state: np.ndarray, space: str) -> np.ndarray:
        """Log-weights, averaged as they are or behind the logarithm."""
        return state

    def adopt(self, averaged: np.ndarray, space: str) -> np.ndarray:
        """Log-weights."""
        return averaged

    def layout(self, space: str, n_features: int) -> Layout:
        """Sizes of the compiled state."""
        return Layout(slots=2, scalars=3, packed=(LOG if space == PRIMAL else LINEAR,))

    def loops(self, space: str) -> Loops:
        """The compiled form."""
        return DUAL_LOOPS if space == DUAL else PRIMAL_LOOPS

    def parameters(self) -> np.ndarray:
        """log(1/α) and the number of classes."""
        return np.array([-math.log(self.alpha), float(self.n_classes)])

    def begin_state(self, n_features: int) -> tuple[np.ndarray, np.ndarray]:
        """Compiled state and scalars before the first round."""
        state = np.stack([np.zeros(n_features), np.ones(n_features)])
        return state, np.array([0.0, float(n_features), 0.0])

    def shared_copy(self, space: str) -> str:
        """Penalties multiply on one copy in both spaces; arithmetic means are collected first."""
        return "add" if space == DUAL else "absorb"
