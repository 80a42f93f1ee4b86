"""``ddol predict`` and ``ddol inspect``."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import ddol as library
from ddol.streams import open_stream


@pytest.fixture
def model(ddol, tmp_path, examples):
    path = tmp_path / "model"
    options = ("--loss", "logistic", "--model", path, "--quiet")
    assert ddol("train", examples, *options).exit_code == 0
    return path


@pytest.fixture
def rows(examples):
    [(rows, _)] = open_stream(examples).read()
    return rows


def test_labels_scores_and_probabilities_are_the_library_s(ddol, model, examples, rows):
    loaded = library.load(model)
    labels = ddol("predict", model, examples).stdout.split()
    assert [int(label) for label in labels] == loaded.predict(rows).tolist()
    assert set(labels) == {"-1", "1"}
    scores = ddol("predict", model, examples, "--scores").stdout.split()
    assert np.array_equal([float(s) for s in scores], loaded.decision_function(rows))
    lines = ddol("predict", model, examples, "--probabilities").stdout.splitlines()
    found = np.array([line.split() for line in lines], dtype=float)
    assert np.array_equal(found, loaded.predict_proba(rows))


def test_most_predictions_are_right(ddol, model, examples, rows):
    labels = np.array(ddol("predict", model, examples).stdout.split(), dtype=float)
    assert np.mean(labels == rows.y) > 0.85


def test_predictions_go_to_a_file_whole(ddol, model, examples, tmp_path):
    result = ddol("predict", model, examples, "--out", tmp_path / "out")
    assert result.exit_code == 0 and result.stdout == ""
    assert (tmp_path / "out").read_text() == ddol("predict", model, examples).stdout


def test_standard_input_can_be_predicted(ddol, model, examples):
    piped = ddol("predict", model, "-", stdin=examples.read_text())
    assert piped.stdout == ddol("predict", model, examples).stdout


def test_a_hinge_model_has_no_probabilities(ddol, examples, tmp_path):
    ddol("train", examples, "--loss", "hinge", "--model", tmp_path / "h", "-q")
    result = ddol("predict", tmp_path / "h", examples, "--probabilities")
    assert result.exit_code == 2 and "train with the loss logistic" in result.stderr


def test_experts_predict_again(ddol, examples, tmp_path, rows):
    ddol("train", examples, "--algorithm", "dwm-a", "--model", tmp_path / "w", "-q")
    labels = np.array(ddol("predict", tmp_path / "w", examples).stdout.split(), dtype=float)
    assert np.mean(labels == rows.y) > 0.7
    assert "column 4 >" in ddol("inspect", tmp_path / "w").stdout


def test_numbers_are_predicted_by_a_regression(ddol, tmp_path):
    path = tmp_path / "line.libsvm"
    path.write_text("".join(f"{3 * x + 1:g} 1:{x:g}\n" for x in np.linspace(-1, 1, 400)[::-1]))
    options = ("--task", "regression", "--passes", 20, "--model", tmp_path / "r", "-q")
    assert ddol("train", path, *options, "--shuffle").exit_code == 0
    found = [float(v) for v in ddol("predict", tmp_path / "r", path).stdout.split()]
    wanted = [float(line.split()[0]) for line in path.read_text().splitlines()]
    assert np.corrcoef(found, wanted)[0, 1] > 0.99


def test_inspect_tells_what_a_model_is(ddol, model):
    text = ddol("inspect", model).stdout
    for word in ("2 classes", "logistic", "adaptive", "intercept", "largest weights", "column 1"):
        assert word in text
    assert "sites                  –\n" in text
    found = json.loads(ddol("inspect", model, "--json").stdout)
    assert found["features"] == 4 and found["classes"] == [-1, 1]
    assert found["training"]["examples"] == 300
    assert len(found["largest"][0]["weights"]) == 5


@pytest.mark.parametrize(("ending", "bad"), [("libsvm", "1 2:oops\n"), ("csv", "1,oops\n1\n")])
def test_bad_lines_are_skipped_and_counted(ddol, tmp_path, text_of, ending, bad):
    if ending == "csv":
        head, lines = "y,x\n", [f"{k % 2},{k % 7}\n" for k in range(60)]
    else:
        head, lines = "", text_of(60).splitlines(keepends=True)
    good, broken, model = tmp_path / f"a.{ending}", tmp_path / f"b.{ending}", tmp_path / "m"
    good.write_text(head + "".join(lines))
    broken.write_text(head + "".join([*lines[:30], bad, *lines[30:]]))
    assert ddol("train", good, "--model", model, "--quiet").exit_code == 0
    for command in ("predict", "evaluate"):
        stopped = ddol(command, model, broken)
        assert stopped.exit_code == 2 and "oops" in stopped.stderr
        skipped = ddol(command, model, broken, "--on-bad-line", "skip")
        assert skipped.exit_code == 0 and f"skipped {bad.count(chr(10))} bad line" in skipped.stderr
        assert skipped.stdout == ddol(command, model, good).stdout
    wrong = ddol("predict", model, good, "--on-bad-line", "ignore")
    assert wrong.exit_code == 2 and "expected one of stop, skip" in wrong.stderr


@pytest.mark.parametrize("loss", ["squared-hinge", "modified-huber", "hinge"])
def test_losses_that_have_chances_of_classes(ddol, examples, tmp_path, loss):
    model = tmp_path / "m"
    options = ("--loss", loss, "--task", "classification", "--model", model, "--quiet")
    assert ddol("train", examples, *options).exit_code == 0
    found = ddol("evaluate", model, examples, "--json", "-")
    log_loss = json.loads(found.stdout)["log_loss"]
    if loss == "hinge":
        assert log_loss is None and "gives no probabilities" in found.stderr
        assert ddol("predict", model, examples, "--proba").exit_code == 2
    else:
        lines = ddol("predict", model, examples, "--proba").stdout.splitlines()
        chances = np.array([line.split() for line in lines], dtype=float)
        labels = [float(line.split()[0]) > 0 for line in examples.read_text().splitlines()]
        right = np.maximum(chances[np.arange(len(labels)), np.array(labels, int)], 1e-15)
        assert log_loss == pytest.approx(-np.log(right).mean())


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is full")
def test_a_full_disk_is_named(ddol, model, examples):
    done = ddol("predict", model, examples, "--out", "/dev/full")
    assert done.exit_code == 1
    assert "ddol: /dev/full: cannot be written (No space left on device)" in done.stderr
    done = ddol("train", examples, "--quiet", "--predictions", "/dev/full")
    assert done.exit_code == 1
    assert "/dev/full: cannot be written (No space left on device)" in done.stderr


@pytest.fixture
def voters(tmp_path):
    """A table with identifiers that look like numbers, one row of which lacks a value."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 2)).round(3)
    rows = [f"00{k},{a},{b},{'yes' if a > 0 else 'no'}" for k, (a, b) in enumerate(X)]
    path = tmp_path / "voters.csv"
    path.write_text("\n".join(["id,a,b,vote", *rows]) + "\n")
    return path


