"""Processes that play together meet where they exchange, and seldom besides.

They are those of a Ray job, in threads of this process: letters come at once, and nothing depends on time.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from mmap import mmap
from types import SimpleNamespace

import numpy as np
import pytest
from tests.ray_streams import rows_of

import ddol
from ddol.algorithm import Algorithm
from ddol.engines import pace, session
from ddol.engines.errors import RankLostError
from ddol.engines.feed import Feed
from ddol.engines.groups import recovery
from ddol.engines.ray.actor_turns import ActorTurns
from ddol.engines.ray.host import Host, HostJob
from ddol.engines.setup import Setup
from ddol.engines.state import start_state
from ddol.engines.workers import partition
from ddol.schedules.schedule import Schedule
from ddol.streams.errors import DataError
from ddol.streams.rows import Rows
from ddol.streams.synthetic import SyntheticStream
from ddol.version import __version__


@pytest.fixture(autouse=True)
def any_time(monkeypatch):
    """Nobody is in a hurry: rounds to the next meeting, and copies, do not follow the clock."""
    monkeypatch.setattr(pace, "SECONDS", 1e9)
    monkeypatch.setattr(recovery, "SECONDS", 1e9)


def handle_of(host):
    """What other hosts call, as it is."""
    named = {name: SimpleNamespace(remote=getattr(host, name)) for name in ("post", "post_open")}
    return SimpleNamespace(**named)


def seen_of(host):
    """How often a host has met others, and the trace that it has of the run."""
    meetings = host.group.meetings
    return meetings, host.learner.trace()


def together(algorithm, streams, workers=2, passes=1, seen=seen_of):
    """What is seen of hosts that have played streams together."""
    hosts = [Host(rank, __version__) for rank in range(workers)]
    handles = [handle_of(host) for host in hosts]
    job, feed = HostJob(algorithm, Setup("ray", workers)), Feed(streams, passes)

    def play(host):
        try:
            host.begin(job, 1, handles)
            host.follow(feed, None)
            return seen(host)
        except Exception as error:
            for other in hosts:  # nobody waits for one that has failed
                other.end_epoch(1)
            return error

    with ThreadPoolExecutor(workers) as pool:
        found = list(pool.map(play, hosts))
    failed = [each for each in found if isinstance(each, Exception)]
    for error in sorted(failed, key=lambda error: isinstance(error, RankLostError)):
        raise error
    return found


def same(found, algorithm, streams, passes=1):
    alone = ddol.run(algorithm, streams, passes=passes)
    for _, trace in found:
        assert trace.mistakes.tolist() == alone.mistakes.tolist()
        np.testing.assert_allclose(trace.weights, alone.weights, rtol=0, atol=1e-9)
        np.testing.assert_array_equal(trace.curves.rounds, alone.curves.rounds)
        np.testing.assert_array_equal(trace.curves.agent_mistakes, alone.curves.agent_mistakes)
        np.testing.assert_allclose(trace.curves.consensus, alone.curves.consensus, atol=1e-12)
    return alone


@pytest.mark.parametrize("network", [ddol.ring(4), ddol.complete(4)], ids=["ring", "complete"])
def test_meetings_are_those_of_exchanges_and_a_few_for_every_doubling(network):
    algorithm = ddol.dogd().on(network, period=64)
    streams = [SyntheticStream(rows_of, 25_000, 6, seed=k, block=300 + 50 * k) for k in range(4)]
    found = together(algorithm, streams)
    alone = same(found, algorithm, streams)
    exchanges = alone.rounds // 64
    for meetings, _ in found:
        # Agreeing on rounds, places in the streams, sums and counters, copies: each once.
        assert exchanges < meetings <= exchanges + 5 * (math.log2(100_000) + 4)


def test_what_is_seen_waits_in_bounded_memory(monkeypatch):
    monkeypatch.setattr(partition, "_MOST_NUMBERS", 200)
    algorithm = ddol.dogd().on(ddol.ring(5), period=8)
    streams = [SyntheticStream(rows_of, n, 6, seed=n, block=n // 3) for n in (700, 90, 512, 301, 7)]
    same(together(algorithm, streams, workers=3), algorithm, streams)


class Unsaid:
    """A stream that does not say how long it is, nor how wide: rows get longer towards its end."""

    n_features = n_examples = None
    restartable = True

    def __init__(self, sizes, said=None):
        self.sizes, self.n_examples = sizes, said

    def read(self, position=None, pass_number=0):
        for number in range(position or 0, len(self.sizes)):
            rng = np.random.default_rng([number, *self.sizes])
            X = rng.standard_normal((self.sizes[number], 2 + number))
            dense = Rows.from_dense(X, np.where(X[:, 0] > 0, 1.0, -1.0))
            yield Rows.from_csr(dense.to_scipy(), dense.y), number + 1

    def describe(self):
        return "unsaid"

    def progress(self, position):
        return None

    def locate(self, position, row):
        return f"row {row}"


def test_streams_that_do_not_say_how_long_they_are():
    algorithm = ddol.dogd().on(ddol.ring(4), period=4)
    streams = [Unsaid(sizes) for sizes in ([30, 5, 9], [1], [12, 12], [3, 3, 3, 3])]
    same(together(algorithm, streams, passes=2), algorithm, streams, passes=2)
    same(together(algorithm, [Unsaid([30, 5, 9])]), algorithm, [Unsaid([30, 5, 9])])


def test_a_stream_that_is_shorter_than_it_says_is_named():
    class Short(SyntheticStream):
        def read(self, position=None, pass_number=0):
            yield from list(super().read(position, pass_number))[:-1]

    short = [Short(rows_of, 1000, 6, seed=k, block=100) for k in range(4)]
    with pytest.raises(DataError, match="found 900 rows, expected 1000 as it says"):
        together(ddol.dogd().on(ddol.ring(4), period=8), short)


def memory_of(thing, known=None):
    """Bytes of all arrays that something holds, each once; not those of the network and the data."""
    known = set() if known is None else known
    if id(thing) in known or isinstance(thing, str | bytes | Algorithm | Feed | Rows):
        return 0
    known.add(id(thing))
    if isinstance(thing, np.ndarray):
        return thing.nbytes if thing.base is None else memory_of(thing.base, known)
    if isinstance(thing, memoryview | mmap):
        return memory_of(thing.obj, known) if isinstance(thing, memoryview) else len(thing)
    if isinstance(thing, dict):
        return sum(memory_of(each, known) for each in thing.values())
    if isinstance(thing, list | tuple | set):
        return sum(memory_of(each, known) for each in thing)
    return memory_of(getattr(thing, "__dict__", {}), known)


@pytest.mark.parametrize("preset", [ddol.dogd, ddol.doeg])
def test_a_host_holds_its_agents_a_copy_one_of_the_host_before_and_messages(preset, monkeypatch):
    monkeypatch.setattr(recovery, "SECONDS", -1.0)  # a copy after every block
    algorithm, made = preset().on(ddol.ring(1000)), []

    def made_here(*given):
        made.append(start_state(*given))
        return made[-1]

    monkeypatch.setattr(session, "start_state", made_here)
    wide = partial(rows_with, 800)
    streams = [SyntheticStream(wide, 4000, 800, seed=1, block=1000)]

    def seen(host):
        state = host.part()
        messages = host.learner.engine.worker.partition.packed.nbytes
        return host.recovery.version, memory_of(host), state.theta.nbytes, messages

    for versions, held, own, messages in together(algorithm, streams, 4, seen=seen):
        assert versions > 1
        assert own == made[0].theta.nbytes
        # The states, what they were at the last common moment, a neighbour's then, and what is sent.
        assert 3 * own + messages <= held <= 3 * own + messages + own // 2
    assert [len(state.theta) for state in made] == [250] * 4


def rows_with(n_features, rng, first, n):
    X = rng.standard_normal((n, n_features))
    return Rows.from_dense(X, np.where(X[:, 0] >= 0, 1.0, -1.0))


def test_turns_of_some_agents_take_messages_of_one_agent_and_send_rows_of_the_border():
    algorithm, shares = ddol.dogd().on(ddol.ring(1000)), [(0, 250), (250, 750)]
    streams = [SyntheticStream(rows_of, 4000, 6, seed=1, block=1000)]
    setup, start = Setup("ray", 2, schedule=Schedule("async")), start_state(algorithm, 6, 0, 250)
    turns = ActorTurns(algorithm, start, setup, Feed(streams), shares, 0)
    assert turns.play(iter, lambda: None)
    [seat] = turns.engine.seats
    assert seat.messages.shape == (1 + 3, 6)
    now, left = turns.present(), turns.result(ended=True)
    assert now.part is left.part is seat.worker.state
    assert np.shares_memory(now.published.rows, turns.engine.published)
    assert left.published.agents.tolist() == [0, 249]
    assert left.part.examples.tolist() == [4] * 250
