import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

import ddol
from ddol.engines.learner import Learner
from ddol.streams.arrays import RowsStream
from ddol.streams.rows import Rows

RNG = np.random.default_rng(3)
X = RNG.standard_normal((60, 5))
Y = np.sign(X @ RNG.standard_normal(5))
ROWS = Rows.from_dense(X, Y)
AGENTS = RNG.integers(0, 3, 60)
PLACED = {
    "alone": ddol.dogd().on(1),
    "complete": ddol.dogd().on(3, batch=2),
    "ring": ddol.adaptive().on(ddol.ring(3), period=2),
    "late": ddol.dogd().on(3, delay=2),
    "polyak": ddol.dogd(average_iterates=True).on(3),
}


def learned(algorithm, cuts=(), agents=None):
    learner = Learner(algorithm)
    for lo, hi in zip([0, *cuts], [*cuts, 60], strict=True):
        learner.learn(ROWS.slice(lo, hi), None if agents is None else agents[lo:hi])
    return learner


@pytest.mark.parametrize("name", PLACED)
@pytest.mark.parametrize("agents", [None, AGENTS])
@settings(max_examples=15)
@given(cuts=st.lists(st.integers(0, 60), max_size=5))
def test_cuts_change_nothing(name, agents, cuts):
    if name == "alone" and agents is not None:
        agents = np.zeros(60, int)
    whole = learned(PLACED[name], (), agents)
    parts = learned(PLACED[name], [c for c in sorted(cuts) if 0 < c < 60], agents)
    np.testing.assert_array_equal(whole.weights(), parts.weights())
    np.testing.assert_array_equal(whole.trace().mistakes, parts.trace().mistakes)


@pytest.mark.parametrize("name", PLACED)
def test_the_trace_is_that_of_a_run(name):
    learner, run = learned(PLACED[name], [7, 8, 31]), ddol.run(PLACED[name], (X, Y))
    trace = learner.trace()
    np.testing.assert_array_equal(trace.mistakes, run.mistakes)
    np.testing.assert_allclose(trace.loss, run.loss, rtol=1e-12)
    np.testing.assert_allclose(trace.weights, run.weights, rtol=1e-12)
    assert trace.examples == 60


def test_rows_of_an_open_round_count_already():
    learner = Learner(PLACED["complete"])
    learner.learn(ROWS.slice(0, 1))
    assert np.any(learner.weights() != 0.0)
    assert learner.trace().examples == 1


def test_learning_goes_on_after_pickling():
    learner = learned(PLACED["ring"], [20])
    half = Learner(PLACED["ring"])
    half.learn(ROWS.slice(0, 31))
    thawed = pickle.loads(pickle.dumps(half))
    thawed.learn(ROWS.slice(31, 60))
    np.testing.assert_array_equal(thawed.weights(), learner.weights())


def test_dense_and_sparse_calls_may_alternate():
    learner = Learner(PLACED["complete"])
    learner.learn(ROWS.slice(0, 4))
    sparse = ROWS.slice(4, 45)
    learner.learn(Rows.from_csr(sparse.to_scipy(), sparse.y))
    learner.learn(ROWS.slice(45, 60))
    expected = learned(PLACED["complete"]).weights()
    np.testing.assert_allclose(learner.weights(), expected, rtol=1e-12)


def test_agents_are_named_always_or_never():
    learner = Learner(PLACED["complete"])
    learner.learn(ROWS.slice(0, 6))
    with pytest.raises(ValueError, match="in every call or in none"):
        learner.learn(ROWS.slice(6, 9), np.zeros(3, int))


def test_a_new_class_leaves_the_others_as_they_are():
    algorithm = ddol.adaptive("logistic", outputs=2).on(2)
    learner = Learner(algorithm)
    learner.learn(Rows.from_dense(X, (Y > 0).astype(float)))
    before = learner.weights()
    learner.grow(3)
    after = learner.weights()
    np.testing.assert_array_equal(after[:, :2], before)
    np.testing.assert_array_equal(after[:, 2], 0.0)


def test_weights_can_be_those_of_the_mean_round():
    iterates = []
    for t in range(1, 21):
        learner = Learner(ddol.dogd().on(3))
        learner.learn(ROWS.slice(0, 3 * t))
        iterates.append(learner.weights())
    averaged = learned(PLACED["polyak"]).weights()
    np.testing.assert_allclose(averaged, np.mean(iterates, axis=0), rtol=1e-10)


def test_slow_rounds_are_played_a_few_at_a_time_so_that_signals_are_heard(monkeypatch):
    from ddol.engines import learner as module

    clock = iter(range(10_000))
    monkeypatch.setattr(module.time, "perf_counter", lambda: float(next(clock)))
    seen = []
    slow = Learner(PLACED["ring"], on_progress=seen.append)
    slow.follow(module.Feed([RowsStream(ROWS)]))
    # A second for every look at the clock: no piece is longer than one round once that is known.
    assert len(seen) >= 18 and all(p.position is not None for p in seen[-10:])
    np.testing.assert_array_equal(slow.weights(), learned(PLACED["ring"]).weights())


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("width", [3, 20, 200])
@pytest.mark.parametrize("algorithm", [ddol.dogd(l2=0.0), ddol.dogd(l2=0.3), ddol.dual_averaging()])
def test_a_one_in_front_of_rows_need_not_be_stored(algorithm, width, sparse):
    """One agent alone need not see it in the row; the objective has the norm of all weights."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, width)) * (rng.random((300, width)) < 0.6)
    y = np.sign(X[:, 0] + rng.standard_normal(300))
    rows = Rows.from_csr(csr_matrix(X), y) if sparse else Rows.from_dense(X, y)
    learners = [Learner(algorithm) for _ in range(2)]
    for learner, stored in zip(learners, (True, False), strict=True):
        for part in (rows.slice(0, 7), rows.slice(7, 300)):
            learner.learn(part.with_intercept(stored=stored))
    with_it, without = (learner.trace() for learner in learners)
    assert np.allclose(without.weights, with_it.weights, rtol=1e-10, atol=1e-12)
    assert without.weights[0, 0, 0] != 0.0
    assert without.loss == pytest.approx(with_it.loss, rel=1e-10)


@pytest.mark.parametrize("stored", [True, False])
def test_cuts_change_nothing_of_the_norm_that_is_kept_of_sparse_rows(stored):
    rng = np.random.default_rng(0)
    matrix = rng.standard_normal((4000, 20)) * (rng.random((4000, 20)) < 0.4)
    rows = Rows.from_csr(csr_matrix(matrix), np.sign(matrix[:, 0])).with_intercept(stored=stored)
    whole, parts = Learner(ddol.dogd(l2=0.01)), Learner(ddol.dogd(l2=0.01))
    whole.learn(rows)
    for lo in range(0, 4000, 37):
        parts.learn(rows.slice(lo, lo + 37))
    np.testing.assert_array_equal(parts.state().scalars, whole.state().scalars)
