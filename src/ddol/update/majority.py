"""Weighted majority: experts in the place of features, votes in the place of scores.

A wrong expert's log-weight drops by log(1/α). DWM-I (Algorithm 2) averages log-weights, a geometric mean;
DWM-A (Algorithm 3) averages the weights. It is mirror descent with the entropy, rate log(1/α) and the
experts' 0/1 losses as the gradient.

A round that ends in an exchange changes the log-weights θ, which are what neighbours average; the
weights v of the votes are taken from the average. All other rounds multiply v only, and what θ was is
known from v, because v is never rounded but by these products: it is brought back to the range of
numbers by powers of two. So experts with as many mistakes have the same weight to the bit.

Slots: θ or, while v runs alone, the powers of two that v lacks; and v.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from ddol.compiled import column, inner
from ddol.update.rule import DUAL, LINEAR, LOG, PRIMAL, Layout, Loops, Update

REF, POWER, AGE, ALONE = 0, 1, 2, 3
"""θ = REF + (POWER + slot 0)·log 2 + log v while v runs ALONE; AGE: most that log v fell meanwhile."""
PENALTY, CLASSES = 0, 1

TIE = 1e-12
"""Votes that differ by less than this fraction of the total weight are tied: rounding must not decide."""

OLD = 100.0
"""AGE at which v is scaled: the largest is then at least exp(−OLD), or one round's penalty less."""
LEAST_ALPHA = 1e-40

LOG_2 = math.log(2.0)
FAR, FARTHEST, LIFT = -400, -600, 200
"""Experts behind by more than 2^FARTHEST are lifted, by 2^LIFT at a time, and stay below 2^FAR.

There they can neither vanish until v is scaled again, nor be seen in a sum of votes.
"""
SEEN, LEAST, LIFTED = 2.0**FAR, 2.0**FARTHEST, 2.0**LIFT


@inner
def _is_strange(x, n, classes):
    """Whether an advice is no class number."""
    strange = 0
    for j in range(n):
        known = (x[j] >= 0.0) & (x[j] < classes) & (np.floor(x[j]) == x[j])
        strange += not known
    return strange > 0


def score(w, s, p, x, index, n, D, which):
    """Two classes: (votes for +1 − votes for −1) / all votes. More: the share of votes for `which`.

    NaN where an advice is none of the classes.
    """
    votes, total = 0.0, 0.0
    if n == 0:
        return 0.0
    if p[CLASSES] == 2.0:
        strange = 0
        for j in range(n):
            weight = w[D + column(index, j)]
            votes += weight * x[j]
            total += weight
            strange += x[j] * x[j] != 1.0
        if strange > 0:
            return math.nan
        votes /= total
        return votes if abs(votes) > TIE else 0.0
    if which == 0.0 and _is_strange(x, n, p[CLASSES]):
        return math.nan
    for j in range(n):
        weight = w[D + column(index, j)]
        total += weight
        votes += weight if x[j] == which else 0.0
    return votes / total


@inner
def _log_weight(w, s, D, d):
    if s[ALONE] == 0.0:
        return w[d]
    return s[REF] + (s[POWER] + w[d]) * LOG_2 + math.log(w[D + d])


@inner
def _let_go(w, s, D):
    """From log-weights to v alone; that of experts far behind has vanished, and is lifted."""
    for d in range(D):
        behind = (w[d] - s[REF]) / LOG_2
        lifts = math.ceil((behind - FAR) / LIFT) if behind < FARTHEST else 0.0
        w[d] = lifts * LIFT
        if lifts < 0.0:
            w[D + d] = math.exp((behind - w[d]) * LOG_2)
    s[POWER] = 0.0
    s[AGE] = 0.0
    s[ALONE] = 1.0


def begin(w, s, p, D, eta, share, exchanging):
    if exchanging == 0.0 and s[ALONE] == 0.0:
        _let_go(w, s, D)
    elif exchanging != 0.0 and s[ALONE] != 0.0:
        for d in range(D):
            w[d] = _log_weight(w, s, D, d)
        s[ALONE] = 0.0


def step(w, s, p, x, index, n, D, g, eta, share):
    drop = p[PENALTY] * share
    if s[ALONE] == 0.0:
        for j in range(n):
            w[column(index, j)] -= drop if x[j] != g else 0.0
        return
    factor = math.exp(-drop)
    for j in range(n):
        w[D + column(index, j)] *= factor if x[j] != g else 1.0


