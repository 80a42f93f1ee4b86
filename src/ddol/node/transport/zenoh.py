"""Messages over Zenoh: peer to peer, or through relays for nodes that can only connect outwards."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from ddol.node.errors import NodeError
from ddol.node.transport.meeting import Hear, Meet
from ddol.node.transport.seals import Seals

_log = logging.getLogger("ddol.node")
_RING, _PAUSE = 1000, 0.005
"""Messages that wait to be handed on, and seconds between two times."""


def mode_of(listen: Sequence[str], connect: Sequence[str]) -> str:
    """A node that can only connect outwards is a client of its relay, which passes on what others say.

    Examples
    --------
    >>> mode_of([], ["tcp/127.0.0.1:7000"]), mode_of(["tcp/127.0.0.1:7001"], [])
    ('client', 'peer')
    """
    return "client" if connect and not listen else "peer"


def plain_settings(
    listen: Sequence[str], connect: Sequence[str], mode: str | None = None
) -> dict[str, Any]:
    """A session without identities, for loopback addresses."""
    return {
        "mode": mode or mode_of(listen, connect),
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
    config.insert_json5("connect/exit_on_failure", "false")
    config.insert_json5("connect/timeout_ms", "-1")  # who is away is tried again, for ever
    for name, value in settings.items():
        config.insert_json5(name, json.dumps(value))
    try:
        return zenoh.open(config)
    except zenoh.ZError as error:
        where = ", ".join(map(str, settings["listen/endpoints"])) or "no address"
        reason = str(error).split(" at ")[0]
        raise NodeError(f"[network] cannot listen at {where} ({reason})") from None


class ZenohTransport:
    """A transport over one session of Zenoh, which may be opened anew.

    Parameters
    ----------
    name : str
    settings : dict
        Of `plain_settings`, or of an identity (`ddol.node.identity.access.zenoh_settings`).
    seals : Seals
        Signs what is sent and proves what comes.
    """

    def __init__(self, name: str, settings: dict[str, Any], seals: Seals) -> None:
        self.name, self.seals, self.refused = name, seals, seals.refused
        self._publishers: dict[str, Any] = {}
        self._kept: list[Any] = []
        self._newest: dict[str, dict[str, bytes]] = {}
        self._declared: list[Callable[[], None]] = []
        self._last: dict[str, Callable[[], bytes]] = {}
        self._lock = threading.RLock()
        self.session = open_session(settings)

    def reopen(self, settings: dict[str, Any]) -> None:
        """Go on with a new session, where members or certificates have changed."""
        with self._lock:
            self.session.close()
            self._publishers.clear()
            self._kept.clear()
            self.session = open_session(settings)
            for declare in self._declared:
                declare()
            for key, sealed in self._last.items():
                self._publisher(key).put(sealed())  # for the members of now

    def _key(self, name: str, topic: str) -> str:
        return f"{self.seals.root}/{name}/{topic}"

    def put(self, topic: str, blob: bytes) -> None:
        """Send a message; the newest is kept for who comes later."""
        self._say(self._key(self.name, topic), lambda: self.seals.seal(topic, blob))

    def say(self, key: str, data: bytes) -> None:
        """Send bytes as they are."""
        self._say(key, lambda: data)

    def _say(self, key: str, sealed: Callable[[], bytes]) -> None:
        import zenoh

        with (
            self._lock
        ):  # a session that is reopened seals the last message again, with a later number
            self._last[key] = sealed
            data, publisher, session = sealed(), self._publisher(key), self.session
        try:
            publisher.put(data)
        except zenoh.ZError:
            if session is self.session:
                raise  # else the new session has sent it

    def _publisher(self, key: str) -> Any:
        import zenoh
        from zenoh import ext

        if key not in self._publishers:
            self._publishers[key] = ext.declare_advanced_publisher(
                self.session,
                key,
                cache=ext.CacheConfig(max_samples=1),
                publisher_detection=True,
                # The default drops large messages where the way is narrow.
                congestion_control=zenoh.CongestionControl.BLOCK,
            )
        return self._publishers[key]

    def get(self, topic: str) -> dict[str, bytes]:
        """The newest message of every sender that was heard here."""
        with self._lock:
            return dict(self._newest.get(topic, {}))

    def subscribe(self, topic: str, hear: Hear) -> None:
        """Hear messages of others."""
        self.listen(self._key("*", topic), lambda key, data: self._take(topic, key, data, hear))

    def listen(self, key: str, hear: Callable[[str, bytes], None]) -> None:
        """Hear bytes as they are, with their keys."""
        from zenoh import ext, handlers

        def declare() -> None:
            history = ext.HistoryConfig(detect_late_publishers=True, max_samples=1)
            ring: Any = handlers.RingChannel(_RING)
            found = ext.declare_advanced_subscriber(self.session, key, ring, history=history)
            self._kept.append(found)
            threading.Thread(target=_hand_on, args=(found, hear), daemon=True).start()

        self._declare(declare)

    def _declare(self, declare: Callable[[], None]) -> None:
        with self._lock:
            self._declared.append(declare)
        declare()

    def _take(self, topic: str, key: str, data: bytes, hear: Hear) -> None:
        name = _name_in(key, self.seals.root)
        if name == self.name:
            return
        opened = self.seals.open(topic, name, data)
        if opened is None:
            return
        sender, blob = opened
        with self._lock:
            self._newest.setdefault(topic, {})[name] = blob
        hear(sender, blob)

    def alive(self, topic: str, meet: Meet) -> None:
        """Be seen, and see others come and go."""
        import zenoh

        there: set[str] = set()

        def seen(sample: Any) -> None:
            name = _name_in(str(sample.key_expr), self.seals.root)
            come = sample.kind == zenoh.SampleKind.PUT
            if name == self.name or (come and not self.seals.knows(name)):
                return
            (there.add if come else there.discard)(name)
            meet(name, come)

        def declare() -> None:
            for name in sorted(there):  # a new session hears of those who are still there
                meet(name, False)
            there.clear()
            liveliness = self.session.liveliness()
            self._kept.append(liveliness.declare_token(self._key(self.name, topic)))
            everyone = self._key("*", topic)
            self._kept.append(liveliness.declare_subscriber(everyone, seen, history=True))

        self._declare(declare)

    def close(self) -> None:
        """Leave."""
        with self._lock:
            self.session.close()


def _hand_on(subscriber: Any, hear: Callable[[str, bytes], None]) -> None:
    """Hand on the newest message of every key, at a bounded rate: a flood delays no prediction."""
    import zenoh

    while True:
        try:
            sample = subscriber.recv()
            newest: dict[str, Any] = {}
            while sample is not None and len(newest) < _RING:
                newest[str(sample.key_expr)] = sample
                sample = subscriber.try_recv()
        except zenoh.ZError:  # the session is closed
            return
        for key, sample in newest.items():
            try:
                hear(key, sample.payload.to_bytes())
            except Exception:
                _log.exception("a message could not be taken")
        time.sleep(_PAUSE)


def _name_in(key: str, root: str) -> str:
    """Whose a key is."""
    return key.removeprefix(f"{root}/").partition("/")[0]
