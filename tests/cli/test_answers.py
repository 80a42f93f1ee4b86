"""Labels in a file of their own: formats, several files of examples, and what does not go with it."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest


@pytest.fixture
def log(tmp_path):
    """Examples in one file and in two, and their labels in several formats."""
    X = np.random.default_rng(0).standard_normal((200, 2)).round(3)
    rows = [f"{k},{a},{b}\n" for k, (a, b) in enumerate(X)]
    labels = ["yes" if a + b > 0 else "no" for a, b in X]
    head = "id,a,b\n"
    for name, part in (("all.csv", rows), ("1.csv", rows[:120]), ("2.csv", rows[120:])):
        (tmp_path / name).write_text(head + "".join(part))
    (tmp_path / "all.txt").write_text(head + "".join(rows))
    table = "id,vote\n" + "".join(f"{k},{label}\n" for k, label in enumerate(labels))
    for name in ("votes.csv", "votes.txt", "votes"):
        (tmp_path / name).write_text(table)
    lines = (json.dumps({"id": k, "vote": label}) for k, label in enumerate(labels))
    (tmp_path / "votes.jsonl").write_text("\n".join(lines) + "\n")
    return tmp_path


@pytest.mark.parametrize("votes", ["votes.csv", "votes.txt", "votes", "votes.jsonl"])
@pytest.mark.parametrize(
    "data", [("all.csv",), ("1.csv", "2.csv"), ("all.txt", "--format", "csv"), ("all.csv", "--format", "csv")]
)  # fmt: skip
def test_labels_in_a_file_of_their_own_in_any_format(ddol, log, data, votes):
    words = [log / word if "." in word else word for word in data]
    done = ddol("train", *words, "--answers", log / votes, "--id", "id", "--json", "-")
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    plain = ddol(
        "train", log / "all.csv", "--answers", log / "votes.csv", "--id", "id", "--json", "-"
    )
    expected = json.loads(plain.stdout)
    assert found["mistakes"] == expected["mistakes"] and found["agents"] == 4
    assert found["examples"] == 200 and found["unanswered"] == 0


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--predictions", "p"), "scores are not kept until a late label comes"),
        (("--shuffle",), "the order of the examples says when labels come"),
        (("--checkpoint", "c"), "labels that are under way are not kept"),
        (("--engine", "threads"), "late labels need the clock of --engine local"),
    ],
)
def test_what_cannot_be_had_with_late_labels_is_said_with_the_reason(
    ddol, log, options, why, monkeypatch
):
    monkeypatch.chdir(log)
    done = ddol("train", "all.csv", "--answers", "votes.csv", "--id", "id", *options)
    assert done.exit_code == 2 and why in done.stderr and len(done.stderr.splitlines()) == 1


def test_a_checkpoint_of_a_pipe_is_refused_with_the_reason(ddol, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    done = ddol("train", tmp_path / "pipe", "--checkpoint", tmp_path / "c")
    assert done.exit_code == 2 and "a pipe is read once" in done.stderr and "--model" in done.stderr
