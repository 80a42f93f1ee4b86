"""Live nodes over Zenoh, beside the simulation that predicts them.

python -m benchmarks.network --only simulated     the same job simulated and live, 8 nodes
python -m benchmarks.network --only many          24 nodes for a while: errors, messages, memory
python -m benchmarks.network --only disturbed     predictions while peers stop, flood or send rubbish
python -m benchmarks.network --only sent          from a message's making to its average at a peer, mutual TLS
"""

from __future__ import annotations

import argparse
import json
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np

import ddol
from benchmarks.safe import examples
from ddol.node.gossip import Gossip
from ddol.node.transport.seals import NoSeals
from ddol.node.transport.zenoh import ZenohTransport, open_session, plain_settings

RATE, LABEL_DELAY, EXCHANGE = 60.0, 20, 50
"""Predictions a second and node; predictions until a label comes; answers between messages."""


@contextmanager
def nodes(n: int, algorithm: ddol.Algorithm, width: int) -> Iterator[list[ddol.Node]]:
    """Nodes that meet at a relay, and exchange."""
    with socket.create_server(("127.0.0.1", 0)) as held:
        place = [f"tcp/127.0.0.1:{held.getsockname()[1]}"]
    relay = open_session(plain_settings(place, [], "router"))
    found = [
        ddol.Node(f"n{k:02d}", algorithm, n_features=width, classes=[-1.0, 1.0]) for k in range(n)
    ]
    talks = [
        Gossip(node, ZenohTransport(node.name, plain_settings([], place), NoSeals()), f"{EXCHANGE} answers")
        for node in found
    ]  # fmt: skip
    while any(len(talk.living) < n - 1 for talk in talks):
        time.sleep(0.05)
    try:
        yield [talk.start().node for talk in talks]
    finally:
        for talk in talks:
            talk.close()
        relay.close()


def live(
    found: list[ddol.Node], X: np.ndarray, y: np.ndarray, rate: float, name: str = ""
) -> list[float]:
    """Rows dealt in turn, predicted at a rate and answered later; the times of predictions.

    Nodes begin one after the other within the time between two messages, so that these do not cross.
    """
    n, times, begun = len(found), [], time.perf_counter()
    each = len(y) // n
    for t in range(each + LABEL_DELAY + EXCHANGE):
        time.sleep(max(begun + t / rate - time.perf_counter(), 0.0))
        for k, node in enumerate(found):
            now = t - k * EXCHANGE // n
            late = now - LABEL_DELAY
            if 0 <= now < each:
                at = time.perf_counter()
                node.predict(X[n * now + k], id=f"{name}{n * now + k}")
                times.append(time.perf_counter() - at)
            if 0 <= late < each:
                node.answer(f"{name}{n * late + k}", y[n * late + k])
    return times


def simulated(seeds: int) -> None:
    """Progressive errors of the same job, simulated and live."""
    plain = ddol.adaptive("logistic")
    for name, made in (("safe", ddol.safe(plain)), ("plain", plain)):
        for seed in range(seeds):
            rows, labels = examples("cod-rna", seed, 16_000)
            conditions = ddol.Conditions(delay=LABEL_DELAY, latency=0.03 * RATE)
            job = {"schedule": "async", "period": EXCHANGE, "conditions": conditions}
            trace = ddol.run(made, (rows, labels), ddol.complete(8), **job)
            with nodes(8, made, rows.shape[1]) as found:
                live(found, rows, labels, RATE)
                error = float(np.mean([node.state()["error"] for node in found]))
                sent = sum(node.messages_sent for node in found)
            print(
                f"{name}, order {seed}: simulated {100 * trace.error:.2f} %, live {100 * error:.2f} %, "
                f"difference {100 * (error - trace.error):+.2f}; {trace.messages / 7:.0f} and {sent} "
                "messages",
                flush=True,
            )


