"""Connections that send no whole request: they are ended, or they would keep others out for ever."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import Any

SECONDS, AT_THE_END = 30.0, 3.0
"""How long a request may take to come, and how long when the server is to end."""


class IdleConnections:
    """Since when connections of uvicorn wait for the rest of a request.

    After a response uvicorn itself ends what stays silent; before the first one, and between the first and
    the last byte of a request, it waits for ever.
    """

    def __init__(self) -> None:
        self._since: dict[Any, tuple[Any, float]] = {}

    def overdue(self, connections: Iterable[Any], now: float, seconds: float) -> list[Any]:
        """Connections that have waited longer than so many seconds."""
        since = {}
        for each in connections:
            request = each.cycle
            answered = request is not None and request.response_complete
            waits = request is None or (
                each.timeout_keep_alive_task is None if answered else request.more_body
            )
            if waits:
                known = self._since.get(each)
                since[each] = known if known is not None and known[0] is request else (request, now)
        self._since = since
        return [each for each, (_, begun) in since.items() if now - begun > seconds]


async def end_idle(server: Any) -> None:
    """End such connections of a server of uvicorn, until this task is cancelled."""
    idle = IdleConnections()
    while True:
        await asyncio.sleep(1.0)
        seconds = AT_THE_END if server.should_exit else SECONDS
        connections = list(server.server_state.connections)
        for each in idle.overdue(connections, time.monotonic(), seconds):
            each.transport.abort()
