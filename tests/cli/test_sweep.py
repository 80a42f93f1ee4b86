"""``ddol sweep`` as a command: a table, comparisons, a page, runs that are kept, and what is wrong."""

import csv
import json

import numpy as np
import pytest
from click.testing import CliRunner

from ddol.cli.app import app

ASKED = """
data = "points.csv"
show = "mistakes"
against = "rounds"
compare = "algorithm"
[sweep]
algorithm = ["dogd", "adaptive"]
agents = [1, 3]
seed = 4
"""


def sweep(*arguments):
    return CliRunner().invoke(app, ["sweep", *map(str, arguments)])


@pytest.fixture
def asked(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 3))
    y = (X @ [1.0, -2.0, 0.5] > 0).astype(int)
    lines = [
        "label,a,b,c",
        *(f"{k},{a:.3f},{b:.3f},{c:.3f}" for k, (a, b, c) in zip(y, X, strict=True)),
    ]
    (tmp_path / "points.csv").write_text("\n".join(lines) + "\n")
    path = tmp_path / "question <1>.toml"
    path.write_text(ASKED)
    return path


def test_a_file_becomes_a_table_a_page_and_comparisons(asked, tmp_path):
    table, page = tmp_path / "runs.csv", tmp_path / "page.html"
    done = sweep(asked, "--out", table, "--report", page, "--workers", 1, "-q")
    assert done.exit_code == 0, done.output
    with table.open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 16
    assert {row["algorithm"] for row in rows} == {"dogd", "adaptive"}
    assert "agents 3, mistakes: dogd" in done.stdout
    assert "over 4 pairs" in done.stdout
    text = page.read_text()
    assert "question &lt;1&gt;" in text
    assert "question <1>" not in text
    assert len(list(asked.with_suffix(".runs").iterdir())) == 16
    again = sweep(asked, "--workers", 1, "-q")
    assert again.stdout == done.stdout


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("[sweep]", "[sweeps]"), "found `sweeps`, expected one of data, [reading]"),
        (('data = "points.csv"', 'data = "nothing.csv"'), "nothing.csv: no such file"),
        (("[sweep]", "[output]\nmodel = 'm'\n[sweep]"), "[output] model: every run would write it"),
        (("[sweep]", "[network]\nmixing = []\n[sweep]"), "found [], expected values that differ"),
        (('compare = "algorithm"', 'compare = "rate"'), "expected one of algorithm, agents, seed"),
        (
            ('show = "mistakes"', 'show = "colour"'),
            "found show = 'colour', expected one of mistakes",
        ),
        (('show = "mistakes"', "experts = 2\nexprets = 1"), "found `exprets`"),
        (("agents = [1, 3]", "agent = 1"), "[sweep]: found `agent`, expected 'agents'"),
        (('"dogd"', '"dogdd"'), "found 'dogdd', expected one of"),
        (("agents = [1, 3]", "agents = ["), "expected a job in TOML"),
    ],
)
def test_what_is_wrong_is_one_line(asked, change, message):
    asked.write_text(ASKED.replace(*change))
    done = sweep(asked, "--workers", 1, "-q")
    assert done.exit_code == 2
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_table_that_cannot_be_written_is_refused_before_any_run(asked, tmp_path):
    done = sweep(asked, "--out", tmp_path / "no" / "runs.csv", "-q")
    assert done.exit_code == 2 and "there is no folder" in done.stderr
    assert not asked.with_suffix(".runs").exists()


def test_labels_may_be_words(asked, tmp_path):
    path = tmp_path / "points.csv"
    header, *lines = path.read_text().splitlines()
    told = ["yes" + line[1:] if line[0] == "1" else "no" + line[1:] for line in lines]
    numbers = sweep(asked, "--workers", 1, "-q")
    path.write_text("\n".join([header, *told]) + "\n")
    words = sweep(asked, "--workers", 1, "-q")
    assert words.exit_code == 0, words.output
    assert words.stdout == numbers.stdout
    asked.write_text(ASKED + 'loss = ["squared", "hinge"]\n')
    assert "expected a number" in sweep(asked, "--workers", 1, "-q").stderr


