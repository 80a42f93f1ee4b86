"""Ports that are free, for servers of tests."""

from __future__ import annotations

import socket


def free_ports(n):
    """So many ports of the loopback address."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(n)]
    ports = [each.getsockname()[1] for each in held]
    for each in held:
        each.close()
    return ports
