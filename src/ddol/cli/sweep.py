"""``ddol sweep``: many runs from one TOML file (docs/study.md), their table, chart and comparisons."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from ddol.cli.table import say, show
from ddol.cli.training import command
from ddol.job.job import Job
from ddol.job.outputs import check_outputs
from ddol.job.toml import sweep_of_tables
from ddol.lab.page import figure, figures, heading, origin, paragraph, write_page
from ddol.streams.errors import DataError
from ddol.study.study import AGAINST, SHOWN, Study, as_text
from ddol.study.sweep import sweep as run_sweep


def sweep(path: str, out: str | None, report: str | None, workers: int | None, quiet: bool) -> None:
    """Run a sweep from a file, and write its results."""
    check_outputs(out, report)
    asked = read_sweep(path)
    folder = asked.path.with_suffix(".runs")
    try:
        found = run_sweep(
            asked.axes,
            asked.job,
            workers=workers,
            folder=folder,
            progress=False if quiet else None,
        )
        lines = [str(line) for line in _comparisons(asked, found)]
        chart = found.chart(asked.show, asked.against)
    except (ValueError, TypeError) as error:
        raise DataError(f"{path}: {error}") from None
    for text in (str(found), *lines):
        show(text)
    if out is not None:
        found.write(out)
    if report is not None:
        data = ", ".join(asked.job.data.data) or "built-in data"
        body = [
            f"<h1>{escape(asked.path.stem)}</h1>",
            paragraph(
                f"{len(found.rows)} runs on {data}.",
                "lead",
            ),
            figures([figure(chart)]),
            heading("Means over the seeds"),
            f"<pre>{escape(as_text(found.summary()))}</pre>",
            *([heading("In pairs"), *map(paragraph, lines)] if lines else []),
            *origin(command()),
        ]
        write_page(report, f"{asked.path.stem} · ddol", body)
    if not quiet:
        kept = {"table": out, "report": report, "runs": str(folder)}
        say("; ".join(f"{what}: {place}" for what, place in kept.items() if place is not None))


def _comparisons(asked: SweepFile, found: Study) -> list:
    axis = asked.compare or next(iter(found.varied), None)
    return [] if axis is None else found.compare(axis, asked.show)


_OLD_KEYS = ("label", "drop", "missing", "experts")
"""Keys of ``[reading]`` that this version also finds outside of it."""


@dataclass(frozen=True)
class SweepFile:
    """Contents of a sweep file.

    Parameters
    ----------
    path : Path
        Of the file itself.
    job : Job
        What is the same in all runs.
    axes : dict
        Options that have several values, each with its values by name.
    show, against : str
        See `Study.chart`.
    compare : str or None
        An axis; by default the first that varies.
    """

    path: Path
    job: Job
    axes: dict[str, dict[str, Any]]
    show: str = "mistakes"
    against: str = "examples"
    compare: str | None = None


def read_sweep(path: str | Path) -> SweepFile:
    """Read a file. Errors are a `DataError` of one line."""
    place = Path(path)
    try:
        given = tomllib.loads(place.read_text(encoding="utf-8-sig"))
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"{path}: {reason}; expected a job in TOML, with lists of values") from None
    settings: dict[str, Any] = {
        name: given.pop(name) for name in ("show", "against", "compare") if name in given
    }
    for name, choices in (("show", SHOWN), ("against", AGAINST)):
        if settings.get(name, choices[0]) not in choices:
            raise DataError(
                f"{path}: found {name} = {settings[name]!r}, expected one of {', '.join(choices)}"
            )
    old = {name: given.pop(name) for name in _OLD_KEYS if name in given}
    given["reading"] = {"shuffle": True, **old, **given.get("reading", {})}
    job, axes = sweep_of_tables(given, str(path))
    if not axes:
        raise DataError(
            f"{path}: found no list of values, expected at least one, such as agents = [1, 4]; ddol train "
            "runs a job once"
        )
    if settings.get("compare", next(iter(axes))) not in axes:
        raise DataError(
            f"{path}: found compare = {settings['compare']!r}, expected one of {', '.join(axes)}"
        )
    return SweepFile(place, job, axes, **settings)
