"""What ddol wants to reach: ratios within one run."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.contest import Result

Results = Sequence[Result]


@dataclass(frozen=True)
class Target:
    """A ratio that must be at least, or at most, some number.

    Parameters
    ----------
    workload, against : str
        As the table shows them.
    goal : float
    at_least : bool
    ratio : function of all results
        NaN where what it compares was not run.
    """

    workload: str
    against: str
    goal: float
    at_least: bool
    ratio: Callable[[Results], float]

    def reached(self, results: Results) -> bool | None:
        """None where it was not measured."""
        value = self.ratio(results)
        if math.isnan(value):
            return None
        return value >= self.goal if self.at_least else value <= self.goal


def best(results: Results, workload: str, name: str, per_example: bool = False) -> float:
    """Least seconds of the contestants of a workload whose names begin with ``name``."""
    found = [r for r in results if r.workload == workload and r.name.startswith(name)]
    if not found:
        return math.nan
    return min(r.best / r.examples if per_example else r.best for r in found)


def _faster(workload: str, name: str, peer: str) -> Callable[[Results], float]:
    return lambda results: best(results, workload, peer, True) / best(results, workload, name, True)


def _share(workload: str, name: str, peer: str) -> Callable[[Results], float]:
    return lambda results: best(results, workload, name) / best(results, workload, peer)


def _agents(results: Results) -> float:
    together = best(results, "agents-64-complete", "ddol dogd", True)
    return together / best(results, "covtype-dense", "ddol dogd", True)


TARGETS = (
    Target(
        "dense covtype, 1 agent, one pass in memory",
        "scikit-learn partial_fit, rows in order: times faster",
        5.0,
        True,
        _faster("covtype-dense", "ddol dogd", "sklearn"),
    ),
    Target(
        "CSR covtype, 1 agent",
        "scikit-learn partial_fit, rows in order: times faster",
        3.0,
        True,
        _faster("covtype-csr", "ddol dogd", "sklearn"),
    ),
    Target(
        "sparse, like rcv1, 1 agent, with L2",
        "scikit-learn partial_fit, rows in order: times faster",
        1.3,
        True,
        _faster("like-rcv1", "ddol dogd", "sklearn"),
    ),
    Target(
        "dense covtype, 1 agent",
        "river: times faster",
        200.0,
        True,
        _faster("covtype-dense", "ddol dogd", "river"),
    ),
    Target(
        "64 agents, complete graph, per example",
        "ddol with 1 agent: times the cost",
        1.2,
        False,
        _agents,
    ),
    Target(
        "covtype text → model on disk, default workers, warm",
        "Vowpal Wabbit from text: share of its time",
        0.5,
        False,
        _share("covtype-text", "ddol train adaptive", "vw text"),
    ),
    Target(
        "covtype text ten times over → model on disk",
        "Vowpal Wabbit from text: share of its time",
        0.2,
        False,
        _share("covtype-text-x10", "ddol train adaptive", "vw text"),
    ),
    Target(
        "dense covtype, one pass",
        "reading the array once: times",
        2.5,
        False,
        _share("covtype-dense", "ddol dogd", "limit"),
    ),
    Target(
        "weighted majority, 1,000 experts",
        "NumPy loop, vectorised over experts: times faster",
        10.0,
        True,
        _faster("experts-1000", "ddol dwm_i", "numpy"),
    ),
)
