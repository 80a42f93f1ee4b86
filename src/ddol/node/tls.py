"""TLS of a node's server, from files that are read again when they change."""

from __future__ import annotations

import logging
import ssl

from ddol.node.config import HttpConfig
from ddol.node.errors import NodeError

_log = logging.getLogger("ddol.node")


class ServerTls:
    """Certificates of a server, and of who signs its clients'.

    Parameters
    ----------
    http : HttpConfig
        With `certificate` and `key`, and perhaps `clients`.
    """

    def __init__(self, http: HttpConfig) -> None:
        self.http = http
        self.context = self._now = _context(http)
        """Given to the server: a connection has what the files said when they were read last."""
        self.context.sni_callback = self._choose

    def read_again(self) -> None:
        """Read the files anew; where they are bad, connections go on as before."""
        try:
            self._now = _context(self.http)
        except NodeError as error:
            _log.error("%s; the certificates of before stay", error)

    def _choose(self, connection: ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> None:
        connection.context = self._now


def _context(http: HttpConfig) -> ssl.SSLContext:
    """TLS 1.2 or newer from the files that the configuration names."""
    assert http.certificate is not None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(http.certificate, http.key)
        if http.clients is not None:
            context.load_verify_locations(http.clients)
            context.verify_mode = ssl.CERT_REQUIRED
    except (OSError, ssl.SSLError) as error:
        names = [http.certificate, http.key, http.clients]
        where = ", ".join(name for name in names if name is not None)
        raise NodeError(f"[http] cannot read certificates from {where} ({error})") from None
    _log.info("certificates of %s are read", http.certificate)
    return context
