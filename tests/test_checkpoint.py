"""Checkpoints: a run that goes on from one ends as if it had never stopped."""

from __future__ import annotations

import numpy as np
import pytest

import ddol
from ddol.checkpoint import load_checkpoint, resume, save_checkpoint, saved_in, set_aside, take
from ddol.engines.learner import Feed, Learner, Setup
from ddol.streams import DataError, array_stream
from ddol.streams.stumps import fit_stumps

rng = np.random.default_rng(0)
X = rng.standard_normal((203, 5))
Y = np.where(X @ rng.standard_normal(5) + 0.3 * rng.standard_normal(203) > 0, 1.0, -1.0)


def _stream(algorithm):
    stream = array_stream(X, Y)
    return fit_stumps(stream).stream(stream) if algorithm.update.experts else stream


class EnoughError(Exception):
    pass


def _play(algorithm, stream, stop=None, saved=None, **known):
    """The trace, or a checkpoint after `stop` blocks."""
    learner, blocks = Learner(algorithm, SETUP), []

    def count(progress):
        if progress.position is not None:
            blocks.append(progress.position)
            if len(blocks) == stop:
                raise EnoughError

    if saved is not None:
        resume(learner, saved)
    learner.on_progress = count
    try:
        learner.follow(Feed([stream], passes=2, block_rounds=7), learner.position)
    except EnoughError:
        return take(learner, **known)
    return learner.trace()


ALGORITHMS = {
    "dogd": ddol.dogd().on(4),
    "ring": ddol.dogd(l2=0.1).on(ddol.ring(4), period=3),
    "doeg": ddol.doeg(radius=5.0).on(4, batch=2),
    "delay": ddol.dogd(l2=0.0).on(ddol.ring(3), delay=4),
    "averaged": ddol.dogd().on(2, average_iterates=True),
    "dwm_a": ddol.dwm_a().on(3),
    "drwm": ddol.drwm().on(ddol.ring(5)),
}
SETUP = Setup(seed=5)


@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize("stop", [1, 6])
def test_a_resumed_run_is_the_same_to_the_bit(name, stop, tmp_path):
    algorithm = ALGORITHMS[name]
    stream = _stream(algorithm)
    whole = _play(algorithm, stream)
    save_checkpoint(tmp_path, _play(algorithm, stream, stop))
    trace = _play(algorithm, stream, saved=load_checkpoint(tmp_path))
    assert np.array_equal(trace.mistakes, whole.mistakes)
    assert np.array_equal(trace.loss, whole.loss)
    assert np.array_equal(trace.weights, whole.weights)
    for mine, theirs in zip(vars(trace.curves).values(), vars(whole.curves).values(), strict=True):
        assert np.array_equal(mine, theirs, equal_nan=True)


def _checkpoints(folder, stops, run=None):
    algorithm = ALGORITHMS["dogd"]
    for stop in stops:
        save_checkpoint(folder, _play(algorithm, _stream(algorithm), stop, run=run or {}))


def test_two_generations_are_kept_and_a_damaged_one_falls_back(tmp_path):
    _checkpoints(tmp_path, [1, 2, 3])
    (older, _), (newer, newest) = saved_in(tmp_path)
    newest.write_bytes(newest.read_bytes()[:100])
    told = []
    saved = load_checkpoint(tmp_path, warn=told.append)
    assert saved.rounds == older < newer
    assert len(told) == 1 and newest.name in told[0]


def test_nothing_whole_is_an_error_and_nothing_at_all_is_none(tmp_path):
    assert load_checkpoint(tmp_path) is None
    assert load_checkpoint(tmp_path / "missing") is None
    _checkpoints(tmp_path, [1])
    saved_in(tmp_path)[0][1].write_bytes(b"junk")
    with pytest.raises(DataError, match="none of them whole"):
        load_checkpoint(tmp_path, warn=lambda line: None)


def test_another_run_is_refused_by_the_name_of_the_difference(tmp_path):
    _checkpoints(tmp_path, [1], run={"agents": 4, "seed": 0})
    assert load_checkpoint(tmp_path, {"agents": 4, "seed": 0}) is not None
    with pytest.raises(DataError, match="agents was 4, now it is 8"):
        load_checkpoint(tmp_path, {"agents": 8, "seed": 0})


def test_old_checkpoints_can_be_set_aside(tmp_path):
    _checkpoints(tmp_path, [1, 2])
    assert set_aside(tmp_path) == 2
    assert load_checkpoint(tmp_path) is None
    assert len(list(tmp_path.glob("*.old"))) == 2
