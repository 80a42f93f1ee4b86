"""Error against what it costs."""

from __future__ import annotations

import csv
import math

import numpy as np
import pytest

import ddol
from ddol.lab.frontier import Policy, frontier, policies_for

RNG = np.random.default_rng(2)
X = RNG.standard_normal((1500, 4))
Y = np.where(X @ [1.0, -2.0, 0.5, 0.0] + 0.3 * RNG.standard_normal(1500) >= 0, 1.0, -1.0)
NETWORK = ddol.dogd().on(ddol.ring(4))


def test_labels_against_asking_at_random(tmp_path):
    told = []
    found = frontier(NETWORK, (X, Y), against="labels", on_run=lambda *done: told.append(done))
    by_policy = {(row["policy"], row["parameter"]): row for row in found.rows}
    assert by_policy["budget", 1] | {"policy": ""} == by_policy["at random", 1] | {"policy": ""}
    for (policy, share), row in by_policy.items():
        if policy == "budget":
            assert row["labels"] <= share * 1500
    for row in found.rows:
        if row["policy"] == found.line and math.isfinite(row["of_line"]):
            assert row["of_line"] >= 1.0 - 1e-12
        assert row["regret"] > 0
    assert told[0] == (0, len(found.rows)) and told[-1] == (len(found.rows), len(found.rows))
    found.write(tmp_path / "f.csv")
    with (tmp_path / "f.csv").open() as file:
        assert [float(row["error"]) for row in csv.DictReader(file)] == [
            r["error"] for r in found.rows
        ]
    chart = found.chart()
    assert [line.name for line in chart.lines if line.dashed] == ["at random"]
    assert len(found.chart("regret").lines) == len(chart.lines)


def test_ones_own_policies():
    two = [
        Policy("period", {p: {"period": p} for p in (1, 8)}, is_line=True),
        Policy("star", {1: {"mixing": ddol.dogd().on(ddol.star(4)).mixing}}),
    ]
    found = frontier(NETWORK, (X, Y), policies=two)
    often, rare, _ = found.rows
    assert rare["messages"] == 4 * 2 * (375 // 8) and often["messages"] == 4 * 2 * 375
    assert rare["labels"] == 1500


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"against": "time"}, "bytes or labels"),
        ({"policies": []}, "line to beat"),
    ],
)
def test_what_is_refused(given, message):
    with pytest.raises(ValueError, match=message):
        frontier(NETWORK, (X, Y), **given)


def test_experts_have_their_own_rule():
    assert "experts" in [policy.name for policy in policies_for(ddol.dwm_i(), "labels")]


def test_answers_that_are_numbers_are_compared_by_their_loss():
    network = ddol.adaptive("squared").on(ddol.ring(4))
    periods = [Policy("period", {p: {"period": p} for p in (1, 64)}, is_line=True)]
    found = frontier(network, (X, X @ [1.0, -2.0, 0.5, 0.0] + 7.0), policies=periods)
    assert found.measure == "mean_loss"
    assert all(row["of_line"] >= 1.0 for row in found.rows)
    assert found.chart().y_label == "mean loss"
    assert len(found.chart().lines[0].y) == 2
