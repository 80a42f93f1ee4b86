"""A client of an MQTT broker, for messages between nodes and for topics of examples."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote, urlsplit

from ddol.node.errors import NodeError


def mqtt_client(address: str, name: str, keeps: bool = False) -> tuple[Any, tuple[str, int]]:
    """A client of a broker, and the broker's host and port.

    Parameters
    ----------
    address : str
        ``mqtt://host:port``, or ``mqtts://`` with TLS; ``user:password@`` before the host.
    name : str
    keeps : bool
        The broker keeps messages while the client is away, and until they are acknowledged by it.
    """
    try:
        from paho.mqtt import client
    except ImportError:
        raise NodeError("MQTT needs paho-mqtt; install it with: pip install 'ddol[mqtt]'") from None
    place = urlsplit(address)
    tls = place.scheme == "mqtts"
    try:
        where = place.hostname or "127.0.0.1", place.port or (8883 if tls else 1883)
    except ValueError:
        raise NodeError(f"found {address!r}, expected mqtt://HOST:PORT") from None
    version = client.CallbackAPIVersion.VERSION2
    found = client.Client(version, client_id=name, clean_session=not keeps, manual_ack=keeps)
    if place.username:
        found.username_pw_set(unquote(place.username), unquote(place.password or ""))
    if tls:
        found.tls_set()
    return found, where
