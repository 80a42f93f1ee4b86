"""The runs behind the figures: each is played once, however many figures show it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ddol.algorithm import Algorithm
from ddol.engines.run import run
from ddol.experiments.config import Figure
from ddol.experiments.sources import DataFacts, Say, arranged, facts_of, find, load
from ddol.measure.comparator import Comparator, best_weights
from ddol.measure.regret import problem_of, regret
from ddol.presets import PRESETS
from ddol.streams.arrays import RowsStream
from ddol.streams.rows import Rows
from ddol.streams.stumps import fit_stumps
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
    bounds : list of dict
        Of the traces, per seed.
    """

    samples: np.ndarray
    mistakes: np.ndarray
    objective: np.ndarray
    best_expert: np.ndarray
    best_by_round: tuple[np.ndarray, ...]
    total_loss: np.ndarray
    seconds: float
    bounds: list[dict[str, Any]]

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
        Told about what happens.
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
        """Play all runs of some figures, those on the same data one after the other."""
        wanted = {key: None for figure in figures for key in keys_of(figure)}
        wanted = {key: None for key in wanted if key not in self.played}
        order = sorted(wanted, key=lambda key: (key.data, key.variant, key.rows or 0))
        groups: dict[tuple, list[Key]] = {}
        for key in order:
            group = key.data, key.variant, key.rows, key.experts
            groups.setdefault(group, []).append(key)
        for keys in groups.values():
            self._play_together(keys)
        for figure in figures:
            if figure.regret:
                self._compare(keys_of(figure))

    def runs(self, figures: Sequence[Figure]) -> int:
        """How many runs these figures need."""
        keys = {key for figure in figures for key in keys_of(figure)}
        return sum(self._seeds(key) for key in keys)

    def _seeds(self, key: Key) -> int:
        return 1 if key.variant == "file order" else self.seeds

    def _play_together(self, keys: Sequence[Key]) -> None:
        """Runs on the same data: every order is made once."""
        first = keys[0]
        rows = load(find(first.data, self.folder, self.say))
        self.facts[first.data] = facts_of(rows)
        traces: dict[Key, list[tuple[Trace, np.ndarray]]] = {key: [] for key in keys}
        for seed in range(self._seeds(first)):
            shown = arranged(_advice(rows, first.experts), first.variant, seed, first.rows)
            for key in keys:
                trace = run(algorithm_of(key), RowsStream(shown), key.agents)
                traces[key].append((trace, _best_by_round(shown, key)))
                self.after_run()
            if seed == 0:
                self._time(keys, shown)
        self.played |= {key: _gathered(found) for key, found in traces.items()}

    def _time(self, keys: Sequence[Key], shown: Rows) -> None:
        """Seconds with the agents spread over all cores, which one agent cannot be."""
        workers = os.cpu_count() or 1
        if len(shown) < _WORTH_TIMING:
            return
        for key in keys:
            if key.agents >= workers > 1:
                stream = RowsStream(shown)
                made = algorithm_of(key)
                trace = run(made, stream, key.agents, engine="threads", workers=workers)
                self.speeds[key] = trace.seconds

    def _compare(self, keys: Sequence[Key]) -> None:
        """Regrets against the best weights in hindsight, which are found once for all agents."""
        best: dict[tuple[str, str], Comparator] = {}
        for key in keys:
            rows = load(find(key.data, self.folder, self.say))
            shown = arranged(rows, key.variant, 0, key.rows)
            same = key.variant, key.algorithm
            if same not in best:
                best[same] = best_weights(problem_of(algorithm_of(key), shown))
            trace = run(algorithm_of(key), RowsStream(shown), key.agents)
            found = regret(trace, RowsStream(shown), weights=best[same].weights)
            told = found.bounds.get("DOMD", {"value": np.nan, "holds": True})
            self.regrets[key] = Regretted(
                found.social, told["value"], told["holds"], best[same], trace.examples
            )


def algorithm_of(key: Key) -> Algorithm:
    """The preset with the figure's parameters."""
    return PRESETS[key.algorithm](**dict(key.parameters))


def _advice(rows: Rows, experts: int | None) -> Rows:
    """Features as they are, or what decision stumps make of them."""
    if experts is None:
        return rows
    return fit_stumps(RowsStream(rows), experts).advice(rows)


def _best_by_round(shown: Rows, key: Key) -> np.ndarray:
    """At how many agents the best expert errs in every round."""
    if key.experts is None:
        return np.empty(0)
    wrong = shown.data.reshape(len(shown), -1) != shown.y[:, None]
    best = wrong[:, wrong.sum(axis=0).argmin()]
    starts = np.arange(0, len(best), key.agents)
    return np.add.reduceat(best.astype(np.int64), starts)


def _gathered(found: Sequence[tuple[Trace, np.ndarray]]) -> Repeats:
    """The traces of all seeds; they have the same rounds, so they have the same points."""
    traces = [trace for trace, _ in found]
    rounds = traces[0].curves.rounds
    errors = [np.cumsum(by_round) for _, by_round in found]
    expert = [e[rounds - 1] if len(e) else np.full(len(rounds), np.nan) for e in errors]
    return Repeats(
        samples=rounds,
        mistakes=np.array([trace.curves.agent_mistakes for trace in traces]),
        objective=np.array([trace.curves.loss / trace.curves.examples for trace in traces]),
        best_expert=np.array(expert),
        best_by_round=tuple(by_round for _, by_round in found),
        total_loss=np.array([trace.loss.sum() for trace in traces]),
        seconds=float(np.median([trace.seconds for trace in traces])),
        bounds=[trace.bounds for trace in traces],
    )
