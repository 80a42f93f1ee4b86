"""Sweeps as TOML files: a job, in which a list of values may stand in place of every value.

data = "svmguide1"          # beside this file; several files or a pattern: an agent for each
show = "mistakes"           # and against = "rounds", compare = "algorithm"

[reading]
label = "outcome"

[algorithm]
name = ["adaptive", "dogd"]

[sweep]                     # options of all tables by name
agents = [1, 4]
seed = 30                   # a number of seeds: 0, …, 29
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ddol.job.job import Job
from ddol.job.toml import sweep_of_tables
from ddol.streams.errors import DataError
from ddol.study.study import AGAINST, SHOWN

_OLD_KEYS = ("label", "drop", "missing", "experts")
"""Keys of ``[reading]`` that this version also finds outside of it."""


@dataclass(frozen=True)
class SweepFile:
    """What a file asks for.

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
    """Read a file; what it does not understand is a `DataError` of one line."""
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
