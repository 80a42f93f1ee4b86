"""A host or its network vanishes in the middle of a job: namespaces are the hosts."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from ddol.compiled import INTERPRETED
from hosts import Hosts, needs_hosts, network
from patience import LONG, not_for_ever, wait_until

pytestmark = [
    needs_hosts,
    pytest.mark.skipif(
        INTERPRETED or importlib.util.find_spec("mpi4py") is None,
        reason="needs compiled code and mpi4py: pip install ddol[mpi]",
    ),
]


@pytest.fixture
def hosts(tmp_path) -> Iterator[Hosts]:
    with network(tmp_path) as made:
        yield made


class Job:
    """Four agents on two hosts, who would learn for long."""

    def __init__(self, hosts: Hosts, on_lost: str) -> None:
        rng, folder = np.random.default_rng(0), hosts.folder
        lines = [
            f"{1 if x.sum() > 0 else -1} 1:{x[0]:.3f} 2:{x[1]:.3f}"
            for x in rng.normal(size=(400, 2))
        ]
        Path(folder, "data.libsvm").write_text("\n".join(lines) + "\n")
        listed, variables = hosts.mpi(slots=2)
        options = f"--agents 4 --topology ring --period 64 --algorithm dogd --passes {10**9}"
        command = [sys.executable, "-m", "ddol", "launch", "-n", "4", "--hostfile", str(listed)]
        command += ["train", "data.libsvm", *options.split(), "--on-lost", on_lost]
        self.process = not_for_ever(
            subprocess.Popen(
                hosts.on(0, [*command, "--checkpoint", "kept"]),
                env={**os.environ, **variables},
                cwd=folder,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
        self.said: list[str] = []
        self.hear(lambda line: line.split()[:1] == ["512"])

    def hear(self, enough) -> None:
        """Listen up to some line."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said.append(line)
            if enough(line):
                return
        raise AssertionError("".join(self.said))

    def ended(self) -> int:
        """Listen to the end."""
        assert self.process.stderr is not None
        self.said += self.process.stderr.readlines()
        self.process.stderr.close()
        return self.process.wait(LONG)


def ranks(hosts: Hosts, k: int) -> list[int]:
    """Processes on a host that learn."""
    commands = {pid: Path(f"/proc/{pid}/cmdline") for pid in hosts.processes(k)}
    return [
        pid for pid, file in commands.items() if file.exists() and b"train" in file.read_bytes()
    ]


def test_a_cut_link_is_named_and_the_last_line_says_how_to_resume(hosts):
    job = Job(hosts, "end")
    hosts.cut(1)
    job.hear(lambda line: "waiting for rank" in line and hosts.address(1) in line)
    assert job.ended() == 1
    assert job.said[-1].startswith("ddol: the job ended early; go on with: ddol launch -n 4 train")
    assert job.said[-1].rstrip().endswith("--resume")
    assert any("nothing was heard of rank" in line for line in job.said)
    assert wait_until(lambda: not ranks(hosts, 0)), "nobody is left behind"


@pytest.mark.hostile
def test_the_agents_of_a_host_that_vanished_live_on_from_their_copies_elsewhere(hosts):
    job = Job(hosts, "without")
    hosts.cut(1)
    hosts.switch_off(1)  # nothing of its end gets through
    job.hear(lambda line: line.startswith("ddol: 2 ranks were lost; 2 ranks go on with all agents"))
    rounds = int(job.said[-1].split()[-1])
    assert rounds > 0, "not from the beginning"
    job.process.send_signal(signal.SIGINT)
    assert job.ended() == 128 + signal.SIGINT
    assert any("stopped by SIG" in line and "--resume" in line for line in job.said)


@pytest.mark.hostile
def test_a_link_that_comes_back_is_waited_for(hosts):
    job = Job(hosts, "wait")
    hosts.cut(1)
    job.hear(lambda line: "of which nothing is heard" in line)
    hosts.mend(1)
    job.hear(lambda line: line.split()[:1] and line.split()[0].replace(",", "").isdigit())
    assert not any("lost" in line for line in job.said)
    job.process.send_signal(signal.SIGINT)
    assert job.ended() == 128 + signal.SIGINT


def test_a_host_whose_processes_are_killed_ends_the_job_with_our_last_line(hosts):
    """mpiexec ends the job when the daemon that it started there is gone."""
    job = Job(hosts, "wait")
    hosts.switch_off(1)
    assert job.ended() == 1
    assert job.said[-1].startswith("ddol: the job ended early; go on with: ddol launch -n 4 train")
