"""Nodes as processes: `ddol serve` from its first line to SIGTERM."""

from __future__ import annotations

import json
import signal
import subprocess
import time

import pytest

from ports import free_ports
from served import Process, config


@pytest.fixture(autouse=True)
def _no_process_is_left():
    yield
    Process.end_all()


EXAMPLES = [(float(k % 2), "yes" if k % 2 else "no") for k in range(20)]


def test_a_node_ends_in_order_and_goes_on(tmp_path):
    node = Process(tmp_path, config())
    node.teach(EXAMPLES)
    code, said = node.end()
    assert code == 0 and "all is written down" in said
    again = Process(tmp_path, config() + "\n")
    assert again.ask("/v2/models/default")["answers"] == 20
    assert again.end(signal.SIGINT)[0] == 0
    assert "20 examples" in "".join(again.said)


def test_two_nodes_learn_together(tmp_path):
    """The second joins late, hears at once, sees the first one go by kill -9, and come back."""
    one, two = free_ports(2)
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()

    def network(own, other):
        return (
            f'[network]\nlisten = ["tcp/127.0.0.1:{own}"]\nconnect = ["tcp/127.0.0.1:{other}"]\n'
            'exchange = "100ms"\n'
        )

    first = Process(tmp_path / "a", config("eu", network(one, two)))
    first.teach(EXAMPLES)
    second = Process(tmp_path / "b", config("us", network(two, one)))
    peer = _peer(second, lambda p: p["messages"] > 0)
    assert (peer["name"], peer["alive"], peer["refused"]) == ("eu", True, 0)
    _soon(lambda: second.labels(0.0, 1.0) == ["no", "yes"])
    first.end(signal.SIGKILL)
    assert not _peer(second, lambda p: not p["alive"])["alive"]
    first = Process(tmp_path / "a", config("eu", network(one, two)))
    assert _peer(second, lambda p: p["alive"])["alive"]
    assert first.ask("/v2/models/default")["answers"] == 20
    assert first.end()[0] == 0 and second.end()[0] == 0


def _soon(true):
    deadline = time.monotonic() + 20
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _peer(node, wanted):
    deadline, peers = time.monotonic() + 20, []
    while time.monotonic() < deadline:
        peers = node.ask("/v2/models/default")["peers"]
        if peers and wanted(peers[0]):
            return peers[0]
        time.sleep(0.05)
    raise AssertionError(peers)


def test_lines_come_from_standard_input(tmp_path):
    node = Process(tmp_path, config(), "--stdin", stdin=subprocess.PIPE)
    lines = [json.dumps({"features": {"x": x}, "label": y}) for x, y in EXAMPLES]
    node.child.stdin.write(
        "\n".join([*lines, "rubbish", '{"id": "r", "features": {"x": 1}}']) + "\n"
    )
    node.child.stdin.flush()
    assert json.loads(node.child.stdout.readline())["label"] == "yes"
    assert node.ask("/v2/models/default")["examples"] == 20
    assert "standard input:21: found" in node.end()[1]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('name = "eu"\nmodle = 3', "found `modle`, expected `model`"),
        ('name = "eu"\n[model]\nalgorithm = "adaptiv"', "expected `adaptive`"),
        ('name = "eu"\n[http]\nlisten = "0.0.0.0:80"', "expected a loopback address"),
        ('name = "eu"\n[network]\nlisten = ["tcp/10.0.0.1:1"]', "without `identity`"),
        ('name = "eu"\n[network]\nexchange = "often"', "expected 1s, 100 answers or drift:0.1"),
        ('name = "eu"\nwaiting = 0', "`waiting` must be a whole number"),
        ('name = "eu"\nhash_bits = "many"', "`hash_bits`: found 'many', expected int"),
        ('name = "eu"\nmodel = 3', "[model] found 3, expected a table"),
        ('name = "eu"\nmodels = {}', "expected a table for every model"),
        ('name = "eu"\n[models."../x"]', "found the name '../x'"),
        ('name = "eu"\n[model]\nshare = 0.5', "for all but the first model"),
        ('name = "eu"\n[models.a]\n[models.b]\nshare = 1.5', "`share`: found 1.5"),
        ('name = "eu"\n[http]\nrate = 0', "`rate`: found 0, expected a number above 0"),
        ('name = "eu"\n[network]\nlisten = "tcp/127.0.0.1:1"', "`listen`: found"),
        ('name = "eu"\n[network]\nlisten = ["127.0.0.1:1"]', "expected tcp/HOST:PORT"),
        ('name = "eu"\n[network]\ntransport = "mqtt://h:1"', "found mqtt://h:1 without `identity`"),
        ('name = "eu"\n[network]\ncompress = "8bit"', "`compress`: found '8bit', expected float32"),
        (
            'name = "eu"\n[network]\naverage = "middle"',
            "`average`: found 'middle', expected clip:1",
        ),
        ("name = ", "Invalid value"),
        ("", "`name`: found none"),
    ],
)
def test_a_bad_file_is_one_line_and_exit_code_2(tmp_path, text, sentence):
    from click.testing import CliRunner

    from ddol.cli.app import app

    file = tmp_path / "node.toml"
    file.write_text(text)
    found = CliRunner().invoke(app, ["serve", str(file)])
    assert found.exit_code == 2
    [line] = found.stderr.splitlines()
    assert str(file) in line and sentence in line
