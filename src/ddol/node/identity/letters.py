"""Letters between a joining site and the authority: invitation, request, answer; each is one line."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from typing import TypeVar

import msgspec

from ddol.node.identity.signed import UNREADABLE
from ddol.streams.errors import DataError

_MOST = 1 << 20
"""Letters of the longest line that is read."""


class _Letter(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    pass


class Invitation(_Letter, frozen=True, array_like=True):
    """Allows one site to join once, before it expires; it is a secret between the two.

    Parameters
    ----------
    network : bytes
        Fingerprint of the authority's certificate, by which the site knows the authority.
    name, role : str
    secret : bytes
        By which the authority knows the site.
    address : str
        Of the authority: ``host:port``, a folder on the same machine, or empty for files only.
    expires : int
        Seconds since 1970.
    """

    network: bytes
    name: str
    role: str
    secret: bytes
    address: str
    expires: int


class JoinRequest(_Letter, frozen=True, array_like=True):
    """A key to sign, and one that messages will be encrypted for, which the first one has signed.

    The invitation's secret vouches for the request and is not in it; a renewal has no voucher.
    """

    name: str
    request: bytes
    voucher: bytes = b""
    sealing: bytes = b""


class JoinAnswer(_Letter, frozen=True, array_like=True):
    """The certificate (DER), the authority's, and the roster."""

    certificate: bytes
    authority: bytes
    roster: bytes
    address: str = ""


_PREFIXES: dict[type, str] = {
    Invitation: "ddol-invitation-",
    JoinRequest: "ddol-request-",
    JoinAnswer: "ddol-answer-",
}
_L = TypeVar("_L", Invitation, JoinRequest, JoinAnswer)


def written(letter: Invitation | JoinRequest | JoinAnswer) -> str:
    """A letter as one line of text.

    Examples
    --------
    >>> line = written(JoinRequest("eu", b"key"))
    >>> read_letter(JoinRequest, line).name
    'eu'
    >>> read_letter(Invitation, line)
    Traceback (most recent call last):
    ddol.streams.errors.DataError: expected a line that begins with ddol-invitation-, ...
    """
    packed = base64.urlsafe_b64encode(msgspec.msgpack.encode(letter)).decode().rstrip("=")
    return _PREFIXES[type(letter)] + packed


def read_letter(kind: type[_L], text: str, where: str = "") -> _L:
    """The letter in a line of text."""
    where = f"{where}: " if where else ""
    prefix, line = _PREFIXES[kind], "".join(text.split()) if len(text) <= _MOST else ""
    if not line.startswith(prefix):
        raise DataError(f"{where}expected a line that begins with {prefix}, found {line[:20]!r}")
    packed = line.removeprefix(prefix)
    try:
        data = base64.urlsafe_b64decode(packed + "=" * (-len(packed) % 4))
        return msgspec.msgpack.decode(data, type=kind)
    except (*UNREADABLE, binascii.Error):
        raise DataError(
            f"{where}this {prefix.strip('-')} is damaged; copy it again, whole"
        ) from None


def voucher_key(secret: bytes) -> bytes:
    """What the authority keeps of an invitation's secret."""
    return hashlib.sha256(b"ddol invitation\0" + secret).digest()


def vouch(key: bytes, name: str, request: bytes) -> bytes:
    """Bind a request to an invitation, so that no machine in between can put another key in its place."""
    return hmac.digest(key, name.encode() + b"\0" + request, "sha256")


def is_vouched(key: bytes, letter: JoinRequest) -> bool:
    """Whether a request was made by the site that has the invitation."""
    return hmac.compare_digest(vouch(key, letter.name, letter.request), letter.voucher)


def is_folder(address: str) -> bool:
    """Whether an address is a folder on this machine."""
    return "/" in address
