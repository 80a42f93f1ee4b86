"""``ddol bound``: what a theorem promises, before any run."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from ddol.job.algorithm import build
from ddol.job.job import Job
from ddol.measure.applicable import applicable_bound, entry, regret_before
from ddol.measure.theorems import Bound, find_theorem
from ddol.streams.errors import DataError


@dataclass(frozen=True)
class Question:
    """What is known before a run; None is "not given".

    Parameters
    ----------
    experts : int or None
        Number of experts P.
    mistakes : float or None
        Mistakes of the best of them, at all agents together.
    rounds : int or None
        T.
    gradient : float or None
        G, at least ‖g‖_* of every subgradient.
    divergence : float or None
        D, at least ψ(w*, w^t) in every round.
    """

    experts: int | None = None
    mistakes: float | None = None
    rounds: int | None = None
    gradient: float | None = None
    divergence: float | None = None


def bound(job: Job, question: Question, as_json: bool) -> None:
    """Print the bound, what it is of, and what it needs."""
    found = answer(job, question)
    value = float(found.value)
    if as_json:
        told = entry(found.theorem, value, float("nan"), True)
        told = {k: v for k, v in told.items() if k not in ("observed", "holds")}
        print(json.dumps(told, indent=2, ensure_ascii=False))
        return
    agents = f"{job.n_agents} agent{'s' if job.n_agents > 1 else ''}"
    each = f", {value / job.n_agents:,.1f} for the average agent" if job.n_agents > 1 else ""
    print(f"{job.algorithm.name}, {agents}: at most {value:,.1f} {found.theorem.quantity}{each}")
    print(f"theorem {found.theorem.name}: {found.theorem.formula}")
    print("needs: " + "; ".join(found.theorem.assumptions))


def answer(job: Job, question: Question) -> Bound:
    """The bound that the question asks for.

    Examples
    --------
    >>> asked = Question(experts=50, mistakes=100)
    >>> found = answer(Job.of(algorithm="dwm-i", agents=8, alpha=0.5), asked)
    >>> float(found.value.round(1))
    349.7
    """
    algorithm = build(job)
    if not find_theorem(algorithm).holds:
        raise DataError(find_theorem(algorithm).reason)
    if algorithm.update.experts:
        given = _needed(job, question, "experts", "mistakes")
        made = applicable_bound(algorithm, given["experts"])
        assert made is not None
        if made.needs_examples:
            given |= _needed(job, question, "rounds")
        return made.before(given["mistakes"], given.get("rounds", 0))
    given = _needed(job, question, "rounds", "gradient")
    return regret_before(algorithm, given["rounds"], given["gradient"], question.divergence)


def _needed(job: Job, question: Question, *names: str) -> dict[str, Any]:
    given = {name: getattr(question, name) for name in names}
    for name, value in given.items():
        if value is None:
            raise DataError(f"--{name} is needed for the bound of {job.algorithm.name}; give it")
    return given
