"""The compiled engine against the reference, on everything that an algorithm is made of."""

from __future__ import annotations

import itertools
import math
import os
import subprocess
import sys
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_matrix, random

import ddol
from ddol.algorithm import Algorithm
from ddol.engines.local import Local, advance
from ddol.engines.state import start_state
from ddol.reference import play_round, start
from ddol.streams.dealing import table_round_robin
from ddol.streams.rows import Block, Rows
from ddol.testing import check_algorithm, examples_for, play_engine, play_reference
from ddol.update.contract import Vector
from ddol.update.linear import SQUARES
from ddol.update.losses import LOSSES, loss_named
from ddol.update.mirrors import (
    MirrorDescent,
    separable_mirror,
)
from ddol.update.rates import inverse_sqrt
from descents import DESCENTS, PLACES

sinh = separable_mirror("sinh", lambda t, p: math.sinh(t), lambda w, p: math.asinh(w))
UPDATES = {**DESCENTS, "separable": MirrorDescent(sinh, l2=0.1)}
NETWORKS = (ddol.complete(1), ddol.complete(3), ddol.ring(4), ddol.star(4))


def descent(update, loss="hinge", average="dual", **places):
    return Algorithm(
        "descent", update, loss_named(loss), inverse_sqrt(0.3), average=average, **places
    )


@pytest.mark.parametrize("name", UPDATES)
@pytest.mark.parametrize("loss", [name for name in LOSSES if name != "zero_one"])
def test_mirror_loss_average_and_network(name, loss):
    for average, network in itertools.product(("dual", "primal"), NETWORKS):
        check_algorithm(descent(UPDATES[name], loss, average).on(network))


@pytest.mark.parametrize("name", UPDATES)
def test_batch_period_delay_and_classes(name):
    for place, average in itertools.product(PLACES, ("dual", "primal")):
        check_algorithm(descent(UPDATES[name], average=average).on(ddol.complete(3), **place))
        check_algorithm(descent(UPDATES[name], average=average).on(ddol.ring(4), **place))
    check_algorithm(descent(UPDATES[name], outputs=3).on(ddol.path(3), batch=2))


SCALE_FREE = (
    ddol.adaptive(),
    ddol.adaptive("logistic", outputs=3),
    ddol.adaptive("squared"),
    ddol.coin(),
    ddol.coin("squared"),
    ddol.newton(),
    ddol.newton("squared", outputs=1),
    ddol.newton(rank=2),
    ddol.newton("squared", rank=7),
    ddol.dual_averaging(l1=0.02),
    ddol.dual_averaging(radius=0.3, outputs=3),
)


@pytest.mark.parametrize("algorithm", SCALE_FREE, ids=lambda a: f"{a.name}-{a.loss.name}")
def test_updates_with_more_than_weights(algorithm):
    for place, network in itertools.product(PLACES, (*NETWORKS, ddol.grid(2, 3))):
        check_algorithm(algorithm.on(network, **place))


@pytest.mark.parametrize("preset", [ddol.dogd, ddol.doeg, ddol.adaptive])
def test_agents_with_rates_of_their_own(preset):
    own = preset(rate=[0.1, 1.0, 0.3])
    for place, network in itertools.product(PLACES, (ddol.complete(3), ddol.path(3))):
        check_algorithm(own.on(network, **place))
    with pytest.raises(ValueError, match="`rate` is given for 3 agents, expected 4"):
        own.on(4)
    with pytest.raises(ValueError, match="`rate` is given for 3 agents, expected 1"):
        ddol.run(own, (np.eye(2), [1, -1]))


EXPERTS = (
    ddol.dwm_i(0.5),
    ddol.dwm_a(0.5),
    ddol.drwm(0.7),
    ddol.drwm(0.7, n_classes=3, average="primal"),
    ddol.dwm_a(0.8, n_classes=4),
    ddol.dwm_i(0.8, n_classes=4),
)


@pytest.mark.parametrize("algorithm", EXPERTS, ids=lambda a: f"{a.name}-{a.update.n_classes}")
def test_weighted_majority(algorithm):
    for place, network in itertools.product(PLACES, NETWORKS):
        check_algorithm(algorithm.on(network, **place), n_features=4)


