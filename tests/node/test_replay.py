"""Journals, played again."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner

import ddol
from ddol.cli.app import app
from ddol.node.gossip import Gossip
from ddol.node.replay import compared, replay_store
from ddol.node.transport.memory import MemoryTransport


def live(folder, names=("eu", "us", "ap"), **options):
    """Nodes that predict, learn late, and talk, with their stores."""
    meeting, rng = MemoryTransport.meeting(), np.random.default_rng(0)
    nodes = [ddol.Node(n, store=folder / n, keep_all=True, **options) for n in names]
    talks = [Gossip(node, MemoryTransport(node.name, meeting), "20 answers") for node in nodes]
    for k in range(240):
        node, x = nodes[k % 3], rng.standard_normal(4)
        features = {f"{node.name}-{k % 5}": 1.0, **dict(zip("abcd", x.tolist(), strict=True))}
        node.predict(features, id=str(k))
        if k >= 30:
            nodes[(k - 30) % 3].answer(str(k - 30), bool((k - 30) % 2))
        if k % 20 == 19:
            for talk in talks:
                talk.exchange_now()
    weights = [node.weights() for node in nodes]
    for talk, node in zip(talks, nodes, strict=True):
        talk.close()
        node.close()
    return weights


@pytest.mark.parametrize("log_bytes", [64 << 20, 8000])
def test_journals_replay_to_the_bit(tmp_path, log_bytes):
    weights = live(tmp_path, log_bytes=log_bytes)
    replays = [replay_store(tmp_path / name) for name in ("eu", "us", "ap")]
    for known, found in zip(weights, replays, strict=True):
        assert np.array_equal(known, found.agent.learning.player.weights()[0])
        assert len(found.sent) > 5 and len(found.heard) > 10 and found.wrong == []
    assert list(compared(replays)) == []


def test_one_journal_alone_replays_its_own_part(tmp_path):
    weights = live(tmp_path)
    found = replay_store(tmp_path / "us")
    assert np.array_equal(weights[1], found.agent.learning.player.weights()[0])


def test_the_command_tells_what_differs(tmp_path):
    live(tmp_path)
    stores = [str(tmp_path / name) for name in ("eu", "us")]
    found = CliRunner().invoke(app, ["replay", *stores, "--json"])
    assert found.exit_code == 0 and json.loads(found.stdout)["wrong"] == []
    about = tmp_path / "us" / "node.json"
    told = json.loads(about.read_text())
    told["algorithm"]["rate"] = 0.5
    about.write_text(json.dumps(told))
    found = CliRunner().invoke(app, ["replay", *stores])
    assert found.exit_code == 2 and "is not what was sent" in found.stderr
    found = CliRunner().invoke(app, ["replay", str(tmp_path)])
    assert found.exit_code == 2 and "expected the store of a node" in found.stderr


def test_the_folder_of_a_served_node_is_replayed(tmp_path):
    """`store` of node.toml has a folder for each model."""
    names = ("default", "second", "third")
    live(tmp_path, names)
    found = CliRunner().invoke(app, ["replay", str(tmp_path)])
    assert found.exit_code == 2 and "found several stores" in found.stderr
    (tmp_path / "eu-state").mkdir()
    (tmp_path / "default").rename(tmp_path / "eu-state" / "default")
    found = CliRunner().invoke(app, ["replay", str(tmp_path / "eu-state")])
    assert found.exit_code == 0 and "to the bit" in found.stdout
