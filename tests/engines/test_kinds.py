"""Engines state what they can do, and nothing else asks for their names."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import ddol
from ddol.cli.app import app
from ddol.engines.errors import SetupError
from ddol.engines.kinds import ENGINES, Capabilities, EngineKind
from ddol.engines.learner import Learner
from ddol.engines.local import Local
from ddol.engines.setup import Setup
from ddol.schedules.schedule import Schedule
from ddol.streams.rows import Rows
from ddol.testing import check_engine

SOURCE = Path(ddol.__file__).parent
RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 2))
Y = np.sign(X[:, 0] - X[:, 1])


class Mine(Local):
    """The local engine under another name."""

    name = "mine"


@pytest.fixture
def mine(monkeypatch):
    def register(**can):
        kind = EngineKind(Mine, can=Capabilities(**can))
        monkeypatch.setitem(ENGINES, "mine", kind)
        return kind

    return register


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "a.csv"
    rows = "".join(f"{a:.3f},{b:.3f},{int(y > 0)}\n" for (a, b), y in zip(X, Y, strict=True))
    path.write_text("a,b,label\n" + rows)
    return path


def train(*words):
    return CliRunner().invoke(app, ["train", *map(str, words), "--quiet"])


def test_an_engine_from_outside_works_behind_every_door(mine, data, tmp_path):
    mine(predictions=True, asks=True)
    ring = ddol.dogd().on(ddol.ring(3))
    ours, theirs = (ddol.run(ring, (X, Y), engine=name) for name in ("mine", "local"))
    assert ours.engine == "mine" and ours.mistakes.tolist() == theirs.mistakes.tolist()
    assert ddol.run(ring, (X, Y), engine="mine", certificate=True).certificate is not None
    out, figures = tmp_path / "said", tmp_path / "figures.json"
    done = train(data, "--engine", "mine", "--predictions", out, "--json", figures)
    assert done.exit_code == 0, done.stderr
    assert len(out.read_text().split()) == 60
    assert json.loads(figures.read_text())["engine"] == "mine"
    assert ddol.DDOLClassifier(engine="mine").fit(X, Y).trace_.engine == "mine"
    found = ddol.sweep({"algorithm": "dogd", "engine": ["mine", "local"]}, (X, Y), workers=1)
    assert found.rows[0]["loss"] == found.rows[1]["loss"]


class Bare:
    """Nothing but the interface of engines, over workers of its own."""

    name = "bare"
    workers = 1

    def __init__(self, inside):
        self._inside = inside

    @classmethod
    def open(cls, algorithm, state, setup):
        return cls(Local(algorithm, state))

    def play(self, block, after=()):
        return self._inside.play(block, after)

    def state(self):
        return self._inside.state()

    def counters(self):
        return self._inside.counters()

    def weights(self):
        return self._inside.weights()

    def close(self):
        pass


@pytest.mark.parametrize("network", [ddol.ring(3), ddol.complete(4)], ids=str)
def test_an_engine_needs_no_more_than_the_interface(monkeypatch, network):
    monkeypatch.setitem(ENGINES, "bare", EngineKind(Bare))
    check_engine(ddol.dogd().on(network, delay=2), "bare")
    learner = Learner(ddol.dogd().on(network), Setup("bare"))
    learner.learn(Rows.from_dense(X, Y))
    assert learner.scores(Rows.from_dense(X, Y)).shape == (60, 1)
    assert learner.trace().examples == 60


def test_an_engine_that_plays_schedules_is_opened_for_them(mine):
    mine(schedules=("async",), clock=True, talks=True)
    ring = ddol.dogd().on(ddol.ring(3))
    for options in ({"schedule": "async", "record": True}, {"talk": "drift"}):
        ours, theirs = (ddol.run(ring, (X, Y), engine=e, **options) for e in ("mine", "local"))
        assert np.array_equal(ours.weights, theirs.weights)
        assert ours.messages == theirs.messages
    again = ddol.run(ring, (X, Y), engine="mine", schedule="async", record=True)
    replayed = ddol.run(ring, (X, Y), engine="mine", replay=again.events)
    assert np.array_equal(replayed.weights, again.weights)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"certificate": True}, "a certificate of rounds needs an engine that returns the scores"),
        ({"schedule": "gossip"}, "the schedule gossip needs an engine that plays schedules"),
        (
            {"schedule": Schedule(patient=True)},
            "a patient pool .* which mine does not; use local, threads or ray",
        ),
        ({"talk": "drift"}, "which mine does not; use local or threads"),
        ({"query": "0.5+neighbours"}, "`query` of neighbours needs an engine that lets"),
    ],
)
def test_what_it_cannot_do_is_said_in_one_sentence(mine, options, message):
    mine()
    with pytest.raises(SetupError, match=message):
        ddol.run(ddol.dogd(), (X, Y), 3, engine="mine", **options)


def test_the_command_line_says_the_same(mine, data, tmp_path):
    mine()
    done = train(data, "--engine", "mine", "--predictions", tmp_path / "said")
    assert done.exit_code == 2
    assert done.stderr.strip().endswith(
        "--predictions needs an engine that returns the scores of single examples, which mine does not; "
        "use local or threads"
    )
    done = train(
        data, "--engine", "threads", "--schedule", "async", "--checkpoint", tmp_path / "kept"
    )
    assert done.exit_code == 2
    assert "needs an engine that runs schedules on a virtual clock, which threads" in done.stderr


def test_nothing_but_the_registration_compares_the_name_of_an_engine():
    """An engine from outside would be treated as if it could do nothing, or everything."""
    names = {"local", "threads", "mpi", "ray"}
    comparing = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Compare):
                continue
            compared = {
                each.value
                for side in (node.left, *node.comparators)
                for each in ast.walk(side)
                if isinstance(each, ast.Constant) and isinstance(each.value, str)
            }
            if names & compared:
                comparing.add(f"{path.relative_to(SOURCE)}:{ast.unparse(node)}")
    # Packages of data frames, and Ray's own word for a cluster of one machine.
    others = {
        "streams/tables/frames.py:owner == 'ray'",
        "engines/ray/cluster.py:found != 'local'",
    }
    assert comparing == others
