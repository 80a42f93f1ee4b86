"""Loops of the p-norm mirror ω(w) = ½‖w‖_p², whose inverse is w_d = sign(θ_d)|θ_d|^{q−1} ‖θ‖_q^{2−q}.

Rows: θ up to a factor, and v = sign(θ)|θ|^{q−1}. Scalars: the factor and Σ|θ|^q of the stored θ, kept as
single weights change, so a sparse row costs O(nnz). ‖w‖_p = ‖θ‖_q: projecting onto the p-norm ball
only changes the factor.
"""

from __future__ import annotations

from dataclasses import replace

from ddol.compiled import column, inner
from ddol.update.contract import ADD, LINEAR, LOCAL, Field, Layout, Loops

SCALE, POWERS, TOUCHED, PEAK = 0, 1, 2, 3
L2, KIND, RADIUS, Q, INVERSE = 0, 1, 2, 3, 4
KINDS = {"everywhere": 0.0, "norm_ball": 1.0}

_SCALARS = (Field("scale", LOCAL, 1.0), *(Field(n, LOCAL) for n in ("powers", "touched", "peak")))
LAYOUT = Layout(rows=("theta", "v"), scalars=_SCALARS, message=(LINEAR,), collected=1)
PRIMAL_LAYOUT = replace(LAYOUT, whole=True)  # the inverse of the map needs the norm


@inner
def _factor(s, p):
    """‖θ‖_q^{2−q}·scale: what turns the stored powers into weights."""
    if s[POWERS] <= 0.0:
        return 0.0
    return s[SCALE] * s[POWERS] ** ((2.0 - p[Q]) / p[Q])


@inner
def _put(w, s, p, d, D, theta):
    size = abs(theta)
    power = size ** (p[Q] - 1.0) if size > 0.0 else 0.0
    s[POWERS] += power * size - abs(w[D + d] * w[d])
    s[PEAK] = max(s[PEAK], s[POWERS])
    w[d] = theta
    w[D + d] = power if theta >= 0.0 else -power


@inner
def _sum_anew(w, s, p, D):
    for d in range(D):
        w[D + d] = 0.0
    s[POWERS] = 0.0
    s[PEAK] = 0.0
    for d in range(D):
        _put(w, s, p, d, D, w[d])
    s[TOUCHED] = 0.0


def score(w, s, p, x, index, n, D, which):
    total = 0.0
    for j in range(n):
        total += w[D + column(index, j)] * x[j]
    return _factor(s, p) * total


def begin(w, s, p, D, eta, weight):
    if p[L2] == 0.0:
        return
    move = eta * weight * p[L2] * _factor(s, p) / s[SCALE]
    for d in range(D):
        w[d] -= move * w[D + d]
    _sum_anew(w, s, p, D)


def step(w, s, p, x, index, n, D, g, eta, weight):
    move = -eta * weight * g / s[SCALE]
    for j in range(n):
        d = column(index, j)
        _put(w, s, p, d, D, w[d] + move * x[j])
    s[TOUCHED] += n


def commit(w, s, p, delta, maxima, index, n, D, eta):
    for j in range(n):
        d = column(index, j)
        if delta[d] != 0.0:
            _put(w, s, p, d, D, w[d] + delta[d] / s[SCALE])
            delta[d] = 0.0
    s[TOUCHED] += n


def finish(w, s, p, D, t, eta):
    # A sum that was much larger before has lost the digits of what is left.
    if s[TOUCHED] > 16.0 * D or not s[POWERS] >= 1e-3 * s[PEAK]:
        _sum_anew(w, s, p, D)
    if p[KIND] == 1.0 and s[POWERS] > 0.0:
        norm = abs(s[SCALE]) * s[POWERS] ** (1.0 / p[Q])
        if norm > p[RADIUS]:
            s[SCALE] *= p[RADIUS] / norm
            # Multiplied out before |θ|^q leaves the range of numbers.
            if abs(s[SCALE]) ** p[Q] < 1e-100:
                for d in range(D):
                    w[d] *= s[SCALE]
                s[SCALE] = 1.0
                _sum_anew(w, s, p, D)


def to_message(w, s, p, index, n, D, out):
    for j in range(n):
        out[j] = s[SCALE] * w[column(index, j)]


def from_message(w, s, p, index, n, D, averaged):
    for j in range(n):
        _put(w, s, p, column(index, j), D, averaged[j] / s[SCALE])
    s[TOUCHED] += n


def weights(w, s, p, index, n, D, out):
    factor = _factor(s, p)
    for j in range(n):
        out[j] = factor * w[D + column(index, j)]


def from_primal_message(w, s, p, index, n, D, averaged):
    """θ_d = sign(w_d)|w_d|^{p−1} ‖w‖_p^{2−p}, the mirror map itself."""
    power = p[INVERSE]
    powers = 0.0
    for d in range(D):
        powers += abs(averaged[d]) ** power
    factor = powers ** ((2.0 - power) / power) if powers > 0.0 else 0.0
    for d in range(D):
        size = factor * abs(averaged[d]) ** (power - 1.0) if averaged[d] != 0.0 else 0.0
        w[d] = size if averaged[d] >= 0.0 else -size
    s[SCALE] = 1.0
    _sum_anew(w, s, p, D)


_OWN = score, step, begin, finish, commit, to_message, from_message, weights
LOOPS = Loops.of(*_OWN, additive=True, shared=ADD)
PRIMAL_LOOPS = replace(LOOPS, to_message=weights, from_message=from_primal_message, shared=None)
