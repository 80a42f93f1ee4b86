"""Three organisations over slow lines that lose packets, one of them cut off for a while."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import pytest
from tests.hostile.wide_area import WideArea

SITES = ("eu", "us", "ap")
CONFIG = """name = "{name}"
store = "{name}-state"
classes = ["no", "yes"]
window = 500
[http]
listen = "127.0.0.1:8001"
[network]
listen = ["tls/{own}:7001"]
connect = {others}
identity = "{name}-identity"
exchange = "500ms"
"""


def ddol(folder, *words):
    command = [sys.executable, "-m", "ddol", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    return done.stdout


def members(folder):
    """An authority, and an identity for every site."""
    ddol(folder, "network", "new", "world")
    for name in SITES:
        told = ddol(folder, "network", "invite", name, "--folder", "world")
        invitation = next(w for w in told.split() if w.startswith("ddol-invitation-"))
        ddol(folder, "network", "join", invitation, "--folder", f"{name}-identity")


class Site:
    """A node on a host, and its clients."""

    def __init__(self, area, folder, name):
        self.area, self.name, self.wrong, self.asked, self.slowest = area, name, 0, 0, 0.0
        others = json.dumps([f"tls/{a}:7001" for n, a in area.address.items() if n != name])
        file = folder / f"{name}.toml"
        file.write_text(CONFIG.format(name=name, own=area.address[name], others=others))
        self.log = (folder / f"{name}.log").open("a")
        command = area.command(name, [sys.executable, "-m", "ddol", "serve", str(file)])
        self.child = subprocess.Popen(command, stderr=self.log)

    def ask(self, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(f"http://127.0.0.1:8001{path}", data, 10) as reply:
            return json.load(reply)

    def ready(self):
        for _ in range(600):
            try:
                return self.ask("/v2/health/ready")
            except OSError:
                time.sleep(0.1)
        raise AssertionError(f"{self.name} does not begin")

    def peers(self):
        return {p["name"]: p for p in self.ask("/v2/models/default")["peers"]}

    def learn(self, seconds, rate):
        """Predict and answer, as often a second; the stream is the same in every run."""
        rng, begun = random.Random(self.name), time.monotonic()
        for k in range(int(seconds * rate)):
            time.sleep(max(begun + k / rate - time.monotonic(), 0.0))
            x = [rng.gauss(0.0, 1.0) for _ in range(20)]
            label = "yes" if sum(x) + 2.0 * rng.gauss(0.0, 1.0) > 0 else "no"
            inputs = [{"name": "x", "shape": [1, 20], "datatype": "FP64", "data": x}]
            sent = time.monotonic()
            told = self.ask("/v2/models/default/infer", {"id": str(k), "inputs": inputs})
            self.slowest = max(self.slowest, time.monotonic() - sent)
            self.wrong += told["outputs"][0]["data"] != [label]
            self.asked += 1
            told = self.ask("/v2/models/default/feedback", {"id": str(k), "label": label})
            assert told["accepted"] == 1


def play(folder, delay, loss, seconds, cut, rate):
    """Traffic at all sites, one of which is cut off in the middle; the error, and how long it was away."""
    area = WideArea(SITES, delay, loss)
    sites = {name: Site(area, folder, name) for name in SITES}
    failed, back = [], []

    def within(site, work):
        def watched():
            try:
                work()
            except BaseException as error:
                failed.append((site.name, error))

        return area.run(site.name, watched)

    def all_hear(site, least=None):
        """Wait until a site hears all others, each more often than before."""
        for _ in range(1200):
            peers = site.peers()
            if len(peers) == 2 and all(
                p["alive"] and p["messages"] > (least or {}).get(n, 0) for n, p in peers.items()
            ):
                return
            time.sleep(0.1)
        raise AssertionError(f"{site.name} hears {peers}")

    try:
        for thread in [within(s, s.ready) for s in sites.values()]:
            thread.join()
        clients = [within(s, lambda s=s: s.learn(seconds, rate)) for s in sites.values()]
        if cut:
            time.sleep(seconds / 4)
            area.cut.add("us")
            time.sleep(cut)
            counts = {}

            def count(site):
                counts[site.name] = {n: p["messages"] for n, p in site.peers().items()}

            for site in sites.values():
                within(site, lambda s=site: count(s)).join()
            area.cut.clear()
            begun = time.monotonic()
            for thread in [
                within(s, lambda s=s: all_hear(s, counts[s.name])) for s in sites.values()
            ]:
                thread.join()
            back.append(time.monotonic() - begun)
        for thread in clients:
            thread.join()
        within(sites["us"], lambda: all_hear(sites["us"])).join()
        assert not failed, failed
    finally:
        for site in sites.values():
            site.child.send_signal(signal.SIGTERM)
        codes = [site.child.wait(60) for site in sites.values()]
        area.close()
    assert codes == [0, 0, 0]
    asked = sum(s.asked for s in sites.values())
    return {
        "error": sum(s.wrong for s in sites.values()) / asked,
        "examples": asked, "lost": area.lost, "packets": area.carried,
        "back after": back, "slowest prediction": max(s.slowest for s in sites.values()),
    }  # fmt: skip


@pytest.fixture
def spaces():
    if os.geteuid() or not Path("/dev/net/tun").exists():
        pytest.skip("namespaces and TUN devices need root")
    try:
        WideArea(["probe"], 0.0, 0.0).close()
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"this machine has no network namespaces: {error}")


def test_packets_take_their_time_and_some_are_lost(spaces):
    area = WideArea(["one", "two"], 0.05, 0.0)
    times, place, listening = [], (area.address["two"], 7000), threading.Event()

    def answer():
        import socket

        with socket.create_server(place) as server:
            listening.set()
            server.accept()[0].close()

    def ask():
        import socket

        assert listening.wait(10.0)
        begun = time.monotonic()
        socket.create_connection(place, 10.0).close()
        times.append(time.monotonic() - begun)

    for thread in (area.run("two", answer), area.run("one", ask)):
        thread.join(20.0)
    area.close()
    assert times and times[0] >= 0.1  # there and back


@pytest.mark.hostile
def test_three_sites_rejoin_by_themselves(spaces, tmp_path):
    """50 ms, 1 % loss and a partition: all rejoin, and errors are those of an undisturbed network."""
    seconds = float(os.environ.get("DDOL_SECONDS", "120"))
    cut = float(os.environ.get("DDOL_CUT", "60"))
    found = {}
    for how, (delay, loss, away) in {"calm": (0.0, 0.0, 0.0), "rough": (0.05, 0.01, cut)}.items():
        folder = tmp_path / how
        folder.mkdir()
        members(folder)
        found[how] = play(folder, delay, loss, seconds, away, 40.0)
        print(how, found[how], flush=True)
    assert abs(found["rough"]["error"] - found["calm"]["error"]) <= 0.005
