"""Asking for some of the answers: the rules, the kernel against the reference, and the limits."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import ddol
from ddol.reference import play_round, start
from ddol.streams import synthetic
from ddol.update.adaptive import ABOVE
from ddol.update.asking import HEARD, LABELS, NUMBERS, QUESTIONS, Asking, asking_of, buy, wish

RNG = np.random.default_rng(5)
X = RNG.standard_normal((4000, 5))
Y = np.where(X @ [1.0, -2.0, 0.5, 0.0, 1.0] + 0.5 * RNG.standard_normal(4000) >= 0, 1.0, -1.0)
ADVICE = np.where(RNG.random((4000, 6)) < 0.8, Y[:, None], -Y[:, None])
ADVICE[:, 0] = np.where(RNG.random(4000) < 0.99, Y, -Y)


def test_what_users_write():
    assert asking_of(None) is asking_of(1.0) is asking_of("b:inf") is asking_of("random:1") is None
    assert asking_of("unbiased:2") == Asking("margin", b=2.0, unbiased=True)
    assert asking_of(0) == Asking("budget", share=0.0)
    assert asking_of("0.2+neighbours") == Asking("budget", share=0.2, sure=1.0)
    assert asking_of("1+neighbours:2").sure == 2.0
    for wrong in (
        "2",
        "-0.1",
        "b:-1",
        "often",
        "random:x",
        "nan",
        "0.2+friends",
        "0.2+neighbours:-1",
    ):
        with pytest.raises(ValueError, match="query"):
            asking_of(wrong)


@pytest.mark.parametrize(
    ("algorithm", "query", "message"),
    [
        (ddol.adaptive("squared"), 0.2, "for classes"),
        (ddol.dogd(), "experts", "an algorithm with experts"),
    ],
)
def test_rules_that_an_algorithm_cannot_follow(algorithm, query, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(algorithm, query=query)


def test_one_example_a_round():
    with pytest.raises(ValueError, match="`batch` is 2"):
        ddol.dogd().on(2, batch=2, query=0.5)


@pytest.mark.parametrize("share", [0.0, 0.05, 0.3, 0.9])
def test_a_budget_is_never_exceeded_and_is_used(share):
    p, own = Asking("budget", share=share).parameters(0.0), np.zeros(NUMBERS)
    margins = np.abs(RNG.standard_normal(3000)) * 1e-9  # whatever the scale
    for seen, (margin, chance) in enumerate(zip(margins, RNG.random(3000), strict=True), start=1):
        buy(p, own, float(seen), wish(p, own, float(seen), margin, chance))
        assert own[LABELS] <= share * seen
    assert own[LABELS] >= 0.8 * share * 3000


@pytest.mark.parametrize(
    ("algorithm", "query", "rows"),
    [
        (ddol.dogd(), "0.3", X),
        (ddol.adaptive(), "b:0.5", X),
        (ddol.dogd("logistic"), "unbiased:0.7", X),
        (ddol.dwm_i(), "experts", ADVICE),
        (ddol.dwm_a(), "random:0.4", ADVICE),
        (ddol.drwm(), "experts", ADVICE),
        (ddol.adaptive(), "adaptive:0.5", X),
        (ddol.adaptive(), "0.7+neighbours", X),
        (ddol.dogd("logistic"), "b:0.5+neighbours:0.5", X),
        (ddol.dwm_i(), "experts+neighbours", ADVICE),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
@pytest.mark.parametrize("delay", [0, 2])
def test_the_kernel_asks_as_the_reference_does(algorithm, query, rows, delay):
    n, rounds = 3, 60
    algorithm = algorithm.on(ddol.ring(n), query=query, delay=delay, period=2)
    trace = ddol.run(algorithm, (rows[: n * rounds], Y[: n * rounds]), seed=7)
    chances = np.stack(
        [
            np.random.Generator(np.random.PCG64(np.random.SeedSequence([7, a]))).random((rounds, 1))
            for a in range(n)
        ],
        axis=1,
    )
    agents, mistakes = start(algorithm, rows.shape[1]), np.zeros(n, int)
    for r in range(rounds):
        mine = slice(r * n, r * n + n)
        given = [(x[None], np.array([y])) for x, y in zip(rows[mine], Y[mine], strict=True)]
        agents, outcome = play_round(algorithm, agents, given, chances[r])
        mistakes += outcome.mistakes
    assert trace.mistakes.tolist() == mistakes.tolist()
    np.testing.assert_allclose(trace.state.asking[:, LABELS:], agents.asking[:, LABELS:])
    assert ("neighbours" in query) == (agents.asking[:, HEARD].sum() > 0)
    assert (agents.asking[:, HEARD] <= agents.asking[:, QUESTIONS]).all()
    assert 0 < trace.labels < trace.examples


def test_the_limits_are_those_without_a_rule():
    everything = ddol.run(ddol.adaptive(), (X, Y), ddol.ring(4))
    for query in (1.0, "b:inf", "random:1"):
        same = ddol.run(ddol.adaptive(), (X, Y), ddol.ring(4), query=query)
        np.testing.assert_array_equal(same.weights, everything.weights)
        assert same.labels == same.examples == 4000
    for query in (0.0, "b:0", "adaptive:0", "unbiased:0", "random:0"):
        nothing = ddol.run(ddol.dogd(), (X, Y), ddol.ring(4), query=query)
        assert nothing.labels == 0
        assert not nothing.weights.any()
        assert nothing.examples == 4000


@pytest.mark.parametrize("engine", ["threads"])
def test_engines_ask_alike(engine):
    alone = ddol.run(ddol.adaptive(), (X, Y), ddol.ring(4), query=0.2)
    other = ddol.run(ddol.adaptive(), (X, Y), ddol.ring(4), query=0.2, engine=engine, workers=2)
    assert other.mistakes.tolist() == alone.mistakes.tolist()
    assert other.labels == alone.labels


def test_events_ask_alike():
    alone = ddol.run(ddol.dogd(), (X, Y), ddol.ring(4), query=0.2)
    recorded = ddol.run(ddol.dogd(), (X, Y), ddol.ring(4), query=0.2, record=True)
    again = ddol.run(ddol.dogd(), (X, Y), ddol.ring(4), query=0.2, replay=recorded.events)
    assert again.mistakes.tolist() == alone.mistakes.tolist()
    assert again.labels == alone.labels


@pytest.mark.parametrize(
    ("query", "chosen"), [(None, False), ("random:0.2", False), (0.2, True), ("b:1", True)]
)
def test_answers_near_a_boundary_confirm_nothing(query, chosen):
    """Neither a scale of scores nor features that agree are learned from answers chosen by margin."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((3000, 30))
    labels = np.sign(rows[:, 0] + 0.1 * rng.standard_normal(3000))
    algorithm = ddol.adaptive(query=query)
    trace = ddol.run(algorithm, (rows, labels))
    [above] = trace.state.scalars[0, :, ABOVE]
    assert algorithm.update.chosen == chosen
    assert (above == 0.0) == chosen


