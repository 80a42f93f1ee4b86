"""The shadow of a network: one serial learner, fed with the very gradients of all agents.

Whatever the network did, with x_s the weights that made play s, g_s the subgradient there and x̃_s the
shadow's weights, Σ ⟨g_s, x_s − u⟩ = Σ ⟨g_s, x̃_s − u⟩ + Σ ⟨g_s, x_s − x̃_s⟩. The first sum is bounded
as that of any mirror descent; the second is the *drift*, summed up here at O(non-zeros) a play: ⟨g_s, x_s⟩
is the slope times the score, which is known. A term λ‖w‖²/2 is the shadow's own: it shrinks, and the drift
counts λ(‖x_s‖² − ‖x̃_s‖²)/2.
"""

# Signatures say the types of compiled functions.
# mypy: disable-error-code=no-untyped-def

from __future__ import annotations

import math
from typing import NamedTuple

from ddol.compiled import floats, indices, inner

NO_SHADOW, EUCLIDEAN, ENTROPY = range(3)

# Of every weight vector: x̃ is FACTOR times what is stored; SIZE is ‖stored‖² or ‖stored‖₁.
FACTOR, SIZE, TOUCHED, LEAST = range(4)
N_SCALARS = 4

# Of all plays.
PLAYS, RATED, SQUARED, LONGEST, SMALLEST, LAST_RATE = range(6)
N_SUMS = 8


class Shadow(NamedTuple):
    """The shadow in memory; arrays are given by address."""

    kind: int
    radius: float
    """Of the L2 or L1 ball; infinite for all of the space."""
    l2: float
    outputs: int
    D: int
    weights: int
    """float64 (outputs, 1 or 2, D): stored weights; for entropy those of w⁺ and w⁻."""
    scalars: int
    """float64 (outputs, N_SCALARS)"""
    sums: int
    """float64 (N_SUMS,)"""
    drift: int
    """float64 (agents,)"""
    rates: int
    """float64: rates of the plays from `first_play` on; 0 where they are scale/s^exponent."""
    first_play: int
    scale: float
    exponent: float
    """Negative where the rate follows the gradients."""

    @classmethod
    def none(cls) -> Shadow:
        """No shadow at all."""
        return cls(NO_SHADOW, 0.0, 0.0, 0, 0, 0, 0, 0, 0, 0, 0, 0.0, 0.0)


@inner(inlined=True)
def _feature(index, sparse, j):
    return int(indices(index)[j]) if sparse else j


@inner
def shadow_score(shadow, k, x, index, n, sparse):
    """⟨x̃, row⟩ of one weight vector."""
    rows = 2 if shadow.kind == ENTROPY else 1
    plus, values = floats(shadow.weights + 8 * k * rows * shadow.D), floats(x)
    minus, total = floats(shadow.weights + 8 * (k * rows + rows - 1) * shadow.D), 0.0
    for j in range(n):
        d = _feature(index, sparse, j)
        total += values[j] * (plus[d] if rows == 1 else plus[d] - minus[d])
    return total * floats(shadow.scalars + 8 * k * N_SCALARS)[FACTOR]


@inner
def _norm_of_row(shadow, x, n):
    """‖row‖² in the dual norm: Euclidean, or the largest entry."""
    values, total = floats(x), 0.0
    for j in range(n):
        square = values[j] * values[j]
        total = total + square if shadow.kind == EUCLIDEAN else max(total, square)
    return total


@inner
def _rate(shadow, squared):
    """η of this play: of its number, or R/√(Σ‖g‖²) with this gradient included."""
    sums = floats(shadow.sums)
    if shadow.rates != 0:
        return floats(shadow.rates)[int(sums[PLAYS]) - shadow.first_play]
    if shadow.exponent == 0.5:
        return shadow.scale / math.sqrt(sums[PLAYS])
    if shadow.exponent >= 0.0:
        return shadow.scale / sums[PLAYS] if shadow.exponent == 1.0 else shadow.scale
    total = sums[SQUARED] + squared
    return shadow.radius / math.sqrt(total) if total > 0.0 else sums[LAST_RATE]


