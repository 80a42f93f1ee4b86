"""From nothing to a first result: importing, and learning from a handful of examples."""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks import startup
from benchmarks.contest import Outcome, timed
from benchmarks.programs import call

_EXAMPLES = """
import numpy as np
rng = np.random.default_rng(0)
X = rng.standard_normal((100, 5)); y = np.where(X[:, 0] > 0, 1.0, -1.0)
"""
PROGRAMS = {
    "python alone": ("pass", ""),
    "numpy and numba": ("import numpy, numba", ""),
    "ddol": ("import ddol; ddol.run", "ddol.run(ddol.adaptive(), (X, y), 4)"),
    "sklearn": (
        "from sklearn.linear_model import SGDClassifier",
        "SGDClassifier().partial_fit(X, y, classes=[-1, 1])",
    ),
    "vw": (
        "import vowpalwabbit",
        "model = vowpalwabbit.Workspace('--quiet'); model.learn('1 | a:1'); model.finish()",
    ),
    "river": (
        "from river import linear_model",
        "linear_model.LogisticRegression().learn_one({0: 1.0}, True)",
    ),
}
"""Name → how to import it, and a first result."""


@dataclass(frozen=True)
class Waking:
    """Seconds from the start of Python to the end of ``what``."""

    name: str
    what: str
    seconds: float
    spread: float


def wakings(names: set[str], turns: int = 5, cold: bool = True) -> list[Waking]:
    """Times of fresh processes, contestants in turns."""
    programs = list(_programs(names))
    took: list[list[float]] = [[] for _ in programs]
    for turn in range(turns + 1):
        for place, (_, _, code) in enumerate(programs):
            seconds = _seconds(code)
            if turn:  # The first turn fills the caches.
                took[place].append(seconds)
    found = []
    for (name, what, _), seconds in zip(programs, took, strict=True):
        best = min(seconds)
        found.append(Waking(name, what, best, statistics.median(seconds) / best - 1.0))
    return [*found, *(_cold() if cold else [])]


def _programs(names: set[str]) -> Iterator[tuple[str, str, str]]:
    for name, (imports, first) in PROGRAMS.items():
        if name in names or not first:
            yield name, "import", imports
        if name in names and first:
            yield name, "first result, warm", f"{imports}\n{_EXAMPLES}\n{first}"


def _seconds(code: str) -> float:
    def run() -> Outcome:
        return call([sys.executable, "-c", code])[0]

    return timed(run)[0]


def _cold() -> list[Waking]:
    """Nothing of ddol compiled yet, as after installing it."""
    with tempfile.TemporaryDirectory() as empty:
        took = startup.seconds(empty)
    return [
        Waking("ddol", f"{name}, cold", seconds, 0.0)
        for name, seconds in zip(startup.NAMES, took, strict=True)
    ]
