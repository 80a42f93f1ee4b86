"""Two workers against one, both in one go: ``python -m benchmarks.engines``.

Contestants take turns, so that a busy machine is busy for all of them, and the best of several turns
counts. Beside each measured speed-up stands what the cost model (`ddol.lab.plan`) expects.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import ddol
from benchmarks import data
from benchmarks.programs import call
from ddol.engines.mpi.job import find_mpiexec
from ddol.lab.plan import measured, plan

AGENTS = 64


@dataclass(frozen=True)
class Speedup:
    """Seconds of one worker and of two, and how many times faster two should be."""

    what: str
    alone: float
    together: float
    expected: float | None
    goal: float | None

    @property
    def factor(self) -> float:
        return self.alone / self.together


def threads(turns: int, examples: int | None) -> list[Speedup]:
    """A whole run over dense covtype in memory, on one thread and on two."""
    found = data.arrays("covtype", examples)
    costs = measured("threads")
    speedups = []
    for name, graph, period, goal in (
        ("complete, period 1", ddol.complete(AGENTS), 1, 1.4),
        ("complete, period 64", ddol.complete(AGENTS), 64, 1.7),
        ("ring, period 1", ddol.ring(AGENTS), 1, None),
        ("ring, period 64", ddol.ring(AGENTS), 64, None),
    ):
        algorithm = ddol.dogd(l2=0.0).on(graph, period=period)
        runs = [partial(_run, algorithm, found, workers) for workers in (1, 2)]
        alone, together = _best_of(runs, turns)
        width = found.X.shape[1]
        expected = plan(width, 2, period, agents=AGENTS, costs=costs).speedup
        complete = graph.is_complete
        what = f"threads, {AGENTS} agents, {name}"
        speedups.append(Speedup(what, alone, together, expected if complete else None, goal))
    return speedups


def _run(algorithm: Any, found: data.Arrays, workers: int) -> float:
    trace = ddol.run(algorithm, (found.X, found.y), engine="threads", workers=workers)
    return trace.seconds


def _best_of(runs: Sequence[Callable[[], float]], turns: int) -> list[float]:
    took = [[run() for run in runs] for _ in range(turns + 1)][1:]
    return [min(column) for column in zip(*took, strict=True)]


def ranks(turns: int, examples: int | None, times: int = 10) -> list[Speedup]:
    """The whole command from text to model, under mpiexec with one process and with two.

    The text is that of covtype ``times`` over, or else MPI's start, a fifth of a second, counts. Ranks
    that deal one file all read it, and pass over the lines of others; of contiguous parts, as of files of
    its own, each reads only what its agents see.
    """
    dealt = data.text("covtype", examples, times)
    each = data.shares(data.text("covtype", examples), AGENTS, times)
    found = []
    for what, paths, deal in (
        ("one file dealt", [dealt], "round-robin"),
        ("one file in contiguous parts", [dealt], "contiguous"),
        ("a file for each agent", each, "round-robin"),
    ):
        took = [[_command(paths, n, deal) for n in (1, 2)] for _ in range(turns)]
        whole, run = ([min(row[k][part] for row in took) for k in range(2)] for part in range(2))
        name = f"mpi, period 256, covtype ×{times}, {what}"
        found.append(Speedup(f"{name}, all", *whole, None, 1.7))
        found.append(Speedup(f"{name}, run", *run, None, None))
    return found


def _command(paths: Sequence[Path], n: int, deal: str) -> tuple[float, float]:
    """Seconds of ``ddol train`` on n processes, and of the run within it."""
    figures, model = data.KEPT / f"engines-{n}.json", data.KEPT / f"engines-{n}.model"
    root = ["env", "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"]
    program = [*root, find_mpiexec(), "-n", n, sys.executable, "-m", "ddol", "train", *paths]
    learning = ["--agents", AGENTS, "--period", 256, "--algorithm", "dogd", "--deal", deal]
    kept = ["--engine", "mpi", "--quiet", "--model", model, "--json", figures]
    began = time.perf_counter()
    call([*program, *learning, *kept])
    return time.perf_counter() - began, json.loads(figures.read_text())["seconds"]


def table(speedups: Sequence[Speedup]) -> str:
    """Rows of text, one for each comparison."""
    lines = [f"{'':56} {'1 worker':>9} {'2':>9} {'faster':>7} {'model':>6} {'goal':>5}"]
    for one in speedups:
        expected = "" if one.expected is None else f"{one.expected:.2f}"
        goal = "" if one.goal is None else f"{one.goal:.1f}"
        lines.append(
            f"{one.what:56} {one.alone:7.3f} s {one.together:7.3f} s {one.factor:7.2f} "
            f"{expected:>6} {goal:>5}"
        )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser("python -m benchmarks.engines", description=__doc__)
    parser.add_argument("--turns", type=int, default=25)
    parser.add_argument("--examples", type=int, help="of covtype; all by default")
    parser.add_argument("--times", type=int, default=10, help="covtype's text over for mpi")
    parser.add_argument("--only", choices=("threads", "mpi"))
    asked = parser.parse_args(arguments)
    found: list[Speedup] = []
    if asked.only != "mpi":
        found += threads(asked.turns, asked.examples)
    if asked.only != "threads":
        found += ranks(max(1, asked.turns // 5), asked.examples, asked.times)
    print(table(found))
    print(f"load of this machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    return 0


if __name__ == "__main__":
    Path(data.KEPT).mkdir(parents=True, exist_ok=True)
    sys.exit(main())
