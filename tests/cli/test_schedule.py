"""Schedules, conditions and recordings from the command line."""

from __future__ import annotations

import json

import numpy as np
import pytest

NETWORK = ("--agents", 6, "--topology", "ring", "--algorithm", "dogd", "--quiet")
ROUGH = (
    "--latency", "exponential:2", "--drop-messages", 0.2, "--churn", "20:5", "--speed", "1..3",
    "--delay", "0..4",
)  # fmt: skip


def figures(result):
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


@pytest.mark.parametrize("schedule", ["rounds", "async", "gossip", "walk", "push-sum"])
def test_a_recording_plays_again_to_the_bit(ddol, examples, tmp_path, schedule):
    options = ("train", examples, *NETWORK, "--schedule", schedule, "--json", "-")
    first = figures(ddol(*options, *ROUGH, "--record", tmp_path / "run.npz"))
    again = figures(ddol(*options, "--replay", tmp_path / "run.npz"))
    for name in ("mistakes", "loss", "final_weights_norm", "consensus", "examples", "certificate"):
        assert first[name] == again[name], name
    assert first["examples"] == 300
    assert first["dropped"] > 0
    with np.load(tmp_path / "run.npz") as recorded:
        assert set(recorded.files) == {"kind", "agent", "peer", "row", "time"}


def test_recording_of_threads_plays_again_to_the_bit(ddol, examples, tmp_path):
    options = ("train", examples, *NETWORK, "--json", "-")
    threads = ("--engine", "threads", "--workers", 2, "--schedule", "async", "--staleness", 3)
    first = figures(ddol(*options, *threads, "--record", tmp_path / "run.npz"))
    again = figures(ddol(*options, "--replay", tmp_path / "run.npz"))
    assert first["mistakes"] == again["mistakes"] and first["loss"] == again["loss"]


def test_certificate_is_in_the_figures(ddol, examples):
    found = figures(
        ddol("train", examples, *NETWORK, "--radius", 3, "--l2", 0, "--certificate", "--json", "-")
    )
    made = found["certificate"]
    assert made["total"] == pytest.approx(made["serial"] + made["drift"])
    assert made["comparator"] == "every u with ‖u‖₂ ≤ 3"


def test_report_of_a_schedule_has_its_certificate(ddol, examples, tmp_path):
    page = tmp_path / "run.html"
    result = ddol("train", examples, *NETWORK, "--schedule", "async", *ROUGH, "--report", page)
    assert result.exit_code == 0, result.stderr
    assert "drift" in page.read_text()


BAD = {
    "`latency` must be": ("--latency", "-1"),
    "`latency` must be a number": ("--latency", "inf"),
    "--drop-messages: found '2'": ("--drop-messages", "2"),
    "unknown schedule 'chaos'": ("--schedule", "chaos"),
    "`churn` must be UP:DOWN": ("--churn", "5"),
    "`delay` must be": ("--delay", "soon"),
    "`speed` must be positive": ("--speed", "0"),
    "no-such.npz": ("--replay", "no-such.npz"),
    "one example a turn, --batch is 2": ("--schedule", "async", "--batch", 2),
    "--checkpoint keeps rounds": ("--schedule", "async", "--checkpoint", "folder"),
}


@pytest.mark.parametrize("why", BAD)
def test_bad_input_is_one_line(ddol, examples, tmp_path, monkeypatch, why):
    monkeypatch.chdir(tmp_path)
    result = ddol("train", examples, *NETWORK, *BAD[why])
    assert result.exit_code == 2
    assert why in result.stderr
    assert result.stderr.count("\n") == 1


def test_recording_of_other_data_is_refused(ddol, examples, tmp_path):
    assert ddol("train", examples, *NETWORK, "--record", tmp_path / "run.npz").exit_code == 0
    result = ddol("train", examples, *NETWORK, "--limit", 200, "--replay", tmp_path / "run.npz")
    assert result.exit_code == 2
    assert "the recording is of other data" in result.stderr
    fewer = (*NETWORK[2:], "--agents", 4)
    result = ddol("train", examples, *fewer, "--replay", tmp_path / "run.npz")
    assert result.exit_code == 2
    assert "names an agent that does not exist" in result.stderr
