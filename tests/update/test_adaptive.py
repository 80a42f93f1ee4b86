"""Algorithms that standardise while they learn: the rule, what it is invariant under, what it reaches."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression

import ddol
import standard_oracles
from ddol.engines.learner import Learner
from ddol.streams.open import open_stream
from ddol.streams.rows import Rows, concatenate
from ddol.streams.synthetic import linear
from ddol.update.adaptive import ABOVE

DATA = Path(os.environ.get("DDOL_DATA", Path(__file__).parents[3] / "shared" / "data"))
FILES = {
    "svmguide1": "svmguide1",
    "cod-rna": "cod-rna.bz2",
    "covtype": "covtype.libsvm.binary.scale.bz2",
}


@cache
def shuffled(name):
    """A data set as dense rows with a constant feature, in the order of default_rng(0)."""
    path = DATA / FILES[name]
    if not path.exists():
        pytest.skip(f"{path} is missing; set DDOL_DATA to the folder that has it")
    rows = concatenate([rows for rows, _ in open_stream(str(path)).read()])
    X = np.hstack([rows.to_scipy().toarray(), np.ones((len(rows), 1))])
    order = np.random.default_rng(0).permutation(len(rows))
    return np.ascontiguousarray(X[order]), rows.y[order]


@pytest.mark.parametrize(
    ("name", "network", "places", "most"),
    [
        ("svmguide1", 1, {}, 6.0),
        ("svmguide1", 16, {}, 7.0),
        ("svmguide1", ddol.ring(16), {}, 7.0),
        ("cod-rna", 1, {}, 6.5),
        ("cod-rna", 1, {"delay": 100}, 7.0),
        ("cod-rna", 16, {}, 7.0),
        ("cod-rna", ddol.ring(16), {}, 7.0),
        ("cod-rna", ddol.torus(4, 4), {}, 7.0),
        ("cod-rna", 16, {"period": 16}, 7.3),
        ("cod-rna", 16, {"period": 256}, 8.0),
        ("covtype", 1, {}, 24.7),
        ("covtype", ddol.torus(4, 4), {}, 24.8),
        ("covtype", 16, {"period": 256}, 25.8),
    ],
    ids=lambda value: str(getattr(value, "name", value)),
)
def test_errors_at_the_defaults(name, network, places, most):
    assert 100 * ddol.run(ddol.adaptive(), shuffled(name), network, **places).error <= most


def blobs(n=400, n_features=5, seed=0):
    """Rows with a few zeros and a constant feature."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, n_features)) * (rng.random((n, n_features)) < 0.8)
    X[:, -1] = 1.0
    return X, np.where(
        X @ rng.standard_normal(n_features) + 0.3 * rng.standard_normal(n) > 0, 1.0, -1.0
    )


FREE = {
    "adaptive": ddol.adaptive(),
    "coin": ddol.coin(),
    "newton": ddol.newton(),
    "sketch": ddol.newton(rank=3),
}
HINGE = {
    "adaptive": ddol.adaptive("hinge"),
    "coin": ddol.coin("hinge"),
    "newton": ddol.newton("hinge"),
    "sketch": ddol.newton("hinge", rank=3),
}
NETWORKS = (ddol.complete(1), ddol.complete(4), ddol.ring(5))
PLACES = ({}, {"period": 3}, {"delay": 7}, {"delay": 7, "gradient": "kept"})


def logistic_slope(z, y):
    return -y / (1.0 + np.exp(y * z))


