"""The patient pool: copies that never learn late, and their bound."""

import numpy as np
import pytest

import ddol
from ddol.schedules.conditions import Conditions
from ddol.schedules.events import Events, answer, predict
from ddol.schedules.patient import in_layers, layered_mixing
from ddol.schedules.schedule import Schedule


def experts(rng, n=300, P=7, good=0.9):
    y = rng.choice([-1.0, 1.0], n)
    right = rng.random((n, P)) < np.linspace(0.5, good, P)
    return np.where(right, y[:, None], -y[:, None]), y


def patient(delay):
    return Schedule("async", Conditions(delay=delay), patient=True)


@pytest.mark.parametrize("delay", [0, 3, "0..9", "geometric:5"])
def test_bound_of_the_pool_holds(delay):
    for seed in range(5):
        data = experts(np.random.default_rng(seed))
        trace = ddol.run(ddol.wma(0.5), data, 1, schedule=patient(delay), seed=seed)
        bound = trace.bounds["WMA, patient"]
        assert bound["holds"]
        assert bound["observed"] == trace.mistakes.sum()
        assert trace.examples == 300


def test_bound_is_that_of_the_theory():
    advice, y = experts(np.random.default_rng(0))
    trace = ddol.run(ddol.wma(0.5), (advice, y), 1, schedule=patient(4))
    best = (advice != y[:, None]).sum(axis=0).min()
    expected = (best * np.log(2.0) + (4 + 1) * np.log(7)) / np.log(2 / 1.5)
    assert trace.bounds["WMA, patient"]["value"] == pytest.approx(expected)


def test_without_delay_the_pool_is_the_learner():
    data = experts(np.random.default_rng(1))
    alone = ddol.run(ddol.wma(0.5), data, 1)
    pool = ddol.run(ddol.wma(0.5), data, 1, schedule=patient(0))
    assert np.array_equal(alone.mistakes, pool.mistakes)
    assert np.allclose(alone.weights, pool.weights)


def test_a_constant_delay_is_as_many_interleaved_learners():
    """With a delay of k, copy c sees every (k + 1)-th example, without delay."""
    data = experts(np.random.default_rng(2))
    pool = ddol.run(ddol.wma(0.5), data, 1, schedule=patient(2))
    parts = [ddol.run(ddol.wma(0.5), (data[0][c::3], data[1][c::3]), 1) for c in range(3)]
    assert pool.mistakes.sum() == sum(part.mistakes.sum() for part in parts)
    assert pool.moments[-1].patience.copies == 3


def test_pools_of_a_network_exchange_by_number():
    data = experts(np.random.default_rng(3))
    trace = ddol.run(ddol.dwm_i(0.9), data, ddol.ring(4), schedule=patient("0..5"))
    assert trace.examples == 300
    assert trace.messages > 0
    assert trace.bounds == {}  # the theorem is about one agent


def test_any_algorithm_can_be_patient():
    rng = np.random.default_rng(4)
    X = rng.standard_normal((400, 4))
    trace = ddol.run(ddol.dogd(l2=0.0), (X, np.sign(X[:, 0])), ddol.ring(3), schedule=patient(3))
    assert trace.error < 0.2


def test_layers_keep_every_event():
    late = [predict(0, 0), predict(1, 1), predict(0, 2), answer(0, 2), answer(0, 0), answer(1, 1)]
    layered, copies = in_layers(Events.of(late), 2)
    assert copies == 2
    assert layered.agent.tolist() == [0, 1, 2, 2, 0, 1]
    mixing = layered_mixing(ddol.metropolis(ddol.ring(3)), 2)
    dense = mixing.dense()
    assert np.array_equal(dense[:3, :3], dense[3:, 3:])
    assert not dense[:3, 3:].any()


def test_a_recording_of_patience_plays_again():
    data, schedule = experts(np.random.default_rng(5)), Schedule("async", patient=True)
    late = Conditions(delay="geometric:5", latency=2, drop_messages=0.2)
    first = ddol.run(ddol.dwm_i(), data, 3, schedule=schedule, conditions=late, record=True)
    again = ddol.run(ddol.dwm_i(), data, 3, schedule=schedule, replay=first.events)
    for name in ("mistakes", "weights", "messages", "dropped"):
        assert np.array_equal(getattr(first, name), getattr(again, name)), name
    with pytest.raises(ValueError, match="does not go with a schedule of your own"):
        ddol.run(ddol.wma(), data, 1, schedule=Schedule(own=lambda *_: [], patient=True))
