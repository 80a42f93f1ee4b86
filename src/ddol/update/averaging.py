"""Dual averaging: the lazy sibling of mirror descent (Duchi, Agarwal and Wainwright; L1: Xiao).

An agent only sums gradients, z ← Σ_j A_ij (z_j + g_j), and its weights are a function of the sum,
w_d = −η_t · soft(z_d, λ₁·t), scaled back to a ball if there is one. Weights whose mean gradient
stays below λ₁ are exactly zero. Nothing but z is ever touched, so a sparse row costs O(nnz), with L1 too.
Neighbours average z in both spaces: an average of weights cannot be turned back into one of sums.

Row: z. Scalars: η and t of the last round, and the factor that brings the weights back to the ball.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ddol.compiled import column, inner
from ddol.update.contract import LOCAL, Field, Layout, Loops, Update

ETA, ROUND, FACTOR = 0, 1, 2
L1, RADIUS = 0, 1


@inner
def _weight(w, s, p, d):
    size = abs(w[d]) - p[L1] * s[ROUND]
    if size <= 0.0:
        return 0.0
    return -s[FACTOR] * s[ETA] * (size if w[d] > 0.0 else -size)


def score(w, s, p, x, index, n, D, which):
    total = 0.0
    for j in range(n):
        total += _weight(w, s, p, column(index, j)) * x[j]
    return total


def step(w, s, p, x, index, n, D, g, eta, weight):
    for j in range(n):
        w[column(index, j)] += weight * g * x[j]


def finish(w, s, p, D, t, eta):
    s[ETA] = eta
    s[ROUND] = t
    if math.isinf(p[RADIUS]):
        return
    s[FACTOR] = 1.0
    squares = 0.0
    for d in range(D):
        squares += _weight(w, s, p, d) ** 2
    if squares > p[RADIUS] * p[RADIUS]:
        s[FACTOR] = p[RADIUS] / math.sqrt(squares)


def weights(w, s, p, index, n, D, out):
    for j in range(n):
        out[j] = _weight(w, s, p, column(index, j))


@dataclass(frozen=True)
class DualAveraging(Update):
    """Sum gradients, and take the weights from the sum; see the module's docstring.

    Parameters
    ----------
    l1 : float
        λ₁: a weight is zero while its mean gradient is at most this.
    radius : float
        Of the L2 ball; infinite for all of space. A ball costs O(D) a round.
    """

    l1: float = 0.0
    radius: float = math.inf

    family = "dual_averaging"

    def __post_init__(self) -> None:
        if not 0.0 <= self.l1 < math.inf:
            raise ValueError(f"`l1` must be at least 0, it is {self.l1}")
        if not self.radius > 0.0:
            raise ValueError(f"`radius` must be a positive number, it is {self.radius}")

    def layout(self, space: str, n_features: int) -> Layout:
        """The sum of the gradients."""
        known = (Field("eta", LOCAL), Field("round", LOCAL), Field("factor", LOCAL, 1.0))
        return Layout(rows=("z",), scalars=known)

    def loops(self, space: str) -> Loops:
        """Sums add up, on a shared copy too."""
        return Loops(score, step, finish=finish, weights=weights, additive=True)

    def parameters(self) -> tuple[float, float]:
        """λ₁ and the radius."""
        return self.l1, self.radius
