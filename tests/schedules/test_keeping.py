"""Checkpoints of schedules: a run that was stopped between two blocks goes on to the bit."""

from contextlib import suppress

import numpy as np
import pytest
import scipy.sparse as sp

import ddol
from ddol.checkpoint import read_checkpoint, resume, save_checkpoint, take
from ddol.engines.feed import Feed
from ddol.engines.learner import Learner
from ddol.engines.setup import Setup
from ddol.schedules import clock_memory as words
from ddol.schedules.conditions import Conditions
from ddol.schedules.schedule import SCHEDULES, Schedule
from ddol.streams.arrays import array_stream
from ddol.streams.errors import DataError

ROUGH = Conditions(
    speed="1..3", latency="exponential:3", drop_messages=0.2, delay="geometric:2", churn=(20, 5)
)
rng = np.random.default_rng(0)
X = rng.standard_normal((203, 5))
Y = np.sign(X @ rng.standard_normal(5))


class EnoughError(Exception):
    """The run is stopped here."""


def feed(data, passes=2):
    return Feed([array_stream(data, Y)], passes, block_rounds=7)


def stopped(algorithm, setup, data, folder, after=3):
    """A checkpoint in the middle of a run."""
    learner, left = Learner(algorithm, setup), [after]

    def stop(progress):
        left[0] -= progress.position is not None
        if left[0] == 0:
            raise EnoughError

    learner.on_progress = stop
    with suppress(EnoughError):
        learner.follow(feed(data))
    return save_checkpoint(folder, take(learner))


def whole(algorithm, setup, data, saved=None):
    learner = Learner(algorithm, setup, on_progress=lambda progress: None)
    if saved is not None:
        resume(learner, saved)
    learner.follow(feed(data), learner.position)
    return learner.trace()


@pytest.mark.parametrize("after", [1, 9, 13])
@pytest.mark.parametrize("name", SCHEDULES)
def test_schedule_goes_on_to_the_bit(tmp_path, name, after):
    algorithm = ddol.dogd(l2=0.1, average_iterates=after == 9).on(ddol.ring(4))
    setup = Setup(seed=3, schedule=Schedule(name, ROUGH, record=True, certificate=after == 1))
    data = sp.csr_matrix(X * (abs(X) > 0.5)) if after == 9 else X
    saved = read_checkpoint(stopped(algorithm, setup, data, tmp_path, after))
    once, again = whole(algorithm, setup, data), whole(algorithm, setup, data, saved)
    assert np.array_equal(once.weights, again.weights)
    assert np.array_equal(once.loss, again.loss)
    assert once.events.same_as(again.events)
    assert once.dropped == again.dropped
    assert once.certificate.to_dict() == again.certificate.to_dict()
    assert [m.time for m in once.moments] == [m.time for m in again.moments]
    assert once.moments[3].shadow.plays == again.moments[3].shadow.plays
    assert np.array_equal(once.state.sums, again.state.sums)


@pytest.mark.parametrize(
    "rules",
    [
        {"talk": "drift:0.1"},
        {"compress": "8bit"},
        {"talk_to": 1, "talk": "drift:0.05"},
        {"teach": 1, "period": 3},
    ],
    ids=str,
)
def test_what_agents_have_said_goes_on_to_the_bit(tmp_path, rules):
    algorithm = ddol.adaptive().on(ddol.ring(4), **rules)
    setup = Setup(schedule=Schedule("async", Conditions(speed="1..3"), record=True))
    saved = read_checkpoint(stopped(algorithm, setup, X, tmp_path, 6))
    once, again = whole(algorithm, setup, X), whole(algorithm, setup, X, saved)
    assert np.array_equal(once.weights, again.weights)
    assert once.traffic == again.traffic
    assert once.events.same_as(again.events)


def test_certificate_of_rounds_goes_on_to_the_bit(tmp_path):
    algorithm, setup = ddol.doeg().on(4), Setup(schedule=Schedule(certificate=True))
    saved = read_checkpoint(stopped(algorithm, setup, X, tmp_path))
    once, again = whole(algorithm, setup, X), whole(algorithm, setup, X, saved)
    assert once.certificate.to_dict() == again.certificate.to_dict()
    assert len(once.moments) == len(again.moments)


def test_checkpoint_of_rounds_is_none_of_a_schedule(tmp_path):
    algorithm = ddol.dogd().on(ddol.ring(4))
    saved = read_checkpoint(stopped(algorithm, Setup(), X, tmp_path))
    with pytest.raises(DataError, match="found a checkpoint of rounds"):
        resume(Learner(algorithm, Setup(schedule=Schedule("async"))), saved)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("clock.queue", 10**9), ("clock.free_answers", -7), ("clock.due_what", 7), ("clock.words", -1),
        ("player.box", 10**6), ("player.free", 10**6), ("pool.serials", 5), ("pool.count", -3),
    ],
)  # fmt: skip
def test_numbers_that_point_outside_of_memory_are_refused(tmp_path, name, value):
    algorithm, setup = ddol.dogd().on(ddol.ring(4)), Setup(schedule=Schedule("async", ROUGH))
    saved = read_checkpoint(stopped(algorithm, setup, X, tmp_path))
    saved.kept[name][...] = value
    with pytest.raises(DataError, match="the file is damaged"):
        resume(Learner(algorithm, setup), saved)


def _ring_of_answers(kept):
    first = int(kept["clock.first"].max())
    kept["clock.next_answer"][first] = first


def _free_twice(kept):
    kept["clock.free_messages"][:2] = kept["clock.free_messages"][0]


def _turn_of_nobody(kept):
    turns = np.flatnonzero(kept["clock.due_what"] & 7 == words.TURN)
    kept["clock.due_what"][turns[0]] = words.TURN + (7 << words.WIRE)


def _drawn_below_0(kept):
    kept["clock.numbers"] = np.full(5, -0.5)


def _one_more(name):
    def change(kept):
        kept[name][0] += 1

    return change


def _changed(name, value):
    def change(kept):
        kept[name][:] = value

    return change


@pytest.mark.parametrize(
    "lie",
    [
        _ring_of_answers,
        _free_twice,
        _turn_of_nobody,
        _drawn_below_0,
        _one_more("clock.late"),
        _one_more("clock.copies"),
        _changed("clock.absent", 2),
        _changed("clock.now", np.nan),
        _changed("clock.due_turn", 0),
        _one_more("player.references"),
        _changed("player.turns", 1 << 40),
        _changed("run.numbers", np.inf),
    ],
)
def test_lists_and_counts_that_cannot_be_are_refused(tmp_path, lie):
    """Compiled code would follow a ring for ever, and write beyond a list of what is free."""
    rough = Conditions(latency="exponential:9", delay="3..9")
    algorithm, setup = ddol.dogd().on(ddol.ring(4)), Setup(schedule=Schedule("async", rough))
    saved = read_checkpoint(stopped(algorithm, setup, X, tmp_path, 9))
    resume(Learner(algorithm, setup), saved)
    lie(saved.kept)
    with pytest.raises(DataError, match="write"):
        resume(Learner(algorithm, setup), saved)