@inner
def _step_euclidean(shadow, k, x, index, n, sparse, g, eta):
    weights, s = (
        floats(shadow.weights + 8 * k * shadow.D),
        floats(shadow.scalars + 8 * k * N_SCALARS),
    )
    values, gained = floats(x), 0.0
    s[FACTOR] *= 1.0 - eta * shadow.l2
    if abs(s[FACTOR]) < 1e-100:
        _multiply_out(shadow, k, 1)
    move = -eta * g / s[FACTOR]
    if g != 0.0:
        for j in range(n):
            d = _feature(index, sparse, j)
            change = move * values[j]
            gained += change * (2.0 * weights[d] + change)
            weights[d] += change
        s[SIZE] += gained
        s[TOUCHED] += n
    if s[TOUCHED] > 16.0 * shadow.D:
        _multiply_out(shadow, k, 1)
    norm = abs(s[FACTOR]) * math.sqrt(max(s[SIZE], 0.0))
    if norm > shadow.radius:
        s[FACTOR] *= shadow.radius / norm
        norm = shadow.radius
    sums = floats(shadow.sums)
    sums[LONGEST] = max(sums[LONGEST], norm)


@inner
def _multiply_out(shadow, k, rows):
    """Let the factor be 1, and sum sizes up anew: they lose digits by and by."""
    s, size, least = floats(shadow.scalars + 8 * k * N_SCALARS), 0.0, math.inf
    weights = floats(shadow.weights + 8 * k * rows * shadow.D)
    for d in range(rows * shadow.D):
        weights[d] *= s[FACTOR]
        size += weights[d] * weights[d] if rows == 1 else weights[d]
        least = min(least, weights[d])
    s[FACTOR], s[SIZE], s[TOUCHED], s[LEAST] = 1.0, size, 0.0, least


@inner
def _step_entropy(shadow, k, x, index, n, sparse, g, eta):
    s, values = floats(shadow.scalars + 8 * k * N_SCALARS), floats(x)
    plus = floats(shadow.weights + 16 * k * shadow.D)
    minus = floats(shadow.weights + 8 * (2 * k + 1) * shadow.D)
    if g != 0.0:
        gained, least = 0.0, s[LEAST]
        for j in range(n):
            d = _feature(index, sparse, j)
            growth = math.exp(-eta * g * values[j])
            up, down = plus[d] * growth, minus[d] / growth
            gained += up - plus[d] + down - minus[d]
            plus[d], minus[d] = up, down
            least = min(least, min(up, down))
        s[SIZE] += gained
        s[LEAST] = least
        s[TOUCHED] += n
    total = s[FACTOR] * s[SIZE]
    if total > shadow.radius:
        s[FACTOR] *= shadow.radius / total
    if s[TOUCHED] > 16.0 * shadow.D or s[FACTOR] < 1e-100 or s[FACTOR] > 1e100:
        _multiply_out(shadow, k, 2)
    sums = floats(shadow.sums)
    sums[SMALLEST] = min(sums[SMALLEST], s[FACTOR] * s[LEAST])


@inner
def follow(shadow, agent, scores, slopes, squares, x, index, n, sparse):
    """One play: what the shadow would have scored, how far the agent was from it, and its step.

    Parameters
    ----------
    scores, slopes
        Of the agent's prediction, one per output; float64 pointers.
    squares : float
        ‖x_s‖² of the agent's weights where there is an L2 term.
    x, index, n, sparse
        The row.
    """
    sums, length, drift, squared = floats(shadow.sums), _norm_of_row(shadow, x, n), 0.0, 0.0
    sums[PLAYS] += 1.0
    for k in range(shadow.outputs):
        z, g = shadow_score(shadow, k, x, index, n, sparse), slopes[k]
        drift += g * (scores[k] - z)
        squared += g * g * length
        if shadow.l2 > 0.0:
            s = floats(shadow.scalars + 8 * k * N_SCALARS)
            own = s[FACTOR] * s[FACTOR] * max(s[SIZE], 0.0)
            squared += 2.0 * shadow.l2 * g * z + shadow.l2 * shadow.l2 * own
            drift -= 0.5 * shadow.l2 * own
    if shadow.l2 > 0.0:
        drift += 0.5 * shadow.l2 * squares
    eta = _rate(shadow, squared)
    sums[SQUARED] += squared
    sums[RATED] += eta * squared
    sums[LAST_RATE] = eta
    for k in range(shadow.outputs):
        if shadow.kind == EUCLIDEAN:
            _step_euclidean(shadow, k, x, index, n, sparse, slopes[k], eta)
        else:
            _step_entropy(shadow, k, x, index, n, sparse, slopes[k], eta)
    floats(shadow.drift)[agent] += drift
