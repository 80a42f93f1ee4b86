"""Lines as text or JSON, from a level on; progress for programs; what environments say of a machine."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

import ddol
from ddol.cli.app import app
from ddol.engines.news import tell as news
from ddol.job.watching import ProgressLines
from ddol.streams import DataError
from ddol.streams.over.parallel import usable_cores

DATA = "1 1:1 2:0.5\n-1 1:-1 3:2\n" * 300


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "d.libsvm"
    path.write_text(DATA)
    return str(path)


def ran(*words, env=None):
    return CliRunner().invoke(app, list(words), env=env)


def test_lines_are_as_ever_where_nothing_is_said(data, tmp_path):
    done = ran("train", data, "--model", str(tmp_path / "m.ddol"))
    assert f"model: {tmp_path / 'm.ddol'}" in done.stderr.splitlines()


@pytest.mark.parametrize("how", ["option", "environment"])
def test_every_line_is_json_if_wanted(data, tmp_path, how):
    words = ["train", data, "--model", str(tmp_path / "m.ddol")]
    if how == "option":
        done = ran(*words, "--log-format", "json")
    else:
        done = ran(*words, env={"DDOL_LOG_FORMAT": "json"})
    found = [json.loads(line) for line in done.stderr.splitlines()]
    assert done.exit_code == 0 and found
    assert {"time", "level", "logger", "message"} == set(found[0])
    assert any(line["message"].startswith("model: ") for line in found)
    failed = ran("train", data + ".missing", "--log-format", "json")
    last = json.loads(failed.stderr.splitlines()[-1])
    assert failed.exit_code == 2 and last["level"] == "error" and "missing" in last["message"]
    # The next command of this process chooses anew.
    assert ran("train", data + ".missing").stderr.startswith("ddol: ")


def test_levels_leave_lines_out(data, tmp_path):
    words = [
        "train",
        data,
        "--model",
        str(tmp_path / "m.ddol"),
        "--log-format",
        "json",
        "--log-level",
    ]
    assert ran(*words, "error").stderr == ""
    assert "model: " in ran(*words, "info").stderr
    assert ran(*words, "loud").exit_code == 2


def test_a_program_reads_news_by_its_own_handler(caplog, capsys):
    logger = logging.getLogger("ddol")
    logger.addHandler(caplog.handler)
    logger.setLevel("INFO")
    try:
        news("actor 1 was lost")
    finally:
        logger.removeHandler(caplog.handler)
        logger.setLevel(logging.NOTSET)
    assert "actor 1 was lost" in caplog.messages
    assert capsys.readouterr().err == ""
    news("actor 2 was lost")
    assert capsys.readouterr().err == "ddol: actor 2 was lost\n"


def test_progress_is_told_in_lines_of_json(data, tmp_path):
    path = tmp_path / "p.jsonl"
    assert (
        ran("train", data, "--quiet", "--progress-json", str(path), "--agents", "2").exit_code == 0
    )
    found = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["state"] for line in found[:-1]] == ["running"] * (len(found) - 1)
    last = found[-1]
    assert (last["state"], last["examples"]) == ("done", 600)
    assert last["error"] == last["mistakes"] / 600 and last["mean_loss"] > 0
    done = ran("train", data, "--quiet", "--progress-json", "-", "--loss", "squared")
    assert "error" not in json.loads(done.stdout.splitlines()[-1])


def test_progress_comes_at_most_once_a_second(tmp_path):
    seconds = iter([0.0, 0.0, 0.5, 0.9, 1.1, 1.1, 1.2])
    with (tmp_path / "p").open("w+") as file:
        lines = ProgressLines(file, ddol.dogd(), lambda: next(seconds))
        seen = []
        X = [[1.0], [-1.0]] * 8
        ddol.run(ddol.dogd(), (X, [1, -1] * 8), on_progress=seen.append)
        for _ in range(4):
            lines(seen[-1])
        file.seek(0)
        assert len(file.readlines()) == 2


def test_threads_of_a_machine_are_limited_by_its_environment(monkeypatch):
    monkeypatch.setenv("DDOL_THREADS", "1")
    assert usable_cores() == 1
    for wrong in ("0", "many", "-1"):
        monkeypatch.setenv("DDOL_THREADS", wrong)
        with pytest.raises(DataError, match="DDOL_THREADS: found"):
            usable_cores()


def test_every_variable_of_the_environment_is_documented():
    root = Path(__file__).parents[2]
    text = (root / "docs" / "command-line.md").read_text(encoding="utf-8")
    table = text.partition("## Environment variables")[2]
    places = [*root.glob("src/**/*.py"), *root.glob("build_hooks/*.py")]
    used = {
        name for place in places for name in re.findall(r"\bDDOL_[A-Z_]+", place.read_text("utf-8"))
    } - {"DDOL_EXIT_MARK"}  # from ddol launch to its ranks
    assert used == set(re.findall(r"DDOL_[A-Z_]+", table))
