"""Loops of the entropy mirrors: the dual is the logarithm of the weight.

One side (w > 0) has rows θ and v; two sides (w = w⁺ − w⁻) have θ⁺, θ⁻, v⁺, v⁻. The log-weight of a
feature is θ + shift; v = exp(θ − ref) is kept so that a score needs no exponential, and the sum of
all v so that a projection is O(1): it only moves the shift. A sparse row thus costs O(nnz). Agents that share
a copy collect their gradients, so that a feature which several of them have costs one exponential a round.
"""

from __future__ import annotations

import math
from dataclasses import replace

from ddol.compiled import column, inner
from ddol.update.contract import COLLECT, LINEAR, LOCAL, LOG, Field, Layout, Loops

SHIFT, REF, TOTAL, PEAK, TOUCHED, UNIT = range(6)
"""UNIT is what v is multiplied by to be a weight, exp(ref + shift)."""
L2, KIND, RADIUS, SIDES = 0, 1, 2, 3
KINDS = {"everywhere": 0.0, "l1_ball": 1.0, "simplex": 2.0}
LEAST = -690.0
"""Smallest logarithm whose exponential has all its digits."""
# Beyond this the exponential of a difference would leave the range of numbers.
_FAR = 300.0
_ROOM = 1.0 - 1e-9


def layout(sides: int, logarithmic: bool) -> Layout:
    """Two rows a side; neighbours average the log-weights, or the weights behind them."""
    names = ("theta", "v") if sides == 1 else ("theta+", "theta-", "v+", "v-")
    return Layout(
        rows=tuple(Field(name, LOCAL) for name in names),
        scalars=tuple(
            Field(name, LOCAL) for name in ("shift", "ref", "total", "peak", "touched", "unit")
        ),
        message=(LOG if logarithmic else LINEAR,) * sides,
        collected=1,
    )


def score(w, s, p, x, index, n, D, which):
    total = 0.0
    if p[SIDES] == 1.0:
        for j in range(n):
            total += w[D + column(index, j)] * x[j]
    else:
        for j in range(n):
            d = column(index, j)
            total += (w[2 * D + d] - w[3 * D + d]) * x[j]
    return total * s[UNIT]


@inner
def _shift_to(s, shift):
    s[SHIFT] = shift
    # Weights may be smaller than any number; the sign of a score, the prediction, must not be lost.
    s[UNIT] = math.exp(max(s[REF] + shift, LEAST))


@inner
def _move(w, s, theta, v, change):
    """Move one log-weight; keep its exponential and the sum of all of them."""
    w[theta] += change
    if w[theta] - s[REF] > _FAR:
        s[TOUCHED] = math.inf  # finish() recentres
        return
    fresh = math.exp(w[theta] - s[REF])
    s[TOTAL] += fresh - w[v]
    s[PEAK] = max(s[PEAK], s[TOTAL])
    w[v] = fresh


@inner
def _is_near(w, s, theta, v):
    """Whether an exponential may be multiplied, instead of being taken anew."""
    return w[v] > 1e-200 and w[theta] - s[REF] < _FAR


@inner
def _move_sides(w, s, p, d, D, change):
    """Move both sides in opposite directions, with one exponential; `_recentre` takes them anew in time."""
    if p[SIDES] == 1.0:
        _move(w, s, d, D + d, change)
        return
    up, down = 2 * D + d, 3 * D + d
    if abs(change) > 30.0 or not (_is_near(w, s, d, up) and _is_near(w, s, D + d, down)):
        _move(w, s, d, up, change)
        _move(w, s, D + d, down, -change)
        return
    growth = math.exp(change)
    grown, shrunk = w[up] * growth, w[down] / growth
    s[TOTAL] += grown - w[up] + (shrunk - w[down])
    s[PEAK] = max(s[PEAK], s[TOTAL])
    w[d] += change
    w[D + d] -= change
    w[up] = grown
    w[down] = shrunk


@inner
def _recentre(w, s, p, D):
    """Sum the exponentials anew, relative to the largest log-weight."""
    n = D if p[SIDES] == 1.0 else 2 * D
    largest = -math.inf
    for d in range(n):
        largest = max(largest, w[d])
    total = 0.0
    for d in range(n):
        w[n + d] = math.exp(w[d] - largest)
        w[d] += s[SHIFT]
        total += w[n + d]
    s[REF] = largest + s[SHIFT]
    _shift_to(s, 0.0)
    s[TOTAL] = total
    s[PEAK] = total
    s[TOUCHED] = 0.0


def begin(w, s, p, D, eta, weight):
    if p[L2] == 0.0:
        return
    # The weights of the whole round are those before it, so all moves use the same exponentials.
    factor = eta * weight * p[L2] * math.exp(s[REF] + s[SHIFT])
    for d in range(D):
        if p[SIDES] == 1.0:
            w[d] -= factor * w[D + d]
        else:
            move = factor * (w[2 * D + d] - w[3 * D + d])
            w[d] -= move
            w[D + d] += move
    _recentre(w, s, p, D)


def step(w, s, p, x, index, n, D, g, eta, weight):
    for j in range(n):
        _move_sides(w, s, p, column(index, j), D, -eta * weight * g * x[j])
    s[TOUCHED] += n


def commit(w, s, p, delta, maxima, index, n, D, eta):
    for j in range(n):
        d = column(index, j)
        if delta[d] != 0.0:
            _move_sides(w, s, p, d, D, delta[d])
            delta[d] = 0.0
    s[TOUCHED] += n


def finish(w, s, p, D, t, eta):
    # A sum that was much larger before has lost the digits of what is left.
    if s[TOUCHED] > 16.0 * D or not s[TOTAL] > 1e-3 * s[PEAK]:
        _recentre(w, s, p, D)
    # Logarithms only near the radius: mostly there is room left.
    if p[KIND] == 0.0 or (p[KIND] == 1.0 and s[TOTAL] * s[UNIT] < _ROOM * p[RADIUS]):
        return
    room = math.log(p[RADIUS]) - s[REF] - math.log(s[TOTAL])
    if room < s[SHIFT] or p[KIND] == 2.0:
        _shift_to(s, room)


def to_message(w, s, p, index, n, D, out):
    for side in range(int(p[SIDES])):
        for j in range(n):
            out[side * n + j] = w[side * D + column(index, j)] + s[SHIFT]


def from_message(w, s, p, index, n, D, averaged):
    sides = int(p[SIDES])
    for side in range(sides):
        for j in range(n):
            d = side * D + column(index, j)
            _move(w, s, d, sides * D + d, averaged[side * n + j] - s[SHIFT] - w[d])
    s[TOUCHED] += sides * n


def weights(w, s, p, index, n, D, out):
    for j in range(n):
        d = column(index, j)
        out[j] = math.exp(w[d] + s[SHIFT])
        if p[SIDES] != 1.0:
            out[j] -= math.exp(w[D + d] + s[SHIFT])


_OWN = score, step, begin, finish, commit, to_message, from_message, weights
DUAL_LOOPS = Loops.of(*_OWN, additive=True, shared=COLLECT)
PRIMAL_LOOPS = replace(DUAL_LOOPS, shared=None)
