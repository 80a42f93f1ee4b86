"""Actors that come and go while a job runs: agents move, and nothing is lost.

A cluster of its own: what other tests leave behind until Ray has noticed it must not take the cores.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from tests.ray_streams import or_skipped, rows_until, small_cluster

import ddol
from ddol.engines.feed import Feed
from ddol.engines.learner import Learner
from ddol.engines.setup import Setup
from ddol.schedules.schedule import Schedule
from ddol.streams.synthetic import SyntheticStream

ray = pytest.importorskip("ray")


@pytest.fixture(scope="module", autouse=True)
def cluster():
    with or_skipped(small_cluster()):
        yield


@pytest.mark.parametrize(
    ("one_file", "staleness"), [(True, None), (False, 2)],
    ids=["one stream", "a stream each, of bounded staleness"],
)  # fmt: skip
def test_agents_move_to_more_and_to_fewer_actors(one_file, staleness, tmp_path, capfd):
    """What happened plays again to the bit, though agents were hosted by others in between."""
    algorithm = ddol.dogd().on(ddol.ring(4), period=64, delay=1)
    rows, n = partial(rows_until, str(tmp_path / "moved")), 4 if one_file else 1
    streams = [SyntheticStream(rows, n * 100_000, 6, seed=k, block=n * 512) for k in range(4)]
    feed = Feed(streams[:1] if one_file else streams)
    schedule = Schedule("async", staleness=staleness, record=True)
    learner = Learner(algorithm, Setup("ray", 2, schedule=schedule))
    learner.feed = feed
    engine, wishes = learner.opened(0), []

    def look(progress):
        for wish, before in ((3, 2), (1, 3)):
            if wish not in wishes and engine.workers == before:
                wishes.append(wish)
                engine.actors[0].request_workers.remote(wish)
        if wishes == [3, 1] and engine.workers == 1:
            (tmp_path / "moved").touch()

    learner.on_progress = look
    learner.follow(feed)
    happened = learner.trace()
    learner.close()
    said = capfd.readouterr().err
    assert "goes on with 3 actors" in said and "goes on with 1 actor\n" in said
    assert happened.state.examples.tolist() == [100_000] * 4
    again = ddol.run(algorithm, feed.streams, replay=happened.events, features=6)
    assert again.mistakes.tolist() == happened.mistakes.tolist()
    np.testing.assert_array_equal(again.weights, happened.weights)


def test_who_is_stopped_leaves_what_was_learned(tmp_path):
    algorithm = ddol.dogd().on(ddol.ring(4), period=64)
    rows = partial(rows_until, str(tmp_path / "never"))
    feed = Feed([SyntheticStream(rows, 10**9, 6, seed=k, block=512) for k in range(4)])
    learner = Learner(algorithm, Setup("ray", 2, schedule=Schedule("async")))
    learner.feed = feed

    def stop(progress):
        if progress.may_stop and progress.agent_examples.all():
            raise KeyboardInterrupt

    learner.on_progress = stop
    with pytest.raises(KeyboardInterrupt):
        learner.follow(feed)
    trace = learner.trace()
    learner.close()
    assert trace.state.examples.all()
    assert trace.mistakes.sum() < trace.examples / 4
    assert np.abs(trace.weights).max(axis=(1, 2)).all()
