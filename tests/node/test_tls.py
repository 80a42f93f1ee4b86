"""The server: TLS of both sides, limits, models to begin with, and signals at its start."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

import ddol
from ddol.cli.app import app
from ddol.node.errors import NodeError
from ddol.node.exporting import begin_with, model_bytes
from ddol.node.node import Node
from served import Process, config


@pytest.fixture(autouse=True)
def _no_process_is_left():
    yield
    Process.end_all()


DAY = datetime.timedelta(days=1)


def signed(name, issuer=None):
    """A certificate and its key; signed by itself where no issuer is given."""
    key = ec.generate_private_key(ec.SECP256R1())
    called = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    by, signer = (called, key) if issuer is None else (issuer[0].subject, issuer[1])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(called).issuer_name(by).public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - DAY).not_valid_after(now + DAY)
        .add_extension(x509.BasicConstraints(issuer is None, None), True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), False)
    )  # fmt: skip
    return made.sign(signer, hashes.SHA256()), key


def write(folder, name, pair):
    certificate, key = pair
    (folder / f"{name}.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    form = serialization.PrivateFormat.PKCS8
    text = key.private_bytes(serialization.Encoding.PEM, form, plain)
    (folder / f"{name}.key").write_bytes(text)


def greet(folder, port, client):
    """Who the server says it is, and its answer to a client with a certificate, or with none."""
    context = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    if client is not None:
        context.load_cert_chain(folder / f"{client}.pem", folder / f"{client}.key")
    with (
        socket.create_connection(("127.0.0.1", port), timeout=20) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as door,
    ):
        name = door.getpeercert()["subject"][0][0][1]
        door.sendall(b"GET /v2/health/ready HTTP/1.1\r\nHost: localhost\r\n\r\n")
        return name, door.recv(1000).partition(b"\r\n")[0]


def test_certificates_of_both_sides_and_files_read_again(tmp_path):
    ca, other = signed("ca"), signed("other")
    write(tmp_path, "ca", ca)
    for name, issuer in (("one", ca), ("two", ca), ("client", ca), ("stranger", other)):
        write(tmp_path, name, signed(name, issuer))
    for end in ("pem", "key"):
        (tmp_path / f"now.{end}").write_bytes((tmp_path / f"one.{end}").read_bytes())
    (tmp_path / "clients.pem").write_bytes((tmp_path / "ca.pem").read_bytes())
    text = config().replace("[model]", 'logs = "json"\n[model]')
    node = Process(
        tmp_path, f'{text}certificate = "now.pem"\nkey = "now.key"\nclients = "clients.pem"\n'
    )
    port = int(node.url.rpartition(":")[2].split('"')[0])
    assert node.url.startswith("https://")
    assert greet(tmp_path, port, "client") == ("one", b"HTTP/1.1 200 OK")
    for client in (None, "stranger"):
        with contextlib.suppress(OSError):  # an alert, or the end of the connection
            assert greet(tmp_path, port, client)[1] == b""

    def again(**files):
        for name, text in files.items():
            (tmp_path / name.replace("_", ".")).write_bytes(text)
        node.child.send_signal(signal.SIGHUP)
        return json.loads(node.child.stderr.readline())["message"]

    new = {f"now_{end}": (tmp_path / f"two.{end}").read_bytes() for end in ("pem", "key")}
    assert "are read" in again(**new)
    assert greet(tmp_path, port, "client") == ("two", b"HTTP/1.1 200 OK")
    assert "of before stay" in again(now_key=(tmp_path / "one.key").read_bytes())
    assert greet(tmp_path, port, "client")[0] == "two"
    write(tmp_path, "clients", other)  # those of the old authority are clients no more
    assert "are read" in again(**new)
    with contextlib.suppress(OSError):
        assert greet(tmp_path, port, "client")[1] == b""
    assert greet(tmp_path, port, "stranger") == ("two", b"HTTP/1.1 200 OK")
    code, said = node.end()
    assert code == 0 and all(json.loads(line) for line in said.splitlines())


def test_more_connections_than_allowed_are_refused_in_json(tmp_path):
    node = Process(tmp_path, config() + "connections = 2\n")
    port = int(node.url.rpartition(":")[2])
    request = b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with contextlib.ExitStack() as stack:
        answers = []
        for _ in range(3):
            door = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=20))
            door.sendall(request)
            answers.append(b"")
            while not answers[-1].endswith(b"}"):
                answers[-1] += door.recv(1000)
    assert [a[9:12] for a in answers] == [b"200", b"200", b"503"]
    assert "connections" in json.loads(answers[2].partition(b"\r\n\r\n")[2])["error"]
    node.child.send_signal(signal.SIGHUP)  # without TLS there is nothing to read again
    assert node.end()[0] == 0


def test_a_bad_token_file_is_told_at_the_start(tmp_path):
    (tmp_path / "node.toml").write_text(config() + 'token_file = "nowhere"\n')
    found = subprocess.run(
        [sys.executable, "-m", "ddol", "serve", str(tmp_path / "node.toml")],
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        timeout=60, check=False,
    )  # fmt: skip
    assert found.returncode == 2 and "nowhere" in found.stderr.splitlines()[-1]


@pytest.mark.parametrize("pause", [0.0, 0.05, 0.2])
def test_a_signal_at_the_start_ends_in_order(tmp_path, pause):
    """Between the first line of the program and the first request: exit code 0, and the store is whole."""
    (tmp_path / "node.toml").write_text(config())
    script = "import sys, threading\nfrom ddol.cli import app, serve\nprint('begun', flush=True)\n"
    child = subprocess.Popen(
        [sys.executable, "-c", f"{script}app.app(['serve', sys.argv[1]])", str(tmp_path / "node.toml")],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    Process.begun.append(child)
    assert child.stdout.readline() == "begun\n"
    time.sleep(0.02 + pause)
    child.send_signal(signal.SIGTERM)
    _, said = child.communicate(timeout=60)
    assert child.returncode == 0, said


@pytest.mark.parametrize("trained", [[], ["--safe"], ["--agents", "1"]])
def test_a_node_begins_with_a_model(tmp_path, trained):
    """Of a safe run, or of a plain one, which both of the node's learners go on from."""
    X = np.random.default_rng(0).standard_normal((300, 2))
    label = np.where(X[:, 0] > X[:, 1], "yes", "no")
    file, model = tmp_path / "train.csv", tmp_path / "model.ddol"
    pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "label": label}).to_csv(file, index=False)
    arguments = ["train", str(file), "--algorithm", "adaptive", "--model", str(model), *trained]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    node = Node("eu", classes=["no", "yes"])
    begin_with(node, str(model))
    rows = X[np.abs(X[:, 0] - X[:, 1]) > 0.3]
    frame = pd.DataFrame({"b": rows[:, 1], "a": rows[:, 0]})
    assert [p.label for p in node.predict_many(frame)] == ddol.load(model).predict(frame).tolist()
    for x in rows[:50].tolist():
        node.learn({"a": x[0], "b": x[1]}, "yes" if x[0] > x[1] else "no")
    assert (
        node.state()["sites"]["error_alone"] < 0.1 and node.state()["sites"]["error_shared"] < 0.1
    )


def test_a_model_of_labels_as_they_came_goes_on(tmp_path):
    node, other = Node("eu"), Node("us")
    for k in range(50):
        node.learn({"x": k % 2}, "yes" if k % 2 else "no")
    (tmp_path / "model.ddol").write_bytes(model_bytes(node))
    begin_with(other, str(tmp_path / "model.ddol"))
    assert [other.predict({"x": x}).label for x in (0, 1)] == ["no", "yes"]
    with pytest.raises(NodeError, match=r"found a model with rate=1.0 \(here 2.0\), expected"):
        begin_with(
            Node("ap", ddol.safe(ddol.adaptive("logistic", rate=2.0))), str(tmp_path / "model.ddol")
        )


def test_serve_begins_with_a_model(tmp_path):
    node = Node("eu", classes=["no", "yes"])
    for k in range(50):
        node.learn({"x": k % 2}, "yes" if k % 2 else "no")
    (tmp_path / "model.ddol").write_bytes(model_bytes(node))
    served = Process(tmp_path, config(), "--initial", str(tmp_path / "model.ddol"))
    assert served.labels(0.0, 1.0) == ["no", "yes"]
    assert served.end()[0] == 0
