"""Examples held out, and what stays of a run that is stopped."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import ddol as library
from patience import LONG, not_for_ever, wait_until


@pytest.fixture
def noise(tmp_path):
    """Examples whose labels are drawn: nobody can predict them."""
    rng = np.random.default_rng(0)
    path = tmp_path / "noise.libsvm"
    rows = rng.standard_normal((400, 200))
    lines = [
        f"{rng.integers(2)} " + " ".join(f"{j + 1}:{x:.3f}" for j, x in enumerate(row))
        for row in rows
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


def figures(result):
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def test_several_passes_over_random_labels_are_found_out(ddol, noise):
    result = ddol("train", noise, "--passes", 20, "--agents", 1, "--json", "-")
    found = figures(result)
    progressive = sum(found["mistakes"]) / found["examples"]
    assert found["holdout"]["examples"] == 40 and found["examples"] == 20 * 360
    assert progressive < 0.4 < found["holdout"]["error"]
    assert "held-out %" in result.stderr
    assert "held-out error" in result.stderr and "while learning, over 20 passes" in result.stderr


def test_one_pass_holds_nothing_out_unless_asked_to(ddol, examples):
    plain = figures(ddol("train", examples, "--json", "-"))
    assert plain["holdout"] is None and plain["examples"] == 300
    found = figures(ddol("train", examples, "--holdout", 0.25, "--json", "-"))
    assert found["holdout"]["examples"] == 75 and found["examples"] == 225
    assert found["holdout"]["error"] < 0.2


def test_the_share_is_held_to(ddol, examples):
    for share in (0.1, 0.3, 0.4):
        result = ddol("train", examples, "--holdout", share, "--quiet", "--json", "-")
        assert json.loads(result.stdout)["holdout"]["examples"] == round(300 * share)


def test_the_same_examples_are_held_out_in_every_order(ddol, examples):
    options = ("--passes", 3, "--json", "-")
    for more in ((), ("--shuffle",), ("--engine", "threads", "--workers", 2)):
        found = figures(ddol("train", examples, *options, *more))
        assert found["holdout"]["examples"] == 30 and found["examples"] == 3 * 270


def test_held_out_numbers_have_an_error_too(ddol):
    result = ddol("train", "--loss", "squared", "--passes", 2, "--json", "-")
    assert figures(result)["holdout"]["error"] > 0
    assert "held-out root mean squared error" in result.stderr


def test_a_resumed_run_holds_the_same_examples_out(ddol, examples, tmp_path):
    options = ("train", examples, "--passes", 3, "--json", "-")
    kept = ("--checkpoint", tmp_path / "c", "--every", 50)
    whole = figures(ddol(*options, *kept))
    again = figures(ddol(*options, *kept, "--resume"))
    assert again["holdout"] == whole["holdout"] and again["loss"] == whole["loss"]


@pytest.fixture
def endless(tmp_path, text_of):
    path = tmp_path / "endless.libsvm"
    path.write_text(text_of(n=5000, d=6))
    return path


def started(*arguments):
    command = [sys.executable, "-m", "ddol", *map(str, arguments)]
    return not_for_ever(subprocess.Popen(command, stderr=subprocess.PIPE, text=True))


def has_learned(process):
    """Wait for the third row of the table."""
    rows = 0
    while rows < 3:
        line = process.stderr.readline()
        assert line, "ended too early"
        rows += line.strip().split(" ")[0].replace(",", "").isdigit()


@pytest.mark.parametrize("more", [(), ("--checkpoint", "c")])
def test_a_stopped_run_leaves_the_model_so_far(endless, tmp_path, more):
    model = tmp_path / "m.ddol"
    more = [tmp_path / option if option == "c" else option for option in more]
    process = started("train", endless, "--passes", 100_000, "--model", model, *more)
    has_learned(process)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=LONG)
    assert process.returncode == 130, errors
    assert f"examples so far: {model}" in errors
    assert ("go on with" in errors) == bool(more)
    rows = library.streams.open_stream(str(endless))
    [(block, _), *_] = rows.read()
    assert np.mean(library.load(model).predict(block) == block.y) > 0.8


def test_a_pipe_that_is_stopped_leaves_the_model_so_far(tmp_path, text_of):
    model = tmp_path / "m.ddol"
    command = [sys.executable, "-m", "ddol", "train", "-", "--agents", "1", "--model", str(model)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process.stdin.write(text_of(n=200_000, d=4))
    process.stdin.flush()
    has_learned(process)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=LONG)
    assert process.returncode == 143, errors
    assert f"examples so far: {model}" in errors and library.load(model).labels.tolist() == [-1, 1]


def test_a_second_signal_ends_the_process_whatever_it_does(tmp_path):
    """Compiled code hears no signals: a thread ends the process in its place."""
    code = """
import hashlib
from ddol.job.stopping import Signals
with Signals():
    print("ready", flush=True)
    hashlib.pbkdf2_hmac("sha256", b"a", b"b", 1_000_000_000)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "ready\n"

    def ended():
        process.send_signal(signal.SIGINT)  # those that come before one was heard count as one
        time.sleep(0.3)
        return process.poll() is not None

    assert wait_until(ended)
    errors = process.communicate()[1]
    assert process.returncode == 130 and "stopped by SIGINT" in errors