@pytest.mark.parametrize("name", FREE)
@pytest.mark.parametrize("network", NETWORKS, ids=lambda network: network.name)
@pytest.mark.parametrize("places", PLACES, ids=str)
def test_engines_follow_the_rule_as_it_is_written(name, network, places):
    """Features that are dense, half dense, sparse, constant, far from 0; rounds that are not sampled."""
    rng, n = np.random.default_rng(1), 300 * network.n_agents
    filled = rng.random((n, 5)) < [1.0, 0.9, 0.55, 0.3, 0.05]
    X = rng.standard_normal((n, 5)) * filled + [300.0, 0.0, 0.0, 0.0, 0.0]
    y = np.where(X @ [1.0, -1.0, 2.0, 1.0, 3.0] > 300.0, 1.0, -1.0)
    algorithm = FREE[name].on(network, **places)
    agents = [standard_oracles.AGENTS[name](5, network.n_agents) for _ in range(network.n_agents)]
    matrix = algorithm.mixing.at(1).dense() if network.n_agents > 1 else np.ones((1, 1))
    for agent in agents:
        agent.gain = (len(matrix) ** 2 / np.sum(matrix**2)) ** 0.125
    scores = standard_oracles.play(agents, X, y, matrix, logistic_slope, **places)
    for rows in (X, csr_matrix(X)):
        trace = ddol.run(FREE[name], (rows, y), network, **places)
        assert trace.mistakes.sum() == np.sum((scores >= 0) != (y > 0))
        assert trace.loss.sum() == pytest.approx(np.logaddexp(0.0, -y * scores).sum(), rel=1e-9)


def test_rounds_without_statistics_are_the_same_in_threads_and_smaller_in_bytes():
    X, y = blobs(1_200)
    alone, together = (
        ddol.run(ddol.adaptive(), (X, y), ddol.ring(4), engine="threads", workers=k) for k in (1, 2)
    )
    assert (together.weights == alone.weights).all()
    sampled = sum(standard_oracles.is_sampled(t) for t in range(1, 301))
    assert alone.bytes_sent == 8 * 8 * (300 * (2 * 5 + 10) + sampled * (3 * 5 + 1))


@pytest.mark.parametrize("name", FREE)
@pytest.mark.parametrize("network", [1, 4, ddol.ring(4)], ids=lambda n: str(getattr(n, "name", n)))
@settings(max_examples=8)
@given(
    powers=st.lists(st.floats(-6, 6), min_size=4, max_size=4),
    offsets=st.lists(st.floats(-1e3, 1e3), min_size=4, max_size=4),
)
def test_units_and_offsets_of_dense_features_change_nothing(name, network, powers, offsets):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 4)) @ rng.standard_normal((4, 4)) + 0.1
    y = np.where(X @ rng.standard_normal(4) > 0.2, 1.0, -1.0)
    moved = (X + np.pi + offsets) * 10.0 ** np.array(powers)
    plain, other = (ddol.run(FREE[name], (rows, y), network) for rows in (X, moved))
    assert other.mistakes.tolist() == plain.mistakes.tolist()
    np.testing.assert_allclose(other.loss, plain.loss, rtol=1e-6)


@pytest.mark.parametrize("name", FREE)
@settings(max_examples=8)
@given(powers=st.lists(st.integers(-20, 20), min_size=5, max_size=5))
def test_powers_of_two_as_units_of_sparse_features_change_nothing(name, powers):
    X, y = blobs()
    factors = 2.0 ** np.array(powers)
    plain = ddol.run(FREE[name], (X, y), ddol.ring(4))
    scaled = ddol.run(FREE[name], (csr_matrix(X * factors), y), ddol.ring(4))
    assert scaled.mistakes.tolist() == plain.mistakes.tolist()
    np.testing.assert_allclose(scaled.weights * factors, plain.weights, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("preset", [ddol.adaptive, ddol.coin, ddol.newton])
@pytest.mark.parametrize(("unit", "offset"), [(2.0**-20, 0.0), (2.0**20, 0.0), (1.0, 1e6)])
def test_units_and_offsets_of_a_regression_s_answers(preset, unit, offset):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 4))
    y = X @ [1.0, -2.0, 0.5, 0.0] + 0.1 * rng.standard_normal(300)
    plain, moved = (ddol.run(preset("squared"), (X, z), 3) for z in (y, unit * y + offset))
    np.testing.assert_allclose(moved.weights, unit * plain.weights, rtol=1e-5)


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x + 1e9,
        lambda x: 1e-150 * x,
        lambda x: 1e150 * x,
        lambda x: np.where(np.arange(len(x)) == 300, 1e6, x),
    ],
    ids=["at 1e9", "1e-150", "1e150", "an outlier of 1e6 deviations"],
)
@pytest.mark.parametrize("network", [1, ddol.ring(4)], ids=lambda n: str(getattr(n, "name", n)))
def test_one_feature_whatever_it_looks_like(change, network):
    x = np.random.default_rng(0).standard_normal(2_000)
    y = np.where(x > 0.0, 1.0, -1.0)
    plain, changed = (ddol.run(ddol.adaptive(), (v[:, None], y), network) for v in (x, change(x)))
    assert changed.error <= plain.error + 0.005


