"""Weighted majority: experts in the place of features, votes in the place of scores.

A wrong expert's log-weight drops by log(1/α). DWM-I (Algorithm 2) averages log-weights, a geometric mean;
DWM-A (Algorithm 3) averages the weights. It is mirror descent with the entropy, rate log(1/α) and the
experts' 0/1 losses as the gradient.

A mistake multiplies the weight v of an expert, and v is never rounded but by these products: it is
brought back to the range of numbers by powers of two. So experts with as many mistakes have the same
weight to the bit. Neighbours average the logarithms, which follow from v and the powers.

Rows: the powers of two that an expert's v lacks beside all others; and v.

With a share α (fixed share, Herbster and Warmuth) every expert gives α of its weight to all others alike,
once a round, after the average: w ← (1−α)w + α(W−w)/(P−1), where W is the total, which stays. No expert is
ever further behind than a few good rounds make up for, so that a best expert that changes is followed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Literal, Self

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
PENALTY, CLASSES, SHARE, PERIOD = range(4)
ROUND, OWED = 3, 4
"""With a share only: the round of the last `finish`, and whether its share is still to be given."""
AUTO = -1.0
"""SHARE where α is 1/(t+1) after round t."""

TIE = 1e-12
"""Votes that differ by less than this fraction of the total weight are tied: rounding must not decide."""

OLD = 100.0
"""AGE at which v is scaled: the largest is then at least exp(−OLD), or one round's penalty less."""
LEAST_ALPHA = LEAST_SHARE = 1e-40
MOST_SHARE = 0.5
"""So that of two experts the better one stays so."""

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


@inner
def _age(w, s, p, D):
    s[AGE] += p[PENALTY]
    if s[AGE] >= OLD:
        _scale(w, s, D)


def finish(w, s, p, D, t, eta):
    _age(w, s, p, D)


@inner
def _share(w, s, p, D, t):
    """Every expert gives a share of its weight to all others; beside it, those far behind have none."""
    if D < 2:
        return
    alpha = 1.0 / (t + 1.0) if p[SHARE] == AUTO else p[SHARE]
    part, total = alpha / (D - 1.0), 0.0
    for d in range(D):
        total += w[D + d] if w[d] == 0.0 else 0.0
    for d in range(D):
        own = w[D + d] if w[d] == 0.0 else 0.0
        w[D + d] = (1.0 - alpha - part) * own + part * total
        w[d] = 0.0


def finish_sharing(w, s, p, D, t, eta):
    """Share once a round. Where agents average, all are brought to an end before and after it: share after.

    An average that did not come leaves its share to the next round.
    """
    if t != s[ROUND]:
        if s[OWED] != 0.0:
            _share(w, s, p, D, s[ROUND])
        s[ROUND], s[OWED] = t, 1.0
        follows = p[PERIOD] > 1.0 and np.floor(t / p[PERIOD]) * p[PERIOD] == t
    else:
        follows = False
    if s[OWED] != 0.0 and not follows:
        _share(w, s, p, D, t)
        s[OWED] = 0.0
    _age(w, s, p, D)


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
    share : float from 0 to 0.5, "auto" or None
        Of its weight that every expert gives to the others in each round; auto: 1/(t+1) after round t.
    period : int
        Rounds from one average to the next.

    Examples
    --------
    >>> Majority(0.5, share=0.01).shares, Majority(0.5).shares, Majority(0.5, share=0.0).shares
    (True, False, False)
    """

    alpha: float = 0.9
    n_classes: int = 2
    randomized: bool = False
    share: float | Literal["auto"] | None = None
    period: int = 1

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
        if self.shares and self.share != "auto":
            known = isinstance(self.share, int | float)
            if not known or not LEAST_SHARE <= self.share <= MOST_SHARE:  # type: ignore[operator]
                raise ValueError(
                    f"`share` must be 'auto', 0 or a number from {LEAST_SHARE:g} to {MOST_SHARE}, it is "
                    f"{self.share!r}"
                )

    @property
    def shares(self) -> bool:
        """Whether experts share their weights."""
        return self.share is not None and self.share != 0.0

    def with_period(self, rounds: int) -> Self:
        """Where agents average, the share comes after it."""
        return replace(self, period=rounds) if self.shares else self

    def layout(self, space: str, n_features: int) -> Layout:
        """Neighbours average log-weights, or the weights behind them."""
        names = ("ref", "power", "age", *(("round", "owed") if self.shares else ()))
        return Layout(
            rows=(Field("power", LOCAL), Field("v", LOCAL, 1.0, least=math.ulp(0.0))),
            scalars=tuple(Field(name, LOCAL) for name in names),
            message=(LINEAR if space == DUAL else LOG,),
            collected=1,
            whole=True,
        )

    def loops(self, space: str) -> Loops:
        """Penalties multiply on one copy in both spaces; arithmetic means are collected first."""
        loops = DUAL_LOOPS if space == DUAL else PRIMAL_LOOPS
        return replace(loops, finish=finish_sharing) if self.shares else loops

    @property
    def penalty(self) -> float:  # type: ignore[override]
        """log(1/α)."""
        return -math.log(self.alpha)

    def parameters(self) -> tuple[float, ...]:
        """log(1/α), the number of classes and, where experts share, how much and the period."""
        own = -math.log(self.alpha), float(self.n_classes)
        if not self.shares:
            return own
        assert self.share is not None
        return *own, AUTO if self.share == "auto" else float(self.share), float(self.period)
