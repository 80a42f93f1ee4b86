"""Transports of a member of a network: its certificate and the roster stay current while they run."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any

from ddol.node.identity.access import roster_key, zenoh_settings
from ddol.node.identity.member import Identity
from ddol.node.identity.roster import TOPIC
from ddol.node.identity.upkeep import Upkeep
from ddol.node.transport.mqtt import MqttTransport
from ddol.node.transport.seals import SignedSeals
from ddol.node.transport.zenoh import ZenohTransport, mode_of

_log = logging.getLogger("ddol.node")
_LOOK = 1.0
"""Seconds between two looks at the roster and the certificate."""


class _Keeper:
    """Looks after an identity once a second, in a thread.

    Parameters
    ----------
    seals : SignedSeals
    changed : function
        Called when members or the certificate have changed.
    tell : function
        Passes a newer roster on to other members.
    """

    def __init__(
        self, seals: SignedSeals, changed: Callable[[], None], tell: Callable[[bytes], None]
    ) -> None:
        self.seals, self.identity = seals, seals.identity
        self._changed, self._tell, self._told = changed, tell, b""
        self._ended, self._version = threading.Event(), self.identity.version
        self._upkeep = Upkeep(self.identity, seals.sealer)
        self._thread = threading.Thread(target=self._run, daemon=True, name="ddol identity")
        self._thread.start()

    def hear(self, roster: bytes) -> None:
        """Take a roster that another member has passed on."""
        if roster == self.identity.roster_bytes:
            return
        if not self.seals.within_limit("", TOPIC, len(roster)):
            self.seals.refused["(rosters)", "too many"] += 1
        elif self.identity.hear_roster(roster):
            _log.info("a newer roster has come")

    def _run(self) -> None:
        while not self._ended.wait(_LOOK):
            try:
                self._look()
            except Exception:
                _log.exception(
                    "the identity could not be looked after; the next second tries again"
                )

    def _look(self) -> None:
        for line in self._upkeep():
            _log.info("%s", line)
        if self.identity.version != self._version:
            self._version = self.identity.version
            self._changed()
        roster = self.identity.roster_bytes
        if roster and roster != self._told:
            self._told = roster
            self._tell(roster)

    def close(self) -> None:
        """End the thread."""
        self._ended.set()
        self._thread.join(5.0)


class MemberTransport(ZenohTransport):
    """Zenoh with mutual TLS, encrypted and signed messages, and news of who has been revoked.

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
        seals, key = SignedSeals(identity), roster_key(identity.network)
        super().__init__(identity.name, self._settings(), seals)
        self._keeper = _Keeper(
            seals, lambda: self.reopen(self._settings()), lambda roster: self.say(key, roster)
        )
        self.listen(key, lambda _, data: self._keeper.hear(data))

    def _settings(self) -> dict[str, Any]:
        listen, connect, mode = self._places
        return zenoh_settings(self.identity, listen, connect, mode)

    def close(self) -> None:
        """Leave."""
        self._keeper.close()
        super().close()


class MemberMqtt(MqttTransport):
    """A broker of MQTT, which sees encrypted and signed messages only.

    Parameters
    ----------
    identity : Identity
    address : str
        ``mqtt://host:port``.
    """

    def __init__(self, identity: Identity, address: str) -> None:
        self.identity = identity
        seals, key = SignedSeals(identity), roster_key(identity.network)
        super().__init__(identity.name, address, seals)
        self._keeper = _Keeper(seals, self.again, lambda roster: self.say(key, roster))
        self.listen(key, lambda data: self._keeper.hear(data))

    def close(self) -> None:
        """Leave."""
        self._keeper.close()
        super().close()
