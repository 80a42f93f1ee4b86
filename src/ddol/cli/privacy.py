"""``ddol privacy``: what a privacy budget would cost on some data."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict

import click
import numpy as np

from ddol.cli.leaks import first_rows
from ddol.job.job import Job
from ddol.privacy.budget import Budget, parse_privacy
from ddol.privacy.site import Known
from ddol.privacy.together import Private, Result, learn_privately
from ddol.streams.errors import DataError


def privacy(job: Job, budgets: tuple[str, ...], every: int, public: int, as_json: bool) -> None:
    """Run private sites with every budget, and without noise, and print what it costs."""
    algorithm, X, y = first_rows(job, most=None)
    if algorithm.outputs > 1 or not algorithm.classification:
        raise DataError("privacy is for two classes; found another task")
    if algorithm.n_agents < 2:
        raise DataError("one site sends nothing; say how many there are (--agents)")
    if not 2 <= public < len(y):
        raise DataError(f"--public: found {public}, expected 2 to {len(y) - 1} rows for the scales")
    X = X[:, X.std(axis=0) > 0.0]  # the constant is the learner's own
    spread = X[:public].std(axis=0)
    known = Known(X[:public].mean(axis=0), np.where(spread > 0.0, spread, 1.0))
    rounds = (len(y) - public) // algorithm.n_agents
    if rounds < every:
        raise DataError(f"found {rounds} examples for each site, expected at least --every {every}")
    found = []
    for budget in _budgets(budgets, rounds // every):
        rng = np.random.default_rng(job.run.seed)
        settings = Private(budget, every)
        result = learn_privately(
            settings, known, X[public:], y[public:], algorithm.mixing.at(1), rng
        )
        found.append((budget, result))
    if as_json:
        click.echo(json.dumps([_row(budget, result) for budget, result in found], indent=2))
        return
    click.echo(
        f"{algorithm.n_agents} sites, {rounds} examples each, a release every {every}; errors in %"
    )
    click.echo("epsilon    spent   alone  shared  mixture")
    for budget, result in found:
        name, spent = (
            ("none", "-") if budget is None else (f"{budget.epsilon:g}", f"{result.spent:.2f}")
        )
        errors = (f"{100 * e:7.2f}" for e in (result.alone, result.shared, result.mixed))
        click.echo(f"{name:9} {spent:>6} {' '.join(errors)}")


def _budgets(texts: tuple[str, ...], releases: int) -> Iterator[Budget | None]:
    for text in texts:
        yield parse_privacy(text, releases)
    yield None


def _row(budget: Budget | None, result: Result) -> dict[str, float | int | None]:
    told = {"epsilon": None, "delta": None, "releases": None, "noise": 0.0}
    if budget is not None:
        told = {**asdict(budget), "noise": budget.noise}
    return {**told, **asdict(result), "spent": None if budget is None else result.spent}
