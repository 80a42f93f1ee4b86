"""What only a process of its own can show: signals, kills, pipes, full disks."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ddol as library
from ddol.folders import folder_at
from patience import LONG, wait_until


def start(*arguments, **options):
    command = [sys.executable, "-m", "ddol", *map(str, arguments)]
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True} | options
    return subprocess.Popen(command, **options)


def wait_for_checkpoint(process, folder):
    def saved():
        assert process.poll() is None, process.stderr.read()
        return list(folder.glob("checkpoint-*.safetensors"))

    assert wait_until(saved)


@pytest.fixture
def large(tmp_path, text_of):
    path = tmp_path / "large.libsvm"
    path.write_text(text_of(20_000))
    return path


RUNS = {
    "passes": ("--passes", 12),
    "shuffle": ("--algorithm", "dogd", "--passes", 12, "--shuffle", "--topology", "ring"),
    "random": ("--algorithm", "drwm", "--passes", 12),
    "entropy": ("--algorithm", "doeg", "--passes", 12, "--delay", 3, "--batch", 2),
}


KILLED = """
import os, signal
from ddol.__main__ import main
from ddol import checkpoint

save, saved = checkpoint.save_checkpoint, []

def kept(*given):
    if len(saved) == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    saved.append(save(*given))

checkpoint.save_checkpoint = kept
main()
"""


@pytest.mark.parametrize("name", RUNS)
def test_a_killed_run_resumes_to_the_bit(ddol, tmp_path, large, name):
    options = (large, *RUNS[name], "-q")
    whole = ddol("train", *options, "--json", "-", "--model", tmp_path / "whole")
    folder = tmp_path / "c"
    kept = (*options, "--checkpoint", folder, "--every", 3000)
    killed = subprocess.run([sys.executable, "-c", KILLED, "train", *map(str, kept)], check=False)
    assert killed.returncode == -signal.SIGKILL
    resumed = ddol("train", *kept, "--resume", "--json", "-", "--model", tmp_path / "resumed")
    expected, found = json.loads(whole.stdout), json.loads(resumed.stdout)
    for key in ("mistakes", "loss", "examples", "rounds", "final_weights_norm"):
        assert found[key] == expected[key]
    models = [library.load(tmp_path / which) for which in ("whole", "resumed")]
    assert np.array_equal(models[0].weights, models[1].weights)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_signals_leave_a_checkpoint_and_say_how_to_go_on(tmp_path, large, number, code):
    folder = tmp_path / "c"
    process = start("train", large, "--passes", 1000, "--checkpoint", folder, "--every", 5000)
    wait_for_checkpoint(process, folder)
    process.send_signal(number)
    _, errors = process.communicate(timeout=LONG)
    assert process.returncode == code
    assert f"stopped by {number.name}; go on with: ddol train" in errors
    assert errors.rstrip().endswith("--resume") and "Traceback" not in errors
    assert 1 <= len(list(folder.glob("checkpoint-*.safetensors"))) <= 2


def catches(process, number):
    """Whether a process has a handler for a signal by now."""
    status = Path(f"/proc/{process.pid}/status")
    if not status.exists():
        pytest.skip("there is no /proc here")
    [mask] = [line.split()[1] for line in status.read_text().splitlines() if "SigCgt" in line]
    return int(mask, 16) >> (number - 1) & 1


def test_a_pipe_that_never_ends_can_be_stopped(text_of):
    process = start("train", "-", "--agents", 1, stdin=subprocess.PIPE)
    process.stdin.write(text_of(10))
    process.stdin.flush()
    assert wait_until(lambda: catches(process, signal.SIGTERM))
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=LONG)
    assert process.returncode == 143, errors


def test_resuming_where_nothing_was_saved_starts_from_the_beginning(ddol, tmp_path, examples):
    options = ("train", examples, "--json", "-")
    resumed = ddol(*options, "--checkpoint", tmp_path / "c", "--resume")
    assert "no checkpoint was found" in resumed.stderr
    assert json.loads(resumed.stdout)["loss"] == json.loads(ddol(*options).stdout)["loss"]


def test_a_damaged_newest_checkpoint_falls_back(ddol, tmp_path, examples):
    folder = tmp_path / "c"
    options = ("train", examples, "--passes", 3, "--checkpoint", folder, "--every", 100, "-q")
    whole = json.loads(ddol(*options, "--json", "-").stdout)
    newest = max(folder.glob("*.safetensors"), key=lambda path: int(path.stem.split("-")[1]))
    newest.write_bytes(newest.read_bytes()[:200])
    resumed = ddol(*options, "--resume", "--json", "-")
    assert "warning:" in resumed.stderr and newest.name in resumed.stderr
    assert json.loads(resumed.stdout)["loss"] == whole["loss"]


def test_a_new_run_sets_old_checkpoints_aside(ddol, tmp_path, examples):
    options = ("train", examples, "--checkpoint", tmp_path / "c", "--every", 100, "-q")
    assert ddol(*options).exit_code == 0
    assert ddol(*options, "--label", "x", "--format", "csv").exit_code == 2
    assert not list((tmp_path / "c").glob("*.old"))  # a run that cannot begin leaves them alone
    again = ddol(*options)
    assert again.exit_code == 0 and "renamed to *.old" in again.stderr
    assert list((tmp_path / "c").glob("*.old"))


def test_a_reader_that_has_enough_is_no_error(ddol, tmp_path, large):
    model = tmp_path / "m"
    assert ddol("train", large, "-q", "--model", model).exit_code == 0
    process = start("predict", model, *[large] * 20)
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(LONG) == 0
    assert process.stderr.read() == ""


def test_a_full_disk_leaves_nothing(ddol, tmp_path, examples):
    resource = pytest.importorskip("resource")
    assert ddol("train", examples, "-q").exit_code == 0  # compiled code is on the disk now

    def little_room():
        resource.setrlimit(resource.RLIMIT_FSIZE, (200, 200))

    out = tmp_path / "out"
    out.mkdir()
    process = start("train", examples, "-q", "--model", out / "m", preexec_fn=little_room)
    _, errors = process.communicate(timeout=LONG)
    assert process.returncode == 1, errors
    assert "cannot write the model" in errors and len(errors.splitlines()) == 1
    assert list(out.iterdir()) == []

    def no_room():
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    process = start(
        "train", examples, "-q", "--checkpoint", out / "c", "--every", 100, preexec_fn=no_room
    )
    _, errors = process.communicate(timeout=LONG)
    assert process.returncode == 1 and f"{out}/c/checkpoint" in errors, errors
    assert "cannot write the checkpoint" in errors and len(errors.splitlines()) == 1


def test_predictions_to_a_full_device(ddol, tmp_path, examples):
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full here")
    model = tmp_path / "m"
    assert ddol("train", examples, "-q", "--model", model).exit_code == 0
    result = ddol("predict", model, examples, "--out", "/dev/full")
    assert result.exit_code == 1 and "No space left" in result.stderr


def test_two_runs_in_one_folder_of_checkpoints(ddol, tmp_path, examples):
    folder = tmp_path / "c"
    folder.mkdir()
    with folder_at(folder).locked():
        refused = ddol("train", examples, "--checkpoint", folder, "-q")
    assert refused.exit_code == 2
    assert "is writing its checkpoints there; wait for its end or use another" in refused.stderr
    assert ddol("train", examples, "--checkpoint", folder, "-q").exit_code == 0


def test_a_model_goes_where_its_link_leads(ddol, tmp_path, examples):
    (tmp_path / "models").mkdir()
    link = tmp_path / "latest"
    link.symlink_to(tmp_path / "models" / "one.ddol")
    assert ddol("train", examples, "--model", link, "-q").exit_code == 0
    assert link.is_symlink() and (tmp_path / "models" / "one.ddol").is_file()
    assert ddol("inspect", link).exit_code == 0


def test_a_renamed_copy_is_the_same_data_and_a_changed_one_is_not(ddol, tmp_path, examples):
    options = ("--passes", 2, "--checkpoint", tmp_path / "c", "--every", 100, "-q", "--json", "-")
    whole = ddol("train", examples, *options)
    renamed = examples.rename(tmp_path / "elsewhere.libsvm")
    again = ddol("train", renamed, *options, "--resume")
    assert again.exit_code == 0, again.stderr
    assert json.loads(again.stdout)["loss"] == json.loads(whole.stdout)["loss"]
    renamed.write_bytes(renamed.read_bytes().replace(b"1", b"2", 1))
    changed = ddol("train", renamed, *options, "--resume")
    assert changed.exit_code == 2 and "this checkpoint is of another run" in changed.stderr
