"""What a sweep found: a table, charts with confidence bands, comparisons in pairs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import t as student

from ddol.measure.chart import Chart, Line, draw_on, new_axes
from ddol.measure.curves import columns_of, frame_of, write_table
from ddol.recording import Curves

_SEED = "seed"


@dataclass(frozen=True)
class Study:
    """The runs of a sweep.

    Parameters
    ----------
    axes : tuple of str
        What was varied.
    rows : list of dict
        A run each: the names of its values, and its figures.
    curves : list of Curves
        Of every run; None of one that failed.

    Examples
    --------
    >>> import ddol
    >>> X = np.random.default_rng(0).standard_normal((400, 3)); y = np.sign(X @ [1.0, -2.0, 0.5])
    >>> found = ddol.sweep({"algorithm": "dogd", "agents": [1, 4], "seed": range(3)}, (X, y), workers=1)
    >>> len(found.rows), found.varied, [row["runs"] for row in found.summary()]
    (6, ('agents',), [3, 3])
    >>> found.chart("loss", against="rounds").x_label
    'rounds'
    """

    axes: tuple[str, ...]
    rows: list[dict[str, Any]]
    curves: list[Curves | None]

    @property
    def columns(self) -> list[str]:
        """Names of all columns."""
        return list(columns_of(self.rows))

    @cached_property
    def varied(self) -> tuple[str, ...]:
        """Axes with more than one value, the seed aside."""
        several = [a for a in self.axes if len({row[a] for row in self.rows}) > 1]
        return tuple(axis for axis in several if axis != _SEED)

    # --- tables -----------------------------------------------------------------------------------

    def to_frame(self, library: str = "pandas") -> Any:
        """The table as a frame of pandas or polars."""
        return frame_of(columns_of(self.rows), library)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the table as CSV, or as Parquet where the name ends so (extra ``tables``)."""
        write_table(path, self.rows)

    def summary(
        self, what: Sequence[str] = ("error", "mean_loss", "bytes_sent")
    ) -> list[dict[str, Any]]:
        """Mean and half a 95 % confidence interval over the seeds, a row for each configuration."""
        found = []
        for names, chosen in self._groups().items():
            row: dict[str, Any] = dict(zip(self.varied, names, strict=True))
            row["runs"] = len(chosen)
            for column in what:
                values = [self.rows[i].get(column) for i in chosen]
                mean, half = mean_and_interval([np.nan if v is None else v for v in values])
                row[column], row[f"± {column}"] = mean, half
            found.append(row)
        return found

    def __str__(self) -> str:
        return as_text(self.summary())

    # --- comparisons ------------------------------------------------------------------------------

    def compare(self, axis: str, what: str = "mistakes", level: float = 0.95) -> list[Comparison]:
        """Compare the values of an axis in pairs of runs that are alike in everything else.

        Parameters
        ----------
        axis : str
            Such as ``algorithm``; its first value is compared with each of the others.
        what : str
            A column of the table.
        level : float
            Of the confidence intervals of the mean difference (Student's t over the pairs).

        Returns
        -------
        list of Comparison
            One for each other value and each configuration of the other axes.
        """
        if axis not in self.axes:
            raise ValueError(f"the sweep has no axis `{axis}`; use one of {', '.join(self.axes)}")
        if what not in self.columns:
            raise ValueError(f"no column `{what}`; use one of {', '.join(self.columns)}")
        rest = [name for name in self.varied if name != axis]
        return compared(self.rows, axis, what, rest, level)

    # --- charts -----------------------------------------------------------------------------------

    def chart(self, what: str = "mistakes", against: str = "examples", each: bool = False) -> Chart:
        """Curves of every configuration: the mean over the seeds, and its 95 % confidence band.

        Parameters
        ----------
        what : "mistakes" (error rate so far, %), "loss" (mean loss so far), "consensus"
        against : "examples", "rounds", or "bytes" sent by all agents
        each : bool
            Whether the band spans all seeds instead.
        """
        lines = [
            self._line(names, chosen, what, against, each, colour)
            for colour, (names, chosen) in enumerate(self._groups().items())
        ]
        ends = ", ".join(f"{line.name}: {line.y[-1]:.4g}" for line in lines if len(line.y))
        seeds = max(map(len, self._groups().values()))
        band = "all orders" if each else "95 % confidence of the mean"
        return Chart(
            f"{_LABELS[what].capitalize()}",
            f"At the end: {ends}.",
            _PLACES[against],
            _LABELS[what],
            tuple(lines),
            log_x=True,
            caption=f"Mean over {seeds} orders; band: {band}." if seeds > 1 else "",
        )

    def plot(self, ax: Any = None, what: str = "mistakes", against: str = "examples") -> Any:
        """Draw `chart` on matplotlib's axes, which are returned (extra ``plot``)."""
        return draw_on(self.chart(what, against), new_axes() if ax is None else ax)

    def _groups(self) -> dict[tuple[Any, ...], list[int]]:
        """Runs that differ in their seed only."""
        found: dict[tuple[Any, ...], list[int]] = {}
        for index, row in enumerate(self.rows):
            found.setdefault(tuple(row[axis] for axis in self.varied), []).append(index)
        return found

    def _line(
        self, names: tuple, chosen: Sequence[int], what: str, against: str, each: bool, colour: int
    ) -> Line:
        if what not in _LABELS or against not in _PLACES:
            known = f"{', '.join(_LABELS)} against {', '.join(_PLACES)}"
            raise ValueError(f"no chart of {what!r} against {against!r}; use {known}")
        runs = [(curves, self.rows[i]) for i in chosen if (curves := self.curves[i]) is not None]
        if not runs:
            return Line(_called(names), [], [])
        places = [_place(against, *run) for run in runs]
        x = min(places, key=lambda place: place[-1])
        values = np.array(
            [np.interp(x, p, _value(what, c)) for p, (c, _) in zip(places, runs, strict=True)]
        )
        mean, half = mean_and_interval(values)
        if len(runs) == 1:
            return Line(_called(names), x, mean, colour=colour % 7)
        band = (values.min(axis=0), values.max(axis=0)) if each else (mean - half, mean + half)
        return Line(_called(names), x, mean, *band, colour=colour % 7)


