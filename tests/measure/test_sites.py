"""Whom sharing helped: figures by site, the bettors' verdict, and bounds beside the regret that occurred."""

from __future__ import annotations

import numpy as np
import pytest

import ddol
from ddol.lab.report import write_report
from ddol.measure.sites import in_words, listening, mixture_bound, sites_of, table
from ddol.update.mixtures import HEDGED, LOG

W = np.array([1.0, -2.0, 0.5, 1.5])


def _data(
    rounds: int = 1500, n: int = 4, other: tuple[int, ...] = (1,)
) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    X = rng.standard_normal((rounds * n, 4))
    y = np.where(X @ W + 2.0 * rng.standard_normal(len(X)) > 0, 1.0, -1.0)
    for agent in other:
        y[agent::n] *= -1.0
    return X, y


def test_a_site_unlike_the_others_is_told_apart() -> None:
    trace = ddol.run(ddol.safe(ddol.adaptive()), _data(), 4)
    rows = sites_of(trace, ("alpha", "beta", "gamma", "delta"))
    assert [row["name"] for row in rows] == ["alpha", "beta", "gamma", "delta"]
    assert rows[1]["helped"] == "no"
    assert rows[1]["listens_to"] == {}
    assert set(rows[0]["listens_to"]) == {"gamma", "delta"}
    heard = listening(trace)
    assert np.allclose(heard.sum(axis=1), 1.0)
    assert heard[1, 1] == 1.0


def test_sharing_that_helps_is_seen() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((8 * 800, 30))
    y = np.where(X @ rng.standard_normal(30) + rng.standard_normal(len(X)) > 0, 1.0, -1.0)
    rows = sites_of(ddol.run(ddol.safe(ddol.adaptive()), (X, y), 8))
    assert sum(row["helped"] == "yes" for row in rows) >= 6
    assert not any(row["helped"] == "no" for row in rows)


def test_figures_are_those_of_the_run() -> None:
    trace = ddol.run(ddol.safe(ddol.adaptive()), _data(300), 4)
    for i, row in enumerate(sites_of(trace)):
        assert row["examples"] == 300
        assert row["error"] == trace.mistakes[i] / 300
        assert row["loss"] == pytest.approx(trace.loss[i])


@pytest.mark.parametrize("loss", ["logistic", "hinge", "squared", "absolute"])
@pytest.mark.parametrize("delay", [0, 3])
def test_no_run_exceeds_its_bound(loss: str, delay: int) -> None:
    X, y = _data(200, other=(1, 2))
    if loss in ("squared", "absolute"):
        y = X @ W * y + 7.0
    trace = ddol.run(ddol.safe(ddol.adaptive(loss, delay=delay)), (X, y), 4)
    for row in sites_of(trace):
        assert row["loss"] <= min(row["loss_alone"], row["loss_shared"]) + row["bound"]
        pairs = zip(row["regret_with_switches"], row["bound_with_switches"], strict=True)
        assert all(regret <= bound for regret, bound in pairs)


def test_bounds_by_hand() -> None:
    stays = np.log(1 + np.log(100))
    assert mixture_bound(LOG, 3, 100.0) == pytest.approx(np.log(3) + stays)
    assert mixture_bound(LOG, 3, 100.0, 2) == pytest.approx(
        np.log(3) + 2 * np.log(2) + 2 * np.log(100) + 3 * stays
    )
    nats = np.log(3) + np.log(2) + np.log(100) + 2 * stays
    assert mixture_bound(HEDGED, 3, 100.0, 1, 5.0) == pytest.approx(5.0 * (1 + nats / np.log(3)))


def test_shares_leave_the_best_sequence_as_much_as_the_bound_says() -> None:
    """Rates of fixed share, multiplied along sequences with up to three changes."""
    T = 400
    t = np.arange(1.0, T)
    rates = 1 / ((t + 1) * (1 + np.log(t + 1)))
    least = np.log(rates) - np.log1p(-rates)  # of a change in the place of a stay
    for switches in range(4):
        paid = -np.log1p(-rates).sum() - np.sort(least)[:switches].sum()
        nats = np.log(3) + switches * np.log(2) + paid
        assert nats <= mixture_bound(LOG, 3, T, switches) < nats + 2.0


def test_words_and_table() -> None:
    rows = sites_of(ddol.run(ddol.safe(ddol.adaptive()), _data(1500), 4), ("a", "beta", "c", "d"))
    assert "beta does better alone" in in_words(rows)
    lines = table(rows)
    assert len(lines) == 5
    assert lines[2].split()[0] == "beta"


def test_the_report_has_the_table(tmp_path) -> None:
    trace = ddol.run(ddol.safe(ddol.adaptive()), _data(300), 4)
    write_report(trace, tmp_path / "run.html")
    page = (tmp_path / "run.html").read_text()
    assert "Does sharing help?" in page
    assert in_words(sites_of(trace, [f"agent {i}" for i in range(4)])) in page
