"""What a running node does for its identity: hear of revocations within seconds, renew in time."""

from __future__ import annotations

import time

from ddol.node.identity.asking import ask_roster
from ddol.node.identity.envelope import Sealer
from ddol.node.identity.letters import is_folder
from ddol.node.identity.member import Identity
from ddol.node.identity.roster import TOPIC

_ROSTER_ASKED, _RENEWAL_TRIED = 5.0, 3600.0
"""Seconds between two requests to the authority for a newer roster, and between two attempts to renew."""


class Upkeep:
    """Keeps an identity current; call it about once a second, from a thread that may wait.

    Where the identity's `version` has risen afterwards, sessions with peers are to be opened anew.

    Parameters
    ----------
    identity : Identity
    sealer : Sealer
        The one that signs the node's messages: numbers rise over all of them.
    """

    def __init__(self, identity: Identity, sealer: Sealer) -> None:
        self.identity, self._sealer = identity, sealer
        self._asked = self._tried = -float("inf")
        self._told = ""
        self._known, self._revoked = identity.roster, False

    def __call__(self) -> list[str]:
        """Look for a newer roster, renew if it is time; lines for the log."""
        me = self.identity
        news: list[str] = []
        me.look_for_roster()
        if me.settings.address and not is_folder(me.settings.address):
            self._ask(news)
        # Others bring rosters, too: what is new is new since the last call.
        known, self._known = self._known, me.roster
        if me.roster is not known:
            news += _changes(known.members, me.roster.members)
        was_revoked, self._revoked = self._revoked, me.is_revoked
        if me.is_revoked and not was_revoked:
            news.append(f"{me.name} has been revoked: its peers take nothing from it any more")
        if time.monotonic() - self._tried > _RENEWAL_TRIED:
            self._tried = time.monotonic()
            line = me.renew_if_due()
            news += [line] if line else []
        return news

    def _ask(self, news: list[str]) -> None:
        if time.monotonic() - self._asked < _ROSTER_ASKED:
            return
        me = self.identity
        try:
            sealed = self._sealer.seal(TOPIC, str(me.roster.number).encode())
            found = ask_roster(me.settings.address, me.network, sealed)
        except (OSError, ValueError) as error:
            # Members tell each other: an authority that is away is no reason to stop, and is said once.
            found, line = b"", f"no news of members from the authority: {error}"
            news += [line] if line != self._told else []
            self._told = line
        else:
            self._told = ""
        self._asked = time.monotonic()
        if found:
            me.hear_roster(found)


def _changes(before: dict[str, str], after: dict[str, str]) -> list[str]:
    gone, come = sorted(before.keys() - after.keys()), sorted(after.keys() - before.keys())
    return [f"{name} is no longer a member" for name in gone] + [
        f"{name} is a member now" for name in come
    ]
