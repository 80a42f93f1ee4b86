"""Nodes as processes: `ddol serve` from its first line to SIGTERM."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from typing import ClassVar

import pytest

from ports import free_ports


@pytest.fixture(autouse=True)
def _no_process_is_left():
    yield
    for child in Process.begun:
        if child.poll() is None:
            child.kill()
            child.wait()
    Process.begun.clear()


class Process:
    """A node that runs."""

    begun: ClassVar[list] = []

    def __init__(self, folder, text, *arguments, stdin=None):
        self.file = folder / "node.toml"
        self.file.write_text(text)
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        self.child = subprocess.Popen(
            [sys.executable, "-m", "ddol", "serve", str(self.file), *arguments],
            stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
        )  # fmt: skip
        self.begun.append(self.child)
        self.said = []
        for line in self.child.stderr:
            self.said.append(line)
            found = re.search(r"serves at (http\S+)", line)
            if found:
                self.url = found[1]
                return
        raise AssertionError("".join(self.said))

    def ask(self, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(f"{self.url}{path}", data, timeout=20) as answer:
            return json.load(answer)

    def teach(self, examples, model="default"):
        for k, (value, label) in enumerate(examples):
            name = f"{time.monotonic_ns()}-{k}"
            inputs = [{"name": "x", "shape": [1], "datatype": "FP64", "data": [value]}]
            self.ask(f"/v2/models/{model}/infer", {"id": name, "inputs": inputs})
            told = self.ask(f"/v2/models/{model}/feedback", {"id": name, "label": label})
            assert told["accepted"] == 1

    def labels(self, *values):
        told = {"name": "x", "shape": [len(values)], "datatype": "FP64", "data": list(values)}
        return self.ask("/v2/models/default/infer", {"inputs": [told]})["outputs"][0]["data"]

    def end(self, number=signal.SIGTERM):
        self.child.send_signal(number)
        _, rest = self.child.communicate(timeout=30)
        return self.child.returncode, "".join(self.said) + rest


def config(name="eu", network=""):
    return f'''name = "{name}"
store = "state"
classes = ["no", "yes"]
[model]
algorithm = "adaptive"
loss = "logistic"
[http]
listen = "127.0.0.1:0"
{network}'''


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
