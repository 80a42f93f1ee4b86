"""The runs behind the figures, as sweeps: each is played once, however many figures show it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ddol.algorithm import Algorithm
from ddol.job.algorithm import algorithm_named
from ddol.lab.experiments.config import Figure
from ddol.lab.experiments.sources import DataFacts, Say, arranged, facts_of, find, load
from ddol.measure.regret import Comparator, best_weights, problem_of, regret
from ddol.streams.arrays import RowsStream
from ddol.streams.coding.stumps import fit_stumps
from ddol.streams.rows import Rows
from ddol.study.study import Study
from ddol.study.sweep import sweep
from ddol.trace import Trace

_WORTH_TIMING = 100_000


@dataclass(frozen=True)
class Key:
    """What tells one run from another, seeds aside."""

    data: str
    variant: str
    algorithm: str
    agents: int
    rows: int | None
    experts: int | None
    parameters: tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Repeats:
    """The same run with several seeds, which differ in the order of the examples.

    Parameters
    ----------
    samples : (points,)
        Samples that one agent has seen: the rounds.
    mistakes : (seeds, points, N)
        Of every agent.
    objective : (seeds, points)
        Per example, over all agents.
    best_expert : (seeds, points)
        Mistakes at all agents of the expert that is best in the end; NaN without experts.
    best_by_round : tuple of (T,) arrays
        At how many agents it errs in every round, per seed.
    total_loss : (seeds,)
    seconds : float
        Of one run on one core.
    bound : float
        On the mistakes of all agents, with the first seed; NaN without experts.
    """

    samples: np.ndarray
    mistakes: np.ndarray
    objective: np.ndarray
    best_expert: np.ndarray
    best_by_round: tuple[np.ndarray, ...]
    total_loss: np.ndarray
    seconds: float
    bound: float

    def at(self, samples: int) -> int:
        """The last point with at most so many samples per agent."""
        return int(np.searchsorted(self.samples, samples, side="right")) - 1

    @property
    def total_mistakes(self) -> np.ndarray:
        """Of all agents together, at the end, per seed."""
        return self.mistakes[:, -1].sum(axis=1)


@dataclass(frozen=True)
class Regretted:
    """Social regret of a run (the first order of the examples) and the bound of its theorem."""

    social: float
    bound: float
    holds: bool
    comparator: Comparator
    examples: int


def keys_of(figure: Figure) -> list[Key]:
    """The runs that a figure shows."""
    parameters = tuple(sorted(figure.parameters.items()))
    return [
        Key(figure.data, variant, name, n, figure.rows, figure.experts, parameters)
        for variant in figure.variants
        for name in figure.algorithms
        for n in figure.agents
    ]


@dataclass
class Laboratory:
    """Plays runs and remembers them.

    Parameters
    ----------
    folder : str or None
        Where data are looked for first.
    seeds : int
        Orders of the examples that every run is played with.
    say : function
        Called with lines about what happens.
    after_run : function
        Called after every run.
    """

    folder: str | None = None
    seeds: int = 5
    say: Say = print
    after_run: Callable[[], None] = lambda: None
    played: dict[Key, Repeats] = field(default_factory=dict)
    speeds: dict[Key, float] = field(default_factory=dict)
    facts: dict[str, DataFacts] = field(default_factory=dict)
    regrets: dict[Key, Regretted] = field(default_factory=dict)

    def play(self, figures: Sequence[Figure]) -> None:
        """Play all runs of some figures that have not been played."""
        for figure in figures:
            for variant in figure.variants:
                for name in figure.algorithms:
                    keys = [
                        key
                        for key in keys_of(figure)
                        if (key.variant, key.algorithm) == (variant, name)
                    ]
                    self._sweep([key for key in keys if key not in self.played])
                    if figure.regret:
                        self._compare(keys)

    def runs(self, figures: Sequence[Figure]) -> int:
        """How many runs these figures need."""
        keys = {key for figure in figures for key in keys_of(figure)}
        return sum(self._seeds(key) for key in keys)

    def _seeds(self, key: Key) -> int:
        return 1 if key.variant == "file order" else self.seeds

    def _sweep(self, keys: Sequence[Key]) -> None:
        """Play runs that differ in their number of agents only, with every order."""
        if not keys:
            return
        data = self._data(keys[0])
        seeds, done_before = range(self._seeds(keys[0])), 0

        def progress(done: int, total: int) -> None:
            nonlocal done_before
            for _ in range(done_before, done):
                self.after_run()
            done_before = done

        found = sweep(axes_of(keys, seeds), data.of, observe=data.best_by_round, progress=progress)
        for key in keys:
            chosen = [i for i, row in enumerate(found.rows) if row["agents"] == key.agents]
            self.played[key] = _gathered(found, chosen)
        self._time(keys, data)

    def _data(self, key: Key) -> _Data:
        rows = load(find(key.data, self.folder, self.say))
        self.facts[key.data] = facts_of(rows)
        return _Data(_advice(rows, key.experts), key)

    def _time(self, keys: Sequence[Key], data: _Data) -> None:
        """Seconds with the agents spread over as many cores as pay, which one agent cannot be."""
        cores = os.cpu_count() or 1
        several = [key for key in keys if key.agents >= cores > 1]
        if several and len(data.rows) >= _WORTH_TIMING:
            axes = {**axes_of(several, [0]), "engine": "threads"}
            rows = sweep(axes, data.of, workers=1).rows
            self.speeds |= {key: row["seconds"] for key, row in zip(several, rows, strict=True)}

    def _compare(self, keys: Sequence[Key]) -> None:
        """Regrets against the best weights in hindsight, which are found once for all agents."""
        data = self._data(keys[0])
        best = best_weights(problem_of(algorithm_of(keys[0]), data.of(0).rows))

        def against(trace: Trace, shown: RowsStream) -> Mapping[str, Any]:
            found = regret(trace, shown, weights=best.weights)
            done_before = found.bounds.get("DOMD", {"value": np.nan, "holds": True})
            return {
                "social": found.social,
                "allowed": done_before["value"],
                "holds": done_before["holds"],
            }

        rows = sweep(axes_of(keys, [0]), data.of, observe=against).rows
        for key, row in zip(keys, rows, strict=True):
            self.regrets[key] = Regretted(
                row["social"], row["allowed"], row["holds"], best, row["examples"]
            )


@dataclass(frozen=True)
class _Data:
    """Rows of a data set, features or advice, in the order of a seed."""

    rows: Rows
    key: Key

    def of(self, seed: int) -> RowsStream:
        return RowsStream(arranged(self.rows, self.key.variant, seed, self.key.rows))

    def best_by_round(self, trace: Trace, shown: RowsStream) -> Mapping[str, Any]:
        """At how many agents the best expert errs in every round."""
        if self.key.experts is None:
            return {}
        rows = shown.rows
        wrong = rows.data.reshape(len(rows), -1) != rows.y[:, None]
        best = wrong[:, wrong.sum(axis=0).argmin()]
        starts = np.arange(0, len(best), trace.agents)
        return {"best_by_round": np.add.reduceat(best.astype(np.int64), starts)}


def axes_of(keys: Sequence[Key], seeds: Sequence[int]) -> dict[str, Any]:
    """The sweep over keys that differ in their number of agents only."""
    agents = [key.agents for key in keys]
    return {
        "algorithm": keys[0].algorithm,
        "agents": agents,
        "seed": seeds,
        **dict(keys[0].parameters),
    }


def algorithm_of(key: Key) -> Algorithm:
    """The preset with the figure's parameters."""
    return algorithm_named(key.algorithm, dict(key.parameters))


