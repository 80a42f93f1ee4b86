"""Signed envelopes: who says what, under which number, about which algorithm and encoding.

An envelope is a frame of `signed`: the body below in MessagePack, and an Ed25519 signature over it. `Opener`
takes it apart from the outside in, and each step refuses before the next one costs anything: size, frame,
network, certificate, signature, number, digests.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from ddol.node.identity import certificates as crt
from ddol.node.identity.member import Identity
from ddol.node.identity.private import read_private, write_private
from ddol.node.identity.roster import TOPIC as ROSTER
from ddol.node.identity.roster import Roster
from ddol.node.identity.signed import UNREADABLE, Signed, sign, unpacked, verify
from ddol.streams.errors import DataError

PURPOSE = "envelope"
OVERHEAD = 4096
"""Bytes that an envelope may have beside its payload."""
REASONS = (
    "oversized", "malformed", "foreign", "forged", "expired", "revoked", "replayed", "topic",
    "algorithm", "encoding", "role", "unreadable", "too many",
)  # fmt: skip
"""Why an envelope is refused. ``replayed`` covers whatever is not newer than what was taken before, ``role``
what a relay says on its own account, ``unreadable`` what is not encrypted for this member."""
STRANGER = "(stranger)"
"""The sender under which envelopes are counted whose sender is not proved."""
_KEPT_EVERY = 1.0
"""Seconds: what a process that is killed may forget to refuse."""
_LONGEST_TOPIC = 200
_MOST_TOPICS = 1000
_MOST_CERTIFICATES = 4096


class Body(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What is signed. `number` rises with every envelope of a sender; digests are 32 bytes or none."""

    network: bytes
    sender: str
    topic: str
    number: int
    algorithm: bytes
    encoding: bytes
    certificate: bytes
    payload: bytes


_BODY = msgspec.msgpack.Decoder(Body)


class Opened(NamedTuple):
    """An envelope whose every claim is proved."""

    sender: str
    number: int
    payload: bytes


class Circle(Protocol):
    """Whose envelopes are opened, as a member or the authority knows it."""

    @property
    def network(self) -> bytes:
        """Fingerprint of the authority's certificate."""

    @property
    def authority(self) -> x509.Certificate:
        """The certificate that signs members'."""

    @property
    def roster(self) -> Roster:
        """Who is revoked."""

    def saw(self, name: str) -> None:
        """Note that an envelope of a member was taken."""


class RefusedError(ValueError):
    """An envelope that is not taken.

    Parameters
    ----------
    reason : one of `REASONS`
    sender : str
        Whose certificate it carries, if its signature is right; else a stranger.
    text : str
        One line about it.
    """

    def __init__(self, reason: str, sender: str, text: str) -> None:
        super().__init__(f"message of {sender} refused ({reason}): {text}")
        self.reason, self.sender = reason, sender


class Sealer:
    """Signs a member's envelopes, with numbers that rise over restarts too.

    Numbers are microseconds since 1970, or one more than the last number where that is larger. An upper limit
    of those given out stands in the folder, and a restart begins there: a clock that was set back does no
    harm.
    """

    _AHEAD = 60_000_000

    def __init__(self, identity: Identity) -> None:
        self.identity = identity
        self._lock = threading.Lock()
        self._path = identity.folder / "sent"
        self._reserved = _read_number(self._path) if self._path.exists() else 0
        self._last = self._reserved

    def seal(
        self, topic: str, payload: bytes, algorithm: bytes = b"", encoding: bytes = b""
    ) -> bytes:
        """An envelope for everyone in the network."""
        me = self.identity
        body = Body(me.network, me.name, topic, self._next(), algorithm, encoding, me.der, payload)
        return sign(me.key, PURPOSE, msgspec.msgpack.encode(body))

    def _next(self) -> int:
        with self._lock:
            self._last = max(self._last + 1, _microseconds())
            if self._last >= self._reserved:
                self._reserved = self._last + self._AHEAD
                write_private(self._path, str(self._reserved).encode())
            return self._last


def _read_number(path: Path) -> int:
    text = read_private(path)
    if not text.isdigit():
        raise DataError(
            f"{path}: damaged, expected a number; remove it if this machine's clock was never set back"
        )
    return int(text)


def _microseconds() -> int:
    return time.time_ns() // 1000