def test_looking_at_margins_beats_asking_at_random():
    """On average: of a single order of the examples either may be the better one."""
    orders = [np.random.default_rng(seed).permutation(len(Y)) for seed in range(8)]
    every, near, drawn = (
        np.mean([ddol.run(ddol.adaptive(), (X[o], Y[o]), query=query).error for o in orders])
        for query in (None, "0.2", "random:0.2")
    )
    assert near < drawn
    assert near < every + 0.01


def test_a_weight_divided_by_its_chance_is_right_on_average():
    """What one step learns, over many draws, is what all answers would have taught."""
    p, own = Asking("margin", b=0.5, unbiased=True).parameters(0.0), np.zeros(NUMBERS)
    weights = [wish(p, own, 1.0, 0.7, chance) for chance in (np.arange(100_000) + 0.5) / 100_000]
    assert abs(np.mean(weights) - 1.0) < 1e-3


def test_an_unbiased_rule_pays_the_penalty_for_every_example():
    """λw needs no answer: in expectation, a round is the round that knows all answers."""
    n, seed, w = 300, 4, np.zeros(5)
    chances = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, 0]))).random(n)
    for t, (x, y, chance) in enumerate(zip(X[:n], Y[:n], chances, strict=True), start=1):
        score, eta = w @ x, 1.0 / np.sqrt(t)
        q = 0.5 / (0.5 + abs(score))
        g = -y * x / q if chance < q and 1.0 - y * score > 0.0 else 0.0
        w = w - eta * (g + w)
    trace = ddol.run(ddol.dogd(), (X[:n], Y[:n]), query="unbiased:0.5", seed=seed)
    np.testing.assert_allclose(trace.weights.ravel(), w, rtol=1e-9)
    assert 0 < trace.labels < n


