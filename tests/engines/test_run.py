"""Runs: what a trace holds, and what is refused before any round is played."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.sparse import csr_matrix

import ddol
from ddol.engines.feed import Feed
from ddol.engines.learner import Learner
from ddol.engines.state import start_state
from ddol.streams.arrays import array_stream
from ddol.streams.dealing import table_round_robin
from ddol.streams.errors import DataError
from ddol.streams.open import open_stream
from ddol.streams.rows import Block, Rows
from ddol.testing import play_reference


def data(n=240, n_features=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, n_features))
    return X, np.where(X[:, 0] - X[:, 1] + 0.3 * rng.standard_normal(n) > 0, 1.0, -1.0)


def test_a_run_is_the_reference_over_all_rounds():
    X, y = data(241)
    algorithm = ddol.dogd().on(ddol.ring(4), batch=2)
    expected = play_reference(algorithm, X, y, table_round_robin(241, 4, 2))
    trace = ddol.run(ddol.dogd(), (X, y), ddol.ring(4), batch=2)
    assert trace.mistakes.tolist() == expected.mistakes.tolist()
    np.testing.assert_allclose(trace.loss, expected.loss, rtol=1e-12)
    np.testing.assert_allclose(trace.weights, expected.weights, rtol=1e-10)
    assert (trace.examples, trace.rounds, trace.agents) == (241, 31, 4)


def test_passes_begin_with_a_new_round_and_t_goes_on():
    X, y = data(10)
    table = table_round_robin(10, 4)
    algorithm = ddol.dogd().on(4)
    expected = play_reference(algorithm, X, y, np.concatenate([table] * 3))
    trace = ddol.run(algorithm, (X, y), passes=3)
    assert trace.rounds == 9 and trace.examples == 30
    np.testing.assert_allclose(trace.weights[0], expected.weights[0], rtol=1e-12)


def test_streams_of_unequal_length_end_with_the_longest():
    X, y = data(16)
    parts = [(X[:9], y[:9]), (X[9:15], y[9:15]), (X[15:], y[15:])]
    table = np.full((9, 3, 1), -1)
    table[:9, 0, 0], table[:6, 1, 0], table[:1, 2, 0] = range(9), range(9, 15), [15]
    # The third stream has one label only, which is no reason to refuse it.
    trace = ddol.run(ddol.dogd(), parts, ddol.path(3))
    expected = play_reference(ddol.dogd().on(ddol.path(3)), X, y, table)
    assert trace.state.examples.tolist() == [9, 6, 1]
    np.testing.assert_allclose(trace.weights, expected.weights, rtol=1e-12)


def test_labels_of_any_two_numbers_and_of_classes():
    X, y = data()
    weights = ddol.run(ddol.dogd(), (X, y), 2).weights
    for low, high in ((0.0, 1.0), (3.0, 7.0)):
        same = ddol.run(ddol.dogd(), (X, np.where(y > 0, high, low)), 2).weights
        assert np.array_equal(same, weights)
    one_each = ddol.run(ddol.dogd(l2=0.0, outputs=2), (X, y), 2)
    assert one_each.weights.shape == (1, 2, 3) and one_each.error < 0.2
    three = ddol.run(ddol.dogd(l2=0.0, outputs=3), (X, X.argmax(axis=1) + 5), 2)
    assert three.error < 0.3


def test_files_may_have_any_labels_named_or_not(tmp_path):
    X, y = data(40)
    path = tmp_path / "examples"
    lines = [f"{int(answer > 0)} 1:{a} 2:{b} 3:{c}" for (a, b, c), answer in zip(X, y, strict=True)]
    path.write_text("\n".join(lines))
    named = ddol.run(ddol.dogd(), open_stream(str(path)), 2, classes=[0, 1])
    np.testing.assert_array_equal(
        named.weights, ddol.run(ddol.dogd(), (csr_matrix(X), y), 2).weights
    )
    found = ddol.run(ddol.dogd(), open_stream(str(path)), 2)
    np.testing.assert_array_equal(found.weights, named.weights)


def test_delayed_answers_equal_a_loop_that_holds_them_back():
    X, y = data(50)
    k, w, waiting, mistakes = 3, np.zeros(3), [], 0
    for t in range(1, 51 + k):
        if t <= 50:
            z = w @ X[t - 1]
            mistakes += (z >= 0) != (y[t - 1] > 0)
            waiting.append((-y[t - 1] if y[t - 1] * z < 1 else 0.0) * X[t - 1])
        if t > k:
            w = w - waiting.pop(0) / math.sqrt(t)
    trace = ddol.run(ddol.ogd(l2=0.0), (X, y), delay=k)
    assert trace.mistakes.tolist() == [mistakes]
    assert trace.rounds == 50
    np.testing.assert_allclose(trace.weights[0, 0], w, rtol=1e-12)


def test_a_learner_goes_on_from_a_state_and_a_position():
    X, y = data(400)
    algorithm = ddol.adaptive().on(ddol.ring(4), delay=2)
    feed = Feed([array_stream(X, y)], block_rounds=16)
    whole, places = Learner(algorithm), []
    whole.on_progress = lambda p: p.position and places.append((p.position, whole.state()))
    whole.follow(feed)
    position, state = places[5]
    later = Learner(algorithm, state=state)
    later.follow(feed, position)
    one, other = whole.trace(), later.trace()
    assert len(places) > 8
    assert np.array_equal(one.weights, other.weights)
    assert one.mistakes.tolist() == other.mistakes.tolist()
    assert np.array_equal(one.loss, other.loss)


def test_curves_have_few_points_and_end_at_the_end():
    X, y = data(200)
    trace = ddol.run(ddol.dogd(), (X, y), 2, passes=500)
    curves = trace.curves
    assert trace.rounds == 50_000 and 100 < len(curves.rounds) <= 1_000
    assert curves.rounds[-1] == 50_000 and curves.examples[-1] == 100_000
    assert (np.diff(curves.rounds) > 0).all() and (np.diff(curves.mistakes) >= 0).all()
    assert curves.mistakes[-1] == trace.mistakes.sum()
    assert curves.agent_mistakes[-1].tolist() == trace.mistakes.tolist()
    assert curves.worst[-1] == trace.mistakes.max()


def test_consensus_shrinks_with_a_falling_rate_and_is_zero_on_one_copy():
    X, y = data(4_000)
    trace = ddol.run(ddol.dogd(l2=0.0), (X, y), ddol.ring(8))
    gaps = trace.weights - trace.weights.mean(axis=0)
    assert trace.consensus == pytest.approx(math.sqrt(np.mean(np.sum(gaps**2, axis=(1, 2)))))
    distances = trace.curves.consensus
    assert distances[-1] == trace.consensus and 0.0 < distances[-1] < distances[2]
    assert ddol.run(ddol.dogd(), (X, y), 8).consensus == 0.0


def test_a_watched_run_stops_at_powers_of_two_and_is_the_same():
    X, y = data(96)
    algorithm = ddol.dogd().on(ddol.ring(4))
    seen, feed = [], Feed([array_stream(X, y)])
    learner = Learner(algorithm, on_progress=seen.append)
    learner.follow(feed)
    assert {4, 8, 16, 32, 64, 96} <= {p.examples for p in seen}
    trace, unwatched = learner.trace(), ddol.run(algorithm, (X, y))
    for name, curve in vars(trace.curves).items():
        np.testing.assert_array_equal(curve, getattr(unwatched.curves, name))
    last = seen[-1]
    assert last.position is not None and last.rounds == trace.rounds
    assert last.mistakes.tolist() == trace.mistakes.tolist()
    assert (last.messages, last.bytes_sent) == (trace.messages, trace.bytes_sent)
    assert last.consensus == trace.consensus > 0.0


def test_messages_and_bytes():
    X, y = data(64)
    ring = ddol.run(ddol.dogd(), (X, y), ddol.ring(8), period=2)
    assert ring.messages == 2 * 8 * 4
    assert ring.bytes_sent == ring.messages * 3 * 8
    signed = ddol.run(ddol.doeg(), (X[:40], y[:40]), ddol.complete(4))
    assert (signed.messages, signed.bytes_sent) == (12 * 10, 12 * 10 * 6 * 8)
    assert ddol.run(ddol.dogd(), (X, y)).bytes_sent == 0


def test_a_changing_matrix_sends_where_a_weight_is_not_zero():
    X, y = data(80)

    def pairs(t):
        matrix = np.eye(8)
        matrix[np.ix_([0, 1], [0, 1])] = 0.5
        return matrix

    trace = ddol.run(ddol.dogd(), (X, y), ddol.complete(8), mixing=pairs)
    assert (trace.rounds, trace.messages) == (10, 2 * 10)
    assert trace.bytes_sent == 2 * 10 * 3 * 8
    alone = ddol.run(ddol.dogd(), (X, y), ddol.complete(8), mixing=lambda t: np.eye(8))
    assert alone.messages == 0


def test_a_changing_matrix_keeps_to_the_edges_of_its_graph():
    X, y = data(80)

    def strangers(t):
        matrix = np.eye(8)
        if t == 4:
            matrix[np.ix_([0, 4], [0, 4])] = 0.5
        return matrix

    for mixing in (strangers, ddol.changing(strangers)):
        with pytest.raises(
            ValueError, match=r"of round 4 entry \(0, 4\) is 0.5, but agents 0 and 4"
        ):
            ddol.run(ddol.dogd(), (X, y), ddol.ring(8), mixing=mixing)
    assert ddol.run(ddol.dogd(), (X, y), ddol.complete(8), mixing=strangers).messages == 2


def test_the_table_and_the_dictionary():
    X, y = data(240)
    trace = ddol.run(ddol.dual_averaging(l1=0.5), (X, y), ddol.ring(12))
    lines = trace.table().splitlines()
    assert lines[0].split() == ["agent", "examples", "mistakes", "error", "%", "mean", "loss"]
    assert len(lines) == 1 + 10 + 1 + 1 + 1 and lines[11].strip() == "…"
    assert lines[12].split()[:3] == ["all", "240", str(trace.mistakes.sum())]
    used = np.count_nonzero(np.abs(trace.weights).sum(axis=0))
    assert lines[13] == f"{used} of 3 weights are not zero"
    plain = trace.to_dict()
    assert plain["nonzero_weights"] == used and plain["examples"] == 240
    assert plain["mistakes"] == trace.mistakes.tolist()
    assert trace.agent_weights(3).shape == (1, 3)
    numbers = ddol.run(ddol.dogd("squared", rate=0.1), (X, y), 2)
    assert not numbers.mistakes.any() and "–" in numbers.table()


def test_weights_that_leave_the_range_of_numbers_are_an_error():
    X, y = data()
    with pytest.raises(FloatingPointError, match="lower the rate, scale the features"):
        ddol.run(ddol.dogd("squared", l2=0.0, rate=lambda t: 1e6), (1e3 * X, y))


@pytest.mark.parametrize("schedule", ["rounds", "async"])
@pytest.mark.parametrize("engine", ["local", "threads"])
def test_the_site_at_which_numbers_overflow_is_named(schedule, engine, tmp_path):
    rng = np.random.default_rng(0)
    for site in range(3):
        X = rng.standard_normal((400, 2))
        X[300] *= 1e149 if site == 1 else 1.0
        rows = "".join(f"{a:g},{b:g},{int(a > 0)}\n" for a, b in X)
        (tmp_path / f"site{site}.csv").write_text("a,b,label\n" + rows)
    files = [open_stream(str(tmp_path / f"site{site}.csv")) for site in range(3)]
    with pytest.raises(FloatingPointError, match=r"e\+(148|149): feature . of agent 1 .*site1.csv"):
        ddol.run(ddol.dogd("squared"), files, ddol.ring(3), schedule=schedule, engine=engine)


X, Y = data(60)
TWO = ddol.complete(2)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (lambda: (X, np.ones(60)), r"found 1 class \(1\), expected 2 .*learn from data that has"),
        (lambda: (np.where(X > 1.5, np.nan, X), Y), "found nan in row .*, column .*, expected a"),
        (lambda: (np.where(X > 1.5, np.inf, X), Y), "found inf in row"),
        (lambda: (csr_matrix(np.where(X > 1.5, -np.inf, X)), Y), "found -inf in row"),
        (lambda: (X, np.where(X[:, 0] > 1, np.nan, Y)), "found y nan in row"),
        (lambda: (X, Y, np.full(60, np.nan)), "found weight nan in row 0"),
        (lambda: (X, Y, -np.ones(60)), "found weight -1.0 in row 0, expected at least 0"),
        (lambda: [(X, Y), (X[:, :2], Y)], "found streams with 2 and 3 features, expected the same"),
        (lambda: [(X, Y)] * 3, "found 3 streams for 2 agents, expected one stream to deal"),
        (lambda: (X, Y[:10]), r"`y` must have shape \(60,\) for 60 rows, it has \(10,\)"),
        (lambda: (X[:, 0], Y), "`X` must have 2 dimensions, it has 1"),
        (lambda: (X[:0], Y[:0]), "found no example; expected at least one"),
        (lambda: (X, np.full(len(Y), {})), "`y` must be numbers"),
    ],
)
def test_bad_data(bad, message):
    with pytest.raises(DataError, match=message):
        ddol.run(ddol.dogd(), bad(), TWO)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("row", [0, 17, 59])
@pytest.mark.parametrize("preset", ["dogd", "ogd", "p_norm", "adaptive", "coin", "newton"])
@pytest.mark.parametrize(
    "changes",
    [{}, {"topology": TWO}, {"topology": ddol.ring(4)}, {"batch": 3}, {"delay": 2}],
    ids=lambda changes: " ".join(changes) or "alone",
)
def test_no_feature_that_is_not_finite_goes_unseen(preset, changes, row, value):
    wide = np.hstack([X, np.random.default_rng(1).standard_normal((60, 150))])
    wide[row, 140] = value
    algorithm = getattr(ddol, preset)()
    for features in (wide, csr_matrix(wide)):
        with pytest.raises(
            DataError, match=rf"X: found {value} in row {row}, column 140, expected"
        ):
            ddol.run(algorithm, (features, Y), **changes)


def test_a_row_that_changes_nothing_is_looked_at_too():
    features = np.ones((3, 1))
    features[2] = np.inf  # far on the right side: no loss, no slope
    with pytest.raises(DataError, match="found inf in row 2, column 0"):
        ddol.run(ddol.dogd(l2=0.0, rate=10.0), (features, [1, -1, 1]), classes=[-1, 1])


@pytest.mark.parametrize(
    ("run", "error", "message"),
    [
        (lambda: ddol.from_edges(4, [(0, 1), (2, 3)]), ValueError, "must be connected, but its 4"),
        (lambda: ddol.run(ddol.dogd(), (X, Y), 2, mixing=[[0.5, 0.5], [0.5, 0.4]]), ValueError,
         "`mixing` rows must sum to 1, row 1 sums to 0.9; use ddol.metropolis"),
        (lambda: ddol.run(ddol.dogd(), (X, Y), 2, mixing=np.eye(3)), ValueError, "3 agents"),
        (lambda: ddol.run(ddol.dogd(), (X, Y), 2, mixing=lambda: 1), ValueError, "failed at round"),
        (lambda: ddol.run(ddol.dogd(), (X, Y), 0), ValueError, "agents: found 0, expected"),
        (lambda: ddol.run(ddol.dogd(), (X, Y), "ring"), ValueError, "how many agents there are"),
        (lambda: ddol.dwm_i(1.0), ValueError, "`alpha` must lie strictly between 0 and 1"),
        (lambda: ddol.dwm_a(0.0), ValueError, "`alpha` must lie strictly between 0 and 1"),
        (lambda: ddol.dogd(radius=0.0), ValueError, "`radius` of l2_ball must be a positive"),
        (lambda: ddol.doeg(radius=-1.0), ValueError, "`radius` of l1_ball must be a positive"),
        (lambda: ddol.dual_averaging(radius=0.0), ValueError, "`radius` must be a positive"),
        (lambda: ddol.dual_averaging(l1=-0.1), ValueError, "`l1` must be at least 0"),
        (lambda: ddol.dogd(rate=-1.0), ValueError, "`rate` must be a positive number"),
        (lambda: ddol.dogd(C=0.0), ValueError, "`C` must be a positive number"),
        (lambda: ddol.dogd(average="mean"), ValueError, "`average` must be 'dual', 'primal'"),
        (lambda: ddol.run(ddol.dogd(), (X, Y), batch=0), ValueError, "batch: found 0, expected"),
        (lambda: ddol.run(ddol.dogd(), (X, Y), delay=1.5), ValueError, "found '1.5', expected whole"),
        (lambda: ddol.run(ddol.dogd(), (X, Y), engine="gpu"), ValueError, "engine: found 'gpu'"),
        (lambda: ddol.run(ddol.dogd("squared", outputs=3), (X, Y)), ValueError, "has one output"),
        (lambda: ddol.run(ddol.dogd(rate=lambda: 1.0), (X, Y)), TypeError, "function of the round"),
        (lambda: ddol.run(ddol.dogd(), [X, Y]), TypeError, "found ndarray as `streams`, expected"),
        (lambda: ddol.run(ddol.dwm_i(), (X, Y)), DataError, "expected the advice of experts"),
        (lambda: ddol.run(ddol.newton(), (np.ones((2, 1001)), [1, -1])), ValueError,
         "at most 1000 features; give it a rank, such as 10, or use"),
        (lambda: ddol.run(ddol.dogd(), (X, Y), n_features=9), DataError, "found 3 columns"),
    ],
)  # fmt: skip
def test_bad_settings(run, error, message):
    with pytest.raises(error, match=message):
        run()


def test_blocks_of_one_s_own_are_checked():
    algorithm = ddol.dogd().on(2)
    state = start_state(algorithm, 3)
    rows = Rows.from_dense(X[:4], Y[:4])

    def block(table, block_rows=rows):
        return Block(block_rows, np.array(table)[:, :, None])

    assert ddol.advance(algorithm, state, block([[0, 1], [2, -1]])).examples.tolist() == [2, 1]
    with pytest.raises(ValueError, match="names rows 0 to 4, expected 0 to 3"):
        ddol.advance(algorithm, state, block([[0, 4]]))
    with pytest.raises(ValueError, match="dealt to 3 agents in batches of 1"):
        ddol.advance(algorithm, state, block([[0, 1, 2]]))
    with pytest.raises(
        ValueError, match=r"found label 0 in row 0 of the block, expected one of -1"
    ):
        ddol.advance(algorithm, state, block([[0, 1]], Rows.from_dense(X[:2], [0.0, 1.0])))
    with pytest.raises(DataError, match="found rows of 2 columns, expected 3"):
        ddol.advance(algorithm, state, block([[0, 1]], Rows.from_dense(X[:2, :2], Y[:2])))


@pytest.mark.parametrize("width", [1, 2, 15, 16, 17, 33, 127, 128, 131])
@pytest.mark.parametrize("l2", [0.0, 0.1])
def test_one_agent_learns_rows_of_every_length(width, l2):
    """Whole vectors, what is left of them, and rows that are stepped along only where there is a slope."""
    rng = np.random.default_rng(width)
    A = rng.standard_normal((60, width)) * (rng.random((60, width)) < 0.7)
    y = np.where(A @ rng.standard_normal(width) + 0.1 > 0, 1.0, -1.0)
    importance = rng.choice([0.0, 0.5, 2.0], 60)
    w, loss, mistakes = np.zeros(width), 0.0, 0
    for t, (x, answer, weight) in enumerate(zip(A, y, importance, strict=True), start=1):
        z = w @ x
        mistakes += (z >= 0) != (answer > 0)
        loss += l2 * (w @ w) / 2 + weight * max(0.0, 1.0 - answer * z)
        g = -answer if answer * z < 1.0 else 0.0
        w = w - (l2 * w + weight * g * x) / np.sqrt(t)
    for features in (A, csr_matrix(A)):
        learner = Learner(ddol.dogd(l2=l2))
        of = Rows.from_dense if features is A else Rows.from_csr
        rows = of(features, y, importance)
        for lo, hi in ((0, 1), (1, 2), (2, 37), (37, 60)):
            learner.learn(rows.slice(lo, hi))
        trace = learner.trace()
        assert trace.mistakes == mistakes
        assert trace.weights[0, 0] == pytest.approx(w, rel=1e-9, abs=1e-12)
        assert trace.loss == pytest.approx(loss)
        whole = Learner(ddol.dogd(l2=l2))
        whole.learn(rows)
        assert np.array_equal(whole.trace().weights, trace.weights)
