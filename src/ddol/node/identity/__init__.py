"""Who takes part in a network: certificates of a private authority, signed messages, access control.

What a node does with it::

    me = Identity("eu-identity")                     # as ddol network join made it
    sealer, opener = Sealer(me), Opener(me, most=bytes_of_the_largest_message)
    upkeep = Upkeep(me, sealer)                      # call it each second, from a thread; lines for the log
    zenoh_settings(me, listen, connect)              # for a session; open it anew when me.version has risen

    blob = sealer.seal(topic, payload, algorithm, encoding)      # for member_key(me.network, me.name, topic)
    sender, number, payload = opener.open(blob, topic, algorithm, encoding)      # or RefusedError
    opener.refused, opener.taken                     # counted by (sender, reason), and by sender
    opener.state(), opener.restore(state)            # with the node's snapshots: no replays after a restart
    me.roster_bytes, me.hear_roster(blob)            # published and heard under roster_key(me.network)
    check_token(file, presented)                     # HTTP: the client's name, or None
"""

from ddol.lazy import home_of, lookup

_HOME_OF = home_of(
    {
        "ddol.node.identity.access": "zenoh_settings member_key roster_key network_key",
        "ddol.node.identity.envelope": "Opener RefusedError Sealer",
        "ddol.node.identity.member": "Identity",
        "ddol.node.identity.tokens": "check_token new_token",
        "ddol.node.identity.upkeep": "Upkeep",
    }
)
__getattr__ = lookup(__name__, _HOME_OF)
