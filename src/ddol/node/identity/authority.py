"""The private authority of a network: a folder with its key, its members and its invitations."""

from __future__ import annotations

import contextlib
import hmac
import secrets
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding

from ddol.node.identity import certificates as crt
from ddol.node.identity.letters import (
    Invitation,
    JoinAnswer,
    JoinRequest,
    is_vouched,
    voucher_key,
)
from ddol.node.identity.private import held, private_folder, read_private, write_private
from ddol.node.identity.roster import Roster, signed_roster
from ddol.node.identity.sealing import can_receive
from ddol.node.identity.signed import verified
from ddol.streams.errors import DataError

KEY, CERTIFICATE, BOOK, ROSTER = "authority.key", "authority.pem", "members.json", "roster"
LIFE = timedelta(days=90)
"""How long a certificate is valid; a node renews it when a third is left."""
INVITED = timedelta(hours=24)
"""How long an invitation is valid, by default."""


class Membership(msgspec.Struct):
    """A member as its authority knows it: invited, then joined, perhaps revoked. Times since 1970."""

    role: str
    voucher: bytes = b""
    invited_until: int = 0
    key: str = ""
    sealing: bytes = b""
    expires: int = 0
    seen: int = 0
    revoked: int = 0


class _Book(msgspec.Struct):
    network: str
    address: str = ""
    number: int = 0
    members: dict[str, Membership] = {}
    revoked: dict[str, int] = {}


class Authority:
    """Invites, signs and revokes; several processes may use one folder at once.

    Parameters
    ----------
    folder : path
        As `Authority.new` made it.

    Examples
    --------
    >>> import tempfile
    >>> authority = Authority.new(Path(tempfile.mkdtemp(), "net"), "trial")
    >>> authority.invite("eu").name
    'eu'
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        if not (self.folder / KEY).exists():
            raise DataError(
                f"{folder}: there is no authority in this folder; make one with: ddol network new {folder}"
            )
        private_folder(self.folder)
        self._key = crt.load_key(self.folder / KEY)
        self.certificate = crt.load_certificate(self.folder / CERTIFICATE)
        self.network = crt.fingerprint(self.certificate)

    @classmethod
    def new(cls, folder: str | Path, network: str, address: str = "") -> Authority:
        """Make a key, a certificate of its own and an empty roster."""
        folder = Path(folder)
        if (folder / KEY).exists():
            raise DataError(f"{folder}: there is an authority already; choose another folder")
        private_folder(folder)
        key = Ed25519PrivateKey.generate()
        certificate = crt.authority_certificate(key, crt.checked_name(network))
        write_private(folder / CERTIFICATE, certificate.public_bytes(Encoding.PEM))
        write_private(folder / BOOK, msgspec.json.encode(_Book(network, address)))
        crt.save_key(folder / KEY, key)
        authority = cls(folder)
        with authority._changing():
            pass  # the first roster
        return authority

    @property
    def book(self) -> _Book:
        """What the authority knows of its members."""
        path = self.folder / BOOK
        try:
            return msgspec.json.decode(read_private(path), type=_Book)
        except msgspec.DecodeError as error:
            raise DataError(f"{path}: damaged ({error}); restore it from a backup") from None

    @property
    def address(self) -> str:
        """Where members find the authority: its endpoint, or else its folder."""
        return self.book.address or str(self.folder.resolve())

    def set_address(self, address: str) -> None:
        """Keep where members find the endpoint; later invitations and answers say it."""
        with self._changing(shown=False) as book:
            book.address = address

    @property
    def roster(self) -> bytes:
        """The roster of now, signed."""
        return (self.folder / ROSTER).read_bytes()

    def invite(self, name: str, role: str = crt.MEMBER, valid: timedelta = INVITED) -> Invitation:
        """A new invitation for a name; an earlier one for it is no longer valid."""
        crt.checked_name(name)
        secret, until = secrets.token_bytes(24), int(time.time() + valid.total_seconds())
        with self._changing(shown=False) as book:
            taken = {each.lower(): each for each in book.members}.get(name.lower(), name)
            known = book.members.get(taken)
            if known is not None and (taken != name or (known.key and not known.revoked)):
                raise DataError(
                    f"{taken} is a member already; choose another name, or first run: "
                    f"ddol network revoke {taken}"
                )
            book.members[name] = Membership(role, voucher_key(secret), until)
        return Invitation(self.network, name, role, secret, self.address, until)

    def answer(self, letter: JoinRequest) -> JoinAnswer:
        """Sign the key of an invited site, or of a member whose certificate is to be renewed."""
        key = crt.requested_key(letter.request)
        digest, at = crt.key_digest(key), int(time.time())
        with self._changing() as book:
            entry = book.members.get(letter.name)
            if digest in book.revoked:
                raise DataError(
                    "this key has been revoked; join with a new key, in another --folder"
                )
            if letter.voucher:
                _check_invited(entry, letter, digest, at)
            else:
                _check_renewal(entry, letter.name, digest, at)
            assert entry is not None
            certificate = self.sign(key, letter.name, entry.role)
            entry.key, entry.seen, entry.sealing = digest, at, _sealing_key(key, letter)
            entry.expires = int(certificate.not_valid_after_utc.timestamp())
        der, own = (each.public_bytes(Encoding.DER) for each in (certificate, self.certificate))
        return JoinAnswer(der, own, self.roster, self.book.address)

    def sign(self, key: Ed25519PublicKey, name: str, role: str) -> crt.x509.Certificate:
        """A certificate for a key."""
        return crt.signed_certificate((self._key, self.certificate), key, name, role, LIFE)

    def revoke(self, name: str) -> None:
        """Revoke a member's key, or its invitation."""
        with self._changing() as book:
            entry = book.members.get(name)
            if entry is not None and entry.revoked:
                raise DataError(f"{name!r} has been revoked already")
            if entry is None:
                known = ", ".join(sorted(n for n, e in book.members.items() if not e.revoked))
                raise DataError(f"{name!r} is no member; members are: {known or 'none yet'}")
            entry.revoked, entry.voucher = int(time.time()), b""
            if entry.key:
                book.revoked[entry.key] = entry.expires

    def saw(self, name: str) -> None:
        """Note, to half a minute, that a member has been heard of."""
        entry = self.book.members.get(name)
        if entry is None or entry.seen > time.time() - 30:
            return
        with self._changing(shown=False) as book:
            if name in book.members:
                book.members[name].seen = int(time.time())

    @contextlib.contextmanager
    def _changing(self, shown: bool = True) -> Iterator[_Book]:
        """Change the book, and sign a new roster if that changes what it says (or there is none)."""
        with held(self.folder):
            book = self.book
            before = _said(book)
            yield book
            fresh = not (self.folder / ROSTER).exists()
            if fresh or (shown and _said(book) != before):
                book.number += 1
                at = int(time.time())
                book.revoked = {k: end for k, end in book.revoked.items() if end + 86400 > at}
                roster = Roster(self.network.hex(), book.number, at, *_said(book))
                write_private(self.folder / ROSTER, signed_roster(self._key, roster))
            write_private(self.folder / BOOK, msgspec.json.encode(book))


