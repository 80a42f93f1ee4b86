"""``ddol reproduce`` as a command: listing, running on small data, and saying what is missing."""

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from ddol.cli.app import app


def call(*arguments):
    return CliRunner().invoke(app, ["reproduce", *map(str, arguments)])


@pytest.fixture
def data(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 4))
    lines = (
        f"{int(row.sum() > 0)} " + " ".join(f"{j + 1}:{v:.3f}" for j, v in enumerate(row))
        for row in X
    )
    (tmp_path / "svmguide1").write_text("\n".join(lines) + "\n")
    return tmp_path


def test_the_figures_are_listed():
    result = call("--list")
    assert result.exit_code == 0
    assert len(result.stdout.splitlines()) == 10
    assert "doeg-total-covtype" in result.stdout


def test_a_figure_leaves_a_page_and_claims(data, tmp_path):
    out, claims = tmp_path / "out", tmp_path / "claims.md"
    result = call("3", "--data", data, "--seeds", 1, "--out", out, "--claims", claims)
    assert result.exit_code == 0, result.stderr
    assert "figure 3: svmguide1: total mistakes over all agents" in result.stderr
    assert sorted(p.name for p in Path(out).iterdir()) == [
        "dwm-total-svmguide1-file-order.svg",
        "dwm-total-svmguide1-shuffled.svg",
        "numbers.json",
        "report.html",
    ]
    text = claims.read_text(encoding="utf-8")
    assert "| figure | the paper says | measured | verdict |" in text
    assert "DWM-A makes slightly fewer mistakes than DWM-I." in result.stdout


def test_missing_data_are_an_input_error(tmp_path, monkeypatch):
    monkeypatch.setattr("ddol.lab.experiments.sources.SITE", (tmp_path / "nowhere").as_uri() + "/")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("DDOL_DATA", raising=False)
    result = call("3", "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert "say --data FOLDER, or set DDOL_DATA" in result.stderr


def test_an_unknown_figure_is_wrong_usage(tmp_path):
    result = call("eleven", "--out", tmp_path)
    assert result.exit_code == 2
    assert "found the figure 'eleven'" in result.stderr
