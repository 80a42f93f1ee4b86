"""Nodes as processes: `ddol serve` from its first line to SIGTERM."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import time
from types import SimpleNamespace

import pytest

from ddol.node.idle import IdleConnections
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


def test_every_model_sends_a_last_message(tmp_path):
    """Models share a transport, which is closed after the last of them."""
    [port] = free_ports(1)
    network = f'[network]\nlisten = ["tcp/127.0.0.1:{port}"]\nexchange = "1000 answers"\n'
    two = '[models.first]\nalgorithm = "adaptive"\n[models.second]\nalgorithm = "adaptive"\n'
    before, after = config(network=network).split("[model]\n")
    node = Process(tmp_path, f"{before}{two}{after[after.index('[http]') :]}")
    for model in ("first", "second"):
        node.teach(EXAMPLES, model)
    code, said = node.end()
    assert code == 0 and "ERROR" not in said


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


def test_no_line_ends_a_source(tmp_path):
    """Text that is none, objects as identifiers, deep nesting: each is one line of the log."""
    node = Process(tmp_path, config(), "--stdin", stdin=subprocess.PIPE)
    lines = [
        b"\xff\xfe", b"[" * 50_000, b'{"a":' * 3000 + b"1" + b"}" * 3000,
        b'{"id": {}, "features": {"x": 1}, "label": "no"}', b'{"id": "\\ud800", "features": {"x": 1}}',
        b'{"features": 5, "label": "no"}', b'{"features": {"x": 1}, "label": []}',
        b'{"features": {"x": 1}, "label": "yes"}', b'{"id": "r", "features": {"x": 1}}',
    ]  # fmt: skip
    node.child.stdin.buffer.write(b"\n".join(lines) + b"\n")
    node.child.stdin.flush()
    assert json.loads(node.child.stdout.readline())["id"] == "r"
    said = node.end()[1]
    assert said.count("ERROR standard input:") == 7 and "Traceback" not in said


def test_unfinished_requests_do_not_delay_the_end(tmp_path):
    node = Process(tmp_path, config())
    host, port = node.url.rpartition("/")[2].split(":")
    half = (
        b"POST /v2/models/default/infer HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\n{"
    )
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(half)
        assert node.ask("/v2/health/live")
        code, said = node.end()
    assert code == 0 and "Traceback" not in said


def test_connections_that_send_no_whole_request_are_ended():
    class Connection:
        def __init__(self, cycle=None, timer=None):
            self.cycle, self.timeout_keep_alive_task = cycle, timer

    def request(complete=False, more=False):
        return SimpleNamespace(response_complete=complete, more_body=more)

    silent, half, busy = Connection(), Connection(request(more=True)), Connection(request())
    kept, slow = Connection(request(complete=True), object()), Connection(request(complete=True))
    every, idle = [silent, half, busy, kept, slow], IdleConnections()
    assert idle.overdue(every, 0.0, 30.0) == [] == idle.overdue(every, 29.0, 30.0)
    slow.cycle = request(complete=True)  # another request has come meanwhile
    assert idle.overdue(every, 31.0, 30.0) == [silent, half]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('name = "eu"\nmodle = 3', "found `modle`, expected `model`"),
        ('name = "eu"\n[model]\nalgorithm = "adaptiv"', "expected `adaptive`"),
        ('name = "eu"\n[http]\nlisten = "0.0.0.0:80"', "expected a loopback address"),
        ('name = "eu"\n[network]\nlisten = ["tcp/10.0.0.1:1"]', "without `identity`"),
        ('name = "eu"\n[network]\nexchange = "often"', "expected 1s, 100 answers or drift:0.1"),
        ('name = "eu"\nwaiting = 0', "`waiting`: found 0, expected a whole number"),
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
