"""The identity of a member: a folder with its key, its certificate, the authority's, and the roster."""

from __future__ import annotations

import threading
import time
from datetime import datetime, timedelta
from pathlib import Path

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding

from ddol.node.identity import certificates as crt
from ddol.node.identity import sealing
from ddol.node.identity.letters import (
    Invitation,
    JoinAnswer,
    JoinRequest,
    is_folder,
    vouch,
    voucher_key,
)
from ddol.node.identity.private import held, private_folder, read_private, write_private
from ddol.node.identity.roster import MOST_BYTES, Roster, read_roster
from ddol.node.identity.signed import sign
from ddol.streams.errors import DataError

KEY, CERTIFICATE, AUTHORITY, ROSTER = "member.key", "member.pem", "authority.pem", "roster"
SEALING = "sealing.key"
SETTINGS, SEEN = "settings.json", "seen.json"


class Settings(msgspec.Struct):
    """What a folder remembers beside key and certificates; the secret until it has joined."""

    network: bytes
    name: str
    role: str
    address: str
    secret: bytes = b""


def ask_to_join(invitation: Invitation, folder: Path) -> JoinRequest:
    """Make keys in a folder of the site's own, and the request to sign them; again, the same keys."""
    if (folder / CERTIFICATE).exists():
        raise DataError(f"{folder}: there is an identity already; choose another --folder")
    private_folder(folder)
    with held(folder):
        if not (folder / KEY).exists():
            crt.save_key(folder / KEY, Ed25519PrivateKey.generate())
        if not (folder / SEALING).exists():
            crt.save_key(folder / SEALING, X25519PrivateKey.generate())
        asked = Settings(
            invitation.network,
            crt.checked_name(invitation.name),
            invitation.role,
            invitation.address,
            invitation.secret,
        )
        write_private(folder / SETTINGS, msgspec.json.encode(asked))
    return _request(folder, asked)


def _request(folder: Path, asked: Settings) -> JoinRequest:
    key = crt.load_key(folder / KEY)
    own = crt.load_key(folder / SEALING, X25519PrivateKey).public_key().public_bytes_raw()
    request = crt.signing_request(key, asked.name)
    voucher = vouch(voucher_key(asked.secret), asked.name, request) if asked.secret else b""
    return JoinRequest(asked.name, request, voucher, sign(key, "sealing", own))


def is_answered_by(folder: Path, answer: JoinAnswer) -> bool:
    """Whether the request of this folder waits for this answer."""
    try:
        own = crt.load_key(folder / KEY).public_key()
        signed = x509.load_der_x509_certificate(answer.certificate).public_key() == own
    except crt.DAMAGED:
        return False
    return signed and not (folder / CERTIFICATE).exists()


def take_answer(folder: Path, answer: JoinAnswer) -> Identity:
    """Check the authority's answer against the invitation and the key, and keep it."""
    asked = _settings(folder)
    try:
        authority = x509.load_der_x509_certificate(answer.authority)
        certificate = x509.load_der_x509_certificate(answer.certificate)
        named = crt.subject_of(certificate)
    except crt.DAMAGED:
        raise DataError("the answer has no valid certificates; ask for it again") from None
    if crt.fingerprint(authority) != asked.network:
        raise DataError(
            "the answer comes from another authority than the invitation; do not use it"
        )
    if not crt.issued_by(certificate, authority) or named[0] != asked.name:
        raise DataError(f"the answer's certificate is not one of this authority for {asked.name!r}")
    key = certificate.public_key()
    assert isinstance(key, Ed25519PublicKey)
    if crt.key_digest(key) != crt.key_digest(crt.load_key(folder / KEY).public_key()):
        raise DataError("the answer is for another key than the one in this folder")
    with held(folder):
        write_private(folder / AUTHORITY, authority.public_bytes(Encoding.PEM))
        write_private(folder / CERTIFICATE, certificate.public_bytes(Encoding.PEM))
        if not (folder / ROSTER).exists():
            write_private(folder / ROSTER, answer.roster)
        asked.secret, asked.role = b"", named[1]
        asked.address = answer.address or asked.address
        write_private(folder / SETTINGS, msgspec.json.encode(asked))
    identity = Identity(folder)
    identity.hear_roster(answer.roster)
    return identity


def _settings(folder: Path) -> Settings:
    path = folder / SETTINGS
    try:
        return msgspec.json.decode(read_private(path), type=Settings)
    except msgspec.DecodeError as error:
        raise DataError(f"{path}: damaged ({error}); join again in another folder") from None


