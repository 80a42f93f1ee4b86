"""``ddol leaks``: what leaves a site, and how many rows an attack reconstructs from it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, replace
from itertools import chain
from typing import Any

import click
import numpy as np

from ddol.algorithm import Algorithm
from ddol.cli.table import say, warn
from ddol.job.checks import check_private
from ddol.job.interface import Interface
from ddol.job.job import Job
from ddol.job.prepare import prepare
from ddol.job.run import run
from ddol.lab.inventory import inventory
from ddol.lab.leaks import Reconstruction, check_attack, reconstruct
from ddol.node.leaving import EXAMPLES_BETWEEN
from ddol.streams.errors import DataError
from ddol.update.budget import budget_of

_MOST_ROWS, _MOST_COLUMNS = 12_000, 2_000
"""Rows that are read for the attack, and features up to which it is tried."""


def leaks(job: Job, as_json: bool) -> None:
    """Print what leaves a site, attack the messages, and print what was found."""
    algorithm, X, y = first_rows(job)
    leaving, attacks, why = inventory(algorithm), [], ""
    try:
        check_attack(algorithm)
        attacks = list(_attacks(algorithm, X, y, job.run.seed))
    except ValueError as error:
        why = str(error)
    if as_json:
        found = [asdict(attack) for attack in attacks]
        listed = [each._asdict() for each in leaving]
        click.echo(json.dumps({"leaves": listed, "attacks": found, "not_attacked": why}, indent=2))
        return
    click.echo("What leaves a site")
    if algorithm.has_mixture:
        click.echo("  (of what its shared learner knows: its own learner is in no message)")
    for what, by, where in leaving:
        click.echo(f"  {what}\n    in: {by}; seen by: {where}")
    click.echo("\nAttack: rows reconstructed from messages")
    for attack in attacks:
        click.echo(f"  {_line(attack)}")
    if len(attacks) > 1 and attacks[-1].examples >= EXAMPLES_BETWEEN:
        click.echo(
            "  The last is how nodes with identities exchange, if node.toml says no other least."
        )
    if why:
        click.echo(f"  not run: {why}")
    if algorithm.privacy is None:
        click.echo(
            "A failed attack is no proof. --privacy gives a bound: ddol privacy, docs/leaks.md."
        )


def _attacks(
    algorithm: Algorithm, X: np.ndarray, y: np.ndarray, seed: int
) -> Iterator[Reconstruction]:
    """The job as it is, by all neighbours and by one; then as nodes with identities exchange."""
    yield reconstruct(algorithm, X, y, True, seed)
    if algorithm.privacy is not None:
        return
    if not algorithm.mixing.is_uniform_complete:
        yield reconstruct(algorithm, X, y, False, seed)
    period = -(-EXAMPLES_BETWEEN // algorithm.batch)
    if algorithm.period < period and len(X) >= period * algorithm.batch * algorithm.n_agents:
        yield reconstruct(replace(algorithm, period=period), X, y, True, seed)


def _line(found: Reconstruction) -> str:
    rows, values = (
        100 * part / whole
        for part, whole in (
            (found.rows_found, found.rows),
            (found.values_found, found.values),
        )
    )
    per = f"{found.examples} example{'s' * (found.examples > 1)} between two messages"
    return (
        f"{found.attackers}, {per}: {rows:.0f} % of {found.rows} rows, {values:.0f} % of values; best guess "
        f"{found.distance:.2f} deviations off, without messages {found.blind:.2f}"
    )


def first_rows(job: Job, most: int | None = _MOST_ROWS) -> tuple[Algorithm, np.ndarray, np.ndarray]:
    """The algorithm, and the first rows as it learns them, or all, dealt in turn."""
    with ExitStack() as stack:
        made = prepare(job, stack, Interface(say, warn))
        algorithm = made.algorithm
        found: list[list[Any]] = []
        for stream in made.data.streams:
            found.append([])
            count = 0
            for rows, _ in stream.read():
                if rows.n_features > _MOST_COLUMNS:
                    raise DataError(
                        f"found {rows.n_features:,} features, expected at most {_MOST_COLUMNS:,} "
                        "for the attack"
                    )
                found[-1].append((rows.to_scipy().toarray(), rows.y))
                count += len(rows)
                if most is not None and count * len(made.data.streams) >= most:
                    break
    parts = [tuple(map(np.concatenate, zip(*blocks, strict=True))) for blocks in found if blocks]
    if not parts:
        raise DataError("found no example; expected at least one")
    if len(parts) == 1:
        X, y = parts[0]
    else:  # one stream for each agent: in turn, up to the shortest
        n = min(len(y) for _, y in parts)
        X, y = (
            np.array(list(chain.from_iterable(zip(*(part[k][:n] for part in parts), strict=True))))
            for k in (0, 1)
        )
    if algorithm.outputs == 1 and algorithm.classification:
        y = np.where(y > 0, 1.0, -1.0)
    return algorithm, X[:most], y[:most]


def privacy(job: Job, budgets: tuple[str, ...], as_json: bool) -> None:
    """Run private sites with every budget, and without noise, and print what it costs."""
    asked = [budget for text in budgets if (budget := budget_of(text)) is not None]
    check_private(job, asked[0])
    algorithm, X, y = first_rows(job, most=None)
    algorithm = replace(algorithm, safe=False, privacy=None)
    if algorithm.n_agents < 2:
        raise DataError(
            "a single site sends no messages; give the number of sites, such as --agents 2"
        )
    found = []
    for budget in (*asked, replace(asked[-1], noise=0.0)):
        trace = run(replace(algorithm, privacy=budget), (X, y), seed=job.run.seed)
        rows, ledger = trace.sites(), trace.privacy
        assert ledger is not None
        figures: dict[str, Any] = {"epsilon": None, "noise": budget.noise}
        if budget.noise > 0.0:
            figures |= {**vars(budget), "spent": max(ledger["spent"])}
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