@pytest.mark.parametrize("agents", ["", "agents = 2"])
def test_each_of_several_files_is_an_agents(tmp_path, agents):
    rng = np.random.default_rng(0)
    for name, towns in (("a", ["Rome", "Bern"]), ("b", ["Lyon", "Bern"])):
        rows = [f"{x:.2f},{rng.choice(towns)},{'yes' if x > 0 else 'no'},{k}" for k, x in
                enumerate(rng.standard_normal(50))]  # fmt: skip
        rows[3] = ",Bern,no,3"
        (tmp_path / f"{name}.csv").write_text("\n".join(["x,town,vote,id", *rows]) + "\n")
    path = tmp_path / "sites.toml"
    path.write_text(
        'data = ["a.csv", "b.csv"]\nlabel = "vote"\ndrop = ["id"]\nmissing = "mean"\n'
        f'[sweep]\nalgorithm = ["dogd", "adaptive"]\nseed = 3\n{agents}\n'
    )
    done = sweep(path, "--out", tmp_path / "runs.csv", "--workers", 1, "-q")
    assert done.exit_code == 0, done.output
    with (tmp_path / "runs.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 6
    assert {row["examples"] for row in rows} == {"100"}
    mistakes = [float(row["mistakes"]) for row in rows if row["algorithm"] == "adaptive"]
    assert np.mean(mistakes) < 20  # of 100, half of them by chance; one seed alone may have more
    path.write_text(
        'data = "[ab].csv"\nlabel = "vote"\nmissing = "zero"\n[sweep]\nagents = [2, 4]\n'
    )
    refused = sweep(path, "-q")
    assert refused.exit_code == 2 and "found 2 files for 4 agents" in refused.output
    path.write_text('data = ["a.csv", 3]\n[sweep]\nseed = 2\n')
    assert "expected a list of files" in sweep(path, "-q").output


def test_a_job_whose_values_are_lists_runs_them_all(asked, tmp_path):
    """Every run is the one that ddol train makes of the same values."""
    rng = np.random.default_rng(0)
    rows = [
        f"{'abc'[k % 3]},{x:.2f},{'' if k % 5 == 1 else k % 4},{'xy'[k % 2]}"
        for k, x in enumerate(rng.standard_normal(90))
    ]
    (tmp_path / "t.csv").write_text("\n".join(["vote,x,n,town", *rows]) + "\n")
    path = tmp_path / "s.toml"
    path.write_text(
        'data = "t.csv"\n[reading]\nlabel = "vote"\nmissing = ["zero", "mean"]\n'
        'interactions = [["town*x"], []]\nbits = 6\nholdout = 0.1\nshuffle = false\n'
        '[algorithm]\nname = ["dogd", "adaptive"]\nrate = 0.5\n[network]\nagents = 2\n'
        "[run]\npasses = 2\n"
    )
    done = sweep(path, "--out", tmp_path / "runs.csv", "--workers", 1, "-q")
    assert done.exit_code == 0, done.output
    with (tmp_path / "runs.csv").open() as file:
        found = list(csv.DictReader(file))
    assert len(found) == 8
    words = ["--label", "vote", "--bits", "6", "--agents", "2", "--passes", "2", "--rate", "0.5"]
    for row in found[0], found[-1]:
        figures = tmp_path / "f.json"
        more = ["--interactions", row["interactions"]] if row["interactions"] else []
        told = ["--algorithm", row["algorithm"], "--missing", row["missing"], *more]
        data = [str(tmp_path / "t.csv"), "--holdout", "0.1", "--json", str(figures)]
        ran = CliRunner().invoke(app, ["train", *data, *words, *told, "-q"])
        assert ran.exit_code == 0, ran.output
        assert sum(json.loads(figures.read_text())["mistakes"]) == float(row["mistakes"])
