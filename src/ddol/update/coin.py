"""Coin betting: no rate at all.

In the coordinates x̃ of `ddol.update.coordinates` every feature bets on the sign of its next gradient
(Orabona and Pál): with outcomes c = −ℓ′·x̃/(4·rms(ℓ′)) in [−1, 1], θ = Σc, G = Σ|c|, R what was won so
far, and an endowment ε = √(steps/Σ‖x̃/4‖²), its weight is the bet θ/max(G + 1, 10)·(ε + R), and it then
wins c times that. Neighbours average θ, G and R with the same matrix.

Bets grow exponentially while outcomes agree, and late answers all agree: they are about predictions
made before the first of them was heard. So where an outcome would change the score of its own example
by more than 2·N·|ℓ′|/rms(ℓ′)/√(1 + k), k the rounds of delay, only that part of it counts. A score then
grows at most linearly with the answers, and finite data cannot make it diverge. (With 1 + k instead of its
root scores stay smaller still, but who hears answers a hundred rounds late learns too slowly.) The slope of
a loss of numbers grows with the score, so there all answers that were ever under way together may change it
by no more than one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Self

from ddol.compiled import column, inner, sparse
from ddol.update import answers, derived
from ddol.update import coordinates as at
from ddol.update.contract import LINEAR, LOCAL, Field, Layout, Loops
from ddol.update.raw_weights import raw_weights
from ddol.update.standardising import Standardising, standardising_loops

THETA, SIZES, REWARD, NOW = range(at.OWN, at.OWN + 4)
STEPS, NORMS, SLOPES, THETA0, SIZES0, REWARD0 = range(answers.OWN_SUMS, answers.OWN_SUMS + 6)
"""Answers learned from, Σ‖x̃/4‖² and Σℓ′² of them, and the intercept's coin."""
LATE = at.NOTES
"""Numbers that were under way at a time, at most, and one."""
MOST = answers.OWN_PARAMETERS
_SUMS = 6
"""Rows of what agents collect for a shared copy: the statistics, θ, G and R."""


@inner(inlined=True)
def _bet(theta, sizes, reward, endowment):
    return theta / max(sizes + 1.0, 10.0) * (endowment + reward)


@inner(inlined=True)
def _endowment(steps, norms):
    return math.sqrt(steps / norms) if norms > 0.0 else 0.0


@inner(inlined=True)
def _weight(w, d, D, endowment):
    return _bet(w[THETA * D + d], w[SIZES * D + d], w[REWARD * D + d], endowment)


@inner(inlined=True)
def _outcome(slope, z):
    """c of one coin, from ℓ′/rms(ℓ′) and x̃/4."""
    return min(max(-slope * z, -1.0), 1.0)


@inner(inlined=True)
def _change(theta, sizes, reward, endowment, c):
    """By how much an outcome changes a bet."""
    bet = _bet(theta, sizes, reward, endowment)
    rewarded = max(reward + c * bet, 0.0)
    return _bet(theta + c, sizes + abs(c), rewarded, endowment) - bet


@inner(inlined=True)
def _moved(w, d, D, endowment, slope, z):
    """By how much an outcome changes the score of its own example."""
    c = _outcome(slope, z)
    place = w[THETA * D + d], w[SIZES * D + d], w[REWARD * D + d]
    return z * _change(*place, endowment, c)


def score(w, s, p, x, index, n, D, which):
    endowment = _endowment(s[STEPS], s[NORMS])
    total = 0.0
    for j in range(n):
        d = column(index, j)
        z = at.standardised(w, s, d, D, x[j])
        if sparse(index):
            z -= at.standardised(w, s, d, D, 0.0)
        total += _weight(w, d, D, endowment) * z + 0.0 * x[j]
    if sparse(index):
        for k in range(int(s[at.N_CENTRED])):
            d = int(w[at.CENTRED * D + k])
            total += _weight(w, d, D, endowment) * at.standardised(w, s, d, D, 0.0)
    intercept = _bet(s[THETA0], s[SIZES0], s[REWARD0], endowment)
    return answers.predicted(s, p, intercept + total / at.CLIP)


@inner
def _norm(w, s, x, index, n, absent, D):
    """‖x̃/4‖² of a row, with the intercept."""
    total = 0.0
    for j in range(n):
        z = at.standardised(w, s, column(index, j), D, x[j])
        total += z * z
    for k in range(absent):
        z = at.standardised(w, s, int(w[at.ABSENT * D + k]), D, 0.0)
        total += z * z
    return 1.0 + total / (at.CLIP * at.CLIP)


@inner
def _part(w, s, p, x, index, n, absent, D, endowment, slope):
    """The part of an outcome that counts."""
    move = _change(s[THETA0], s[SIZES0], s[REWARD0], endowment, _outcome(slope, 1.0))
    for j in range(n):
        d = column(index, j)
        z = at.standardised(w, s, d, D, x[j]) / at.CLIP
        move += _moved(w, d, D, endowment, slope, z)
    for k in range(absent):
        d = int(w[at.ABSENT * D + k])
        move += _moved(w, d, D, endowment, slope, at.standardised(w, s, d, D, 0.0) / at.CLIP)
    s[LATE] = max(s[LATE], 1.0 + answers.under_way(s, p))
    most = p[MOST] * abs(slope) / s[LATE]
    return 1.0 if abs(move) <= most else most / abs(move)


