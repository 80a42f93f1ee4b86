"""Scores without learning are those that the learner predicts with."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix

import ddol
from ddol.engines.local import Local
from ddol.engines.state import start_state
from ddol.engines.workers import scoring
from ddol.engines.workers.scoring import Scorer
from ddol.streams.dealing import table_round_robin
from ddol.streams.rows import Block, Rows
from ddol.testing import examples_for

ALGORITHMS = (
    ddol.dogd(),
    ddol.dogd(outputs=3),
    ddol.doeg(radius=3.0),
    ddol.p_norm(1.5),
    ddol.dual_averaging(l1=0.01),
    ddol.adaptive(),
    ddol.coin(),
    ddol.newton(),
    ddol.newton(rank=3),
    ddol.dwm_i(0.7),
    ddol.dwm_a(0.7, n_classes=3),
)


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda a: f"{a.name}-{a.outputs}")
@pytest.mark.parametrize("network", [1, 3, ddol.ring(3)], ids=lambda n: str(getattr(n, "name", n)))
@pytest.mark.parametrize("sparse", [False, True])
def test_the_next_prediction_is_the_score(algorithm, network, sparse):
    if sparse and algorithm.update.experts:
        return
    # The kernel of one agent alone keeps scores to itself, unless sums of weights are wanted.
    placed = algorithm.on(network, average_iterates=True)
    X, y = examples_for(placed, 63, 4, np.random.default_rng(0))
    rows = Rows.from_csr(csr_matrix(X), y) if sparse else Rows.from_dense(X, y)
    engine, table = (
        Local(placed, start_state(placed, 4)),
        table_round_robin(60, placed.n_agents),
    )
    engine.play(Block(rows, table))
    state, last = engine.state(), rows.slice(60, 63)
    before = state.theta.copy()
    found = Scorer(placed, state.theta, state.scalars)(last)
    assert found.shape == (len(state.theta), 3, placed.outputs)
    assert np.array_equal(state.theta, before)
    for i in range(3):
        # The last agent predicts the row, and leaves its scores behind.
        engine = Local(placed, state)
        alone = np.full((1, placed.n_agents, 1), -1)
        alone[0, -1] = i
        engine.play(Block(last, alone))
        np.testing.assert_allclose(engine.worker.workspace.scores, found[-1, i], rtol=1e-12)


def test_narrow_rows_are_widened_and_wide_ones_refused():
    algorithm = ddol.dogd()
    state = start_state(algorithm, 3)
    narrow = Rows.from_csr(csr_matrix(np.eye(2)), np.ones(2))
    assert Scorer(algorithm, state.theta, state.scalars)(narrow).shape == (1, 2, 1)
    with pytest.raises(ValueError, match="found rows of 4 features, expected at most 3"):
        wide = Rows.from_dense(np.eye(4), np.ones(4))
        Scorer(algorithm, state.theta, state.scalars)(wide)


@pytest.mark.parametrize("sparse", [False, True])
def test_many_rows_are_scored_by_several_cores_as_by_one(sparse, monkeypatch):
    """Every core has a worker with memory of its own: rows without a stored intercept are copied there."""
    rng = np.random.default_rng(0)
    X, y = (
        rng.standard_normal((2000, 5)) * (rng.random((2000, 5)) < 0.6),
        rng.choice([-1.0, 1.0], 2000),
    )
    rows = Rows.from_csr(csr_matrix(X), y) if sparse else Rows.from_dense(X, y)
    rows = rows.with_intercept(stored=False)
    algorithm = ddol.adaptive().on(ddol.ring(4))
    engine = Local(algorithm, start_state(algorithm, 6))
    engine.play(Block(rows, table_round_robin(2000, 4)))
    state = engine.state()
    alone = Scorer(algorithm, state.theta, state.scalars)(rows)
    monkeypatch.setattr(scoring, "_A_PART", rows.nbytes // 20)
    monkeypatch.setattr(scoring, "usable_cores", lambda: 3)
    together = Scorer(algorithm, state.theta, state.scalars)
    assert np.array_equal(together(rows), alone)
    assert np.array_equal(together(rows, 1)[0], alone[1])


STANDARDISING = {
    "adaptive": ddol.adaptive(),
    "L1": ddol.adaptive(l1=0.01),
    "L2": ddol.adaptive(l2=0.01),
    "classes": ddol.adaptive(outputs=3),
    "numbers": ddol.adaptive("squared"),
    "coin": ddol.coin(),
    "newton": ddol.newton(),
    "sketch": ddol.newton(rank=3),
}


@pytest.mark.parametrize("name", STANDARDISING)
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("learned", [1, 300])
def test_many_sparse_rows_are_scored_as_one_is(name, intercept, learned):
    """Features that are centred, rare, constant, never met, beyond the clip; a model that knows little."""
    algorithm, rng = STANDARDISING[name], np.random.default_rng(3)
    n, shares = 400, np.array([1.0, 0.8, 0.3, 0.02, 1.0, 0.0])
    X = (rng.standard_normal((n, 6)) * 10.0 ** np.arange(-2, 4) + 1.0) * (
        rng.random((n, 6)) < shares
    )
    X[:, 4], X[-20:, 5], X[-10:, 0] = 2.0, 1.0, 50.0
    y = rng.integers(0, 3, n) if name == "classes" else np.sign(rng.standard_normal(n))
    rows = Rows.from_csr(csr_matrix(X), y.astype(float))
    rows = rows.with_intercept(stored=False) if intercept else rows
    engine = Local(algorithm, start_state(algorithm, rows.n_features))
    engine.play(Block(rows, np.arange(learned)[:, None, None]))
    state = engine.state()
    scorer = Scorer(algorithm, state.theta, state.scalars)
    together = scorer(rows)[0]
    assert scorer._table is not None
    alone = Scorer(algorithm, state.theta, state.scalars)
    one_by_one = np.concatenate([alone(rows.slice(i, i + 1))[0] for i in range(n)])
    assert alone._table is None
    np.testing.assert_allclose(together, one_by_one, rtol=1e-9, atol=1e-9)


def test_a_value_that_is_not_finite_shows_in_the_scores_of_sparse_rows():
    X = np.eye(4)
    X[2, 2] = np.nan
    X[3, 3] = np.inf
    algorithm = ddol.adaptive()
    state = start_state(algorithm, 4)
    rows = Rows.from_csr(csr_matrix(X), np.ones(4))
    scores = Scorer(algorithm, state.theta, state.scalars)(rows)[0, :, 0]
    assert np.isfinite(scores).tolist() == [True, True, False, False]
