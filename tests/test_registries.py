"""CONTRIBUTING's table of "to add … write …", tried: one of each from outside, and the command knows it."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import ddol
from ddol.cli.app import app
from ddol.communicate.topologies import TOPOLOGIES
from ddol.engines.kinds import ENGINES, EngineKind
from ddol.engines.local import Local
from ddol.presets import PRESETS, Preset
from ddol.streams.arrays import array_stream
from ddol.streams.formats import FORMATS
from ddol.testing import check_loss, check_topology
from ddol.update.losses import LOSSES, Loss

CONTRIBUTING = Path(__file__).parents[1] / "CONTRIBUTING.md"


def value(z, y, p):
    return max(0.0, 2.0 - y * z)


def derivative(z, y, p):
    return -y if y * z < 2.0 else 0.0


def wide_hinge():
    return Loss("wide_hinge", value, derivative)


def wheel(n):
    """A ring with spokes."""
    edges = [(0, k) for k in range(1, n)] + [(k, k % (n - 1) + 1) for k in range(1, n)]
    return ddol.from_edges(n, edges)


def slow_dogd(rate=0.1, C=1.0, **places):
    return ddol.dogd(rate=rate, C=C, **places)


class Counting(Local):
    """The local engine, which says that it was there."""

    name = "counting"
    blocks = 0

    def play(self, block, after=()):
        Counting.blocks += 1
        return super().play(block, after)


def open_pairs(paths, options):
    """Lines such as ``+ 0.5 2``."""
    lines = [line.split() for line in Path(paths[0]).read_text().splitlines()]
    y = [1.0 if sign == "+" else -1.0 for sign, *_ in lines]
    return array_stream(np.array([row[1:] for row in lines], float), y)


@pytest.fixture
def registered(monkeypatch):
    monkeypatch.setitem(LOSSES, "wide_hinge", wide_hinge)
    monkeypatch.setitem(TOPOLOGIES, "wheel", wheel)
    monkeypatch.setitem(PRESETS, "slow_dogd", Preset(slow_dogd))
    monkeypatch.setitem(ENGINES, "counting", EngineKind(Counting))
    monkeypatch.setitem(FORMATS, "pairs", (f"{__name__}:open_pairs", (".pairs",)))
    monkeypatch.setitem(
        __import__("sys").modules, __name__, __import__("types").SimpleNamespace(**globals())
    )


@pytest.fixture
def data(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 2))
    path = tmp_path / "points.pairs"
    path.write_text("".join(f"{'+' if a > b else '-'} {a:.3f} {b:.3f}\n" for a, b in X))
    return path


def test_the_command_learns_with_one_of_each(registered, data):
    Counting.blocks = 0
    words = ["--algorithm", "slow-dogd", "--rate", "0.5", "--topology", "wheel", "--agents", "5"]
    done = CliRunner().invoke(app, ["train", str(data), *words, "--engine", "counting"])
    assert done.exit_code == 0, done.stderr
    assert "60 examples" in done.stderr
    assert Counting.blocks > 0
    done = CliRunner().invoke(app, ["train", str(data), "--loss", "wide-hinge", "-q"])
    assert done.exit_code == 0, done.stderr


def test_the_help_and_the_errors_name_them(registered, data):
    page = "".join(CliRunner().invoke(app, ["train", "--help"]).stdout.split())  # lines are wrapped
    for name in ("wide-hinge", "wheel", "slow-dogd", "counting", "pairs"):
        assert name in page
    for option, name in (
        ("--loss", "wide_hinge"),
        ("--topology", "wheel"),
        ("--engine", "counting"),
    ):
        done = CliRunner().invoke(app, ["train", str(data), option, "nonsense"])
        assert done.exit_code == 2
        assert name in done.stderr.replace("wide-hinge", "wide_hinge")


def test_they_pass_the_contract_checks():
    check_loss(wide_hinge())
    for n in (4, 7):
        check_topology(wheel(n))


def test_an_estimator_takes_them(registered):
    X = np.random.default_rng(0).standard_normal((60, 2))
    y = X[:, 0] > X[:, 1]
    model = ddol.DDOLClassifier(
        "slow_dogd", rate=0.5, topology="wheel", n_agents=5, engine="counting"
    )
    assert model.fit(X, y).score(X, y) > 0.8
    by_name = ddol.DDOLClassifier("dogd", loss="wide_hinge").fit(X, y)
    assert by_name.trace_.algorithm.loss.name == "wide_hinge"
    with pytest.raises(ValueError, match="wide_hinge"):
        ddol.DDOLClassifier(loss="nonsense").fit(X, y)
    with pytest.raises(ValueError, match="'loss' parameter of DDOLRegressor"):
        ddol.DDOLRegressor(loss="wide_hinge").fit(X, y)


def test_the_table_says_where():
    table = CONTRIBUTING.read_text(encoding="utf-8")
    root = CONTRIBUTING.parent / "src" / "ddol"
    for registry in ("LOSSES", "TOPOLOGIES", "PRESETS", "ENGINES", "FORMATS"):
        place = re.search(rf"`{registry}` (?:in|of) `([\w/]+\.py)`", table)
        assert place, registry
        assert re.search(rf"^{registry}\b", (root / place[1]).read_text(), re.M)
    for named in re.findall(r"`((?:update|communicate|engines|streams|measure)/\w+\.py)`", table):
        assert (root / named).is_file(), named
