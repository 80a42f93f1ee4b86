"""Algorithms that are good at their defaults: scale-free, equal agents, and what they reach."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

import ddol
from ddol.engines.local import Local
from ddol.streams.open import open_stream
from ddol.streams.rows import Block, Rows, concatenate

DATA = Path(os.environ.get("DDOL_DATA", Path(__file__).parents[3] / "shared" / "data"))
FILES = {
    "svmguide1": "svmguide1",
    "cod-rna": "cod-rna.bz2",
    "covtype": "covtype.libsvm.binary.scale.bz2",
}


@cache
def shuffled(name):
    """A data set as dense rows with a constant feature, in the order of default_rng(0)."""
    path = DATA / FILES[name]
    if not path.exists():
        pytest.skip(f"{path} is missing; set DDOL_DATA to the folder that has it")
    rows = concatenate([rows for rows, _ in open_stream(str(path)).read()])
    X = np.hstack([rows.to_scipy().toarray(), np.ones((len(rows), 1))])
    order = np.random.default_rng(0).permutation(len(rows))
    return np.ascontiguousarray(X[order]), rows.y[order]


def points(name, algorithm, network=1):
    return 100 * ddol.run(algorithm, shuffled(name), network).error


@pytest.mark.parametrize(
    ("name", "most"), [("svmguide1", 7.0), ("cod-rna", 8.5), ("covtype", 24.6)]
)
def test_one_agent_reaches_the_target(name, most):
    assert points(name, ddol.adaptive()) <= most


@pytest.mark.parametrize("name", ["cod-rna", "covtype"])
@pytest.mark.parametrize(
    "network", [4, 16, ddol.ring(4), ddol.ring(16)], ids=lambda n: str(getattr(n, "name", n))
)
def test_many_agents_are_within_a_point_of_one(name, network):
    assert points(name, ddol.adaptive(), network) <= points(name, ddol.adaptive()) + 1.0


def test_random_units_change_nothing_on_cod_rna():
    X, y = shuffled("cod-rna")
    factors = 10.0 ** np.random.default_rng(0).uniform(-6, 6, X.shape[1])
    for network in (1, 16, ddol.ring(16)):
        plain = ddol.run(ddol.adaptive(), (X, y), network).error
        scaled = ddol.run(ddol.adaptive(), (X * factors, y), network).error
        assert abs(plain - scaled) < 0.001


def blobs(n=400, n_features=5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, n_features)) * (rng.random((n, n_features)) < 0.8)
    X[:, -1] = 1.0
    return X, np.where(
        X @ rng.standard_normal(n_features) + 0.3 * rng.standard_normal(n) > 0, 1, -1
    )


FREE = {"adaptive": ddol.adaptive(), "coin": ddol.coin(), "newton": ddol.newton()}


@pytest.mark.parametrize("name", FREE)
@pytest.mark.parametrize("network", [1, 4, ddol.ring(4)], ids=lambda n: str(getattr(n, "name", n)))
@settings(max_examples=10, deadline=None)
@given(powers=st.lists(st.integers(-20, 20), min_size=5, max_size=5))
def test_powers_of_two_as_units_change_not_a_bit(name, network, powers):
    """Scaling by powers of two is exact, so predictions must be the same to the bit."""
    X, y = blobs()
    factors = 2.0 ** np.array(powers)
    plain = ddol.run(FREE[name], (X, y), network)
    scaled = ddol.run(FREE[name], (csr_matrix(X * factors), y), network)
    assert scaled.mistakes.tolist() == plain.mistakes.tolist()
    np.testing.assert_allclose(scaled.weights * factors, plain.weights, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("preset", [ddol.adaptive, ddol.coin, ddol.newton])
@pytest.mark.parametrize("unit", [2.0**-20, 2.0**20])
def test_the_unit_of_a_regression_s_answers_is_the_unit_of_its_weights(preset, unit):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 4))
    y = X @ [1.0, -2.0, 0.5, 0.0] + 0.1 * rng.standard_normal(300)
    plain, scaled = (ddol.run(preset("squared"), (X, u * y), 3) for u in (1.0, unit))
    np.testing.assert_allclose(scaled.weights, unit * plain.weights, rtol=1e-8)


@pytest.mark.parametrize("name", FREE)
@pytest.mark.parametrize(
    "network",
    [ddol.complete(4), ddol.ring(5), ddol.star(4)],
    ids=lambda n: str(getattr(n, "name", n)),
)
@pytest.mark.parametrize("period", [1, 3])
def test_agents_with_the_same_examples_are_one_agent(name, network, period):
    X, y = blobs()
    alone = ddol.run(FREE[name], (X, y))
    team = ddol.run(FREE[name], [(X, y)] * network.n_agents, network, period=period)
    assert set(team.mistakes) == {alone.mistakes[0]}
    assert team.consensus < 1e-8
    for agent in range(network.n_agents):
        np.testing.assert_allclose(team.agent_weights(agent), alone.weights[0], rtol=1e-6)


def test_a_feature_that_one_agent_alone_sees_moves_as_if_it_were_alone():
    """The rare feature's gradient is divided by N, and so is the root it is divided by."""
    rows = Rows.from_dense([[2.0, -3.0, 1.0]], [1.0])
    weights = []
    for n_agents in (1, 4):
        algorithm = ddol.adaptive().on(n_agents)
        table = np.full((1, n_agents, 1), -1)
        table[0, -1] = 0
        engine = Local(algorithm, ddol.start_state(algorithm, 3))
        engine.play(Block(rows, table))
        weights.append(engine.weights()[0, 0])
    np.testing.assert_allclose(weights[1], weights[0], rtol=1e-12)
    assert weights[0].all()


