"""The comparator of a regret: the best expert, or the best weights in hindsight, by real solvers.

| losses, domain | solver | how far from the optimum |
|---|---|---|
| hinge with a ridge | liblinear (scikit-learn's LinearSVC) | duality gap |
| piecewise linear, L1 ball, simplex or no domain | HiGHS (scipy) | duality gap |
| squared | least squares | ½ gᵀH⁻¹g |
| smooth with a ridge, or none | L-BFGS (scipy) | ‖g‖²/(2nλ); unknown without a ridge |
| smooth on the L1 ball or simplex | SLSQP (scipy) | Frank–Wolfe gap |
| hinge or smooth on the L2 ball | liblinear or L-BFGS, with the ridge that fits | of these two |

Streams too large for a solver are solved on a random part of their rows; the result is labelled, its gap
is infinite, and the regret against it is at most the true one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ddol.measure.problem import Problem
from ddol.measure.solvers import linear_program, on_l2_ball, solver_for

MOST_ROWS = 10_000
_TIMES_MORE = 10


@dataclass(frozen=True)
class Comparator:
    """Weights that were best in hindsight.

    Parameters
    ----------
    weights : (D,)
    objective : float
        What they cost over all examples.
    gap : float
        The objective is at most this far above the least possible; infinite where that is unknown.
    method : str
        How they were found.

    Examples
    --------
    >>> Comparator(np.zeros(2), 3.0, 0.0, "counted: expert 0").gap
    0.0
    """

    weights: np.ndarray
    objective: float
    gap: float
    method: str


def best_weights(problem: Problem, most_rows: int = MOST_ROWS, seed: int = 0) -> Comparator:
    """The best weights of the domain in hindsight.

    Parameters
    ----------
    problem : Problem
    most_rows : int
        Rows up to which linear programs and problems on the L2 ball are solved as a whole; others are
        up to ten times as many.
    seed : int
        Of the choice of rows beyond that.

    Examples
    --------
    >>> from ddol.update.domains import l1_ball
    >>> from ddol.update.losses import hinge
    >>> X, y = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([1.0, -1.0])
    >>> best = best_weights(Problem(X, y, np.ones(2), hinge, 0.0, l1_ball(1.0)))
    >>> best.objective, best.gap < 1e-9
    (1.0, True)
    """
    solve, n = solver_for(problem), len(problem.y)
    slow = solve in (linear_program, on_l2_ball)
    most = most_rows if slow else _TIMES_MORE * most_rows
    if n <= most:
        w, gap, method = solve(problem)
        return Comparator(w, problem.objective(w), gap, method)
    chosen = np.sort(np.random.default_rng(seed).choice(n, most, replace=False))
    w, _, method = solve(problem.some(chosen))
    label = f"approximation: {method} on {most:,} of {n:,} rows"
    return Comparator(w, problem.objective(w), np.inf, label)


def best_expert(advice: np.ndarray, answers: np.ndarray) -> Comparator:
    """The expert with the fewest mistakes, counted.

    Examples
    --------
    >>> best_expert(np.array([[1.0, -1.0], [1.0, 1.0]]), np.array([1.0, -1.0])).objective
    1.0
    """
    mistakes = np.count_nonzero(advice != answers[:, None], axis=0)
    chosen = int(mistakes.argmin())
    weights = np.eye(advice.shape[1])[chosen]
    return Comparator(weights, float(mistakes[chosen]), 0.0, f"counted: expert {chosen}")
