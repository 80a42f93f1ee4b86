"""The options of ``ddol train``."""

from __future__ import annotations

from typing import Any

import click

from ddol.cli.blas import without_blas_threads
from ddol.cli.flags import Command, debug, flag, job_from, options_of, typed
from ddol.job.options import (
    AlgorithmOptions,
    DataOptions,
    NetworkOptions,
    OutputOptions,
    RunOptions,
)
from ddol.job.schedule import ScheduleOptions
from ddol.streams.formats import pair_of_features

_QUIET = "quiet"


_SHORT = (
    *("algorithm", "loss", "rate", "safe", "agents", "topology", "period"),
    *("format", "label", "missing", "bits", "shuffle", "passes", "seed"),
    *("engine", "workers", "quiet", "model", "checkpoint", "resume", "json"),
)
"""Options that most runs need: those of the short help page."""


@click.command(cls=Command, algorithms=True, short=_SHORT)
@click.argument("data", nargs=-1)
@options_of(AlgorithmOptions)
@options_of(NetworkOptions)
@options_of(ScheduleOptions)
@options_of(
    DataOptions, interactions={"spellings": ("-q", "--interactions"), "bare": _QUIET, "read": str}
)
@options_of(RunOptions)
@options_of(OutputOptions)
@flag("--save-job JOB.toml", "Write the job to a file, which ddol train JOB.toml runs.")
@debug
@click.pass_context
def train(ctx: click.Context, save_job: str | None, **given: Any) -> None:
    """Learn from DATA with N agents, in one pass.

    DATA: one file, dealt to the agents round-robin; as many files as agents (or a pattern), one
    each; - for standard input. Without any: a built-in data set. Or JOB.toml, which describes a whole run;
    options beside it override.

    The label of a table is the column --label, or the one named label, y or target, or else the first;
    in LIBSVM and Vowpal Wabbit text it stands first in the line. The first line of a run says what was
    taken for what.
    """
    given["quiet"] |= _QUIET in given["interactions"]
    given["interactions"] = tuple(
        map(pair_of_features, filter(_QUIET.__ne__, given["interactions"]))
    )
    chosen = typed(ctx) - (set() if given["interactions"] else {"interactions"})
    job = job_from(given, chosen | ({"quiet"} if given["quiet"] else set()))
    without_blas_threads()
    if save_job is not None:
        job.write(save_job)
    from ddol.cli.training import train_and_show  # the larger part of what is imported

    train_and_show(job)
