"""Robust averages: what they keep, what they refuse, and that engines play them as the reference does."""

from __future__ import annotations

import numpy as np
import pytest

import ddol
from ddol.communicate.mixing import metropolis, uniform
from ddol.communicate.robust import clip, most_liars, robust_of, trim
from ddol.testing import check_algorithm, check_engine


def _median(own, heard, weights, count, n, room, out):  # a user's own rule: the median of three
    for d in range(n):
        low, high = min(heard[d], heard[n + d]), max(heard[d], heard[n + d])
        out[d] = min(max(own[d], low), high) if count == 2 else own[d]


RULES = ["clip:1", "trim:1", _median]


@pytest.mark.parametrize("rule", RULES, ids=["clip", "trim", "own"])
@pytest.mark.parametrize("n", [ddol.ring(5), ddol.complete(4)], ids=lambda g: g.name)
def test_rounds_are_the_reference(rule, n) -> None:
    check_algorithm(ddol.dogd("logistic").on(n, average=rule, period=2), sparse=False)


def test_tested_neighbours_may_be_averaged_robustly() -> None:
    check_algorithm(ddol.safe(ddol.adaptive()).on(4, average="clip:1"), sparse=False)


@pytest.mark.parametrize("n", [ddol.ring(6), ddol.complete(5)], ids=lambda g: g.name)
def test_threads_play_as_one_does(n) -> None:
    check_engine(ddol.adaptive().on(n, average="trim:1"), "threads", workers=2)


def test_events_play_rounds() -> None:
    X = np.random.default_rng(0).standard_normal((200, 3))
    y = np.sign(X @ [1.0, -2.0, 0.5])
    algorithm = ddol.dogd("logistic").on(5, average="clip:1")
    rounds, events = (
        ddol.run(algorithm, (X, y), conditions=c) for c in (None, ddol.Conditions(latency=1.0))
    )
    assert np.allclose(rounds.weights, events.weights)


@pytest.mark.parametrize("rule", [clip(1), trim(1)], ids=lambda r: r.name)
def test_one_liar_moves_no_average_far(rule) -> None:
    values = np.random.default_rng(1).standard_normal((7, 4))
    honest = rule.average(uniform(ddol.complete(7)), values)
    for lie in (1e9, -1e9, 5.0):
        values[3] = lie
        found = np.delete(rule.average(uniform(ddol.complete(7)), values), 3, axis=0)
        assert np.abs(found - np.delete(honest, 3, axis=0)).max() < 3.0
    equal = np.tile(values[0], (7, 1))
    assert np.allclose(rule.average(uniform(ddol.complete(7)), equal), equal)


def test_liars_do_less_harm() -> None:
    rng = np.random.default_rng(2)
    X = rng.standard_normal((6000, 5))
    y = np.where(X @ rng.standard_normal(5) + 0.3 * rng.standard_normal(6000) > 0, 1.0, -1.0)
    liars = ddol.Conditions(liars={3: "flip"})
    plain, clipped, trimmed = (
        ddol.run(ddol.dogd("logistic", l2=0.0), (X, y), 8, average=average, conditions=liars).error
        for average in (None, "clip:1", "trim:1")
    )
    assert max(clipped, trimmed) < 0.15 < plain


def test_the_proof_holds_where_it_is_said_to() -> None:
    """Honest agents come closer in every exchange, whatever the others send."""
    rng = np.random.default_rng(3)
    mixing = metropolis(ddol.complete(13))
    b = most_liars(mixing)
    assert b == 2
    for _ in range(50):
        values = rng.standard_normal((13, 3)) * rng.choice([0.1, 1.0, 10.0], (13, 1))
        honest = values[b:]
        values[:b] = honest.mean(axis=0) + rng.standard_normal((b, 3)) * rng.choice([0.3, 3.0, 1e6])
        found = clip(b).average(mixing, values)[b:]
        assert found.var(axis=0).sum() <= honest.var(axis=0).sum()


def test_a_graph_with_too_few_links_is_told() -> None:
    X, y = np.eye(8), np.tile([1.0, -1.0], 4)
    with pytest.warns(UserWarning, match="8 agents have at most 2 neighbours"):
        ddol.run(ddol.dogd(), (X, y), ddol.ring(8), average="clip:1")
    with pytest.warns(UserWarning, match="at most 1 that lie"):
        ddol.run(ddol.dogd(), (X, y), 8, average="clip:2")


def test_what_is_no_average_is_refused() -> None:
    for given, match in (("clip", "clip:1"), ("clip:0", "clip:1"), ("median", "'dual', 'primal'")):
        with pytest.raises(ValueError, match=match):
            ddol.dogd().on(4, average=given)
    with pytest.raises(ValueError, match="weighted majority"):
        ddol.dwm_i().on(4, average="trim:1")
    assert robust_of("primal") is None
