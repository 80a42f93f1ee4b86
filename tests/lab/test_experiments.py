"""The paper's experiments: configs, data, claims, and what is written."""

import hashlib
import json
import os
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ddol.lab.experiments import sources
from ddol.lab.experiments.config import choose, known_figures
from ddol.lab.experiments.evidence import HOLDS, NOT, PART, falls, together
from ddol.lab.experiments.run import reproduce
from ddol.streams.errors import DataError

DATA = Path(os.environ.get("DDOL_DATA", Path(__file__).parents[3] / "shared" / "data"))


def needs(name):
    path = DATA / sources.DATASETS[name].file
    return pytest.mark.skipif(
        not path.exists(), reason=f"{path} is missing; set DDOL_DATA to the folder that has it"
    )


def libsvm(n, d, seed=0, labels=(0, 1)):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    y = X @ np.linspace(1, 2, d) + 0.3 * rng.standard_normal(n) > 0
    lines = (
        f"{labels[int(k)]} " + " ".join(f"{j + 1}:{v:.4f}" for j, v in enumerate(row))
        for row, k in zip(X, y, strict=True)
    )
    return "\n".join(lines) + "\n"


@pytest.fixture
def folder(tmp_path):
    """Small files with the names of the paper's."""
    (tmp_path / "svmguide1").write_text(libsvm(300, 4))
    (tmp_path / "cod-rna").write_text(libsvm(400, 8, labels=(-1, 1)))
    (tmp_path / "covtype.libsvm.binary.scale").write_text(libsvm(640, 6, labels=(-1, 1)))
    return str(tmp_path)


def test_the_figures_have_the_parameters_of_the_paper():
    figures = {figure.number: figure for figure in known_figures()}
    assert sorted(figures) == list(range(1, 11))
    for number in (1, 2, 3, 4):
        assert figures[number].parameters == {"alpha": 0.9}
        assert figures[number].experts == 4
    assert figures[5].parameters == figures[6].parameters == {"C": 0.01}
    assert {figures[n].parameters["radius"] for n in (7, 8, 9, 10)} == {1e4}
    assert figures[10].agents == (1, 2, 4, 8, 16, 32, 64)
    assert figures[10].rows == 522_910


def test_a_figure_of_ones_own(tmp_path, folder):
    own = tmp_path / "own.toml"
    text = 'number = 11\ntitle = "Own"\nshow = "objective"\ndata = "cod-rna"\n'
    own.write_text(text + 'variants = ["scaled"]\nalgorithms = ["ogd"]\nagents = [1, 2]\n')
    found = reproduce([str(own)], folder, seeds=1)
    assert [line.name for line in found.charts["own"]["scaled"].lines] == ["N = 1", "N = 2"]
    own.write_text(text + 'variants = ["upside down"]\nalgorithms = ["ogd"]\nagents = [1]\n')
    with pytest.raises(DataError, match=r"own.toml: found 'upside down' in variants, expected"):
        choose([str(own)])
    own.write_text(text)
    with pytest.raises(DataError, match=r"own.toml: found no 'agents'"):
        choose([str(own)])


def test_an_unknown_figure_is_named():
    with pytest.raises(
        DataError, match="found the figure 'eleven', expected a number from 1 to 10"
    ):
        choose(["eleven"])


def test_everything_on_small_data(folder, tmp_path):
    seen = []
    found = reproduce(data=folder, seeds=2, progress=lambda figure, done, total: seen.append(done))
    assert seen == list(range(1, len(seen) + 1))
    assert len(found.claims) == 20
    assert {claim.verdict for claim in found.claims} <= {HOLDS, PART, NOT}
    page = found.write(tmp_path / "out", "ddol reproduce").read_text(encoding="utf-8")
    assert not re.search(
        r"""(src|href)\s*=\s*["'](?!data:)|url\(|@import|https?://|<script""", page
    )
    for claim in found.claims:
        assert claim.verdict in page
    numbers = json.loads((tmp_path / "out" / "numbers.json").read_text())
    assert len(numbers["figures"]) == 10
    assert [row["agents"] for row in numbers["speed"]] == [1, 2, 4, 8, 16, 32, 64]
    assert all(row["holds"] and row["regret"] <= row["bound"] for row in numbers["regret"])
    assert len(numbers["regret"]) == 8
    drawings = sorted((tmp_path / "out").glob("*.svg"))
    assert len(drawings) == 18
    for drawing in drawings:
        assert ET.parse(drawing).getroot().get("role") == "img"
    assert found.markdown().count("\n") == len(found.claims) + 1
    assert "DOGD matches the paper" in found.scale


