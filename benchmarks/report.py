"""The page of results: tables in Markdown, all figures in JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.contest import Result
from benchmarks.engines import Speedup
from benchmarks.scaling import Point
from benchmarks.targets import TARGETS
from benchmarks.users import HEAD, Comparison
from benchmarks.users import table as user_rows
from benchmarks.waking import Waking
from benchmarks.workloads import WORKLOADS


@dataclass
class Findings:
    """All that one run found out."""

    command: str
    machine: dict[str, Any]
    versions: dict[str, str]
    bandwidth: dict[str, float] = field(default_factory=dict)
    results: list[Result] = field(default_factory=list)
    points: list[Point] = field(default_factory=list)
    speedups: list[Speedup] = field(default_factory=list)
    wakings: list[Waking] = field(default_factory=list)
    comparisons: list[Comparison] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Plain values, with the ratios that tables show."""
        plain = asdict(self)
        for each, result in zip(plain["results"], self.results, strict=True):
            each |= {
                "best": result.best,
                "median": result.median,
                "ratio_to_ddol": ratio(result, self.results, "ddol"),
                "ratio_to_limit": ratio(result, self.results, "limit"),
            }
        plain["targets"] = [
            {
                "workload": t.workload,
                "against": t.against,
                "goal": t.goal,
                "ratio": t.ratio(self.results),
                "reached": t.reached(self.results),
            }
            for t in TARGETS
        ]
        return _without_nan(plain)


INTRODUCTION = """\
Every program learns from the same examples in the same order, once, in the fastest way that its documentation
describes (settings at the end of the page). The programs take turns, so a busy machine slows all of them.
Times are the best of several runs.
"""
COLUMNS = """\
| column | meaning |
|---|---|
| ns/example, ns/value | nanoseconds for an example, and for a number in it that is stored |
| spread | how much longer the median run took than the best one |
| error | share of wrong predictions, each made before its example was learned from |
| MB | memory that a run needed beyond its data; from text, the most that the program held |
| × ddol | time as a multiple of that of the first line |
| × limit | time as a multiple of that of reading the data once, which nothing can beat |
"""


def ratio(result: Result, results: Sequence[Result], peer: str) -> float:
    """Time per example as a multiple of that of the first contestant of a peer, on this workload."""
    first = next((r for r in results if (r.workload, r.peer) == (result.workload, peer)), None)
    return math.nan if first is None else result.per_example / first.per_example


def write(findings: Findings, page: Path, figures: Path) -> None:
    """Save the page and, beside the figures' folder, all numbers."""
    from benchmarks.figures import draw

    figures.mkdir(parents=True, exist_ok=True)
    drawn = draw(findings, figures)
    numbers = figures / "bench.json"
    numbers.write_text(json.dumps(findings.to_dict(), indent=1, ensure_ascii=False) + "\n")
    page.write_text(markdown(findings, [path.relative_to(page.parent) for path in drawn]))


def markdown(findings: Findings, drawn: Sequence[Path] = ()) -> str:
    """The whole page."""
    parts = [
        "# Benchmarks: speed beside other programs\n",
        f"`{findings.command}` wrote this page in {findings.seconds / 60:.1f} minutes, with all numbers in "
        "`figures/bench.json`. `benchmarks/README.md` says how to run it and how to add a program.\n",
        INTRODUCTION,
        "## Goals\n",
        *_targets(findings),
        *_users(findings),
        "\n## Machine and versions\n",
        *_facts(findings),
        "\n## One pass over the same examples\n",
        COLUMNS,
        *_workloads(findings),
        *_scaling(findings),
        *_wakings(findings),
        *(f"\n![{path.stem}]({path.as_posix()})\n" for path in drawn),
        "\n## Settings\n",
        *_settings(findings.results),
    ]
    return "\n".join(parts) + "\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Lines of a Markdown table; all columns but the first are to the right."""
    yield "| " + " | ".join(head) + " |"
    yield "|---|" + "---:|" * (len(head) - 1)
    for row in rows:
        yield "| " + " | ".join(row) + " |"