def test_newton_is_refused_above_its_size():
    with pytest.raises(
        ValueError, match=r"newton keeps 1001² numbers .*use the algorithm adaptive"
    ):
        ddol.start_state(ddol.newton(), 1001)
    assert ddol.start_state(ddol.newton(), 20).n_features == 20


def test_newton_learns_correlated_features_that_adaptive_cannot_in_time():
    rng = np.random.default_rng(0)
    hidden = rng.standard_normal((3_000, 4))
    X = np.hstack([hidden @ rng.standard_normal((4, 8)) + 5.0, np.ones((3_000, 1))])
    y = np.where(hidden[:, 0] > 0, 1.0, -1.0)
    second, first = (ddol.run(a, (X, y)).error for a in (ddol.newton(), ddol.adaptive()))
    assert second < 0.75 * first


def test_l1_gives_exact_zeros_and_counts_the_rest():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4_000, 100))
    y = np.where(X[:, :5].sum(axis=1) > 0, 1.0, -1.0)
    for network in (1, 4, ddol.ring(4)):
        dense = ddol.run(ddol.dual_averaging("logistic"), (X, y), network)
        sparse = ddol.run(ddol.dual_averaging("logistic", l1=0.05), (X, y), network)
        assert dense.nonzero_weights == 100
        assert 5 <= sparse.nonzero_weights <= 15
        assert (sparse.weights[:, 0, :5] != 0.0).all()
        assert sparse.error < 0.15
        assert sparse.to_dict()["nonzero_weights"] == sparse.nonzero_weights


@pytest.mark.parametrize(
    "algorithm", [*FREE.values(), ddol.dual_averaging()], ids=lambda algorithm: algorithm.name
)
def test_a_delay_costs_and_is_made_up_for(algorithm):
    X, y = blobs(6_000)
    at_once, late = (ddol.run(algorithm, (X, y), delay=k) for k in (0, 10))
    assert at_once.mistakes.sum() <= late.mistakes.sum() + 20
    assert late.error < at_once.error + 0.01


def test_adaptive_forgets_a_long_delay():
    X, y = blobs(6_000)
    curves = ddol.run(ddol.adaptive(), (X, y), delay=100).curves
    half = np.searchsorted(curves.examples, 3_000)
    first, second = curves.mistakes[half], curves.mistakes[-1] - curves.mistakes[half]
    assert second < 0.5 * first
