"""What a private agent sends, against what its budget allows, and what it must never do."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.stats import kstest

import ddol
from ddol.cli.app import app
from ddol.engines.state import start_state
from ddol.reference import play_round, start
from ddol.streams.errors import DataError
from ddol.update.budget import Budget, budget_of
from ddol.update.private import EXAMPLES, GRADIENT, GRADIENT0, OWN, RELEASED, Z, noise_of, normal

D = 3
BUDGET = Budget(4.0, releases=3, every=8)


def stream(n: int, seed: int = 0, agents: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Rows and labels that all agents get alike."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, D))
    y = np.where(X[:, 0] - 0.5 * X[:, 1] + 0.3 * rng.standard_normal(n) > 0, 1.0, -1.0)
    return np.repeat(X, agents, axis=0), np.repeat(y, agents)


def shared(trace: ddol.Trace) -> tuple[np.ndarray, np.ndarray]:
    """Rows (agents, rows, D) and scalars (agents, numbers) of the learners that are sent."""
    rows, scalars = trace.algorithm.update.part_of(trace.state.theta, trace.state.scalars, 0)
    return rows[:, 0], scalars[:, 0]


def alone(budget: Budget, agents: int, **more) -> ddol.Algorithm:
    """Agents that hear nobody."""
    return ddol.private(ddol.adaptive(**more), budget).on(agents, np.eye(agents))


# --- the audit -------------------------------------------------------------------------------------------

TRIALS = 400


def sent(budget: Budget, with_canary: bool) -> np.ndarray:
    """What agents have released of the same rows, a canary among them or an example of no effect."""
    X, y = stream(budget.every + 1, agents=TRIALS)
    weight = np.ones(len(y))
    X[: 3 * TRIALS], y[: 3 * TRIALS] = 4.0, 1.0
    weight[2 * TRIALS : 3 * TRIALS] = 1e6 if with_canary else 0.0  # as long as a gradient can be
    trace = ddol.run(alone(budget, TRIALS), (X, y, weight), seed=int(with_canary))
    rows, scalars = shared(trace)
    assert (scalars[:, RELEASED] == 1.0).all()
    return np.column_stack([scalars[:, 0], rows[:, Z]])


def advantage(budget: Budget) -> float:
    """True minus false positives of the best threshold on the first release along the canary's direction."""
    without, present = sent(budget, False), sent(budget, True)
    towards = present.mean(axis=0) - without.mean(axis=0)
    scores = without @ towards, present @ towards
    levels = np.concatenate(scores)
    return max(float((scores[1] >= t).mean() - (scores[0] >= t).mean()) for t in levels)


@pytest.mark.parametrize("epsilon", (0.5, 2.0))
def test_a_membership_attack_gains_no_more_than_epsilon_allows(epsilon):
    budget, luck = Budget(epsilon, releases=3, every=8), 3.0 * math.sqrt(0.5 / TRIALS)
    found = advantage(budget)
    assert found <= math.tanh(epsilon / 2) + budget.delta + luck
    # What the best attack on one sum can gain where the noise is as large as it should be.
    assert found == pytest.approx(math.erf(1 / (math.sqrt(8) * budget.noise)), abs=luck)


def test_the_same_attack_finds_the_canary_where_there_is_no_noise():
    assert advantage(replace(BUDGET, noise=0.0)) == 1.0


def test_no_gradient_is_longer_than_1():
    rng = np.random.default_rng(0)
    X, y = 1e9 * rng.standard_normal((200, 50)), np.tile([1.0, -1.0], 100)
    rows, scalars = shared(ddol.run(alone(BUDGET, 200, C=1e9), (X, y)))
    norms = np.hypot(np.linalg.norm(rows[:, GRADIENT], axis=1), scalars[:, GRADIENT0])
    assert (norms <= 1.0 + 1e-12).all() and norms.max() > 0.99


