"""The online Newton step: ψ(z, u) = ½ (z − u)ᵀA(z − u) with A = I + Σ ĝĝᵀ (Hazan, Agarwal and Kale).

g̃ = ℓ′/rms(ℓ′)·x̃ in the coordinates of `ddol.update.coordinates`, so features and answers may have any
scale and offset, and ĝ = min(1, rms(ℓ′)/|ℓ′|)·g̃: a slope that is larger than usual counts in A as a usual
one. After a change all slopes are large, and counted in full they would make A so large that no step went
far (as logistic slopes are small where a model is right, Sine's flips took it from 2 % mistakes to 22).
An agent keeps the Cholesky factor of A, by rotations, and steps u ← u − 2.5·h·η·A⁻¹g̃
(½·h·η where answers are numbers), h = max(1, √(Σ(ℓ′/rms(ℓ′))²/180)), in O(D²), but never so far that the
score of its own example changes by more than N·|ℓ′|/rms(ℓ′). With h = 1 steps would shrink as 1/t, and an
agent that has learned for long could follow no change; with h they shrink as 1/√t in the end. Neighbours
average A (its triangle) and the duals A·u with the same weights and solve for u, the paper's argmin: D³/6
multiplications. Features are centred, so the intercept is uncorrelated with them and has a Newton step of
its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from ddol.compiled import address_of, column, floats, inner, row, sparse
from ddol.update import answers, statistics
from ddol.update import coordinates as at
from ddol.update.contract import LINEAR, LOCAL, Field, Layout, Loops, Vector
from ddol.update.raw_weights import raw_weights
from ddol.update.standardising import Standardising, standardising_loops

U, NOW, SOLVED, FACTOR = range(at.OWN, at.OWN + 4)
"""Weights, a gradient, a solution, the rows of the Cholesky factor; behind them those of A."""
STEPS, SLOPES, MATRIX0, DUAL0 = range(answers.OWN_SUMS, answers.OWN_SUMS + 4)
"""Answers learned from, Σℓ′² of them, and the intercept: A − 1 and A·u."""
CHANGED = at.CLOCK
"""Whether a round's gradients wait to be followed."""
GAIN = answers.OWN_PARAMETERS
_MEAN, _TRIANGLE = 3, 4
"""Rows of what agents collect for a shared copy, behind the statistics: the mean gradient, and what is added
to the triangle."""

MOST = 1000
"""Most features: two matrices of D² numbers per weight vector."""


@inner(inlined=True)
def _matrix(D):
    """Place of A."""
    return (FACTOR + D) * D


@inner(inlined=True)
def intercept(s):
    return s[DUAL0] / (1.0 + s[MATRIX0])


# The factor is kept as R = Lᵀ: what is gone through lies side by side.


@inner(inlined=True)
def _factor_row(w, i, D):
    return floats(address_of(w, (FACTOR + i) * D))


@inner
def _factorise(w, D):
    """A = RᵀR, row by row."""
    for i in range(D):
        own, place = _factor_row(w, i, D), _matrix(D) + i * D
        for j in range(i, D):
            own[j] = w[place + j]
        for k in range(i):
            known = _factor_row(w, k, D)
            part = known[i]
            for j in range(i, D):
                own[j] -= part * known[j]
        scale = 1.0 / math.sqrt(own[i])
        for j in range(i, D):
            own[j] *= scale


@inner
def _solve_half(w, D, place):
    """SOLVED ← R⁻ᵀ times the vector at a place; its squares."""
    solved, squares = row(w, SOLVED, D), 0.0
    for i in range(D):
        solved[i] = w[place + i]
    for i in range(D):
        own = _factor_row(w, i, D)
        known = solved[i] * (1.0 / own[i])
        solved[i] = known
        squares += known * known
        for k in range(i + 1, D):
            solved[k] -= known * own[k]
    return squares


@inner
def _solve_rest(w, D):
    """SOLVED ← R⁻¹ times itself."""
    solved = row(w, SOLVED, D)
    for i in range(D - 1, -1, -1):
        own, total = _factor_row(w, i, D), 0.0
        for k in range(i + 1, D):
            total += own[k] * solved[k]
        solved[i] = (solved[i] - total) * (1.0 / own[i])


@inner
def _solve(w, D, place):
    """SOLVED ← A⁻¹ times the vector at a place."""
    _solve_half(w, D, place)
    _solve_rest(w, D)


