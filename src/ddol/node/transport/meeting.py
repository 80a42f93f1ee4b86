"""The interface of transports: four calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

WEIGHTS, ALIVE = "weights", "alive"
"""Topics of a model's messages, and of who is there."""

Hear = Callable[[str | None, bytes], None]
"""Called with the sender, where an envelope proves it, and a message."""
Meet = Callable[[str, bool], None]
"""Called with a name, and whether it has come or gone."""


class Transport(Protocol):
    """Carries messages between nodes, by topic.

    A late joiner gets the newest message of every sender at once. `put` may wait where the others are slow:
    it is called by a thread of its own.
    """

    refused: Mapping[tuple[str, str], int]
    """Envelopes that were refused, by (sender, reason)."""

    def put(self, topic: str, blob: bytes) -> None:
        """Send a message to all who listen, and keep it for those who come later."""

    def get(self, topic: str) -> dict[str, bytes]:
        """The newest message of every sender, as far as it is known here."""

    def subscribe(self, topic: str, hear: Hear) -> None:
        """Call with every message of others on a topic, the newest that exist first."""

    def alive(self, topic: str, meet: Meet) -> None:
        """Be seen, and call when another one comes or goes."""

    def close(self) -> None:
        """Leave."""
