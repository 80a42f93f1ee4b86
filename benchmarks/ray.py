"""Actors of Ray against each other and against one core: ``python -m benchmarks.ray``.

The data are covtype ten times over, as Parquet by site. Contestants take turns, and the best of several
counts; the cluster's start is no part of it, and stands beside it.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks import data
from ddol.engines.ray.cluster import start as start_cluster
from ddol.streams.open import expand

TIMES, PERIOD = 10, 256
OPTIONS = ("--algorithm", "dogd", "--l2", "0", "--rate", "3", "--quiet")


def by_site(sites: int, times: int = TIMES) -> str:
    """The pattern of folders, one for each site; they are written once."""
    import polars

    root = data.KEPT / f"covtype-x{times}-in-{sites}"
    if not root.exists():
        found = data.arrays("covtype")
        for site in range(sites):
            X, y = found.X[site::sites], found.y[site::sites]
            columns = {f"f{j}": X[:, j] for j in range(X.shape[1])}
            frame = polars.DataFrame({"y": y.astype(np.int8), **columns})
            folder = root / f"site={site}"
            folder.mkdir(parents=True)
            whole = polars.concat([frame] * times)
            whole.write_parquet(
                folder / "part-0.parquet", row_group_size=max(1 << 13, (1 << 19) // sites)
            )
    return f"{root}/site=*/"


def command(files: str, *more: object) -> list[str]:
    """A run over all sites."""
    own = ["--agents", len(expand([files])), "--period", PERIOD, *OPTIONS, *more]
    return ["train", files, *map(str, own)]


def on_one_core(files: str) -> float:
    """Seconds that the engine local learns for, on one core."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "out.json")
        called = command(files, "--json", out, "--workers", 1)
        ddol = ["taskset", "-c", "0", sys.executable, "-m", "ddol"]
        subprocess.run([*ddol, *called], check=True)
        return float(json.loads(out.read_text())["seconds"])


def on_actors(files: str, workers: int) -> float:
    """Seconds that some actors learn for, in a cluster that is there."""
    from ddol.cli.app import app

    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "out.json")
        called = command(files, "--json", out, "--engine", "ray", "--workers", workers)
        app(called, standalone_mode=False)
        return float(json.loads(out.read_text())["seconds"])


def start(files: str) -> dict[str, float]:
    """Seconds of a command until its first example: the cluster's, the actors', and the rest."""
    began = time.perf_counter()
    called = command(files, "--engine", "ray", "--workers", 2, "--limit", 80_000)
    job = subprocess.Popen(
        [sys.executable, "-m", "ddol", *called], stderr=subprocess.PIPE, text=True
    )
    assert job.stderr is not None
    for line in job.stderr:
        found = re.search(r"Ray took ([\d.]+) s for the cluster, ([\d.]+) s for", line)
        if found:
            whole = time.perf_counter() - began
            cluster, actors = map(float, found.groups())
            job.communicate()
            return {"cluster": cluster, "actors": actors, "own": whole - cluster - actors}
    raise RuntimeError("the job has not said how long it took to start")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the seconds of everybody, and how many times faster two actors are."""
    import ray

    parser = argparse.ArgumentParser("python -m benchmarks.ray", description=__doc__)
    parser.add_argument(
        "--sites", type=int, default=64, help="agents, each with a folder of its own"
    )
    parser.add_argument("--turns", type=int, default=2, help="times that everybody runs")
    parser.add_argument("--only", choices=["start", "actors", "local"], help="one of them")
    asked = parser.parse_args(arguments)
    files = by_site(asked.sites)
    if asked.only in (None, "start"):
        print("start:", {name: round(seconds, 2) for name, seconds in start(files).items()})
    if asked.only == "start":
        return 0
    took: dict[str, list[float]] = {}
    start_cluster(ray, cores=2)
    for _ in range(asked.turns):
        if asked.only in (None, "local"):
            took.setdefault("local", []).append(on_one_core(files))
        if asked.only in (None, "actors"):
            for workers in (1, 2):
                took.setdefault(f"{workers} actors", []).append(on_actors(files, workers))
    ray.shutdown()
    best = {name: min(seconds) for name, seconds in took.items()}
    print({name: round(seconds, 2) for name, seconds in best.items()})
    for name in best if "2 actors" in best else ():
        print(f"2 actors against {name}: {best[name] / best['2 actors']:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
