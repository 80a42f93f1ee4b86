"""Waiting for a state, never for a time: limits are there to end what hangs, on the busiest machine."""

from __future__ import annotations

import time
from collections.abc import Callable

LONG = 300.0
"""Seconds after which something hangs, however busy the machine is and however much it had to compile."""


def wait_until(true: Callable[[], object], seconds: float = LONG) -> bool:
    """Whether something has become true."""
    end = time.monotonic() + seconds
    while not (found := true()) and time.monotonic() < end:
        time.sleep(0.02)
    return bool(found)
