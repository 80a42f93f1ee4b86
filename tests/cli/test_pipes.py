"""What can be read only once is read once: pipes, standard input, compressed or not."""

from __future__ import annotations

import gzip
import json
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
import zlib
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from patience import LONG, not_for_ever, wait_until

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


class SteadyWriter:
    """Feeds lines to processes, one every few milliseconds, until it is told to stop."""

    def __init__(self, processes_input: list, line: str = "{} 1:{} 2:{}\n") -> None:
        self.inputs, self.line = processes_input, line
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self._write, daemon=True)
        self.thread.start()

    def _write(self) -> None:
        number = 0
        with suppress(OSError):
            while not self.stopped.wait(0.005):
                sign = 1 if number % 2 else -1
                for file in self.inputs:
                    file.write(self.line.format(sign, sign, number % 7).encode())
                    file.flush()
                number += 1

    def stop(self) -> None:
        self.stopped.set()
        self.thread.join()


class Packed:
    """A file that is written as gzip, each write as soon as it is flushed."""

    def __init__(self, file) -> None:
        self.file, self.packer = file, zlib.compressobj(wbits=31)

    def write(self, text: bytes) -> None:
        self.file.write(self.packer.compress(text))

    def flush(self) -> None:
        self.file.write(self.packer.flush(zlib.Z_SYNC_FLUSH))
        self.file.flush()


def started(*words) -> subprocess.Popen:
    command = [sys.executable, "-m", "ddol", *map(str, words)]
    pipe = subprocess.PIPE
    return not_for_ever(subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe))


@pytest.mark.parametrize("wrapped", [lambda file: file, Packed], ids=["plain", "gzip"])
def test_predictions_come_while_lines_keep_coming(tmp_path, ddol, examples, wrapped):
    model = tmp_path / "m.ddol"
    assert ddol("train", examples, "--model", model, "--quiet").exit_code == 0
    process = started("predict", model, "-")
    writer = SteadyWriter([wrapped(process.stdin)])
    # The writer stops when an answer has come: if none does, the process is killed.
    assert process.stdout.readline().strip() in (b"1", b"-1")
    writer.stop()
    _, errors = process.communicate()
    assert process.returncode == 0 or b"truncated" in errors  # nobody has ended the gzip text


@pytest.mark.parametrize(
    ("format_", "line"),
    [
        ("libsvm", "{} 1:{} 2:{}\n"),
        ("vw", "{} | a:{} b:{}\n"),
        ("jsonl", '{{"label": {}, "a": {}, "b": {}}}\n'),
        ("csv", "{},{},{}\n"),
    ],
)
def test_a_stopped_stream_leaves_predictions_and_the_model(tmp_path, format_, line):
    model = tmp_path / "m.ddol"
    options = ("--format", format_, "--no-header") if format_ == "csv" else ("--format", format_)
    process = started("train", "-", *options, "--model", model, "--predictions", "-")
    writer = SteadyWriter([process.stdin], line)
    said = [process.stdout.readline() for _ in range(40)]
    process.send_signal(signal.SIGTERM)
    writer.stop()
    _, errors = process.communicate()
    assert {line.strip() for line in said} <= {b"1", b"-1"}
    assert process.returncode == 143 and b"examples so far" in errors
    assert model.exists() and not (tmp_path / "-").exists()


def test_a_pipe_for_each_agent_is_learned_from_as_it_comes(tmp_path):
    names = [tmp_path / "a.libsvm", tmp_path / "b.libsvm"]
    for name in names:
        os.mkfifo(name)
    command = ("train", *names, "--agents", 2, "--model", tmp_path / "m.ddol", "--predictions", "-")
    process = started(*command)
    with ExitStack() as stack:
        # To open for writing only would wait for a reader, who waits for the first pipe's lines.
        opened = [os.fdopen(os.open(name, os.O_RDWR), "wb") for name in names]
        files = [stack.enter_context(file) for file in opened]
        writer = SteadyWriter(files)
        assert process.stdout.readline().startswith(b"a\t")
        process.send_signal(signal.SIGINT)
        writer.stop()
        process.communicate()
    assert process.returncode == 130 and (tmp_path / "m.ddol").exists()


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