def test_until_its_release_an_example_changes_nothing_that_is_sent():
    X, y = stream(30)
    other, told = X.copy(), y.copy()
    other[13], told[13] = [1e9, -1e9, 1e9], -y[13]
    found = []
    for rows, labels in ((X, y), (other, told)):
        each = [ddol.run(alone(BUDGET, 1), (rows[:n], labels[:n])) for n in (14, 16, 17)]
        found.append([shared(trace)[0][0, Z] for trace in each])
    one, two = np.array(found)
    assert (one[:2] == two[:2]).all() and (one[2] != two[2]).any()
    assert (one[0] == one[1]).all() and (one[1] != one[2]).any()  # messages move with releases only


def test_the_data_have_no_say_in_when_something_is_released():
    counts = []
    for sign, weight in ((1.0, 1.0), (-1.0, 0.0)):
        X, y = stream(21)
        scalars = shared(ddol.run(alone(BUDGET, 1), (X, sign * y, np.full(21, weight))))[1]
        counts.append(scalars[0, [RELEASED, EXAMPLES]].tolist())
    assert counts == [[2.0, 21.0]] * 2
    assert BUDGET.released_after(21) == 2


# --- noise and accounts ------------------------------------------------------------------------------------


def test_draws_are_normal_and_those_of_agents_differ():
    drawn = np.array([[normal(k, 7, 1, 0, place) for place in range(50)] for k in range(60)])
    assert kstest(drawn.ravel(), "norm").pvalue > 0.01
    assert len(np.unique(drawn)) == drawn.size
    start = start_state(ddol.private(ddol.adaptive(), BUDGET).on(50), 2, seed=3)
    assert len(np.unique(start.scalars, axis=0)) == 50


def test_a_prefix_has_the_noise_of_its_nodes():
    samples = [[noise_of(3, k, prefix, 1) for prefix in range(1, 9)] for k in range(2000)]
    variances = np.var(samples, axis=0)
    assert np.allclose(variances, [bin(k).count("1") for k in range(1, 9)], rtol=0.15)
    assert noise_of(3, 1, 0, 1) == 0.0


def test_noise_follows_from_the_budget():
    small, large = Budget(1.0, releases=64), Budget(8.0, releases=64)
    assert small.noise > 2 * large.noise
    assert Budget(1.0, 1e-8, 64).noise > small.noise
    spent = [small.spent(k) for k in range(65)]
    assert spent[0] == 0.0 and spent[-1] <= 1.0
    assert all(a <= b for a, b in pairwise(spent))


@pytest.mark.parametrize(
    "text", ("epsilon:0", "epsilon:-1", "epsilon:nan", "epsilon", "delta:1e-5", "", "sites:1",
             "epsilon:4,delta:2", "epsilon:1,unit:site", "epsilon:1,every:0.5", "epsilon:1,noise:0")
)  # fmt: skip
def test_budgets_that_mean_nothing_are_refused(text):
    with pytest.raises(DataError, match="privacy"):
        budget_of(text)


# --- runs ----------------------------------------------------------------------------------------------


def test_sharing_ends_with_the_budget_and_learning_alone_does_not():
    X, y = stream(80)
    short, long = (ddol.run(alone(BUDGET, 1), (X[:n], y[:n])) for n in (25, 80))
    assert short.privacy["used_up"] == long.privacy["used_up"] == [True]
    assert short.privacy["spent"][0] == long.privacy["spent"][0] <= 4.0
    assert (shared(short)[0][:, Z] == shared(long)[0][:, Z]).all()
    own = [
        trace.algorithm.update.part_of(trace.state.theta, trace.state.scalars, 1)[0]
        for trace in (short, long)
    ]
    assert (own[0] != own[1]).any()