def _advice(rows: Rows, experts: int | None) -> Rows:
    """Features as they are, or what decision stumps make of them."""
    if experts is None:
        return rows
    return fit_stumps(RowsStream(rows), experts).advice(rows)


def _gathered(found: Study, chosen: Sequence[int]) -> Repeats:
    """The runs of all seeds; they have the same rounds, so they have the same points."""
    rows = [found.rows[i] for i in chosen]
    failed = [row["problem"] for row in rows if "problem" in row]
    if failed:
        raise FloatingPointError(failed[0])
    curves = [curve for i in chosen if (curve := found.curves[i]) is not None]
    rounds = curves[0].rounds
    by_round = [row.get("best_by_round", np.empty(0)) for row in rows]
    errors = [np.cumsum(wrong) for wrong in by_round]
    expert = [e[rounds - 1] if len(e) else np.full(len(rounds), np.nan) for e in errors]
    bound = rows[0]["bound"]
    return Repeats(
        samples=rounds,
        mistakes=np.array([curve.agent_mistakes for curve in curves]),
        objective=np.array([curve.loss / curve.examples for curve in curves]),
        best_expert=np.array(expert),
        best_by_round=tuple(by_round),
        total_loss=np.array([row["loss"] for row in rows]),
        seconds=float(np.median([row["seconds"] for row in rows])),
        bound=np.nan if bound is None else bound,
    )