def test_only_claims_about_the_figures_that_were_run(folder):
    found = reproduce(["3"], folder, seeds=1)
    figures = {number for claim in found.claims for number in claim.figures.split(", ")}
    assert not figures & {"5", "6", "7", "8", "9", "10"}
    assert found.scale == ""


def test_seeds_are_orders_and_the_file_order_has_one(folder):
    found = reproduce(["3"], folder, seeds=3)
    for run in found.series["dwm-total-svmguide1"]:
        assert run["seeds"] == (1 if run["variant"] == "file order" else 3)


def test_runs_are_the_same_every_time(folder):
    first, second = (reproduce(["5"], folder, seeds=2).series for _ in range(2))
    for a, b in zip(first["dogd-mistakes-cod-rna"], second["dogd-mistakes-cod-rna"], strict=True):
        assert a["total_objective"] == b["total_objective"]


# --- data ----------------------------------------------------------------------------------------


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder that stands for the LIBSVM site, and an empty cache."""
    text = libsvm(50, 4)
    place = tmp_path / "site"
    place.mkdir()
    (place / "svmguide1").write_text(text)
    known = replace(sources.DATASETS["svmguide1"], sha256=hashlib.sha256(text.encode()).hexdigest())
    monkeypatch.setattr(sources, "SITE", place.as_uri() + "/")
    monkeypatch.setitem(sources.DATASETS, "svmguide1", known)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("DDOL_DATA", raising=False)
    return place


def test_data_are_downloaded_once_and_checked(site):
    said = []
    path = sources.find("svmguide1", None, said.append)
    assert path.read_text() == (site / "svmguide1").read_text()
    assert len(said) == 1
    assert said[0].startswith("downloading")
    (site / "svmguide1").unlink()
    assert sources.find("svmguide1", None, said.append) == path
    assert len(said) == 1


def test_a_download_that_is_not_the_papers_is_refused(site):
    (site / "svmguide1").write_text("1 1:1\n")
    with pytest.raises(DataError, match=r"found a file with sha256 .* expected .*--data FOLDER"):
        sources.find("svmguide1", None, lambda text: None)
    assert not list(sources.cache_folder().iterdir())


def test_without_data_it_says_what_to_do(site):
    (site / "svmguide1").unlink()
    with pytest.raises(DataError, match=r"cannot be downloaded .*say --data FOLDER, or set DDOL_D"):
        sources.find("svmguide1", "no/such/folder", lambda text: None)


def test_a_folder_comes_before_the_cache(site, tmp_path, monkeypatch):
    own = tmp_path / "own"
    own.mkdir()
    (own / "svmguide1").write_text("1 1:1\n")
    said = []
    assert sources.find("svmguide1", str(own), said.append) == own / "svmguide1"
    assert "is not the file of the paper" in said[0]
    monkeypatch.setenv("DDOL_DATA", str(own))
    assert sources.find("svmguide1", None, said.append) == own / "svmguide1"


# --- words ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "verdict"),
    [([9, 8, 7], HOLDS), ([9, 7, 8], PART), ([9, 9, 9], NOT), ([9, 10, 11], NOT), ([9, 8.99], NOT)],
)
def test_falling(values, verdict):
    assert falls(values) == verdict


def test_a_sentence_about_several_runs():
    assert together([HOLDS, HOLDS]) == HOLDS
    assert together([HOLDS, NOT]) == PART
    assert together([NOT, NOT]) == NOT


# --- the paper's data ----------------------------------------------------------------------------


@needs("svmguide1")
def test_weighted_majority_on_svmguide1():
    found = reproduce(["3"], str(DATA), seeds=2)
    runs = found.series["dwm-total-svmguide1"]
    in_order = {
        (run["algorithm"], run["agents"]): run["total_mistakes"][0]
        for run in runs
        if run["variant"] == "file order"
    }
    assert all(abs(total - 205) <= 3 for total in in_order.values())
    for n in (1, 2, 3, 4):
        assert in_order["dwm_a", n] <= in_order["dwm_i", n]


@needs("covtype")
def test_many_agents_pay_less_on_covtype():
    found = reproduce(["10"], str(DATA), seeds=1)
    totals = {
        run["agents"]: run["total_objective"][0] for run in found.series["doeg-total-covtype"]
    }
    assert all(totals[n] < totals[1] for n in (2, 4, 8, 16, 32))
    assert totals[64] == pytest.approx(totals[1], rel=0.1)
    averages = [round(total / 522_910, 2) for total in totals.values()]
    assert averages == [0.99, 0.89, 0.83, 0.80, 0.81, 0.88, 1.00]
