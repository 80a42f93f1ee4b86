"""Nodes that are killed, stopped and flooded while traffic flows: long, mostly waiting."""

from __future__ import annotations

import http.client
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
import urllib.request

import pytest

from ddol.node.replay import replay_store
from ports import free_ports

pytestmark = pytest.mark.hostile
KILLS = int(os.environ.get("DDOL_KILLS", "100"))


class Region:
    """A node that is started again after every kill, and a client that notes what was acknowledged."""

    def __init__(self, folder, name, http, own, others):
        self.folder, self.name, self.port = folder, name, http
        self.acknowledged, self.unsure, self.latencies = set(), set(), []
        connect = json.dumps([f"tcp/127.0.0.1:{p}" for p in others])
        (folder / f"{name}.toml").write_text(
            f'name = "{name}"\nstore = "{name}"\nclasses = ["no", "yes"]\nwaiting = 500000\nkeep_all = true\n'
            f'[http]\nlisten = "127.0.0.1:{http}"\n'
            f'[network]\nlisten = ["tcp/127.0.0.1:{own}"]\nconnect = {connect}\nexchange = "200ms"\n'
        )
        self.child = None
        self.start()

    def start(self):
        log = (self.folder / f"{self.name}.log").open("a")
        command = [sys.executable, "-m", "ddol", "serve", str(self.folder / f"{self.name}.toml")]
        self.child = subprocess.Popen(command, stderr=log)

    def kill(self):
        self.child.send_signal(signal.SIGKILL)
        self.child.wait()
        self.start()

    def ask(self, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(
            f"http://127.0.0.1:{self.port}{path}", data, timeout=10
        ) as answer:
            return json.load(answer)

    def traffic(self, ended):
        rng, number = random.Random(self.name), 0
        while not ended.is_set():
            number += 1
            x, name = [rng.gauss(0, 1) for _ in range(5)], f"{self.name}-{number}"
            inputs = [
                {"name": f"x{k}", "shape": [1], "datatype": "FP64", "data": [v]}
                for k, v in enumerate(x)
            ]
            label = {"id": name, "label": "yes" if sum(x) > 0 else "no"}
            self.until(
                lambda i=inputs, n=name: self.ask(
                    "/v2/models/default/infer", {"id": n, "inputs": i}
                ),
                ended,
            )
            told = self.until(lambda la=label: self.ask("/v2/models/default/feedback", la), ended)
            if told is not None and told["accepted"] + told["duplicate"] == 1:
                self.acknowledged.add(name)

    def until(self, ask, ended):
        """Ask until there is an answer: clients try again."""
        while not ended.is_set():
            try:
                begun = time.perf_counter()
                found = ask()
                self.latencies.append(time.perf_counter() - begun)
                return found
            except (OSError, http.client.HTTPException):
                time.sleep(0.02)
        return None


def test_kills_lose_nothing(tmp_path):
    """KILLS kills of random nodes under load: no acknowledged answer is lost, none is counted twice."""
    names = ("eu", "us", "ap")
    ports = free_ports(6)
    regions = [
        Region(tmp_path, n, ports[k], ports[3 + k], [p for p in ports[3:] if p != ports[3 + k]])
        for k, n in enumerate(names)
    ]
    ended, rng = threading.Event(), random.Random(0)
    clients = [threading.Thread(target=r.traffic, args=(ended,)) for r in regions]
    for client in clients:
        client.start()
    for _ in range(KILLS):
        time.sleep(rng.uniform(0.3, 1.5))
        rng.choice(regions).kill()
    for region in regions:
        region.until(lambda r=region: r.ask("/v2/health/ready"), ended)
    ended.set()
    for client in clients:
        client.join()
    for region in regions:
        region.child.send_signal(signal.SIGTERM)
        assert region.child.wait(30) == 0
    total = 0
    for region in regions:
        found = replay_store(tmp_path / region.name / "default")
        done = {n for n, became in found.agent.room.done.items() if became == "answered"}
        assert region.acknowledged <= done
        assert found.agent.examples == len(done) and found.wrong == []
        total += len(region.acknowledged)
    print(f"{KILLS} kills, {total} acknowledged answers, none lost, none counted twice")
