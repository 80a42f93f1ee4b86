"""A member's way to its authority: a folder on the same machine, or HTTPS pinned by a fingerprint."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from ddol.node.identity.authority import KEY as AUTHORITY_KEY
from ddol.node.identity.authority import Authority
from ddol.node.identity.certificates import ENDPOINT
from ddol.node.identity.letters import JoinAnswer, JoinRequest, is_folder, read_letter, written
from ddol.streams.errors import DataError

_WAIT = 10.0
"""Seconds until the authority counts as unreachable."""
_MOST = 1 << 21
"""Bytes of an answer."""


def ask_authority(address: str, network: bytes, letter: JoinRequest) -> JoinAnswer:
    """Have a key signed by the authority at an address, which must be that of the network."""
    if not address:
        raise DataError("the authority has no address; use files (ddol network join --help)")
    if is_folder(address):
        if not (Path(address) / AUTHORITY_KEY).exists():
            raise DataError(
                f"the authority's folder {address} is not on this machine; join by files (--request FILE), "
                "or have the authority run ddol network serve --address HOST:PORT and invite again"
            )
        authority = Authority(Path(address))
        if authority.network != network:
            raise DataError(f"{address}: another authority than the one that invited")
        return authority.answer(letter)
    text = _post(address, network, "/sign", written(letter).encode())
    return read_letter(JoinAnswer, text.decode("ascii", "replace"), address)


def ask_roster(address: str, network: bytes, envelope: bytes) -> bytes:
    """The roster of now at an authority's endpoint; empty if the asker has it already."""
    return _post(address, network, "/roster", envelope)


def _post(address: str, network: bytes, path: str, body: bytes) -> bytes:
    try:
        authority = _authority_at(address, network)
        context = ssl.create_default_context(cadata=authority)
        with _connection(address, context, ENDPOINT) as connection:
            connection.request("POST", path, body)
            return _read(connection, address)
    except (OSError, http.client.HTTPException) as error:
        raise OSError(
            f"the authority at {address} cannot be reached ({error}); try again when it runs "
            "(ddol network serve), or use files (ddol network join --help)"
        ) from None


def _authority_at(address: str, network: bytes) -> str:
    """The authority's certificate as its endpoint shows it, if it has the right fingerprint."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # the fingerprint decides
    with _connection(address, context, None) as connection:
        connection.request("GET", "/authority")
        shown = _read(connection, address)
    if hashlib.sha256(shown).digest() != network:
        raise DataError(
            f"{address}: the authority there is not the one that invited: its fingerprint differs; "
            "do not join, and ask the person who invited you"
        )
    return x509.load_der_x509_certificate(shown).public_bytes(Encoding.PEM).decode()


@contextlib.contextmanager
def _connection(
    address: str, context: ssl.SSLContext, name: str | None
) -> Iterator[http.client.HTTPSConnection]:
    host, port = host_and_port(address)
    connection = http.client.HTTPSConnection(host, port, timeout=_WAIT, context=context)
    plain = socket.create_connection((host, port), timeout=_WAIT)
    try:
        connection.sock = context.wrap_socket(plain, server_hostname=name)
        yield connection
    finally:
        connection.close()
        plain.close()


def _read(connection: http.client.HTTPSConnection, address: str) -> bytes:
    response = connection.getresponse()
    data = response.read(_MOST)
    if response.status not in (200, 204):
        raise DataError(f"{address}: {data[:500].decode('utf-8', 'replace') or response.reason}")
    return data


def host_and_port(address: str) -> tuple[str, int]:
    """The two parts of ``host:port``.

    Examples
    --------
    >>> host_and_port("authority.example:7443"), host_and_port("[::1]:7443")
    (('authority.example', 7443), ('::1', 7443))
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise DataError(
            f"address {address!r}: expected host:port, such as authority.example.org:7443"
        )
    return host.strip("[]"), int(port)
