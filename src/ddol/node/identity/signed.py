"""Bytes with an Ed25519 signature: the one frame of envelopes and rosters."""

from __future__ import annotations

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError)
"""What decoding bytes of another party may raise; text that is not UTF-8 is a ValueError."""

_MARK = b"ddol 1 "


class Signed(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A body as it was signed, byte for byte, and its signature."""

    body: bytes
    signature: bytes


_DECODER = msgspec.msgpack.Decoder(Signed)


def sign(key: Ed25519PrivateKey, purpose: str, body: bytes) -> bytes:
    """Sign a body for one purpose; the signature is worth nothing for any other.

    Examples
    --------
    >>> key = Ed25519PrivateKey.generate()
    >>> verified(key.public_key(), "roster", sign(key, "roster", b"who"))
    b'who'
    """
    signature = key.sign(_MARK + purpose.encode() + b"\0" + body)
    return msgspec.msgpack.encode(Signed(body, signature))


def unpacked(data: bytes) -> Signed | None:
    """The body and signature of a frame, not verified; None where it is no frame."""
    try:
        return _DECODER.decode(data)
    except UNREADABLE:
        return None


def verify(key: Ed25519PublicKey, purpose: str, frame: Signed) -> bool:
    """Whether a frame was signed by this key for this purpose."""
    try:
        key.verify(frame.signature, _MARK + purpose.encode() + b"\0" + frame.body)
    except InvalidSignature:
        return False
    return True


def verified(key: Ed25519PublicKey, purpose: str, data: bytes) -> bytes | None:
    """The body of a frame that this key signed for this purpose, or None."""
    frame = unpacked(data)
    return frame.body if frame is not None and verify(key, purpose, frame) else None