class Opener:
    """Opens envelopes of other members, counts those it takes and those it refuses.

    Parameters
    ----------
    circle : Identity
    most : int
        Bytes of the largest envelope.
    topics : collection of str, optional
        Those that are taken; by default any, up to a thousand for each sender.

    Attributes
    ----------
    taken : Counter
        Envelopes taken, by sender.
    refused : Counter
        Envelopes refused, by (sender, reason).
    """

    def __init__(
        self, circle: Circle, most: int = 1 << 26, topics: Collection[str] | None = None
    ) -> None:
        self.circle, self.most = circle, most
        self.topics = None if topics is None else frozenset(topics)
        self.taken: Counter[str] = Counter()
        self.refused: Counter[tuple[str, str]] = Counter()
        self._lock = threading.Lock()
        self._known: OrderedDict[bytes, _Sender] = OrderedDict()
        self._numbers: dict[str, dict[str, int]] = {}
        folder = getattr(
            circle, "folder", None
        )  # a member's; the authority's endpoint keeps nothing
        self._path = None if folder is None else folder / "heard"
        self._kept = 0.0
        if self._path is not None and self._path.exists():
            self.restore(_read_numbers(self._path))

    def open(
        self,
        data: bytes,
        topic: str | None = None,
        algorithm: bytes | None = None,
        encoding: bytes | None = None,
    ) -> Opened:
        """The sender, the number and the payload of an envelope, or `RefusedError`.

        Parameters
        ----------
        data : bytes
        topic, algorithm, encoding : optional
            What it must be about; not checked where not given.
        """
        with self._lock:
            try:
                body, sender = self._proved(data)
                self._check_wanted(body, topic, algorithm, encoding)
                self._check_number(body, sender)
            except RefusedError as error:
                self.refused[error.sender, error.reason] += 1
                raise
            self.taken[sender.name] += 1
        self.circle.saw(sender.name)
        self._keep()
        return Opened(sender.name, body.number, body.payload)

    def _proved(self, data: bytes) -> tuple[Body, _Sender]:
        if len(data) > self.most:
            raise RefusedError(
                "oversized", STRANGER, f"{len(data)} bytes, expected at most {self.most}"
            )
        frame = unpacked(data)
        try:
            body = _BODY.decode(frame.body) if frame is not None else None
        except UNREADABLE:
            body = None
        if frame is None or body is None:
            raise RefusedError("malformed", STRANGER, "it is no envelope")
        if body.network != self.circle.network:
            raise RefusedError("foreign", STRANGER, "it is of another network")
        sender = self._sender(body, frame)
        at = datetime.now(UTC)
        if sender.digest in self.circle.roster.revoked:
            raise RefusedError("revoked", sender.name, "its certificate has been revoked")
        if not sender.begins <= at <= sender.ends:
            raise RefusedError(
                "expired",
                sender.name,
                f"its certificate is valid from {sender.begins:%Y-%m-%d %H:%M} to "
                f"{sender.ends:%Y-%m-%d %H:%M} UTC, here it is {at:%Y-%m-%d %H:%M}",
            )
        if sender.role != crt.MEMBER and body.topic != ROSTER:
            raise RefusedError("role", sender.name, f"found a {sender.role}, expected a member")
        return body, sender

    def _sender(self, body: Body, frame: Signed) -> _Sender:
        """The owner of the certificate, whose key signed this envelope."""
        sender = self._known.get(body.certificate)
        if sender is None:
            sender = _sender_of(body.certificate, self.circle.authority)
        if sender is None or sender.name != body.sender or not verify(sender.key, PURPOSE, frame):
            raise RefusedError("forged", STRANGER, "its signature or certificate is not right")
        self._known[body.certificate] = (
            sender  # only of those who have proved that they have the key
        )
        if len(self._known) > _MOST_CERTIFICATES:
            self._known.popitem(last=False)
        return sender

    def _check_wanted(
        self, body: Body, topic: str | None, algorithm: bytes | None, encoding: bytes | None
    ) -> None:
        known = self.topics is None or body.topic in self.topics
        if not known or (topic is not None and body.topic != topic):
            shown = body.topic[:_LONGEST_TOPIC]
            raise RefusedError("topic", body.sender, f"found {shown!r}, expected {topic!r}")
        for name, found, wanted in (
            ("algorithm", body.algorithm, algorithm),
            ("encoding", body.encoding, encoding),
        ):
            if wanted is not None and found != wanted:
                raise RefusedError(
                    name,
                    body.sender,
                    f"its {name} is {found[:6].hex() or 'none'}, here it is {wanted[:6].hex()}; "
                    f"both sites must have the same {name}",
                )

    def _check_number(self, body: Body, sender: _Sender) -> None:
        numbers = self._numbers.setdefault(sender.digest, {})
        before = numbers.get(body.topic, -1)
        if body.number <= before:
            raise RefusedError(
                "replayed", sender.name, f"number {body.number} is not after {before}"
            )
        if len(body.topic) > _LONGEST_TOPIC or (before < 0 and len(numbers) >= _MOST_TOPICS):
            raise RefusedError("topic", sender.name, "too many topics, or one that is too long")
        numbers[body.topic] = body.number

    # --- over restarts -------------------------------------------------------------------------------

    def state(self) -> dict[str, dict[str, int]]:
        """The newest number of every key and topic: what a restart must remember to refuse replays."""
        with self._lock:
            return {key: dict(numbers) for key, numbers in self._numbers.items()}

    def _keep(self) -> None:
        """Write the newest numbers to the identity's folder, once a second at most."""
        if self._path is not None and time.monotonic() - self._kept > _KEPT_EVERY:
            self._kept = time.monotonic()
            write_private(self._path, msgspec.json.encode(self.state()))

    def restore(self, state: dict[str, dict[str, int]]) -> None:
        """Go on from the numbers that `state` gave."""
        with self._lock:
            for key, numbers in state.items():
                own = self._numbers.setdefault(key, {})
                for topic, number in numbers.items():
                    own[topic] = max(int(number), own.get(topic, -1))


def _read_numbers(path: Path) -> dict[str, dict[str, int]]:
    try:
        return msgspec.json.decode(read_private(path), type=dict[str, dict[str, int]])
    except msgspec.MsgspecError as error:
        raise DataError(
            f"{path}: damaged ({error}); remove it to take the next messages, old or not"
        ) from None


class _Sender(NamedTuple):
    """What is checked once of a certificate, and what is looked at for every envelope."""

    name: str
    role: str
    key: Ed25519PublicKey
    digest: str
    begins: datetime
    ends: datetime


def _sender_of(der: bytes, authority: x509.Certificate) -> _Sender | None:
    """The owner of a certificate that the authority signed, or None."""
    try:
        certificate = x509.load_der_x509_certificate(der)
        if not crt.issued_by(certificate, authority):
            return None
        name, role = crt.subject_of(certificate)
    except crt.DAMAGED:
        return None
    key = certificate.public_key()
    assert isinstance(key, Ed25519PublicKey)
    begins, ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return _Sender(name, role, key, crt.key_digest(key), begins, ends)
