"""CONTRIBUTING's table of "to add … write …", tried: one of each from outside, and the command knows it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from click.testing import CliRunner
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import ddol
from ddol.cli.app import app
from ddol.communicate.topologies import TOPOLOGIES
from ddol.engines.kinds import ENGINES, EngineKind
from ddol.engines.local import Local
from ddol.parameters import Positive
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


def ftrl(
    beta: Positive = 1.0, loss: Loss | str = "logistic", shape: Literal["a", "b"] = "a", **places
):
    """Follow the regularised leader.

    Parameters
    ----------
    beta : float
        Smooths the learning rate
        of new features.
    loss : str or Loss
        What a prediction costs.
    shape : "a" or "b"
        Of nothing.
    """
    factor = 1.0 if shape == "a" else 2.0

    def rate(t):
        return factor / (beta + t**0.5)

    return ddol.dual_averaging(loss, rate=rate, **places)


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
    monkeypatch.setitem(PRESETS, "ftrl", Preset(ftrl))
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


def test_a_parameter_of_a_preset_is_an_option(registered, data, tmp_path):
    def train(*words):
        return CliRunner().invoke(app, ["train", str(data), "--algorithm", "ftrl", "-q", *words])

    page = " ".join(CliRunner().invoke(app, ["train", "--help-all"]).stdout.split())
    assert "--beta FLOAT Smooths the learning rate of new features. [default: (1)]" in page
    losses = []
    for words in ((), ("--beta", "5"), ("--beta", "5", "--shape", "b")):
        done = train(*words, "--json", str(tmp_path / "out.json"), "--model", str(tmp_path / "m"))
        assert done.exit_code == 0, done.stderr
        losses.append(json.loads((tmp_path / "out.json").read_text())["loss"])
    assert len({str(loss) for loss in losses}) == 3
    made = ddol.load(tmp_path / "m").known.algorithm
    assert (made.recipe["preset"], made.recipe["beta"], made.recipe["shape"]) == ("ftrl", 5.0, "b")
    assert made.rate(4) == 2.0 / 7.0
    for words, message in (
        (("--beta", "-1"), "--beta: found -1.0, expected a number above 0"),
        (("--shape", "c"), "--shape: found 'c', expected one of a, b"),
        (
            ("--radius", "1"),
            "--radius does not go with the algorithm ftrl, which has --beta, --loss",
        ),
        (("--algorithm", "dogd", "--beta", "1"), "--beta does not go with the algorithm dogd"),
    ):
        done = train(*words)
        assert done.exit_code == 2 and message in done.stderr


def test_a_module_of_own_parts_is_imported_first(tmp_path):
    (tmp_path / "own_parts.py").write_text(
        "import ddol\n"
        "from ddol.parameters import Positive\n"
        "from ddol.presets import PRESETS, Preset\n"
        "def calm(beta: Positive = 1.0, loss='logistic', **places):\n"
        "    return ddol.dogd(loss, rate=1.0 / beta, **places)\n"
        "PRESETS['calm'] = Preset(calm)\n"
    )

    def ddol_in_folder(*words):
        command = [sys.executable, "-m", "ddol", *words]
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)

    own = ("--import", "own_parts")
    done = ddol_in_folder(*own, "train", "--algorithm", "calm", "--beta", "2", "--model", "m")
    assert done.returncode == 0, done.stderr
    assert "calm" in ddol_in_folder(*own, "inspect", "m").stdout
    refused = ddol_in_folder("inspect", "m")
    assert refused.returncode == 2 and "calm" in refused.stderr
    strange = ddol_in_folder("--import", "nothing_there", "train")
    assert strange.returncode == 2 and "No module named 'nothing_there'" in strange.stderr


def test_a_preset_of_plain_annotations_takes_losses_as_objects(monkeypatch):
    monkeypatch.setitem(PRESETS, "calm", Preset(lambda loss="hinge", **places: ddol.dogd(loss)))
    model = ddol.DDOLClassifier("calm", loss="hinge").fit(np.eye(4), [0, 1, 0, 1])
    assert model.trace_.algorithm.loss.name == "hinge"


def test_a_parameter_of_a_preset_tells_checkpoints_apart(registered, data, tmp_path):
    words = [
        "train",
        str(data),
        "--algorithm",
        "ftrl",
        "-q",
        "--checkpoint",
        str(tmp_path / "kept"),
    ]
    assert CliRunner().invoke(app, [*words, "--beta", "5", "--every", "20"]).exit_code == 0
    done = CliRunner().invoke(app, [*words, "--beta", "6", "--every", "20", "--resume"])
    assert done.exit_code == 2 and "--beta was 5.0, now it is 6.0" in done.stderr


def test_a_parameter_of_a_preset_is_one_of_the_estimators(registered):
    X = np.random.default_rng(0).standard_normal((60, 2))
    y = X[:, 0] > X[:, 1]
    model = ddol.DDOLClassifier("ftrl", beta=5.0)
    assert clone(model).get_params()["beta"] == 5.0
    assert clone(model).set_params(beta=3.0).beta == 3.0
    assert model.fit(X, y).trace_.algorithm.recipe["beta"] == 5.0
    search = GridSearchCV(ddol.DDOLClassifier("ftrl"), {"beta": [1.0, 2.0]}, cv=2).fit(X, y)
    assert search.best_params_["beta"] in (1.0, 2.0)
    for wrong, message in (
        (ddol.DDOLClassifier("ftrl", beta=-1.0), "beta: found -1.0, expected a number above 0"),
        (ddol.DDOLClassifier("dogd", beta=1.0), "beta does not go with the algorithm dogd"),
        (ddol.DDOLClassifier("ftrl", radius=1.0), "radius does not go with the algorithm ftrl"),
    ):
        with pytest.raises(ValueError, match=message):
            wrong.fit(X, y)
    with pytest.raises(TypeError, match="gamma"):
        ddol.DDOLClassifier("ftrl", gamma=1.0)


def test_what_every_algorithm_has_is_a_parameter_everywhere():
    """`trust` is declared in job/options.py, and named nowhere in the estimators."""
    X = np.random.default_rng(0).standard_normal((60, 2))
    y = X[:, 0] > X[:, 1]
    model = ddol.DDOLClassifier("dogd", n_agents=3, trust="test").fit(X, y)
    assert clone(model).trust == "test" and model.trace_.algorithm.trust == "test"
    river = pytest.importorskip("ddol.river")
    assert river.Classifier("dogd", n_agents=3, trust="test").clone().trust == "test"


def test_a_parameter_of_a_preset_is_one_of_river_and_an_axis(registered):
    river = pytest.importorskip("ddol.river")
    model = river.Classifier("ftrl", beta=5.0)
    assert model.clone().beta == 5.0
    model.learn_one({"x": 1.0}, "apple")
    assert model.trace.algorithm.recipe["beta"] == 5.0
    with pytest.raises(ValueError, match="beta does not go with the algorithm dogd"):
        river.Classifier("dogd", beta=5.0).learn_one({"x": 1.0}, "apple")
    X = np.random.default_rng(0).standard_normal((60, 2))
    data = X, np.sign(X[:, 0] - X[:, 1])
    found = ddol.sweep({"algorithm": "ftrl", "beta": [0.5, 5.0]}, data, workers=1)
    assert found.varied == ("beta",) and found.rows[0]["loss"] != found.rows[1]["loss"]


ONE_MORE_OPTION = """
import json, sys
from dataclasses import dataclass
import ddol.streams.formats as formats
from ddol.parameters import Count, declared

