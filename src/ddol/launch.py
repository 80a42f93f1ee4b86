"""Starting a job of several processes: ``ddol launch -n 4 train …``."""

from __future__ import annotations

import ctypes
import os
import secrets
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from types import FrameType
from typing import IO, Any

from ddol.engines.mpi.job import EXIT_MARK, find_mpiexec
from ddol.streams.errors import DataError

_PR_SET_PDEATHSIG = 1  # of Linux's prctl.h
_LONGEST_END, _AFTER_FAILURE = 12.0, 3.0
"""Seconds from a job's exit code to its end: where all was done, and where it failed."""

_NOISE = (
    "is not tested for post-failure",
    "MPI_ABORT was invoked",
    "prterun has exited due to process rank",
    "prterun detected that one or more processes exited with non-zero status",
)
_NOISY_LINES = (
    "help-mpi-ft.txt",
    "help-mpi-api.txt",
    "orte_base_help_aggregate",
    "prte_base_help_aggregate",
)


def launch(n: int, arguments: Sequence[str], hostfile: Path | None = None, ft: bool = True) -> int:
    """Run a ddol command in `n` processes and return its exit code.

    The code is 0 only if the job has said that it did all it was asked for: a process that was
    lost and made up for does not count, one that took the result with it does.

    Parameters
    ----------
    n : int
        Processes.
    arguments : sequence of str
        The command, such as ``["train", "data.libsvm"]``; ``--engine mpi`` is added.
    hostfile : Path, optional
        Hosts to start them on, one per line, such as ``node1 slots=8``; by default this one.
    ft : bool
        Go on when a process is lost (``--with-ft ulfm``).
    """
    command = command_line(n, arguments, hostfile, ft)
    token = secrets.token_hex(16)
    with (
        # Jobs that start at the same time must not meet in one folder, nor leave anything behind.
        tempfile.TemporaryDirectory(prefix="ddol-", ignore_cleanup_errors=True) as folder,
        # Not closed by itself: what runs on a host that is gone may hold its other end for ever.
        nullcontext(
            subprocess.Popen(
                command,
                env=variables(os.environ, token) | ({} if hostfile else {"TMPDIR": folder}),
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                start_new_session=True,  # Ctrl-C reaches it through us, once
                preexec_fn=_end_with_us,
            )
        ) as job,
    ):
        assert job.stderr is not None
        heard = _Listener(job.stderr, token)
        heard.start()
        with _forwarding(job) as caught:
            code = _ended(job, heard)
        heard.join(5)
        if not heard.is_alive():
            job.stderr.close()
    if heard.code == 0:
        if code != 0:
            print("ddol: a rank was lost after the result was written", file=sys.stderr)
        return 0
    if caught:
        if not heard.stopped:
            print(_stopped(caught[0], n, arguments), file=sys.stderr)
        return 128 + caught[-1]
    code = heard.code or (code if 0 < code < 128 else 1)
    if code != 2:  # wrong options are no reason to go on
        print(f"ddol: the job ended early; {_advice(n, arguments)}", file=sys.stderr)
    return code


