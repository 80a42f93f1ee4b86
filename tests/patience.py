"""Waiting for a state, never for a time: limits are there to end what hangs, on the busiest machine."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

LONG = 300.0
"""Seconds after which something hangs, however busy the machine is and however much it had to compile."""


def wait_until(true: Callable[[], object], seconds: float = LONG) -> bool:
    """Whether something has become true."""
    end = time.monotonic() + seconds
    while not (found := true()) and time.monotonic() < end:
        time.sleep(0.02)
    return bool(found)


def not_for_ever(process: subprocess.Popen) -> subprocess.Popen:
    """A process that is killed if it hangs: whoever reads what it says then comes to an end."""
    timer = threading.Timer(LONG, process.kill)
    timer.daemon = True
    timer.start()
    return process


def own_modules() -> str:
    """``PYTHONPATH`` for processes that run a test's file: this folder, beside what is there already."""
    return os.pathsep.join(
        [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    )
