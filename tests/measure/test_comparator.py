"""The best weights in hindsight: solvers that know how far they are from the optimum."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from ddol.measure.regret import best_expert, best_weights
from ddol.measure.solvers import Problem
from ddol.update.domains import everywhere, l1_ball, l2_ball, simplex
from ddol.update.losses import (
    LOSSES,
    Loss,
    absolute,
    epsilon_insensitive,
    hinge,
    huber,
    logistic,
    loss_named,
    perceptron,
    quantile,
    squared,
    squared_hinge,
)


def examples(loss, n=300, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    scores = X @ np.linspace(-1, 2, d) + rng.standard_normal(n)
    return X, scores if loss.task == "regression" else np.sign(scores)


def problem(loss, ridge, domain, **sizes):
    X, y = examples(loss, **sizes)
    return Problem(X, y, np.full(len(y), 0.7), loss, ridge, domain)


SOLVED = [
    (hinge, 5.0, everywhere),
    (hinge, 0.0, everywhere),
    (hinge, 0.0, l1_ball(0.8)),
    (hinge, 0.0, simplex(1.0)),
    (hinge, 0.0, l2_ball(0.6)),
    (hinge, 3.0, l2_ball(0.6)),
    (hinge, 0.0, l2_ball(60.0)),
    (squared_hinge, 5.0, everywhere),
    (squared_hinge, 0.0, l1_ball(0.8)),
    (logistic, 5.0, everywhere),
    (logistic, 0.0, l2_ball(0.6)),
    (logistic, 0.0, simplex(1.0)),
    (perceptron, 0.0, simplex(1.0)),
    (squared, 0.0, everywhere),
    (squared, 5.0, everywhere),
    (squared, 0.0, l1_ball(0.8)),
    (huber(1.0), 0.0, l2_ball(0.6)),
    (absolute, 0.0, l1_ball(0.8)),
    (epsilon_insensitive(0.2), 0.0, everywhere),
    (quantile(0.3), 0.0, everywhere),
]


@pytest.mark.parametrize(("loss", "ridge", "domain"), SOLVED)
def test_the_gap_is_small_and_nothing_near_is_better(loss, ridge, domain):
    asked = problem(loss, ridge, domain)
    best = best_weights(asked)
    assert best.gap <= 1e-5 * (1 + best.objective), best.method
    assert best.objective == pytest.approx(asked.objective(best.weights))
    assert inside(best.weights, domain)
    rng = np.random.default_rng(1)
    for size in (1e-3, 1e-1, 1.0):
        for _ in range(20):
            near = best.weights + size * rng.standard_normal(best.weights.size)
            if inside(near, domain):
                assert asked.objective(near) >= best.objective - best.gap - 1e-9


def inside(w, domain):
    if domain.kind == "simplex":
        return abs(w.sum() - domain.radius) < 1e-7 and w.min() >= -1e-9
    norms = {"everywhere": 0.0, "l1_ball": np.abs(w).sum(), "l2_ball": np.linalg.norm(w)}
    return norms[domain.kind] <= domain.radius * (1 + 1e-7)


def test_a_smooth_problem_without_ridge_or_domain_has_no_known_gap():
    best = best_weights(problem(logistic, 0.0, everywhere))
    assert not np.isfinite(best.gap)


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.integers(2, 40), st.integers(1, 6), st.floats(0.01, 100))
def test_the_gap_of_support_vectors_is_a_gap(seed, n, d, ridge):
    """The dual bound that the gap stands on is never above another solver's optimum."""
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((n, d)), rng.choice([-1.0, 1.0], n)
    asked = Problem(X, y, np.ones(n), hinge, ridge, everywhere)
    best = best_weights(asked)
    smoothed = best.weights.copy()
    for step in range(1, 200):
        slope = X.T @ np.where(y * (X @ smoothed) < 1, -y, 0.0) + ridge * smoothed
        smoothed = smoothed - slope / (ridge * (step + 10))
        assert asked.objective(smoothed) >= best.objective - best.gap - 1e-9


def test_sparse_rows_give_the_same():
    for loss, ridge, domain in [(hinge, 5.0, everywhere), (hinge, 0.0, l1_ball(0.8))]:
        dense = problem(loss, ridge, domain)
        sparse = Problem(sp.csr_matrix(dense.X), dense.y, dense.cost, loss, ridge, domain)
        other = best_weights(sparse)
        assert best_weights(dense).objective == pytest.approx(other.objective, rel=1e-6)


def test_one_class_is_no_obstacle():
    X = np.abs(np.random.default_rng(0).standard_normal((50, 2)))
    best = best_weights(Problem(X, np.ones(50), np.ones(50), hinge, 1.0, everywhere))
    assert best.gap <= 1e-4 * best.objective


def test_a_large_problem_is_solved_in_part_and_says_so():
    asked = problem(hinge, 5.0, everywhere)
    part = best_weights(asked, most_rows=10)
    whole = best_weights(asked)
    assert part.method.startswith("approximation: liblinear")
    assert "100 of 300 rows" in part.method
    assert not np.isfinite(part.gap)
    assert whole.objective <= part.objective <= 1.2 * whole.objective


def test_what_no_solver_fits_is_refused():
    with pytest.raises(ValueError, match="no solver is known for the loss absolute with a ridge"):
        best_weights(problem(absolute, 1.0, everywhere))


def test_the_best_expert_is_counted():
    advice = np.array([[1, 1, -1], [1, -1, -1], [1, 1, 1]])
    best = best_expert(advice, np.array([1, -1, -1]))
    assert (best.objective, best.gap, best.weights.tolist()) == (1.0, 0.0, [0.0, 1.0, 0.0])


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_losses_on_arrays_are_those_on_numbers(name):
    loss = loss_named(name)
    rng = np.random.default_rng(0)
    z = np.concatenate([rng.standard_normal(50), [0.0, 1.0, -1.0]])
    y = rng.choice([-1.0, 1.0], z.size)
    for function, found in ((loss.value, loss.values(z, y)), (loss.derivative, loss.slopes(z, y))):
        each = [function(a, b, loss.parameters) for a, b in zip(z, y, strict=True)]
        np.testing.assert_allclose(found, each, atol=1e-12)
    if loss.pieces is not None:
        lines = [slope * z + offset for slope, offset in loss.pieces(y, loss.parameters)]
        np.testing.assert_allclose(
            np.maximum.reduce([*lines, 0 * z]), loss.values(z, y), atol=1e-12
        )


def log_cosh(z, y, p):
    error = abs(z - y)
    return error + math.log1p(math.exp(-2.0 * error)) - math.log(2.0)


def hyperbolic_tangent(z, y, p):
    return math.tanh(z - y)


@pytest.mark.parametrize("domain", [everywhere, l1_ball(0.5), l2_ball(0.5)], ids=lambda d: d.kind)
def test_a_smooth_loss_of_ones_own_is_solved(domain):
    own = Loss("log_cosh", log_cosh, hyperbolic_tangent, task="regression")
    ridge = 5.0 if domain is everywhere else 0.0
    best = best_weights(problem(own, ridge, domain))
    assert best.gap <= 1e-4 * best.objective
    near = problem(huber(1.0), ridge, domain)
    assert (
        problem(own, ridge, domain).objective(best_weights(near).weights)
        >= best.objective - best.gap
    )