@inner(inlined=True)
def _flip(out, w, d, D, endowment, c, weight, place):
    """Add what an outcome changes to rows of `out`, which begin at `place`."""
    won = c * _weight(w, d, D, endowment)
    rewarded = max(w[REWARD * D + d] + won, 0.0) - w[REWARD * D + d]
    out[place * D + d] += weight * c
    out[(place + 1) * D + d] += weight * abs(c)
    out[(place + 2) * D + d] += weight * rewarded


@inner
def _play(out, place, sums, base, w, s, p, x, index, n, D, g, weight):
    """One answer: rows change in `out`, from row `place` on, scalars in `sums`, from `base` on."""
    absent = at.list_absent(w, s, index, n, D)
    norm = _norm(w, s, x, index, n, absent, D)
    endowment = _endowment(s[STEPS] + 1.0, s[NORMS] + norm)
    slope = g / math.sqrt((s[SLOPES] + g * g) / (s[STEPS] + 1.0))
    part = slope * _part(w, s, p, x, index, n, absent, D, endowment, slope)
    for j in range(n):
        d = column(index, j)
        c = _outcome(part, at.standardised(w, s, d, D, x[j]) / at.CLIP)
        _flip(out, w, d, D, endowment, c, weight, place)
    for k in range(absent):
        d = int(w[at.ABSENT * D + k])
        c = _outcome(part, at.standardised(w, s, d, D, 0.0) / at.CLIP)
        _flip(out, w, d, D, endowment, c, weight, place)
    c = _outcome(part, 1.0)
    won = c * _bet(s[THETA0], s[SIZES0], s[REWARD0], endowment)
    rewarded = max(s[REWARD0] + won, 0.0) - s[REWARD0]
    sums[base + STEPS] += weight
    sums[base + NORMS] += weight * norm
    sums[base + SLOPES] += weight * g * g
    sums[base + THETA0] += weight * c
    sums[base + SIZES0] += weight * abs(c)
    sums[base + REWARD0] += weight * rewarded


def step(w, s, p, x, index, n, D, g, eta, weight):
    if answers.teaches_nothing(s, p, g, weight):
        return
    g *= weight
    _play(w, THETA, s, 0, w, s, p, x, index, n, D, g, 1.0)


def notice(w, s, p, delta, maxima, x, index, n, D, y, weight):
    at.notice(w, s, p, delta, maxima, x, index, n, D, y, weight, _SUMS * D)


def absorb(w, s, p, delta, maxima, x, index, n, D, g, eta, weight):
    if answers.absorbs_nothing(s, p, g, weight):
        return
    _play(delta, 3, delta, _SUMS * D, w, s, p, x, index, n, D, g, weight)


@inner(inlined=True)
def _adopt(w, delta, d, D):
    for k in range(3):
        w[(THETA + k) * D + d] += delta[(3 + k) * D + d]
        delta[(3 + k) * D + d] = 0.0


def commit(w, s, p, delta, maxima, index, n, D, eta):
    at.commit(w, s, delta, index, n, D)
    for j in range(n):
        _adopt(w, delta, column(index, j), D)
    if sparse(index):
        for k in range(int(s[at.N_CENTRED])):
            _adopt(w, delta, int(w[at.CENTRED * D + k]), D)


to_message, from_message = derived.messages((THETA, THETA + 1, THETA + 2))


def finish(w, s, p, D, t, eta):
    at.take_anew(w, s, p, D, t)


def weights(w, s, p, index, n, D, out):
    endowment = _endowment(s[STEPS], s[NORMS])
    rest = _bet(s[THETA0], s[SIZES0], s[REWARD0], endowment)
    for d in range(D):
        w[NOW * D + d] = _weight(w, d, D, endowment) / at.CLIP
    raw_weights(w, s, p, index, n, D, out, NOW, rest)
    for d in range(D):
        w[NOW * D + d] = 0.0


LOOPS = standardising_loops(
    score, step, finish, absorb, notice, commit, to_message, from_message, weights
)


@dataclass(frozen=True, kw_only=True)
class Coin(Standardising):
    """Coin betting per feature on a network; see the module's docstring.

    Parameters
    ----------
    delay : int
        Set by `Algorithm`.
    """

    delay: int = 0

    family = "coin"
    intercept_sums = (THETA0, SIZES0, REWARD0)
    positive_sums = (STEPS, NORMS, SLOPES, SIZES0)

    def with_delay(self, rounds: int) -> Self:
        """The same update, told how late answers come."""
        return replace(self, delay=rounds)

    def layout(self, space: str, n_features: int) -> Layout:
        """The coins."""
        own = tuple(Field(name, LOCAL) for name in ("theta", "sizes", "reward", "now"))
        return self.standardised_layout(own, (LINEAR,) * 3, _SUMS)

    @property
    def own_loops(self) -> Loops:
        """The loops of this module."""
        return LOOPS

    @property
    def own_parameters(self) -> list[float]:
        """The limit of a step."""
        late = 1.0 if self.regression else math.sqrt(1.0 + self.delay)
        return [2.0 * self.n_agents / late]
