"""Members over real connections: through a relay or a broker that reads along."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

from ddol.node.identity.access import network_key
from ddol.node.identity.authority import Authority
from ddol.node.identity.member import ask_to_join, take_answer
from ddol.node.transport.members import MemberMqtt, MemberTransport
from ports import free_ports

pytest.importorskip("zenoh")
TOPIC = "default/weights"


@pytest.fixture
def place(tmp_path):
    return tmp_path


@pytest.fixture
def join(tmp_path):
    """An authority, and a function that makes members of it."""
    authority = Authority.new(tmp_path / "net", "trial")

    def member(name: str, role: str = "member"):
        folder = tmp_path / f"{name}-identity"
        answer = authority.answer(ask_to_join(authority.invite(name, role), folder))
        return take_answer(folder, answer)

    member.authority = authority
    return member


@pytest.fixture
def closing() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def soon(true: Callable[[], object], seconds: float = 15.0):
    deadline = time.monotonic() + seconds
    while not true() and time.monotonic() < deadline:
        time.sleep(0.02)
    return true()


def opened(closing: ExitStack, transport):
    closing.callback(transport.close)
    return transport


def heard_by(transport) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    transport.subscribe(TOPIC, lambda sender, blob: found.update({sender: blob}))
    return found


def test_through_a_relay_that_reads_along(join, closing):
    """Late joiners get the newest message, revoked members nothing more, and the relay no number at all."""
    [port] = free_ports(1)
    where = [f"tcp/127.0.0.1:{port}"]
    relay = opened(closing, MemberTransport(join("relay", "relay"), where, [], "router"))
    overheard: list[bytes] = []
    everything = f"{network_key(relay.identity.network)}/**"
    relay.listen(everything, lambda _, data: overheard.append(data))

    eu = opened(closing, MemberTransport(join("eu"), [], where))
    eu.put(TOPIC, b"plain numbers 1")
    us = opened(closing, MemberTransport(join("us"), [], where))  # eu has not heard of it yet
    found, met = heard_by(us), {}
    us.alive("default/alive", lambda name, there: met.update({name: there}))
    assert soon(lambda: found.get("eu") == b"plain numbers 1")
    ap = opened(closing, MemberTransport(join("ap"), [], where))
    for each in (eu, ap):
        each.alive("default/alive", lambda *_: None)
    assert soon(lambda: met == {"eu": True, "ap": True})
    spied = heard_by(ap)
    assert soon(lambda: spied.get("eu") == b"plain numbers 1")

    join.authority.revoke("ap")
    ap.identity.look_for_roster = lambda: False  # it would rather not know
    assert soon(lambda: "ap" not in eu.identity.roster.members)
    eu.put(TOPIC, b"plain numbers 2")
    ap.put(TOPIC, b"still here")
    assert soon(lambda: found.get("eu") == b"plain numbers 2")
    assert soon(lambda: met == {"eu": True, "ap": False})
    time.sleep(0.3)
    assert spied["eu"] == b"plain numbers 1" and "ap" not in found
    assert len(overheard) > 3 and not any(b"plain" in each for each in overheard)


def test_members_go_on_while_the_authority_is_away(join, closing, caplog):
    """They exchange, pass on what one of them hears, and say once that the authority cannot be reached."""
    [port] = free_ports(1)
    where, dead = [f"tcp/127.0.0.1:{port}"], f"127.0.0.1:{free_ports(1)[0]}"
    join.authority.set_address(dead)
    with caplog.at_level("INFO", "ddol.node"):
        eu = opened(closing, MemberTransport(join("eu"), where, []))
        us = opened(closing, MemberTransport(join("us"), [], where))
        found = heard_by(us)
        eu.put(TOPIC, b"numbers")
        assert soon(lambda: found.get("eu") == b"numbers")
        join("ap")
        join.authority.revoke("ap")
        (eu.identity.folder / "roster").write_bytes(join.authority.roster)  # carried there by hand
        assert soon(lambda: us.identity.roster.number == 5)
        assert soon(lambda: us.identity.roster.number == 5), (
            eu.identity.roster,
            us.identity.roster,
        )
        assert soon(lambda: "cannot be reached" in caplog.text)
    said = [line for line in caplog.messages if "cannot be reached" in line]
    assert 1 <= len(said) <= 2 and dead in said[0]  # once each


@contextmanager
def broker() -> Iterator[int]:
    pytest.importorskip("paho.mqtt.client")
    broker_module = pytest.importorskip("amqtt.broker")
    [port] = free_ports(1)
    loop, ready, ended = asyncio.new_event_loop(), threading.Event(), threading.Event()

    async def serve():
        anonymous = {"amqtt.plugins.authentication.AnonymousAuthPlugin": {"allow_anonymous": True}}
        listener = {"default": {"type": "tcp", "bind": f"127.0.0.1:{port}"}}
        running = broker_module.Broker({"listeners": listener, "plugins": anonymous})
        await running.start()
        ready.set()
        while not ended.is_set():
            await asyncio.sleep(0.02)
        await running.shutdown()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), daemon=True)
    thread.start()
    assert ready.wait(20.0)
    try:
        yield port
    finally:
        ended.set()
        thread.join(10.0)


def test_through_a_broker_that_reads_along(join, closing):
    port = closing.enter_context(broker())
    from paho.mqtt import client

    spy = client.Client(client.CallbackAPIVersion.VERSION2)
    overheard: list[bytes] = []
    spy.on_message = lambda _, __, message: overheard.append(message.payload)
    spy.connect("127.0.0.1", port)
    spy.subscribe("#", qos=1)
    spy.loop_start()
    closing.callback(spy.loop_stop)

    met: dict[str, dict[str, bool]] = {name: {} for name in ("eu", "us", "ap")}

    def member(name):
        transport = opened(closing, MemberMqtt(join(name), f"mqtt://127.0.0.1:{port}"))
        found = heard_by(transport)
        transport.alive("default/alive", lambda who, there: met[name].update({who: there}))
        return transport, found

    eu, _ = member("eu")
    eu.put(TOPIC, b"plain numbers 1")
    (us, found), (ap, spied) = member("us"), member("ap")
    assert soon(lambda: found.get("eu") == spied.get("eu") == b"plain numbers 1")
    assert soon(lambda: met["us"] == {"eu": True, "ap": True}), met
    join.authority.revoke("ap")
    ap.identity.look_for_roster = lambda: False
    assert soon(lambda: all("ap" not in each.identity.roster.members for each in (eu, us)))
    ap.put(TOPIC, b"still here")
    eu.put(TOPIC, b"plain numbers 2")
    assert soon(lambda: found.get("eu") == b"plain numbers 2")
    root = network_key(us.identity.network)
    spy.publish(f"{root}/eu/{TOPIC}", b"rubbish", qos=1).wait_for_publish(5.0)
    assert soon(lambda: us.refused["(stranger)", "malformed"])
    assert soon(lambda: met["us"] == {"eu": True, "ap": False}), met
    assert spied["eu"] == b"plain numbers 1" and "ap" not in found
    assert len(overheard) > 3 and not any(b"plain" in each for each in overheard)
