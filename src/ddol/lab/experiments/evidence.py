"""What claims are tested with: runs by what they are of, and the words for what they show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ddol.lab.experiments.play import Key, Regretted, Repeats
from ddol.lab.experiments.sources import DataFacts
from ddol.measure.chart import number

HOLDS, PART, NOT = "holds", "holds in part", "not reproduced"
_ABOUT = 0.02
"""Differences smaller than this share are called none."""


@dataclass(frozen=True)
class Claim:
    """One sentence of the paper.

    Parameters
    ----------
    figures : str
        Where it can be seen.
    quote : str
        The paper's words.
    measured : str
    verdict : str
        ``holds``, ``holds in part`` or ``not reproduced``.
    """

    figures: str
    quote: str
    measured: str
    verdict: str


class Results:
    """Runs by what they are of."""

    def __init__(
        self,
        played: Mapping[Key, Repeats],
        speeds: Mapping[Key, float],
        facts: Mapping[str, DataFacts],
        regrets: Mapping[Key, Regretted],
    ) -> None:
        self.played, self.speeds, self.facts, self.regrets = played, speeds, facts, regrets

    def of(self, data: str, variant: str, algorithm: str) -> dict[int, Repeats]:
        """Runs by number of agents; empty where there are none."""
        wanted = (data, variant, algorithm)
        found = {
            key.agents: run
            for key, run in self.played.items()
            if (key.data, key.variant, key.algorithm) == wanted
        }
        return dict(sorted(found.items()))

    def timed(self, data: str, algorithm: str) -> dict[int, float]:
        """Seconds on all cores, by number of agents."""
        found = {
            k.agents: s
            for k, s in self.speeds.items()
            if (k.data, k.algorithm) == (data, algorithm)
        }
        return dict(sorted(found.items()))


def per_agent(runs: Mapping[int, Repeats]) -> tuple[int, dict[int, float]]:
    """Mistakes of the mean agent after as many samples as every run has; that number first."""
    samples = int(min(run.samples[-1] for run in runs.values()))
    points = {n: run.mistakes[:, run.at(samples)].mean() for n, run in runs.items()}
    return samples, {n: float(value) for n, value in points.items()}


def objectives(runs: Mapping[int, Repeats]) -> tuple[int, dict[int, float]]:
    """Average objective after as many samples per agent as every run has; that number first."""
    samples = int(min(run.samples[-1] for run in runs.values()))
    return samples, {n: float(r.objective[:, r.at(samples)].mean()) for n, r in runs.items()}


def falls(values: Sequence[float]) -> str:
    """Whether a sequence falls at every step, only from first to last, or not at all.

    Examples
    --------
    >>> falls([5, 4, 3]), falls([5, 3, 4]), falls([5, 6, 5])
    ('holds', 'holds in part', 'not reproduced')
    """
    v = np.asarray(values, float)
    if v[-1] >= v[0] * (1 - _ABOUT):
        return NOT
    return HOLDS if np.all(v[1:] <= v[:-1] * (1 + 0.005)) else PART


def together(verdicts: Sequence[str]) -> str:
    """The verdict on a sentence about several runs."""
    if all(v == HOLDS for v in verdicts):
        return HOLDS
    return NOT if all(v == NOT for v in verdicts) else PART


def listed(values: Mapping[int, float], form: str = ",.0f") -> str:
    """Values in the order of the numbers of agents."""
    shown = (f"{v:{form}}" if abs(v) < 1e4 else number(v) for v in values.values())
    return " → ".join(shown)


def sizes(values: Mapping[int, Any]) -> str:
    """The numbers of agents."""
    return "N = " + ", ".join(map(str, values))
