"""``python -m benchmarks``: everybody on everything, and the page of results."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from benchmarks import engines, report, scaling, users, waking
from benchmarks.contest import Patience, compete
from benchmarks.data import KEPT, ROOT, MissingDataError
from benchmarks.machine import machine, versions
from benchmarks.peers import peers
from benchmarks.peers.limit import bandwidth
from benchmarks.report import Findings
from benchmarks.workloads import WORKLOADS, Workload

OTHERS = ("users", "agents", "features", "workers", "startup")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; 0 when all that was asked for has run."""
    asked = _asked(arguments)
    began = time.perf_counter()
    command = " ".join(
        ["python -m benchmarks", *(sys.argv[1:] if arguments is None else arguments)]
    )
    findings = Findings(command, machine(), versions())
    names = asked.only or [*(w.name for w in WORKLOADS), *OTHERS]
    findings.bandwidth = {"1 thread": bandwidth(False), "all cores": bandwidth(True)}
    for workload in WORKLOADS:
        if workload.name in names:
            _contest(findings, workload, asked.quick)
    for name, measure in _others(findings, asked.quick).items():
        if name in names:
            since = time.perf_counter()
            _or_leave_out(findings, name, measure)
            sys.stderr.write(f"  {name}: {time.perf_counter() - since:.1f} s\n")
    findings.seconds = time.perf_counter() - began
    page, figures = _places(asked)
    report.write(findings, page, figures)
    print(report.markdown(findings))
    print(f"saved: {page}, {figures}", file=sys.stderr)
    return 0


def _asked(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="less data, two minutes")
    names = [*(w.name for w in WORKLOADS), *OTHERS]
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", help=", ".join(names))
    parser.add_argument(
        "--out",
        type=Path,
        help="folder of the page; by default docs, or build/benchmarks for a part",
    )
    return parser.parse_args(arguments)


def _places(asked: argparse.Namespace) -> tuple[Path, Path]:
    """Only a whole run replaces the page of the documentation."""
    whole = not asked.quick and asked.only is None
    folder = asked.out or (ROOT / "docs" if whole else KEPT / "page")
    folder.mkdir(parents=True, exist_ok=True)
    return folder / "benchmarks.md", folder / "figures"


def _contest(findings: Findings, workload: Workload, quick: bool) -> None:
    try:
        data = workload.make(workload.quick if quick else workload.examples)
    except MissingDataError as error:
        findings.left_out.append(f"{workload.name}: {error}")
        return
    present, missing = peers()
    for name, why in missing.items():
        line = f"{name}: {why}; pip install -e '.[bench]'"
        if line not in findings.left_out:
            findings.left_out.append(line)
    entries = [
        (name, contestant)
        for name, module in present.items()
        for contestant in module.contestants(workload, data)
    ]
    patience = Patience(3, 1.0) if quick else Patience()
    findings.results += compete(workload, data, entries, patience)


def _others(findings: Findings, quick: bool) -> dict[str, Callable[[], None]]:
    scale = scaling.QUICK if quick else scaling.Scale()
    present = set(peers()[0])

    def extend(where: list, measure: Callable[[], list]) -> None:
        where += measure()

    return {
        "users": partial(extend, findings.comparisons, lambda: list(users.comparisons(quick))),
        "agents": partial(extend, findings.points, partial(scaling.against_agents, scale)),
        "features": partial(extend, findings.points, partial(scaling.against_features, scale)),
        "workers": partial(extend, findings.speedups, partial(_speedups, quick)),
        "startup": partial(
            extend, findings.wakings, partial(waking.wakings, present, 1 if quick else 5, not quick)
        ),
    }


def _speedups(quick: bool) -> list[engines.Speedup]:
    examples = 50_000 if quick else None
    found = engines.threads(5 if quick else 25, examples)
    return found if quick else [*found, *engines.ranks(2, examples)]


def _or_leave_out(findings: Findings, name: str, measure: Callable[[], None]) -> None:
    try:
        measure()
    except (MissingDataError, RuntimeError, ValueError, OSError) as error:
        findings.left_out.append(f"{name}: {error}")


if __name__ == "__main__":
    sys.exit(main())
