"""Loops of the scale-free updates: feature scales, and how many agents a mean gradient is worth.

*Scales.* Weights live in normalised coordinates, x̃_d = x_d / max|x_d| seen, clipped to [−1, 1]. When a larger
value arrives only the scale grows (the weight of the raw feature shrinks with it), so multiplying a
feature by a constant changes nothing. Scales of neighbours are joined by the maximum.

*Agents.* The mean of N independent gradients has 1/N of their variance, that of N equal ones all of it.
Two sums per feature tell them apart: P of the mean square, X of the product of two agents' gradients.
With κ = X/P their correlation, the mean is worth 1/f agents, f = κ² + (1 − κ²)/N, and a step that
divides by √P divides by √(P·f) instead: equal agents act as one, independent ones N times as far.

*Waiting.* Off the complete graph a gradient has to travel. Each agent keeps a pot b of gradients that it
averages with its neighbours, and releases from it as fast as the graph mixes:
b ← A(b + g), release ρ·b with ρ = gap + (1 − gap)·κ². On the complete graph nothing waits.

What neighbours average linearly: P, X, b + g, g, g², and the update's own weights in their dual; the scales
and the largest answer by the maximum.
"""

from __future__ import annotations

import math

from ddol.compiled import column, inner
from ddol.update.contract import LARGEST as MAX
from ddol.update.contract import LINEAR, Loops

# Slots of D numbers: inverse scale, P, X, pot, gradient of this round (then what is released).
V, P, X, POT, NOW = range(5)
OWN = 5
"""First slot of the update itself."""
# Scalars: examples, Σ‖x̃‖², largest answer (these three are averaged), and two notes.
SEEN, NORMS, LARGEST, PHASE, ETA = range(5)
# Parameters.
AGENTS, GAP, SPREAD, REGRESSION = range(4)

ALONE, ASKING, ANSWERED = 0.0, 1.0, 2.0
"""Phases of a round: no exchange; the gradient waits for one; what it released is to be followed."""

UNSEEN = 1e300
"""Inverse scale of a feature never seen: finite, because infinity times zero is not a number."""
TINY = 1e-300
"""P before any gradient: 0/√P is 0 in dense rows without a branch."""
NOTHING = 1e-299
"""P up to here has seen no gradient: an average of TINY may be a little more than TINY."""
PACKED = (LINEAR, LINEAR, LINEAR, LINEAR, LINEAR, MAX)


@inner
def clipped(x):
    """x̃ from x·v."""
    return min(max(x, -1.0), 1.0)


@inner
def scaled(x, v):
    """x̃ from x and 1/scale, and NaN where x is not finite: clipping alone would hide it."""
    return clipped(x * v) + 0.0 * x


@inner
def spread_of_scores(s):
    """√(examples / Σ‖x̃‖²): makes one step change a score by the same amount in any dimension."""
    return math.sqrt(s[SEEN] / s[NORMS]) if s[NORMS] > 0.0 else 0.0


@inner
def correlation(w, p, d, D):
    """κ² of the agents' gradients of one feature."""
    if p[AGENTS] == 1.0 or w[P * D + d] <= NOTHING:
        return 1.0
    kappa = min(max(w[X * D + d] / w[P * D + d], 0.0), 1.0)
    return 1.0 if kappa > 1.0 - 1e-9 else kappa * kappa


@inner
def worth(w, p, d, D):
    """P·f: what a step divides by the square root of."""
    kappa2 = correlation(w, p, d, D)
    return w[P * D + d] * (kappa2 + (1.0 - kappa2) / p[AGENTS])


def hear(w, s, p, x, index, n, D, y):
    norm, unclipped = 0.0, 0.0
    for j in range(n):
        raw = x[j] * w[column(index, j)]
        unclipped += raw * raw
        clip = clipped(raw)
        norm += clip * clip
    s[SEEN] += 1.0
    s[NORMS] += norm
    s[LARGEST] = max(s[LARGEST], abs(y)) if p[REGRESSION] != 0.0 else 1.0
    # Sums differ if any value left its range: a maximum would not use vector registers.
    if unclipped > norm:
        for j in range(n):
            d = column(index, j)
            if abs(x[j]) * w[d] > 1.0:
                w[d] = 1.0 / abs(x[j])


def notice(w, s, p, delta, maxima, x, index, n, D, y, weight):
    norm = 0.0
    for j in range(n):
        d = column(index, j)
        clip = clipped(x[j] * w[d])
        norm += clip * clip
        maxima[d] = max(maxima[d], abs(x[j]))
    delta[2 * D] += weight
    delta[2 * D + 1] += weight * norm
    maxima[D] = max(maxima[D], abs(y) if p[REGRESSION] != 0.0 else 1.0)


