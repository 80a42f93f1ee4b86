"""Checkpoints: a run that goes on from one ends as if it had never stopped."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import ddol
from ddol.checkpoint import (
    load_checkpoint,
    resume,
    save_checkpoint,
    saved_in,
    set_aside,
    take,
)
from ddol.engines.feed import Feed
from ddol.engines.learner import Learner
from ddol.engines.setup import Setup
from ddol.folders import folder_at
from ddol.storage import check_writable, write_text
from ddol.streams import DataError, array_stream
from ddol.streams.coding.stumps import fit_stumps
from ddol.streams.rows import Block
from ddol.streams.text.libsvm import LibsvmStream

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
    "private": ddol.private(ddol.adaptive(), "epsilon:4,every:7,releases:5").on(3),
    "drwm": ddol.drwm().on(ddol.ring(5)),
    "asking": ddol.adaptive().on(3, query="random:0.1"),
    "asking late": ddol.adaptive().on(ddol.ring(3), query=0.1, delay=2),
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


def test_one_flipped_bit_is_noticed_and_the_one_before_serves(tmp_path):
    _checkpoints(tmp_path, [1, 2])
    (older, _), (_, newest) = saved_in(tmp_path)
    whole = newest.read_bytes()
    for place in range(len(whole) - 1, 0, -len(whole) // 40):
        changed = bytearray(whole)
        changed[place] ^= 1
        newest.write_bytes(bytes(changed))
        told = []
        assert load_checkpoint(tmp_path, warn=told.append).rounds == older
        assert len(told) == 1


def _delayed():
    algorithm = ALGORITHMS["delay"]
    return algorithm, _play(algorithm, _stream(algorithm), 6)


def _rows(saved, **changes):
    late = saved.state.pending
    return {"pending": Block(replace(late.rows, **changes), late.table)}


CRAFTED = {
    "rows that do not exist": lambda saved: {
        "pending": Block(saved.state.pending.rows, saved.state.pending.table + 10**6)
    },
    "rows below 0": lambda saved: {
        "pending": Block(saved.state.pending.rows, saved.state.pending.table - 7)
    },
    "a shorter table": lambda saved: {
        "pending": Block(saved.state.pending.rows, saved.state.pending.table[:1])
    },
    "more features than weights": lambda saved: _rows(saved, n_features=10**6),
    "fewer values than rows": lambda saved: _rows(saved, data=saved.state.pending.rows.data[:-1]),
    "no answers": lambda saved: {"pending": None},
    "another number of copies": lambda saved: {"theta": np.repeat(saved.state.theta, 2, 0)},
    "another type": lambda saved: {"theta": saved.state.theta.astype(np.int64)},
    "fewer agents": lambda saved: {"mistakes": saved.state.mistakes[:-1]},
    "another batch": lambda saved: {"slopes": saved.state.slopes[:, :, :0]},
    "pieces": lambda saved: {"theta": np.repeat(saved.state.theta, 2, 3)[..., ::2]},
    "no features": lambda saved: {"theta": saved.state.theta[..., :0]},
    "a negative round": lambda saved: {"t": -3},
    "half a round": lambda saved: {"t": 2.5},
    "negative counts": lambda saved: {"examples": saved.state.examples - 10**6},
}


@pytest.mark.parametrize("name", CRAFTED)
def test_no_address_is_taken_of_a_state_that_does_not_fit(name):
    algorithm, saved = _delayed()
    state = replace(saved.state, **CRAFTED[name](saved))
    with pytest.raises(DataError, match=r"DIR: .*expected"):
        resume(Learner(algorithm), replace(saved, state=state), "DIR")
    with pytest.raises(DataError, match="expected"):
        Learner(algorithm, state=state).weights()


@pytest.mark.parametrize("position", [{"at": -1}, [{"skip": -5}], {"skip": 1.5}, {"skip": 1 << 70}])
def test_positions_that_no_stream_has_are_refused(position):
    algorithm, saved = _delayed()
    with pytest.raises(DataError, match=r"position: found .*, expected a whole number"):
        resume(Learner(algorithm), replace(saved, position=position))


@pytest.mark.parametrize(
    "position",
    [
        [],
        {"pass": 0, "streams": [None]},
        {"pass": 0, "streams": [{"block": None}]},
        {"pass": 0, "streams": 2 * [{"block": None, "skip": 0, "dealt": 0}]},
        {"pass": 0, "streams": [{"block": {"x": 1}, "skip": 0, "dealt": 0}]},
        json.loads(900 * "[" + 900 * "]"),
    ],
)
def test_positions_of_other_streams_are_refused(position):
    algorithm, saved = _delayed()
    learner = Learner(algorithm)
    with pytest.raises(
        DataError, match=r"expected one (that|from a checkpoint)|not that of a checkpoint"
    ):
        resume(learner, replace(saved, position=position))
        learner.follow(Feed([LibsvmStream(("no-such-file",))]), learner.position)


def test_curves_of_another_run_are_refused():
    algorithm, saved = _delayed()
    for changes in (
        {"rounds": saved.recorder["rounds"][::-1]},
        {"rounds": saved.recorder["rounds"] + 1000},
        {"loss": saved.recorder["loss"][:-1]},
        {"agent_loss": saved.recorder["agent_loss"][:, :0]},
    ):
        with pytest.raises(DataError, match="found"):
            resume(Learner(algorithm), replace(saved, recorder={**saved.recorder, **changes}))


def test_two_runs_do_not_write_to_one_folder(tmp_path):
    with (
        folder_at(tmp_path).locked(),
        pytest.raises(DataError, match=r"process .* is writing its checkpoints there"),
        folder_at(tmp_path).locked(),
    ):
        pass
    with folder_at(tmp_path).locked():
        pass


def test_an_output_follows_a_link(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real" / "out.txt")
    check_writable(tmp_path / "link")
    write_text(tmp_path / "link", "done")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / "out.txt").read_text() == "done"