def _targets(findings: Findings) -> Iterator[str]:
    words = {True: "reached", False: "missed", None: "not run"}
    rows = []
    for target in TARGETS:
        sign = "≥" if target.at_least else "≤"
        value = target.ratio(findings.results)
        shown = "–" if math.isnan(value) else f"{value:.3g}"
        met = words[target.reached(findings.results)]
        rows.append((target.workload, target.against, f"{sign} {target.goal:g}", shown, met))
    yield from table(("workload", "compared with", "goal", "measured", ""), rows)


def _users(findings: Findings) -> Iterator[str]:
    if findings.comparisons:
        yield "\n## Whole commands and estimators\n"
        yield from table(HEAD, user_rows(findings.comparisons))


def _facts(findings: Findings) -> Iterator[str]:
    yield "; ".join(f"{k}: {v}" for k, v in findings.machine.items()) + ".\n"
    yield ", ".join(f"{name} {v}" for name, v in findings.versions.items()) + ".\n"
    speeds = (f"{name} {rate / 1e9:.1f} GB/s" for name, rate in findings.bandwidth.items())
    yield "Memory (STREAM's triad): " + ", ".join(speeds) + ".\n"
    for line in findings.left_out:
        yield f"Left out: {line}.\n"


def _workloads(findings: Findings) -> Iterator[str]:
    for workload in WORKLOADS:
        results = [r for r in findings.results if r.workload == workload.name]
        if not results:
            continue
        yield f"### {workload.title}\n"
        head = (
            "program",
            "examples/s",
            "ns/example",
            "ns/value",
            "spread",
            "error",
            "MB",
            "× ddol",
            "× limit",
        )
        yield from table(head, (_row(r, results) for r in results))
        yield ""


def _row(result: Result, results: Sequence[Result]) -> tuple[str, ...]:
    whole = max(r.examples for r in results)
    part = "" if result.examples == whole else f" (first {result.examples:,})"
    return (
        result.name + part,
        f"{result.examples / result.best:,.0f}",
        f"{result.per_example:,.1f}",
        f"{result.per_value:,.2f}",
        f"{100 * result.spread:.0f} %",
        "–" if result.error is None else f"{100 * result.error:.2f} %",
        "–" if result.memory is None else f"{result.memory / 1e6:,.0f}",
        *(_times(ratio(result, results, peer)) for peer in ("ddol", "limit")),
    )


def _times(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:,.2f}" if value < 100 else f"{value:,.0f}"


def _scaling(findings: Findings) -> Iterator[str]:
    units = {"agents": "ns per example, N agents", "features": "ns per stored number, D features"}
    for figure, title in units.items():
        points = [p for p in findings.points if p.figure == figure]
        if not points:
            continue
        xs = sorted({p.x for p in points})
        at = {(p.curve, p.x): f"{p.nanoseconds:,.2f}" for p in points}
        curves = dict.fromkeys(p.curve for p in points)
        yield f"\n### Cost as {figure} grow: {title}\n"
        head = ("", *(f"{x:,}" for x in xs))
        yield from table(head, ((c, *(at.get((c, x), "–") for x in xs)) for c in curves))
    if findings.speedups:
        yield "\n### Workers\n"
        head = ("", "1 worker", "2 workers", "times faster", "predicted by `ddol plan`", "goal")
        yield from table(head, (_speedup(s) for s in findings.speedups))


def _speedup(found: Speedup) -> tuple[str, ...]:
    return (
        found.what,
        f"{found.alone:.3f} s",
        f"{found.together:.3f} s",
        f"{found.factor:.2f}",
        "–" if found.expected is None else f"{found.expected:.2f}",
        "–" if found.goal is None else f"≥ {found.goal:g}",
    )


def _wakings(findings: Findings) -> Iterator[str]:
    if findings.wakings:
        yield "\n### From the start of Python\n"
        yield "*Cold* is the first run after an installation, *warm* a later one.\n"
        rows = (
            (w.name, w.what, f"{w.seconds:.2f} s", f"{100 * w.spread:.0f} %")
            for w in findings.wakings
        )
        yield from table(("", "until", "time", "spread"), rows)


def _settings(results: Sequence[Result]) -> Iterator[str]:
    rows = dict.fromkeys((r.workload, r.name, f"`{r.settings}`") for r in results)
    yield from table(("workload", "program", "settings"), rows)


def _without_nan(value: Any) -> Any:
    """JSON has no NaN: null stands for it."""
    if isinstance(value, dict):
        return {k: _without_nan(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
