"""What talking and asking less cost: error and regret against bytes sent, or answers asked for.

Every policy runs over values of its one parameter on the same data. One of them is the line to beat: fixed
periods for bytes, asking at random for answers.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ddol.algorithm import Algorithm
from ddol.job.run import encoded, run
from ddol.measure.chart import Chart, Line
from ddol.measure.curves import columns_of, frame_of, write_table
from ddol.measure.regret import regret
from ddol.streams.stream import Stream
from ddol.trace import Trace

BYTES, LABELS = "bytes", "labels"
AGAINST = (BYTES, LABELS)
SAME = {"error": 0.001, "mean_loss": 0.01}
"""What counts as the same: errors this far apart, or mean losses that differ by this share."""

_MOST_ROWS = 2_000
_COLUMNS = {BYTES: "bytes_sent", LABELS: "labels"}
_LABELS = {
    "error": ("Error", "mistakes, %"),
    "mean_loss": ("Mean loss", "mean loss"),
    "regret": ("Regret", "regret of all agents together"),
}
_FACTORS = {"error": 100.0}
_WORDS = {BYTES: "bytes sent by all agents", LABELS: "answers asked for"}


@dataclass(frozen=True)
class Policy:
    """One way to spend less, and the values of its parameter that are tried.

    Parameters
    ----------
    name : str
    settings : dict
        What a table calls a value → the fields of the `Algorithm` that it sets.
    is_line : bool
        Whether it is the line to beat.

    Examples
    --------
    >>> periods = Policy("period", {k: {"period": k} for k in (1, 4, 16)}, is_line=True)
    >>> periods.settings[4]
    {'period': 4}
    """

    name: str
    settings: dict[Any, dict[str, Any]]
    is_line: bool = False


def policies_for(algorithm: Algorithm, against: str) -> list[Policy]:
    """The policies that an algorithm can follow, the line to beat first.

    Examples
    --------
    >>> from ddol.presets import adaptive, dwm_i
    >>> [policy.name for policy in policies_for(adaptive().on(16), "labels")]
    ['at random', 'budget', 'adaptive margin', 'fixed margin', 'budget, neighbours']
    >>> [policy.name for policy in policies_for(dwm_i(), "labels")]
    ['at random', 'budget', 'experts']
    """
    if against == BYTES:
        return _talking(algorithm)
    if against != LABELS:
        raise ValueError(f"`against` is {against!r}, expected {' or '.join(AGAINST)}")
    shares = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
    found = [
        Policy("at random", {s: {"query": f"random:{s}"} for s in (*shares, 1)}, is_line=True),
        Policy("budget", {s: {"query": str(s)} for s in (*shares, 1)}),
    ]
    if algorithm.update.experts:
        return [*found, Policy("experts", {"": {"query": "experts"}})]
    margins = (0.01, 0.03, 0.1, 0.3, 1)
    found += [
        Policy("adaptive margin", {b: {"query": f"adaptive:{b}"} for b in margins}),
        Policy("fixed margin", {b: {"query": f"b:{b}"} for b in margins}),
    ]
    if algorithm.n_agents > 1:
        first = {s: {"query": f"{s}+neighbours"} for s in shares}
        found.append(Policy("budget, neighbours", first))
    return found


def _talking(algorithm: Algorithm) -> list[Policy]:
    """The line has all powers of two; what is tried besides has every second one."""
    periods, wide = [1 << k for k in range(11)], [1 << k for k in range(0, 11, 2)]
    thresholds = (0.01, 0.03, 0.1, 0.3, 1, 3)
    found = [
        Policy("period", {p: {"period": p} for p in periods}, is_line=True),
        Policy("period, 8 bits", {p: {"period": p, "compress": "8bit"} for p in wide}),
        Policy("drift", {e: {"talk": f"drift:{e}"} for e in thresholds}),
        Policy(
            "drift, 8 bits", {e: {"talk": f"drift:{e}", "compress": "8bit"} for e in thresholds}
        ),
        Policy("to one neighbour", {p: {"period": p, "talk_to": 1} for p in wide}),
    ]
    if algorithm.update.experts or algorithm.safe:  # these learn from their own examples alone
        return found
    return [*found, Policy("teach two", {p: {"period": p, "teach": 2} for p in wide})]


@dataclass(frozen=True)
class Frontier:
    """What every policy paid, and what it got for it.

    Parameters
    ----------
    against : "bytes" or "labels"
    rows : list of dict
        policy, parameter, error, mean_loss, regret (NaN where none was found), messages, bytes_sent, labels,
        and ``of_line``: the price as a share of the cheapest point of the line to beat that is no worse
        (NaN where there is none, and for what costs nothing).
    line : str
        The policy that is the line to beat.
    measure : "error" or "mean_loss"
        By what runs are compared: the share of mistakes, or, where answers are numbers, the loss.

    Examples
    --------
    >>> rows = [{"policy": "period", "parameter": k, "error": 0.1 + k / 100, "bytes_sent": 1000 / k}
    ...         for k in (1, 2, 4)]
    >>> Frontier("bytes", rows, "period").chart().lines[0].name
    'period'
    """

    against: str
    rows: list[dict[str, Any]]
    line: str
    measure: str = "error"

    def chart(self, what: str | None = None) -> Chart:
        """What runs are compared by, or ``"regret"`` of all agents together, against the price."""
        what = self.measure if what is None else what
        if what not in _LABELS:
            raise ValueError(f"no chart of {what!r}; use one of {', '.join(_LABELS)}")
        names = list(dict.fromkeys(row["policy"] for row in self.rows))
        lines = tuple(self._curve(name, what, colour) for colour, name in enumerate(names))
        known = [row for row in self.rows if row[what] == row[what]] or self.rows
        best = min(known, key=lambda row: row[what])
        title, label = _LABELS[what]
        return Chart(
            f"{title} against {_WORDS[self.against]}",
            f"Least: {_FACTORS.get(what, 1.0) * best[what]:.4g} with {best['policy']} {best['parameter']}.",
            _WORDS[self.against],
            label,
            lines,
            log_x=True,
            from_zero=False,
            caption=f"Dashed: {self.line}, the line to beat. Left and below is better.",
        )

    def _curve(self, name: str, what: str, colour: int) -> Line:
        column, factor = _COLUMNS[self.against], _FACTORS.get(what, 1.0)
        points = sorted(
            (row[column], factor * row[what])
            for row in self.rows
            if row["policy"] == name and row[column] > 0
        )
        x, y = zip(*points, strict=True) if points else ((), ())
        return Line(name, x, y, colour=colour % 7, dashed=name == self.line, dots=True)

    def to_frame(self, library: str = "pandas") -> Any:
        """The table as a frame of pandas or polars."""
        return frame_of(columns_of(self.rows), library)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the table as CSV, or as Parquet where the name ends so (extra ``tables``)."""
        write_table(path, self.rows)


