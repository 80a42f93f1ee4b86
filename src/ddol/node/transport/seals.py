"""Envelopes around messages: signed by an identity, or none, for nodes of one machine."""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ddol.node.identity.member import Identity

_log = logging.getLogger("ddol.node")


class Seals(Protocol):
    """How what is sent is signed, and what comes is proved."""

    root: str
    """Under which all keys are."""
    refused: Counter
    """Envelopes refused, by (sender, reason)."""

    def seal(self, topic: str, blob: bytes) -> bytes:
        """An envelope around a message."""

    def open(self, topic: str, name: str, data: bytes) -> tuple[str | None, bytes] | None:
        """The proved sender and the message; None where it is refused."""


class NoSeals:
    """Nothing is signed: for loopback addresses.

    Examples
    --------
    >>> seals = NoSeals()
    >>> seals.open("m/weights", "eu", seals.seal("m/weights", b"numbers"))
    ('eu', b'numbers')
    """

    def __init__(self, root: str = "ddol/local") -> None:
        self.root = root
        self.refused: Counter = Counter()

    def seal(self, topic: str, blob: bytes) -> bytes:
        """The message as it is."""
        return blob

    def open(self, topic: str, name: str, data: bytes) -> tuple[str | None, bytes] | None:
        """The name that the key says, and the message as it is."""
        return name, data


class SignedSeals:
    """Envelopes signed by a member's key, and opened with those of the others.

    Parameters
    ----------
    identity : Identity
    """

    def __init__(self, identity: Identity) -> None:
        from ddol.node.identity.access import network_key
        from ddol.node.identity.envelope import Opener, Sealer

        self.identity, self.root = identity, network_key(identity.network)
        self.sealer, self._opener = Sealer(identity), Opener(identity)
        self.refused: Counter = self._opener.refused

    def seal(self, topic: str, blob: bytes) -> bytes:
        """A signed envelope."""
        return self.sealer.seal(topic, blob)

    def open(self, topic: str, name: str, data: bytes) -> tuple[str | None, bytes] | None:
        """The sender that the signature proves, and the message."""
        from ddol.node.identity.envelope import RefusedError

        try:
            opened = self._opener.open(data, topic)
        except RefusedError as error:
            _log.warning("%s", error)
            return None
        return opened.sender, opened.payload