@pytest.mark.parametrize("kind", [np.asarray, csr_matrix])
@pytest.mark.parametrize("algorithm", [ddol.adaptive(), ddol.newton(), ddol.safe(ddol.coin())])
def test_features_without_squares_are_refused_and_not_left_out(algorithm, kind):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, 3)) * [1.0, 1e200, 1.0]
    with pytest.raises(FloatingPointError, match=r"have no squares: feature 2 of agent [01]"):
        ddol.run(algorithm, (kind(X), np.where(X[:, 1] > 0.0, 1.0, -1.0)), 2)


@pytest.mark.parametrize(("name", "least"), [("adaptive", 0.85), ("newton", 0.95), ("sketch", 0.9)])
def test_the_values_of_rare_features_can_be_told_apart(name, least):
    """Half would be right by chance."""
    rng = np.random.default_rng(3)
    X = rng.uniform(4.0, 8.0, (8000, 2)) * (rng.random((8000, 1)) < 0.05)
    met, larger = X[:, 0] > 0.0, np.where(X[:, 0] > X[:, 1], 1.0, -1.0)
    model = ddol.run(HINGE[name], (csr_matrix(X), larger)).model()
    assert np.mean((model.decision_function(X[met]) > 0.0) == (larger[met] > 0.0)) > least


@pytest.mark.parametrize("rank", [None, 2])
@pytest.mark.parametrize("network", [1, 8, ddol.ring(4)], ids=["1", "8", "ring"])
def test_newton_follows_a_label_that_means_the_opposite(rank, network):
    """As river's Sine: it predicts nearly without mistakes, and then everything is the other way round."""
    X = np.random.default_rng(1).random((16_000, 2))
    y = np.where(X[:, 0] > np.sin(X[:, 1]), 1.0, -1.0) * np.repeat([1.0, -1.0, 1.0, -1.0], 4_000)
    assert ddol.run(ddol.newton(rank=rank), (X, y), network).error < 0.13


@pytest.mark.parametrize(
    "name, network", [("adaptive", 1), ("adaptive", ddol.ring(4)), ("newton", 1)], ids=str
)
@pytest.mark.parametrize("share", [0.3, 0.49, 0.5])
def test_how_bits_are_written_changes_nothing(name, network, share):
    """Near a share of a half bits are centred in part; what was learned moves along."""
    rng = np.random.default_rng(0)
    bits = (rng.random((100_000, 6)) < share).astype(float)
    y = np.where(bits @ [3.0, -2.0, 1.5, 1.0, -1.0, 0.7] > 0.8, 1.0, -1.0)
    errors = [
        ddol.run(FREE[name], (written, y), network).error
        for written in (bits, 2.0 * bits - 1.0, 7.0 * bits + 100.0)
    ]
    assert max(errors) - min(errors) < 0.001


@pytest.mark.parametrize("network", [1, 4], ids=str)
def test_where_no_weights_fit_the_last_ones_are_near_the_best(network):
    rng = np.random.default_rng(0)
    size = np.exp(0.8 * rng.standard_normal((150_000, 1)))
    X = rng.standard_normal((150_000, 10))
    near, far = (X @ rng.standard_normal((10, 2))).T
    odds = np.where(size[:, 0] < 1.0, 3.0 * size[:, 0] * near, size[:, 0] * far)
    X = np.clip(size * X, -6.0, 6.0)
    y = np.where(rng.random(len(X)) < 1.0 / (1.0 + np.exp(-odds)), 1.0, -1.0)
    model = ddol.run(ddol.adaptive(), (X, y), network).model()
    best = LogisticRegression(C=1e6).fit(X, y)
    losses = [
        np.logaddexp(0.0, -y * scores.reshape(-1)).mean()
        for scores in (model.decision_function(X), best.decision_function(X))
    ]
    assert losses[0] < losses[1] + 0.002


