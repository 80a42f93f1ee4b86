"""Durability: what was acknowledged is there after any end, once."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import ddol
from ddol.node.errors import NodeError, NotDurableError
from ddol.node.journal import Journal, seconds_of

CHILD = """
import sys, ddol
node = ddol.Node("n", ddol.adaptive("logistic"), store=sys.argv[1], log_bytes=20_000, waiting=500_000)
first = int(sys.argv[2])
for k in range(first, first + 100_000):
    node.predict({"x": k % 7, f"f{k % 50}": 1.0}, id=str(k))
    print("p", k, flush=True)
    if k >= first + 5:
        print("a", k - 5, node.answer(str(k - 5), k % 7 > 3), flush=True)
"""


def make(store, **options):
    return ddol.Node("n", ddol.adaptive("logistic"), store=store, **options)


def teach(node, first, last):
    for k in range(first, last):
        node.predict({"x": k % 7, f"f{k % 11}": 1.0}, id=str(k))
        if k % 3:
            node.answer(str(k), k % 7 > 3)


def same(one, two):
    a, b = (node.read(lambda agent: agent) for node in (one, two))
    assert np.array_equal(one.weights(), two.weights())
    assert list(a.room.pending) == list(b.room.pending) and a.room.done == b.room.done
    assert a.features.names == b.features.names and list(a.window) == list(b.window)
    assert one.state()["error"] == two.state()["error"]


@pytest.mark.parametrize("log_bytes", [64 << 20, 3000])
def test_a_node_comes_back_as_it_was(tmp_path, log_bytes):
    """By the journal alone, and by snapshots with what stands behind them."""
    kept, plain = make(tmp_path / "a", log_bytes=log_bytes), make(None)
    for node in (kept, plain):
        teach(node, 0, 200)
    kept.journal.close()  # as if the process had ended
    back = make(tmp_path / "a")
    same(back, plain)
    teach(back, 200, 300)
    teach(plain, 200, 300)
    same(back, plain)
    assert "waiting predictions are back" in back.news[0]


def test_what_was_mixed_comes_back(tmp_path):
    one, two = make(tmp_path / "a"), ddol.Node("other", ddol.adaptive("logistic"))
    teach(one, 0, 50)
    teach(two, 1000, 1050)
    two.learn({"new": 2.0}, True)
    one.tell_network(2)
    one.receive(two.message())
    teach(one, 50, 60)
    one.journal.close()
    assert np.array_equal(make(tmp_path / "a").weights(), one.weights())


def test_closing_leaves_a_snapshot(tmp_path):
    with make(tmp_path) as node:
        teach(node, 0, 30)
    again = make(tmp_path)
    same(again, node)
    assert "by a snapshot and 0 records" in again.news[0]


def test_a_torn_tail_is_cut(tmp_path):
    node = make(tmp_path)
    teach(node, 0, 20)
    node.journal.close()
    [log] = tmp_path.glob("journal-*.log")
    whole = log.read_bytes()
    for cut in (1, 5, 40):
        log.write_bytes(whole[:-cut])
        back = make(tmp_path)
        assert "torn tail" in back.news[0]
        back.journal.close()


def test_records_behind_damage_are_kept_and_told(tmp_path, caplog):
    node = make(tmp_path)
    teach(node, 0, 20)
    node.journal.close()
    [log] = tmp_path.glob("journal-*.log")
    whole = bytearray(log.read_bytes())
    whole[len(whole) // 2] ^= 255
    log.write_bytes(whole)
    back = make(tmp_path)
    assert "is damaged at byte" in back.news[0] and 0 < back.state()["examples"] < 20
    assert "records behind it" in caplog.text
    [beside] = tmp_path.glob("journal-*.cut")
    assert log.read_bytes() + beside.read_bytes() == whole
    back.journal.close()
    log.with_name("journal-00000001.log").write_bytes(b"")
    log.write_bytes(whole)
    with pytest.raises(NodeError, match="a later log follows"):
        make(tmp_path)


def test_a_damaged_snapshot_is_passed_over(tmp_path):
    node = make(tmp_path)
    for k in range(3):
        teach(node, 20 * k, 20 * k + 20)
        node.snapshot()
    node.journal.close()
    newest = max(tmp_path.glob("snapshot-*"))
    newest.write_bytes(newest.read_bytes()[:-3] + b"xyz")
    back = make(tmp_path)
    same(back, node)
    assert "going on from an older one" in back.news[0]


def test_old_logs_are_removed(tmp_path):
    node = make(tmp_path)
    for k in range(5):
        teach(node, 20 * k, 20 * k + 20)
        node.snapshot()
    node.close()
    assert len(list(tmp_path.glob("snapshot-*"))) == len(list(tmp_path.glob("journal-*"))) == 2


def test_a_store_is_one_nodes(tmp_path):
    node = make(tmp_path)
    with pytest.raises(NodeError, match="another process uses this store"):
        make(tmp_path)
    node.journal.close()


def test_another_algorithm_does_not_go_on(tmp_path):
    with make(tmp_path) as node:
        teach(node, 0, 5)
    with pytest.raises(NodeError, match="another algorithm"):
        ddol.Node("n", ddol.coin("logistic"), store=tmp_path)
    with pytest.raises(NodeError, match="hash_bits"):
        make(tmp_path, hash_bits=4)


def test_a_full_disk_stops_answers_and_not_predictions(tmp_path, monkeypatch):
    node = make(tmp_path)
    teach(node, 0, 10)
    node.predict({"x": 1.0}, id="a")
    before = node.weights()
    write = os.write
    monkeypatch.setattr("ddol.node.journal.os.write", lambda fd, text: write(fd, text[:3]))
    with pytest.raises(NotDurableError, match="the answer was not learned"):
        node.answer("a", True)
    assert node.predict({"x": 1.0}, id="b").label is not None
    assert np.array_equal(before, node.weights()) and not node.state()["durable"]
    monkeypatch.undo()
    assert node.answer("a", True) == "accepted" and node.state()["durable"]
    assert node.answer("b", True) == "accepted"
    node.journal.close()
    same(make(tmp_path), node)


def test_a_log_that_cannot_be_begun_leaves_the_one_of_now(tmp_path, monkeypatch):
    """Its descriptor must not be closed: the next file that is opened would get records into it."""
    node = make(tmp_path / "store")
    teach(node, 0, 10)
    opened = os.open

    def full(path, *given):
        if "journal-00000001" in str(path):
            raise OSError(28, "No space left on device")
        return opened(path, *given)

    monkeypatch.setattr("ddol.node.journal.os.open", full)
    with pytest.raises(OSError, match="No space left"):
        node.snapshot()
    with (tmp_path / "other").open("w"):
        teach(node, 10, 20)
    assert (tmp_path / "other").read_bytes() == b""
    node.journal.close()
    same(make(tmp_path / "store"), node)


def test_the_journal_is_bounded_without_labels(tmp_path):
    """Predictions and messages of others alone begin new logs, too."""
    node, other = (
        make(tmp_path, log_bytes=5000, waiting=10),
        ddol.Node("o", ddol.adaptive("logistic")),
    )
    for k in range(1000):
        node.predict({"x": 1.0}, id=str(k))
    other.learn({"x": 1.0}, True)
    for _ in range(200):
        node.receive(other.message())
    node.close()
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 100_000
    same(make(tmp_path), node)


def test_a_closed_node_takes_no_labels(tmp_path):
    node = make(tmp_path)
    teach(node, 0, 10)
    node.predict({"x": 1.0}, id="late")
    node.close()
    for late in (lambda: node.answer("late", True), lambda: node.learn({"x": 1.0}, True)):
        with pytest.raises(NotDurableError, match="closed"):
            late()
    assert node.predict({"x": 1.0}).label is not None and node.close() == []
    same(make(tmp_path), node)


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ({"hash_bits": 18}, {"hash_bits": 5}),
        ({"hash_bits": 18}, {}),
        ({"classes": [False, True]}, {"classes": [True, 2]}),
        ({}, {"classes": [False, True]}),
        ({}, {"columns": ["x"]}),
    ],
)
def test_a_journal_is_not_played_with_other_settings(tmp_path, before, now):
    """Not even where there is no snapshot yet, which would tell."""
    node = make(tmp_path, **before)
    teach(node, 0, 10)
    node.journal.close()
    with pytest.raises(NodeError, match=r"began with `(hash_bits|classes|columns)`"):
        make(tmp_path, **now)
    with pytest.raises(NodeError, match="another algorithm"):
        ddol.Node("n", ddol.coin("logistic"), store=tmp_path, **before)
    same(make(tmp_path, **before), node)


def test_arrays_keep_their_width(tmp_path):
    node = make(tmp_path)
    node.learn([1.0, 2.0], True)
    node.journal.close()
    with pytest.raises(NodeError, match="arrays of 2 numbers, found `n_features` 3"):
        make(tmp_path, n_features=3)
    same(make(tmp_path, n_features=2), node)


def test_fewer_may_wait_after_a_restart(tmp_path):
    """The journal has answers of predictions that would not have waited with the limit of now."""
    node = make(tmp_path, waiting=50)
    for k in range(50):
        node.predict({"x": k}, id=str(k))
    assert node.answer("0", True) == "accepted"
    node.journal.close()
    for _ in range(2):
        node = make(tmp_path, waiting=5)
        assert node.state()["examples"] == 1 and node.state()["waiting"] == 5
        assert [node.status(str(k)) for k in (44, 45)] == ["expired", "waiting"]
        node.journal.close()


def test_a_store_that_cannot_be_made_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "file" / "inside"):
        with pytest.raises(NodeError, match="cannot be the store of a node"):
            make(place)


@pytest.mark.parametrize("durability", ["sync", "batch:1ms", "none"])
def test_who_waits_for_the_disk(tmp_path, durability):
    journal = Journal(tmp_path, durability)
    place, called = journal.append(b"x"), []
    journal.when_flushed(place, lambda: called.append(journal.flushed >= place))
    deadline = time.monotonic() + 10
    while not called and time.monotonic() < deadline:
        time.sleep(0.001)
    assert called == [durability != "none"]
    journal.close()


def test_times_and_durabilities_are_checked(tmp_path):
    with pytest.raises(NodeError, match="found the time 'soon'"):
        seconds_of("soon")
    with pytest.raises(NodeError, match="expected sync, batch:5ms or none"):
        make(tmp_path, durability="often")


def test_kill_9_loses_no_acknowledged_answer_and_counts_none_twice(tmp_path):
    """A process that predicts and answers is killed at random moments, and goes on each time."""
    rng, answered, predicted, first = random.Random(3), set(), set(), 0
    for _ in range(3):
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, str(tmp_path), str(first)],
            stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )  # fmt: skip
        lines = [child.stdout.readline()]
        time.sleep(rng.uniform(0.02, 0.3))
        child.send_signal(signal.SIGKILL)
        lines += child.stdout.read().splitlines(keepends=True)
        child.wait()
        for line in (line.split() for line in lines if line.endswith("\n")):
            (predicted if line[0] == "p" else answered).add(line[1])
            assert line[0] == "p" or line[2] == "accepted"
        first = max(map(int, predicted)) + 100
    node = make(tmp_path, waiting=500_000)
    shown = node.read(lambda agent: (dict(agent.room.pending), dict(agent.room.done)))
    done = {name for name, became in shown[1].items() if became == "answered"}
    assert answered <= done and len(done) == node.state()["examples"]
    assert len(done - answered) <= 4  # one at most was learned without its acknowledgement seen
    assert predicted <= done | set(shown[0])
    assert {node.answer(name, True) for name in answered} == {"duplicate"}


def test_records_are_plain_text_or_arrays(tmp_path):
    """Nothing in a store is executed when it is read."""
    with make(tmp_path) as node:
        teach(node, 0, 5)
    for path in Path(tmp_path).iterdir():
        assert b"pickle" not in path.read_bytes()
    assert json.loads(json.dumps(node.state()))["examples"] == 3
