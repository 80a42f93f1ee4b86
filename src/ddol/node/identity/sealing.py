"""End-to-end encryption: the members of a network can read a message, relays and brokers cannot.

Every message is encrypted with a key of its own (ChaCha20-Poly1305), and that key is encrypted for each
recipient by HPKE (RFC 9180: X25519, HKDF-SHA256, ChaCha20-Poly1305). Both are bound to the network, the
sender and the topic. The result is the payload of an envelope that the sender signs.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

from ddol.node.identity.signed import UNREADABLE

_SUITE = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)
_ONCE = bytes(12)
"""The nonce: a key encrypts one message only."""


class Sealed(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A ciphertext, and its key for each recipient by name."""

    keys: dict[str, bytes]
    text: bytes


_DECODER = msgspec.msgpack.Decoder(Sealed)


def context(network: bytes, sender: str, topic: str) -> bytes:
    """What a ciphertext is bound to."""
    return msgspec.msgpack.encode(["ddol message 1", network, sender, topic])


def encrypt(blob: bytes, recipients: Mapping[str, bytes], about: bytes) -> bytes:
    """Bytes that the recipients can read, by their public keys.

    Examples
    --------
    >>> us = X25519PrivateKey.generate()
    >>> sealed = encrypt(b"numbers", {"us": us.public_key().public_bytes_raw()}, b"eu")
    >>> decrypt(sealed, "us", us, b"eu"), decrypt(sealed, "ap", us, b"eu"), decrypt(sealed, "us", us, b"ap")
    (b'numbers', None, None)
    """
    key = ChaCha20Poly1305.generate_key()
    keys = {
        name: _SUITE.encrypt(key, X25519PublicKey.from_public_bytes(public), info=about)
        for name, public in recipients.items()
    }
    text = ChaCha20Poly1305(key).encrypt(_ONCE, blob, about)
    return msgspec.msgpack.encode(Sealed(keys, text))


def decrypt(data: bytes, name: str, key: X25519PrivateKey, about: bytes) -> bytes | None:
    """What was encrypted for this name and key, or None."""
    try:
        sealed = _DECODER.decode(data)
        once = _SUITE.decrypt(sealed.keys[name], key, info=about)
        return ChaCha20Poly1305(once).decrypt(_ONCE, sealed.text, about)
    except (*UNREADABLE, InvalidTag, KeyError):
        return None


def can_receive(public: bytes) -> bool:
    """Whether something can be encrypted for a public key: some points of the curve are refused."""
    try:
        encrypt(b"", {"": public}, b"")
    except ValueError:
        return False
    return True