@pytest.mark.parametrize("what", [(), ("--proba",), ("--scores",)])
def test_predictions_stand_beside_identifiers(ddol, voters, tmp_path, what):
    model = tmp_path / "m.ddol"
    learned = ("--label", "vote", "--drop", "id", "--loss", "logistic", "--model", model, "--quiet")
    assert ddol("train", voters, *learned).exit_code == 0
    plain = ddol("predict", model, voters, *what).stdout.splitlines()
    done = ddol("predict", model, voters, "--id", "id", *what)
    assert done.exit_code == 0 and done.stderr == ""
    expected = [f"00{k}\t{line}" for k, line in enumerate(plain)]
    assert done.stdout.splitlines() == expected
    pq = pytest.importorskip("pyarrow.parquet")
    tables = [tmp_path / "p.csv", tmp_path / "p.parquet"]
    for path in tables:
        done = ddol("predict", model, voters, "--id", "id", "--out", path, *what)
        assert done.exit_code == 0, done.stderr
    header, *lines = tables[0].read_text().splitlines()
    assert header.split(",")[0] == "id" and [line.split(",")[0] for line in lines] == [
        f"00{k}" for k in range(60)
    ]
    assert [" ".join(line.split(",")[1:]) for line in lines] == plain
    found = pq.read_table(tables[1]).to_pydict()
    assert ",".join(found) == header and found["id"][7] == "007"
    names = {
        (): "prediction",
        ("--proba",): "probability_no,probability_yes",
        ("--scores",): "score",
    }
    assert header == f"id,{names[what]}"


def test_rows_that_are_skipped_have_no_identifier(ddol, voters, tmp_path):
    model, holes = tmp_path / "m.ddol", tmp_path / "holes.csv"
    learned = ("--label", "vote", "--drop", "id", "--model", model, "--quiet")
    assert ddol("train", voters, *learned).exit_code == 0
    lines = voters.read_text().splitlines()
    lines[8], lines[31] = "007,,1,no", "0030,1,NA,no"
    holes.write_text("\n".join(lines) + "\n")
    done = ddol("predict", model, holes, "--id", "id", "--on-bad-line", "skip")
    assert done.exit_code == 0 and "skipped 2 rows" in done.stderr
    ids = [line.split("\t")[0] for line in done.stdout.splitlines()]
    assert ids == [f"00{k}" for k in range(60) if k not in (7, 30)]
    wrong = ddol("predict", model, voters, "--id", "name")
    assert wrong.exit_code == 2 and "found no column 'name' among" in wrong.stderr