@dataclass(frozen=True, kw_only=True)
class MoreOptions(formats.ReadOptions):
    thinning: Count = declared(1, "Take every k-th line only.", metavar="k")

formats.ReadOptions = MoreOptions  # the one place where it is declared
import ddol
from click.testing import CliRunner
from ddol.cli.app import app
from ddol.streams.arrays import array_stream

def open_thin(paths, options):  # the one place where it is used
    rows = [[float(cell) for cell in line.split()] for line in open(paths[0])][:: options.thinning]
    return array_stream([row[1:] for row in rows], [row[0] for row in rows])

sys.modules["thin"] = sys.modules["__main__"]
formats.FORMATS["thin"] = ("thin:open_thin", (".thin",))

def train(*words):
    done = CliRunner().invoke(app, ["train", *words, "-q", "--json", "-"])
    return json.loads(done.stdout)["examples"] if done.exit_code == 0 else done.stderr

path, job, kept = sys.argv[1:]
found = [train(path), train(path, "--thinning", "2", "--save-job", job)]
found += [train(job), train(job, "--thinning", "3")]
found += [ddol.run("dogd", path, 2, thinning=2).examples, ddol.train(ddol.Job.read(job)).examples]
swept = []
ddol.sweep({"thinning": [1, 3]}, path, workers=1, observe=lambda t, _: swept.append(t.examples) or {})
options = path, "--checkpoint", kept, "--every", "20"
train(*options)
other = train(*options, "--thinning", "2", "--resume")
print(json.dumps([found, swept, other, train(path, "--thinning", "0")]))
"""


def test_an_option_of_the_data_is_declared_in_one_place(tmp_path):
    path = tmp_path / "points.thin"
    path.write_text("1 0.5\n-1 -0.5\n-1 -1.0\n1 2.0\n1 1.5\n" * 12)
    words = [sys.executable, "-c", ONE_MORE_OPTION, path, tmp_path / "job.toml", tmp_path / "kept"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    found, swept, other, refused = json.loads(done.stdout.splitlines()[-1])
    assert found == [60, 30, 30, 20, 30, 30] and swept == [60, 20]
    assert "--thinning was 1, now it is 2" in other
    assert "--thinning: found 0, expected a whole number of at least 1" in refused


def test_the_table_says_where():
    table = CONTRIBUTING.read_text(encoding="utf-8")
    root = CONTRIBUTING.parent / "src" / "ddol"
    for registry in ("LOSSES", "TOPOLOGIES", "PRESETS", "ENGINES", "FORMATS"):
        place = re.search(rf"`{registry}` (?:in|of) `([\w/]+\.py)`", table)
        assert place, registry
        assert re.search(rf"^{registry}\b", (root / place[1]).read_text(), re.M)
    for named in re.findall(r"`((?:update|communicate|engines|streams|measure)/\w+\.py)`", table):
        assert (root / named).is_file(), named
