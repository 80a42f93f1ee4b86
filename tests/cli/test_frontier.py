"""``ddol frontier`` as users run it."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from ddol.cli.app import app


@pytest.fixture
def data(tmp_path):
    lines = [f"{1 if k % 3 else -1} 1:{k % 3} 2:{(k * 7) % 5}" for k in range(400)]
    path = tmp_path / "d.libsvm"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_table_report_and_json(data, tmp_path):
    report, table = tmp_path / "f.html", tmp_path / "f.csv"
    words = ["frontier", str(data), "--against", "labels", "--agents", "4", "--algorithm", "dogd"]
    ran = CliRunner().invoke(
        app, [*words, "--report", str(report), "--out", str(table), "--json", "-"]
    )
    assert ran.exit_code == 0, ran.output
    found = json.loads(ran.stdout)
    assert found["line"] == "at random"
    assert {run["policy"] for run in found["runs"]} > {"at random", "budget", "adaptive margin"}
    assert all(run["labels"] <= 400 for run in found["runs"])
    assert report.read_text().count("<svg") == 2
    assert len(table.read_text().splitlines()) == 1 + len(found["runs"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--algorithm", "nothing"], "expected one of"),
        (["--against", "time"], "bytes"),
        (["--out", "no/such/folder/f.csv"], "no/such/folder"),
    ],
)
def test_bad_input_is_one_line(data, words, message):
    ran = CliRunner().invoke(app, ["frontier", str(data), *words])
    assert ran.exit_code == 2
    assert message in ran.output
