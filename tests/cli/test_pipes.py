"""What can be read only once is read once: pipes, standard input, compressed or not."""

from __future__ import annotations

import gzip
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from patience import LONG, wait_until

TRAIN = [sys.executable, "-m", "ddol", "train"]


def figures(command: str, folder: Path) -> dict:
    out = folder / "figures.json"
    subprocess.run(
        ["bash", "-c", f"{command} --quiet --json {out}"], check=True, capture_output=True
    )
    return json.loads(out.read_text())


@pytest.fixture
def long_file(tmp_path, text_of) -> Path:
    path = tmp_path / "long.libsvm"
    path.write_text(text_of(n=30_000))
    return path


@pytest.mark.parametrize("options", ["", "--passes 2", "--shuffle", "--engine threads --workers 2"])
def test_a_pipe_gives_what_the_file_gives(tmp_path, long_file, options):
    train = shlex.join(TRAIN)
    expected = figures(f"{train} {long_file} {options}", tmp_path)
    for source in (f"<(cat {long_file})", f"<(gzip -c {long_file})"):
        found = figures(f"{train} {source} {options}", tmp_path)
        assert found["examples"] == expected["examples"] >= 30_000
        assert found["mistakes"] == expected["mistakes"]


def test_gzip_on_standard_input(tmp_path, long_file):
    packed = tmp_path / "packed"
    packed.write_bytes(gzip.compress(long_file.read_bytes()))
    found = figures(f"{shlex.join(TRAIN)} - < {packed}", tmp_path)
    assert found["examples"] == 30_000


def wait_for_reader(pid: int, pipe: Path) -> None:
    """Return when a process has opened a pipe and had a moment to wait for its first line."""
    if not Path("/proc/self/fd").exists():
        time.sleep(10.0)
        return
    links = Path(f"/proc/{pid}/fd")

    def reads() -> bool:
        with suppress(FileNotFoundError):  # another file was closed meanwhile
            return any(link.resolve() == pipe for link in links.iterdir())
        return False

    assert wait_until(reads)
    time.sleep(0.5)


@pytest.mark.parametrize("written", [b"", b"1 1:1\n-1 1:-1\n" * 40])
def test_a_named_pipe_does_not_keep_the_first_signal_waiting(tmp_path, written):
    check_stops(tmp_path, [*TRAIN, str(tmp_path / "pipe")], written)


@pytest.mark.parametrize("command", ["predict", "evaluate"])
def test_commands_that_read_a_pipe_stop_at_a_signal(tmp_path, ddol, examples, command):
    model = tmp_path / "m.ddol"
    assert ddol("train", examples, "--model", model, "--quiet").exit_code == 0
    words = [sys.executable, "-m", "ddol", command, str(model), str(tmp_path / "pipe")]
    check_stops(tmp_path, words, examples.read_bytes())


def check_stops(tmp_path, command, written):
    """A signal ends a command that reads a pipe of which nothing more comes."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
    writer = os.open(pipe, os.O_RDWR)  # does not wait for a reader
    try:
        os.write(writer, written)
        wait_for_reader(process.pid, pipe)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=LONG)
    finally:
        os.close(writer)
        process.kill()
    assert process.returncode == 130
    assert b"Traceback" not in said and b"stopped by SIGINT" in said
