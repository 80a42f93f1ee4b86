"""A transport of a member of a network: its certificate and the roster stay current while it runs."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import Any

from ddol.node.identity.access import roster_key, zenoh_settings
from ddol.node.identity.member import Identity
from ddol.node.identity.upkeep import Upkeep
from ddol.node.transport.seals import SignedSeals
from ddol.node.transport.zenoh import ZenohTransport, mode_of

_log = logging.getLogger("ddol.node")
_LOOK = 1.0
"""Seconds between two looks at the roster and the certificate."""


class MemberTransport(ZenohTransport):
    """Zenoh with mutual TLS, signed envelopes, and news of who has been revoked.

    Parameters
    ----------
    identity : Identity
    listen, connect : addresses
    mode : str, optional
        "router" for a relay.
    """

    def __init__(
        self,
        identity: Identity,
        listen: Sequence[str],
        connect: Sequence[str],
        mode: str | None = None,
    ) -> None:
        self.identity = identity
        self._places = listen, connect, mode or mode_of(listen, connect)
        seals = SignedSeals(identity)
        super().__init__(identity.name, self._settings(), seals)
        self._ended, self._version, self._told = threading.Event(), identity.version, b""
        self._upkeep = Upkeep(identity, seals.sealer)
        self._roster = roster_key(identity.network)
        self.listen(self._roster, lambda _, data: self._hear(data))
        self._thread = threading.Thread(target=self._run, daemon=True, name="ddol identity")
        self._thread.start()

    def _settings(self) -> dict[str, Any]:
        listen, connect, mode = self._places
        return zenoh_settings(self.identity, listen, connect, mode)

    def _hear(self, data: bytes) -> None:
        if self.identity.hear_roster(data):
            _log.info("a newer roster has come")

    def _run(self) -> None:
        while not self._ended.wait(_LOOK):
            try:
                self.look()
            except Exception:
                _log.exception(
                    "the identity could not be looked after; the next second tries again"
                )

    def look(self) -> None:
        """Take news of members, pass them on, and open the session anew where they change it."""
        for line in self._upkeep():
            _log.info("%s", line)
        if self.identity.version != self._version:
            self._version = self.identity.version
            self.reopen(self._settings())
        roster = self.identity.roster_bytes
        if roster and roster != self._told:
            self._told = roster
            self.say(self._roster, roster)

    def close(self) -> None:
        """Leave."""
        self._ended.set()
        self._thread.join(5.0)
        super().close()