def many(seconds: float) -> None:
    """24 nodes at once: whether errors fall, and what it takes."""
    X, y = examples("cod-rna", 0, 60_000)
    before, rate = time.process_time(), 20.0
    with nodes(24, ddol.safe(ddol.adaptive("logistic")), X.shape[1]) as found:
        rows = int(seconds * rate) * 24
        times, memory = [], []
        for part in range(4):
            half = slice(part * rows // 4, (part + 1) * rows // 4)
            times += live(found, X[half], y[half], rate, f"{part}-")
            memory.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
            states = [node.state() for node in found]
            print(
                f"after {states[0]['examples']} examples at each of 24 nodes: error "
                f"{100 * np.mean([s['error'] for s in states]):.2f} %, alone "
                f"{100 * np.mean([s['sites']['error_alone'] for s in states]):.2f} %; "
                f"{sum(s['messages_sent'] for s in states)} messages, all heard by "
                f"{np.mean([sum(p['messages'] > 0 for p in s['peers']) for s in states]):.1f} peers, "
                f"{sum(p['refused'] for s in states for p in s['peers'])} refused; {memory[-1]:.0f} MB",
                flush=True,
            )
    spent = time.process_time() - before
    print(
        f"a prediction: {1e6 * np.median(times):.0f} µs, 99 % within {1e6 * np.quantile(times, 0.99):.0f}; "
        f"{spent / seconds:.2f} processors for all nodes and the traffic"
    )


ATTACKER = """
import os, sys
from ddol.node.messages import read_message
from ddol.node.transport.seals import NoSeals
from ddol.node.transport.zenoh import ZenohTransport, plain_settings
how, place = sys.argv[1:]
while how == "busy":
    pass
transport = ZenohTransport("zz", plain_settings([], [place]), NoSeals())
blobs = []
transport.subscribe("default/weights", lambda _, blob: blobs.append(blob))
while not blobs:
    pass
message, number = read_message(blobs[0])._replace(sender="zz"), 0
while True:
    number += 1
    blob = message._replace(number=number).write() if how == "flood" else os.urandom(1000)
    transport.put("default/weights", blob)
"""


def disturbed() -> None:
    """The time of a request at one of three nodes, in turns with and without a peer at its worst."""
    X, y = examples("cod-rna", 0, 60_000)
    with tempfile.TemporaryDirectory() as folder, served(Path(folder)) as (ports, place, children):
        ask = [httpx.Client(base_url=f"http://127.0.0.1:{port}") for port in ports]
        row = iter(range(len(y)))

        def requests(count: int) -> np.ndarray:
            times = []
            for _ in range(count):
                k = next(row)
                client = ask[k % 3 if count < 1000 else 0]
                inputs = [
                    {
                        "name": "x",
                        "shape": [1, X.shape[1]],
                        "datatype": "FP64",
                        "data": X[k].tolist(),
                    }
                ]
                begun = time.perf_counter()
                client.post("/v2/models/default/infer", json={"id": str(k), "inputs": inputs})
                times.append(time.perf_counter() - begun)
                client.post("/v2/models/default/feedback", json={"id": str(k), "label": y[k]})
            return np.array(times)

        requests(900)
        for how in ("busy", "stopped", "flood", "rubbish"):
            calm, rough = [], []
            for _ in range(4):
                calm.append(requests(1000))
                if how == "stopped":
                    children[1].send_signal(signal.SIGSTOP)
                else:
                    attacker = subprocess.Popen([sys.executable, "-c", ATTACKER, how, place])
                    time.sleep(2.0)
                rough.append(requests(1000))
                if how == "stopped":
                    children[1].send_signal(signal.SIGCONT)
                else:
                    attacker.kill()
                    attacker.wait()
            for share in (0.5, 0.99):
                one, two = (np.median([np.quantile(t, share) for t in ts]) for ts in (calm, rough))
                print(f"{how}: {100 * share:.0f} % within {1e3 * one:.2f} ms calm, {1e3 * two:.2f} ms then: "
                      f"{two / one:.2f}", flush=True)  # fmt: skip
            peers = ask[0].get("/v2/models/default").json()["peers"]
            print([(p["name"], p["messages"], p["refused"]) for p in peers], flush=True)


@contextmanager
def served(folder: Path) -> Iterator[tuple[list[int], str, list[subprocess.Popen]]]:
    """Three nodes as processes: ports of HTTP, where attackers connect, and the processes."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(6)]
    ports = [each.getsockname()[1] for each in held]
    for each in held:
        each.close()
    places = [f"tcp/127.0.0.1:{port}" for port in ports[3:]]
    children = []
    for k, name in enumerate(("eu", "us", "ap")):
        file = folder / f"{name}.toml"
        file.write_text(
            f'name = "{name}"\nstore = "{name}"\nclasses = [-1.0, 1.0]\n[http]\n'
            f'listen = "127.0.0.1:{ports[k]}"\n[network]\nlisten = ["{places[k]}"]\n'
            f"connect = {json.dumps([p for p in places if p != places[k]])}\n"
        )
        log = (folder / f"{name}.log").open("w")
        children.append(subprocess.Popen([sys.executable, "-m", "ddol", "serve", file], stderr=log))
    try:
        for port in ports[:3]:
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port)).close()
                    break
                except OSError:
                    time.sleep(0.1)
        yield ports[:3], places[0], children
    finally:
        for child in children:
            child.terminate()
            child.wait()


def sent(count: int = 200, width: int = 1000) -> None:
    """Time from the making of a message to its average at a peer: encrypted, signed, over mutual TLS."""
    from ddol.node.identity.authority import Authority
    from ddol.node.identity.member import ask_to_join, take_answer
    from ddol.node.transport.members import MemberTransport

    rng, times, steps = np.random.default_rng(0), [], []
    with tempfile.TemporaryDirectory() as folder:
        authority = Authority.new(Path(folder, "net"), "trial")
        with socket.create_server(("127.0.0.1", 0)) as held:
            place = [f"tls/127.0.0.1:{held.getsockname()[1]}"]
        found, ways = [], []
        for name, listen, connect in (("eu", place, []), ("us", [], place)):
            home = Path(folder, name)
            answer = authority.answer(ask_to_join(authority.invite(name), home))
            ways.append(MemberTransport(take_answer(home, answer), listen, connect))
            found.append(ddol.Node(name, ddol.adaptive("logistic"), n_features=width))
            for _ in range(50):
                found[-1].learn(rng.standard_normal(width), bool(rng.random() < 0.5))

        def heard(sender: str | None, blob: bytes) -> None:
            begun = time.perf_counter()
            found[1].receive(blob, sender)
            times.append(time.perf_counter())
            steps.append(times[-1] - begun)

        ways[1].subscribe("default/weights", heard)
        ways[0].put("default/weights", found[0].message())
        while not times:
            time.sleep(0.05)
        taken = []
        for _ in range(count):
            found[0].learn(rng.standard_normal(width), True)
            before, begun = len(times), time.perf_counter()
            ways[0].put("default/weights", found[0].message())
            while len(times) == before and time.perf_counter() - begun < 5.0:
                time.sleep(0.001)
            taken.append(times[-1] - begun)
            time.sleep(0.06)  # members may send 20 a second
        for way in ways:
            way.close()
    half, most = (1e3 * float(np.quantile(taken, share)) for share in (0.5, 0.99))
    print(
        f"{width:,} features, mutual TLS on loopback, {count} messages of {len(found[0].message()):,} bytes: "
        f"from making one to having averaged with it {half:.2f} ms in the median, 99 % within {most:.2f} ms; "
        f"of that checking and averaging {1e3 * float(np.median(steps)):.2f} ms"
    )


def main() -> None:
    """All of it, or a part."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=("simulated", "many", "disturbed", "sent"))
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seeds", type=int, default=2)
    given = parser.parse_args()
    if given.only in (None, "simulated"):
        simulated(given.seeds)
    if given.only in (None, "many"):
        many(given.seconds)
    if given.only in (None, "disturbed"):
        disturbed()
    if given.only in (None, "sent"):
        sent()


if __name__ == "__main__":
    main()
