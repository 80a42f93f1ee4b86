"""What a node costs: single calls, HTTP beside scikit-learn behind a bare Starlette app, messages.

    python -m benchmarks.node [--http]

Ratios to what peers take in the same run are what counts: times are of this machine, now.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import ddol

SECONDS, FEATURES = 5, 32


def timed(call: Callable[[int], object], n: int = 4000) -> float:
    """Microseconds of one call: the median over five pieces."""
    times = []
    for piece in range(5):
        begun = time.perf_counter()
        for k in range(n // 5):
            call(piece * n // 5 + k)
        times.append((time.perf_counter() - begun) / (n // 5))
    return 1e6 * sorted(times)[2]


def single_calls() -> None:
    """Node.predict and Node.answer, for arrays, dictionaries and hashed columns."""
    rng = np.random.default_rng(0)
    arrays = rng.standard_normal((6000, 20))
    names = [f"feature {k}" for k in range(20)]
    dicts = [dict(zip(names, x, strict=True)) for x in arrays.tolist()]
    wide = [{f"w{j}": 1.0 for j in rng.integers(0, 10_000, 50).tolist()} for _ in range(6000)]
    river = _river(dicts)
    kinds = {
        "20 numbers as an array": (arrays, {}, (10, 15)),
        "20 numbers by name": (dicts, {}, (20, 25)),
        "50 of 2^18 hashed": (wide, {"hash_bits": 18}, (40, 40)),
    }
    print(f"river, predict_one and learn_one: {river[0]:.1f} and {river[1]:.1f} µs")
    for made, algorithm in (
        ("adaptive", ddol.adaptive("logistic")), ("safe", ddol.safe(ddol.adaptive("logistic"))),
    ):  # fmt: skip
        for kind, (rows, options, goal) in kinds.items():
            for store in (False, True):
                with tempfile.TemporaryDirectory() as folder:
                    path = folder if store else None
                    node = ddol.Node(
                        "n", algorithm, waiting=10_000, store=path, classes=[0, 1], **options
                    )
                    for k in range(1000):
                        node.learn(rows[k], k % 2)
                    predict = timed(lambda k, n=node, r=rows: n.predict(r[k + 1000], id=str(k)))
                    answer = timed(lambda k, n=node: n.answer(str(k), k % 2))
                    node.close()
                kept = "with a store" if store else "in memory"
                print(
                    f"{made}, {kind}, {kept}: predict {predict:.1f} µs (goal {goal[0]}), answer "
                    f"{answer:.1f} µs (goal {goal[1]}); {predict / river[0]:.1f} and "
                    f"{answer / river[1]:.1f} times river's"
                )


def _river(dicts: list[dict]) -> tuple[float, float]:
    from river.linear_model import LogisticRegression

    model = LogisticRegression()
    for k in range(1000):
        model.learn_one(dicts[k], k % 2)
    predict = timed(lambda k: model.predict_one(dicts[k + 1000]))
    return predict, timed(lambda k: model.learn_one(dicts[k + 1000], k % 2))


# --- HTTP -------------------------------------------------------------------------------------------

PEER = """
import msgspec, numpy as np, sys, uvicorn
from sklearn.linear_model import SGDClassifier
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route
model = SGDClassifier(loss="log_loss")
model.partial_fit(np.random.default_rng(0).standard_normal((100, 32)), np.arange(100) % 2, [0, 1])
async def infer(request):
    told = msgspec.json.decode(await request.body())
    x = np.array([[t["data"][0] for t in told["inputs"]]])
    p = model.predict_proba(x)[0].tolist()
    return Response(msgspec.json.encode({"outputs": [{"name": "probability", "data": p}]}))
app = Starlette(routes=[Route("/v2/models/default/infer", infer, methods=["POST"])])
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="error")
"""

SCRIPT = """
wrk.method = "POST"
wrk.body = [[BODY]]
wrk.headers["Content-Type"] = "application/json"
"""


def over_http() -> None:
    """Requests a second with wrk, of a node and of a bare Starlette app with scikit-learn."""
    inputs = [
        {"name": f"f{k}", "shape": [1], "datatype": "FP64", "data": [0.25 * k]}
        for k in range(FEATURES)
    ]
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        script = here / "post.lua"
        script.write_text(SCRIPT.replace("BODY", json.dumps({"inputs": inputs})))
        for name, command in (
            ("starlette and scikit-learn", [sys.executable, "-c", PEER, "PORT"]),
            ("node", [sys.executable, "-m", "ddol", "serve", str(here / "node.toml")]),
        ):
            with socket.create_server(("127.0.0.1", 0)) as held:
                port = held.getsockname()[1]
            (here / "node.toml").write_text(
                f'name = "n"\nclasses = [0, 1]\n[http]\nlisten = "127.0.0.1:{port}"\n'
            )
            given = [str(port) if each == "PORT" else each for each in command]
            child = subprocess.Popen(given, stderr=subprocess.DEVNULL)
            try:
                _wait(port)
                place = f"http://127.0.0.1:{port}/v2/models/default/infer"
                begun = cpu_seconds(child.pid)
                told = subprocess.run(
                    ["wrk", "-t1", "-c16", f"-d{SECONDS}s", "--latency", "-s", str(script), place],
                    capture_output=True, text=True, check=True,
                ).stdout  # fmt: skip
                kept = [
                    x.strip()
                    for x in told.splitlines()
                    if any(w in x for w in ("Requests/sec", "50%", "99%", "Non-2xx"))
                ]
                requests = int(next(x for x in told.splitlines() if "requests in" in x).split()[0])
                spent = 1e6 * (cpu_seconds(child.pid) - begun) / requests
                print(f"{name}: {'; '.join(kept)}; {spent:.0f} µs of processor time a request")
            finally:
                child.terminate()
                child.wait()


def cpu_seconds(process: int) -> float:
    """Processor time of a process so far, which others on the machine change little."""
    times = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:13]
    return sum(map(int, times)) / os.sysconf("SC_CLK_TCK")


def _wait(port: int) -> None:
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except OSError:
            time.sleep(0.1)


def messages() -> None:
    """From an answer to another node's weights, and what a message costs, D = 1,000."""
    rng = np.random.default_rng(0)
    one, two = (ddol.Node(n, n_features=1000, classes=[0, 1]) for n in ("one", "two"))
    for k in range(50):
        for node in (one, two):
            node.learn(rng.standard_normal(1000), k % 2)
    took = timed(lambda _: two.receive(one.message()), 200)
    print(f"a message of 1,000 features, made, checked and averaged: {took:,.0f} µs, "
          f"{len(one.message()):,} bytes")  # fmt: skip


def main() -> None:
    """All of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--http", action="store_true", help="with wrk, beside scikit-learn")
    given = parser.parse_args()
    single_calls()
    messages()
    if given.http:
        over_http()


if __name__ == "__main__":
    main()
