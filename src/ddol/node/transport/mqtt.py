"""Messages over an MQTT broker."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from ddol.node.transport.broker import mqtt_client
from ddol.node.transport.meeting import Hear, Meet
from ddol.node.transport.seals import Seals

_log = logging.getLogger("ddol.node")
_THERE, _GONE = b"1", b""


class MqttTransport:
    """A transport over a broker, which keeps the newest message of every sender.

    Who is there is a kept message, too; the broker takes it back when a connection breaks, so one connection
    can say so of one topic.

    Parameters
    ----------
    name : str
    address : str
        ``mqtt://host:port``; only a loopback address goes without an identity.
    seals : Seals
    """

    def __init__(self, name: str, address: str, seals: Seals) -> None:
        self._client, self._where = mqtt_client(address, f"ddol-{name}")
        self.name, self.seals, self.refused = name, seals, seals.refused
        self._newest: dict[str, dict[str, bytes]] = {}
        self._hearers: dict[str, Hear] = {}
        self._last: dict[str, bytes] = {}
        self._meeters: dict[str, Meet] = {}
        self._announced: set[tuple[str, str]] = set()
        self._listeners: dict[str, Callable[[bytes], None]] = {}
        self._client.on_connect, self._client.on_message = self._connected, self._came
        self._seen, self._sealing = threading.Event(), threading.Lock()
        self._begun = False

    def _begin(self) -> None:
        """Connect when the last will is known; a broker that is down is tried again."""
        if self._begun:
            return
        self._begun = True
        self._client.connect_async(*self._where, keepalive=10)
        self._client.reconnect_delay_set(max_delay=10)
        self._client.loop_start()
        if not self._seen.wait(5.0):
            _log.warning("mqtt://%s:%d is not reached yet; it is tried again", *self._where)

    def _key(self, name: str, topic: str) -> str:
        return f"{self.seals.root}/{name}/{topic}"

    def _connected(self, client: Any, *_: Any) -> None:
        for topic in {*self._hearers, *self._meeters}:
            client.subscribe(self._key("+", topic), qos=1)
        for topic in self._meeters:
            client.publish(self._key(self.name, topic), _THERE, qos=1, retain=True)
        for key in self._listeners:
            client.subscribe(key, qos=1)
        for topic in list(self._last):
            self._say(topic)
        self._seen.set()

    def _came(self, client: Any, _: Any, message: Any) -> None:
        if message.topic in self._listeners:
            self._listeners[message.topic](message.payload)
            return
        name, _, topic = message.topic.removeprefix(f"{self.seals.root}/").partition("/")
        if name == self.name or not self.seals.knows(name):
            return
        if topic in self._meeters:
            self._announced.add((topic, name))
            self._meeters[topic](name, message.payload == _THERE)
        elif topic in self._hearers and message.payload:
            opened = self.seals.open(topic, name, message.payload)
            if opened is not None:
                self._newest.setdefault(topic, {})[name] = opened[1]
                self._hearers[topic](*opened)

    def put(self, topic: str, blob: bytes) -> None:
        """Send a message; the broker keeps it for who comes later."""
        self._begin()
        self._last[topic] = blob
        if self._client.is_connected():  # else it is sent when the broker is back
            self._say(topic).wait_for_publish(30.0)

    def _say(self, topic: str) -> Any:
        with self._sealing:  # an older message must not get a later number
            sealed = self.seals.seal(topic, self._last[topic])
        return self._client.publish(self._key(self.name, topic), sealed, qos=1, retain=True)

    def say(self, key: str, data: bytes) -> None:
        """Send bytes as they are."""
        self._client.publish(key, data, qos=1, retain=True)

    def listen(self, key: str, hear: Callable[[bytes], None]) -> None:
        """Hear bytes as they are."""
        self._listeners[key] = hear

    def again(self) -> None:
        """Subscribe again, and send the newest messages again, where members have changed."""
        for topic, name in list(self._announced):
            if not self.seals.knows(name):
                self._announced.discard((topic, name))
                self._meeters[topic](name, False)
        if self._client.is_connected():
            self._connected(self._client)

    def get(self, topic: str) -> dict[str, bytes]:
        """The newest message of every sender that was heard here."""
        return dict(self._newest.get(topic, {}))

    def subscribe(self, topic: str, hear: Hear) -> None:
        """Hear messages of others."""
        self._hearers[topic] = hear
        if self._begun:
            self._client.subscribe(self._key("+", topic), qos=1)

    def alive(self, topic: str, meet: Meet) -> None:
        """Be seen, and see others."""
        self._meeters[topic] = meet
        if not self._begun:
            self._client.will_set(self._key(self.name, topic), _GONE, qos=1, retain=True)
        else:
            self._connected(self._client)
        self._begin()

    def close(self) -> None:
        """Leave."""
        for topic in self._meeters:
            self._client.publish(self._key(self.name, topic), _GONE, qos=1, retain=True)
        self._client.disconnect()
        self._client.loop_stop()
