"""Vowpal Wabbit: from its text, and from its binary cache, the nearest it has to arrays in memory."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

import scipy.sparse as sp
import vowpalwabbit

from benchmarks.contest import Contestant, Outcome
from benchmarks.data import KEPT, Arrays, Text
from benchmarks.programs import call
from benchmarks.workloads import Data, Workload

VERSION = vowpalwabbit.__version__
_MOST_VALUES = 20_000_000
_LARGE = 200 << 20


def contestants(workload: Workload, data: Data) -> list[Contestant]:
    """Its default rule (adaptive, normalised, invariant steps) and plain ``--sgd``."""
    if workload.network != "alone":
        return []
    if isinstance(data, Text):
        cache = data.vw_path.with_suffix(".cache")
        plain = _program(data, "vw text --sgd", "--sgd")
        return [
            _program(data, "vw text"),
            *([plain] if data.path.stat().st_size < _LARGE else []),
            _program(data, "vw cache", "--cache_file", cache),
        ]
    # A text of the largest arrays would take longer to write than all the rest to run.
    if not isinstance(data, Arrays) or data.n_values > _MOST_VALUES:
        return []
    if data.dense and data.name == "covtype":
        return []  # The same cache as for CSR.
    return [_cached(workload, data)]


def _program(data: Text, name: str, *options: str | Path) -> Contestant:
    model = data.vw_path.with_suffix(".model")
    command = [sys.executable, "-m", "vowpalwabbit", "-d", data.vw_path, "-f", model]
    command += ["--loss_function", "hinge", "--binary", *options]

    def run() -> Outcome:
        outcome, said = call(command)
        found = re.search(r"average loss = ([\d.]+)", said)
        return replace(outcome, error=float(found[1]) if found else None)

    asked = "".join(f" {'CACHE' if isinstance(o, Path) else o}" for o in options)
    settings = f"vw -d FILE -f MODEL --loss_function hinge --binary{asked}"
    return Contestant(name, settings, run)


def _cached(workload: Workload, data: Arrays) -> Contestant:
    """Learn within this process, so that no start of a program is counted."""
    path = KEPT / f"{workload.name}-{data.n_examples}.vw"
    cache = path.with_suffix(".cache")
    many = len(data.classes) > 2
    rule = ["--oaa", str(len(data.classes))] if many else ["--loss_function", "hinge", "--binary"]
    asked = ["-d", str(path), "--cache_file", str(cache), "--noconstant", "--quiet", *rule]
    if not path.exists():
        KEPT.mkdir(parents=True, exist_ok=True)
        _write(path, data, many)
    if not cache.exists():
        vowpalwabbit.Workspace(arg_list=asked).finish()

    def run() -> Outcome:
        model = vowpalwabbit.Workspace(arg_list=asked)
        error = model.get_sum_loss() / model.get_weighted_examples()
        model.finish()
        return Outcome(error)

    settings = f"Workspace('--cache_file CACHE --noconstant --quiet {' '.join(rule)}')"
    return Contestant("vw cache, in process", settings, run)


def _write(path: Path, data: Arrays, many: bool) -> None:
    X = sp.csr_matrix(data.X)
    with path.open("w") as file:
        for i, y in enumerate(data.y):
            lo, hi = X.indptr[i], X.indptr[i + 1]
            row = " ".join(
                f"{j}:{v:.9g}" for j, v in zip(X.indices[lo:hi], X.data[lo:hi], strict=True)
            )
            # Classes are counted from 1.
            file.write(f"{int(y) + many} | {row}\n")
