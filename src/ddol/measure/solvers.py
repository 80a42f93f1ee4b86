"""Solvers of `Problem`, each with how far its answer is from the optimum at most."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.optimize import brentq, linprog, lsq_linear, minimize

from ddol.streams.rows import Rows
from ddol.update.domains import EVERYWHERE, L1_BALL, L2_BALL, SIMPLEX, Domain
from ddol.update.losses import Loss, Pieces, hinge, squared


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


_NEAR_THE_MARGIN = 400


class Solution(NamedTuple):
    """Weights, at most how far their objective is above the least one, and who found them."""

    weights: np.ndarray
    gap: float
    method: str


Solver = Callable[[Problem], Solution]


def solver_for(problem: Problem) -> Solver:
    """The solver that fits a problem; the table is in `ddol.measure.regret`."""
    kind, loss, ridge = problem.domain.kind, problem.loss, problem.ridge > 0.0
    if kind == L2_BALL and (loss == hinge or problem.smooth):
        return on_l2_ball
    if kind == EVERYWHERE and loss == squared:
        return least_squares
    if kind == EVERYWHERE and loss == hinge and ridge:
        return support_vectors
    if kind == EVERYWHERE and problem.smooth:
        return quasi_newton
    if kind in (L1_BALL, SIMPLEX) and problem.smooth:
        return sequential
    if kind in (EVERYWHERE, L1_BALL, SIMPLEX) and problem.pieces and not ridge:
        return linear_program
    with_ridge = " with a ridge" if ridge else ""
    raise ValueError(
        f"no solver is known for the loss {loss.name}{with_ridge} on {kind}; give the weights to compare "
        "with yourself"
    )


# --- hinge with a ridge --------------------------------------------------------------------------


def support_vectors(problem: Problem) -> Solution:
    """liblinear, with its duality gap."""
    w = _liblinear(problem)
    return _hinge_solution(problem, w, problem.ridge, "liblinear, hinge with a ridge")


def _liblinear(problem: Problem) -> np.ndarray:
    """Weights for ½‖w‖² + Σ_k (c_k / nλ) hinge, which is the problem divided by nλ."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.svm import LinearSVC

    X, y, cost = problem.X, problem.y, problem.cost / problem.ridge
    if len(np.unique(y)) < 2:
        # Two classes are needed: every example stands for its mirror image as well.
        X = sp.vstack([X, -X]).tocsr() if sp.issparse(X) else np.vstack([X, -X])
        y, cost = np.concatenate([y, -y]), np.tile(cost / 2, 2)
    machine = LinearSVC(
        loss="hinge", fit_intercept=False, dual=True, tol=1e-6, max_iter=20_000, random_state=0
    )
    with warnings.catch_warnings():
        # The gap says how far it got.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return machine.fit(X, y, sample_weight=cost).coef_[0]


def _hinge_solution(problem: Problem, w: np.ndarray, ridge: float, method: str) -> Solution:
    """Compare w, and the weights that its multipliers stand for, with the dual bound."""
    alpha = _multipliers(problem, w, ridge)
    pull = problem.X.T @ (alpha * problem.y)
    radius, own = problem.domain.radius, problem.ridge
    size = float(np.linalg.norm(pull))
    # min over the domain of Σα − ⟨pull, w⟩ + (nλ/2)‖w‖², whose minimiser is along the pull.
    reach = min(radius, size / own) if own > 0.0 else radius
    least = float(alpha.sum()) - size * reach + 0.5 * own * reach**2
    inside = [_into_ball(v, radius) for v in (w, pull / ridge)]
    best = min(inside, key=problem.objective)
    return Solution(best, max(problem.objective(best) - least, 0.0), method)


def _into_ball(w: np.ndarray, radius: float) -> np.ndarray:
    return w * min(1.0, radius / max(float(np.linalg.norm(w)), 1e-300))


