"""Dual averaging: the lazy sibling of mirror descent (Duchi, Agarwal and Wainwright; L1: Xiao).

An agent only sums gradients, z ← Σ_j A_ij (z_j + g_j), and its weights are a function of the sum,
w_d = −η_t · soft(z_d, λ₁·t), scaled back to a ball if there is one. Weights whose mean gradient
stays below λ₁ are exactly zero. Nothing but z is ever touched, so a sparse row costs O(nnz), with L1 too.

Slots: z. Scalars: η and t of the last round, and the factor that brings the weights back to the ball.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ddol.compiled import column, inner
from ddol.update.rule import LINEAR, Layout, Loops, Update

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


def absorb(w, s, p, delta, x, index, n, D, g, eta, weight):
    for j in range(n):
        delta[column(index, j)] += weight * g * x[j]


def commit(w, s, p, delta, maxima, index, n, D, eta):
    for j in range(n):
        d = column(index, j)
        w[d] += delta[d]
        delta[d] = 0.0


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


def pack(w, s, p, D, out):
    for d in range(D):
        out[d] = w[d]


def unpack(w, s, p, D, averaged):
    for d in range(D):
        w[d] = averaged[d]


def weights(w, s, p, D, out):
    for d in range(D):
        out[d] = _weight(w, s, p, d)


LOOPS = Loops(score, None, step, absorb, commit, finish, pack, unpack, weights)


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

    # Rows of the reference: z, then η, t and the factor repeated D times.
    _Z, _ETA, _ROUND, _FACTOR = range(4)

    def __post_init__(self) -> None:
        if not 0.0 <= self.l1 < math.inf:
            raise ValueError(f"`l1` must be at least 0, it is {self.l1}")
        if not self.radius > 0.0:
            raise ValueError(f"`radius` must be a positive number, it is {self.radius}")

    def start(self, n_features: int) -> np.ndarray:
        """No gradient yet."""
        state = np.zeros((4, n_features))
        state[self._FACTOR] = 1.0
        return state

    def weights(self, state: np.ndarray) -> np.ndarray:
        """−η·soft(z, λ₁·t), within the ball."""
        z, eta, t, factor = state
        return -factor * eta * np.sign(z) * np.maximum(np.abs(z) - self.l1 * t, 0.0)

    def learn(self, state: np.ndarray, gradient: np.ndarray, rate: float) -> np.ndarray:
        """z + g."""
        after = state.copy()
        after[self._Z] += gradient
        return after

    def project(self, state: np.ndarray, t: int, rate: float) -> np.ndarray:
        """Weights of the next round, with this round's rate."""
        after = state.copy()
        after[self._ETA], after[self._ROUND], after[self._FACTOR] = rate, t, 1.0
        norm = float(np.linalg.norm(self.weights(after)))
        after[self._FACTOR] = min(1.0, self.radius / norm) if norm > 0.0 else 1.0
        return after

    def share(self, state: np.ndarray, space: str) -> np.ndarray:
        """z, in both spaces: an average of weights cannot be turned back into one of sums."""
        return state[: self._ETA]

    def adopt(self, averaged: np.ndarray, space: str) -> np.ndarray:
        """z; `project` sets the rest."""
        return np.concatenate([averaged, np.zeros((2, averaged.shape[1])), np.ones_like(averaged)])

    def layout(self, space: str, n_features: int) -> Layout:
        """Sizes of the compiled state."""
        return Layout(slots=1, scalars=3, packed=(LINEAR,))

    def loops(self, space: str) -> Loops:
        """The compiled form."""
        return LOOPS

    def parameters(self) -> np.ndarray:
        """λ₁ and the radius."""
        return np.array([self.l1, self.radius])

    def begin_state(self, n_features: int) -> tuple[np.ndarray, np.ndarray]:
        """Compiled state and scalars before the first round."""
        return np.zeros((1, n_features)), np.array([0.0, 0.0, 1.0])

    def shared_copy(self, space: str) -> str:
        """Sums of gradients add up."""
        return "add"
