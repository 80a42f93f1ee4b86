"""Envelopes around messages: encrypted and signed by an identity, or none, for nodes of one machine."""

from __future__ import annotations

import logging
import time
from collections import Counter
from typing import TYPE_CHECKING, Protocol

from ddol.node.errors import worth_telling

if TYPE_CHECKING:
    from ddol.node.identity.envelope import RefusedError
    from ddol.node.identity.member import Identity

_log = logging.getLogger("ddol.node")
_RATE, _BURST, _MOST_SENDERS = 20.0, 100.0, 10_000
"""Messages a second of one member on one topic, each of up to a megabyte, and how many at once."""


class Limits:
    """How much each sender may say; decided before anything is decoded or verified.

    Examples
    --------
    >>> limits = Limits()
    >>> sum(limits.allow("eu", "m/weights", 1000) for _ in range(1000)) < 200
    True
    """

    def __init__(self) -> None:
        self._left: dict[tuple[str, str], tuple[float, float]] = {}

    def allow(self, name: str, topic: str, size: int) -> bool:
        """Whether a name may say so many bytes more on a topic now."""
        who, now = (name, topic), time.monotonic()
        left, before = self._left.get(who, (_BURST, now))
        left, cost = min(_BURST, left + _RATE * (now - before)), max(1.0, size / 2**20)
        if len(self._left) > _MOST_SENDERS:
            self._left.clear()  # without identities names can be made up
        self._left[who] = left - cost if left >= cost else left, now
        return left >= cost


class Seals(Protocol):
    """How what is sent is sealed, and what comes is proved."""

    root: str
    """Under which all keys are."""
    refused: Counter[tuple[str, str]]
    """Envelopes refused, by (sender, reason)."""

    def seal(self, topic: str, blob: bytes) -> bytes:
        """An envelope around a message."""

    def open(self, topic: str, name: str, data: bytes) -> tuple[str | None, bytes] | None:
        """The proved sender and the message; None where it is refused."""

    def knows(self, name: str) -> bool:
        """Whether there can be a node of this name."""


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
        self.refused: Counter[tuple[str, str]] = Counter()
        self._limits = Limits()

    def seal(self, topic: str, blob: bytes) -> bytes:
        """The message as it is."""
        return blob

    def open(self, topic: str, name: str, data: bytes) -> tuple[str | None, bytes] | None:
        """The name that the key says, and the message as it is."""
        if not self._limits.allow(name, topic, len(data)):
            self.refused[name, "too many"] += 1
            return None
        return name, data

    def knows(self, name: str) -> bool:
        """All names are."""
        return True


class SignedSeals:
    """Messages that a member encrypts for the others and signs, and that it opens of the others.

    Parameters
    ----------
    identity : Identity
    """

    def __init__(self, identity: Identity) -> None:
        from ddol.node.identity.access import network_key
        from ddol.node.identity.envelope import Opener, Sealer

        self.identity, self.root = identity, network_key(identity.network)
        self.sealer, self._opener = Sealer(identity), Opener(identity)
        self.refused: Counter[tuple[str, str]] = self._opener.refused
        self._limits = Limits()
        self._newest: dict[tuple[str, str], bytes] = {}
        """Signatures of the newest messages: caches deliver these again, which is no attack."""

    def seal(self, topic: str, blob: bytes) -> bytes:
        """An encrypted message in a signed envelope."""
        return self.sealer.seal(topic, self.identity.encrypt(topic, blob))

    def open(self, topic: str, name: str, data: bytes) -> tuple[str | None, bytes] | None:
        """The sender that the signature proves, and the message; `name` is whose key it came by."""
        from ddol.node.identity.envelope import RefusedError

        try:
            if self._newest.get((name, topic)) == data[-64:]:
                return None
            return name, self._opened(topic, name, data)
        except RefusedError as error:
            self._tell(error)
            return None

    def _opened(self, topic: str, name: str, data: bytes) -> bytes:
        from ddol.node.identity.envelope import STRANGER

        if not self.within_limit(name, topic, len(data)):
            who = name if self.knows(name) else STRANGER  # a relay can make up any number of names
            raise self._refused("too many", who, f"more than {_RATE:g} messages or MB a second")
        opened = self._opener.open(data, topic)
        if opened.sender != name:
            raise self._refused("forged", opened.sender, f"it came as a message of {name}")
        self._newest[name, topic] = data[-64:]
        blob = self.identity.decrypt(name, topic, opened.payload)
        if blob is None:
            raise self._refused(
                "unreadable",
                name,
                "it was not encrypted for this member, which it may not know yet",
            )
        return blob

    def knows(self, name: str) -> bool:
        """Whether it is a member: a relay can claim that others are there."""
        return name in self.identity.roster.keys

    def within_limit(self, name: str, topic: str, size: int) -> bool:
        """Whether a name may say more now; all unknown names together are one."""
        return self._limits.allow(name if self.knows(name) else "", topic, size)

    def _refused(self, reason: str, sender: str, text: str) -> RefusedError:
        from ddol.node.identity.envelope import RefusedError

        self.refused[sender, reason] += 1
        return RefusedError(reason, sender, text)

    def _tell(self, error: RefusedError) -> None:
        count = self.refused[error.sender, error.reason]
        if worth_telling(count):
            _log.warning("%s%s", error, f" ({count:,} times so far)" if count > 1 else "")
