"""The threads engine against the local one, and when something goes wrong in a thread."""

import itertools
import threading

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_matrix

import ddol
from ddol import presets
from ddol.compiled import INTERPRETED
from ddol.engines.local import Local
from ddol.engines.state import start_state
from ddol.engines.threads.rounds import Threads, checked_workers, readers_beside
from ddol.engines.workers import partition
from ddol.streams.dealing import table_round_robin
from ddol.streams.rows import Block, Rows
from ddol.testing import check_engine, examples_for
from patience import LONG

pytestmark = pytest.mark.skipif(INTERPRETED, reason="parallel engines run compiled code only")

ALGORITHMS = {
    "dogd": ddol.dogd(l2=0.5),
    "dogd in the primal": ddol.dogd(l2=0.1, radius=0.5, average="primal"),
    "dogd of 3 classes": ddol.dogd(l2=0.0, outputs=3),
    "regression": ddol.dogd("squared", l2=0.0, rate=0.05),
    "adaptive": presets.adaptive(),
    "doeg": ddol.doeg(radius=3.0),
    "doeg in the primal": ddol.doeg(radius=3.0, average="primal"),
    "winnow": ddol.winnow(),
    "p-norm": ddol.p_norm(1.5),
    "dwm_i": ddol.dwm_i(0.5),
    "dwm_a": ddol.dwm_a(0.5),
    "dwm_a of 3 classes": ddol.dwm_a(0.7, n_classes=3),
    "drwm": ddol.drwm(0.7),
    "averaged iterates": ddol.dogd(l2=0.1, average_iterates=True),
}
TOPOLOGIES = (ddol.complete(4), ddol.ring(5), ddol.star(4))
PLACES = (
    {},
    {"batch": 3},
    {"period": 3},
    {"delay": 2},
    {"batch": 2, "period": 2, "delay": 1},
)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_threads_play_as_one_worker_does(name):
    for topology, places, workers in itertools.product(TOPOLOGIES, PLACES, (2, 3)):
        algorithm = ALGORITHMS[name].on(topology, **places)
        sparse = not algorithm.update.experts and workers == 3
        check_engine(algorithm, "threads", workers, sparse=sparse)


def test_a_mixing_that_changes_by_round():
    graphs = [ddol.metropolis(ddol.ring(6)), ddol.metropolis(ddol.star(6))]
    mixing = ddol.changing(lambda t: graphs[t % 2])
    check_engine(ddol.dogd().on(6, mixing), "threads", 3, n_examples=2000)


@pytest.mark.parametrize("graph", [ddol.complete(37), ddol.ring(37)], ids=["complete", "ring"])
def test_many_agents_of_a_worker(graph):
    for name, sparse in itertools.product(("dogd", "dogd of 3 classes", "adaptive"), (False, True)):
        check_engine(ALGORITHMS[name].on(graph), "threads", 2, sparse=sparse)


@pytest.mark.parametrize("numbers", [1, 100])
def test_what_is_seen_waits_in_bounded_memory(monkeypatch, numbers):
    """Rounds are cut where there is no room for another snapshot, and nothing else changes."""
    monkeypatch.setattr(partition, "_MOST_NUMBERS", numbers)
    algorithm, data = (
        ddol.dogd().on(ddol.ring(4), period=3),
        (np.eye(6)[np.arange(400) % 6], np.arange(400) % 2),
    )
    spread = ddol.run(algorithm, data, engine="threads", workers=2).curves
    alone = ddol.run(algorithm, data).curves
    assert_array_equal(spread.rounds, alone.rounds)
    assert_array_equal(spread.mistakes, alone.mistakes)
    assert_allclose(spread.consensus, alone.consensus, atol=1e-12)


def test_the_consensus_distance_is_that_of_all_workers_copies():
    rng = np.random.default_rng(0)
    rows = Rows.from_dense(rng.standard_normal((140, 3)), rng.integers(0, 3, 140).astype(float))
    algorithm = ddol.dogd(l2=0.1, outputs=3).on(ddol.ring(7))
    table, after = table_round_robin(140, 7), (3, 4, 20)
    engine = Threads(algorithm, start_state(algorithm, 3), workers=3)
    seen = engine.play(Block(rows, table), after)
    engine.close()
    for rounds, distance in zip(after, seen.metrics[:, 0], strict=True):
        whole = Local(algorithm, start_state(algorithm, 3))
        whole.play(Block(rows, table[:rounds]))
        weights = whole.weights()
        gaps = weights - weights.mean(axis=0)
        expected = np.sqrt(np.mean(np.sum(gaps * gaps, axis=(1, 2))))
        assert distance == pytest.approx(expected, rel=1e-9)
        assert distance > 0.0


def test_one_agent_and_more_workers_than_agents():
    check_engine(ddol.dogd().on(1), "threads", 4)
    algorithm = ddol.dogd().on(ddol.ring(3))
    engine = Threads(algorithm, start_state(algorithm, 2), workers=64)
    assert engine.workers == 3
    engine.close()


def played(engine, algorithm, n_features=5, n=120, seed=0):
    X, y = examples_for(algorithm, n, n_features, np.random.default_rng(seed))
    table = table_round_robin(n, algorithm.n_agents, algorithm.batch)
    engine.play(Block(Rows.from_dense(X, y), table))
    return engine


