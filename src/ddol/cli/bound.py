"""Before a run: regret and mistake bounds (``ddol bound``), and the speed-up by workers (``ddol plan``)."""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ddol.algorithm import Algorithm
from ddol.cli.errors import spelled
from ddol.cli.table import show, warn
from ddol.job.algorithm import build
from ddol.job.interface import Interface
from ddol.job.job import Job
from ddol.job.prepare import prepare
from ddol.lab.plan import MEASURED, plan, shown
from ddol.measure.applicable import applicable_bound, entry, regret_before
from ddol.measure.sites import largest_gap, mixture_bound
from ddol.measure.theorems import Bound, find_theorem
from ddol.streams.errors import DataError
from ddol.update.losses import squared
from ddol.update.mixtures import LOG, SWITCHES, rule_for


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
    gradient_norm : float or None
        G, at least ‖g‖_* of every subgradient.
    divergence : float or None
        D, at least ψ(w*, w^t) in every round.
    spread : float or None
        S, at least the difference of the losses of two learners on one answer.
    """

    experts: int | None = None
    mistakes: float | None = None
    rounds: int | None = None
    gradient_norm: float | None = None
    divergence: float | None = None
    spread: float | None = None


class DataSize(NamedTuple):
    """How many features, examples and entries the data of a job have."""

    features: int
    examples: int
    entries: int


def facts_of(job: Job) -> DataSize:
    """Read the data of a job as its agents see them.

    Examples
    --------
    >>> facts_of(Job.of(algorithm="dogd"))
    DataSize(features=31, examples=569, entries=17639)
    """
    features = examples = entries = 0
    with ExitStack() as stack:
        for stream in prepare(job, stack, Interface(warn=warn)).data.streams:
            for rows, _ in stream.read():
                features = max(features, rows.n_features)
                examples += len(rows)
                entries += len(rows.data)
    return DataSize(features, examples, entries)


def bound(job: Job, question: Question, as_json: bool) -> None:
    """Print the bound, its quantity and its assumptions."""
    if job.data.data and (question.experts is None or question.rounds is None):
        facts = facts_of(job)
        rounds = -(-facts.examples // (job.n_agents * (job.network.batch or 1)))
        question = replace(
            question,
            experts=facts.features if question.experts is None else question.experts,
            rounds=rounds * job.run.passes if question.rounds is None else question.rounds,
        )
    algorithm = build(job)
    if algorithm.safe or algorithm.memories:
        bound_of_mixture(algorithm, job, question, as_json)
        return
    if question.spread is not None:
        raise DataError("--spread is for --safe; leave it out")
    found = answer(job, question)
    value, more = float(found.value), _with_switches(job, question)
    if as_json:
        row = entry(found.theorem, value, float("nan"), True)
        row = {k: v for k, v in row.items() if k not in ("observed", "holds")}
        row |= {"with_switches": [value, *more]} if more else {}
        print(json.dumps(row, indent=2, ensure_ascii=False))
        return
    agents = f"{job.n_agents} agent{'s' if job.n_agents > 1 else ''}"
    each = f", {value / job.n_agents:,.1f} for the average agent" if job.n_agents > 1 else ""
    print(f"{job.algorithm.name}, {agents}: at most {value:,.1f} {found.theorem.quantity}{each}")
    for m, larger in enumerate(more, 1):
        print(
            f"at most {larger:,.1f} if they are those of a sequence of experts with {m} change{'s' * (m > 1)}"
        )
    print(f"theorem {found.theorem.name}: {found.theorem.formula}")
    print("needs: " + "; ".join(found.theorem.assumptions))


def bound_of_mixture(algorithm: Algorithm, job: Job, question: Question, as_json: bool) -> None:
    """Print what a mixture of learners loses at most: see docs/safe.md."""
    update: Any = algorithm.update
    K, rule, labels = len(update.opinions), rule_for(algorithm.loss), 0
    labels = int(_needed(job, question, "rounds")["rounds"]) * algorithm.batch
    gap = 1.0
    if rule != LOG:
        spread = _needed(job, question, "spread")["spread"]
        gap = largest_gap(K, labels, spread, algorithm.loss.name == squared.name)
    if algorithm.delay:
        raise DataError("--delay: what late labels cost is known during a run only; leave it out")
    found = [mixture_bound(rule, K, labels, m, gap) for m in range(SWITCHES + 1)]
    unit = "nats" if rule == LOG else f"of the {algorithm.loss.name} loss"
    if as_json:
        row = {"experts": K, "labels": labels, "unit": unit, "value": found[0]}
        print(json.dumps(row | {"with_switches": found}, indent=2, ensure_ascii=False))
        return
    others = (
        "its own learner alone, and than the shared one"
        if algorithm.safe
        else "any of its memories"
    )
    print(
        f"each agent loses at most {found[0]:,.1f} {unit} more over {labels:,} labels than {others}"
    )
    for m, value in enumerate(found[1:], 1):
        print(
            f"at most {value:,.1f} more than the best sequence of them with {m} change{'s' * (m > 1)}"
        )
    formula = "ln K + m·(ln(K−1) + ln T) + (m+1)·ln(1 + ln T)"
    formula = formula if rule == LOG else f"Δ·(1 + ({formula})/ln K), Δ ≤ {gap:,.4g}"
    print(f"formula: {formula}, K = {K} experts")


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
        return _of_experts(algorithm, job, question)
    given = _needed(job, question, "rounds", "gradient_norm")
    return regret_before(algorithm, given["rounds"], given["gradient_norm"], question.divergence)


def _of_experts(algorithm: Algorithm, job: Job, question: Question, switches: int = 0) -> Bound:
    given = _needed(job, question, "experts", "mistakes")
    made = applicable_bound(algorithm, given["experts"])
    assert made is not None
    if made.needs_examples:
        given |= _needed(job, question, "rounds")
    return made.before(given["mistakes"], given.get("rounds", 0), switches)


def _with_switches(job: Job, question: Question) -> list[float]:
    """The bound for sequences of experts with 1, 2, … changes, where experts share their weights."""
    algorithm = build(job)
    if not getattr(algorithm.update, "shares", False):
        return []
    return [float(_of_experts(algorithm, job, question, m).value) for m in range(1, SWITCHES + 1)]


def _needed(job: Job, question: Question, *names: str) -> dict[str, Any]:
    given = {name: getattr(question, name) for name in names}
    for name, value in given.items():
        if value is None:
            raise DataError(
                f"{spelled(name)} is needed for the bound of {job.algorithm.name}; give it"
            )
    return given


def plan_job(
    job: Job,
    dim: int | None,
    nnz: int | None,
    network: tuple[float | None, float | None],
    as_json: bool,
) -> None:
    """Print how many times faster the workers of a job will be.

    Parameters
    ----------
    job : Job
    dim, nnz : int or None
        Features, and entries of an example, where its data do not say it.
    network : latency and bandwidth, in seconds and bytes per second
        None where they are measured here.
    as_json : bool
    """
    if dim is None:
        if not job.data.data:
            raise DataError("--dim is needed, or JOB.toml, whose data say it; give one of them")
        facts = facts_of(job.but(workers=None, engine=None))
        dim, nnz = facts.features, nnz or -(-facts.entries // max(facts.examples, 1))
    run, places = job.run, job.network
    if run.workers is None:
        raise DataError("--workers is needed: how many are planned; give it")
    found = plan(
        dim,
        run.workers,
        places.period,
        agents=job.known_agents,
        batch=places.batch or 1,
        nnz=nnz,
        engine=run.engine if run.engine in MEASURED else "mpi",
        latency=network[0],
        bandwidth=network[1],
    )
    show(shown(found, as_json))
