"""Real Zenoh sessions on loopback: who gets in, and as whom."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Callable, Iterator

import pytest

from ddol.node.identity.access import (
    member_key,
    network_key,
    roster_key,
    tls_address,
    zenoh_settings,
)
from ddol.node.identity.authority import Authority
from ddol.node.identity.member import Identity, ask_to_join, take_answer
from ddol.streams.errors import DataError

zenoh = pytest.importorskip("zenoh")
PATIENCE = 8.0


@pytest.fixture
def opened() -> Iterator[Callable]:
    """Open sessions that are closed in the end."""
    with contextlib.ExitStack() as stack:

        def session(settings: dict):
            config = zenoh.Config()
            for key, value in settings.items():
                config.insert_json5(key, json.dumps(value))
            return stack.enter_context(zenoh.open(config))

        yield session


@pytest.fixture
def port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def settings(identity: Identity, port: int, listens: bool = False, **more) -> dict:
    place = [f"tcp/127.0.0.1:{port}"]
    return zenoh_settings(identity, place if listens else [], [] if listens else place, **more)


def heard(session, identity: Identity, keys: str = "**") -> list[tuple[str, bytes]]:
    found: list = []
    keys = f"{network_key(identity.network)}/{keys}"
    session.declare_subscriber(keys, lambda s: found.append((str(s.key_expr), bytes(s.payload))))
    return found


def until(condition: Callable[[], object], again: Callable[[], object] = lambda: None) -> bool:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        again()
        time.sleep(0.05)
        if condition():
            return True
    return False


def test_a_member_publishes_as_itself_only(member, opened, port):
    eu, us, ap = member("eu"), member("us"), member("ap")
    for each in (eu, us):
        each.look_for_roster()
    listener, session = opened(settings(eu, port, True)), opened(settings(us, port))
    found = heard(listener, eu)
    own, forged = (member_key(eu.network, each.name, "weights") for each in (us, ap))

    def publish():
        session.put(forged, b"lie")
        session.put("ddol/elsewhere", b"lie")
        session.put(own, b"truth")

    assert until(lambda: len(found) > 3, publish)
    assert set(found) == {(own, b"truth")}


def test_a_stranger_is_refused(member, opened, port, tmp_path):
    eu = member("eu")
    other = Authority.new(tmp_path / "other", "trial")
    folder = tmp_path / "stranger"
    answer = other.answer(ask_to_join(other.invite("us"), folder))
    stranger = take_answer(folder, answer)
    found = heard(opened(settings(eu, port, True)), eu)
    plain = {
        "mode": "client",
        "connect/endpoints": [f"tcp/127.0.0.1:{port}"],
        "connect/timeout_ms": 500,
        "scouting/multicast/enabled": False,
    }
    theirs = settings(stranger, port, mode="client") | {"connect/timeout_ms": 500}
    naked = json.loads(json.dumps(theirs))
    for end in ("listen", "connect"):
        del naked["transport/link/tls"][f"{end}_private_key"]
        del naked["transport/link/tls"][f"{end}_certificate"]
    naked["transport/link/tls"] |= {
        "enable_mtls": False,
        "root_ca_certificate": str(eu.folder / "authority.pem"),
    }
    for wrong in (plain, theirs, naked):
        with pytest.raises(zenoh.ZError):
            session = opened(wrong)
            # Where the refusal comes after the handshake, nothing passes all the same.
            for _ in range(10):
                session.put(roster_key(eu.network), b"lie")
                time.sleep(0.05)
            raise zenoh.ZError("refused later")
    assert found == []


def test_a_revoked_member_is_dropped_and_hears_nothing(member, opened, port, authority):
    eu, us, ap = member("eu"), member("us"), member("ap")
    eu.look_for_roster()
    authority.revoke("us")
    version = eu.version
    eu.look_for_roster()
    assert eu.version > version  # so a node opens its session anew
    listener = opened(settings(eu, port, True))
    us.look_for_roster = lambda: False  # it would rather not know
    revoked, honest = opened(settings(us, port)), opened(settings(ap, port))
    found, overheard = heard(listener, eu), heard(revoked, eu)
    received = heard(honest, eu)
    keys = {each.name: member_key(eu.network, each.name, "weights") for each in (eu, us, ap)}

    def publish():
        revoked.put(keys["us"], b"still here")
        honest.put(keys["ap"], b"truth")
        listener.put(keys["eu"], b"secret")

    assert until(lambda: len(found) > 3 and len(received) > 3, publish)
    assert {key for key, _ in found} == {keys["ap"], keys["eu"]}
    assert {key for key, _ in overheard} <= {keys["us"]}  # a session hears itself


def test_a_new_member_brings_the_roster_that_names_it(member, opened, port):
    eu = member("eu")
    listener = opened(settings(eu, port, True))
    us = member("us")
    session = opened(settings(us, port))
    found = heard(listener, eu, "roster")
    assert until(
        lambda: any(eu.hear_roster(data) for _, data in found),
        lambda: session.put(roster_key(us.network), us.roster_bytes),
    )
    assert "us" in eu.roster.members


def test_a_relay_passes_on_but_not_for_strangers_to_a_name(member, opened, port):
    relay, eu, us = member("relay", "relay"), member("eu"), member("us")
    for each in (relay, eu):
        each.look_for_roster()
    opened(settings(relay, port, True, mode="router"))
    listener = opened(settings(eu, port, mode="client"))
    sender = opened(settings(us, port, mode="client"))
    found = heard(listener, eu)
    own, forged = (member_key(eu.network, name, "weights") for name in ("us", "eu2"))

    def publish():
        sender.put(forged, b"lie")
        sender.put(own, b"truth")

    assert until(lambda: len(found) > 3, publish)
    assert {key for key, _ in found} == {own}


def test_late_joiners_get_the_newest_message(member, opened, port):
    ext = pytest.importorskip("zenoh.ext")
    eu, us = member("eu"), member("us")
    eu.look_for_roster()
    stamp = {"timestamping/enabled": True}
    first = opened(settings(eu, port, True) | stamp)
    key = member_key(eu.network, "eu", "weights")
    publisher = ext.declare_advanced_publisher(first, key, cache=ext.CacheConfig(1))
    publisher.put(b"newest")
    late, found = opened(settings(us, port) | stamp), []
    ext.declare_advanced_subscriber(
        late,
        member_key(eu.network, "*", "weights"),
        lambda sample: found.append(bytes(sample.payload)),
        history=ext.HistoryConfig(detect_late_publishers=True),
    )
    assert until(lambda: found)
    assert found == [b"newest"]


def test_only_addresses_with_tls():
    assert tls_address("tls/[::1]:7001") == "tls/[::1]:7001"
    for address in ("udp/1.2.3.4:5", "1.2.3.4:5", "quic/x:1", "tcp/"):
        with pytest.raises(DataError, match="TLS"):
            tls_address(address)
