"""Exchange between nodes: when, with whom, and by what it travels."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

import ddol
from ddol.node.errors import NodeError
from ddol.node.gossip import Exchange, Gossip
from ddol.node.transport.memory import MemoryTransport
from ddol.node.transport.seals import NoSeals
from ddol.node.transport.zenoh import ZenohTransport, open_session, plain_settings
from ports import free_ports


def taught(name, n=40):
    node = ddol.Node(name, ddol.adaptive("logistic"))
    for k in range(n):
        node.learn({"x": k % 2}, bool(k % 2))
    return node


def soon(true, seconds=15.0):
    deadline = time.monotonic() + seconds
    while not true() and time.monotonic() < deadline:
        time.sleep(0.01)
    return true()


@pytest.mark.parametrize("exchange", ["20ms", "10 answers", "drift:0.01"])
def test_when_a_node_speaks(exchange):
    meeting = MemoryTransport.meeting()
    one, two = taught("one", 1), ddol.Node("two", ddol.adaptive("logistic"))
    talks = [Gossip(n, MemoryTransport(n.name, meeting), exchange).start() for n in (one, two)]
    for k in range(400):
        one.learn({"x": k % 2}, bool(k % 2))
        time.sleep(0.0005)
    assert soon(lambda: one.messages_sent > 1)
    two.learn({"x": 1.0}, True)
    for _ in range(20):
        two.learn({"x": 1.0}, True)
    assert soon(lambda: two.state()["peers"][0]["messages"] > 0)
    for talk in talks:
        talk.close()


def test_the_first_message_waits_for_no_drift():
    """The first label of a regression moves the intercept most: what comes later is little beside it."""
    node = ddol.Node("one", ddol.adaptive("squared"))
    talk = Gossip(node, MemoryTransport("one", MemoryTransport.meeting()), "drift:0.9").start()
    node.learn({"x": 1.0}, 50.0)
    assert soon(lambda: node.messages_sent == 1)
    talk.close()


@pytest.mark.parametrize("text", ["often", "0s", "-1s", "0 answers", "drift:x", "drift:0", ""])
def test_bad_exchanges_are_refused(text):
    with pytest.raises(NodeError, match="expected 1s, 100 answers or drift"):
        Exchange.of(text)


def test_nodes_that_agree_fall_silent():
    meeting = MemoryTransport.meeting()
    nodes = [taught("one"), taught("two", 60)]
    talks = [Gossip(n, MemoryTransport(n.name, meeting)) for n in nodes]
    for _ in range(200):
        for talk in talks:
            talk.exchange_now()
    sent = [node.messages_sent for node in nodes]
    for talk in talks:
        talk.exchange_now()
    assert [node.messages_sent for node in nodes] == sent and max(sent) < 100


def test_a_node_listens_to_whom_it_names():
    meeting = MemoryTransport.meeting()
    nodes = [taught("a"), taught("b"), taught("c")]
    talks = [
        Gossip(n, MemoryTransport(n.name, meeting), peers=("c",) if n.name == "a" else "all")
        for n in nodes
    ]
    for talk in talks:
        talk.exchange_now()
    talks[0].exchange_now()
    assert nodes[0].read(lambda agent: set(agent.heard)) == {"c"}
    assert nodes[0].agents == 2


def test_who_leaves_is_told():
    meeting = MemoryTransport.meeting()
    one, two = (Gossip(taught(n), MemoryTransport(n, meeting)) for n in ("one", "two"))
    assert one.living == {"two"} and two.living == {"one"}
    two.transport.close()
    assert one.living == set()


def test_the_last_message_of_a_node_that_leaves_is_averaged():
    """Else what it learned since the message before would be lost to the others."""
    meeting = MemoryTransport.meeting()
    nodes = [ddol.Node(name, ddol.adaptive("logistic")) for name in ("eu", "us")]
    talks = [Gossip(n, MemoryTransport(n.name, meeting), "1h") for n in nodes]
    talks[0].start()
    for k in range(50):
        nodes[0].learn({"x": k % 2}, bool(k % 2))
    talks[0].close()
    talks[1].exchange_now()
    assert nodes[1].predict({"x": 1.0}).label is True
    assert not nodes[1].state()["peers"][0]["alive"]


def test_a_slow_transport_holds_up_no_prediction():
    """Sending waits for a peer that hangs; predictions and labels go on."""

    class Slow(MemoryTransport):
        def put(self, topic, blob):
            began.set()
            released.wait(20.0)

    began, released = threading.Event(), threading.Event()
    node = taught("one")
    talk = Gossip(node, Slow("one", MemoryTransport.meeting()), "10ms").start()
    assert began.wait(10.0)
    for k in range(100):
        node.predict({"x": 1.0}, id=str(k))
        node.answer(str(k), True)
    assert not released.is_set() and node.state()["answers"] == 100
    released.set()
    talk.close()


def through(transports):
    """A late joiner hears the newest at once; who comes and goes is seen."""
    one, two = transports("one"), None
    one.alive("m/alive", lambda name, there: seen.append((name, there)))
    seen, heard = [], []
    one.put("m/weights", b"old")
    one.put("m/weights", b"new" * 100_000)
    two = transports("two")
    two.subscribe("m/weights", lambda sender, blob: heard.append((sender, len(blob))))
    two.alive("m/alive", lambda *_: None)
    assert soon(lambda: heard == [("one", 300_000)]), heard
    assert soon(lambda: ("two", True) in seen)
    one.put("m/weights", b"next")
    assert soon(lambda: heard[-1] == ("one", 4)) and two.get("m/weights")["one"] == b"next"
    two.close()
    assert soon(lambda: seen[-1] == ("two", False))
    one.close()


def test_memory_carries_messages():
    meeting = MemoryTransport.meeting()
    through(lambda name: MemoryTransport(name, meeting))


def test_zenoh_carries_messages_from_peer_to_peer():
    ports = dict(zip(("one", "two"), free_ports(2), strict=True))

    def transport(name):
        other = next(port for n, port in ports.items() if n != name)
        listen, connect = [f"tcp/127.0.0.1:{ports[name]}"], [f"tcp/127.0.0.1:{other}"]
        return ZenohTransport(name, plain_settings(listen, connect), NoSeals())

    through(transport)


def test_zenoh_carries_messages_through_a_relay():
    [port] = free_ports(1)
    place = [f"tcp/127.0.0.1:{port}"]
    relay = open_session(plain_settings(place, [], "router"))
    through(lambda name: ZenohTransport(name, plain_settings([], place), NoSeals()))
    relay.close()


def test_mqtt_carries_messages():
    from broker import mqtt_broker
    from ddol.node.transport.mqtt import MqttTransport

    with mqtt_broker() as address:
        through(lambda name: MqttTransport(name, address, NoSeals()))


def test_a_flood_is_limited_without_identities_too():
    seals = NoSeals()
    taken = sum(seals.open("m/weights", "zz", b"rubbish") is not None for _ in range(1000))
    assert 100 <= taken < 200 and seals.refused["zz", "too many"] == 1000 - taken
    assert seals.open("m/weights", "eu", b"numbers") == ("eu", b"numbers")
    assert seals.open("m/weights", "us", bytes(101 << 20)) is None


def test_an_address_in_use_is_one_line():
    [port] = free_ports(1)
    settings = plain_settings([f"tcp/127.0.0.1:{port}"], [])
    one = open_session(settings)
    with pytest.raises(NodeError, match="cannot listen at tcp"):
        open_session(settings)
    one.close()


def test_four_nodes_on_a_ring_come_to_agree():
    meeting, rng = MemoryTransport.meeting(), np.random.default_rng(0)
    nodes = [ddol.Node(n, ddol.dogd("logistic", l2=0.0), n_features=3) for n in "abcd"]
    talks = [Gossip(n, MemoryTransport(n.name, meeting), peers="ring") for n in nodes]
    for node in nodes:
        for _ in range(20):
            node.learn(rng.standard_normal(3), bool(rng.random() < 0.5))
    mean = np.mean([node.weights() for node in nodes], axis=0)
    for _ in range(80):
        for talk in talks:
            talk.transport.put(f"{talk.topic}/weights", talk.node.message())
        for talk in talks:
            talk.node.tell_network(3)
            talk.node.mix({"a": "bd", "b": "ac", "c": "bd", "d": "ac"}[talk.node.name])
    for node in nodes:
        np.testing.assert_allclose(node.weights(), mean, rtol=1e-5, atol=1e-8)


def test_a_safe_node_does_not_listen_to_a_liar():
    """Its own learner is the measure: the liar's weights never reach the shared one."""
    meeting = MemoryTransport.meeting()
    nodes = [ddol.Node(n) for n in ("eu", "us", "liar")]
    talks = [Gossip(n, MemoryTransport(n.name, meeting)) for n in nodes]
    rng = np.random.default_rng(0)
    for k in range(900):
        node = nodes[k % 3]
        x = rng.standard_normal(30)
        label = bool(x.sum() + 2.0 * rng.standard_normal() > 0) != (node.name == "liar")
        node.learn({f"x{j}": v for j, v in enumerate(x.tolist())}, label)
        if k % 15 == 14:
            for talk in talks:
                talk.exchange_now()
    peers = {peer["name"]: peer["trusted"] for peer in nodes[0].state()["peers"]}
    assert peers == {"us": True, "liar": False}
    assert nodes[0].read(lambda agent: set(agent.heard)) == {"us"}
    site = nodes[0].state()["sites"]
    assert site["error_shared"] < site["error_alone"] and site["weight_shared"] > 0.5


def test_the_newest_message_is_sealed_last_when_a_session_is_reopened():
    """Receivers refuse a number that is not after the last one: an older message must not get a later one."""
    settings, sealed, reopening = plain_settings([], []), [], []

    class Slow(NoSeals):
        def seal(self, topic: str, blob: bytes) -> bytes:
            number = len(sealed)
            sealed.append(blob)
            if blob == b"second" and not reopening:
                reopening.append(threading.Thread(target=transport.reopen, args=(settings,)))
                reopening[0].start()
                reopening[0].join(0.3)
            return b"%d" % number

    transport = ZenohTransport("eu", settings, Slow())
    try:
        transport.put("weights", b"first")
        transport.put("weights", b"second")
        reopening[0].join()
    finally:
        transport.close()
    assert sealed == [b"first", b"second", b"second"]
