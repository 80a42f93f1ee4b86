"""Rare classes count as much as frequent ones, or as given."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner

import ddol
from ddol.cli.app import app

rng = np.random.default_rng(0)
N = 3000
A = rng.standard_normal(N)
RARE = A + rng.standard_normal(N) > 2.6  # some three of a hundred


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "d.csv"
    lines = (f"{a:.4f},{'yes' if y else 'no'}" for a, y in zip(A, RARE, strict=True))
    path.write_text("a,label\n" + "\n".join(lines) + "\n")
    return path


def ran(*words, code=0, **more):
    done = CliRunner().invoke(app, [str(word) for word in words], **more)
    assert done.exit_code == code, done.stderr
    return done


def found(data, tmp_path, *options, **more):
    given = data if not more else "-"
    ran(
        "train",
        given,
        "--quiet",
        "--loss",
        "logistic",
        "--model",
        tmp_path / "m.ddol",
        *options,
        **more,
    )
    model = ddol.load(tmp_path / "m.ddol")
    return float(np.mean(model.predict(np.array([[2.0], [3.0]])) == "yes")), model.weights


def test_balanced_finds_the_rare_class(data, tmp_path):
    plain, _ = found(data, tmp_path)
    balanced, weights = found(data, tmp_path, "--class-weight", "balanced")
    assert plain < balanced == 1.0
    share = RARE.mean()
    given = f"yes={0.5 / share},no={0.5 / (1 - share)}"
    _, same = found(data, tmp_path, "--class-weight", given)
    np.testing.assert_allclose(weights, same, rtol=1e-9)
    _, piped = found(
        data, tmp_path, "--class-weight", "balanced", "--format", "csv", input=data.read_text()
    )
    np.testing.assert_allclose(weights, piped, rtol=1e-9)


def test_weights_of_classes_multiply_those_of_rows(data, tmp_path):
    text = data.read_text().replace("\n", ",2\n").replace("label,2", "label,w", 1)
    weighted = tmp_path / "w.csv"
    weighted.write_text(text)
    _, one = found(data, tmp_path, "--class-weight", "yes=6,no=2", "--algorithm", "dogd")
    _, other = found(
        weighted, tmp_path, "--class-weight", "yes=3,no=1", "--weight", "w", "--algorithm", "dogd"
    )
    np.testing.assert_allclose(one, other, rtol=1e-9)


def test_three_classes_agents_holdout_and_resuming(data, tmp_path):
    words = [
        "train",
        data,
        "--quiet",
        "--agents",
        "3",
        "--class-weight",
        "balanced",
        "--holdout",
        "0.1",
    ]
    ran(*words, "--json", tmp_path / "a.json", "--checkpoint", tmp_path / "c", "--every", "1000")
    newest = max((tmp_path / "c").glob("*.safetensors"), key=lambda p: int(p.stem.split("-")[1]))
    newest.unlink()
    ran(
        *words,
        "--json",
        tmp_path / "b.json",
        "--checkpoint",
        tmp_path / "c",
        "--every",
        "1000",
        "--resume",
    )
    one, other = (json.loads((tmp_path / f"{name}.json").read_text()) for name in "ab")
    assert one["loss"] == other["loss"]
    refused = ran(*words[:-4], "--checkpoint", tmp_path / "c", "--resume", code=2)
    assert "--class-weight was balanced" in refused.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--class-weight maybe=2", "no class 'maybe', expected no, yes"),
        ("--class-weight yes=many", "expected balanced or weights such as"),
        ("--class-weight heavy", "expected balanced or weights such as"),
        ("--class-weight yes=-1", "expected balanced or weights such as"),
    ],
)
def test_weights_that_make_no_sense_are_refused(data, options, message):
    assert message in ran("train", data, *options.split(), code=2).stderr


def test_numbers_have_no_classes(tmp_path):
    path = tmp_path / "r.csv"
    path.write_text("a,label\n" + "".join(f"{k},{k / 7}\n" for k in range(50)))
    done = ran("train", path, "--loss", "squared", "--class-weight", "balanced", code=2)
    assert "labels that are numbers" in done.stderr
