"""Actors of Ray that are lost at the worst moments: while the driver asks them, and after the end."""

from __future__ import annotations

import numpy as np
import pytest
from tests.ray_streams import at_once, kill, or_skipped, rows_of, small_cluster, until

import ddol
from ddol.engines.errors import EngineError
from ddol.engines.feed import Feed
from ddol.engines.learner import Learner
from ddol.engines.ray.actor_turns import ActorTurns
from ddol.engines.ray.pool import ActorsLostError
from ddol.engines.ray.turn_state import PublishedRows
from ddol.engines.setup import Setup
from ddol.engines.state import start_state
from ddol.schedules.schedule import Schedule
from ddol.streams.synthetic import SyntheticStream

ray = pytest.importorskip("ray")

ALGORITHM = ddol.dogd().on(ddol.ring(4), period=64)


@pytest.fixture(scope="module", autouse=True)
def cluster():
    with or_skipped(small_cluster()):
        yield


def same(learner: Learner, n: int) -> None:
    trace = learner.trace()
    learner.close(keep=False)
    alone = ddol.run(ALGORITHM, at_once(n))
    assert trace.examples == alone.examples
    assert trace.mistakes.tolist() == alone.mistakes.tolist()
    np.testing.assert_allclose(trace.weights, alone.weights, rtol=0, atol=1e-9)
    np.testing.assert_allclose(trace.curves.mistakes[-1], alone.curves.mistakes[-1])


@pytest.mark.parametrize(("asked", "rank"), [("state", 0), ("trace", 1), (None, 0)])
def test_lost_while_the_driver_looks(asked, rank, capfd, tmp_path):
    """Whoever is told of the progress asks an actor that has just gone; or the driver does."""
    learner, told = Learner(ALGORITHM, Setup("ray", 2)), []

    def look(progress):
        told.append(progress)
        if len(told) == 1:
            kill(learner.engine, rank)
            (tmp_path / "killed").touch()
            if asked is not None:
                with pytest.raises(ActorsLostError):
                    getattr(learner, asked)()
                getattr(learner, asked)()

    learner.on_progress = look
    learner.follow(Feed([until(tmp_path / "killed", 150_000)]))
    assert len(told) > 1
    same(learner, 150_000)
    assert " was lost; Ray starts another one" in capfd.readouterr().err


def test_lost_after_the_end():
    """What was played is played again, and the answer is the same."""
    learner = Learner(ALGORITHM, Setup("ray", 2))
    learner.follow(Feed([at_once(4000)]))
    kill(learner.engine, 0)
    assert int(learner.state().examples.sum()) == 4000
    kill(learner.engine, 1, 0)
    same(learner, 4000)


def test_lost_between_blocks_of_the_driver():
    """Blocks that no copy holds are played again; where the copies are lost as well, that is said."""
    endless = SyntheticStream(
        rows_of, 1 << 40, 6, seed=3
    )  # copies are made when it is time for them
    learner, local = Learner(ALGORITHM, Setup("ray", 2)), Learner(ALGORITHM)
    for k, (rows, _) in enumerate(endless.read()):
        learner.learn(rows)
        local.learn(rows)
        copied = learner.engine.version >= 2  # a slow machine makes several in one block
        if k == 0 or copied:
            kill(learner.engine, 1)
        if copied:
            break
    np.testing.assert_allclose(learner.weights(), local.weights(), rtol=0, atol=1e-9)
    kill(learner.engine, 0, 1)
    with pytest.raises(EngineError, match="lost together with the copy of its agents"):
        learner.weights()
    learner.close(keep=False)


def test_stopped_by_whoever_looks(tmp_path):
    """The state and the position that are left are of one moment, and what follows it is not missed."""
    learner, told = Learner(ALGORITHM, Setup("ray", 2)), []

    def look(progress):
        told.append(progress)
        kill(learner.engine, 1)
        (tmp_path / "killed").touch()
        raise InterruptedError

    learner.on_progress = look
    with pytest.raises(InterruptedError):
        learner.follow(Feed([until(tmp_path / "killed", 150_000)]))
    state, past = learner.state(), learner.past()
    learner.close(keep=False)
    assert 0 < int(state.examples.sum()) < 150_000
    other = Learner(ALGORITHM, Setup(), state)
    other.follow(Feed([at_once(150_000)]), past.position)
    same(other, 150_000)


def test_a_message_that_cannot_be_right_ends_the_turns():
    state = start_state(ALGORITHM, 6, 0)
    setup = Setup("ray", 2, schedule=Schedule("async"))
    feed = Feed([at_once(4000)])
    turns = ActorTurns(ALGORITHM, state, setup, feed, [(0, 2), (2, 2)], 0)
    one = np.ones(1, np.int64)
    turns.receive(PublishedRows(one + 1, one, one, np.zeros((1, 3))))
    with pytest.raises(RuntimeError, match=r"found float64 of shape \(1, 3\) in a message"):
        turns.play(iter, lambda: None)
