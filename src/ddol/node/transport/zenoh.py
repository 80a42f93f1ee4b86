"""Messages over Zenoh: from peer to peer, or through relays for those who can only connect outwards."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Sequence
from typing import Any

from ddol.node.errors import NodeError
from ddol.node.transport.meeting import Hear, Meet
from ddol.node.transport.seals import Seals

_log = logging.getLogger("ddol.node")


def plain_settings(
    listen: Sequence[str], connect: Sequence[str], mode: str = "peer"
) -> dict[str, Any]:
    """A session without identities, for loopback addresses."""
    return {
        "mode": mode,
        "listen/endpoints": list(listen),
        "connect/endpoints": list(connect),
        "scouting/multicast/enabled": False,
        "transport/shared_memory/enabled": False,
    }


def open_session(settings: dict[str, Any]) -> Any:
    """A session of Zenoh with these settings."""
    try:
        import zenoh
    except ImportError:
        raise NodeError(
            "nodes talk over Zenoh; install it with: pip install 'ddol[node]'"
        ) from None
    config = zenoh.Config()
    config.insert_json5("timestamping/enabled", "true")  # what caches of newest messages need
    config.insert_json5("connect/exit_on_failure", "false")  # a peer that is away is tried again
    config.insert_json5("connect/timeout_ms", "0" if settings["mode"] != "client" else "10000")
    for name, value in settings.items():
        config.insert_json5(name, json.dumps(value))
    try:
        return zenoh.open(config)
    except zenoh.ZError as error:
        where = ", ".join(map(str, settings["listen/endpoints"])) or "no address"
        reason = str(error).split(" at ")[0]
        raise NodeError(f"[network] cannot listen at {where} ({reason})") from None


class ZenohTransport:
    """A transport over one session of Zenoh.

    Parameters
    ----------
    name : str
    settings : dict
        Of `plain_settings`, or of an identity (`ddol.node.identity.access.zenoh_settings`).
    seals : Seals
        Signs what is sent and proves what comes.
    """

    def __init__(self, name: str, settings: dict[str, Any], seals: Seals) -> None:
        self.name, self.seals = name, seals
        self.session = open_session(settings)
        self._publishers: dict[str, Any] = {}
        self._kept: list[Any] = []
        self._newest: dict[str, dict[str, bytes]] = {}
        self._lock = threading.Lock()

    def _key(self, name: str, topic: str) -> str:
        return f"{self.seals.root}/{name}/{topic}"

    def put(self, topic: str, blob: bytes) -> None:
        """Send a message; the newest is kept for who comes later."""
        import zenoh
        from zenoh import ext

        if topic not in self._publishers:
            self._publishers[topic] = ext.declare_advanced_publisher(
                self.session,
                self._key(self.name, topic),
                cache=ext.CacheConfig(max_samples=1),
                publisher_detection=True,
                # The default drops large messages where the way is narrow.
                congestion_control=zenoh.CongestionControl.BLOCK,
            )
        self._publishers[topic].put(self.seals.seal(topic, blob))

    def get(self, topic: str) -> dict[str, bytes]:
        """The newest message of every sender that was heard here."""
        with self._lock:
            return dict(self._newest.get(topic, {}))

    def subscribe(self, topic: str, hear: Hear) -> None:
        """Hear messages of others."""
        from zenoh import ext

        def heard(sample: Any) -> None:
            try:
                self._take(topic, sample, hear)
            except Exception:
                _log.exception("a message could not be taken")

        self._kept.append(
            ext.declare_advanced_subscriber(
                self.session,
                self._key("*", topic),
                heard,
                history=ext.HistoryConfig(detect_late_publishers=True, max_samples=1),
            )
        )

    def _take(self, topic: str, sample: Any, hear: Hear) -> None:
        name = _name_in(str(sample.key_expr), self.seals.root)
        if name == self.name:
            return
        opened = self.seals.open(topic, name, sample.payload.to_bytes())
        if opened is None:
            return
        sender, blob = opened
        with self._lock:
            self._newest.setdefault(topic, {})[name] = blob
        hear(sender, blob)

    def alive(self, topic: str, meet: Meet) -> None:
        """Be seen, and see others come and go."""
        import zenoh

        def seen(sample: Any) -> None:
            name = _name_in(str(sample.key_expr), self.seals.root)
            if name != self.name:
                meet(name, sample.kind == zenoh.SampleKind.PUT)

        liveliness = self.session.liveliness()
        self._kept.append(liveliness.declare_token(self._key(self.name, topic)))
        self._kept.append(liveliness.declare_subscriber(self._key("*", topic), seen, history=True))

    def close(self) -> None:
        """Leave."""
        self.session.close()


def _name_in(key: str, root: str) -> str:
    """Whose a key is."""
    return key.removeprefix(f"{root}/").partition("/")[0]


def relay(settings: dict[str, Any]) -> Any:
    """A session that passes on what others say; it hears nothing itself."""
    return open_session(settings | {"mode": "router"})
