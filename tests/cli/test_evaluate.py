"""``ddol evaluate``, and predicting text in every format, with and without labels."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
from sklearn import metrics

import ddol as library
from ddol.job import evaluation
from ddol.job.evaluation import ClassEvaluation
from ddol.streams import open_stream
from patience import LONG


def figures(result):
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


@pytest.fixture
def model(ddol, examples, tmp_path):
    path = tmp_path / "m.ddol"
    assert ddol("train", examples, "--loss", "logistic", "--model", path, "--quiet").exit_code == 0
    return path


def test_figures_of_classes_are_scikit_learn_s(ddol, model, examples):
    found = figures(ddol("evaluate", model, examples, "--json", "-"))
    [(rows, _)] = open_stream(str(examples)).read()
    loaded = library.load(model)
    said, chances = loaded.predict(rows), loaded.predict_proba(rows)
    assert found["accuracy"] == pytest.approx(metrics.accuracy_score(rows.y, said))
    assert found["log_loss"] == pytest.approx(metrics.log_loss(rows.y, chances))
    assert found["auc"] == pytest.approx(metrics.roc_auc_score(rows.y, chances[:, 1]))
    assert found["confusion"] == metrics.confusion_matrix(rows.y, said).tolist()
    text = ddol("evaluate", model, examples).stdout
    for word in ("examples   300", "accuracy", "log loss", "AUC", "confusion"):
        assert word in text


def test_the_area_of_several_classes_is_that_of_their_chances(ddol, tmp_path, text_of):
    """Adding the same number to all scores of a row changes no prediction, and no figure."""
    path, model = tmp_path / "three.libsvm", tmp_path / "m"
    path.write_text(text_of(labels=("1", "2", "3")))
    assert ddol("train", path, "--model", model, "-q").exit_code == 0
    found = figures(ddol("evaluate", model, path, "--json", "-"))
    [(rows, _)] = open_stream(str(path)).read()
    chances = library.load(model).predict_proba(rows)
    expected = metrics.roc_auc_score(rows.y, chances, multi_class="ovr")
    assert found["auc"] == pytest.approx(expected) and expected > 0.9


def test_a_column_of_weights_is_for_training(ddol, tmp_path):
    path, model = tmp_path / "t.csv", tmp_path / "m"
    lines = [f"{'no' if k % 3 else 'yes'},{k % 3},{1 + k % 2}" for k in range(60)]
    path.write_text("\n".join(["y,x,w", *lines]))
    assert ddol("train", path, "--weight", "w", "--model", model, "-q").exit_code == 0
    whole = figures(ddol("evaluate", model, path, "--json", "-"))
    path.write_text("\n".join(["y,x", *(line[:-2] for line in lines)]))
    assert figures(ddol("evaluate", model, path, "--json", "-")) == whole


def test_figures_of_numbers_are_scikit_learn_s(ddol, tmp_path):
    path, model = tmp_path / "line.csv", tmp_path / "m"
    rng = np.random.default_rng(0)
    x, z = rng.normal(size=300), rng.normal(size=300)
    y = 3 * x - z + 5 + 0.1 * rng.normal(size=300)
    rows = [
        f"{a!r},{b!r},{c!r}" for a, b, c in zip(x.tolist(), z.tolist(), y.tolist(), strict=True)
    ]
    path.write_text("\n".join(["x,z,y", *rows]))
    assert ddol("train", path, "--loss", "squared", "--model", model, "--quiet").exit_code == 0
    found = figures(ddol("evaluate", model, path, "--json", "-"))
    said = library.load(model).predict(np.column_stack([x, z]))
    assert found["r2"] == pytest.approx(metrics.r2_score(y, said))
    assert found["mae"] == pytest.approx(metrics.mean_absolute_error(y, said))
    assert found["rmse"] == pytest.approx(metrics.mean_squared_error(y, said) ** 0.5)
    assert "R²" in ddol("evaluate", model, path).stdout


def test_several_classes(ddol, tmp_path, text_of):
    path, model = tmp_path / "three.libsvm", tmp_path / "m"
    path.write_text(text_of(labels=(1, 2, 3)))
    assert ddol("train", path, "--loss", "logistic", "--model", model, "--quiet").exit_code == 0
    found = figures(ddol("evaluate", model, path, "--json", "-"))
    [(rows, _)] = open_stream(str(path)).read()
    chances = library.load(model).predict_proba(rows)
    assert found["log_loss"] == pytest.approx(metrics.log_loss(rows.y, chances))
    assert np.sum(found["confusion"]) == 300 and found["classes"] == [1, 2, 3]


def test_sites_are_evaluated_with_their_own_weights(ddol, tmp_path, text_of):
    paths = [tmp_path / f"{name}.libsvm" for name in ("bern", "lyon", "rome")]
    for k, path in enumerate(paths):
        path.write_text(text_of(n=100, seed=k))
    model = tmp_path / "m"
    options = ("--agents", 3, "--topology", "path", "--period", 50)
    trained = figures(ddol("train", *paths, *options, "--model", model, "--quiet", "--json", "-"))
    assert trained["sites"] == ["bern", "lyon", "rome"]
    found = figures(ddol("evaluate", model, *paths, "--json", "-"))
    assert list(found["agents"]) == ["bern", "lyon", "rome"] and found["examples"] == 300
    loaded = library.load(model)
    for path in paths:
        [(rows, _)] = open_stream(str(path)).read()
        own = np.mean(loaded.predict(rows, agent=path.stem) == rows.y)
        assert found["agents"][path.stem]["accuracy"] == pytest.approx(own)
        said = ddol("predict", model, path, "--agent", path.stem).stdout.split()
        assert np.mean(np.array(said, float) == rows.y) == pytest.approx(own)
    assert "lyon" in ddol("evaluate", model, *paths).stdout
    for command in ("predict", "evaluate"):
        refused = ddol(command, model, paths[0], "--agent", "paris")
        assert refused.exit_code == 2 and "bern, lyon, rome, or shared" in refused.stderr


def test_who_predicts_is_matched_by_name_or_said(ddol, tmp_path):
    """Sites with offsets of their own: only the site itself can say what its rows mean."""
    rng, paths, model = np.random.default_rng(0), [], tmp_path / "m"
    for k, name in enumerate(("bern", "lyon", "rome")):
        X = rng.standard_normal((400, 2))
        table = np.column_stack([X[:, 0] > X[:, 1], X * 10.0**k + 100.0 * k])
        paths.append(tmp_path / f"{name}.csv")
        np.savetxt(paths[-1], table, "%.6g", ",", header="y,a,b", comments="")
    options = ("--statistics", "own", "--model", model, "--quiet")
    assert ddol("train", *paths, "--label", "y", *options).exit_code == 0
    found = figures(ddol("evaluate", model, *paths, "--json", "-"))
    assert found["accuracy"] > 0.9 and list(found["agents"]) == ["bern", "lyon", "rome"]
    new = tmp_path / "paris.csv"
    new.write_text(paths[2].read_text())
    done = ddol("evaluate", model, new, "--json", "-")
    assert "no site of the model is called paris" in done.stderr
    assert figures(done)["accuracy"] < found["agents"]["rome"]["accuracy"] - 0.05
    named = ddol("evaluate", model, new, "--agent", "rome", "--json", "-")
    assert named.stderr == "" and figures(named)["agents"]["rome"] == found["agents"]["rome"]
    assert "--agent rome predicts as it does" in ddol("predict", model, paths[2]).stderr


def test_the_area_under_the_curve_of_very_much_is_counted_in_bins(monkeypatch):
    rng = np.random.default_rng(0)
    scores = np.round(rng.normal(size=20_000), 4)
    y = np.where(scores + rng.normal(size=20_000) > 0, 1.0, -1.0)
    monkeypatch.setattr(evaluation, "_MOST_KEPT", 1000)
    found = ClassEvaluation((0.0, 1.0))
    for lo in range(0, len(y), 3000):
        found.add(y[lo : lo + 3000], scores[lo : lo + 3000])
    exact = metrics.roc_auc_score(y, scores)
    assert found.figures()["auc"] == pytest.approx(exact, abs=1e-4)


def test_labels_that_are_missing_cannot_be_evaluated(ddol, model, tmp_path):
    path = tmp_path / "bare.libsvm"
    path.write_text("1:1 2:3\n3:1\n")
    result = ddol("evaluate", model, path)
    assert result.exit_code == 2


def test_figures_that_cannot_be_written_are_refused_before_any_work(ddol, model, examples):
    result = ddol("evaluate", model, examples, "--json", examples.parent / "no" / "figures")
    assert result.exit_code == 2 and result.stdout == ""
    assert "there is no folder" in result.stderr


FORMATS = {
    "vw": (
        "{y} 2.0 'row{k}|a colour={colour} |b price:{price}",
        "|a colour={colour} |b price:{price}",
    ),
    "named": ("{name} colour={colour} price:{price}", "colour={colour} price:{price}"),
    "jsonl": (
        '{{"label": "{name}", "colour": "{colour}", "price": {price}}}',
        '{{"price": {price}, "colour": "{colour}"}}',
    ),
    "csv": ("{name},{colour},{price}", "{colour},{price}"),
}


@pytest.mark.parametrize("kind", FORMATS)
def test_text_of_every_format_with_and_without_labels(ddol, tmp_path, kind):
    rng = np.random.default_rng(0)
    heads = ("label,colour,price\n", "colour,price\n") if kind == "csv" else ("", "")
    paths = [tmp_path / f"{name}.{kind}" for name in ("with", "without")]
    for path, head, pattern in zip(paths, heads, FORMATS[kind], strict=True):
        lines, rng = [], np.random.default_rng(0)
        for k in range(600):
            colour, price = rng.choice(["red", "blue"]), round(float(rng.normal()), 3)
            y = 1 if price + (colour == "red") > 0.5 else -1
            name = "yes" if y > 0 else "no"
            lines.append(pattern.format(y=y, name=name, k=k, colour=colour, price=price))
        path.write_text(head + "\n".join(lines) + "\n")
    model = tmp_path / "m"
    for more in ((), ("--bits", 12)):
        assert ddol("train", paths[0], *more, "--model", model, "--quiet").exit_code == 0
        said = ddol("predict", model, paths[0]).stdout.split()
        assert ddol("predict", model, paths[1]).stdout.split() == said
        assert set(said) == ({"-1", "1"} if kind == "vw" else {"yes", "no"})
        assert figures(ddol("evaluate", model, paths[0], "--json", "-"))["accuracy"] > 0.85
        assert "colour=red" in ddol("inspect", model).stdout


def test_pairs_of_namespaces(ddol, tmp_path):
    rng = np.random.default_rng(0)
    lines = []
    for _ in range(3000):
        a, b = rng.choice(["x", "y"], 2)
        lines.append(f"{1 if a == b else -1} |left {a} |right {b}\n")
    path = tmp_path / "xor.vw"
    path.write_text("".join(lines))
    plain = figures(ddol("train", path, "--bits", 12, "--json", "-"))
    options = ("train", path, "--bits", 12, "--json", "-")
    new, old = ddol(*options, "--interactions", "lr"), ddol(*options, "-q", "lr")
    assert sum(figures(new)["mistakes"]) < 200 < sum(plain["mistakes"])
    assert figures(old)["mistakes"] == figures(new)["mistakes"]
    assert "-q lr is now --interactions lr" in old.stderr
    assert ddol("train", "-q", path).stderr == ""  # -q alone is --quiet, also before a file


def test_predictions_appear_as_input_arrives(model, examples):
    command = [sys.executable, "-m", "ddol", "predict", str(model), "-"]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )
    for line in examples.read_text().splitlines()[:3]:
        process.stdin.write(line + "\n")
        process.stdin.flush()
        assert process.stdout.readline().strip() in (
            "-1",
            "1",
        )  # waits, if it must, until the test ends
    process.stdin.close()
    assert process.wait(LONG) == 0


def test_chances_have_two_names(ddol, model, examples):
    proba = ddol("predict", model, examples, "--proba").stdout
    assert proba == ddol("predict", model, examples, "--probabilities").stdout
    assert np.allclose([sum(map(float, line.split())) for line in proba.splitlines()], 1.0)


@pytest.mark.parametrize("tau", [0.1, 0.5, 0.9])
def test_a_quantile_is_learned(ddol, tmp_path, tau):
    rng = np.random.default_rng(0)
    path, model = tmp_path / "q.csv", tmp_path / "m"
    rows = [f"{value:.4f},1" for value in rng.exponential(size=4000)]
    path.write_text("\n".join(["y,x", *rows]))
    options = ("--tau", tau, "--no-intercept", "--model", model, "--quiet")
    result = ddol("train", path, *options)
    assert result.exit_code == 0, result.stderr
    said = float(ddol("predict", model, path).stdout.split()[0])
    share = np.mean([float(row.split(",")[0]) <= said for row in rows])
    assert abs(share - tau) < 0.1
    refused = ddol("train", path, "--tau", tau, "--loss", "squared")
    assert refused.exit_code == 2 and "--loss quantile" in refused.stderr


def test_contiguous_parts_are_one_for_each_agent(ddol, examples, tmp_path, text_of):
    lines = examples.read_text().splitlines(keepends=True)
    found = figures(ddol("train", examples, "--deal", "contiguous", "--agents", 3, "--json", "-"))
    assert found["examples"] == 300
    assert found["loss"] != figures(ddol("train", examples, "--agents", 3, "--json", "-"))["loss"]
    table = tmp_path / "t.csv"
    table.write_text("y,x\n" + "".join(f"{k % 2},{k}\n" for k in range(90)))
    assert figures(ddol("train", table, "--deal", "contiguous", "--json", "-"))["examples"] == 90
    two = [tmp_path / "a.libsvm", tmp_path / "b.libsvm"]  # any number of files is one long file
    for path, part in zip(two, (lines[:77], lines[77:]), strict=True):
        path.write_text("".join(part))
    cut = figures(ddol("train", *two, "--deal", "contiguous", "--agents", 3, "--json", "-"))
    assert cut["loss"] == found["loss"]
    pipe = ddol("train", "-", "--deal", "contiguous", stdin="".join(lines))
    assert pipe.exit_code == 2 and "--deal round-robin" in pipe.stderr
