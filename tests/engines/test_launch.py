"""`ddol launch`: what it starts, what it keeps quiet, and what it returns."""

import importlib.util
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from ddol import launch as launching
from ddol.compiled import INTERPRETED
from ddol.launch import command_line, quiet, variables
from ddol.streams.errors import DataError
from patience import LONG, not_for_ever, wait_until

with_mpi = pytest.mark.skipif(
    INTERPRETED or importlib.util.find_spec("mpi4py") is None,
    reason="needs compiled code and mpi4py: pip install ddol[mpi]",
)

DDOL = [sys.executable, "-m", "ddol"]
BOX = "-" * 74 + "\n"


def ddol(*arguments: object) -> subprocess.CompletedProcess:
    return subprocess.run(
        [*DDOL, *map(str, arguments)],
        env=patient(),
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
    )


def patient() -> dict[str, str]:
    # The machine of a test is shared: who waits must let others work.
    return {**os.environ, "OMPI_MCA_mpi_yield_when_idle": "1"}


def test_boxes_without_news_are_left_out():
    said = ["a\n", BOX, "WARNING: 'topo' is not tested for post-failure\n", "x\n", BOX, "b\n"]
    assert list(quiet(said)) == ["a\n", "b\n"]
    news = [BOX, "a process was killed by signal 9\n", BOX]
    assert list(quiet(news)) == news
    assert list(quiet([BOX, "not closed\n"])) == [BOX, "not closed\n"]
    assert list(quiet(["1 more process has sent help message help-mpi-ft.txt\n", "c\n"])) == ["c\n"]


@with_mpi
def test_the_command_says_all_that_mpiexec_needs(tmp_path):
    hosts = tmp_path / "hosts"
    hosts.write_text("node1 slots=2\n")
    command = command_line(4, ["train", "a.libsvm"], hosts)
    assert Path(command[0]).name == "mpiexec"
    assert command[1:3] == ["-n", "4"]
    assert command[command.index("--with-ft") + 1] == "ulfm"
    assert command[command.index("--hostfile") + 1] == str(hosts)
    assert command[-5:] == ["ddol", "train", "a.libsvm", "--engine", "mpi"]
    assert "--with-ft" not in command_line(4, ["train"], ft=False)
    assert command_line(4, ["train", "--engine", "mpi"]).count("--engine") == 1


def test_what_cannot_be_launched(tmp_path):
    with pytest.raises(DataError, match="-n: found 0, expected at least 1"):
        command_line(0, ["train"])
    with pytest.raises(DataError, match="found predict, expected train"):
        command_line(2, ["predict", "m"])
    with pytest.raises(DataError, match="no such file; write one host per line"):
        command_line(2, ["train"], tmp_path / "none")


def test_the_users_variables_win():
    assert variables({}, "word")["OMPI_ALLOW_RUN_AS_ROOT"] == "1"
    assert variables({"OMPI_ALLOW_RUN_AS_ROOT": "0"}, "word")["OMPI_ALLOW_RUN_AS_ROOT"] == "0"


@pytest.mark.parametrize(
    ("does", "code", "told"),
    [
        (
            'echo "$DDOL_EXIT_MARK 0" >&2; exit 137',
            0,
            "a rank was lost after the result was written",
        ),
        (
            'echo "$DDOL_EXIT_MARK 1" >&2; sleep 60',
            1,
            "go on with: ddol launch -n 2 train a.libsvm",
        ),
        ("kill -9 $$", 1, "the job ended early; go on with"),
        ("exit 2", 2, ""),
    ],
)
def test_how_a_job_ended(does, code, told, tmp_path, monkeypatch, capsys):
    mpiexec = tmp_path / "mpiexec"
    mpiexec.write_text(f"#!/bin/sh\n{does}\n")
    mpiexec.chmod(0o755)
    monkeypatch.setattr(launching, "find_mpiexec", lambda: mpiexec)
    monkeypatch.setattr(launching, "_AFTER_FAILURE", 0.1)
    found = launching.launch(2, ["train", "a.libsvm", "--checkpoint", "kept"])
    said = capsys.readouterr().err
    assert (found, "EXIT_MARK" in said) == (code, False)
    assert told in said and ("--resume" in said) == (code == 1)


