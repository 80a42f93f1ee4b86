"""How the cost of an example grows: with agents, with features."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.linear_model import SGDClassifier

import ddol
from benchmarks import data
from benchmarks.contest import timed


@dataclass(frozen=True)
class Point:
    """One measurement of a curve: nanoseconds per ``unit`` at ``x``."""

    figure: str
    curve: str
    x: int
    nanoseconds: float
    spread: float


@dataclass(frozen=True)
class Scale:
    """Sizes of the measurements."""

    examples: int = 100_000
    values: int = 1 << 22
    agents: tuple[int, ...] = (1, 4, 16, 64, 256, 1024, 4096, 10_000)
    features: tuple[int, ...] = (10, 100, 1_000, 10_000, 100_000, 1_000_000)
    turns: int = 5


QUICK = Scale(20_000, 1 << 19, (1, 16, 256), (10, 1_000, 100_000), 2)

Runs = dict[tuple[str, int], tuple[Callable[[], Any], int]]
"""(curve, x) → a run, and the units it goes through."""


def against_agents(scale: Scale) -> list[Point]:
    """Cost of an example on covtype as the number of agents grows."""
    found = data.arrays("covtype", scale.examples)
    shapes = {"complete": ddol.complete, "ring": ddol.ring}
    runs: Runs = {}
    for n in scale.agents:
        for shape, make in shapes.items():
            graph = make(n) if n > 2 or shape == "complete" else ddol.complete(n)
            for preset in (ddol.dogd, ddol.adaptive):
                run = partial(ddol.run, preset().on(graph), (found.X, found.y))
                runs[f"{preset.__name__}, {shape}", n] = run, found.n_examples
    return _measured("agents", runs, scale.turns)


def against_features(scale: Scale) -> list[Point]:
    """Cost of a stored number as the number of features grows, in dense rows and in sparse ones."""
    runs: Runs = {}
    for d in scale.features:
        X, y = _dense(scale.values, d)
        S, t = _sparse(scale.values // 50, d)
        for kind, (Z, labels) in {"dense": (X, y), "50 non-zeros": (S, t)}.items():
            size = Z.nnz if sp.issparse(Z) else Z.size
            for preset, choices in ((ddol.dogd, {"l2": 1e-6}), (ddol.adaptive, {})):
                run = partial(ddol.run, preset(**choices), (Z, labels))
                runs[f"ddol {preset.__name__}, {kind}", d] = run, size
            runs[f"sklearn SGD, {kind}", d] = partial(_sklearn, Z, labels), size
    return _measured("features", runs, scale.turns)


def _sklearn(X: Any, y: np.ndarray) -> None:
    steps = {"learning_rate": "invscaling", "eta0": 1.0, "power_t": 0.5, "alpha": 1e-6}
    SGDClassifier(fit_intercept=False, **steps).partial_fit(X, y, classes=[-1.0, 1.0])


def _dense(values: int, n_features: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(n_features)
    X = rng.standard_normal((max(values // n_features, 8), n_features)) / np.sqrt(n_features)
    return X, _signs(X[:, 0])


def _sparse(examples: int, n_features: int) -> tuple[sp.csr_matrix, np.ndarray]:
    """Columns spread evenly: the hardest case for caches."""
    rng = np.random.default_rng(n_features)
    each = min(50, n_features)
    width = n_features // each
    columns = rng.integers(width, size=(examples, each)) + width * np.arange(each)
    ends = np.arange(0, examples * each + 1, each, dtype=np.int32)
    values = rng.standard_normal(examples * each) / np.sqrt(each)
    parts = (values, columns.astype(np.int32).reshape(-1), ends)
    return sp.csr_matrix(parts, shape=(examples, n_features)), _signs(values[::each])


def _signs(z: np.ndarray) -> np.ndarray:
    y = np.where(z >= 0, 1.0, -1.0)
    y[:2] = -1.0, 1.0
    return y


def _measured(figure: str, runs: Runs, turns: int) -> list[Point]:
    seconds: dict[tuple[str, int], list[float]] = {key: [] for key in runs}
    for turn in range(turns + 1):
        for key, (run, _) in runs.items():
            took, _ = timed(run)
            if turn:  # The first turn warms up.
                seconds[key].append(took)
    points = []
    for (curve, x), (_, units) in runs.items():
        best, median = min(seconds[curve, x]), float(np.median(seconds[curve, x]))
        points.append(Point(figure, curve, x, 1e9 * best / units, median / best - 1.0))
    return points
