"""What being late, rare and lost costs: ``python -m benchmarks.schedules`` prints tables, draws figures.

Everything but the first table is in virtual time and follows from the seed alone: it comes out the same on
every machine.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import ddol
from benchmarks.data import ROOT, Arrays, arrays, standardised
from ddol.engines.workers.scoring import Scorer
from ddol.measure.chart import Chart, Line, draw_row
from ddol.measure.regret import regret
from ddol.schedules.conditions import Conditions
from ddol.schedules.events import FIELDS, Events
from ddol.streams.rows import Rows
from ddol.trace import Trace

N_AGENTS = 16
SLOW = (0.1, *(1.0,) * (N_AGENTS - 1))
"""One agent in sixteen is ten times slower."""

ROUGH = Conditions(latency="0..10", drop_messages=0.1, churn=(90, 10))
STEPS: dict[str, tuple[tuple[Any, ...], Callable[[Any], Conditions]]] = {
    "latency": ((0, 1, 3, 10, 30, 100), lambda v: Conditions(latency=f"exponential:{v}")),
    "share of messages lost": (
        (0.0, 0.1, 0.3, 0.5, 0.7, 0.9),
        lambda v: Conditions(latency=1.0, drop_messages=v),
    ),
    "fastest speed (slowest is 1)": ((1, 2, 4, 8, 16), lambda v: Conditions(speed=f"1..{v}")),
    "delay of answers": ((0, 3, 10, 30, 100), lambda v: Conditions(delay=v)),
    "share of time away": (
        (0.0, 0.1, 0.3, 0.5, 0.7),
        lambda v: Conditions(churn=(100 * (1 - v), 100 * v)),
    ),
}


FILES = dict(zip(STEPS, ("latency", "lost", "speed", "delay", "away"), strict=True))


def speed(examples: int) -> Iterator[str]:
    """Examples a second of events beside rounds: dogd, 64 agents on a ring, D = 54."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((examples, 54))
    y = np.where(X @ rng.standard_normal(54) > 0, 1.0, -1.0)
    kinds: dict[str, dict[str, Any]] = {
        "rounds": {},
        "async": {"schedule": "async"},
        "async, rough": {"schedule": "async", "conditions": ROUGH},
        "gossip": {"schedule": "gossip"},
    }
    yield "| schedule | ns an example | examples a second |"
    yield "|---|---|---|"
    for name, options in kinds.items():
        best = np.inf
        for _ in range(3):
            began = time.perf_counter()
            ddol.run(ddol.dogd(l2=0.0), (X, y), ddol.ring(64), **options)
            best = min(best, time.perf_counter() - began)
        yield f"| {name} | {1e9 * best / examples:.0f} | {examples / best:,.0f} |"


def time_to(trace: Trace, error: float) -> float:
    """Virtual time at which the share of mistakes so far is at most ``error``, and stays so."""
    found = np.inf
    for moment in reversed(trace.moments):
        if moment.mistakes > error * moment.examples:
            break
        found = moment.time
    return float(found)


def slow_agent(sets: Sequence[Arrays]) -> tuple[list[str], list[Chart]]:
    """Waiting for the slowest against not waiting, in virtual time.

    The error on fresh examples is that of the mean weights of all agents, as they are after a fifth of the
    time that rounds take.
    """
    lines = [
        "| data | schedule | time | error so far | as rounds after | error on fresh examples at T/5 |",
        "|---|---|---|---|---|---|",
    ]
    charts = []
    for data in sets:
        n = len(data.y) * 9 // 10
        seen, fresh = (data.X[:n], data.y[:n]), (data.X[n:], data.y[n:])
        traces = {name: _slowed(seen, name) for name in ("rounds", "async", "gossip")}
        last = traces["rounds"].moments[-1]
        error = last.mistakes / last.examples
        for name, trace in traces.items():
            early = trace if name == "rounds" else _until(trace, seen, name, last.time / 5)
            share = time_to(trace, error) / last.time
            lines.append(
                f"| {data.name} | {name} | {trace.moments[-1].time:,.0f} | {100 * trace.error:.2f} % | "
                f"{'never' if np.isinf(share) else f'{share:.3f} of the time'} | "
                f"{100 * _wrong(early, *fresh):.2f} % |"
            )
        charts.append(_against_time(data.name, traces))
    return lines, charts


def _slowed(data: tuple[np.ndarray, np.ndarray], schedule: str) -> Trace:
    return ddol.run(
        ddol.adaptive(), data, ddol.ring(N_AGENTS), schedule=schedule, record=True,
        conditions=Conditions(speed=SLOW),
    )  # fmt: skip


def _until(trace: Trace, data: tuple[np.ndarray, np.ndarray], schedule: str, time: float) -> Trace:
    """The same run as it was at a time: the first part of its list, played again."""
    early = Events(*(getattr(trace.events, f)[trace.events.time <= time] for f in FIELDS))
    return ddol.run(ddol.adaptive(), data, ddol.ring(N_AGENTS), schedule=lambda *_: early)