_LABELS = {
    "mistakes": "mistakes so far, %",
    "loss": "mean objective so far",
    "consensus": "consensus distance",
}
_PLACES = {
    "examples": "examples seen by all agents",
    "rounds": "rounds",
    "bytes": "bytes sent by all agents",
}
SHOWN, AGAINST = tuple(_LABELS), tuple(_PLACES)


def _called(names: tuple) -> str:
    return ", ".join(map(str, names)) or "run"


def _value(what: str, curves: Curves) -> np.ndarray:
    seen = np.maximum(curves.examples, 1)
    if what == "mistakes":
        return 100 * curves.mistakes / seen
    return curves.loss / seen if what == "loss" else curves.consensus


def _place(against: str, curves: Curves, row: dict[str, Any]) -> np.ndarray:
    if against == "bytes":
        return curves.rounds / max(row["rounds"], 1) * max(row["bytes_sent"], 1)
    return curves.examples if against == "examples" else curves.rounds


def as_text(rows: Sequence[dict[str, Any]]) -> str:
    """Rows under their columns' names.

    Examples
    --------
    >>> print(as_text([{"agents": 1, "error": 0.25}, {"agents": 16, "error": 0.125}]))
    agents  error
         1   0.25
        16  0.125
    """
    if not rows:
        return ""
    cells = [[*map(str, rows[0])], *([_cell(v) for v in row.values()] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        "  ".join(f"{c:>{w}}" for c, w in zip(line, widths, strict=True)) for line in cells
    )


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return "–" if np.isnan(value) else f"{value:.5g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


@dataclass(frozen=True)
class Comparison:
    """One value of an axis against another, over pairs of runs with the same seed.

    Parameters
    ----------
    what : str
        The column that is compared.
    one, other : str
        Values of the axis.
    where : dict
        The other axes.
    pairs : int
    mean_one, mean_other : float
    difference : float
        Mean of one − other.
    low, high : float
        Its confidence interval; infinite with fewer than two pairs.
    wins : int
        Pairs in which ``one`` is smaller.

    Examples
    --------
    >>> rows = [{"seed": seed, "rate": rate, "mistakes": 10 * rate + seed}
    ...         for seed in range(3) for rate in (1, 2)]
    >>> print(compared(rows, "rate", "mistakes", [], 0.95)[0])
    mistakes: 1 11, 2 21; difference -10 [-10, -10] over 3 pairs, fewer in 3: clear
    """

    what: str
    one: Any
    other: Any
    where: dict[str, Any]
    pairs: int
    mean_one: float
    mean_other: float
    difference: float
    low: float
    high: float
    wins: int

    @property
    def clear(self) -> bool:
        """Whether the interval leaves no doubt about the sign."""
        return self.low > 0.0 or self.high < 0.0

    def __str__(self) -> str:
        where = "".join(f"{name} {value}, " for name, value in self.where.items())
        verdict = "clear" if self.clear else "not clear"
        return (
            f"{where}{self.what}: {self.one} {self.mean_one:.5g}, {self.other} {self.mean_other:.5g}; "
            f"difference {self.difference:+.4g} [{self.low:+.4g}, {self.high:+.4g}] over {self.pairs} "
            f"pairs, fewer in {self.wins}: {verdict}"
        )


def compared(
    rows: Sequence[Mapping[str, Any]], axis: str, what: str, rest: Sequence[str], level: float
) -> list[Comparison]:
    """The first value of an axis against each of the others, by the values of the other axes."""
    values = list(dict.fromkeys(row[axis] for row in rows))
    groups: dict[tuple, dict[Any, dict[Any, float]]] = {}
    for row in rows:
        if row.get(what) is not None:
            where = tuple(row[name] for name in rest)
            runs = groups.setdefault(where, {}).setdefault(row[axis], {})
            runs[row.get("seed")] = float(row[what])
    found = []
    for where, by_value in groups.items():
        for other in values[1:]:
            one, two = by_value.get(values[0], {}), by_value.get(other, {})
            seeds = [seed for seed in one if seed in two]
            if seeds:
                pair = np.array([[one[s], two[s]] for s in seeds]).T
                names = dict(zip(rest, where, strict=True))
                found.append(_comparison(what, values[0], other, names, pair, level))
    return found


def _comparison(
    what: str, one: Any, other: Any, where: dict[str, Any], pair: np.ndarray, level: float
) -> Comparison:
    gaps = pair[0] - pair[1]
    mean, half = mean_and_interval(gaps, level)
    half = half if len(gaps) > 1 else np.inf
    return Comparison(
        what,
        one,
        other,
        where,
        pairs=len(gaps),
        mean_one=float(pair[0].mean()),
        mean_other=float(pair[1].mean()),
        difference=float(mean),
        low=float(mean - half),
        high=float(mean + half),
        wins=int(np.count_nonzero(gaps < 0)),
    )


def mean_and_interval(values: ArrayLike, level: float = 0.95) -> tuple[Any, Any]:
    """Mean over the first axis and half its confidence interval (Student's t); 0 for one value.

    Examples
    --------
    >>> mean, half = mean_and_interval([1.0, 2.0, 3.0])
    >>> float(mean), round(float(half), 2)
    (2.0, 2.48)
    """
    known = np.asarray(values, float)
    n = len(known)
    if n < 2:
        return known.mean(axis=0), np.zeros(known.shape[1:])
    spread = known.std(axis=0, ddof=1) / np.sqrt(n)
    return known.mean(axis=0), spread * float(student.ppf(0.5 + level / 2, n - 1))
