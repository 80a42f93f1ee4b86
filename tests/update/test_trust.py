"""Neighbours are tested before they count: in the reference, in rounds, in threads and in lists of events."""

from __future__ import annotations

import numpy as np
import pytest

import ddol
from ddol.engines.learner import Learner
from ddol.streams.arrays import array_stream
from ddol.testing import check_algorithm, check_engine
from ddol.update.trust import BOXES, TESTS, WORSE

W = np.array([1.0, -2.0, 0.5])


def _data(rounds: int, n: int = 4, other: tuple[int, ...] = ()) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    X = rng.standard_normal((rounds * n, 3))
    y = np.where(X @ W + 0.3 * rng.standard_normal(len(X)) > 0, 1.0, -1.0)
    for agent in other:
        y[agent::n] *= -1.0
    return X, y


def _listens(trace: ddol.Trace) -> np.ndarray:
    """Who passed whose tests, (N, N)."""
    boxes = trace.algorithm.update.layout("dual", 3).boxes
    known = trace.state.scalars[:, 0, boxes.scalar + BOXES :]
    known = known[:, : boxes.wires * boxes.scalars].reshape(len(known), boxes.wires, boxes.scalars)
    return (known[:, :, TESTS] >= 20) & (known[:, :, WORSE] <= 1.0)


@pytest.mark.parametrize(
    "algorithm",
    [
        ddol.dogd("logistic", l2=0.0).on(ddol.ring(4)),
        ddol.dogd("hinge").on(ddol.star(4), batch=2, period=2, delay=1),
        ddol.dogd("squared", l2=0.0).on(3),
    ],
    ids=["ring", "star", "numbers"],
)
def test_rounds_are_the_reference(algorithm: ddol.Algorithm) -> None:
    check_algorithm(ddol.safe(algorithm), n_examples=150)


def test_threads_play_as_one_does() -> None:
    check_engine(ddol.safe(ddol.adaptive()).on(ddol.ring(5)), "threads", workers=2)


def test_agents_average_with_those_alike_only() -> None:
    X, y = _data(600, other=(1, 2))
    trace = ddol.run(ddol.adaptive().on(4, trust="test"), (X, y))
    alike = np.array([0, 1, 1, 0])
    expected = (alike[:, None] == alike) & ~np.eye(4, dtype=bool)
    assert (_listens(trace) == expected).all()
    plain = ddol.run(ddol.adaptive(), (X, y), 4)
    assert trace.error < 0.12 < 0.3 < plain.error


@pytest.mark.parametrize(
    ("network", "other"),
    [(ddol.ring(4), (2,)), (ddol.complete(4), (2,)), (ddol.complete(4), ())],
    ids=["ring", "complete", "alike"],
)
def test_a_recording_of_rounds_is_replayed_to_the_bit(
    network: ddol.Topology, other: tuple[int, ...]
) -> None:
    """On a complete graph rounds make one mean for all who trust everybody, events one for each agent."""
    data = _data(120, other=other)
    algorithm = ddol.safe(ddol.adaptive()).on(network)
    first = ddol.run(algorithm, data, record=True)
    again = ddol.run(algorithm, data, replay=first.events)
    assert (again.state.theta == first.state.theta).all()
    assert (again.loss == first.loss).all()


def test_a_run_that_goes_on_is_the_same_to_the_bit() -> None:
    X, y = _data(100, other=(2,))
    algorithm = ddol.safe(ddol.adaptive()).on(ddol.ring(4))
    whole = ddol.run(algorithm, (X, y))
    first = ddol.run(algorithm, (X[:200], y[:200]))
    learner = Learner(algorithm, state=first.state)
    learner.learn(array_stream(X[200:], y[200:]).rows)
    assert (learner.trace().state.theta == whole.state.theta).all()


def test_push_sum_cannot_leave_anybody_out() -> None:
    with pytest.raises(ValueError, match="push-sum"):
        ddol.run(ddol.safe(ddol.dogd("logistic")), _data(5), 4, schedule="push-sum")