def test_ten_per_cent_of_the_labels_where_one_expert_leads():
    full = ddol.run(ddol.dwm_i(alpha=0.7), (ADVICE, Y))
    few = ddol.run(ddol.dwm_i(alpha=0.7), (ADVICE, Y), query="experts")
    best = int((ADVICE[:, 0] != Y).sum())
    assert few.labels < 0.3 * few.examples
    assert few.mistakes.sum() - best <= 1.5 * max(full.mistakes.sum() - best, 10)


def test_questions_to_neighbours_are_counted():
    plain = ddol.run(ddol.dogd(), (X, Y), ddol.ring(4), query=0.2)
    helped = ddol.run(ddol.dogd(), (X, Y), ddol.ring(4), query="0.2+neighbours")
    questions = helped.state.asking[:, QUESTIONS].sum()
    assert helped.neighbour_answers > 0 == plain.neighbour_answers
    assert helped.messages == plain.messages + 2 * questions
    assert helped.bytes_sent == plain.bytes_sent + questions * 8 * (X.shape[1] + 1)
    assert helped.to_dict()["neighbour_answers"] == helped.neighbour_answers
    assert helped.labels + helped.neighbour_answers <= helped.examples


def test_neighbours_save_labels_and_agree_on_nothing_by_themselves():
    stream = synthetic.linear(n_examples=12_000, n_features=20, noise=0.05, seed=1)
    alone, helped = (
        ddol.run(ddol.adaptive(), stream, ddol.ring(8), query=query)
        for query in ("random:0.05", "random:0.05+neighbours")
    )
    assert helped.labels < 0.8 * alone.labels
    assert helped.error < alone.error + 0.01


def test_dense_and_sparse_rows_ask_alike():
    import scipy.sparse

    dense = ddol.run(ddol.adaptive(), (X, Y), ddol.ring(4), query="0.2+neighbours")
    sparse = ddol.run(
        ddol.adaptive(), (scipy.sparse.csr_array(X), Y), ddol.ring(4), query="0.2+neighbours"
    )
    assert sparse.mistakes.tolist() == dense.mistakes.tolist()
    assert sparse.neighbour_answers == dense.neighbour_answers


def test_neighbours_of_another_worker_cannot_be_asked():
    with pytest.raises(ValueError, match="local engine"):
        ddol.run(
            ddol.dogd(), (X, Y), ddol.ring(4), query="0.2+neighbours", engine="threads", workers=2
        )


def test_neighbours_in_other_processes_are_refused_before_any_starts():
    from ddol.engines.feed import Feed
    from ddol.engines.plans import plan_of
    from ddol.engines.setup import Setup
    from ddol.engines.state import start_state

    algorithm = ddol.dogd().on(ddol.ring(4), query="0.2+neighbours")
    pytest.importorskip("ray")
    with pytest.raises(
        ValueError, match=r"lets agents ask their neighbours, which ray does not; use local"
    ):
        plan_of(algorithm, Setup("ray", 2)).open(start_state(algorithm, 5), Feed())


