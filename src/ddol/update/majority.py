"""Weighted majority: experts in the place of features, votes in the place of scores.

A wrong expert's log-weight drops by log(1/α). DWM-I (Algorithm 2) averages log-weights, a geometric mean;
DWM-A (Algorithm 3) averages the weights. It is mirror descent with the entropy, rate log(1/α) and the
experts' 0/1 losses as the gradient.

A mistake multiplies the weight v of an expert, and v is never rounded but by these products: it is
brought back to the range of numbers by powers of two. So experts with as many mistakes have the same
weight to the bit. Neighbours average the logarithms, which follow from v and the powers.

Rows: the powers of two that an expert's v lacks beside all others; and v.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from ddol.compiled import column, inner
from ddol.update.contract import (
    ADD,
    COLLECT,
    DUAL,
    LINEAR,
    LOCAL,
    LOG,
    Field,
    Layout,
    Loops,
    Update,
)

REF, POWER, AGE = 0, 1, 2
"""The log-weight is REF + (POWER + row 0)·log 2 + log v; AGE: most that log v fell since v was scaled."""
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
        strange = 0.0
        for j in range(n):
            weight = w[D + column(index, j)]
            votes += weight * x[j]
            total += weight
            strange += abs(x[j] * x[j] - 1.0)
        if strange != 0.0:
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


def step(w, s, p, x, index, n, D, g, eta, weight):
    factor = math.exp(-p[PENALTY] * weight)
    if weight > 1.0:  # more than `finish` counts
        s[AGE] += p[PENALTY] * (weight - 1.0)
    for j in range(n):
        w[D + column(index, j)] *= factor if x[j] != g else 1.0


def absorb_dual(w, s, p, delta, maxima, x, index, n, D, g, eta, weight):
    for j in range(n):
        delta[column(index, j)] += p[PENALTY] * weight if x[j] != g else 0.0


def commit_dual(w, s, p, delta, maxima, index, n, D, eta):
    for j in range(n):
        d = column(index, j)
        if delta[d] != 0.0:
            w[D + d] *= math.exp(-delta[d])
            delta[d] = 0.0


def absorb_primal(w, s, p, delta, maxima, x, index, n, D, g, eta, weight):
    """The mean weight loses (1 − α)/N for each agent at which the expert is wrong."""
    loss = -math.expm1(-p[PENALTY]) * weight
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
    s[AGE] += p[PENALTY]
    if s[AGE] >= OLD:
        _scale(w, s, D)


def to_message(w, s, p, index, n, D, out):
    """Log-weights."""
    for d in range(D):
        out[d] = s[REF] + (s[POWER] + w[d]) * LOG_2 + math.log(w[D + d])


def from_message(w, s, p, index, n, D, averaged):
    """v from log-weights; that of experts far behind would vanish, and is lifted."""
    largest = -math.inf
    for d in range(D):
        largest = max(largest, averaged[d])
    for d in range(D):
        behind = (averaged[d] - largest) / LOG_2
        lifts = math.ceil((behind - FAR) / LIFT) if behind < FARTHEST else 0.0
        w[d] = lifts * LIFT
        if lifts < 0.0:
            w[D + d] = math.exp((behind - w[d]) * LOG_2)
        else:
            w[D + d] = math.exp(averaged[d] - largest)
    s[REF] = largest
    s[POWER] = 0.0
    s[AGE] = 0.0


def weights(w, s, p, index, n, D, out):
    total = 0.0
    for d in range(D):
        total += w[D + d]
    for j in range(n):
        d = column(index, j)
        out[j] = w[D + d] * (math.exp(w[d] * LOG_2) if w[d] < 0.0 else 1.0) / total


_OWN = score, step, finish, to_message, from_message, weights
DUAL_LOOPS = Loops.of(*_OWN, absorb=absorb_dual, commit=commit_dual, additive=True, shared=ADD)
PRIMAL_LOOPS = replace(DUAL_LOOPS, absorb=absorb_primal, commit=commit_primal, shared=COLLECT)


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

    family = "weighted_majority"
    grows: bool = field(init=False, default=False)
    merges: bool = field(init=False, default=False)
    experts: bool = field(init=False, default=True)
    tie: float = field(init=False, default=TIE)

    def __post_init__(self) -> None:
        if not LEAST_ALPHA <= self.alpha < 1.0:
            raise ValueError(
                f"`alpha` must lie strictly between 0 and 1 (and be at least {LEAST_ALPHA:g}), it is "
                f"{self.alpha}"
            )
        if self.n_classes < 2:
            raise ValueError(f"`n_classes` must be at least 2, it is {self.n_classes}")

    def layout(self, space: str, n_features: int) -> Layout:
        """Neighbours average log-weights, or the weights behind them."""
        return Layout(
            rows=(Field("power", LOCAL), Field("v", LOCAL, 1.0)),
            scalars=tuple(Field(name, LOCAL) for name in ("ref", "power", "age")),
            message=(LINEAR if space == DUAL else LOG,),
            collected=1,
            whole=True,
        )

    def loops(self, space: str) -> Loops:
        """Penalties multiply on one copy in both spaces; arithmetic means are collected first."""
        return DUAL_LOOPS if space == DUAL else PRIMAL_LOOPS

    @property
    def penalty(self) -> float:  # type: ignore[override]
        """log(1/α)."""
        return -math.log(self.alpha)

    def parameters(self) -> tuple[float, float]:
        """log(1/α) and the number of classes."""
        return -math.log(self.alpha), float(self.n_classes)
