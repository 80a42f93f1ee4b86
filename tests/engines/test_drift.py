"""The error of the last examples, and the alarm when it has risen."""

from __future__ import annotations

import numpy as np
import pytest

import ddol
from ddol.engines.drift import PageHinkley, Recent
from ddol.engines.learner import Learner
from ddol.streams.rows import Rows


def watched(errors, every=250, classification=True, size=1000):
    recent, sums = Recent(classification, size=size), np.cumsum(errors)
    for k in range(every, len(errors) + 1, every):
        recent.add(k, sums[k - 1], sums[k - 1])
    return recent


@pytest.mark.parametrize("share", [0.001, 0.05, 0.5])
def test_a_stationary_stream_raises_no_alarm(share):
    for seed in range(10):
        errors = np.random.default_rng(seed).random(50_000) < share
        assert watched(errors).rises == []


@pytest.mark.parametrize("seed", range(4))
def test_a_rise_that_the_learner_makes_up_for_soon_is_told(seed):
    """The error is half as large again for 2,000 examples, then as before."""
    rng = np.random.default_rng(seed)
    share = np.full(24_000, 0.2)
    share[12_000:14_000] = 0.3
    [rise] = watched(rng.random(24_000) < share).rises
    assert 12_000 < rise.examples < 15_000


def test_squared_errors_of_a_stationary_stream_raise_no_alarm():
    for seed in range(10):
        errors = np.random.default_rng(seed).standard_normal(50_000) ** 2
        assert watched(errors, classification=False).rises == []


@pytest.mark.parametrize("every", [10, 250, 3000])
def test_a_rise_is_told_once_however_often_somebody_looks(every):
    for seed in range(10):
        chance = np.where(np.arange(60_000) < 30_000, 0.05, 0.15)
        [rise] = watched(np.random.default_rng(seed).random(60_000) < chance, every).rises
        assert 30_000 < rise.examples <= 36_000
        assert rise.before == pytest.approx(0.05, abs=0.01)
        assert rise.error > 0.08 and rise.last >= 1000


def test_a_second_rise_is_told_too_and_a_fall_is_not():
    test = PageHinkley(classification=True)
    blocks = [0.1] * 5 + [0.5, 0.6] + [0.1] * 5 + [0.5, 0.6]
    told = [k for k, error in enumerate(blocks) if test.rose(1000, error) is not None]
    assert told == [5, 12]


def test_losses_whose_squares_are_no_numbers_raise_nothing():
    test = PageHinkley(classification=False)
    assert [test.rose(1000, error) for error in (1e200, 3e200, 1e199, 2e200, 1e200)] == [None] * 5


def test_the_window_has_at_least_the_examples_asked_for():
    errors = np.arange(9000) >= 8000
    assert watched(errors, every=250).error == 1.0
    sparse = watched(errors, every=3000)
    assert (sparse.examples, sparse.error) == (3000, 1000 / 3000)
    assert watched(errors[:500], every=250).examples == 500


def test_the_largest_window_keeps_few_points():
    recent = watched(np.zeros(20_000), every=10, size=10_000)
    assert len(recent._points) <= 140
    assert 10_000 <= recent.examples <= 10_200


def test_a_run_that_is_taken_back_counts_nothing_twice():
    recent = Recent(classification=True, size=100)
    for examples in (100, 200, 300, 150, 250):
        recent.add(examples, examples / 10, 0.0)
    assert (recent.examples, recent.error) == (100, 0.1)


def test_callbacks_see_the_window_and_the_alarm():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((8000, 3))
    y = np.sign(X[:, 0])
    y[4000:] *= -1
    seen = []
    ddol.run(ddol.dogd(), (X, y), 4, on_progress=seen.append, window=200)
    assert 200 <= seen[-1].window < 1000
    [rise] = seen[-1].drift
    assert 4000 < rise.examples < 5000 and rise.error > rise.before
    assert seen[5].drift == ()


def test_a_run_that_goes_on_begins_its_window_there():
    X = np.random.default_rng(0).standard_normal((400, 3))
    first, seen = ddol.run(ddol.dogd(), (X, np.sign(X[:, 0])), 2), []
    learner = Learner(first.algorithm, state=first.state, on_progress=seen.append)
    learner.learn(Rows.from_dense(X[:100], -np.sign(X[:100, 0])))
    assert seen[-1].examples == 500 and seen[-1].window == 100
    assert seen[-1].window_error * 100 == seen[-1].mistakes.sum() - first.mistakes.sum()


def test_an_earlier_moment_has_its_window_and_its_alarms_again():
    X = np.random.default_rng(0).standard_normal((8000, 3))
    learner = Learner(ddol.dogd().on(2))
    learner.history.recent.size = 200
    learner.learn(Rows.from_dense(X, np.where(np.arange(8000) < 4000, 1, -1) * np.sign(X[:, 0])))
    recent, moment = learner.history.recent, learner.moment()
    before = list(recent.rises), recent.error
    assert len(before[0]) == 1
    learner.learn(Rows.from_dense(X, np.sign(X[:, 0])))
    learner.go_back(*moment)
    assert (recent.rises, recent.error) == before
