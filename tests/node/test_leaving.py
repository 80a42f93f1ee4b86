"""How many examples lie between two messages, by node.toml."""

from __future__ import annotations

import pytest

import ddol
from ddol.node.config import NetworkConfig, read_config
from ddol.node.gossip import Gossip
from ddol.node.transport.memory import MemoryTransport
from ddol.streams.errors import DataError


def test_others_hear_sums_of_a_hundred_examples_at_least():
    assert NetworkConfig(identity="eu-identity").fewest == 100
    assert NetworkConfig(identity="eu-identity", least=500).fewest == 500
    assert NetworkConfig(identity="eu-identity", least=10).fewest == 10
    assert NetworkConfig().fewest == 1  # nodes of one machine


def test_fewer_than_one_is_refused():
    model = {"algorithm": "adaptive", "loss": "logistic"}
    with pytest.raises(DataError, match="least"):
        read_config({"name": "eu", "model": model, "network": {"least": 0}})


@pytest.mark.parametrize("killed", (False, True))
def test_a_restart_does_not_shorten_the_wait(tmp_path, killed):
    """Two messages with one example between them would give that example away."""

    def learn(node, count):
        for k in range(count):
            node.learn({"x": k % 3}, bool(k % 2))

    def begun():
        node = ddol.Node("eu", store=tmp_path / "eu")
        return node, Gossip(node, MemoryTransport("eu", MemoryTransport.meeting()), least=100)

    node, talk = begun()
    learn(node, 100)
    talk.exchange_now()
    learn(node, 1)
    assert node.messages_sent == 1
    if killed:
        node.flush()
        node.journal.close()
    else:
        node.close()
    node, talk = begun()
    assert node.since_sent == 1
    talk.exchange_now()
    learn(node, 98)
    talk.exchange_now()
    assert node.messages_sent == 0
    learn(node, 1)
    talk.exchange_now()
    assert node.messages_sent == 1
    node.close()
