"""Liars as a condition: what they do to sharing, and what testing neighbours makes of them."""

from __future__ import annotations

import numpy as np
import pytest

import ddol
from ddol.schedules.liars import liars_of, message_of

W = np.array([1.0, -2.0, 0.5])
N = 6


def _data(rounds: int = 250) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(2)
    X = rng.standard_normal((rounds * N, 3))
    return X, np.where(X @ W + 0.3 * rng.standard_normal(len(X)) > 0, 1.0, -1.0)


def _honest_error(trace: ddol.Trace, liars: tuple[int, ...]) -> float:
    honest = np.setdiff1d(np.arange(N), liars)
    return float(trace.mistakes[honest].sum() / trace.state.examples[honest].sum())


@pytest.mark.parametrize("lie", ["flip", "zero", "noise", "alie", "labels", "units:1000"])
def test_honest_agents_that_are_safe_do_as_well_as_alone(lie: str) -> None:
    X, y = _data(600)  # whom to listen to takes some examples to find out
    alone = np.mean([ddol.run(ddol.adaptive(), (X[i::N], y[i::N])).error for i in range(2, N)])
    conditions = ddol.Conditions(liars={0: lie, 1: lie})
    trace = ddol.run(ddol.safe(ddol.adaptive()), (X, y), N, conditions=conditions)
    assert _honest_error(trace, (0, 1)) < alone + 0.01


def test_one_liar_ruins_plain_sharing() -> None:
    trace = ddol.run(
        ddol.dogd("logistic", l2=0.0), _data(), N, conditions=ddol.Conditions(liars="0:noise")
    )
    assert _honest_error(trace, (0,)) > 0.3


def test_what_a_liar_sends_is_averaged() -> None:
    X, y = np.eye(2), np.array([1.0, 1.0])
    plain = ddol.dogd("squared", l2=0.0)
    lied = ddol.run(
        plain, (X, y), 2, conditions=ddol.Conditions(liars={1: lambda own, mean: mean + 4.0})
    )
    assert lied.weights[0, 0].tolist() == [3.0, 2.0]  # (1, 0) and (5, 4)


@pytest.mark.parametrize("safe", [False, True])
def test_what_is_no_number_is_refused_and_counted(safe: bool) -> None:
    algorithm = ddol.safe(ddol.adaptive()) if safe else ddol.adaptive()
    lie = ddol.Conditions(liars={2: lambda own, mean: np.full_like(own, np.nan)})
    trace = ddol.run(algorithm, _data(40), N, conditions=lie)
    assert trace.refused.tolist() == [0, 0, 40 * (N - 1), 0, 0, 0]
    assert np.isfinite(trace.loss).all()


def test_liars_are_replayed_to_the_bit() -> None:
    conditions = ddol.Conditions(liars="1:noise;3:flip")
    algorithm = ddol.safe(ddol.adaptive()).on(ddol.ring(N))
    first = ddol.run(algorithm, _data(60), conditions=conditions, record=True)
    again = ddol.run(algorithm, _data(60), conditions=conditions, replay=first.events)
    assert (again.state.theta == first.state.theta).all()


def test_lies_by_hand() -> None:
    own, honest = np.array([9.0, 9.0]), np.array([[1.0, 2.0], [3.0, 6.0]])
    assert message_of("zero", own, honest, (0, 0, 0)).tolist() == [0.0, 0.0]
    assert message_of("alie", own, honest, (0, 0, 0)).tolist() == [0.5, 1.0]
    noise = message_of("noise", own, honest, (0, 0, 0))
    assert np.abs(noise).max() > 1e7
    assert (noise == message_of("noise", own, honest, (0, 0, 0))).all()


@pytest.mark.parametrize("text", ["0", "a:flip", "0:lie", "0:units:x", "-1:flip"])
def test_what_is_no_liar_is_said(text: str) -> None:
    with pytest.raises(ValueError, match="liars"):
        liars_of(text)


def test_a_function_that_fails_is_named() -> None:
    with pytest.raises(ValueError, match="function gave numbers"):
        ddol.run(
            ddol.dogd(),
            _data(5),
            N,
            conditions=ddol.Conditions(liars={0: lambda own, mean: own[:1]}),
        )


def test_agents_must_be_there_and_one_honest() -> None:
    with pytest.raises(ValueError, match="agent 9"):
        ddol.run(ddol.dogd(), _data(5), N, conditions=ddol.Conditions(liars={9: "flip"}))
    with pytest.raises(ValueError, match="all 2 agents lie"):
        ddol.run(ddol.dogd(), _data(5), 2, conditions=ddol.Conditions(liars="0,1:flip"))


def test_lies_are_messages_that_others_would_take() -> None:
    """A negative sum of squares would give a liar away: adaptive's messages stay what they may be."""
    trace = ddol.run(ddol.adaptive(), _data(), N, conditions=ddol.Conditions(liars="0:flip"))
    assert _honest_error(trace, (0,)) > 0.3 and not trace.refused.any()


def test_where_lies_leave_no_numbers_the_liars_are_named() -> None:
    """Each exchange makes the mean of two liars and two others −4.5 times what it was."""
    with pytest.raises(FloatingPointError, match=r"as agents 0, 2 lied.*--safe"):
        ddol.run(ddol.adaptive(), _data(800), 4, conditions=ddol.Conditions(liars="0,2:flip"))