def _multipliers(problem: Problem, w: np.ndarray, ridge: float) -> np.ndarray:
    """Dual variables in [0, c_k] that fit w: any such give a lower bound, these a close one.

    Beyond the margin they are 0, within it c_k; those of the examples next to it are fitted to
    ridge · w = Σ_k α_k y_k x_k by bounded least squares.
    """
    margin = problem.y * (problem.X @ w)
    alpha = np.where(margin < 1.0, problem.cost, 0.0)
    # At the optimum about D examples lie on the margin, or more where features are alike.
    near = np.argsort(np.abs(margin - 1.0))[: min(_NEAR_THE_MARGIN, 8 * len(w) + 20)]
    near = near[problem.cost[near] > 0.0]
    if near.size == 0:
        return alpha
    guess = alpha[near] / problem.cost[near]
    alpha[near] = 0.0
    signed = problem.X[near].T
    columns = (signed.toarray() if sp.issparse(signed) else signed) * (
        problem.y[near] * problem.cost[near]
    )
    missing = ridge * w - problem.X.T @ (alpha * problem.y)
    # Off the margin a multiplier that is neither 0 nor c_k costs its distance: those stay put.
    scale = max(float(np.abs(columns).max()), 1e-300)
    off = np.abs(margin[near] - 1.0)
    stay = 1e-2 * off / max(float(off.max()), 1e-300) + 1e-12
    system = np.vstack([columns / scale, np.diag(stay)])
    right = np.concatenate([missing / scale, stay * guess])
    fitted = lsq_linear(system, right, (0.0, 1.0), tol=1e-14)
    alpha[near] = np.clip(fitted.x, 0.0, 1.0) * problem.cost[near]
    return alpha


# --- linear programs -----------------------------------------------------------------------------


def linear_program(problem: Problem) -> Solution:
    """HiGHS on the least Σ_k c_k ξ_k with ξ_k ≥ 0 and ξ_k ≥ slope · ⟨w, x_k⟩ + offset per piece."""
    n, D = problem.X.shape
    X = sp.csr_matrix(problem.X)
    sides = [X] if problem.domain.kind == SIMPLEX else [X, -X]
    rows = sp.bmat(
        [[*(sp.diags(slope) @ s for s in sides), -sp.identity(n)] for slope, _ in problem.pieces],
        format="csr",
    )
    offsets = np.concatenate([offset for _, offset in problem.pieces])
    width = D * len(sides)
    limits: dict[str, Any] = {"A_ub": rows, "b_ub": -offsets}
    total = sp.csr_matrix(np.concatenate([np.ones(width), np.zeros(n)])[None])
    if problem.domain.kind == L1_BALL:
        limits["A_ub"] = sp.vstack([rows, total]).tocsr()
        limits["b_ub"] = np.append(-offsets, problem.domain.radius)
    elif problem.domain.kind == SIMPLEX:
        limits |= {"A_eq": total, "b_eq": [problem.domain.radius]}
    prices = np.concatenate([np.zeros(width), problem.cost])
    found = linprog(prices, bounds=(0, None), method="highs", **limits)
    if found.x is None:
        raise ArithmeticError(f"HiGHS found no comparator: {found.message}")
    w = found.x[:D] - (found.x[D:width] if len(sides) == 2 else 0.0)
    alpha = np.maximum(-found.ineqlin.marginals[: len(offsets)], 0.0)
    return Solution(w, _dual_gap(problem, w, alpha.reshape(-1, n)), "HiGHS, linear program")


def _dual_gap(problem: Problem, w: np.ndarray, alpha: np.ndarray) -> float:
    """Any α ≥ 0 with Σ_j α_jk ≤ c_k gives the lower bound Σ α·offset + min_W ⟨Σ α·slope·x, w⟩."""
    over = alpha.sum(axis=0) / np.maximum(problem.cost, 1e-300)
    alpha = alpha / np.maximum(over, 1.0)
    slopes = np.stack([slope for slope, _ in problem.pieces])
    offsets = np.stack([offset for _, offset in problem.pieces])
    pull = problem.X.T @ (alpha * slopes).sum(axis=0)
    if problem.domain.kind == EVERYWHERE:
        # Zero but for rounding, which would make the bound −∞.
        reach = -float(np.linalg.norm(pull) * np.linalg.norm(w))
    else:
        reach = problem.least_on_domain(pull)
    return max(problem.objective(w) - float(np.sum(alpha * offsets)) - reach, 0.0)


# --- smooth losses -------------------------------------------------------------------------------


