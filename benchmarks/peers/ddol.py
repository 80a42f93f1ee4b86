"""ddol: through its public door, with all its checks."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import Any

import ddol
from benchmarks.contest import Contestant, Outcome
from benchmarks.data import KEPT, Advice, Arrays, Text
from benchmarks.programs import call
from benchmarks.workloads import Data, Workload

VERSION = ddol.__version__


def contestants(workload: Workload, data: Data) -> list[Contestant]:
    """The rule of the workload, and what users get who choose nothing."""
    if isinstance(data, Text):
        return [_trained(data, "adaptive"), _trained(data, "dogd", "--l2", "0", "--rate", "3")]
    if isinstance(data, Advice):
        return [_run(workload, (data.said, data.y), "dwm_i", alpha=0.9)]
    shape = workload.network
    if shape != "alone":
        return [
            _run(workload, (data.X, data.y), "dogd", rate=workload.rate, l2=workload.l2),
            _run(workload, (data.X, data.y), "adaptive"),
        ]
    outputs = len(data.classes) if len(data.classes) > 2 else 1
    return [
        _run(
            workload, (data.X, data.y), "dogd", rate=workload.rate, l2=workload.l2, outputs=outputs
        ),
        _run(workload, (data.X, data.y), "adaptive", outputs=outputs),
        *([_run(workload, (data.X, data.y), "coin")] if outputs == 1 else []),
        _estimator(data),
    ]


def network(shape: str) -> ddol.communicate.graph.Topology | None:
    """The graph that a workload names, None for one agent."""
    if shape == "alone":
        return None
    number, kind = shape.split()
    n = int(number)
    return ddol.torus(round(n**0.5), round(n**0.5)) if kind == "torus" else getattr(ddol, kind)(n)


def _run(workload: Workload, examples: tuple, preset: str, **choices: Any) -> Contestant:
    topology = network(workload.network)
    algorithm = getattr(ddol, preset)(**choices)
    if topology is not None:
        algorithm = algorithm.on(topology)

    def run() -> Outcome:
        return Outcome(ddol.run(algorithm, examples).error)

    given = ", ".join(f"{k}={v:g}" for k, v in choices.items())
    placed = "" if topology is None else f".on(ddol.{topology.name})"
    return Contestant(f"ddol {preset}", f"ddol.run(ddol.{preset}({given}){placed}, (X, y))", run)


def _estimator(data: Arrays) -> Contestant:
    def run() -> Outcome:
        model = ddol.DDOLClassifier(n_agents=1, fit_intercept=False)
        model.partial_fit(data.X, data.y, classes=data.classes)
        return Outcome(model.trace_.error)

    settings = "DDOLClassifier(n_agents=1, fit_intercept=False).partial_fit"
    return Contestant("ddol estimator", settings, run)


def _trained(data: Text, algorithm: str, *options: str) -> Contestant:
    model = KEPT / f"{data.path.stem}.{algorithm}.ddol"
    figures = KEPT / f"{data.path.stem}.{algorithm}.json"
    asked = ["train", data.path, "--algorithm", algorithm, *options, "--model", model]
    command = [sys.executable, "-m", "ddol", *asked, "--json", figures, "--quiet"]

    def run() -> Outcome:
        outcome, _ = call(command)
        found = json.loads(figures.read_text())
        return replace(outcome, error=sum(found["mistakes"]) / found["examples"])

    shown = " ".join(
        ["ddol train FILE --algorithm", algorithm, *options, "--model MODEL --json JSON"]
    )
    return Contestant(f"ddol train {algorithm}", f"{shown} --quiet", run)
