"""X.509 certificates with Ed25519 keys: the authority's, and those that it signs for members."""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from ddol.node.identity.private import read_private, write_private
from ddol.streams.errors import DataError

MEMBER, RELAY = "member", "relay"
"""What a certificate allows: to take part, or to pass on what others say."""
ENDPOINT = "authority"
"""Name in the certificate of the authority's own endpoint; no member can have it."""

DAMAGED = (ValueError, TypeError, UnsupportedAlgorithm, InvalidSignature, x509.InvalidVersion)
"""What reading a certificate or a signing request of another party may raise."""

_SKEW = timedelta(hours=1)
"""A certificate is valid from so long before it was made: clocks differ."""
_AUTHORITY_YEARS = 20
_Key = TypeVar("_Key", Ed25519PrivateKey, X25519PrivateKey)
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,62}[A-Za-z0-9])?")


def checked_name(name: str) -> str:
    """Refuse a member's name that could stand for several, or for something else.

    Examples
    --------
    >>> checked_name("eu")
    'eu'
    >>> checked_name("eu/**")
    Traceback (most recent call last):
    ddol.streams.errors.DataError: name 'eu/**': expected 1 to 64 letters, digits, ...
    """
    if not _NAME.fullmatch(name):
        raise DataError(
            f"name {name[:80]!r}: expected 1 to 64 letters, digits, '-', '_' and '.', with a letter or "
            "digit at both ends"
        )
    if name.lower() in (ENDPOINT, "roster"):
        raise DataError(f"name {name!r} is reserved; choose another")
    return name


def now() -> datetime:
    """The time, in UTC."""
    return datetime.now(UTC)


def fingerprint(certificate: x509.Certificate) -> bytes:
    """SHA-256 of a certificate."""
    return hashlib.sha256(certificate.public_bytes(Encoding.DER)).digest()


def key_digest(key: Ed25519PublicKey) -> str:
    """SHA-256 of a public key, by which members are known and revoked."""
    return hashlib.sha256(key.public_bytes(Encoding.Raw, PublicFormat.Raw)).hexdigest()


def save_key(path: Path, key: Ed25519PrivateKey | X25519PrivateKey) -> None:
    """Write a private key for its owner only."""
    write_private(path, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))


def load_key(path: Path, kind: type[_Key] = Ed25519PrivateKey) -> _Key:
    """Read a private key that only its owner can read."""
    expected = kind.__name__.removesuffix("PrivateKey")
    try:
        key = load_pem_private_key(read_private(path), None)
    except (ValueError, TypeError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path}: expected an {expected} key in PEM") from None
    if not isinstance(key, kind):
        raise DataError(f"{path}: expected an {expected} key, found {type(key).__name__}")
    return key


def load_certificate(path: Path) -> x509.Certificate:
    """Read a certificate in PEM."""
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None
    except ValueError:
        raise DataError(f"{path}: expected a certificate in PEM") from None


def authority_certificate(key: Ed25519PrivateKey, network: str) -> x509.Certificate:
    """The certificate that an authority signs for itself."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, network)])
    end = now() + timedelta(days=365 * _AUTHORITY_YEARS)
    builder = _builder(subject, subject, key.public_key(), end)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    usage = _usage(digital_signature=False, key_cert_sign=True, crl_sign=True)
    return builder.add_extension(usage, critical=True).sign(key, None)


def signed_certificate(
    authority: tuple[Ed25519PrivateKey, x509.Certificate],
    key: Ed25519PublicKey,
    name: str,
    role: str,
    life: timedelta,
) -> x509.Certificate:
    """The certificate of a member, for TLS at both ends and for signing messages."""
    own, issuer = authority
    attributes = [
        x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, role),
        x509.NameAttribute(NameOID.COMMON_NAME, name),
    ]
    end = min(now() + life, issuer.not_valid_after_utc)
    builder = _builder(x509.Name(attributes), issuer.subject, key, end)
    builder = builder.add_extension(
        x509.BasicConstraints(ca=False, path_length=None), critical=True
    )
    builder = builder.add_extension(_usage(digital_signature=True), critical=True)
    purposes = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    builder = builder.add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
    if name == ENDPOINT:  # the only one that is looked up by a host's name
        names = x509.SubjectAlternativeName([x509.DNSName(ENDPOINT)])
        builder = builder.add_extension(names, critical=False)
    return builder.sign(own, None)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: Ed25519PublicKey, end: datetime
) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
    builder = builder.serial_number(x509.random_serial_number())
    return builder.not_valid_before(now() - _SKEW).not_valid_after(end)


def _usage(**allowed: bool) -> x509.KeyUsage:
    names = (
        "digital_signature", "content_commitment", "key_encipherment", "data_encipherment",
        "key_agreement", "key_cert_sign", "crl_sign", "encipher_only", "decipher_only",
    )  # fmt: skip
    return x509.KeyUsage(**{name: allowed.get(name, False) for name in names})


def signing_request(key: Ed25519PrivateKey, name: str) -> bytes:
    """A request (PKCS #10) to sign this key, which proves that the asker has it."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    return builder.sign(key, None).public_bytes(Encoding.DER)


def requested_key(request: bytes) -> Ed25519PublicKey:
    """The key of a signing request, once it is sure that the asker has it."""
    try:
        found = x509.load_der_x509_csr(request)
        key = found.public_key()
        valid = isinstance(key, Ed25519PublicKey) and found.is_signature_valid
    except DAMAGED:
        valid = False
    if not valid:
        raise DataError(
            "the request's key or its signature is not valid; run ddol network join again"
        )
    assert isinstance(key, Ed25519PublicKey)
    return key


def subject_of(certificate: x509.Certificate) -> tuple[str, str]:
    """Name and role of a member's certificate."""
    found = {}
    for oid in (NameOID.COMMON_NAME, NameOID.ORGANIZATIONAL_UNIT_NAME):
        values = certificate.subject.get_attributes_for_oid(oid)
        if len(values) != 1:
            raise ValueError("expected one name and one role")
        found[oid] = str(values[0].value)
    return found[NameOID.COMMON_NAME], found[NameOID.ORGANIZATIONAL_UNIT_NAME]


def issued_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    """Whether the authority signed this certificate of a member, whose key signs messages."""
    try:
        certificate.verify_directly_issued_by(authority)
        basic = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
        return not basic.value.ca and isinstance(certificate.public_key(), Ed25519PublicKey)
    except (*DAMAGED, x509.ExtensionNotFound):
        return False


def in_force(certificate: x509.Certificate, at: datetime) -> bool:
    """Whether a certificate is valid at a time."""
    return certificate.not_valid_before_utc <= at <= certificate.not_valid_after_utc
