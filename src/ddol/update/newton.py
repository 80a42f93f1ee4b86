"""The online Newton step: ψ(z, w) = ½ (z − w)ᵀA(z − w) with A = I + Σ g̃g̃ᵀ (Hazan, Agarwal and Kale).

It works in normalised coordinates x̃ = x/max|x|, so features may have any scale, and in units M of the
largest answer. One agent keeps B = A⁻¹ by rank-one updates, O(D²) an example:
B ← B − Bg̃(Bg̃)ᵀ/(1 + g̃ᵀBg̃), u ← u − η·M·B·g̃. Neighbours average the matrices A, the duals A·u and the
gradients with the same weights, and solve: the paper's argmin. That costs O(D³) a round.

Slots of D numbers: inverse scale, weight, gradient of this round, a product, the rows of B, the rows of A.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from ddol.compiled import column, inner
from ddol.update.contract import LARGEST, LINEAR, LOCAL, Field, Layout, Loops, Update, Vector

V, U, NOW, PRODUCT, INVERSE = range(5)
# The largest answer so far (a maximum over agents), the one that gradients are in units of, a phase.
NEXT, UNIT, PHASE = range(3)
ALONE, ASKING, COLLECTED = 0.0, 1.0, 2.0
REGRESSION = 0
UNSEEN = 1e300

MOST = 1000
"""Most features: two matrices of D² numbers per weight vector, and O(D³) a round on a network."""


@inner
def _matrix(D):
    """Place of A, behind B."""
    return (INVERSE + D) * D


@inner
def _scaled(w, s, x, d, g):
    """g̃ of one feature: in units of its scale, which may still have to grow, and of the answers."""
    return g * min(max(x * w[d], -1.0), 1.0) / s[UNIT]


@inner
def _multiply(w, D, vector):
    """Slot PRODUCT becomes B times the vector at a place."""
    for i in range(D):
        row = 0.0
        for j in range(D):
            row += w[INVERSE * D + i * D + j] * w[vector + j]
        w[PRODUCT * D + i] = row


@inner
def _follow(w, D, size):
    """u ← u − size·B·g̃, with g̃ in slot NOW."""
    _multiply(w, D, NOW * D)
    for i in range(D):
        w[U * D + i] -= size * w[PRODUCT * D + i]


@inner
def _rank_one(w, D):
    """A ← A + g̃g̃ᵀ, and the same in B."""
    _multiply(w, D, NOW * D)
    product = 1.0
    for i in range(D):
        product += w[NOW * D + i] * w[PRODUCT * D + i]
    for i in range(D):
        left, own = w[PRODUCT * D + i] / product, w[NOW * D + i]
        for j in range(D):
            w[INVERSE * D + i * D + j] -= left * w[PRODUCT * D + j]
            w[_matrix(D) + i * D + j] += own * w[NOW * D + j]


@inner
def _invert(w, D):
    """B ← A⁻¹ by Cholesky: A = LLᵀ, then L⁻¹, then L⁻ᵀL⁻¹, all in the place of B."""
    a, b = _matrix(D), INVERSE * D
    for j in range(D):
        for i in range(j, D):
            total = w[a + i * D + j]
            for k in range(j):
                total -= w[b + i * D + k] * w[b + j * D + k]
            w[b + i * D + j] = math.sqrt(total) if i == j else total / w[b + j * D + j]
    for j in range(D):
        w[b + j * D + j] = 1.0 / w[b + j * D + j]
        for i in range(j + 1, D):
            total = 0.0
            for k in range(j, i):
                total -= w[b + i * D + k] * w[b + k * D + j]
            w[b + i * D + j] = total / w[b + i * D + i]
    for i in range(D):
        for j in range(i + 1):
            total = 0.0
            for k in range(i, D):
                total += w[b + k * D + i] * w[b + k * D + j]
            w[b + i * D + j] = total
    for i in range(D):
        for j in range(i + 1, D):
            w[b + i * D + j] = w[b + j * D + i]


def score(w, s, p, x, index, n, D, which):
    total = 0.0
    for j in range(n):
        d = column(index, j)
        total += w[U * D + d] * min(max(x[j] * w[d], -1.0), 1.0)
    return total


def ask(w, s, p, exchanging):
    s[PHASE] = ASKING if exchanging != 0.0 else ALONE


def hear(w, s, p, x, index, n, D, y):
    s[NEXT] = max(s[NEXT], abs(y) if p[REGRESSION] != 0.0 else 1.0)
    for j in range(n):
        d = column(index, j)
        if abs(x[j]) * w[d] > 1.0:
            w[d] = 1.0 / abs(x[j])


def notice(w, s, p, delta, maxima, x, index, n, D, y, weight):
    for j in range(n):
        d = column(index, j)
        maxima[d] = max(maxima[d], abs(x[j]))
    maxima[D] = max(maxima[D], abs(y) if p[REGRESSION] != 0.0 else 1.0)


def step(w, s, p, x, index, n, D, g, eta, weight):
    if s[UNIT] == 0.0:
        return
    for d in range(D):
        w[NOW * D + d] = 0.0
    for j in range(n):
        d = column(index, j)
        w[NOW * D + d] = g * x[j] * w[d] / s[UNIT]
    if s[PHASE] == ALONE:
        _rank_one(w, D)
        _follow(w, D, eta * s[NEXT])
        for d in range(D):
            w[NOW * D + d] = 0.0


def absorb(w, s, p, delta, maxima, x, index, n, D, g, eta, weight):
    """Rows 0 … D − 1 collect g̃g̃ᵀ, row D collects g̃."""
    if s[UNIT] == 0.0:
        return
    for i in range(n):
        d = column(index, i)
        gradient = weight * _scaled(w, s, x[i], d, g)
        delta[D * D + d] += gradient
        for j in range(n):
            e = column(index, j)
            delta[d * D + e] += gradient * _scaled(w, s, x[j], e, g)


def commit(w, s, p, delta, maxima, index, n, D, eta):
    for j in range(n):
        d = column(index, j)
        if maxima[d] * w[d] > 1.0:
            w[d] = 1.0 / maxima[d]
        maxima[d] = 0.0
    for d in range(D):
        w[NOW * D + d] += delta[D * D + d]
        delta[D * D + d] = 0.0
    for k in range(D * D):
        w[_matrix(D) + k] += delta[k]
        delta[k] = 0.0
    s[PHASE] = COLLECTED


def finish(w, s, p, D, t, eta):
    if s[PHASE] == COLLECTED:
        s[PHASE] = ALONE
        _invert(w, D)
        _follow(w, D, eta * s[NEXT])
        for d in range(D):
            w[NOW * D + d] = 0.0
    if s[PHASE] == ALONE:
        s[UNIT] = s[NEXT]


def to_message(w, s, p, index, n, D, out):
    """The rows of A⁺ = A + g̃g̃ᵀ, then A⁺u, g̃ and the scales."""
    a = _matrix(D)
    for i in range(D):
        dual = 0.0
        for j in range(D):
            out[i * D + j] = w[a + i * D + j] + w[NOW * D + i] * w[NOW * D + j]
            dual += out[i * D + j] * w[U * D + j]
        out[D * D + i] = dual
        out[(D + 1) * D + i] = w[NOW * D + i]
        out[(D + 2) * D + i] = 1.0 / w[i] if w[i] < UNSEEN else 0.0


def from_message(w, s, p, index, n, D, averaged):
    for k in range(D * D):
        w[_matrix(D) + k] = averaged[k]
    _invert(w, D)
    for d in range(D):
        w[NOW * D + d] = averaged[D * D + d]
        scale = averaged[(D + 2) * D + d]
        w[d] = 1.0 / scale if scale > 0.0 else UNSEEN
    _multiply(w, D, NOW * D)
    for d in range(D):
        w[U * D + d] = w[PRODUCT * D + d]
        w[NOW * D + d] = averaged[(D + 1) * D + d]
    s[PHASE] = COLLECTED


def weights(w, s, p, index, n, D, out):
    for j in range(n):
        d = column(index, j)
        out[j] = w[U * D + d] * w[d] if w[d] < UNSEEN else 0.0


LOOPS = Loops(
    score,
    step,
    finish=finish,
    hear=hear,
    absorb=absorb,
    notice=notice,
    commit=commit,
    to_message=to_message,
    from_message=from_message,
    weights=weights,
    ask=ask,
)


@dataclass(frozen=True)
class Newton(Update):
    """Second-order mirror descent with a full matrix; see the module's docstring.

    Parameters
    ----------
    regression : bool
        Answers are numbers of any size; else they are classes.
    """

    regression: bool = False
    grows: bool = field(init=False, default=False)
    merges: bool = field(init=False, default=False)

    def check(self, n_features: int) -> None:
        """Refuse more features than a full matrix is for."""
        if n_features > MOST:
            raise ValueError(
                f"newton keeps {n_features}² numbers per agent for {n_features} features, expected "
                f"at most {MOST} features; use the algorithm adaptive"
            )

    def layout(self, space: str, n_features: int) -> Layout:
        """The scales, the weights, and both matrices."""
        return Layout(
            rows=("v", "u", "now", "product", *(f"matrix {k}" for k in range(2 * n_features))),
            scalars=(Field("next", LARGEST), Field("unit", LOCAL), Field("phase", LOCAL)),
            message=(LINEAR,) * (n_features + 2) + (LARGEST,),
            collected=n_features + 1,
            maxima=1,
            whole=True,
        )

    def loops(self, space: str) -> Loops:
        """The compiled form."""
        return LOOPS

    def parameters(self) -> tuple[float]:
        """The task."""
        return (float(self.regression),)

    def start(self, n_features: int) -> Vector:
        """Both matrices are the identity."""
        state = np.zeros((INVERSE + 2 * n_features, n_features))
        state[V] = UNSEEN
        state[INVERSE : INVERSE + n_features] = np.eye(n_features)
        state[INVERSE + n_features :] = np.eye(n_features)
        unit = 0.0 if self.regression else 1.0
        return Vector(state, np.array([unit, unit, ALONE]))
