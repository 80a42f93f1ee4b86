"""End what a cluster of our own leaves behind where the driver is killed.

Ray's servers end with the process that has started them, but the agents that these start in turn wait for a
minute to tell a server that is no more.
"""

from __future__ import annotations

import subprocess
import sys

_WATCHER = """
import os, signal, sys
try:
    sys.stdin.read()
except KeyboardInterrupt:
    sys.stdin.read()
for pid in map(int, sys.argv[1:]):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            if b"ray" in file.read():
                os.kill(pid, signal.SIGKILL)
    except OSError:
        pass
"""


class Orphans:
    """A process that outlives this one by a moment, and ends the agents of Ray that are left.

    Agents are the children of this process's children. Nothing is done where the system has no ``/proc``.
    """

    def __init__(self) -> None:
        agents = _grandchildren() if sys.platform == "linux" else []
        self._watcher: subprocess.Popen[bytes] | None = None
        if agents:
            command = [sys.executable, "-S", "-c", _WATCHER, *map(str, agents)]
            self._watcher = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True
            )

    def close(self) -> None:
        """End the watcher, and agents that are left."""
        if self._watcher is not None and self._watcher.stdin is not None:
            self._watcher.stdin.close()
            self._watcher.wait()
            self._watcher = None


def _grandchildren() -> list[int]:
    import psutil  # which Ray brings

    own = psutil.Process()
    return [each.pid for each in own.children(recursive=True) if each.ppid() != own.pid]
