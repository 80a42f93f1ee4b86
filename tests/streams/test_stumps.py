"""Decision stumps against a search by brute force."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from ddol.streams import DataError, Rows, array_stream
from ddol.streams.coding.stumps import Stumps, fit_stumps


def best_stump(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Least error over both signs and 200 thresholds; +1 and low thresholds come first."""
    grid = np.linspace(x.min(), x.max(), 200)
    tried = [(np.sum(np.where(x > h, s, -s) != y), s, h) for s in (1.0, -1.0) for h in grid]
    least = min(error for error, _, _ in tried)
    return next((h, s) for error, s, h in tried if error == least)


def sample(seed: int, n: int = 120, d: int = 4) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = np.round(rng.standard_normal((n, d)), 1) * (rng.random((n, d)) < 0.6)
    return X, np.where(X[:, 0] - X[:, 1] + rng.standard_normal(n) > 0, 1.0, -1.0)


@settings(max_examples=20)
@given(st.integers(0, 10**6))
def test_stumps_are_the_best_ones(seed):
    X, y = sample(seed)
    stumps = fit_stumps(array_stream(X, y))
    expected = [best_stump(x, y) for x in X.T]
    assert list(zip(stumps.thresholds, stumps.signs, strict=True)) == expected


def test_sparse_rows_and_several_streams_give_the_same_stumps():
    X, y = sample(1)
    whole = fit_stumps(array_stream(X, y))
    parts = [array_stream(sp.csr_matrix(X[:50]), y[:50]), array_stream(X[50:], y[50:])]
    for other in (fit_stumps(array_stream(sp.csr_matrix(X), y)), fit_stumps(parts)):
        assert np.array_equal(whole.thresholds, other.thresholds)
        assert np.array_equal(whole.signs, other.signs)


def test_advice_is_the_same_for_dense_and_sparse_rows():
    X, y = sample(2)
    stumps = fit_stumps(array_stream(X, y))
    dense = stumps.advice(Rows.from_dense(X, y))
    sparse = stumps.advice(Rows.from_csr(sp.csr_matrix(X), y))
    assert dense.dense and sparse.dense
    assert np.array_equal(dense.data, sparse.data)
    assert set(np.unique(dense.data)) == {-1.0, 1.0}


def test_features_are_chosen_by_the_seed():
    X, y = sample(3, d=30)
    chosen = [fit_stumps(array_stream(X, y), 5, seed).features.tolist() for seed in (0, 0, 1)]
    assert chosen[0] == chosen[1] != chosen[2]
    assert len(set(chosen[0])) == 5
    assert fit_stumps(array_stream(X, y), 30).features.tolist() == list(range(30))


def test_more_experts_than_features_are_refused():
    with pytest.raises(DataError, match="4 features for 5 experts"):
        fit_stumps(array_stream(*sample(0)), 5)


def test_a_stream_of_advice_keeps_labels_and_weights():
    X, y = sample(4)
    stumps = Stumps(np.array([0, 1]), np.array([0.0, 0.5]), np.array([1.0, -1.0]))
    [(rows, _)] = stumps.stream(array_stream(X, y, np.arange(len(y)))).read()
    assert rows.n_features == 2
    assert np.array_equal(rows.y, y) and np.array_equal(rows.weight, np.arange(len(y)))