def absorb(w, s, p, delta, maxima, x, index, n, D, g, eta, weight):
    for j in range(n):
        d = column(index, j)
        gradient = g * x[j]
        delta[d] += weight * gradient
        delta[D + d] += weight * gradient * gradient


@inner
def collect(w, s, p, delta, maxima, d, D):
    """Take what all agents collected for one feature into P, X and the scale; the mean gradient."""
    if maxima[d] * w[d] > 1.0:
        w[d] = 1.0 / maxima[d]
    maxima[d] = 0.0
    mean, square = delta[d], delta[D + d]
    if square > 0.0:
        w[P * D + d] += square
        if p[AGENTS] > 1.0:
            w[X * D + d] += (mean * mean - square / p[AGENTS]) / (1.0 - 1.0 / p[AGENTS])
        delta[d] = 0.0
        delta[D + d] = 0.0
    return mean


@inner
def keep_alone(w, p, d, D, gradient):
    """Count a gradient that is followed without asking the neighbours; κ stays what it was."""
    square = gradient * gradient
    if p[AGENTS] > 1.0:
        place = P * D + d
        kappa = min(max(w[X * D + d] / w[place], 0.0), 1.0) if w[place] > NOTHING else 1.0
        w[X * D + d] += kappa * square
    w[P * D + d] += square


def ask(w, s, p, exchanging):
    s[PHASE] = ASKING if exchanging != 0.0 else ALONE


def begin(w, s, p, D, eta, weight):
    s[ETA] = eta


@inner
def pack_common(w, s, index, n, D, out):
    for j in range(n):
        d = column(index, j)
        gradient = w[NOW * D + d]
        out[j] = w[P * D + d]
        out[n + j] = w[X * D + d]
        out[2 * n + j] = w[POT * D + d] + gradient
        out[3 * n + j] = gradient
        out[4 * n + j] = gradient * gradient
        out[5 * n + j] = 1.0 / w[d] if w[d] < UNSEEN else 0.0


@inner
def unpack_common(w, s, p, d, j, n, D, averaged):
    """Take averaged sums of one feature; what is released from the pot stands in NOW."""
    gradient, square = averaged[3 * n + j], averaged[4 * n + j]
    w[P * D + d] = averaged[j] + square
    w[X * D + d] = averaged[n + j]
    if p[AGENTS] > 1.0:
        w[X * D + d] += (gradient * gradient - p[SPREAD] * square) / (1.0 - p[SPREAD])
    scale = averaged[5 * n + j]
    w[d] = 1.0 / scale if scale > 0.0 else UNSEEN
    pot = averaged[2 * n + j]
    released = (p[GAP] + (1.0 - p[GAP]) * correlation(w, p, d, D)) * pot
    w[NOW * D + d] = released
    w[POT * D + d] = pot - released


# --- adaptive: one own slot, the weight u of x̃ ---------------------------------------------------

U = OWN


def adaptive_score(w, s, p, x, index, n, D, which):
    total = 0.0
    for j in range(n):
        d = column(index, j)
        total += w[U * D + d] * scaled(x[j], w[d])
    return total


@inner
def _unit(s):
    return s[ETA] * s[LARGEST] * spread_of_scores(s)


def adaptive_step(w, s, p, x, index, n, D, g, eta, weight):
    if s[PHASE] == ASKING:
        for j in range(n):
            w[NOW * D + column(index, j)] += g * x[j]
        return
    unit = _unit(s) * g
    if p[AGENTS] == 1.0:
        squared = g * g
        for j in range(n):
            d = column(index, j)
            total = w[P * D + d] + squared * x[j] * x[j]
            w[P * D + d] = total
            w[U * D + d] -= unit * x[j] / math.sqrt(total)
        return
    for j in range(n):
        d = column(index, j)
        if x[j] != 0.0:
            keep_alone(w, p, d, D, g * x[j])
            w[U * D + d] -= unit * x[j] / math.sqrt(w[P * D + d])


def adaptive_commit(w, s, p, delta, maxima, index, n, D, eta):
    unit = _unit(s)
    for j in range(n):
        d = column(index, j)
        mean = collect(w, s, p, delta, maxima, d, D)
        if mean != 0.0:
            w[U * D + d] -= unit * mean / math.sqrt(worth(w, p, d, D))


def adaptive_finish(w, s, p, D, t, eta):
    if s[PHASE] != ANSWERED:
        return
    s[PHASE] = ALONE
    s[ETA] = eta
    unit = _unit(s)
    for d in range(D):
        if w[NOW * D + d] != 0.0:
            w[U * D + d] -= unit * w[NOW * D + d] / math.sqrt(worth(w, p, d, D))
            w[NOW * D + d] = 0.0