class Identity:
    """Who a node is, and what it knows of the others. Threads may use one at once.

    Parameters
    ----------
    folder : path
        As ``ddol network join`` made it.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        if not (self.folder / CERTIFICATE).exists():
            raise DataError(
                f"{folder}: there is no identity in this folder; make one with: ddol network join INVITATION "
                f"--folder {folder}"
            )
        private_folder(self.folder)
        self.key = crt.load_key(self.folder / KEY)
        self._sealing = crt.load_key(self.folder / SEALING, X25519PrivateKey)
        self.authority = crt.load_certificate(self.folder / AUTHORITY)
        self.settings = _settings(self.folder)
        if crt.fingerprint(self.authority) != self.settings.network:
            raise DataError(f"{self.folder / AUTHORITY}: not the authority that this site joined")
        self._lock = threading.Lock()
        self.version = 0
        """Rises whenever the certificate or the roster changes: sessions are to be opened anew."""
        self._heard: dict[str, int] = {}
        self._load_certificate()
        self._roster_bytes, self.roster, self._roster_time = b"", self._no_roster(), 0
        self.look_for_roster()

    def _no_roster(self) -> Roster:
        return Roster(self.network.hex(), 0, 0, {}, {})

    def _load_certificate(self) -> None:
        path = self.folder / CERTIFICATE
        self.certificate = crt.load_certificate(path)
        own = self.certificate.public_key()
        if not crt.issued_by(self.certificate, self.authority):
            raise DataError(f"{path}: this authority did not sign it; join again")
        assert isinstance(own, Ed25519PublicKey)
        if crt.key_digest(own) != crt.key_digest(self.key.public_key()):
            raise DataError(
                f"{path}: it belongs to another key than {self.folder / KEY}; join again"
            )
        self.der = self.certificate.public_bytes(Encoding.DER)
        self.name, self.role = crt.subject_of(self.certificate)

    @property
    def network(self) -> bytes:
        """Fingerprint of the authority's certificate: the network's identifier."""
        return self.settings.network

    @property
    def authority_key(self) -> Ed25519PublicKey:
        """The key that signs certificates and rosters."""
        key = self.authority.public_key()
        assert isinstance(key, Ed25519PublicKey)
        return key

    @property
    def expires(self) -> datetime:
        """When the certificate expires."""
        return self.certificate.not_valid_after_utc

    @property
    def is_revoked(self) -> bool:
        """Whether the authority has revoked this very identity."""
        return crt.key_digest(self.key.public_key()) in self.roster.revoked

    # --- messages that only members can read -----------------------------------------------------------

    def encrypt(self, topic: str, blob: bytes) -> bytes:
        """A message for all other members of now."""
        others = {name: key for name, key in self.roster.keys.items() if name != self.name}
        return sealing.encrypt(blob, others, sealing.context(self.network, self.name, topic))

    def decrypt(self, sender: str, topic: str, data: bytes) -> bytes | None:
        """What a member has encrypted for this one, or None."""
        about = sealing.context(self.network, sender, topic)
        return sealing.decrypt(data, self.name, self._sealing, about)

    # --- the roster ----------------------------------------------------------------------------------

    @property
    def roster_bytes(self) -> bytes:
        """The newest roster, to pass on to other members."""
        return self._roster_bytes

    def hear_roster(self, data: bytes) -> bool:
        """Take a roster, from any source, if its signature is right and it is newer; whether it was taken."""
        found = read_roster(self.authority_key, self.network.hex(), data)
        with self._lock:
            if found is None or found.number <= self.roster.number:
                return False
            self.roster, self._roster_bytes = found, data
            self.version += 1
            write_private(self.folder / ROSTER, data)
            self._roster_time = (self.folder / ROSTER).stat().st_mtime_ns
        return True

    def look_for_roster(self) -> bool:
        """Take a newer roster from the folder, or the authority's on the same machine; once a second."""
        changed, places = False, [self.folder / ROSTER]
        if is_folder(self.settings.address):
            places.append(Path(self.settings.address) / ROSTER)
        for path in places:
            try:
                found = path.stat()
                own = path.parent == self.folder
                if found.st_size > MOST_BYTES or (own and found.st_mtime_ns == self._roster_time):
                    continue
                data = path.read_bytes()
                if own:
                    self._roster_time = found.st_mtime_ns
            except OSError:
                continue
            changed |= data != self._roster_bytes and self.hear_roster(data)
        return changed

    # --- renewal -------------------------------------------------------------------------------------

    def is_due(self, at: datetime | None = None) -> bool:
        """Whether less than a third of the certificate's life is left."""
        life = self.expires - self.certificate.not_valid_before_utc
        return (at or crt.now()) > self.expires - life / 3

    def renew(self) -> None:
        """Have the certificate renewed, for the same key, by the authority that can be reached."""
        from ddol.node.identity.asking import ask_authority

        answer = ask_authority(
            self.settings.address, self.network, _request(self.folder, self.settings)
        )
        take_answer(self.folder, answer)
        with self._lock:
            self._load_certificate()
            self.version += 1
        self.hear_roster(answer.roster)

    def renew_if_due(self) -> str | None:
        """Renew where it is time to; one line about it for the log. To be called daily.

        A failure is returned as a line, and the next call tries again: 30 days are left for it.
        """
        if not self.is_due():
            return None
        try:
            self.renew()
        except (OSError, ValueError) as error:
            left = max(self.expires - crt.now(), timedelta()).days
            return f"the certificate of {self.name} expires in {left} days and cannot be renewed: {error}"
        return f"the certificate of {self.name} is renewed until {self.expires:%Y-%m-%d}"

    def request_renewal(self) -> JoinRequest:
        """The request for a renewal by files."""
        return _request(self.folder, self.settings)

    # --- who was heard -------------------------------------------------------------------------------

    def saw(self, name: str) -> None:
        """Note that a member's message was accepted; kept in the folder once a minute."""
        at = int(time.time())
        with self._lock:
            before = self._heard.get(name, 0)
            self._heard[name] = at
            if at // 60 != before // 60:
                write_private(self.folder / SEEN, msgspec.json.encode(self._heard))

    def seen(self) -> dict[str, int]:
        """When each member was last heard, in seconds since 1970, as the folder says."""
        try:
            data = read_private(self.folder / SEEN)
            return msgspec.json.decode(data, type=dict[str, int])
        except (DataError, msgspec.DecodeError):
            return {}