def least_squares(problem: Problem) -> Solution:
    """The normal equations (XᵀcX + nλ I) w = Xᵀ c y, refined once."""
    squares = problem.X.T @ (sp.diags(problem.cost) @ problem.X)
    matrix = squares.toarray() if sp.issparse(squares) else np.asarray(squares)
    matrix = matrix + problem.ridge * np.eye(len(matrix))
    inverse = np.linalg.pinv(matrix, hermitian=True)
    w = inverse @ (problem.X.T @ (problem.cost * problem.y))
    w = w - inverse @ problem.gradient(w)
    left = problem.gradient(w)
    return Solution(w, max(0.5 * float(left @ inverse @ left), 0.0), "least squares")


def quasi_newton(problem: Problem) -> Solution:
    """L-BFGS."""
    scale = max(float(problem.cost.sum()), 1e-300)
    found = minimize(
        lambda w: problem.objective(w) / scale,
        np.zeros(problem.X.shape[1]),
        jac=lambda w: problem.gradient(w) / scale,
        method="L-BFGS-B",
        options={"maxiter": 10_000, "maxfun": 20_000, "ftol": 1e-15, "gtol": 1e-10},
    )
    return Solution(found.x, problem.gap_at(found.x), "L-BFGS")


def sequential(problem: Problem) -> Solution:
    """SLSQP in (w⁺, w⁻) on the L1 ball, in w on the simplex."""
    D, radius = problem.X.shape[1], problem.domain.radius
    signed = problem.domain.kind != SIMPLEX
    n = 2 * D if signed else D
    scale = max(float(problem.cost.sum()), 1e-300)

    def weights(v: np.ndarray) -> np.ndarray:
        return v[:D] - v[D:] if signed else v

    def slope(v: np.ndarray) -> np.ndarray:
        down = problem.gradient(weights(v)) / scale
        return np.concatenate([down, -down]) if signed else down

    found = minimize(
        lambda v: problem.objective(weights(v)) / scale,
        np.full(n, radius / n),
        jac=slope,
        method="SLSQP",
        bounds=[(0.0, radius)] * n,
        constraints={
            "type": "ineq" if signed else "eq",
            "fun": lambda v: radius - v.sum(),
            "jac": lambda v: -np.ones_like(v),
        },
        options={"maxiter": 2_000, "ftol": 1e-15},
    )
    v = np.maximum(found.x, 0.0)
    if not signed or v.sum() > radius:
        v = v * (radius / v.sum())
    return Solution(weights(v), problem.gap_at(weights(v)), "SLSQP")


# --- the L2 ball ---------------------------------------------------------------------------------


def on_l2_ball(problem: Problem) -> Solution:
    """Find the ridge with which the best weights lie on the edge, unless they lie within.

    The ridge is the Lagrange multiplier of ‖w‖² ≤ R².
    """
    free = problem.without_domain(problem.ridge)
    w, gap, method = solver_for(free)(free)
    radius = problem.domain.radius
    if np.linalg.norm(w) <= radius:
        return Solution(w, min(gap, problem.gap_at(w)) if problem.smooth else gap, method)
    w, ridge = _at_the_edge(problem)
    if not problem.smooth:
        return _hinge_solution(problem, w, ridge, "liblinear with the ridge of the ball")
    w = _into_ball(w, radius)
    return Solution(w, problem.gap_at(w), "L-BFGS with the ridge of the ball")


def _at_the_edge(problem: Problem) -> tuple[np.ndarray, float]:
    """Weights with ‖w‖ = R, and the ridge that they are best for."""
    found: dict[float, np.ndarray] = {}

    def excess(log_ridge: float) -> float:
        free = problem.without_domain(float(np.exp(log_ridge)))
        found[log_ridge] = quasi_newton(free).weights if free.smooth else _liblinear(free)
        return float(np.linalg.norm(found[log_ridge])) - problem.domain.radius

    # (ridge/2)‖w‖² ≤ F(0), so that with this ridge the weights lie within. Small ones take long.
    start = problem.objective(np.zeros(problem.X.shape[1]))
    high = float(np.log(2 * start / problem.domain.radius**2))
    place = high
    while excess(place) <= 0.0 and place > high - 60.0:
        place -= 2.0
    # Where no ridge brings them out, as with separable data, the last is the best.
    if place < high and excess(place) > 0.0:
        place = brentq(excess, place, place + 2.0, xtol=1e-9, rtol=1e-12)
    if place not in found:
        excess(place)
    return found[place], float(np.exp(place))