def documents(n, n_words, length, seed):
    """Which words a document has: by Zipf's law, half of them more often in one class."""
    rng = np.random.default_rng(seed)
    y, side = rng.choice([-1.0, 1.0], n), rng.choice([-1.0, 1.0], n_words)
    X = np.zeros((n, n_words))
    for words, label in zip(X, y, strict=True):
        often = (1.0 + 0.3 * side * label) / np.arange(1, n_words + 1)
        words[rng.choice(n_words, length, p=often / often.sum())] = 1.0
    return csr_matrix(X), y


def test_words_that_come_once_do_not_decide_for_those_that_come_often():
    runs = [ddol.run(ddol.adaptive(), documents(400, 20_000, 400, seed), 1) for seed in range(6)]
    assert np.mean([trace.error for trace in runs]) < 0.045


@pytest.mark.parametrize("network", [1, 4, ddol.ring(4)], ids=lambda n: str(getattr(n, "name", n)))
def test_the_first_answer_is_one_of_many(network):
    """No scale is known when it comes, so that its step is as large as it must be without any feature."""
    rng = np.random.default_rng(0)
    X, side = rng.random((400, 1_000)) < 0.1, rng.choice([-1.0, 1.0], 1_000)
    y, n = np.where((X - 0.1) @ side > 0.0, 1.0, -1.0), 1 if network == 1 else 4
    rows, nothing = csr_matrix(X.astype(float)), np.zeros((1, 1_000))

    def changed_by(batch):
        """How far the answers of one round move the score of a row without features."""
        scores = []
        for label in (1.0, -1.0):
            labels = y.copy()
            labels[n * batch : n * (batch + 1)] = label
            model = ddol.run(ddol.adaptive(), (rows, labels), network).model()
            scores.append(model.decision_function(nothing)[0])
        return abs(scores[0] - scores[1])

    assert changed_by(0) < 2.0 * max(changed_by(1), changed_by(2))


def test_few_features_that_matter_are_found_among_many():
    errors = []
    for seed in range(3):
        X = np.random.default_rng(seed).standard_normal((1_000, 300))
        errors.append(ddol.run(ddol.adaptive(), (X, np.sign(X[:, :3].sum(axis=1)))).error)
    assert np.mean(errors) < 0.15


def test_steps_mean_less_where_labels_are_noise_and_more_where_there_is_none():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20_000, 30))
    y = np.sign(X.sum(axis=1))
    noisy = np.where(rng.random(len(y)) < 0.4, -y, y)
    clean, noise = (ddol.run(ddol.adaptive("hinge"), (X, labels)) for labels in (y, noisy))
    assert clean.error < 0.0275 and noise.error < 0.432
    assert np.linalg.norm(clean.weights) > 20.0 * np.linalg.norm(noise.weights)


def test_scores_of_several_classes_have_one_scale():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((2_000, 5)), rng.integers(0, 3, 2_000).astype(float)
    trace = ddol.run(ddol.adaptive(outputs=3), (X, y))
    assert np.all(trace.state.scalars[..., ABOVE] == 0.0)
    assert np.all(ddol.run(ddol.adaptive(), (X, np.sign(X[:, 0]))).state.scalars[..., ABOVE] != 0.0)


def test_who_goes_on_with_a_penalty_goes_on_with_the_same_scores():
    X, y = blobs()
    rows = Rows.from_dense(X, y)
    before = Learner(ddol.adaptive())
    before.learn(rows)
    assert before.state().scalars[0, 0, ABOVE] != 0.0
    after = Learner(ddol.adaptive(l1=1e-12), state=before.state())
    np.testing.assert_allclose(after.scores(rows), before.scores(rows), rtol=1e-9)
    np.testing.assert_allclose(after.weights(), before.weights(), rtol=1e-9)


def test_the_paper_s_algorithms_keep_the_paper_s_loss():
    presets = (ddol.adaptive, ddol.coin, ddol.newton, ddol.dogd, ddol.doeg, ddol.dual_averaging)
    assert [make().loss.name for make in presets] == ["logistic"] * 3 + ["hinge"] * 3


def test_classes_that_overlap_are_told_apart_though_a_constant_has_less_hinge_loss():
    rng = np.random.default_rng(0)
    y = np.where(rng.random(60_000) < 0.3, 1.0, -1.0)
    X = rng.standard_normal((60_000, 10))
    X[:, 0] += y > 0.0
    assert ddol.run(ddol.adaptive("hinge"), (X, y)).error < 0.265 < np.mean(y > 0.0)