def test_the_reference_and_all_engines_agree():
    X, y = stream(240, seed=2)
    algorithm = ddol.private(ddol.adaptive(), Budget(4.0, releases=9, every=7, public=5)).on(4)
    agents = start(algorithm, D)
    for k in range(0, len(y), 4):
        agents, _ = play_round(
            algorithm, agents, [(X[i : i + 1], y[i : i + 1]) for i in range(k, k + 4)]
        )
    expected = np.array([own[0].rows[:OWN] for own in agents.states])
    for engine in ("local", "threads"):
        trace = ddol.run(algorithm, (X, y), engine=engine)
        assert np.allclose(shared(trace)[0][:, :OWN], expected, rtol=1e-9, atol=1e-12)
        assert trace.privacy["released"] == [7, 7, 7, 7]


def test_noise_never_makes_a_site_much_worse_than_alone():
    X, y = stream(3200)
    for epsilon in (0.01, 4.0):
        algorithm = ddol.private(ddol.adaptive(), Budget(epsilon, releases=8)).on(ddol.ring(8))
        for row in ddol.run(algorithm, (X, y)).sites():
            assert row["loss"] <= min(row["loss_alone"], row["loss_shared"]) + row["bound"]


def test_sharing_privately_helps_where_all_are_alike():
    X, y = stream(16_000)
    rows = ddol.run(
        ddol.private(ddol.dogd("logistic"), "epsilon:8,releases:20"), (X, y), 16
    ).sites()
    assert sum(row["loss"] for row in rows) < sum(row["loss_alone"] for row in rows)


def test_several_classes_have_noise_for_each_output():
    X, _ = stream(300)
    algorithm = ddol.private(ddol.adaptive(), BUDGET)
    trace = ddol.run(algorithm, (X, np.arange(300) % 3), outputs=3)
    learner = trace.algorithm.update.learner
    assert learner.parameters()[1] == pytest.approx(math.sqrt(3) * BUDGET.noise)


@pytest.mark.parametrize(
    "more", ({"query": 0.5}, {"talk_to": 1}, {"teach": 1}, {"trust": "test"}, {"memories": (10.0, 30.0)})
)  # fmt: skip
def test_what_would_tell_of_examples_is_refused(more):
    with pytest.raises(ValueError, match="privacy"):
        ddol.private(ddol.adaptive(), "epsilon:4").on(4, **more)


def test_regression_and_several_passes_are_refused():
    with pytest.raises(ValueError, match="privacy"):
        ddol.private(ddol.adaptive("squared"), "epsilon:4")
    with pytest.raises(DataError, match="passes"):
        ddol.run(alone(BUDGET, 1), stream(20), passes=2)
    with pytest.raises(DataError, match="passes"):
        ddol.DDOLClassifier(privacy="epsilon:4").fit(*stream(20))
    with pytest.raises(ValueError, match="labels are counted"):
        weighted = {"passes": 1, "class_weight": "balanced"}
        ddol.DDOLClassifier(privacy="epsilon:4", **weighted).fit(*stream(20))


@pytest.mark.parametrize(
    ("option", "value"),
    (
        ("--class-weight", "balanced"),
        ("--missing", "mean"),
        ("--initial", "m.ddol"),
        ("--passes", "2"),
    ),
)
def test_what_makes_an_example_count_twice_is_refused(option, value):
    """Counts of labels, means and models follow from examples, and are not noisy."""
    done = CliRunner().invoke(app, ["train", "--privacy", "epsilon:4", option, value])
    assert done.exit_code == 2 and done.stderr.count("\n") == 1
    assert option.strip("-") in done.stderr and "privacy" in done.stderr


def test_a_model_predicts_without_the_accountant(tmp_path, monkeypatch):
    X, y = stream(200)
    model = ddol.run(ddol.private(ddol.adaptive(), BUDGET), (X, y), 2).model()
    model.save(tmp_path / "m.ddol")
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    again = ddol.load(tmp_path / "m.ddol")
    for agent in (None, 0, 1):
        one, two = (each.decision_function(X, agent=agent) for each in (model, again))
        assert (one == two).all()
