"""The roster: members and revoked keys of a network, numbered and signed by its authority.

Members pass it on to each other, and take a newer one from any source: they trust the signature.
"""

from __future__ import annotations

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from ddol.node.identity.signed import UNREADABLE, sign, verified

TOPIC = "roster"
"""Of envelopes, and of keys, that are about rosters."""
MOST_BYTES = 1 << 20
"""A roster is refused unread if it is larger."""


class Roster(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who belongs to a network.

    Parameters
    ----------
    network : str
        Fingerprint of the authority's certificate, in hexadecimal.
    number : int
        Rises with every change; a member never goes back to an older roster.
    issued : int
        Seconds since 1970.
    members : dict
        Name to role: "member" or "relay".
    revoked : dict
        Digest of a key to the time when the last certificate for it expires.
    keys : dict
        Name to the public key (X25519) that messages for this member are encrypted with; relays have none.
    """

    network: str
    number: int
    issued: int
    members: dict[str, str]
    revoked: dict[str, int]
    keys: dict[str, bytes] = {}


_DECODER = msgspec.json.Decoder(Roster)


def signed_roster(key: Ed25519PrivateKey, roster: Roster) -> bytes:
    """A roster as it is sent and kept."""
    return sign(key, "roster", msgspec.json.encode(roster))


def read_roster(authority: Ed25519PublicKey, network: str, data: bytes) -> Roster | None:
    """The roster in these bytes, or None if this authority has not signed it for this network.

    Examples
    --------
    >>> key = Ed25519PrivateKey.generate()
    >>> data = signed_roster(key, Roster("ab", 1, 0, {"eu": "member"}, {}))
    >>> read_roster(key.public_key(), "ab", data).members
    {'eu': 'member'}
    >>> read_roster(Ed25519PrivateKey.generate().public_key(), "ab", data) is None
    True
    """
    if len(data) > MOST_BYTES:
        return None
    body = verified(authority, "roster", data)
    if body is None:
        return None
    try:
        roster = _DECODER.decode(body)
    except UNREADABLE:
        return None
    return roster if roster.network == network else None
