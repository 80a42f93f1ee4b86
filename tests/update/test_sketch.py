"""Newton with a sketch: between the diagonal and the full matrix, for any number of features."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix

import ddol
from ddol.estimators import DDOLClassifier
from ddol.reference import mean_of_copies
from ddol.update.contract import Interpreted, Vector
from ddol.update.sketch import SketchedNewton, sign


def entangled(n=4_000, n_features=60):
    """Features whose correlations fall off slowly; the weak directions say as much as the strong ones."""
    rng = np.random.default_rng(5)
    sizes = np.arange(1.0, n_features + 1)
    hidden = rng.standard_normal((n, n_features)) / sizes
    turned = hidden @ np.linalg.qr(rng.standard_normal((n_features, n_features)))[0]
    return turned, np.where(hidden @ (sizes**0.7 * rng.standard_normal(n_features)) > 0, 1.0, -1.0)


@pytest.mark.parametrize("network", [1, 4, ddol.ring(4)], ids=lambda n: str(getattr(n, "name", n)))
def test_a_larger_rank_is_nearer_to_the_full_matrix(network):
    algorithms = ddol.adaptive(), ddol.newton(rank=10), ddol.newton(rank=30), ddol.newton()
    first, ten, thirty, full = (ddol.run(a, entangled(), network).error for a in algorithms)
    assert full < thirty < ten - 0.005 < first - 0.02


def test_with_a_group_for_every_feature_it_is_newton_but_for_when_the_matrix_is_taken():
    X, y = entangled(n_features=12)
    full = ddol.run(ddol.newton(), (X, y))
    for rank in (12, 40):
        found = ddol.run(ddol.newton(rank=rank), (X, y))
        assert abs(found.error - full.error) < 0.01
        one, other = found.weights.ravel(), full.weights.ravel()
        assert one @ other > 0.9995 * np.linalg.norm(one) * np.linalg.norm(other)


@pytest.mark.parametrize("network", [1, 4], ids=str)
def test_rows_with_few_of_many_features(network):
    rng, n, n_features = np.random.default_rng(0), 1_500, 50_000
    places = rng.integers(0, n_features, (n, 70))
    places[:, :60] = rng.integers(0, 200, (n, 60))
    X = csr_matrix((np.ones(places.size), places.ravel(), np.arange(0, places.size + 1, 70)))
    X.sum_duplicates()
    y = np.where(X[:, :100].sum(axis=1) > X[:, 100:200].sum(axis=1), 1.0, -1.0).ravel()
    found = ddol.run(ddol.newton(rank=5), (X, y), network)
    assert found.error < 0.3 and np.isfinite(found.weights).all()


def test_numbers_and_several_classes():
    X, _ = entangled(2_000, 20)
    rng = np.random.default_rng(1)
    y = 1e6 + X @ rng.standard_normal(20)
    for network, places in ((ddol.ring(3), {}), (4, {"delay": 20, "batch": 3})):
        trace = ddol.run(ddol.newton("squared", rank=5), (X, y), network, **places)
        assert np.mean((trace.model().predict(X) - y) ** 2) < 0.1 * y.var()
    classes = (X @ rng.standard_normal((20, 3))).argmax(axis=1)
    first, second = (
        ddol.run(a, (X, classes))
        for a in (ddol.adaptive(outputs=3), ddol.newton(rank=10, outputs=3))
    )
    assert second.error < first.error


def test_agents_that_agree_merge_into_what_they_agree_about():
    """An exchange leaves them with the same weights of x̃, written in bases of their own."""
    algorithm = ddol.newton(rank=3).on(4, period=25)
    state = ddol.run(algorithm, entangled(400, 8)).state
    loops = Interpreted(algorithm.update, "dual", 8)

    def weights(rows, scalars):
        sent, _ = loops.to_message(Vector(rows[0], scalars[0]))
        return sent[3] / (1.0 + sent[4])

    agreed = np.array([weights(*own) for own in zip(state.theta, state.scalars, strict=True)])
    np.testing.assert_allclose(agreed, np.tile(agreed[0], (4, 1)), rtol=1e-9)
    bases = state.scalars[:, 0, -30:]
    assert np.ptp(bases, axis=0).max() > 1e-3
    theta, scalars = mean_of_copies(algorithm, state.theta, state.scalars)
    np.testing.assert_allclose(weights(theta[0], scalars[0]), agreed[0], rtol=1e-9)


def test_signs_are_drawn_alike():
    drawn = np.array([sign(d) for d in range(4_000)])
    for step in (1, 2, 7, 10, 100):
        assert abs(np.mean(drawn[:-step] * drawn[step:])) < 0.06
    assert abs(drawn.mean()) < 0.06


def test_estimators_have_a_rank():
    X, y = entangled(1_000, 20)
    found = DDOLClassifier("newton", rank=4, n_agents=2, random_state=0).fit(X, y)
    assert found.score(X, y) > 0.8 and found.trace_.algorithm.update.rank == 4
    with pytest.raises(ValueError, match="rank does not go with the algorithm adaptive"):
        DDOLClassifier(rank=4).fit(X, y)


@pytest.mark.parametrize("rank", [0, -1, 1001, 2.5])
def test_ranks_that_there_are_not(rank):
    with pytest.raises(ValueError, match="`rank` must be a whole number from 1 to 1000"):
        SketchedNewton(rank=rank)