def adaptive_to_message(w, s, p, index, n, D, out):
    pack_common(w, s, index, n, D, out)
    for j in range(n):
        d = column(index, j)
        root = math.sqrt(w[P * D + d])
        out[6 * n + j] = root * w[U * D + d]
        out[7 * n + j] = root


def adaptive_from_message(w, s, p, index, n, D, averaged):
    for j in range(n):
        d = column(index, j)
        unpack_common(w, s, p, d, j, n, D, averaged)
        w[U * D + d] = averaged[6 * n + j] / averaged[7 * n + j]
    s[PHASE] = ANSWERED


def adaptive_weights(w, s, p, index, n, D, out):
    for j in range(n):
        d = column(index, j)
        out[j] = w[U * D + d] * w[d] if w[d] < UNSEEN else 0.0


ADAPTIVE = Loops(
    adaptive_score,
    adaptive_step,
    begin=begin,
    finish=adaptive_finish,
    hear=hear,
    absorb=absorb,
    notice=notice,
    commit=adaptive_commit,
    to_message=adaptive_to_message,
    from_message=adaptive_from_message,
    weights=adaptive_weights,
    ask=ask,
    propagates_nan=True,
)


# --- coin: the gradients' sum, the sum of their sizes, the largest size, the reward --------------

SUM, SIZES, SIZE, REWARD = range(OWN, OWN + 4)


@inner
def _bet(w, s, d, D):
    """Weight of x̃: the share of the wealth that the coin's past flips justify."""
    size = w[SIZE * D + d]
    if size == 0.0:
        return 0.0
    share = w[SUM * D + d] / (size * max(w[SIZES * D + d] + size, 10.0 * size))
    return s[LARGEST] * share * (size * spread_of_scores(s) + w[REWARD * D + d])


@inner
def _flip(w, s, d, D, gradient):
    """Win or lose on one outcome."""
    if s[LARGEST] > 0.0:
        won = -_bet(w, s, d, D) * gradient / s[LARGEST]
        w[REWARD * D + d] = max(w[REWARD * D + d] + won, 0.0)
    w[SIZE * D + d] = max(w[SIZE * D + d], abs(gradient))
    w[SIZES * D + d] += abs(gradient)
    w[SUM * D + d] -= gradient


def coin_score(w, s, p, x, index, n, D, which):
    total = 0.0
    for j in range(n):
        d = column(index, j)
        total += _bet(w, s, d, D) * scaled(x[j], w[d])
    return total


def coin_step(w, s, p, x, index, n, D, g, eta, weight):
    for j in range(n):
        d = column(index, j)
        if s[PHASE] == ASKING:
            w[NOW * D + d] += g * x[j]
        elif x[j] != 0.0:
            keep_alone(w, p, d, D, g * x[j])
            _flip(w, s, d, D, g * x[j])


def coin_commit(w, s, p, delta, maxima, index, n, D, eta):
    for j in range(n):
        d = column(index, j)
        mean = collect(w, s, p, delta, maxima, d, D)
        if mean != 0.0:
            _flip(w, s, d, D, mean)


def coin_finish(w, s, p, D, t, eta):
    if s[PHASE] != ANSWERED:
        return
    s[PHASE] = ALONE
    for d in range(D):
        if w[NOW * D + d] != 0.0:
            _flip(w, s, d, D, w[NOW * D + d])
            w[NOW * D + d] = 0.0


def coin_to_message(w, s, p, index, n, D, out):
    pack_common(w, s, index, n, D, out)
    for k in range(4):
        for j in range(n):
            out[(6 + k) * n + j] = w[(SUM + k) * D + column(index, j)]


def coin_from_message(w, s, p, index, n, D, averaged):
    for j in range(n):
        d = column(index, j)
        unpack_common(w, s, p, d, j, n, D, averaged)
        for k in range(4):
            w[(SUM + k) * D + d] = averaged[(6 + k) * n + j]
    s[PHASE] = ANSWERED


def coin_weights(w, s, p, index, n, D, out):
    for j in range(n):
        d = column(index, j)
        out[j] = _bet(w, s, d, D) * w[d] if w[d] < UNSEEN else 0.0


COIN_MODES = (LINEAR, LINEAR, MAX, LINEAR)
COIN = Loops(
    coin_score,
    coin_step,
    begin=begin,
    finish=coin_finish,
    hear=hear,
    absorb=absorb,
    notice=notice,
    commit=coin_commit,
    to_message=coin_to_message,
    from_message=coin_from_message,
    weights=coin_weights,
    ask=ask,
    propagates_nan=True,
)
