"""Weighted majority: weights far apart, ties, and what is no advice."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest

import ddol
from ddol.communicate.mixing import metropolis, uniform
from ddol.compiled import column
from ddol.engines.local import Local
from ddol.engines.state import start_state
from ddol.measure.theorems import find_theorem
from ddol.schedules.conditions import Conditions
from ddol.streams.dealing import table_round_robin
from ddol.streams.errors import DataError
from ddol.streams.rows import Block, Rows
from ddol.testing import check_update
from ddol.update.contract import Layout, Loops, Update, Vector
from ddol.update.losses import zero_one


def after(algorithm, wrong):
    """Engine after experts were wrong as `wrong` (rounds, P) says, one round for every agent."""
    y = np.resize([1.0, -1.0, -1.0], len(wrong))
    rows = Rows.from_dense(np.where(wrong, -y[:, None], y[:, None]), y)
    engine = Local(algorithm, start_state(algorithm, wrong.shape[1]))
    engine.play(Block(rows, table_round_robin(len(wrong), algorithm.n_agents)))
    return engine


def log_weights(algorithm, engine, copy=0):
    state = engine.state()
    return algorithm.update.log_weights(Vector(state.theta[copy, 0], state.scalars[copy, 0]))


def overtaken(rounds):
    """One expert is wrong in the first half, another in the second, the third half as often."""
    wrong = np.zeros((2 * rounds, 4), bool)
    wrong[:rounds, 0] = wrong[rounds:, 1] = wrong[::4, 2] = wrong[1::2, 3] = True
    return wrong


@pytest.mark.parametrize("alpha", [0.9, 0.5, 1e-3, 1e-40])
@pytest.mark.parametrize("preset", [ddol.dwm_i, ddol.dwm_a])
def test_log_weights_are_mistakes_however_far_experts_are_behind(preset, alpha):
    wrong, algorithm = overtaken(10_000), preset(alpha)
    exact = wrong.sum(axis=0) * math.log(alpha)
    engine = after(algorithm, wrong)
    np.testing.assert_allclose(log_weights(algorithm, engine), exact, rtol=1e-14)
    np.testing.assert_allclose(engine.weights()[0, 0], [0.0, 0.0, 1.0, 0.0], atol=1e-200)
    half = after(algorithm, wrong[:10_000])
    exact = wrong[:10_000].sum(axis=0) * math.log(alpha)
    np.testing.assert_allclose(log_weights(algorithm, half), exact, rtol=1e-14, atol=1e-300)


def test_experts_with_as_many_mistakes_have_the_same_weight_to_the_bit():
    rng = np.random.default_rng(0)
    wrong = np.tile(rng.random((20_000, 1)) < 0.3, 6)
    wrong = np.stack([rng.permutation(column) for column in wrong.T], axis=1)
    weights = after(ddol.dwm_i(0.7), wrong).weights()[0, 0]
    assert (weights == weights[0]).all()


@pytest.mark.parametrize("period", [1, 3, 50])
def test_copies_that_talk_now_and_then_keep_their_log_weights(period):
    wrong = overtaken(3_000)
    algorithm = ddol.dwm_i(0.5).on(ddol.ring(4), period=period)
    engine = after(algorithm, wrong)
    state = engine.state()
    each = [log_weights(algorithm, engine, copy) for copy in range(4)]
    # Averages keep the mean, whoever was wrong: a mistake costs each of the 4 agents a quarter.
    mean = wrong.sum(axis=0) * math.log(0.5) / 4
    np.testing.assert_allclose(np.mean(each, axis=0), mean, rtol=1e-12)
    assert np.isfinite(state.theta).all() and np.isfinite(engine.weights()).all()


@pytest.mark.parametrize("engine", ["local", "threads"])
@pytest.mark.parametrize(
    ("n_classes", "found", "shown"),
    [(2, 0.0, "0"), (2, math.nan, "nan"), (2, -math.inf, "-inf"), (3, 3.0, "3"), (3, 0.5, "0.5"),
     (3, -1.0, "-1"), (3, math.nan, "nan")],
)  # fmt: skip
def test_advice_that_is_no_class_is_refused_where_it_stands(engine, n_classes, found, shown):
    rng = np.random.default_rng(0)
    classes = [-1.0, 1.0] if n_classes == 2 else [0.0, 1.0, 2.0]
    said, y = rng.choice(classes, (200, 5)), rng.choice(classes, 200)
    said[123, 4] = found
    known = "-1, 1" if n_classes == 2 else "0, 1, 2"
    message = (
        f"^X: found {shown} in row 123, column 4, expected the advice of experts, which is one of "
        f"{known}; make it with ddol.streams.coding.stumps$"
    )
    with pytest.raises(DataError, match=message):
        ddol.run(ddol.dwm_i(0.5, n_classes), (said, y), 4, engine=engine)


def test_alpha_must_leave_a_weight_that_can_be_written_down():
    with pytest.raises(ValueError, match="`alpha` must lie strictly between 0 and 1"):
        ddol.dwm_i(1e-41)


@pytest.mark.parametrize("preset", [ddol.dwm_i, ddol.dwm_a, ddol.drwm])
def test_best_log_weight_is_that_of_the_best_expert_at_every_point(preset):
    rng = np.random.default_rng(0)
    said, y = rng.choice([-1.0, 1.0], (400, 7)), rng.choice([-1.0, 1.0], 400)
    algorithm = preset(0.8)
    trace = ddol.run(algorithm, (said, y))
    mistakes = np.cumsum(said != y[:, None], axis=0)[trace.curves.rounds - 1].min(axis=1)
    np.testing.assert_allclose(
        trace.curves.best_log_weight, mistakes * math.log(0.8), rtol=1e-13, atol=1e-300
    )
    threads = ddol.run(algorithm, (said, y), 4, engine="threads", workers=2)
    local = ddol.run(algorithm, (said, y), 4)
    np.testing.assert_allclose(
        threads.curves.best_log_weight, local.curves.best_log_weight, rtol=1e-12
    )
    assert np.isnan(ddol.run(algorithm, (said, y), ddol.ring(4)).curves.best_log_weight).all()


def own_score(w, s, p, x, index, n, D, which):
    votes, total, top = 0.0, 0.0, -math.inf
    for j in range(n):
        top = max(top, w[column(index, j)])
    for j in range(n):
        weight = math.exp(w[column(index, j)] - top)
        votes += weight * x[j]
        total += weight
    return votes / total if abs(votes) > 1e-12 * total else 0.0


def own_step(w, s, p, x, index, n, D, g, eta, weight):
    for j in range(n):
        w[column(index, j)] -= p[0] * weight if x[j] != g else 0.0


@dataclass(frozen=True)
class OwnExperts(Update):
    """Weighted majority as a user would write it: log-weights, and nothing else."""

    penalty: float = 0.5
    grows: bool = False
    merges: bool = False
    experts: bool = True
    tie: float = 1e-12

    def layout(self, space, n_features):
        return Layout(rows=("log_weight",))

    def loops(self, space):
        return Loops(own_score, own_step, additive=True)

    def parameters(self):
        return (self.penalty,)


def test_experts_of_a_users_own_update_are_experts_everywhere():
    own = ddol.Algorithm("own", OwnExperts(), zero_one)
    check_update(own.update, zero_one)
    rng = np.random.default_rng(3)
    y = rng.choice([-1.0, 1.0], 300)
    advice = np.where(rng.random((300, 5)) < [0.9, 0.7, 0.5, 0.4, 0.2], y[:, None], -y[:, None])
    for graph in (1, 4, ddol.ring(4)):
        found = ddol.run(own, (advice, y), graph)
        theirs = ddol.run(ddol.dwm_i(math.exp(-0.5)), (advice, y), graph)
        assert np.array_equal(found.mistakes, theirs.mistakes)
        assert np.array_equal(found.model().predict(advice), theirs.model().predict(advice))
        best = found.curves.best_log_weight, theirs.curves.best_log_weight
        assert np.allclose(*best, equal_nan=True)


def shared_by_hand(algorithm, advice, y, alpha, penalty):
    """Mistakes by agent and weights of weighted majority with fixed share, in plain NumPy."""
    n, experts = algorithm.n_agents, advice.shape[1]
    graph = algorithm.mixing.topology
    rows = [(uniform if graph.is_complete else metropolis)(graph).at(1).row(i) for i in range(n)]
    matrix = np.zeros((n, n))
    for i, (who, weights) in enumerate(rows):
        matrix[i, who] = weights
    logs, mistakes, classes = np.zeros((n, experts)), np.zeros(n, int), sorted(set(y))
    for t in range(1, len(y) // n + 1):
        for i in range(n):
            said, true = advice[(t - 1) * n + i], y[(t - 1) * n + i]
            weights = np.exp(logs[i] - logs[i].max())
            votes = [weights[said == c].sum() for c in classes]
            tied = np.flatnonzero(np.array(votes) >= max(votes) - 1e-10 * sum(votes))
            mistakes[i] += classes[tied[-1 if len(classes) == 2 else 0]] != true
            logs[i] -= penalty * (said != true)
        if n > 1 and t % algorithm.period == 0:
            dual = algorithm.average == "dual"
            logs = matrix @ logs if dual else np.log(matrix @ np.exp(logs))
        total = np.exp(logs).sum(axis=1, keepdims=True)
        now = np.exp(logs) / total
        given = 1 / (t + 1) if alpha == "auto" else alpha
        logs = np.log(total * ((1 - given) * now + given * (1 - now) / (experts - 1)))
    weights = np.exp(logs - logs.max(axis=1, keepdims=True))
    return mistakes, weights / weights.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("share", ["auto", 0.03])
@pytest.mark.parametrize(
    ("graph", "period", "n_classes"),
    [(1, 1, 2), (4, 1, 2), (4, 3, 2), (ddol.ring(5), 1, 2), (ddol.ring(5), 2, 3), (4, 1, 3)],
)
@pytest.mark.parametrize("preset", [ddol.dwm_i, ddol.dwm_a])
def test_shares_are_what_they_are_by_hand(preset, graph, period, n_classes, share):
    rng = np.random.default_rng(1)
    classes = [-1.0, 1.0] if n_classes == 2 else [0.0, 1.0, 2.0]
    y, noise = rng.choice(classes, 300), rng.choice(classes, (300, 6))
    advice = np.where(rng.random((300, 6)) < [0.9, 0.7, 0.5, 0.4, 0.3, 0.2], y[:, None], noise)
    algorithm = preset(0.6, n_classes, share=share).on(graph, period=period)
    expected = shared_by_hand(algorithm, advice, y, share, -math.log(0.6))
    found = ddol.run(algorithm, (advice, y))
    assert found.mistakes.tolist() == expected[0].tolist()
    weights = np.broadcast_to(found.weights[:, 0], expected[1].shape)
    np.testing.assert_allclose(weights, expected[1], rtol=1e-10)


@pytest.mark.parametrize("share", ["auto", 0.01, 0.5, 1e-40])
@pytest.mark.parametrize("preset", [ddol.dwm_i, ddol.dwm_a, ddol.drwm])
def test_an_update_that_shares_keeps_the_contract(preset, share):
    made = preset(0.7, share=share)
    check_update(made.update, made.loss, rate=made.rate, average=made.average)


def changing_experts(seed, n=4000):
    """Advice and answers; 0 is the best expert, and from the middle on 1 is."""
    rng = np.random.default_rng(seed)
    y, wrong = rng.choice([-1.0, 1.0], n), np.full((n, 20), 0.5)
    wrong[: n // 2, 0] = wrong[n // 2 :, 1] = 0.05
    return np.where(rng.random((n, 20)) < wrong, -y[:, None], y[:, None]), y


@pytest.mark.parametrize("share", ["auto", 0.01])
@pytest.mark.parametrize("preset", [ddol.dwm_i, ddol.dwm_a, ddol.drwm, ddol.wma, ddol.rwma])
def test_a_best_expert_that_changes_is_followed(preset, share):
    X, y = changing_experts(0)
    agents = 1 if preset in (ddol.wma, ddol.rwma) else ddol.ring(4)

    def errors(share):
        algorithm = preset(0.5, share=share)
        half = [ddol.run(algorithm, (X[:n], y[:n]), agents).mistakes.sum() for n in (2000, 4000)]
        return half[0] / 2000, (half[1] - half[0]) / 2000

    (before, after), (paper_before, paper_after) = errors(share), errors(None)
    assert after < 0.15 < 0.4 < paper_after
    assert before < paper_before + 0.03


@pytest.mark.parametrize("preset", [ddol.dwm_i, ddol.dwm_a])
@pytest.mark.parametrize("alpha", [0.9, 1e-3, 1e-40])
def test_shares_bring_experts_back_however_far_they_were_behind(preset, alpha):
    wrong = overtaken(2_000)
    for share in (0.01, 1e-40):
        engine = after(preset(alpha, share=share), wrong)
        np.testing.assert_allclose(engine.weights()[0, 0, 0], 1.0 - share, rtol=0.2)
        assert (engine.weights() > 0.0).all() and np.isfinite(engine.state().theta).all()


@pytest.mark.parametrize("preset", [ddol.dwm_i, ddol.dwm_a, ddol.drwm])
def test_a_share_of_nothing_is_the_paper_and_keeps_its_bound(preset):
    X, y = changing_experts(1, 400)
    none, zero = (ddol.run(preset(0.7, share=s), (X, y), 3) for s in (None, 0.0))
    assert np.array_equal(none.weights, zero.weights)
    assert none.bounds == zero.bounds != {}


@pytest.mark.parametrize("period", [1, 3])
@pytest.mark.parametrize("delay", [0, 4])
def test_shares_are_the_same_in_threads_and_with_late_answers(period, delay):
    X, y = changing_experts(2, 1003)
    algorithm = ddol.dwm_i(0.7, share=0.02).on(ddol.ring(4), period=period, delay=delay)
    local, threads = (
        ddol.run(algorithm, (X, y), engine=engine, **more)
        for engine, more in (("local", {}), ("threads", {"workers": 2}))
    )
    assert np.array_equal(local.mistakes, threads.mistakes)
    np.testing.assert_allclose(local.weights, threads.weights, rtol=1e-12)


@pytest.mark.parametrize(("period", "delay"), [(1, 0), (3, 0), (2, 3)])
def test_shares_of_rounds_that_are_played_as_events_are_the_same_to_the_bit(period, delay):
    X, y = changing_experts(4, 1000)
    algorithm = ddol.dwm_a(0.7, share="auto").on(ddol.ring(4), period=period, delay=delay)
    rounds, events = (
        ddol.run(algorithm, (X, y), conditions=c) for c in (None, Conditions(latency=1))
    )
    assert np.array_equal(rounds.mistakes, events.mistakes)
    assert np.array_equal(rounds.weights, events.weights)


@pytest.mark.parametrize("period", [1, 3])
@pytest.mark.parametrize("schedule", ["async", "gossip"])
def test_shares_are_followed_by_every_schedule(schedule, period):
    X, y = changing_experts(5)
    conditions = Conditions(latency="exponential:3", drop_messages=0.2, delay="geometric:2")
    algorithm = ddol.dwm_i(0.5, share=0.01).on(ddol.ring(4), period=period)
    first = ddol.run(algorithm, (X, y), schedule=schedule, conditions=conditions, record=True)
    assert first.error < 0.1
    again = ddol.run(algorithm, (X, y), schedule=schedule, replay=first.events)
    assert np.array_equal(first.weights, again.weights)


@pytest.mark.parametrize("share", ["auto", 0.01])
@pytest.mark.parametrize("preset", [ddol.wma, ddol.rwma, ddol.dwm_i, ddol.dwm_a, ddol.drwm])
def test_where_experts_share_the_bound_is_shown_and_follows_a_change(preset, share):
    X, y = changing_experts(3, 4000)
    agents = 1 if preset in (ddol.wma, ddol.rwma) else 4
    trace = ddol.run(preset(0.5, share=share), (X, y), agents)
    ((name, bound),) = trace.bounds.items()
    assert name.endswith(", shares") and bound["holds"]
    assert trace.mistakes.sum() <= bound["value"] < 0.5 * len(y)
    plain = next(iter(ddol.run(preset(0.5), (X, y), agents).bounds.values()))
    assert (
        bound["value"] < 0.6 * plain["value"]
    )  # of the best expert, which is best for half of the time
    assert next(iter(trace.bound_curves().values()))[-1] == bound["value"]


def test_where_experts_share_and_answers_are_chosen_no_theorem_is_shown():
    algorithm = ddol.rwma(0.7, share="auto", query="experts")
    assert "bound not offered: experts share their weights" in find_theorem(algorithm).reason


@pytest.mark.parametrize("share", [-0.1, 0.6, math.nan, 1e-41, "often"])
def test_a_share_is_auto_or_at_most_half(share):
    with pytest.raises(ValueError, match="`share` must be 'auto', 0 or a number"):
        ddol.dwm_i(share=share)
