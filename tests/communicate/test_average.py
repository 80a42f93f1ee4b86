"""Averages over the neighbourhood against the plain formula."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddol.communicate import average
from ddol.communicate import mixing as mx
from ddol.communicate import topologies as tp

GRAPHS = ["complete", "ring", "path", "star", "grid", "exponential"]
MIXINGS = [mx.uniform, mx.metropolis]


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("build", MIXINGS)
@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
def test_formulas(name, build, shape):
    mixing = build(tp.topology(name, 6))
    values = np.random.default_rng(0).normal(size=(6, *shape))
    matrix = mixing.dense()
    np.testing.assert_allclose(
        average.linear(mixing, values), np.tensordot(matrix, values, axes=1), atol=1e-14
    )
    np.testing.assert_allclose(
        average.log_mean_exp(mixing, values),
        np.log(np.tensordot(matrix, np.exp(values), axes=1)),
        atol=1e-14,
    )
    heard = [values[matrix[i] > 0].max(axis=0) for i in range(6)]
    np.testing.assert_array_equal(average.largest(mixing, values), heard)


@settings(max_examples=60)
@given(
    st.sampled_from(GRAPHS),
    st.sampled_from(MIXINGS),
    st.integers(1, 9),
    st.floats(-1e6, 1e6),
)
def test_averaging_keeps_consensus(name, build, n, value):
    mixing = build(tp.topology(name, n))
    agreed = np.full((n, 2), value)
    for way in (average.linear, average.log_mean_exp, average.largest):
        np.testing.assert_allclose(way(mixing, agreed), agreed, rtol=1e-12, atol=1e-12)


@settings(max_examples=60)
@given(st.sampled_from(GRAPHS), st.integers(2, 9), st.integers(0, 2**32 - 1))
def test_geometric_mean_is_at_most_the_arithmetic(name, n, seed):
    mixing = mx.metropolis(tp.topology(name, n))
    values = np.random.default_rng(seed).normal(scale=5, size=(n, 4))
    assert np.all(average.linear(mixing, values) <= average.log_mean_exp(mixing, values) + 1e-12)


@settings(max_examples=40)
@given(st.integers(2, 8), st.integers(0, 2**32 - 1))
def test_relabelling_agents_changes_nothing(n, seed):
    rng = np.random.default_rng(seed)
    order = rng.permutation(n)
    mixing = mx.metropolis(tp.path(n))
    relabelled = mx.custom(mixing.dense()[np.ix_(order, order)])
    values = rng.normal(size=(n, 3))
    for way in (average.linear, average.log_mean_exp, average.largest):
        np.testing.assert_allclose(
            way(relabelled, values[order]), way(mixing, values)[order], rtol=1e-12, atol=1e-13
        )


@pytest.mark.parametrize("name", ["complete", "path"])
def test_far_apart_logarithms_neither_overflow_nor_vanish(name):
    mixing = mx.uniform(tp.topology(name, 3))
    values = np.array([[-1e6, 1e6], [-2e6, -1e6], [-3e6, 0.0]])
    mean = average.log_mean_exp(mixing, values)
    assert np.all(np.isfinite(mean))
    assert mean[1, 0] == pytest.approx(-1e6 + np.log(1 / 3))
    assert mean[1, 1] == pytest.approx(1e6 + np.log(1 / 3))


def test_weight_zero_stays_zero():
    mixing = mx.uniform(tp.path(3))
    nothing = np.full((3, 1), -np.inf)
    np.testing.assert_array_equal(average.log_mean_exp(mixing, nothing), nothing)


def test_entry_zero_on_the_diagonal_is_not_heard():
    swap = mx.custom([[0, 1], [1, 0]])
    values = np.array([[800.0], [1.0]])
    assert average.largest(swap, values).tolist() == [[1], [800]]
    assert average.log_mean_exp(swap, values).tolist() == [[1], [800]]


def test_wrong_number_of_agents():
    with pytest.raises(ValueError, match=r"each of 3 agents, got shape \(2, 4\)"):
        average.linear(mx.uniform(tp.ring(3)), np.zeros((2, 4)))