def _end_with_us() -> None:
    """Let the system end mpiexec, and so the job, when this process is killed."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _ended(job: subprocess.Popen[Any], heard: _Listener) -> int:
    """The exit code of a job, which may have written it and still wait for a host that is gone."""
    while True:
        # A job without output has usually ended: there is no need to look for it again.
        heard.join(0.2)
        try:
            return job.wait(0.0 if heard.is_alive() else 0.2)
        except subprocess.TimeoutExpired:
            longest = _LONGEST_END if heard.code == 0 else _AFTER_FAILURE
            if heard.code is not None and time.monotonic() - heard.ended_at > longest:
                with suppress(ProcessLookupError):
                    os.killpg(job.pid, signal.SIGKILL)


def command_line(
    n: int, arguments: Sequence[str], hostfile: Path | None = None, ft: bool = True
) -> list[str]:
    """Return the mpiexec command that `launch` runs.

    Examples
    --------
    >>> command_line(4, ["train", "a.libsvm"])[-5:]  # doctest: +SKIP
    ['ddol', 'train', 'a.libsvm', '--engine', 'mpi']
    """
    if n < 1:
        raise DataError(f"-n: found {n}, expected at least 1 process")
    if not arguments or arguments[0] != "train":
        found = arguments[0] if arguments else "no command"
        raise DataError(f"ddol launch: found {found}, expected train and its options")
    if hostfile is not None and not hostfile.is_file():
        raise DataError(f"--hostfile {hostfile}: no such file; write one host per line")
    command = [str(find_mpiexec()), "-n", str(n), "--map-by", ":OVERSUBSCRIBE"]
    # Bound to one core, a process would read ahead on the core it computes on.
    command += ["--bind-to", "none", "-x", EXIT_MARK]
    if ft:
        command += ["--with-ft", "ulfm"]
    if hostfile is not None:
        command += ["--hostfile", str(hostfile)]
    engine = [] if "--engine" in arguments else ["--engine", "mpi"]
    return [*command, sys.executable, "-m", "ddol", *arguments, *engine]


def variables(present: Mapping[str, str], token: str) -> dict[str, str]:
    """Return the environment of a job: as it is, fit for root, and with the mark of its exit code."""
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return {**root, **present, EXIT_MARK: token}


@contextmanager
def _forwarding(job: subprocess.Popen[Any]) -> Iterator[list[int]]:
    """Pass SIGINT and SIGTERM on to the job; yields those that came."""
    caught: list[int] = []

    def forward(number: int, frame: FrameType | None) -> None:
        caught.append(number)
        # A second signal does not wait for anything to be saved.
        job.send_signal(number if len(caught) == 1 else signal.SIGKILL)

    able = threading.current_thread() is threading.main_thread()
    numbers = [signal.SIGINT, signal.SIGTERM] if able else []
    before = {number: signal.signal(number, forward) for number in numbers}
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Listener(threading.Thread):
    """Prints the job's standard error.

    ``code``: the exit code that it told at its end, and ``ended_at``, when; ``stopped``: whether it told of
    a signal.
    """

    def __init__(self, lines: IO[str], token: str) -> None:
        super().__init__(daemon=True)
        self.lines, self.token = lines, token
        self.stopped = False
        self.code: int | None = None
        self.ended_at = 0.0

    def run(self) -> None:
        """Read to the end."""
        last = ""
        for line in quiet(self.lines):
            if line.startswith(self.token):
                if self.code is None:  # the others fail because one has
                    self.ended_at = time.monotonic()
                    self.code = int(line.split()[1])
            elif line != last or not line.startswith("ddol: "):  # ranks often fail alike
                last = line
                self.stopped = self.stopped or line.startswith("stopped by")
                sys.stderr.write(line)
                sys.stderr.flush()


def _stopped(number: int, n: int, arguments: Sequence[str]) -> str:
    """The job's message about a signal, which mpiexec no longer passes on."""
    return f"stopped by {signal.Signals(number).name}; {_advice(n, arguments)}"


def _advice(n: int, arguments: Sequence[str]) -> str:
    """Advice on how to resume after an early end."""
    if "--checkpoint" not in arguments:
        return "nothing was written; use --checkpoint DIR to be able to go on"
    again = [word for word in arguments if word != "--resume"]
    return f"go on with: {shlex.join(['ddol', 'launch', '-n', str(n), *again, '--resume'])}"


def quiet(lines: Iterable[str]) -> Iterator[str]:
    """Leave out mpiexec's boxes between lines of dashes that say nothing new.

    Examples
    --------
    >>> list(quiet(["ddol: bad line\\n", "-" * 74, "MPI_ABORT was invoked", "-" * 74]))
    ['ddol: bad line\\n']
    """
    box: list[str] | None = None
    for said in lines:
        line = said.replace("\0", "")  # mpiexec ends its boxes with one
        if not line:
            continue
        edge = len(line) > 60 and not line.strip("-\n")
        if box is None and not edge:
            if not any(noise in line for noise in _NOISY_LINES):
                yield line
        elif box is None:
            box = [line]
        else:
            box.append(line)
            if edge:
                yield from _news(box)
                box = None
    yield from _news(box or [])


def _news(box: list[str]) -> list[str]:
    return [] if any(noise in line for noise in _NOISE for line in box) else box
