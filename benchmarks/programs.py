"""Other processes: what they take and what they say."""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

from benchmarks.contest import Outcome, memory

_SECONDS = 0.01


def call(command: Sequence[str | Path | int]) -> tuple[Outcome, str]:
    """Run a command to its end: most memory that it held, and what it wrote.

    Raises
    ------
    RuntimeError
        With the last lines of what it wrote, if it fails.
    """
    words = [str(part) for part in command]
    with tempfile.TemporaryFile() as written:
        process = subprocess.Popen(
            words, stdout=written, stderr=subprocess.STDOUT, env=_environment()
        )
        held = _Held(process.pid)
        held.start()
        process.wait()
        held.ended.set()
        written.seek(0)
        said = written.read().decode(errors="replace")
    if process.returncode:
        last = "\n".join(said.splitlines()[-5:])
        raise RuntimeError(f"{' '.join(words)} ended with {process.returncode}:\n{last}")
    held.join()
    return Outcome(memory=held.bytes), said


def _environment() -> dict[str, str]:
    """Everybody's modules are read as byte code, as they are on a user's machine."""
    return {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}


class _Held(threading.Thread):
    """Looks at the memory of a process now and then.

    What the system reports at the end includes the moment before the program was loaded, when the
    process was still a copy of this one.
    """

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.pid, self.bytes, self.ended = pid, 0, threading.Event()

    def run(self) -> None:
        while not self.ended.wait(_SECONDS):
            self.bytes = max(self.bytes, memory("VmHWM", self.pid))
