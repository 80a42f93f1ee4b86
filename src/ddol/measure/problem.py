"""The best fixed weights in hindsight as an optimisation problem: what they cost, and where they may be.

F(w) = Σ_k c_k ℓ(⟨w, x_k⟩, y_k) + (n λ / 2) ‖w‖² over a domain W, c_k being C times the importance of
example k: the objectives of all examples added up, as the agents were charged for them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ddol.streams.rows import Rows
from ddol.update.domains import EVERYWHERE, L1_BALL, L2_BALL, SIMPLEX, Domain
from ddol.update.losses import Loss, Pieces


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
        """Whether solvers follow the derivative: all losses but those made of straight pieces.

        One's own may have a kink all the same; the gap then says how far the solver got.
        """
        return self.loss.pieces is None

    @property
    def pieces(self) -> Pieces:
        """Slopes and offsets of a piecewise linear loss; none for others."""
        return [] if self.loss.pieces is None else self.loss.pieces(self.y, self.loss.parameters)

    def each(self, w: np.ndarray) -> np.ndarray:
        """What every example costs at w, its share of the ridge included."""
        values = self.cost * self.loss.values(self.X @ w, self.y)
        return values + 0.5 * self.ridge / max(len(self.y), 1) * float(w @ w)

    def objective(self, w: np.ndarray) -> float:
        """F(w)."""
        values = self.loss.values(self.X @ w, self.y)
        return float(self.cost @ values + 0.5 * self.ridge * (w @ w))

    def gradient(self, w: np.ndarray) -> np.ndarray:
        """∇F(w), or a subgradient at a kink."""
        slopes = self.loss.slopes(self.X @ w, self.y)
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
