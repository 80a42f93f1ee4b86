"""The best fixed weights in hindsight as an optimisation problem: what they cost, and where they may be.

F(w) = Σ_k c_k ℓ(⟨w, x_k⟩, y_k) + (n λ / 2) ‖w‖² over a domain W, c_k being C times the importance of
example k: the objectives of all examples added up, as the agents were charged for them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import expit

from ddol.streams.rows import Rows
from ddol.update.domains import EVERYWHERE, L1_BALL, L2_BALL, SIMPLEX, Domain
from ddol.update.losses import Loss

Vector = Callable[[np.ndarray, np.ndarray, tuple], np.ndarray]


def _insensitive(z: np.ndarray, y: np.ndarray, p: tuple) -> np.ndarray:
    return np.maximum(0.0, np.abs(z - y) - p[0])


def _huber(z: np.ndarray, y: np.ndarray, p: tuple) -> np.ndarray:
    error = np.abs(z - y)
    return np.where(error <= p[0], 0.5 * error**2, p[0] * (error - 0.5 * p[0]))


# Losses of `ddol.update.losses` on arrays; a user's own is called number by number.
_VALUES: dict[str, Vector] = {
    "hinge": lambda z, y, p: np.maximum(0.0, 1.0 - y * z),
    "squared_hinge": lambda z, y, p: np.maximum(0.0, 1.0 - y * z) ** 2,
    "perceptron": lambda z, y, p: np.maximum(0.0, -y * z),
    "logistic": lambda z, y, p: np.logaddexp(0.0, -y * z),
    "squared": lambda z, y, p: 0.5 * (z - y) ** 2,
    "absolute": lambda z, y, p: np.abs(z - y),
    "huber": _huber,
    "epsilon_insensitive": _insensitive,
    "quantile": lambda z, y, p: np.where(y > z, p[0] * (y - z), (1.0 - p[0]) * (z - y)),
}
_SLOPES: dict[str, Vector] = {
    "squared_hinge": lambda z, y, p: -2.0 * y * np.maximum(0.0, 1.0 - y * z),
    "logistic": lambda z, y, p: -y * expit(-y * z),
    "squared": lambda z, y, p: z - y,
    "huber": lambda z, y, p: np.clip(z - y, -p[0], p[0]),
}
# Piecewise linear losses as the largest of 0 and of slope · z + offset.
_PIECES: dict[str, Callable[[np.ndarray, tuple], list[tuple[np.ndarray, np.ndarray]]]] = {
    "hinge": lambda y, p: [(-y, np.ones_like(y))],
    "perceptron": lambda y, p: [(-y, np.zeros_like(y))],
    "absolute": lambda y, p: [(np.ones_like(y), -y), (-np.ones_like(y), y)],
    "epsilon_insensitive": lambda y, p: [
        (np.ones_like(y), -y - p[0]),
        (-np.ones_like(y), y - p[0]),
    ],
    "quantile": lambda y, p: [
        (np.full_like(y, -p[0]), p[0] * y),
        (np.full_like(y, 1.0 - p[0]), (p[0] - 1.0) * y),
    ],
}


def loss_values(loss: Loss, z: np.ndarray, y: np.ndarray) -> np.ndarray:
    """ℓ(z_k, y_k) of every score and answer.

    Examples
    --------
    >>> from ddol.update.losses import hinge
    >>> loss_values(hinge, np.array([0.0, 3.0]), np.array([1.0, 1.0]))
    array([1., 0.])
    """
    known = _VALUES.get(loss.name)
    if known is not None:
        return known(z, y, loss.parameters)
    pairs = zip(z.tolist(), y.tolist(), strict=True)
    return np.array([loss.value(a, b, loss.parameters) for a, b in pairs], float)


def features(rows: Rows) -> Any:
    """The rows as an array where they are dense, else as a scipy CSR matrix."""
    return rows.data.reshape(len(rows), rows.n_features) if rows.dense else rows.to_scipy()


@dataclass(frozen=True)
class Problem:
    """Minimise Σ_k c_k ℓ(⟨w, x_k⟩, y_k) + (n λ / 2) ‖w‖² over a domain.

    Parameters
    ----------
    X : array or scipy CSR matrix (n, D)
    y, cost : (n,)
        Answers, and what the loss of each example counts.
    loss : Loss
    ridge : float
        n λ.
    domain : Domain
    """

    X: Any
    y: np.ndarray
    cost: np.ndarray
    loss: Loss
    ridge: float
    domain: Domain

    @property
    def smooth(self) -> bool:
        """Whether the loss has a derivative everywhere, and we know it."""
        return self.loss.name in _SLOPES

    @property
    def pieces(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Slopes and offsets of a piecewise linear loss; none for others."""
        known = _PIECES.get(self.loss.name)
        return [] if known is None else known(self.y, self.loss.parameters)

    def each(self, w: np.ndarray) -> np.ndarray:
        """What every example costs at w, its share of the ridge included."""
        values = self.cost * loss_values(self.loss, self.X @ w, self.y)
        return values + 0.5 * self.ridge / max(len(self.y), 1) * float(w @ w)

    def objective(self, w: np.ndarray) -> float:
        """F(w)."""
        values = loss_values(self.loss, self.X @ w, self.y)
        return float(self.cost @ values + 0.5 * self.ridge * (w @ w))

    def gradient(self, w: np.ndarray) -> np.ndarray:
        """∇F(w) of a smooth loss."""
        slopes = _SLOPES[self.loss.name](self.X @ w, self.y, self.loss.parameters)
        return self.X.T @ (self.cost * slopes) + self.ridge * w

    def least_on_domain(self, direction: np.ndarray) -> float:
        """min over the domain of ⟨direction, w⟩; −∞ where it has no bound."""
        radius = self.domain.radius
        if self.domain.kind == L1_BALL:
            return -radius * float(np.abs(direction).max())
        if self.domain.kind == SIMPLEX:
            return radius * float(direction.min())
        if self.domain.kind == L2_BALL:
            return -radius * float(np.linalg.norm(direction))
        return 0.0 if not direction.any() else -np.inf

    def gap_at(self, w: np.ndarray) -> float:
        """At most F(w) − inf F, for a smooth loss, from the gradient alone.

        ⟨∇F(w), w − u⟩ ≤ ⟨∇F, w⟩ − min_u ⟨∇F, u⟩ on a bounded domain; ‖∇F‖²/(2nλ) with a ridge.
        """
        slope = self.gradient(w)
        gaps = [float(slope @ w) - self.least_on_domain(slope)]
        if self.ridge > 0.0 and self.domain.kind == EVERYWHERE:
            gaps.append(float(slope @ slope) / (2.0 * self.ridge))
        return max(min(gaps), 0.0)

    def without_domain(self, ridge: float) -> Problem:
        """The same losses with another ridge, and no domain."""
        return replace(self, ridge=ridge, domain=Domain(EVERYWHERE))

    def some(self, chosen: np.ndarray) -> Problem:
        """The same problem on some of the examples only, scaled up to the size of all."""
        scale = len(self.y) / len(chosen)
        return replace(self, X=self.X[chosen], y=self.y[chosen], cost=scale * self.cost[chosen])