@pytest.mark.parametrize("network", [1, 4, ddol.ring(4)], ids=lambda n: str(getattr(n, "name", n)))
def test_the_size_of_slopes_changes_nothing(network):
    """What P begins with is in squares of slopes, as what is added to it."""
    X, y = blobs(300)
    plain, steep = (ddol.run(ddol.adaptive(C=C), (X, y), network) for C in (1.0, 100.0))
    np.testing.assert_allclose(steep.weights, plain.weights, rtol=1e-6, atol=1e-12)


def test_a_constant_feature_says_nothing_but_the_intercept():
    X, y = blobs()
    more = np.hstack([X, np.full((len(X), 1), 0.1), np.full((len(X), 1), 1e9 / 3.0)])
    for network in (1, ddol.ring(4)):
        plain, other = (ddol.run(ddol.adaptive(), (rows, y), network) for rows in (X, more))
        assert other.mistakes.tolist() == plain.mistakes.tolist()
        assert not other.weights[..., -2:].any()


@pytest.mark.parametrize("preset", [ddol.adaptive, ddol.coin, ddol.newton])
def test_late_answers_cost_little_where_gradients_are_those_of_now(preset):
    X, y = blobs(6_000)
    now, late, kept = (
        ddol.run(preset(), (X, y), **places).error
        for places in ({}, {"delay": 100}, {"delay": 100, "gradient": "kept"})
    )
    assert late < now + 0.02 and late < kept  # the first hundred are guesses


def test_numbers_that_are_told_very_late_are_predicted_better_than_by_a_constant():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((6_000, 8))
    y = 50.0 + X @ rng.standard_normal(8) + rng.standard_normal(6_000)
    rows, late = Rows.from_dense(X, y), 1_600
    predicted = {}
    for gradient in ("arrival", "kept"):
        learner = Learner(ddol.adaptive("squared", delay=late, gradient=gradient))
        blocks = []
        learner.on_predicted = blocks.append
        learner.learn(rows)
        predicted[gradient] = np.concatenate(
            [block.scores[: block.n_rounds, 0] for block in blocks]
        )
    told = slice(late + 100, None)
    apart = {how: np.sqrt(np.mean((z[told] - y[told]) ** 2)) for how, z in predicted.items()}
    assert apart["arrival"] < 0.6 * y.std() < apart["kept"]


def test_coin_does_not_diverge_on_late_answers():
    rng = np.random.default_rng(0)
    X = (rng.random((4_000, 40)) < 0.3).astype(float)
    y = np.where(X @ rng.standard_normal(40) + rng.standard_normal(4_000) > 0.0, 1.0, -1.0)
    for network in (1, 4, ddol.ring(4)):
        trace = ddol.run(ddol.coin("logistic"), (X, y), network, delay=100)
        assert np.isfinite(trace.weights).all() and np.abs(trace.weights).max() < 1e4


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_bets_on_answers_that_come_very_late_stay_small(loss):
    rng = np.random.default_rng(0)
    X = np.eye(300)[rng.integers(0, 300, 4_000)] + np.eye(300)[rng.integers(0, 10, 4_000)]
    y = np.where(X @ rng.standard_normal(300) > 0.0, 1.0, -1.0)
    trace = ddol.run(ddol.coin(loss), (csr_matrix(X), y), delay=1000)
    assert trace.loss.sum() < 20.0 * len(y)


@pytest.mark.parametrize("name", FREE)
@pytest.mark.parametrize("place", [0, 1, 9, 999])
def test_a_wild_value_hides_nothing_wherever_it_comes(name, place):
    X, y = blobs(1_500)
    plain = ddol.run(HINGE[name], (X, y)).error
    for size in (1e3, 1e6, 1e12):
        wild = X.copy()
        wild[place, :-1] = size * (-1.0) ** np.arange(X.shape[1] - 1)
        dense, rows = (ddol.run(HINGE[name], (Z, y)) for Z in (wild, csr_matrix(wild)))
        assert dense.error < plain + 0.02
        assert rows.mistakes.tolist() == dense.mistakes.tolist()


