"""Spectral gap and the rounds it predicts."""

import math

import numpy as np
import pytest

from ddol.communicate import consensus
from ddol.communicate import mixing as mx
from ddol.communicate import topologies as tp

NAMES = ["ring", "path", "star", "grid", "torus", "hypercube", "exponential", "erdos-renyi:0.3"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("build", [mx.uniform, mx.metropolis])
def test_rate_is_the_second_eigenvalue(name, build):
    mixing = build(tp.topology(name, 16))
    moduli = np.sort(np.abs(np.linalg.eigvals(mixing.dense())))
    assert consensus.consensus_rate(mixing) == pytest.approx(moduli[-2], abs=1e-12)


GRAPHS = [
    *(build(n) for build in (tp.ring, tp.path, tp.star, tp.exponential) for n in range(3, 14)),
    *(tp.hypercube(n) for n in (4, 8, 16, 64)),
    *(
        tp.torus(*shape)
        for shape in [(1, 5), (2, 2), (2, 5), (3, 3), (3, 4), (4, 4), (5, 2), (5, 7)]
    ),
]


@pytest.mark.parametrize("graph", GRAPHS, ids=lambda g: f"{g.name}-{g.n_agents}-{g.shape}")
@pytest.mark.parametrize("build", [mx.uniform, mx.metropolis])
def test_closed_forms_are_the_second_eigenvalue(graph, build, monkeypatch):
    mixing = build(graph)
    moduli = np.sort(np.abs(np.linalg.eigvals(mixing.dense())))

    def solve(*_):
        raise AssertionError("a solver was asked")

    monkeypatch.setattr(consensus, "_second_dense", solve)
    assert consensus.consensus_rate(mixing) == pytest.approx(moduli[-2], abs=1e-13)


def test_a_ring_with_a_matrix_of_one_s_own_has_no_closed_form_unless_all_agents_are_alike():
    n = 9
    step = np.roll(np.eye(n), 1, axis=1)
    turning = mx.custom(0.5 * np.eye(n) + 0.3 * step + 0.2 * step.T, tp.ring(n))
    mixed = turning.dense()
    mixed[0] = 0.8 * mixed[0] + 0.2 * np.eye(n)[0]
    for mixing in (turning, mx.custom(mixed, tp.ring(n))):
        moduli = np.sort(np.abs(np.linalg.eigvals(mixing.dense())))
        assert consensus.consensus_rate(mixing) == pytest.approx(moduli[-2], abs=1e-13)


@pytest.mark.parametrize("name", ["ring", "path", "grid", "exponential", "random-regular:4"])
@pytest.mark.parametrize("build", [mx.uniform, mx.metropolis])
def test_sparse_solver_equals_dense(name, build, monkeypatch):
    mixing = build(tp.topology(name, 400))
    dense = consensus.spectral_gap(mixing)
    monkeypatch.setattr(consensus, "DENSE_LIMIT", 0)
    assert consensus.spectral_gap(mixing) == pytest.approx(dense, rel=1e-7)


def test_sparse_solver_sees_eigenvalues_near_minus_one(monkeypatch):
    n = 300
    lazy = np.zeros((n, n))
    for i in range(n - 1):
        lazy[i, i + 1] = lazy[i + 1, i] = 0.499
    lazy += np.diag(1 - lazy.sum(axis=1))
    mixing = mx.custom(lazy)
    dense = consensus.consensus_rate(mixing)
    monkeypatch.setattr(consensus, "DENSE_LIMIT", 0)
    assert consensus.consensus_rate(mixing) == pytest.approx(dense, abs=1e-9)


def test_matrices_that_are_not_symmetric(monkeypatch):
    rng = np.random.default_rng(0)
    matrix = np.eye(60) + np.roll(np.eye(60), 1, axis=1) + (rng.random((60, 60)) < 0.05)
    mixing = mx.custom(matrix / matrix.sum(axis=1, keepdims=True))
    dense = consensus.consensus_rate(mixing)
    assert 0.5 < dense < 1
    monkeypatch.setattr(consensus, "DENSE_LIMIT", 0)
    assert consensus.consensus_rate(mixing) == pytest.approx(dense, rel=1e-9)


def test_large_ring_has_its_closed_form():
    gap = consensus.spectral_gap(mx.metropolis(tp.ring(2000)))
    assert gap == pytest.approx(2 / 3 * (1 - math.cos(2 * math.pi / 2000)), rel=1e-6)


@pytest.mark.parametrize("n", [1, 2, 10_000])
def test_complete_graph_agrees_at_once(n):
    mixing = mx.uniform(tp.complete(n))
    assert consensus.spectral_gap(mixing) == 1


def test_agents_that_only_swap_never_agree():
    swap = mx.custom([[0, 1], [1, 0]])
    assert consensus.spectral_gap(swap) == pytest.approx(0, abs=1e-15)