@pytest.mark.parametrize("topology", [ddol.complete(4), ddol.ring(4)])
def test_the_state_can_go_on_anywhere(topology):
    algorithm = ddol.dogd().on(topology, delay=1)
    start = start_state(algorithm, 5)
    engine = played(Threads(algorithm, start, 2), algorithm)
    middle = engine.state()
    engine.close()
    there = played(Local(algorithm, middle), algorithm, seed=1).state()
    whole = played(played(Local(algorithm, start), algorithm), algorithm, seed=1).state()
    assert_array_equal(there.mistakes, whole.mistakes)
    assert_allclose(there.theta, whole.theta, rtol=1e-9)
    assert middle.t == 31
    assert start.t == 1 and not start.theta.any()


def test_features_that_appear_later():
    algorithm = ddol.dogd(l2=0.0).on(ddol.ring(4))
    engines = [
        Local(algorithm, start_state(algorithm, 2)),
        Threads(algorithm, start_state(algorithm, 2), 2),
    ]
    for width in (2, 5, 9):
        X, y = examples_for(algorithm, 40, width, np.random.default_rng(width))
        block = Block(Rows.from_csr(csr_matrix(X), y), table_round_robin(40, 4))
        for engine in engines:
            engine.play(block)
    local, threads = engines
    assert threads.weights().shape == (4, 1, 9)
    assert_allclose(threads.weights(), local.weights(), atol=1e-12)
    threads.close()


def test_the_error_of_one_thread_is_the_error_of_the_run():
    def rate(t):
        if threading.current_thread() is not threading.main_thread():
            raise ZeroDivisionError("no rate in round 1")
        return 1.0 / t

    algorithm = ddol.dogd(rate=rate).on(ddol.ring(4))
    engine = Threads(algorithm, start_state(algorithm, 5), workers=3)
    with pytest.raises(ZeroDivisionError, match="no rate in round 1"):
        played(engine, algorithm)
    with pytest.raises(RuntimeError, match="stopped by an earlier error"):
        played(engine, algorithm)
    engine.close()


def test_threads_end_with_their_engine():
    algorithm = ddol.dogd().on(4)
    before = set(threading.enumerate())
    engine = Threads(algorithm, start_state(algorithm, 5), workers=4)
    helpers = [thread for thread in threading.enumerate() if thread not in before]
    assert len(helpers) == 3
    engine.close()
    for thread in helpers:
        thread.join(LONG)
    assert not any(thread.is_alive() for thread in helpers)


def test_workers_must_be_some():
    assert checked_workers(None) >= 1
    with pytest.raises(ValueError, match="`workers` must be at least 1"):
        checked_workers(0)


def test_workers_that_would_be_slower_are_not_started(monkeypatch, capsys):
    from ddol.engines.threads import rounds as threads

    monkeypatch.setattr(threads, "usable_cores", lambda: 2)
    monkeypatch.setattr(threads, "_told", set())
    few = ddol.dogd(l2=0.0).on(4)
    engine = Threads(few, start_state(few, 54))
    assert engine.workers == 1
    assert "1 thread: with 4 agents that meet after every round" in capsys.readouterr().err
    engine.close()
    many = ddol.dogd(l2=0.0).on(64, period=16)
    engine = Threads(many, start_state(many, 54))
    assert engine.workers == 2 and not capsys.readouterr().err
    engine.close()
    engine = Threads(few, start_state(few, 54), workers=2)
    assert engine.workers == 2 and not capsys.readouterr().err
    engine.close()


def test_half_of_the_threads_read_where_learning_takes_no_longer(monkeypatch):
    from ddol.engines.threads import rounds as threads

    monkeypatch.setattr(threads, "usable_cores", lambda: 4)
    seldom = ddol.dogd(l2=0.0).on(ddol.ring(64), period=16)
    by_turns = ddol.dogd(l2=0.0).on(ddol.ring(64)), ddol.dogd(outputs=3).on(64, period=16)
    assert [readers_beside(each) for each in by_turns] == [0, 0]
    assert readers_beside(seldom) == readers_beside(ddol.dogd().on(64)) == 2
    assert readers_beside(seldom, 2) == 1 and readers_beside(seldom, 1) == 0
    engine = Threads(seldom, start_state(seldom, 54), readers=2)
    assert engine.workers == 2
    engine.close()
    assert readers_beside(ddol.dogd(outputs=3).on(1)) == 2


def test_one_thread_alone_writes_messages_to_memory_of_its_own():
    """What threads meet in has no room for messages that begin with a cache line."""
    algorithm = ddol.adaptive().on(ddol.ring(5))
    engine = Threads(algorithm, start_state(algorithm, 3), 1)
    meeting = engine.kernel_workers[0].partition.packed
    meeting[:] = np.nan
    rng = np.random.default_rng(0)
    rows = Rows.from_dense(rng.standard_normal((40, 3)), rng.choice([-1.0, 1.0], 40))
    engine.play(Block(rows, np.arange(40).reshape(8, 5, 1)))
    engine.close()
    assert meeting.size and np.isnan(meeting).all()
