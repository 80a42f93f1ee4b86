"""Regret through the library's engine: its parts, its bound, and how it falls."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ddol
from ddol.measure.regret import regret
from ddol.measure.replay import replay
from ddol.reference import play_round, start
from ddol.streams.dealing import table_round_robin
from ddol.streams.rows import Block, Rows
from ddol.update.losses import loss_named
from ddol.update.mirrors import SignedEntropy


def examples(seed=0, n=240, d=3, noise=0.5):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, np.where(X @ np.linspace(-1, 2, d) + noise * rng.standard_normal(n) > 0, 1.0, -1.0)


def test_social_is_the_sum_and_the_end_of_its_curve():
    data = examples()
    trace = ddol.run(ddol.dogd(C=2.0), data, 4)
    found = regret(trace, data)
    w = found.comparator.weights
    cost = 2 * np.maximum(0, 1 - data[1] * (data[0] @ w)) + w @ w / 2
    by_agent = cost.reshape(-1, 4).sum(axis=0)
    np.testing.assert_allclose(found.individual, trace.loss - by_agent)
    assert found.social == pytest.approx(found.individual.sum())
    assert found.social_curve[-1] == pytest.approx(found.social)
    assert found.comparator.objective == pytest.approx(cost.sum())


def test_against_the_best_expert():
    rng = np.random.default_rng(0)
    y = rng.choice([-1.0, 1.0], 90)
    advice = np.where(rng.random((90, 5)) < 0.3, -y[:, None], y[:, None])
    trace = ddol.run(ddol.dwm_a(), (advice, y), 3)
    found = regret(trace, (advice, y))
    wrong = advice != y[:, None]
    assert found.social == trace.mistakes.sum() - wrong.sum(axis=0).min()
    own = regret(trace, (advice, y), own=True)
    least = [wrong[i::3].sum(axis=0).min() for i in range(3)]
    np.testing.assert_array_equal(own.individual, trace.mistakes - least)


def test_ones_own_best_is_no_worse_than_the_common_one():
    data = examples()
    trace = ddol.run(ddol.dogd(), data, 3)
    assert regret(trace, data, own=True).social >= regret(trace, data).social - 1e-3


def test_several_passes_and_streams_of_unequal_length():
    X, y = examples(n=101)
    streams = [(X[:60], y[:60]), (X[60:], y[60:])]
    trace = ddol.run(ddol.doeg(radius=2.0), streams, 2, passes=2)
    found = regret(trace, streams, passes=2)
    assert found.bounds["DOMD"]["holds"]
    assert found.bounds["DOMD"]["observed"] == pytest.approx(found.social, rel=1e-9)
    with pytest.raises(ValueError, match="the trace is of 202 examples, the data have 101"):
        regret(trace, streams)


def test_weights_of_ones_own_are_compared_with():
    data = examples()
    trace = ddol.run(ddol.adaptive(), data, 2)
    found = regret(trace, data, weights=np.zeros(3))
    assert found.social == pytest.approx(trace.loss.sum() - 240 * np.log(2.0))
    assert found.why_no_bound == "no bound: no theorem of the paper is about Adaptive"


def test_the_bound_is_left_out_where_the_theorem_is_silent():
    data = examples()
    found = regret(ddol.run(ddol.dogd(), data, ddol.ring(5)), data)
    assert found.bounds == {}
    assert "not that of the complete graph" in found.why_no_bound


@pytest.mark.parametrize(
    "algorithm",
    [
        ddol.dogd(C=0.5),
        ddol.dogd(l2=0.0, radius=0.7),
        ddol.doeg(radius=3.0),
        ddol.p_norm(1.5, loss="hinge"),
        ddol.winnow(),
    ],
    ids=lambda a: a.name,
)
def test_replay_sees_what_the_reference_does(algorithm):
    X, y = examples(n=50)
    n, w = 3, np.array([0.2, 0.3, 0.5])
    table = table_round_robin(len(y), n)
    placed = algorithm.on(n)
    seen = replay(placed, [Block(Rows.from_dense(X, y), table)], w)
    agents, total = start(placed, 3), 0.0
    for t, row in enumerate(table[:, :, 0]):
        state, mirror = agents.states[0][0], placed.update.mirror
        before = placed.update.weights(state)
        # Signed weights do not determine their two logarithms, which are kept up to a common shift.
        signed = isinstance(mirror, SignedEntropy)
        theta = state.rows[:2] + state.scalars[0] if signed else mirror.dual(before)
        expected = mirror.divergence(w, theta)
        assert seen.divergence[t] == pytest.approx(expected, rel=1e-9, abs=1e-12)
        shown = [(X[[k]], y[[k]]) if k >= 0 else (X[:0], y[:0]) for k in row]
        gradient = sum(slope_at(placed, before, *one) for one in shown if len(one[1]))
        dual = {"doeg": np.inf, "winnow": np.inf, "p_norm": 3.0}.get(placed.name, 2)
        squared = np.linalg.norm(gradient, dual) ** 2
        assert seen.norm_squared[t] == pytest.approx(squared, rel=1e-9, abs=1e-12)
        agents, outcome = play_round(placed, agents, shown)
        total += outcome.loss.sum()
        assert seen.loss[t] == pytest.approx(total)


def slope_at(algorithm, w, X, y):
    slope = algorithm.loss.derivative(float(X[0] @ w), float(y[0]), ())
    return algorithm.C * slope * X[0] + algorithm.update.l2 * w


RUNS = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 10**6),
        "agents": st.integers(1, 6),
        "n": st.integers(2, 120),
        "d": st.integers(1, 5),
        "scale": st.sampled_from([0.1, 1.0, 10.0]),
        "loss": st.sampled_from(["hinge", "logistic", "squared_hinge"]),
        "rate": st.sampled_from([0.1, 1.0, 3.0]),
        "kind": st.sampled_from(["dogd", "ball", "doeg"]),
        "noise": st.sampled_from([0.0, 0.5, 100.0]),
    }
)


@settings(max_examples=150)
@given(RUNS)
def test_the_regret_bound_is_never_exceeded(run):
    """`regret` turns an exceeded bound into a RuntimeWarning, which is an error here."""
    rng = np.random.default_rng(run["seed"])
    X, y = examples(run["seed"], run["n"], run["d"], run["noise"])
    X, y[0] = X * run["scale"], -y[-1]
    loss = loss_named(run["loss"])
    algorithm = {
        "dogd": ddol.dogd(loss, rate=run["rate"], l2=0.1),
        "ball": ddol.dogd(loss, rate=run["rate"], l2=0.0, radius=2.0),
        "doeg": ddol.doeg(loss, rate=run["rate"], radius=2.0),
    }[run["kind"]]
    trace = ddol.run(algorithm, (X, y), run["agents"])
    w = rng.standard_normal(run["d"])
    w *= 2.0 * rng.random() / np.abs(w).sum()
    for weights in (None, w):
        found = regret(trace, (X, y), weights=weights)
        assert found.bounds["DOMD"]["holds"]
        assert np.all(found.social_curve <= found.bound_curve * (1 + 1e-9) + 1e-6)


def test_regret_per_round_falls_like_one_over_the_root_of_the_rounds():
    """Answers that nobody can know: agents cannot do better than √T, and do no worse."""
    rng = np.random.default_rng(0)
    lengths = 2 ** np.arange(8, 15)
    per_round = np.zeros(len(lengths))
    for _ in range(12):
        y = rng.choice([-1.0, 1.0], 4 * lengths[-1])
        for k, rounds in enumerate(lengths):
            data = np.ones((4 * rounds, 1)), y[: 4 * rounds]
            trace = ddol.run(ddol.dogd(l2=0.0, radius=1.0), data, 4)
            # On the ball hinge is 1 − y·w: the best weight is the sign of the answers' sum.
            best = np.array([np.sign(data[1].sum())])
            found = regret(trace, data, weights=best, bound=False)
            per_round[k] += found.social / rounds
    slope = np.polyfit(np.log(lengths), np.log(per_round), 1)[0]
    assert -0.62 < slope < -0.38