@pytest.mark.parametrize(
    "algorithm", [ddol.dogd(), ddol.doeg(average="primal"), ddol.adaptive(), ddol.dwm_a(0.5)]
)
@pytest.mark.parametrize("period", [1, 2])
def test_own_and_changing_matrices(algorithm, period):
    own = np.array([[0.7, 0.3, 0.0], [0.1, 0.5, 0.4], [0.0, 0.2, 0.8]])
    check_algorithm(algorithm.on(3, own, period=period))
    check_algorithm(algorithm.on(ddol.path(3), own, period=period))
    swap = [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    meet = [[1.0, 0.0, 0.0], [0.0, 0.5, 0.5], [0.0, 0.5, 0.5]]
    check_algorithm(algorithm.on(3, lambda t: swap if t % 2 else meet, period=period))
    check_algorithm(algorithm.on(3, lambda t: meet if t % 3 else own, period=period))
    check_algorithm(algorithm.on(ddol.star(4), "uniform", period=period))


@pytest.mark.parametrize("network", [ddol.complete(1), ddol.complete(3), ddol.ring(3)])
def test_streams_of_unequal_length_and_rounds_without_an_example(network):
    rng = np.random.default_rng(5)
    for algorithm in (*SCALE_FREE[:1], ddol.dogd(), ddol.doeg(), ddol.dual_averaging(l1=0.05)):
        placed = algorithm.on(network, batch=2)
        X, y = examples_for(placed, 60, 4, rng)
        table = rng.permutation(60).reshape(-1, placed.n_agents, 2)
        table[rng.random(table.shape) < 0.3] = -1
        expected = play_reference(placed, X, y, table)
        found = play_engine(placed, Rows.from_dense(X, y), table)
        assert (found.mistakes == expected.mistakes).all()
        np.testing.assert_allclose(found.weights, expected.weights, rtol=1e-10, atol=1e-13)
        single = replace(placed, batch=1)
        expected = play_reference(single, X, y, table[:, :, :1])
        found = play_engine(single, Rows.from_dense(X, y), table[:, :, :1])
        np.testing.assert_allclose(found.weights, expected.weights, rtol=1e-10, atol=1e-13)


def test_blocks_may_end_after_every_round_to_the_bit():
    for algorithm in (ddol.dogd(), ddol.doeg(), ddol.adaptive(), ddol.p_norm(1.5), ddol.newton()):
        for network in (ddol.complete(1), ddol.complete(4), ddol.ring(4)):
            placed = algorithm.on(network, delay=1, batch=2)
            X, y = examples_for(placed, 200, 6, np.random.default_rng(0))
            table = table_round_robin(200, placed.n_agents, 2)
            rows, state = Rows.from_dense(X, y), start_state(placed, 6)
            for one in np.split(table, len(table)):
                state = advance(placed, state, Block(rows, one))
            whole = advance(placed, start_state(placed, 6), Block(rows, table))
            assert state.t == whole.t
            assert np.array_equal(state.theta, whole.theta)
            assert np.array_equal(state.loss, whole.loss)


def test_importance_weights_scale_the_loss_of_each_example():
    rng = np.random.default_rng(2)
    X, y, weight = rng.standard_normal((80, 3)), rng.choice([-1.0, 1.0], 80), rng.random(80) * 3
    w, loss = np.zeros(3), 0.0
    for t, (x, answer, c) in enumerate(zip(X, y, weight, strict=True), 1):
        loss += c * max(0.0, 1 - answer * (w @ x))
        w = w + c * (answer * x if answer * (w @ x) < 1 else 0) / np.sqrt(t)
    trace = ddol.run(ddol.ogd(l2=0.0), (X, y, weight))
    np.testing.assert_allclose(trace.weights[0, 0], w, rtol=1e-12)
    np.testing.assert_allclose(trace.loss, loss, rtol=1e-12)
    for algorithm in (ddol.adaptive(), ddol.coin(), ddol.doeg(), ddol.dogd()):
        for network in (ddol.complete(3), ddol.ring(3)):
            doubled = ddol.run(algorithm, (X, y, np.full(80, 2.0)), network)
            twice = ddol.run(replace(algorithm, C=2.0), (X, y), network)
            np.testing.assert_allclose(doubled.weights, twice.weights, rtol=1e-12)


@pytest.mark.parametrize("network", [ddol.complete(3), ddol.ring(3)])
def test_the_mean_of_the_weights_over_the_rounds(network):
    algorithm = ddol.dogd(l2=0.1, average_iterates=True).on(network)
    X, y = examples_for(algorithm, 60, 4, np.random.default_rng(0))
    table = table_round_robin(60, 3)
    agents, total = start(algorithm, 4), np.zeros((3, 4))
    for dealt in table:
        agents, _ = play_round(algorithm, agents, [(X[r], y[r]) for r in dealt])
        total += [algorithm.update.weights(states[0]) for states in agents.states]
    block = Block(Rows.from_dense(X, y), table)
    sums = advance(algorithm, start_state(algorithm, 4), block).sums
    np.testing.assert_allclose(np.broadcast_to(sums[:, 0], (3, 4)), total, rtol=1e-12)


GROWING = (
    ddol.dogd(),
    ddol.adaptive(),
    ddol.coin(),
    ddol.newton(rank=3),
    ddol.p_norm(1.5),
    ddol.dual_averaging(),
)


@pytest.mark.parametrize("algorithm", GROWING, ids=lambda a: a.name)
@pytest.mark.parametrize("network", [ddol.complete(3), ddol.ring(3)])
def test_features_that_appear_in_mid_stream(algorithm, network):
    placed = algorithm.on(network, delay=2)
    grown, whole = (Local(placed, start_state(placed, width)) for width in (2, 7))
    for width in (2, 4, 7, 3):
        X, y = examples_for(placed, 30, width, np.random.default_rng(width))
        block = Block(Rows.from_csr(csr_matrix(X), y), table_round_robin(30, 3))
        grown.play(block)
        whole.play(block)
    np.testing.assert_allclose(grown.weights(), whole.weights(), rtol=1e-12, atol=1e-15)


def test_a_start_that_depends_on_the_number_of_features_cannot_grow():
    algorithm = ddol.doeg()
    engine = Local(algorithm, start_state(algorithm, 2))
    rows = Rows.from_csr(csr_matrix(np.eye(3)), [1.0, -1.0, 1.0])
    with pytest.raises(ValueError, match="say it beforehand"):
        engine.play(Block(rows, table_round_robin(3, 1)))


@pytest.mark.parametrize("preset", [ddol.adaptive, ddol.newton, ddol.coin])
def test_a_batch_of_one_feature(preset):
    """The constant feature is listed once, however often it is seen: the list has room for D."""
    X, y = np.ones((64, 1)), np.resize([1.0, -1.0], 64)
    for n_agents in (1, 2):
        dense = ddol.run(preset("hinge"), (X, y), n_agents, batch=8)
        sparse = ddol.run(preset("hinge"), (csr_matrix(X), y), n_agents, batch=8)
        np.testing.assert_allclose(sparse.weights, dense.weights, rtol=1e-12)


def test_without_compilation_in_a_process_of_its_own(tmp_path):
    code = """
import math, sys, ddol
from ddol.testing import check_algorithm
assert ddol.compiled.INTERPRETED
for algorithm in (ddol.dogd(), ddol.doeg(), ddol.adaptive(), ddol.dwm_a(0.5)):
    for network in (ddol.complete(1), ddol.complete(2), ddol.ring(3)):
        check_algorithm(algorithm.on(network, batch=2, delay=1), n_examples=12, n_features=3)
from ddol.algorithm import Algorithm
from ddol.update.mirrors import MirrorDescent, separable_mirror
sinh = separable_mirror("sinh", lambda t, p: math.sinh(t), lambda w, p: math.asinh(w))
own = Algorithm("own", MirrorDescent(sinh), average="primal")
check_algorithm(own.on(ddol.ring(3)), n_examples=12, n_features=3)
for loss in ("logistic", "hinge"):
    algorithm = ddol.newton(loss, outputs=3).on(ddol.ring(3), period=2)
    check_algorithm(algorithm, n_examples=12, n_features=3)
from ddol.streams.text.libsvm import LibsvmStream
from ddol.streams.over.wrapped import with_intercept
rows, _ = next(with_intercept(LibsvmStream((sys.argv[1],))).read())
assert rows.data.tolist() == [1.0, 0.25, 1.0, -20.0, 3.0] and rows.indices.tolist() == [0, 1, 0, 1, 3]
assert "numba" not in sys.modules
"""
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    path = tmp_path / "two.libsvm"
    path.write_text("1 1:0.25\n-1 1:-2e1 3:3\n")
    done = subprocess.run(
        [sys.executable, "-c", code, path], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]


FAR = (
    ddol.dogd(l2=0.0, radius=0.5),
    ddol.p_norm(1.5, radius=0.5),
    ddol.p_norm(1.05),
    ddol.doeg(radius=100.0),
    ddol.doeg(rate=lambda t: 5.0),
    ddol.winnow(),
)


@pytest.mark.parametrize("algorithm", FAR, ids=lambda a: f"{a.name}-{a.update.mirror.name}")
@pytest.mark.parametrize("n_agents", [1, 3])
def test_weights_that_rise_and_fall_by_many_orders_of_magnitude(algorithm, n_agents):
    """Running sums must not lose the digits of what is left, nor factors run out of numbers."""
    rng = np.random.default_rng(0)
    X, y = 30 * rng.standard_normal((1_500, 3)), rng.choice([-1.0, 1.0], 1_500)
    table, placed = table_round_robin(1_500, n_agents), algorithm.on(n_agents)
    expected = play_reference(placed, X, y, table)
    found = play_engine(placed, Rows.from_dense(X, y), table)
    assert (found.mistakes == expected.mistakes).all()
    size = np.abs(expected.weights).max()
    np.testing.assert_allclose(found.weights, expected.weights, rtol=0, atol=1e-9 * size)


# --- long and large ------------------------------------------------------------------------------

MILLION = 1_000_000


def repeated(n_rows, n_agents):
    return np.resize(np.arange(n_rows), (MILLION, n_agents))[:, :, None]


@pytest.mark.parametrize("preset", [ddol.dwm_i, ddol.dwm_a])
def test_a_million_rounds_of_weighted_majority_stay_finite(preset):
    rng = np.random.default_rng(0)
    # The best expert is wrong in half of the rounds: its weight is 2 to the power of −500,000.
    advice, answers = rng.choice([-1.0, 1.0], (100, 4)), np.resize([1.0, -1.0], 100)
    advice[:, 0] = np.resize([1.0, 1.0], 100)
    algorithm = preset(0.5).on(2)
    engine = Local(algorithm, start_state(algorithm, 4))
    engine.play(Block(Rows.from_dense(advice, answers), repeated(100, 2)))
    weights, state = engine.weights(), engine.state()
    assert np.isfinite(weights).all() and math.isclose(weights.sum(), 1.0)
    assert np.isfinite(state.theta).all()
    if preset is ddol.dwm_i:
        wrong = (advice != answers[:, None]).mean(axis=0)
        found = algorithm.update.log_weights(Vector(state.theta[0, 0], state.scalars[0, 0]))
        np.testing.assert_allclose(found, MILLION * wrong * math.log(0.5), rtol=1e-14)


@pytest.mark.parametrize("radius", [1.0, 1e4])
def test_a_million_rounds_of_doeg_with_features_around_minus_700_stay_finite(radius):
    rng = np.random.default_rng(0)
    X = rng.normal([-700.0, 150.0, 0.2, 0.3], [250.0, 40.0, 0.1, 0.1], (500, 4))
    y = np.where(X[:, 0] + 4 * X[:, 1] + rng.normal(0, 200, 500) > 0, 1.0, -1.0)
    algorithm = ddol.doeg(radius=radius)
    engine = Local(algorithm, start_state(algorithm, 4))
    engine.play(Block(Rows.from_dense(X, y), repeated(500, 1)))
    state, weights = engine.state(), engine.weights()
    assert np.isfinite(state.theta).all() and np.isfinite(state.loss).all()
    assert np.isfinite(weights).all() and np.abs(weights).sum() <= radius * (1 + 1e-9)


def test_ten_thousand_agents_on_a_ring_in_memory_of_their_weights():
    algorithm = ddol.dogd().on(ddol.ring(10_000))
    rng = np.random.default_rng(0)
    rows = Rows.from_dense(rng.standard_normal((2_000, 54)), rng.choice([-1.0, 1.0], 2_000))
    table = np.resize(np.arange(2_000), (5, 10_000, 1))
    tracemalloc.start()
    engine = Local(algorithm, start_state(algorithm, 54))
    engine.play(Block(rows, table))
    weights = engine.weights()
    _, maxima = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert weights.shape == (10_000, 1, 54) and np.isfinite(weights).all()
    assert maxima < 8 * weights.nbytes


SPARSE_MILLION = """
import ctypes, math, mmap
import numpy as np, ddol
from ddol.engines.local import Local
from ddol.engines.state import start_state
from ddol.streams.dealing import table_round_robin
from ddol.streams.rows import Block, Rows
from ddol.update.mirrors import MirrorDescent, separable_mirror
from dataclasses import replace

D, SEEN = 1_000_000, 512
libc = ctypes.CDLL(None, use_errno=True)

def protect(array, kind):
    '''Make all whole pages of an array's rows beyond the seen features unreadable, or readable.'''
    for row in array.reshape(-1, D):
        lo = -(-(row.ctypes.data + 8 * SEEN) // mmap.PAGESIZE) * mmap.PAGESIZE
        hi = (row.ctypes.data + 8 * D) // mmap.PAGESIZE * mmap.PAGESIZE
        assert libc.mprotect(ctypes.c_void_p(lo), ctypes.c_size_t(hi - lo), kind) == 0

rng = np.random.default_rng(0)
n, per_row = 400, 50
columns = np.sort(rng.permuted(np.tile(np.arange(SEEN), (n, 1)), axis=1)[:, :per_row], axis=1)
rows = Rows(
    rng.standard_normal(n * per_row), columns.astype(np.uint32).ravel(),
    per_row * np.arange(n + 1), D, rng.choice([-1.0, 1.0], n), np.empty(0),
)
sinh = separable_mirror("sinh", lambda t, p: math.sinh(t), lambda w, p: math.asinh(w))
algorithms = [
    ddol.dogd(l2=0.0), ddol.dogd(l2=0.1), ddol.dogd(l2=0.1, radius=0.5), ddol.doeg(), ddol.winnow(),
    ddol.p_norm(1.5), ddol.p_norm(1.5, radius=0.5), ddol.adaptive(), ddol.coin(),
    ddol.dual_averaging(l1=0.01), replace(ddol.dogd(), update=MirrorDescent(sinh)),
]
cases = [(algorithm, n_agents) for algorithm in algorithms for n_agents in (1, 8)]
cases += [(algorithm, ddol.ring(3)) for algorithm in (ddol.dogd(l2=0.0), ddol.dual_averaging())]
for algorithm, network in cases:
        placed = algorithm.on(network)
        engine = Local(placed, start_state(placed, D))
        worker, table = engine.worker, table_round_robin(n, placed.n_agents)
        engine.play(Block(rows, table[:1]))
        room, layout = worker.workspace, worker.layout
        guarded = [worker.state.theta, room.delta[: layout.sums * D], room.maxima[: layout.maxima * D]]
        guarded = [array for array in guarded if array.size]
        for array in guarded: protect(array, 0)
        engine.play(Block(rows, table[1:]))
        for array in guarded: protect(array, mmap.PROT_READ | mmap.PROT_WRITE)
        assert np.isfinite(engine.weights()).all()
        print(algorithm.name, placed.n_agents, flush=True)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="protects memory with mprotect")
def test_a_round_touches_the_features_of_its_rows_only():
    """D = 10⁶, 50 non-zeros: numbers of other features are unreadable, and nobody notices."""
    done = subprocess.run([sys.executable, "-c", SPARSE_MILLION], capture_output=True, text=True)
    played = done.stdout.split("\n")[-2:-1]
    assert done.returncode == 0, f"exit {done.returncode} after {played}: {done.stderr[-2000:]}"


MET = (
    ddol.dogd(l2=0.1),
    ddol.dogd(l2=0.1, radius=0.5),
    ddol.dual_averaging(l1=0.01),
    ddol.p_norm(1.5),
    ddol.adaptive(),
)


@pytest.mark.parametrize("algorithm", MET, ids=lambda a: a.name)
@pytest.mark.parametrize("period", [1, 3])
def test_exchanging_only_what_agents_have_met_changes_nothing(algorithm, period):
    """Sparse rows of many columns exchange the features that were met, dense ones all of them."""
    matrix = random(120, 5_000, 0.004, random_state=np.random.default_rng(0), format="csr")
    y = np.random.default_rng(1).choice([-1.0, 1.0], 120)
    placed = algorithm.on(ddol.ring(4), period=period)
    table, found = table_round_robin(120, 4), []
    for rows in (Rows.from_csr(csr_matrix(matrix), y), Rows.from_dense(matrix.toarray(), y)):
        engine = Local(placed, start_state(placed, 5_000))
        seen = engine.play(Block(rows, table[:11]), [5])
        engine = Local(placed, engine.state())  # met features are found again in a state
        engine.play(Block(rows, table[11:]))
        assert (engine.worker.workspace.met is not None) == (not rows.dense)
        found.append((engine.weights(), engine.counters().loss, seen.metrics[:, 0]))
    for sparse, dense in zip(*found, strict=True):
        np.testing.assert_allclose(sparse, dense, rtol=1e-9, atol=1e-12)


def test_large_sparse_rows_equal_dense_ones():
    matrix = random(300, 2_000, 0.02, random_state=np.random.default_rng(0), format="csr")
    y = np.random.default_rng(1).choice([-1.0, 1.0], 300)
    for algorithm in (ddol.dogd(l2=0.1), ddol.doeg(), ddol.adaptive()):
        sparse = ddol.run(algorithm, (csr_matrix(matrix), y), 4)
        dense = ddol.run(algorithm, (matrix.toarray(), y), 4)
        np.testing.assert_allclose(sparse.weights, dense.weights, rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("agents, batch, delay", [(1, 1, 0), (4, 1, 0), (3, 3, 2), (40, 1, 0)])
def test_a_constant_that_is_not_stored_is_a_column_of_ones(dense, agents, batch, delay):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((240, 7)) * (rng.random((240, 7)) < 0.5)
    y = np.where(rng.random(240) < 0.5, 1.0, -1.0)
    rows = Rows.from_dense(X, y) if dense else Rows.from_csr(csr_matrix(X), y)
    table = rng.permutation(240)[: 240 // (agents * batch) * agents * batch]
    for made in (ddol.dogd(), ddol.adaptive(), ddol.newton()):
        algorithm = replace(made.on(agents), batch=batch, delay=delay)
        found = []
        for stored in (True, False):
            engine = Local(algorithm, start_state(algorithm, 8))
            given = rows.with_intercept(stored)
            for part in np.array_split(table.reshape(-1, agents, batch), 2):
                engine.play(Block(given, part))
            found.append((engine.weights(), engine.counters().loss, engine.scores(given)))
        # One agent alone does not put the ones in front of its rows, and sums in another order.
        for one, other in zip(*found, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-11 if agents == 1 else 0.0)


@pytest.mark.parametrize("n_features", [600, 1100])
def test_the_norm_that_is_kept_is_that_of_the_agents_own_weights(n_features):
    """Averages of many agents are taken up some features at a time; the norm is one of all features."""
    rng = np.random.default_rng(3)
    algorithm = ddol.dogd(C=1e3).on(ddol.ring(64))
    rows = Rows.from_dense(rng.normal(size=(64 * 50, n_features)), rng.choice([-1.0, 1.0], 64 * 50))
    engine = Local(algorithm, start_state(algorithm, n_features))
    engine.play(Block(rows, np.arange(64 * 50).reshape(50, 64, 1)))
    state = engine.state()
    weights = state.theta[:, 0, 0]
    assert np.allclose(state.scalars[:, 0, SQUARES], (weights * weights).sum(axis=1), rtol=1e-9)
