"""Messages within one process: for tests, and for examples."""

from __future__ import annotations

import threading
from collections import defaultdict
from dataclasses import dataclass, field

from ddol.node.transport.meeting import Hear, Meet


@dataclass
class MeetingPlace:
    """Where transports of one process meet."""

    newest: dict[str, dict[str, bytes]] = field(default_factory=lambda: defaultdict(dict))
    hearers: dict[str, list[tuple[str, Hear]]] = field(default_factory=lambda: defaultdict(list))
    living: dict[str, dict[str, Meet]] = field(default_factory=lambda: defaultdict(dict))
    lock: threading.RLock = field(default_factory=threading.RLock)


class MemoryTransport:
    """A transport whose messages arrive before `put` returns.

    Examples
    --------
    >>> meeting = MemoryTransport.meeting()
    >>> one, two = MemoryTransport("one", meeting), MemoryTransport("two", meeting)
    >>> one.put("m/weights", b"early")
    >>> two.subscribe("m/weights", lambda sender, blob: print(sender, blob))
    one b'early'
    >>> one.put("m/weights", b"late")
    one b'late'
    """

    def __init__(self, name: str, meeting: MeetingPlace) -> None:
        self.name, self.place = name, meeting
        self.refused: dict[tuple[str, str], int] = {}

    @staticmethod
    def meeting() -> MeetingPlace:
        """A new place to meet."""
        return MeetingPlace()

    def put(self, topic: str, blob: bytes) -> None:
        """Send a message."""
        with self.place.lock:
            self.place.newest[topic][self.name] = blob
            for name, hear in self.place.hearers[topic]:
                if name != self.name:
                    hear(self.name, blob)

    def get(self, topic: str) -> dict[str, bytes]:
        """The newest message of every sender."""
        return dict(self.place.newest[topic])

    def subscribe(self, topic: str, hear: Hear) -> None:
        """Hear messages of others."""
        with self.place.lock:
            self.place.hearers[topic].append((self.name, hear))
            for sender, blob in self.place.newest[topic].items():
                if sender != self.name:
                    hear(sender, blob)

    def alive(self, topic: str, meet: Meet) -> None:
        """Be seen, and see others."""
        with self.place.lock:
            others = self.place.living[topic]
            for name, other in list(others.items()):
                other(self.name, True)
                meet(name, True)
            others[self.name] = meet

    def close(self) -> None:
        """Leave."""
        with self.place.lock:
            for topic, hearers in self.place.hearers.items():
                self.place.hearers[topic] = [h for h in hearers if h[0] != self.name]
            for living in self.place.living.values():
                if living.pop(self.name, None) is not None:
                    for other in living.values():
                        other(self.name, False)