def _said(book: _Book) -> tuple[dict[str, str], dict[str, int], dict[str, bytes]]:
    """What a roster says of a book: members, revoked keys, and keys that messages are encrypted for."""
    there = {n: e for n, e in sorted(book.members.items()) if e.key and not e.revoked}
    members = {n: e.role for n, e in there.items()}
    keys = {n: e.sealing for n, e in there.items() if e.role == crt.MEMBER}
    return members, dict(book.revoked), keys


def _sealing_key(key: Ed25519PublicKey, letter: JoinRequest) -> bytes:
    """The key that messages for a site are encrypted with, if the site's own key has signed it."""
    found = verified(key, "sealing", letter.sealing)
    if found is None or not can_receive(found):
        raise DataError(
            "the request has no valid key for encrypted messages; run ddol network join again, with the "
            "version of ddol that the authority has"
        )
    return found


def _check_invited(entry: Membership | None, letter: JoinRequest, digest: str, at: int) -> None:
    if entry is None or not entry.voucher or not is_vouched(entry.voucher, letter):
        raise DataError(
            f"no invitation for {letter.name[:80]!r} goes with this request: it was replaced, revoked or "
            f"never made; ask for a new one (ddol network invite)"
        )
    if entry.key and not hmac.compare_digest(entry.key, digest):
        raise DataError(
            f"the invitation for {letter.name!r} has been used already; if it was not you, have it "
            f"revoked (ddol network revoke {letter.name}), and ask for a new one"
        )
    if at > entry.invited_until:
        raise DataError(
            f"the invitation for {letter.name!r} has expired; ask for a new one "
            f"(ddol network invite {letter.name})"
        )


def _check_renewal(entry: Membership | None, name: str, digest: str, at: int) -> None:
    if entry is None or not entry.key or not hmac.compare_digest(entry.key, digest):
        raise DataError(
            f"the key to renew is not the one of member {name[:80]!r}; join with an invitation"
        )
    if entry.revoked:
        raise DataError(f"{name} has been revoked; its certificate is not renewed")
    if at > entry.expires:
        raise DataError(
            f"the certificate of {name} has expired; revoke it, and join again with a new invitation"
        )


def find_authority(folder: str | None) -> Authority:
    """The authority in a folder; by default the one in this folder or in one directly below."""
    if folder is not None:
        return Authority(folder)
    here = Path()
    found = [each for each in (here, *sorted(here.iterdir())) if (each / KEY).exists()]
    if len(found) != 1:
        several = f"found several: {', '.join(map(str, found))}" if found else "found none"
        raise DataError(
            f"which authority? {several} here; say --folder FOLDER, as in ddol network new"
        )
    return Authority(found[0])
