"""The memory "auto": a mixture over memories follows drift, and keeps what is worth keeping."""

from __future__ import annotations

import math

import numpy as np
import pytest

import ddol
from ddol.testing import check_algorithm, check_engine
from ddol.update.safe import MEMORIES


def _drifting(n: int = 6000) -> tuple[np.ndarray, np.ndarray]:
    """A rule that turns into its opposite every 300 examples."""
    rng = np.random.default_rng(4)
    X = rng.standard_normal((n, 3))
    sign = np.where((np.arange(n) // 300) % 2 == 0, 1.0, -1.0)
    return X, np.where(X @ [1.0, -2.0, 0.5] > -1.5, 1.0, -1.0) * sign


def test_rounds_are_the_reference() -> None:
    check_algorithm(ddol.adaptive(memory="auto").on(ddol.ring(3)), sparse=False)
    check_algorithm(ddol.safe(ddol.adaptive(memory="auto")).on(3), sparse=False, n_examples=90)


def test_threads_play_as_one_does() -> None:
    check_engine(ddol.adaptive(memory="auto").on(ddol.ring(4)), "threads", workers=2)


def test_drift_is_followed() -> None:
    data = _drifting()
    errors = {m: ddol.run(ddol.adaptive(memory=m), data).error for m in (*MEMORIES, "auto")}
    best = min(errors[m] for m in MEMORIES)
    assert errors["auto"] < best + 0.05 < errors[math.inf] - 0.1


def test_where_nothing_drifts_little_is_lost() -> None:
    rng = np.random.default_rng(1)
    X = rng.standard_normal((6000, 3))
    y = np.where(X @ [1.0, -2.0, 0.5] + 0.5 * rng.standard_normal(6000) > 0, 1.0, -1.0)
    plain, auto = (ddol.run(ddol.adaptive(memory=m), (X, y)).error for m in (math.inf, "auto"))
    assert auto < plain + 0.005


def test_safe_agents_have_four_learners() -> None:
    algorithm = ddol.safe(ddol.adaptive(memory="auto")).on(4)
    assert algorithm.update.names == ("shared", "shared 1", "own 1", "own")
    trace = ddol.run(algorithm, _drifting(4000))
    plain = ddol.run(ddol.safe(ddol.adaptive()).on(4), _drifting(4000))
    assert trace.error < plain.error - 0.05
    rows = trace.sites()
    assert all(row["regret"] <= row["bound"] for row in rows)


def test_a_saved_model_predicts_as_before(tmp_path) -> None:
    X, y = _drifting(500)
    for algorithm in (ddol.adaptive(memory="auto"), ddol.safe(ddol.adaptive(memory="auto"))):
        model = ddol.run(algorithm, (X, y), 2).model()
        model.save(tmp_path / "m.ddol")
        again = ddol.load(tmp_path / "m.ddol")
        for agent in (None, 1):
            assert (again.decision_function(X, agent) == model.decision_function(X, agent)).all()


def test_a_memory_is_a_number_or_auto() -> None:
    with pytest.raises(ValueError, match="memory"):
        ddol.adaptive(memory=0.5)
