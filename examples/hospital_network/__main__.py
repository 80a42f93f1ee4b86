"""Five hospitals that can only connect outwards, with certificates, and a relay that cannot read into them.

    python -m examples.hospital_network [--seconds 20]

Every hospital has a key that never leaves its folder; the relay passes on signed messages and can write none.
Patients differ a little from one hospital to the next, and one codes its outcome the other way round: it is
better off alone, and is.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from examples.regions.__main__ import ask, free_ports, ready

SITES = ("alpha", "beta", "gamma", "delta", "epsilon")
CONFIG = """name = "{name}"
store = "{name}-state"
classes = ["ill", "well"]
window = 300
[model]
algorithm = "adaptive"
loss = "logistic"
[http]
listen = "127.0.0.1:{http}"
[network]
connect = ["tls/127.0.0.1:{relay}"]
identity = "{name}-identity"
exchange = "500ms"
"""


def ddol(*words: str, folder: Path) -> str:
    """One command of ddol; what it prints."""
    command = [sys.executable, "-m", "ddol", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return done.stdout


def invite(name: str, folder: Path, *more: str) -> None:
    """Let a site join: in life the invitation travels, and the key is made where the site is."""
    told = ddol("network", "invite", name, "--folder", "clinics", *more, folder=folder)
    invitation = next(word for word in told.split() if word.startswith("ddol-invitation-"))
    ddol("network", "join", invitation, "--folder", f"{name}-identity", folder=folder)


def begin(folder: Path) -> tuple[dict[str, int], list[subprocess.Popen]]:
    """The authority, the relay and the hospitals."""
    ddol("network", "new", "clinics", folder=folder)
    invite("relay", folder, "--relay")
    for name in SITES:
        invite(name, folder)
    *ports, relay = free_ports(len(SITES) + 1)
    http = dict(zip(SITES, ports, strict=True))
    place = f"tls/127.0.0.1:{relay}"
    commands = [["relay", "--listen", place, "--identity", "relay-identity"]]
    for name in SITES:
        text = CONFIG.format(name=name, http=http[name], relay=relay)
        (folder / f"{name}.toml").write_text(text)
        commands.append(["serve", f"{name}.toml"])
    processes = []
    for words in commands:
        log = (folder / f"{words[1].strip('-')}.log").open("w")
        command = [sys.executable, "-m", "ddol", *words]
        processes.append(subprocess.Popen(command, cwd=folder, stderr=log, env=os.environ))
    return http, processes


async def patients(name: str, port: int, seconds: float) -> None:
    """Patients of one hospital, and what became of them."""
    rng, loop = random.Random(name), asyncio.get_running_loop()
    shift, end, number = rng.gauss(0.0, 0.3), loop.time() + seconds, 0
    while loop.time() < end:
        number += 1
        numbers = [rng.gauss(shift, 1.0) for _ in range(30)]
        well = sum(x if k % 2 else -x for k, x in enumerate(numbers)) + rng.gauss(0.0, 1.0) > 0
        label = "well" if well != (name == "epsilon") else "ill"
        inputs = [
            {"name": f"m{k}", "shape": [1], "datatype": "FP64", "data": [x]}
            for k, x in enumerate(numbers)
        ]
        await ask(port, "/v2/models/default/infer", {"id": f"p{number}", "inputs": inputs})
        await ask(port, "/v2/models/default/feedback", {"id": f"p{number}", "label": label})
        await asyncio.sleep(rng.expovariate(30.0))


async def run(http: dict[str, int], seconds: float) -> None:
    """Patients everywhere, then a table of who was helped."""
    await asyncio.gather(*(ready(port) for port in http.values()))
    await asyncio.gather(*(patients(name, port, seconds) for name, port in http.items()))
    print(
        f"{'site':10}{'patients':>9}{'error':>9}{'alone':>9}{'shared':>9}{'on sharing':>12}  helped  peers"
    )
    for name, port in http.items():
        told = await ask(port, "/v2/models/default")
        site = told["sites"]
        shares = [
            100 * site.get(key, 0.0) for key in ("error_alone", "error_shared", "weight_shared")
        ]
        there = sum(peer["alive"] for peer in told["peers"])
        print(
            f"{name:10}{told['examples']:9}{100 * told['error']:8.1f}%{shares[0]:8.1f}%{shares[1]:8.1f}%"
            f"{shares[2]:11.0f}%  {site.get('helped', ''):7} {there}"
        )


def main() -> None:
    """Set up, let patients come, show, and stop."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hospitals-") as folder:
        http, processes = begin(Path(folder))
        try:
            asyncio.run(run(http, given.seconds))
        finally:
            for process in reversed(processes):
                process.send_signal(signal.SIGTERM)
            codes = [process.wait() for process in processes]
            if any(codes):
                print(
                    json.dumps(
                        {p.name: p.read_text()[-500:] for p in Path(folder).glob("*.log")}, indent=1
                    )
                )
    print(f"all ended with exit codes {codes}")


if __name__ == "__main__":
    main()
