"""Zenoh's settings for a member: mutual TLS, and who may publish on which keys.

A member publishes under ``ddol/NETWORK/NAME/…`` only, whatever it claims: every peer, and every relay, checks
the name in the certificate at the other end of the link. Beside that every envelope is signed, so a relay,
which passes on what others say, can drop messages but not write any.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ddol.node.identity.certificates import RELAY
from ddol.node.identity.member import AUTHORITY, CERTIFICATE, KEY, Identity
from ddol.node.identity.roster import TOPIC
from ddol.streams.errors import DataError

SAYS = ("put", "delete", "liveliness_token", "declare_queryable", "reply")
ASKS = ("declare_subscriber", "declare_liveliness_subscriber", "liveliness_query", "query")
"""What a publisher and a subscriber do, in the words of Zenoh's access control."""
MOST_MESSAGE = 1 << 26
"""Bytes of the largest message that a session puts together from its parts."""


def network_key(network: bytes) -> str:
    """Under which all keys of a network are."""
    return f"ddol/{network.hex()[:16]}"


def member_key(network: bytes, name: str, topic: str) -> str:
    """The key on which a member publishes a topic.

    Examples
    --------
    >>> member_key(bytes(32), "eu", "default/weights")
    'ddol/0000000000000000/eu/default/weights'
    """
    return f"{network_key(network)}/{name}/{topic}"


def roster_key(network: bytes) -> str:
    """The key of rosters: every certificate may publish there, as a new member must."""
    return f"{network_key(network)}/{TOPIC}"


def zenoh_settings(
    identity: Identity,
    listen: Sequence[str],
    connect: Sequence[str],
    mode: str = "peer",
    most: int = MOST_MESSAGE,
) -> dict[str, Any]:
    """What a session's configuration needs: for each, ``config.insert_json5(key, json.dumps(value))``.

    The access control follows the roster, and Zenoh reads it when a session is opened: where the identity's
    `version` has risen, open the session anew.

    Parameters
    ----------
    identity : Identity
    listen, connect : addresses such as ``tcp/10.0.0.1:7001`` or ``tls/eu.example:7001``
        Both are spoken to with TLS.
    mode : str
        "peer", "client", or "router" for a relay.
    most : int
        Bytes of the largest message that is taken.
    """
    place = {
        name: str((identity.folder / name).resolve()) for name in (AUTHORITY, KEY, CERTIFICATE)
    }
    return {
        "mode": mode,
        "listen/endpoints": [tls_address(each) for each in listen],
        "connect/endpoints": [tls_address(each) for each in connect],
        "scouting/multicast/enabled": False,
        "transport/shared_memory/enabled": False,
        "transport/link/protocols": ["tls"],
        "transport/link/rx/max_message_size": most,
        "transport/link/tls": {
            "root_ca_certificate": place[AUTHORITY],
            "enable_mtls": True,
            # Sites are known by the names in their certificates, wherever they are.
            "verify_name_on_connect": False,
            "close_link_on_expiration": True,
            **{f"{end}_private_key": place[KEY] for end in ("listen", "connect")},
            **{f"{end}_certificate": place[CERTIFICATE] for end in ("listen", "connect")},
        },
        "access_control": access_control(identity),
    }


def tls_address(address: str) -> str:
    """An address with TLS, whatever it says.

    Examples
    --------
    >>> tls_address("tcp/127.0.0.1:7001")
    'tls/127.0.0.1:7001'
    """
    protocol, _, place = address.partition("/")
    if protocol not in ("tcp", "tls") or not place:
        raise DataError(
            f"address {address!r}: expected tcp/HOST:PORT or tls/HOST:PORT, as members are known by TLS"
        )
    return f"tls/{place}"


def access_control(identity: Identity) -> dict[str, Any]:
    """Rules by certificate name; what no rule allows is dropped."""
    network, roster = identity.network, identity.roster
    root = network_key(network)
    everything = _under(root)
    others = {name: role for name, role in roster.members.items() if name != identity.name}
    rules = [
        _rule("tell", SAYS, "egress", everything),
        _rule("ask", ASKS, "egress", everything),
        _rule("be asked", ASKS, "ingress", everything),
        _rule("pass on", SAYS, "ingress", everything),
        _rule("roster in", (*SAYS, *ASKS), "ingress", _under(roster_key(network))),
        _rule("roster out", (*SAYS, *ASKS), "egress", _under(roster_key(network))),
    ]
    subjects: list[dict[str, Any]] = [{"id": "anyone certified"}]
    policies = [{"rules": ["roster in", "roster out"], "subjects": ["anyone certified"]}]
    for name, role in others.items():
        own = f"says {name}"
        rules.append(_rule(own, SAYS, "ingress", _under(f"{root}/{name}")))
        subjects.append({"id": name, "cert_common_names": [name]})
        speaks = "pass on" if role == RELAY else own
        policies.append({"rules": ["tell", "ask", "be asked", speaks], "subjects": [name]})
    return {
        "enabled": True,
        "default_permission": "deny",
        "rules": rules,
        "subjects": subjects,
        "policies": policies,
    }


def _under(key: str) -> list[str]:
    """All keys below one; in Zenoh ``**`` passes over parts that begin with @, which its caches use."""
    return [f"{key}/**", f"{key}/**/@adv/**"]


def _rule(name: str, messages: Iterable[str], flow: str, keys: list[str]) -> dict[str, Any]:
    return {
        "id": name,
        "permission": "allow",
        "messages": list(messages),
        "flows": [flow],
        "key_exprs": keys,
    }