def test_a_short_memory_follows_features_and_concepts_that_move():
    rng = np.random.default_rng(0)
    n = 8_000
    turn, drift = np.linspace(0.0, 6.0, n), np.linspace(0.0, 200.0, n)
    noise = rng.standard_normal((n, 2))
    y = np.where(noise[:, 0] * np.cos(turn) + noise[:, 1] * np.sin(turn) > 0.0, 1.0, -1.0)
    X = noise + drift[:, None]
    always, lately = (ddol.run(ddol.adaptive(memory=m), (X, y)).error for m in (np.inf, 100.0))
    assert lately < 0.15 < 0.35 < always


@pytest.mark.parametrize(
    ("preset", "loss", "most"),
    [
        (ddol.adaptive, "logistic", 0.03),
        (ddol.newton, "hinge", 0.05),  # 0.12 with steps that shrink as 1/t
        (ddol.newton, "logistic", 0.35),  # 0.51 with steps that shrink as 1/t
    ],
)
def test_a_change_is_followed_without_being_told_of_it(preset, loss, most):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((12_000, 3))
    y = np.where(X @ [1.0, -1.0, 0.5] > 0.0, 1.0, -1.0)
    y[6_000:] *= -1.0
    assert ddol.run(preset(loss), (X, y)).error < most


def test_penalties_shrink_weights_and_l1_makes_zeros():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4_000, 60))
    y = np.where(X[:, :5].sum(axis=1) > 0, 1.0, -1.0)
    for network in (1, 4, ddol.ring(4)):
        plain, sparse, small = (
            ddol.run(ddol.adaptive("logistic", **penalty), (X, y), network)
            for penalty in ({}, {"l1": 0.1}, {"l2": 1.0})
        )
        assert plain.nonzero_weights == 60 and 5 <= sparse.nonzero_weights < 40
        assert np.linalg.norm(small.weights) < 0.8 * np.linalg.norm(plain.weights)
        lazy = ddol.run(ddol.adaptive("logistic", l1=0.1), (csr_matrix(X), y), network)
        np.testing.assert_allclose(lazy.weights, sparse.weights, rtol=1e-7, atol=1e-10)


def test_late_answers_about_numbers_far_from_0():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2_000, 3))
    y = 1e6 + X @ [1.0, -2.0, 0.5] + 0.1 * rng.standard_normal(2_000)
    trace = ddol.run(ddol.adaptive("squared"), (X, y), 2, delay=20)
    np.testing.assert_allclose(trace.weights[0, 0], [1.0, -2.0, 0.5], atol=0.2)


@pytest.mark.parametrize("network", [1, 4, ddol.ring(4)], ids=str)
@pytest.mark.parametrize("preset", [ddol.adaptive, ddol.coin])
def test_features_met_once_have_weights_of_the_size_of_others(preset, network):
    # Their scale is not known where they come in rounds of which no statistics are taken.
    n = 2000
    rng = np.random.default_rng(0)
    common = (rng.random((n, 3)) < 0.5).astype(float)
    y = np.where(common[:, 0] > 0.5, 1.0, -1.0)
    X = csr_matrix(np.hstack([common, np.eye(n)]))
    trace = ddol.run(preset(), (X, y), network)
    assert np.abs(trace.weights).max() < 100.0
    assert np.isfinite(trace.consensus) and np.isfinite(trace.to_dict()["final_weights_norm"])


@pytest.mark.parametrize("preset", [ddol.adaptive, ddol.coin, ddol.newton])
@pytest.mark.parametrize("network", [1, 4, ddol.ring(4)], ids=lambda n: str(getattr(n, "name", n)))
def test_the_offset_of_answers_changes_nothing_in_batches(preset, network):
    """The answers to a first batch belong to predictions that were made before any number was heard."""
    X = np.random.default_rng(0).standard_normal((1_000, 3))
    y = X @ [1.0, -2.0, 0.5]
    for places in ({"batch": 3}, {"batch": 3, "delay": 5}):
        plain, far = (
            ddol.run(preset("squared"), (X, y + c), network, **places) for c in (0.0, 2.0**20)
        )
        np.testing.assert_allclose(far.weights, plain.weights, rtol=1e-5)