def _wrong(trace: Trace, X: np.ndarray, y: np.ndarray) -> float:
    """Share of wrong predictions on fresh examples, by the mean of all agents' scores."""
    state = trace.state
    found = Scorer(trace.algorithm, state.theta, state.scalars)(Rows.from_dense(X, y))
    return float(np.mean((found.mean(axis=0)[:, 0] >= 0) != (y > 0)))


def _against_time(name: str, traces: dict[str, Trace]) -> Chart:
    lines = []
    for colour, (schedule, trace) in enumerate(traces.items()):
        late = [m for m in trace.moments if m.examples >= 500]
        errors = [100 * m.mistakes / m.examples for m in late]
        lines.append(Line(schedule, [m.time for m in late], errors, colour=colour))
    return Chart(
        f"{name}, one slow agent in sixteen",
        "Without waiting the error falls ten times sooner.",
        "virtual time",
        "error so far, %",
        tuple(lines),
        log_x=True,
        from_zero=False,
    )


def rough(sets: Sequence[Arrays]) -> list[str]:
    """Undisturbed rounds against latency up to 10, 10 % of messages lost and 10 % of agents away."""
    lines = ["| data | rounds | async, rough | points lost |", "|---|---|---|---|"]
    for data in sets:
        calm = ddol.run(ddol.adaptive(), (data.X, data.y), ddol.ring(N_AGENTS)).error
        hard = ddol.run(
            ddol.adaptive(),
            (data.X, data.y),
            ddol.ring(N_AGENTS),
            schedule="async",
            conditions=ROUGH,
        ).error
        lines.append(
            f"| {data.name} | {100 * calm:.2f} % | {100 * hard:.2f} % | {100 * (hard - calm):.2f} |"
        )
    return lines


def sweep(data: Arrays) -> tuple[list[str], list[list[Chart]]]:
    """Error, regret and drift against each condition: dogd on a ball, asynchronous on a ring."""
    lines = ["| condition | value | error % | regret | drift |", "|---|---|---|---|---|"]
    charts = []
    best = None  # the best weights are those of the data, whatever happens to the agents
    for name, (values, conditions) in STEPS.items():
        found = []
        for value in values:
            numbers, best = _measured(data, conditions(value), best)
            found.append(numbers)
        lines += [
            f"| {name} | {value} | {error:.2f} | {lost:,.0f} | {drift:,.0f} |"
            for value, (error, lost, drift) in zip(values, found, strict=True)
        ]
        errors, regrets, drifts = zip(*found, strict=True)
        x = [float(v) for v in values]
        charts.append(
            [
                Chart(
                    f"Error against {name}",
                    f"From {errors[0]:.2f} % to {errors[-1]:.2f} %.",
                    name,
                    "error, %",
                    (Line("error", x, errors, colour=0),),
                    from_zero=False,
                ),
                Chart(
                    f"Regret and drift against {name}",
                    "The drift of the certificate grows as the regret does.",
                    name,
                    "examples' loss",
                    (Line("drift", x, drifts, colour=3), Line("regret", x, regrets, colour=1)),
                    from_zero=False,
                ),
            ]
        )
    return lines, charts


def _measured(
    data: Arrays, conditions: Conditions, best: np.ndarray | None
) -> tuple[tuple[float, float, float], np.ndarray]:
    """Error in percent, regret against the best weights of the ball, and drift; and those weights."""
    algorithm = ddol.dogd(l2=0.0, radius=5.0)
    trace = ddol.run(
        algorithm, (data.X, data.y), ddol.ring(8), schedule="async", conditions=conditions
    )
    found = regret(trace, (data.X, data.y), weights=best)
    numbers = 100 * trace.error, found.social, float(trace.certificate.drift)
    return numbers, found.comparator.weights


def main() -> None:
    """Print the tables, and draw the figures where they belong."""
    parser = argparse.ArgumentParser("python -m benchmarks.schedules", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="less data")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "figures")
    asked = parser.parse_args()
    most = 20_000 if asked.quick else None
    sets = [arrays("cod-rna", most), arrays("covtype", most)]
    print("## Events beside rounds\n")
    print(*speed(100_000 if asked.quick else 1_000_000), sep="\n")
    lines, charts = slow_agent(sets)
    print("\n## One slow agent in sixteen\n", *lines, sep="\n")
    (asked.out / "schedules-slow.svg").write_text(draw_row(charts))
    print("\n## Late, lost and away\n", *rough(sets), sep="\n")
    lines, rows = sweep(standardised("cod-rna", 20_000))
    print("\n## One condition at a time\n", *lines, sep="\n")
    for name, row in zip(STEPS, rows, strict=True):
        (asked.out / f"schedules-{FILES[name]}.svg").write_text(draw_row(row))


if __name__ == "__main__":
    main()
