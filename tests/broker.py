"""A broker of MQTT, for tests."""

from __future__ import annotations

import asyncio
import contextlib
import threading

import pytest

from ports import free_ports

pytest.importorskip("paho.mqtt.client")
broker_module = pytest.importorskip("amqtt.broker")
from amqtt.plugins.base import BaseAuthPlugin  # noqa: E402


class Everyone(BaseAuthPlugin):
    """Lets all clients in by name: the broker forgets sessions of anonymous ones."""

    async def authenticate(self, *, session):
        return True


@contextlib.contextmanager
def mqtt_broker():
    """The address of a broker that runs in a thread."""
    [port] = free_ports(1)
    ready, ended = threading.Event(), threading.Event()
    settings = {
        "listeners": {"default": {"type": "tcp", "bind": f"127.0.0.1:{port}"}},
        "plugins": {"broker.Everyone": {}},
    }

    async def serve():
        broker = broker_module.Broker(settings)
        await broker.start()
        ready.set()
        while not ended.is_set():
            await asyncio.sleep(0.02)
        await broker.shutdown()

    thread = threading.Thread(target=asyncio.new_event_loop().run_until_complete, args=(serve(),))
    thread.start()
    try:
        assert ready.wait(20.0)
        yield f"mqtt://127.0.0.1:{port}"
    finally:
        ended.set()
        thread.join(10.0)