@pytest.mark.parametrize("preset", [ddol.adaptive, ddol.coin, ddol.newton])
@pytest.mark.parametrize("network", [1, 4, ddol.ring(4)], ids=lambda n: str(getattr(n, "name", n)))
@pytest.mark.parametrize(("loss", "most"), [("absolute", 0.15), ("squared", 1.05)])
def test_one_wild_answer_does_not_change_what_weights_mean(preset, network, loss, most):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2_000, 3))
    y = X @ [1.0, -2.0, 0.5] + 0.1 * rng.standard_normal(2_000)
    for place in (1_000, 1_990):
        wild = np.where(np.arange(len(y)) == place, 1e6, y)
        trace = ddol.run(preset(loss), (X, wild), network)
        assert np.abs(trace.model().predict(X) - y).mean() < most


@pytest.mark.parametrize("delay", [10, 100, 1000])
def test_bets_on_late_numbers_do_not_run_away(delay):
    X = np.random.default_rng(0).standard_normal((4_000, 5))
    y = 3.0 * np.sign(X[:, 0])
    trace = ddol.run(ddol.coin("squared"), (X, y), delay=delay)
    assert trace.loss.sum() / len(y) < y.var()
    assert np.mean((trace.model().predict(X) - y) ** 2) < 10.0 * y.var()


def test_newton_is_refused_above_its_size():
    with pytest.raises(ValueError, match=r"newton keeps 1001² numbers .*give it a rank"):
        ddol.start_state(ddol.newton(), 1001)
    assert ddol.start_state(ddol.newton(), 20).n_features == 20


def test_newton_learns_correlated_features_that_adaptive_cannot_in_time():
    rng = np.random.default_rng(0)
    hidden = rng.standard_normal((3_000, 20))
    turned, _ = np.linalg.qr(rng.standard_normal((20, 20)))
    X, y = (hidden / np.arange(1, 21)) @ turned, np.where(hidden.sum(axis=1) > 0, 1.0, -1.0)
    second, first = (ddol.run(a, (X, y)).error for a in (ddol.newton(), ddol.adaptive()))
    assert second < 0.5 * first


def test_l1_gives_exact_zeros_and_counts_the_rest():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4_000, 100))
    y = np.where(X[:, :5].sum(axis=1) > 0, 1.0, -1.0)
    for network in (1, 4, ddol.ring(4)):
        dense = ddol.run(ddol.dual_averaging("logistic"), (X, y), network)
        sparse = ddol.run(ddol.dual_averaging("logistic", l1=0.05), (X, y), network)
        assert dense.nonzero_weights == 100
        assert 5 <= sparse.nonzero_weights <= 15
        assert (sparse.weights[:, 0, :5] != 0.0).all()
        assert sparse.error < 0.15
        assert sparse.to_dict()["nonzero_weights"] == sparse.nonzero_weights


@pytest.mark.parametrize(
    "algorithm", [*FREE.values(), ddol.dual_averaging()], ids=lambda algorithm: algorithm.name
)
def test_a_delay_costs_and_is_made_up_for(algorithm):
    X, y = blobs(6_000)
    at_once, late = (ddol.run(algorithm, (X, y), delay=k) for k in (0, 10))
    assert at_once.mistakes.sum() <= late.mistakes.sum() + 20
    assert late.error < at_once.error + 0.012


def test_adaptive_forgets_a_long_delay():
    X, y = blobs(6_000)
    curves = ddol.run(ddol.adaptive("hinge", gradient="kept"), (X, y), delay=100).curves
    half = np.searchsorted(curves.examples, 3_000)
    first, second = curves.mistakes[half], curves.mistakes[-1] - curves.mistakes[half]
    assert second < 0.5 * first


def test_many_agents_with_few_rows_each_learn_nearly_as_well_as_with_the_right_rate():
    """The mean of what a ring has brought together is of few agents: steps for all are too large."""
    rows = concatenate([rows for rows, _ in linear(40_000, 20, noise=0.0).read()])
    data = rows.data.reshape(-1, 20), rows.y
    found, tuned = (
        ddol.run(a, data, ddol.ring(400)).error for a in (ddol.adaptive(), ddol.dogd(l2=0.0))
    )
    assert found < tuned + 0.012