@inner
def _rotate(w, D):
    """A ← A + g̃g̃ᵀ in R, and SOLVED ← R⁻ᵀg̃; its squares. Nothing is left of g̃ in NOW.

    Rotations take (R; g̃ᵀ) to (R; 0), and so (0; 1) to (R⁻ᵀg̃; what is left of the 1).
    """
    rest, solved = row(w, NOW, D), row(w, SOLVED, D)
    one, squares = 1.0, 0.0
    for k in range(D):
        own, new = _factor_row(w, k, D), rest[k]
        if new == 0.0:
            solved[k] = 0.0
            continue
        root = math.sqrt(own[k] * own[k] + new * new)
        scale = 1.0 / root
        c, s = own[k] * scale, new * scale
        solved[k] = s * one
        squares += solved[k] * solved[k]
        one *= c
        own[k] = root
        for i in range(k + 1, D):
            before, left = own[i], rest[i]
            own[i] = c * before + s * left
            rest[i] = c * left - s * before
    return squares


@inner
def _place(w, s, x, index, n, D):
    """Slot NOW ← x̃, all of it."""
    if sparse(index):
        for d in range(D):
            w[NOW * D + d] = at.standardised(w, s, d, D, 0.0)
    for j in range(n):
        d = column(index, j)
        w[NOW * D + d] = at.standardised(w, s, d, D, x[j])


def score(w, s, p, x, index, n, D, which):
    return answers.predicted(s, p, intercept(s) + at.dot(w, s, x, index, n, D))


HORIZON = 180.0
"""Σ(ℓ′/rms(ℓ′))² from which on steps shrink as 1/√t and not as 1/t: what changes is followed then."""


@inner(inlined=True)
def length(p, eta, slope, move, seen):
    """η, or less where the example's own score, which η·move/ℓ′ changes, would change by more than N·ℓ′."""
    size = eta * p[GAIN] * max(1.0, math.sqrt(seen / HORIZON))
    most = p[answers.AGENTS] * slope * slope
    return size if size * move <= most else most / move


@inner(inlined=True)
def bend(slope):
    """What a slope counts in A: see the top."""
    return min(abs(slope), 1.0)


@inner(inlined=True)
def counted(s, g):
    """Count a step of this slope; the slope in units of all so far, ℓ′/rms(ℓ′)."""
    s[STEPS] += 1.0
    s[SLOPES] += g * g
    return g * math.sqrt(s[STEPS] / s[SLOPES])


def step(w, s, p, x, index, n, D, g, eta, weight):
    if answers.teaches_nothing(s, p, g, weight):
        return
    slope = counted(s, g * weight)
    size = bend(slope)
    ratio = slope / size
    _place(w, s, x, index, n, D)
    for d in range(D):
        w[NOW * D + d] *= size
    if p[answers.AGENTS] > 1.0:
        for i in range(D):
            own = w[NOW * D + i]
            for j in range(i, D):
                w[_matrix(D) + i * D + j] += own * w[NOW * D + j]
    squared = size * size
    along = length(p, eta, slope, ratio * ratio * _rotate(w, D), s[MATRIX0])
    _solve_rest(w, D)
    for d in range(D):
        w[U * D + d] -= along * ratio * w[SOLVED * D + d]
    before = intercept(s)
    s[MATRIX0] += squared
    s[DUAL0] = (1.0 + s[MATRIX0]) * before - along * slope


def notice(w, s, p, delta, maxima, x, index, n, D, y, weight):
    at.notice(w, s, p, delta, maxima, x, index, n, D, y, weight, _sums(D))


@inner(inlined=True)
def _triangle_rows(D):
    """Rows of D numbers that hold a triangle, with its diagonal."""
    return (D + 2) // 2


@inner(inlined=True)
def _sums(D):
    """Place of the scalars behind the rows that are collected."""
    return (_TRIANGLE + _triangle_rows(D)) * D


def absorb(w, s, p, delta, maxima, x, index, n, D, g, eta, weight):
    if answers.absorbs_nothing(s, p, g, weight):
        return
    slope = g * math.sqrt((s[STEPS] + 1.0) / (s[SLOPES] + g * g))
    _place(w, s, x, index, n, D)
    squared, alone = bend(slope) ** 2, _solve_half(w, D, NOW * D)
    move = slope * slope * alone / (1.0 + squared * alone)
    size = length(p, eta, slope, move, s[MATRIX0])
    place = _TRIANGLE * D
    for i in range(D):
        delta[_MEAN * D + i] += weight * size * slope * w[NOW * D + i]
        own = weight * squared * w[NOW * D + i]
        for j in range(i, D):
            delta[place + j] += own * w[NOW * D + j]
        place += D - i - 1
    sums = _sums(D)
    delta[sums + STEPS] += weight
    delta[sums + SLOPES] += weight * g * g
    delta[sums + MATRIX0] += weight * squared
    delta[sums + DUAL0] += weight * (squared * intercept(s) - size * slope)


