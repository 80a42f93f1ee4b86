"""``ddol privacy``: what a privacy budget would cost on some data."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import click
import numpy as np

from ddol.cli.leaks import first_rows
from ddol.job.job import Job
from ddol.job.run import run
from ddol.streams.errors import DataError
from ddol.update.budget import budget_of


def privacy(job: Job, budgets: tuple[str, ...], as_json: bool) -> None:
    """Run private sites with every budget, and without noise, and print what it costs."""
    algorithm, X, y = first_rows(job, most=None)
    if algorithm.n_agents < 2:
        raise DataError("one site sends nothing; say how many there are (--agents)")
    asked = [budget for text in budgets if (budget := budget_of(text)) is not None]
    found = []
    for budget in (*asked, replace(asked[-1], noise=0.0)):
        trace = run(replace(algorithm, privacy=budget), (X, y), seed=job.run.seed)
        rows, told = trace.sites(), trace.privacy
        assert told is not None
        figures: dict[str, Any] = {"epsilon": None, "noise": budget.noise}
        if budget.noise > 0.0:
            figures |= {**vars(budget), "spent": max(told["spent"])}
        kinds = {"alone": "error_alone", "shared": "error_shared", "mixture": "error"}
        figures |= {
            name: float(np.mean([row[kind] for row in rows])) for name, kind in kinds.items()
        }
        found.append(figures)
    if as_json:
        click.echo(json.dumps(found, indent=2))
        return
    click.echo(
        f"{algorithm.n_agents} sites, {len(y) // algorithm.n_agents} examples each; errors in %"
    )
    click.echo("epsilon    spent   alone  shared  mixture")
    for row in found:
        name, spent = ("none", "-")
        if row["epsilon"] is not None:
            name, spent = f"{row['epsilon']:g}", f"{row['spent']:.2f}"
        errors = (f"{100 * row[kind]:7.2f}" for kind in ("alone", "shared", "mixture"))
        click.echo(f"{name:9} {spent:>6} {' '.join(errors)}")