def absorb_dual(w, s, p, delta, x, index, n, D, g, eta, share):
    for j in range(n):
        delta[column(index, j)] += p[PENALTY] * share if x[j] != g else 0.0


def commit_dual(w, s, p, delta, maxima, index, n, D, eta):
    for j in range(n):
        d = column(index, j)
        if delta[d] != 0.0:
            w[D + d] *= math.exp(-delta[d])
            delta[d] = 0.0


def absorb_primal(w, s, p, delta, x, index, n, D, g, eta, share):
    """The mean weight loses (1 − α)/N for each agent at which the expert is wrong."""
    loss = -math.expm1(-p[PENALTY]) * share
    for j in range(n):
        delta[column(index, j)] += loss if x[j] != g else 0.0


def commit_primal(w, s, p, delta, maxima, index, n, D, eta):
    for j in range(n):
        d = column(index, j)
        w[D + d] *= 1.0 - delta[d]
        delta[d] = 0.0


@inner
def _scale(w, s, D):
    """Bring the largest v back to about 1, by a power of two."""
    largest, scale = 0.0, 1.0
    for d in range(D):
        largest = max(largest, w[D + d])
    while largest * scale < 0.5:
        scale *= 2.0
        s[POWER] -= 1.0
    s[AGE] = 0.0
    for d in range(D):
        w[D + d] *= scale
    for d in range(D):
        while w[D + d] < LEAST:
            w[D + d] *= LIFTED
            w[d] -= LIFT
        while w[d] < 0.0 and w[D + d] >= SEEN:
            w[D + d] /= LIFTED
            w[d] += LIFT


def finish(w, s, p, D, t, eta):
    if s[ALONE] != 0.0:
        s[AGE] += p[PENALTY]
        if s[AGE] >= OLD:
            _scale(w, s, D)


def pack(w, s, p, D, out):
    for d in range(D):
        out[d] = _log_weight(w, s, D, d)


def unpack(w, s, p, D, averaged):
    largest = -math.inf
    for d in range(D):
        largest = max(largest, averaged[d])
    for d in range(D):
        w[d] = averaged[d]
        w[D + d] = math.exp(averaged[d] - largest)
    s[REF] = largest
    s[ALONE] = 0.0


def weights(w, s, p, D, out):
    total = 0.0
    for d in range(D):
        total += w[D + d]
    for d in range(D):
        lifted = s[ALONE] != 0.0 and w[d] < 0.0
        out[d] = w[D + d] * (math.exp(w[d] * LOG_2) if lifted else 1.0) / total


DUAL_LOOPS = Loops(score, begin, step, absorb_dual, commit_dual, finish, pack, unpack, weights)
PRIMAL_LOOPS = Loops(
    score, begin, step, absorb_primal, commit_primal, finish, pack, unpack, weights
)


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
        if not LEAST_ALPHA <= self.alpha < 1.0:
            raise ValueError(
                f"`alpha` must lie strictly between 0 and 1 (and be at least {LEAST_ALPHA:g}), it is "
                f"{self.alpha}"
            )
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
        return Layout(slots=2, scalars=4, packed=(LOG if space == PRIMAL else LINEAR,))

    def loops(self, space: str) -> Loops:
        """The compiled form."""
        return DUAL_LOOPS if space == DUAL else PRIMAL_LOOPS

    def parameters(self) -> np.ndarray:
        """log(1/α) and the number of classes."""
        return np.array([-math.log(self.alpha), float(self.n_classes)])

    def begin_state(self, n_features: int) -> tuple[np.ndarray, np.ndarray]:
        """Compiled state and scalars before the first round."""
        state = np.stack([np.zeros(n_features), np.ones(n_features)])
        return state, np.array([0.0, 0.0, 0.0, 1.0])

    def log_weights(self, state: np.ndarray, scalars: np.ndarray) -> np.ndarray:
        """Log-weights (D,) of a compiled state between two rounds."""
        if not scalars[ALONE]:
            return np.array(state[0])
        return scalars[REF] + (scalars[POWER] + state[0]) * LOG_2 + np.log(state[1])

    def shared_copy(self, space: str) -> str:
        """Penalties multiply on one copy in both spaces; arithmetic means are collected first."""
        return "add" if space == DUAL else "absorb"