def test_events_ask_neighbours_as_rounds_do():
    options = {"query": "0.3+neighbours", "seed": 3}
    alone = ddol.run(ddol.adaptive(), (X, Y), ddol.ring(4), **options)
    recorded = ddol.run(ddol.adaptive(), (X, Y), ddol.ring(4), record=True, **options)
    again = ddol.run(ddol.adaptive(), (X, Y), ddol.ring(4), replay=recorded.events, **options)
    np.testing.assert_array_equal(again.state.asking, alone.state.asking)
    np.testing.assert_array_equal(again.weights, alone.weights)


# --- what theorems say ---------------------------------------------------------------------------


@pytest.mark.parametrize("eta", [0.02, 0.1, 0.5, 1.0, 2.0])
def test_what_a_step_takes_pays_for_a_mistake(eta):
    """The inequality behind the bound of `experts`: with the chance q of asking, for every weight F."""
    F = np.linspace(0.0, 1.0, 10_001)
    q = np.minimum(4 * F * (1 - F) + eta / 3, 1.0)
    paid = -(q / eta) * np.log1p(F * np.expm1(-eta / q))
    assert (paid + eta / 8 + 1e-12 >= F).all()


@pytest.mark.parametrize(
    ("query", "name"), [("experts", "selective sampling"), ("random:0.2", "label-efficient")]
)
def test_bounds_of_asking_hold_on_average(query, name):
    rng, slack = np.random.default_rng(11), []
    for game in range(60):
        n, P = 400, int(rng.integers(2, 9))
        skill = rng.uniform(0.3, 1.0, P)
        y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
        advice = np.where(rng.random((n, P)) < skill, y[:, None], -y[:, None])
        trace = ddol.run(ddol.drwm(alpha=0.9), (advice, y), query=query, seed=game)
        told = trace.bounds[name]
        assert told["holds"] and told["observed"] <= told["value"]
        eta = -np.log(0.9)
        best = (advice != y[:, None]).sum(axis=0).min()
        added = eta * n / 8 if query == "experts" else eta * n / 0.4
        slack.append(best + np.log(P) / eta + added - trace.expected_mistakes.sum())
    assert np.mean(slack) > 0


def test_experts_asked_about_at_random_are_charged_what_they_would_have_lost():
    """The label-efficient forecaster: weights exp(−η·Σ loss/ε) over the answers that were bought."""
    share, alpha, seed, n = 0.25, 0.99, 3, len(Y)
    trace = ddol.run(ddol.drwm(alpha=alpha), (ADVICE, Y), query=f"random:{share}", seed=seed)
    draws = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, 0]))).random(n)
    asked = np.modf(draws * 2.0**26)[0] < share
    lost = (Y[:, None] != ADVICE)[asked].sum(axis=0) / share
    weights = np.exp(np.log(alpha) * (lost - lost.min()))
    np.testing.assert_allclose(
        trace.weights.ravel() / trace.weights.sum(), weights / weights.sum(), rtol=1e-9
    )
    assert trace.labels == asked.sum()
    best = (Y[:, None] != ADVICE).sum(axis=0).min()
    assert trace.bounds["label-efficient"]["value"] > best


def test_who_asks_for_nothing_has_no_bound():
    trace = ddol.run(ddol.drwm(), (ADVICE, Y), query="random:0")
    assert trace.labels == 0 and not trace.bounds


def test_no_theorem_for_all_answers_speaks_of_some():
    """Learning from some answers only, the bound of weighted majority does not hold."""
    for query in (0.2, "b:1", "experts", "random:0.3"):
        assert not ddol.run(ddol.dwm_i(), (ADVICE, Y), query=query).bounds
    assert not ddol.run(ddol.drwm(), (ADVICE, Y), ddol.ring(3), query="experts").bounds
