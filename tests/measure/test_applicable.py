"""Bounds beside runs: from traces, at every recorded point, and before a run."""

from dataclasses import replace

import numpy as np
import pytest

import ddol
from ddol.measure import applicable, bounds


def advice(seed, rounds=300, n_experts=6):
    rng = np.random.default_rng(seed)
    answers = rng.choice([-1.0, 1.0], rounds)
    wrong = rng.random((rounds, n_experts)) < rng.uniform(0.05, 0.6, n_experts)
    return np.where(wrong, -answers[:, None], answers[:, None]), answers


@pytest.mark.parametrize(
    ("preset", "agents", "name"),
    [
        (ddol.wma(0.8), 1, "WMA"),
        (ddol.dwm_i(0.8), 5, "DWM-I"),
        (ddol.dwm_a(0.8), 5, "DWM-A"),
        (ddol.drwm(0.8), 5, "DRWM"),
        (ddol.drwm(0.8, average="primal"), 5, "DRWM-A"),
    ],
)
def test_every_theorem_stands_beside_its_run(preset, agents, name):
    trace = ddol.run(preset, advice(1), agents)
    bound = trace.bounds[name]
    assert bound["holds"]
    assert bound["assumptions"]
    assert 0 < bound["observed"] <= bound["value"]
    curve = trace.bound_curves()[name]
    assert curve.shape == trace.curves.rounds.shape
    assert curve[-1] == pytest.approx(bound["value"])
    assert np.all(np.diff(curve) >= -1e-9)


def test_value_is_that_of_the_best_expert():
    X, y = advice(2)
    least = (y[:, None] != X).sum(axis=0).min()
    trace = ddol.run(ddol.dwm_i(0.7), (X, y), 3)
    assert trace.bounds["DWM-I"]["value"] == pytest.approx(float(bounds.dwm_i(least, 6, 3, 0.7)))
    assert trace.bounds["DWM-I"]["observed"] == trace.mistakes.sum()


def test_what_is_drawn_is_compared_by_its_expectation():
    trace = ddol.run(ddol.drwm(0.7), advice(3), 4)
    assert trace.bounds["DRWM"]["observed"] == pytest.approx(trace.expected_mistakes.sum())


@pytest.mark.parametrize(
    "run",
    [
        lambda data: ddol.run(ddol.dwm_i(), data, ddol.ring(6)),
        lambda data: ddol.run(ddol.dwm_i(), data, 4, period=2),
        lambda data: ddol.run(ddol.dwm_a(), data, 4, batch=2),
        lambda data: ddol.run(ddol.dwm_a(), data, 4, delay=1),
        lambda data: ddol.run(ddol.dogd(), data, 4),
        lambda data: ddol.run(ddol.adaptive(), data, 4),
    ],
)
def test_no_bound_where_no_theorem_holds(run):
    trace = run(advice(4))
    assert trace.bounds == {}
    assert trace.bound_curves() == {}


def test_a_bound_that_is_exceeded_is_loud():
    trace = ddol.run(ddol.dwm_i(0.8), advice(5), 2)
    worse = replace(trace.curves, mistakes=trace.curves.mistakes + 1000)
    with pytest.warns(applicable.BoundExceededWarning, match="bound violated: DWM-I allows"):
        entry = applicable.check_bounds(replace(trace, curves=worse))["DWM-I"]
    assert not entry["holds"]


def test_the_bound_of_a_moment_is_on_the_curve():
    trace = ddol.run(ddol.dwm_a(0.8), advice(6), 4)
    bound = applicable.applicable_bound(trace.algorithm, 6)
    for point in (0, 10, -1):
        now = float(bound.at(float(trace.curves.best_log_weight[point])).value)
        assert now == pytest.approx(trace.bound_curves()["DWM-A"][point])
    assert applicable.applicable_bound(ddol.dogd().on(4), 6) is None


@pytest.mark.parametrize(
    ("preset", "formula"),
    [
        (ddol.dwm_i(0.5), bounds.dwm_i),
        (ddol.dwm_a(0.5), bounds.dwm_a_before),
        (ddol.drwm(0.5), bounds.drwm),
    ],
)
def test_before_a_run(preset, formula):
    made = applicable.applicable_bound(preset.on(8), 50)
    assert float(made.before(100).value) == pytest.approx(float(formula(100, 50, 8, 0.5)))


def test_before_a_run_is_never_below_what_comes():
    X, y = advice(7)
    trace = ddol.run(ddol.dwm_a(0.6), (X, y), 5)
    least = (y[:, None] != X).sum(axis=0).min()
    before = applicable.applicable_bound(trace.algorithm, 6).before(least)
    assert trace.bounds["DWM-A"]["value"] <= float(before.value)


def test_regret_before_a_run():
    bound = applicable.regret_before(ddol.dogd(l2=0.0, radius=2.0, rate=0.5).on(3), 400, 1.5)
    assert float(bound.value) == pytest.approx(float(bounds.domd_before(8.0, 1.5, 400, 3, 0.5)))


@pytest.mark.parametrize(
    ("algorithm", "divergence", "message"),
    [
        (ddol.doeg(radius=3.0).on(2), None, "give the divergence"),
        (ddol.dogd(rate=lambda t: 1.0 / t, radius=1.0), None, "for the rate"),
        (ddol.dogd(radius=1.0).on(4, period=2), None, "every 2 rounds"),
        (ddol.adaptive(), None, "no theorem of the paper is about Adaptive"),
    ],
)
def test_regret_before_a_run_is_refused_with_a_reason(algorithm, divergence, message):
    with pytest.raises(ValueError, match=message):
        applicable.regret_before(algorithm, 100, 1.0, divergence)


def test_a_rising_rate_has_no_bound():
    rising = ddol.dogd(rate=lambda t: 0.1 * t)
    assert "the rate may increase" in applicable.find_theorem(rising).reason
