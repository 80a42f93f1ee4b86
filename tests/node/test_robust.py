"""Robust averages of nodes: what rounds would do, replayed, and said where peers are too few."""

from __future__ import annotations

import numpy as np
import pytest

import ddol
from ddol.node.errors import NodeError
from ddol.node.messages import read_message
from ddol.node.replay import replay_store
from small_nodes import examples, make, taught


class _Liar(ddol.Node):
    """Sends far too large weights, in the name of the node it is."""

    def message(self):
        message = read_message(super().message())
        return message._replace(numbers=1e3 * message.numbers).write()


def _three_and_a_liar(**options):
    algorithm = ddol.dogd("logistic", l2=0.0)
    nodes = [ddol.Node(name, algorithm, **options) for name in ("a", "b", "c")]
    for k, node in enumerate([*nodes, liar := _Liar("liar", algorithm)]):
        rows, labels = examples(seed=k)
        node.learn_many(rows, [not y for y in labels] if node is liar else labels)
        node.tell_network(4)
    blobs = [node.message() for node in nodes]
    for k, node in enumerate(nodes):
        for blob in [*blobs[:k], *blobs[k + 1 :], liar.message()]:
            node.receive(blob, mix=False)
        node.mix()
    rows, labels = examples(seed=9)
    return [
        np.mean([n.predict(x).label != y for x, y in zip(rows, labels, strict=True)]) for n in nodes
    ]


@pytest.mark.parametrize("rule", ["clip:1", "trim:1"])
def test_one_liar_does_no_harm_to_a_robust_average(rule):
    assert max(_three_and_a_liar(average=rule)) < 0.1 < 0.5 < min(_three_and_a_liar())


@pytest.mark.parametrize("rule", ["clip:1", "trim:2"])
def test_a_robust_average_of_nodes_is_that_of_rounds(rule):
    """The same rule on the same messages; a message that was mixed counts again beside newer ones."""
    nodes = [taught(name, seed=k, average=rule) for k, name in enumerate("abcdef")]
    blobs = [node.message() for node in nodes]
    values = np.stack([read_message(blob).numbers[0][:4] for blob in blobs])
    me = nodes[0]
    me.tell_network(6)
    for blob in blobs[1:5]:
        me.receive(blob)
    before = me.message()
    own = read_message(before).numbers[0][:4]
    me.receive(blobs[5])
    expected = me.options.robust.of(own, values[1:], np.full(5, 1 / 6))
    assert np.allclose(read_message(me.message()).numbers[0][:4], expected)


def test_a_robust_average_is_replayed(tmp_path):
    others = [taught(name, seed=k).message() for k, name in enumerate("abc")]
    with make("eu", store=tmp_path, average="trim:1") as node:
        rows, labels = examples(seed=7)
        node.learn_many(rows, labels)
        for blob in others:
            node.receive(blob)
        node.message()
    found = replay_store(tmp_path)
    assert found.wrong == [] and len(found.heard) == 6  # 1, then 2, then 3 messages


def test_too_few_peers_for_a_robust_average_are_said_once(caplog):
    node = taught("eu", average="clip:1")
    for k, name in enumerate("abc"):
        node.receive(taught(name, seed=k).message())
    assert [record.getMessage() for record in caplog.records] == [
        "eu: `average` clip:1 needs 3 peers or more, 1 are heard: the node learns almost alone"
    ]


def test_a_rule_that_is_none_is_refused():
    with pytest.raises(NodeError, match="`average`: found 'middle', expected clip:1"):
        make(average="middle")
    with pytest.raises(ValueError, match="clip:1"):
        make(average="clip:0")