def commit(w, s, p, delta, maxima, index, n, D, eta):
    at.commit(w, s, delta, index, n, D)
    if s[CHANGED] != 0.0:
        return
    s[CHANGED] = 1.0
    for d in range(D):
        w[NOW * D + d] = delta[_MEAN * D + d]
        delta[_MEAN * D + d] = 0.0
    place = _TRIANGLE * D
    for i in range(D):
        for j in range(i, D):
            w[_matrix(D) + i * D + j] += delta[place + j]
            delta[place + j] = 0.0
        place += D - i - 1


@inner
def _follow(w, s, p, D):
    """Move weights and the intercept along with coordinates."""
    for k in range(int(s[at.N_MOVED])):
        d = int(w[at.MOVED * D + k])
        ratio, shift = at.moved(w, p, d, D)
        s[DUAL0] += (1.0 + s[MATRIX0]) * w[U * D + d] * shift
        w[U * D + d] *= ratio
    s[at.N_MOVED] = 0.0


def from_statistics(w, s, p, index, n, D, averaged):
    statistics.from_statistics(w, s, p, index, n, D, averaged)
    _follow(w, s, p, D)


def finish(w, s, p, D, t, eta):
    if s[CHANGED] != 0.0:
        s[CHANGED] = 0.0
        _factorise(w, D)
        _solve(w, D, NOW * D)
        for d in range(D):
            w[U * D + d] -= w[SOLVED * D + d]
    at.take_anew(w, s, p, D, t)
    if s[at.N_MOVED] != 0.0:
        _follow(w, s, p, D)


def to_message(w, s, p, index, n, D, out):
    """The dual A·u, the triangle of A."""
    a, place, last = _matrix(D), D, _triangle_rows(D)
    for d in range(D):
        out[last * D + d] = 0.0
        out[d] = 0.0
    for i in range(D):
        own = w[U * D + i]
        total = w[a + i * D + i] * own
        out[place + i] = w[a + i * D + i]
        for j in range(i + 1, D):
            entry = w[a + i * D + j]
            out[place + j] = entry
            total += entry * w[U * D + j]
            out[j] += entry * own
        out[i] += total
        place += D - i - 1


def from_message(w, s, p, index, n, D, averaged):
    a, place = _matrix(D), D
    for i in range(D):
        for j in range(i, D):
            w[a + i * D + j] = averaged[place + j]
        place += D - i - 1
        w[NOW * D + i] = averaged[i]
    _factorise(w, D)
    _solve(w, D, NOW * D)
    for d in range(D):
        w[U * D + d] = w[SOLVED * D + d]


def weights(w, s, p, index, n, D, out):
    raw_weights(w, s, p, index, n, D, out, U, intercept(s))


LOOPS = standardising_loops(
    score, step, finish, absorb, notice, commit, to_message, from_message, weights, from_statistics
)


@dataclass(frozen=True, kw_only=True)
class Newton(Standardising):
    """Second-order mirror descent with a full matrix; see the module's docstring."""

    grows: bool = field(init=False, default=False)

    centres: ClassVar[float] = 0.0
    family = "newton"
    intercept_sums = (MATRIX0, DUAL0)
    positive_sums = (STEPS, SLOPES, MATRIX0)

    def check(self, n_features: int) -> None:
        """Refuse more features than a full matrix is for."""
        if n_features > MOST:
            raise ValueError(
                f"newton keeps {n_features}² numbers per agent for {n_features} features, expected "
                f"at most {MOST} features; give it a rank, such as 10, or use the algorithm adaptive"
            )

    def layout(self, space: str, n_features: int) -> Layout:
        """Weights, room for a step, then two matrices."""
        names = ("u", "now", "solved", *(f"factor {d}" for d in range(n_features)))
        names += tuple(f"matrix {d}" for d in range(n_features))
        own = tuple(Field(name, LOCAL) for name in names)
        triangle = _triangle_rows(n_features)
        sent = (LINEAR,) * (triangle + 1)
        return self.standardised_layout(own, sent, _TRIANGLE + triangle, whole=True)

    def start(self, n_features: int) -> Vector:
        """A is the identity."""
        vector = super().start(n_features)
        for place in (FACTOR, FACTOR + n_features):
            vector.rows[place : place + n_features] = np.eye(n_features)
        return vector

    @property
    def own_loops(self) -> Loops:
        """The loops of this module."""
        return LOOPS

    @property
    def own_parameters(self) -> list[float]:
        """The size of steps."""
        return [0.5 if self.regression else 2.5]