@with_mpi
def test_more_ranks_than_cores_give_the_same_figures(tmp_path):
    options = ["--algorithm", "dogd", "--topology", "ring", "--agents", 4, "--period", 8]
    done = ddol("launch", "-n", 3, "train", *options, "--quiet", "--json", tmp_path / "mpi")
    assert done.returncode == 0, done.stderr
    # A machine that is busy may let ranks wait for each other.
    assert [line for line in done.stderr.splitlines() if "waiting for rank" not in line] == []
    ddol("train", *options, "--quiet", "--json", tmp_path / "local")
    found, expected = (json.loads((tmp_path / name).read_text()) for name in ("mpi", "local"))
    assert found["workers"] == 3
    assert found["mistakes"] == expected["mistakes"]
    assert found["final_weights_norm"] == pytest.approx(expected["final_weights_norm"], rel=1e-9)


@with_mpi
def test_a_stale_checkpoint_of_another_run_is_refused_by_all(tmp_path):
    done = ddol("train", "--quiet", "--checkpoint", tmp_path, "--every", 100, "--period", 2)
    assert done.returncode == 0, done.stderr
    again = ["--quiet", "--checkpoint", tmp_path, "--every", 100, "--resume"]
    done = ddol("launch", "-n", 2, "train", *again)
    assert done.returncode == 2
    assert "this checkpoint is of another run: --period was 2, now it is 1" in done.stderr


@with_mpi
def test_ctrl_c_ends_the_job_and_says_so():
    command = [*DDOL, "launch", "-n", "2", "train", "--agents", "2", "--passes", "1000000"]
    job = not_for_ever(subprocess.Popen(command, env=patient(), stderr=subprocess.PIPE, text=True))
    assert job.stderr is not None
    said = []
    for line in job.stderr:
        said.append(line)
        if line.split()[:1] == ["512"]:  # the run is going on
            break
    job.send_signal(signal.SIGINT)
    assert job.wait(LONG) == 128 + signal.SIGINT, "".join(said)
    assert job.stderr.read().count("stopped by SIGINT; nothing was written") == 1
    job.stderr.close()


def running(marker: str) -> list[int]:
    """Processes whose command line has a word in it."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            if marker.encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
    return found


def started(*options: str) -> tuple[subprocess.Popen, str]:
    """A job that has begun to learn and would go on for long, and a word in its command line."""
    marker = f"{secrets.randbelow(10**12) + 10**12}"
    command = [*DDOL, "launch", "-n", "2", "train", "--agents", "2", "--passes", marker, *options]
    job = not_for_ever(subprocess.Popen(command, env=patient(), stderr=subprocess.PIPE, text=True))
    assert job.stderr is not None
    for line in job.stderr:
        if line.split()[:1] == ["512"]:
            break
    return job, marker


@with_mpi
def test_a_killed_launch_takes_its_ranks_along():
    job, marker = started()
    assert len(running(marker)) >= 3  # launch, mpiexec and the ranks
    job.kill()
    job.wait()
    assert wait_until(lambda: not running(marker)), running(marker)
    job.stderr.close()


@with_mpi
def test_a_stopped_rank_is_named_waited_for_without_a_core_and_given_up(tmp_path):
    folder = str(tmp_path)
    job, marker = started("--on-lost", "end", "--checkpoint", folder)
    ranks = [pid for pid in running(marker) if arguments(pid)[3:4] == ["train"]]
    os.kill(ranks[1], signal.SIGSTOP)
    said = []
    for line in job.stderr:
        said.append(line)
        if "waiting for rank" in line and "of which nothing is heard" in line:
            break
    worked = share_of_a_core(ranks[0])
    said += job.stderr.readlines()
    assert worked < 0.4, "it burns a core"
    assert job.wait(LONG) == 1, said
    assert any("nothing was heard of rank" in line and "the job ends" in line for line in said)
    assert said[-1].startswith("ddol: the job ended early; go on with: ddol launch -n 2 train")
    assert "--resume" in said[-1]
    job.stderr.close()


def arguments(pid: int) -> list[str]:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    return []


def share_of_a_core(pid: int) -> float:
    """How much a process works, from now to its end or for a while."""
    began, spent = time.monotonic(), cpu_seconds(pid)
    seconds, worked = 0.0, 0.0
    with suppress(OSError):  # it has ended
        while seconds < 1.5:
            time.sleep(0.05)
            worked, seconds = cpu_seconds(pid) - spent, time.monotonic() - began
    return worked / max(seconds, 0.5)


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