def frontier(
    algorithm: Algorithm,
    data: Any,
    *,
    against: str = BYTES,
    policies: Sequence[Policy] | None = None,
    on_run: Callable[[int, int], None] | None = None,
    **options: Any,
) -> Frontier:
    """Run every policy over its parameter, on the same data in the same order.

    Parameters
    ----------
    algorithm : Algorithm
        On its network.
    data : (X, y), one stream, or one for each agent
        Streams must be able to begin anew.
    against : "bytes" or "labels"
        What is to be saved.
    policies : sequence of Policy, optional
        `policies_for` by default; one of them is the line to beat.
    on_run : function of runs done and runs in all, optional
    **options
        Of `ddol.run`, for all runs.

    Examples
    --------
    >>> import numpy as np
    >>> from ddol.communicate.topologies import ring
    >>> from ddol.presets import dogd
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((600, 3)); y = np.sign(X @ [1.0, -2.0, 0.5])
    >>> found = frontier(dogd().on(ring(4)), (X, y), against="labels")
    >>> all(row["labels"] <= 600 for row in found.rows), found.line
    (True, 'at random')
    """
    chosen = policies_for(algorithm, against) if policies is None else list(policies)
    lines = [policy.name for policy in chosen if policy.is_line]
    if against not in AGAINST or len(lines) != 1:
        raise ValueError(
            f"`against` must be {' or '.join(AGAINST)} and one policy the line to beat; found "
            f"{against!r} and {len(lines)}"
        )
    streams = encoded(algorithm, data)[0]
    if not all(stream.restartable for stream in streams):
        raise ValueError(
            "a frontier reads the data several times, and a pipe can be read once only; save it to a file"
        )
    rows, settings = [], [(p, name, how) for p in chosen for name, how in p.settings.items()]
    measured = _Against(streams, options.get("passes", 1))
    for done, (policy, name, how) in enumerate(settings):
        if on_run is not None:
            on_run(done, len(settings))
        trace = run(replace(algorithm, **how), streams, **options)
        rows.append({"policy": policy.name, "parameter": name, **measured.figures(trace)})
    if on_run is not None:
        on_run(len(settings), len(settings))
    measure = "error" if algorithm.classification else "mean_loss"
    beside = _beside_line(rows, lines[0], _COLUMNS[against], measure)
    return Frontier(against, beside, lines[0], measure)


class _Against:
    """Figures of runs on the same data, whose comparator is looked for once."""

    def __init__(self, streams: list[Stream], passes: int) -> None:
        self.streams, self.passes = streams, passes
        self._weights: Any = None
        self._has_none = False

    def figures(self, trace: Trace) -> dict[str, Any]:
        return {
            "error": trace.error,
            "mean_loss": trace.mean_loss,
            "regret": self._regret(trace),
            "messages": trace.messages,
            "bytes_sent": trace.bytes_sent,
            "labels": trace.labels,
        }

    def _regret(self, trace: Trace) -> float:
        if self._has_none or trace.algorithm.outputs > 1:
            return float("nan")
        try:
            found = regret(
                trace,
                self.streams,
                passes=self.passes,
                weights=self._weights,
                bound=False,
                most_rows=_MOST_ROWS,
            )
        except ValueError:  # no solver is known
            self._has_none = True
            return float("nan")
        if not trace.algorithm.update.experts:
            self._weights = found.comparator.weights
        return found.social


def _beside_line(
    rows: list[dict[str, Any]], line: str, price: str, measure: str
) -> list[dict[str, Any]]:
    """Add what every row pays of what the line pays for the same error, or loss."""
    on_line = [row for row in rows if row["policy"] == line and row[price] > 0]

    def share(row: dict[str, Any]) -> float:
        far = SAME[measure] * (1.0 if measure == "error" else abs(row[measure]))
        enough = [other[price] for other in on_line if other[measure] <= row[measure] + far]
        return row[price] / min(enough) if enough and row[price] > 0 else float("nan")

    return [{**row, "of_line": share(row)} for row in rows]
