"""Threads without a barrier: nothing is lost, nothing is torn, and what happened plays again to the bit."""

import threading

import numpy as np
import pytest

import ddol
from ddol.engines.kernels.published import STRIDE, publish_row, read_row
from ddol.schedules.conditions import Conditions
from ddol.schedules.events import ANSWER, MIX, PREDICT, RECEIVE, SEND
from ddol.schedules.schedule import Schedule
from ddol.streams.text.libsvm import LibsvmStream

N_ROWS = 3000


def data(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N_ROWS, 7))
    return X, np.where(X @ rng.standard_normal(7) > 0, 1.0, -1.0)


def run(algorithm, topology, staleness=None, workers=2, **options):
    schedule = Schedule("async", staleness=staleness, record=True)
    return ddol.run(
        algorithm, data(), topology, engine="threads", workers=workers, schedule=schedule, **options
    )


@pytest.mark.parametrize("name", ["dogd", "doeg", "dual_averaging", "adaptive", "coin"])
@pytest.mark.parametrize("topology", [ddol.ring(6), ddol.complete(4)], ids=["ring", "complete"])
@pytest.mark.parametrize("staleness", [None, 1])
def test_recorded_threads_run_plays_again_to_the_bit(name, topology, staleness):
    algorithm = getattr(ddol, name)()
    for options in ({}, {"period": 3, "delay": 2}):
        first = run(algorithm, topology, staleness, **options)
        again = ddol.run(algorithm, data(), topology, replay=first.events, **options)
        assert np.array_equal(first.mistakes, again.mistakes)
        assert np.array_equal(first.loss, again.loss)
        assert np.array_equal(first.weights, again.weights)


def test_no_example_is_lost_and_none_is_seen_twice():
    trace = run(ddol.dogd(), ddol.ring(6), workers=3, passes=2)
    events = trace.events
    assert trace.examples == 2 * N_ROWS
    for kind in (PREDICT, ANSWER):
        rows = events.row[events.kind == kind]
        assert np.array_equal(np.bincount(rows), np.full(N_ROWS, 2))


def test_features_that_come_late_are_known_before_the_first_message(tmp_path):
    path = tmp_path / "growing.libsvm"
    path.write_text("".join(f"{(-1) ** k} {1 + k // 40}:1\n" for k in range(400)))
    stream = LibsvmStream((str(path),), chunk_bytes=300)
    trace = ddol.run(ddol.dogd(), stream, ddol.ring(4), engine="threads", schedule="async")
    assert trace.examples == 400
    assert trace.weights.shape[-1] == 10


def test_staleness_bounds_how_far_a_neighbour_is_behind():
    events = run(ddol.dogd(), ddol.ring(6), staleness=2, workers=3).events
    sent, ended = np.zeros(6, int), np.bincount(events.agent[events.kind == SEND], minlength=6)
    for event in events:
        if event.kind == SEND:
            sent[event.agent] += 1
        if event.kind == MIX:
            for other in ((event.agent + 1) % 6, (event.agent - 1) % 6):
                if sent[other] < ended[other]:
                    assert sent[event.agent] - sent[other] <= 2 + 1  # the one under way


def test_no_staleness_at_all_is_the_barrier():
    barrier = ddol.run(ddol.dogd(), data(), ddol.ring(6), engine="threads", workers=2)
    bounded = run(ddol.dogd(), ddol.ring(6), staleness=0)
    assert np.array_equal(barrier.weights, bounded.weights)


@pytest.mark.parametrize(("workers", "staleness"), [(1, 0), (2, 2), (3, 1)])
@pytest.mark.parametrize(("passes", "delay"), [(1, 0), (3, 3)])
def test_nobody_waits_for_an_agent_whose_stream_is_over(workers, staleness, passes, delay):
    """Not even beside those who go on in the same thread, nor for its fewer turns in the next pass."""
    rng = np.random.default_rng(0)
    sites = []
    for n in (60, 300, 7, 150):
        X = rng.standard_normal((n, 3))
        sites.append((X, (X[:, 0] > 0).astype(int)))
    schedule = Schedule("async", staleness=staleness, record=True)
    algorithm = ddol.dogd().on(ddol.complete(4), period=2, delay=delay)
    options = {"engine": "threads", "workers": workers, "schedule": schedule}
    trace = ddol.run(algorithm, sites, passes=passes, **options)
    assert trace.state.examples.tolist() == [60 * passes, 300 * passes, 7 * passes, 150 * passes]
    again = ddol.run(algorithm, sites, replay=trace.events)
    np.testing.assert_array_equal(again.weights, trace.weights)


def test_newer_messages_take_the_place_of_older_ones():
    events = run(ddol.dogd(), ddol.ring(6), workers=3).events
    received = events.kind == RECEIVE
    newest = {}
    for j, i, place in zip(
        events.agent[received], events.peer[received], events.row[received], strict=True
    ):
        assert place > newest.get((j, i), -1)
        newest[j, i] = place


def test_no_row_is_ever_torn():
    """A writer fills rows with one number each, as fast as it can; whoever reads one must see one number."""
    size, n = 512, 20_000
    versions, row = np.zeros(STRIDE, np.int64), np.zeros(size)
    torn, seen, done = [], set(), threading.Event()
    source = np.zeros(size)  # both are compiled before the race
    publish_row(versions.ctypes.data, 0, source.ctypes.data, row.ctypes.data, size)
    read_row(versions.ctypes.data, 0, row.ctypes.data, source.ctypes.data, size)
    versions[:] = 0

    def write():
        source, k = np.empty(size), 0
        while k < n or len(seen) < 2:  # whoever reads may get a core late
            k += 1
            source[:] = k
            publish_row(versions.ctypes.data, 0, source.ctypes.data, row.ctypes.data, size)
        done.set()

    def read():
        target = np.empty(size)
        while not done.is_set():
            version = read_row(versions.ctypes.data, 0, row.ctypes.data, target.ctypes.data, size)
            seen.add(version)
            if not (target == version).all():
                torn.append(version)

    threads = [threading.Thread(target=work) for work in (write, read, read)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not torn
    assert len(seen) > 1


@pytest.mark.parametrize(
    ("schedule", "why"),
    [
        (Schedule("gossip"), "the engine threads runs rounds and async, not gossip"),
        (Schedule("async", Conditions(latency=1)), "belong to the virtual clock"),
        (Schedule("async", Conditions(delay="0..3")), "belong to the virtual clock"),
    ],
)
def test_what_threads_cannot_do_is_said(schedule, why):
    with pytest.raises(ValueError, match=why):
        ddol.run(ddol.dogd(), data(), ddol.ring(6), engine="threads", schedule=schedule)


def test_staleness_is_not_for_the_virtual_clock():
    with pytest.raises(ValueError, match="`staleness` bounds how far threads"):
        ddol.run(ddol.dogd(), data(), ddol.ring(6), schedule=Schedule("async", staleness=2))
