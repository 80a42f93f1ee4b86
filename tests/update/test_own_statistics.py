"""Agents that keep their own centres and scales: what is averaged, and what it costs."""

from __future__ import annotations

import numpy as np
import pytest

import ddol
from ddol.model import load
from ddol.testing import check_algorithm, check_update
from ddol.update.contract import LOCAL

MAKERS = {
    "adaptive": ddol.adaptive,
    "coin": ddol.coin,
    "newton": ddol.newton,
    "sketch": lambda *loss, **more: ddol.newton(*loss, rank=3, **more),
}
N = 8
NETWORKS = {
    "adaptive": ddol.complete(N),
    "coin": ddol.ring(N),
    "newton": ddol.complete(N),
    "sketch": ddol.ring(N),
}


def examples(n=24_000, seed=0):
    rng = np.random.default_rng(seed)
    X, w = rng.standard_normal((n, 6)), rng.standard_normal(6)
    return X, X @ w + 0.5 * rng.standard_normal(n)


def in_own_units(X, seed=1):
    """Every column of every agent times a factor of its own, from an offset of its own."""
    rng, agent = np.random.default_rng(seed), np.arange(len(X)) % N
    factors = 10.0 ** rng.uniform(-3, 3, (N, X.shape[1]))
    return (X + rng.uniform(-20, 20, factors.shape)[agent]) * factors[agent]


@pytest.mark.parametrize("name", MAKERS)
def test_agents_with_other_units_share_what_they_can(name):
    X, z = examples(16_000)
    y, make, other = np.where(z > 0.2, 1.0, -1.0), MAKERS[name], in_own_units(X)
    error = {
        (alike, kind): ddol.run(make(statistics=kind), (rows, y), NETWORKS[name]).error
        for alike, rows in ((True, X), (False, other))
        for kind in ("shared", "own")
    }
    assert error[False, "shared"] > 0.4
    assert error[False, "own"] < error[True, "shared"] + 0.005
    assert error[False, "own"] == pytest.approx(error[True, "own"], abs=0.001)


def test_agents_that_are_alike_lose_little():
    X, z = examples(80_000)
    shared, own = (
        ddol.run(ddol.adaptive(statistics=kind), (X, np.sign(z)), N).error
        for kind in ("shared", "own")
    )
    assert own < shared + 0.002


def test_labels_that_are_numbers_may_have_own_units_too():
    X, z = examples(16_000)
    rng, agent = np.random.default_rng(2), np.arange(len(X)) % N
    unit, offset = 10.0 ** rng.uniform(-1, 1, N)[agent], rng.uniform(-50, 50, N)[agent]
    own, shared = (
        ddol.run(ddol.adaptive("squared", statistics=kind), (in_own_units(X), unit * z + offset), N)
        for kind in ("own", "shared")
    )
    assert 10.0 * own.loss.sum() < shared.loss.sum()


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_engines_follow_the_reference(name, loss):
    algorithm = MAKERS[name](loss, statistics="own")
    check_update(algorithm.update, algorithm.loss, rate=algorithm.rate)


def test_safe_agents_may_have_own_statistics():
    algorithm = ddol.safe(ddol.adaptive(statistics="own"))
    check_algorithm(algorithm.on(ddol.ring(4)))
    X, z = examples(8_000)
    trace = ddol.run(algorithm, (in_own_units(X), np.sign(z)), ddol.ring(N))
    assert trace.error < 0.1


def test_nothing_is_sent_of_statistics():
    layout = ddol.adaptive(statistics="own").update.layout("dual", 3)
    assert layout.statistics == (0, 0) and len(layout.message_rows) == 2
    sent = [field.name for field in layout.scalar_fields if field.average != LOCAL]
    assert sent == [f"sent own {k}" for k in range(6)]
    X, z = examples(800)
    trace = ddol.run(ddol.adaptive(statistics="own"), (X, np.sign(z)), ddol.ring(4))
    assert trace.bytes_sent == 8 * 8 * 200 * (2 * 6 + 6)


def test_a_model_predicts_as_the_agent_or_by_the_mean_of_scores(tmp_path):
    X, z = examples(8_000)
    y, other = np.sign(z), in_own_units(X)
    trace = ddol.run(ddol.adaptive(statistics="own"), (other, y), ddol.ring(N))
    trace.model().save(tmp_path / "m")
    model = load(tmp_path / "m")
    rows = other[3::N]
    scores = [model.decision_function(rows, agent=agent) for agent in range(N)]
    assert np.mean(np.sign(np.ravel(scores[3])) != y[3::N]) < 0.1
    np.testing.assert_allclose(model.decision_function(rows), np.mean(scores, axis=0), rtol=1e-9)


def test_other_words_are_refused():
    with pytest.raises(ValueError, match="'shared' or 'own', it is 'mine'"):
        ddol.adaptive(statistics="mine")


def other_shares(n=8_000, seed=3):
    """Two classes a deviation apart, of which agent a has the share (a + ½)/N."""
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < (np.arange(n) % N + 0.5) / N, 1.0, -1.0)
    return rng.standard_normal((n, 4)) + 0.5 * y[:, None], y


@pytest.mark.parametrize("network", [ddol.complete(N), ddol.ring(N)])
@pytest.mark.parametrize("where", [{}, {"period": 8}, {"schedule": "async"}])
def test_an_own_intercept_follows_the_shares_of_classes(network, where):
    X, y = other_shares()
    own, shared = (
        ddol.run(ddol.adaptive(own_intercept=kept), (X, y), network, **where).error
        for kept in (True, False)
    )
    assert own < 0.13 and own < shared - (0.0 if where else 0.02)


@pytest.mark.parametrize("name", MAKERS)
def test_own_statistics_come_with_an_own_intercept(name):
    """A centre that is learned from rows of one class has taken that class into the intercept."""
    X, y = other_shares()
    assert ddol.run(MAKERS[name](statistics="own"), (X, y), NETWORKS[name]).error < 0.16
