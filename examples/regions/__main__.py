"""Three nodes on this machine, traffic with late labels, and a picture of how the error falls.

    python -m examples.regions [--seconds 30] [--out regions.svg]

Each region runs `ddol serve`. Customers of all regions click for the same reasons, but a region sees only its
own. Labels come two seconds late, one in ten never. The dotted line is a region that learns alone.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

REGIONS = ("eu", "us", "ap")
LATE, NEVER, RATE = 2.0, 0.1, 40.0
CONFIG = """name = "{name}"
store = "{name}-state"
classes = ["no", "yes"]
window = 300
[model]
algorithm = "adaptive"
loss = "logistic"
[http]
listen = "127.0.0.1:{http}"
"""
NETWORK = """[network]
listen = ["tcp/127.0.0.1:{own}"]
connect = {others}
exchange = "500ms"
"""


def free_ports(n: int) -> list[int]:
    """Free ports."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(n)]
    ports = [each.getsockname()[1] for each in held]
    for each in held:
        each.close()
    return ports


def begin(folder: Path) -> tuple[dict[str, int], list[subprocess.Popen]]:
    """Start the regions, and one that is alone; their ports and processes."""
    names = (*REGIONS, "alone")
    ports = free_ports(len(names) + len(REGIONS))
    http, gossip = dict(zip(names, ports, strict=False)), ports[len(names) :]
    processes = []
    for k, name in enumerate(names):
        text = CONFIG.format(name=name, http=http[name])
        if name != "alone":
            others = [f"tcp/127.0.0.1:{p}" for p in gossip if p != gossip[k]]
            text += NETWORK.format(own=gossip[k], others=json.dumps(others))
        file = folder / f"{name}.toml"
        file.write_text(text)
        command = [sys.executable, "-m", "ddol", "serve", str(file)]
        log = (folder / f"{name}.log").open("w")
        processes.append(subprocess.Popen(command, stderr=log, env=os.environ))
    return http, processes


async def ask(port: int, path: str, body: object = None) -> dict:
    """One request, in its own connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    text = b"" if body is None else json.dumps(body).encode()
    method = "GET" if body is None else "POST"
    head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n"
    writer.write(f"{head}Content-Length: {len(text)}\r\n\r\n".encode() + text)
    answer = await reader.read()
    writer.close()
    return json.loads(answer.partition(b"\r\n\r\n")[2])


def customer(rng: random.Random) -> tuple[list[dict], str]:
    """Features of one request, and whether there will be a click."""
    numbers = [rng.gauss(0.0, 1.0) for _ in range(48)]
    country = rng.choice(["fr", "de", "it", "jp", "us"])
    score = sum((0.8 if k % 3 else -0.6) * x for k, x in enumerate(numbers[:36])) + (
        country == "fr"
    )
    label = "yes" if rng.random() < 1.0 / (1.0 + math.exp(-1.5 * score)) else "no"
    inputs = [
        {"name": f"x{k}", "shape": [1], "datatype": "FP64", "data": [x]}
        for k, x in enumerate(numbers)
    ]
    inputs.append({"name": "country", "shape": [1], "datatype": "BYTES", "data": [country]})
    return inputs, label


async def traffic(name: str, port: int, seconds: float) -> None:
    """Requests of one region at random times, and their labels later."""
    rng, loop = random.Random(name), asyncio.get_running_loop()
    end, tasks = loop.time() + seconds, []

    async def one(number: int) -> None:
        inputs, label = customer(rng)
        identifier = f"{name}-{number}"
        await ask(port, "/v2/models/default/infer", {"id": identifier, "inputs": inputs})
        if rng.random() < NEVER:
            return
        await asyncio.sleep(LATE * rng.random() * 2.0)
        await ask(port, "/v2/models/default/feedback", {"id": identifier, "label": label})

    number = 0
    while loop.time() < end:
        tasks.append(asyncio.create_task(one(number)))
        number += 1
        await asyncio.sleep(rng.expovariate(RATE))
    await asyncio.gather(*tasks)


async def watch(http: dict[str, int], seconds: float) -> dict[str, list[tuple[int, float]]]:
    """Examples and error of the window of every node, twice a second."""
    seen: dict[str, list[tuple[int, float]]] = {name: [] for name in http}
    for _ in range(int(2 * seconds)):
        for name, port in http.items():
            told = await ask(port, "/v2/models/default")
            if told["examples"] > 50:
                seen[name].append((told["examples"], told["error_window"]))
        await asyncio.sleep(0.5)
    return seen


async def ready(port: int) -> None:
    """Wait until a node takes requests."""
    for _ in range(600):
        try:
            await ask(port, "/v2/health/ready")
            return
        except OSError:
            await asyncio.sleep(0.1)
    raise TimeoutError(f"no node at port {port}")


async def run(http: dict[str, int], seconds: float) -> dict[str, list[tuple[int, float]]]:
    """Traffic in all regions; what was seen."""
    await asyncio.gather(*(ready(port) for port in http.values()))
    print("live pages:", ", ".join(f"{n} http://127.0.0.1:{p}/" for n, p in http.items()))
    flows = [traffic(name, port, seconds) for name, port in http.items()]
    *_, seen = await asyncio.gather(*flows, watch(http, seconds))
    return seen


def draw(seen: dict[str, list[tuple[int, float]]], path: Path) -> None:
    """The error of the window over examples, as SVG."""
    top = max((e for points in seen.values() for _, e in points), default=0.5)
    most = max((n for points in seen.values() for n, _ in points), default=1)
    lines = []
    for k, (name, points) in enumerate(seen.items()):
        colour = ("#2274c5", "#d1495b", "#2e933c", "#555")[k % 4]
        dash = ' stroke-dasharray="4 4"' if name == "alone" else ""
        at = " ".join(f"{60 + 520 * n / most:.1f},{270 - 240 * e / top:.1f}" for n, e in points)
        lines.append(
            f'<polyline points="{at}" fill="none" stroke="{colour}"{dash} stroke-width="2"/>'
        )
        lines.append(f'<text x="590" y="{40 + 20 * k}" fill="{colour}">{name}</text>')
    path.write_text(
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 660 310" font-family="sans-serif" '
        'font-size="13"><rect width="660" height="310" fill="white"/>'
        '<path d="M60 30V270H580" fill="none" stroke="#999"/>'
        f'<text x="8" y="34">{100 * top:.0f} %</text><text x="20" y="274">0 %</text>'
        f'<text x="540" y="290">{most}</text><text x="250" y="300">labels of the region</text>'
        '<text x="66" y="22">error of the last 300 labels</text>' + "".join(lines) + "</svg>\n"
    )


def main() -> None:
    """Start, let traffic flow, draw, and stop."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--out", default="regions.svg")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="regions-") as folder:
        http, processes = begin(Path(folder))
        try:
            seen = asyncio.run(run(http, given.seconds))
        finally:
            for process in processes:
                process.send_signal(signal.SIGTERM)
            codes = [process.wait() for process in processes]
    draw(seen, Path(given.out))
    for name, points in seen.items():
        shown = f"{100 * points[-1][1]:.1f} %" if points else "no label yet"
        print(f"{name}: error of the last labels {shown}")
    print(f"{given.out} shows how it fell; all ended with exit codes {codes}")


if __name__ == "__main__":
    main()
