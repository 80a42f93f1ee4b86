"""The options of ``ddol train``."""

from __future__ import annotations

from glob import glob
from itertools import pairwise
from typing import Any

import click

from ddol.cli.flags import Command, debug, flag, job_from, options_of, typed, without_blas_threads
from ddol.job.options import (
    AlgorithmOptions,
    DataOptions,
    NetworkOptions,
    OutputOptions,
    RunOptions,
)
from ddol.job.schedule import ScheduleOptions
from ddol.logs import tell
from ddol.streams.formats import is_pair_of_features

_SHORT = (
    *("algorithm", "loss", "rate", "safe", "agents", "topology", "period"),
    *("format", "label", "missing", "bits", "shuffle", "passes", "seed"),
    *("engine", "workers", "quiet", "model", "checkpoint", "resume", "json"),
)
"""Options that most runs need: those of the short help page."""


class TrainCommand(Command):
    """Reads ``-q ab`` as ``--interactions ab``, as the version before did; ``-q`` is ``--quiet``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse, with the old spelling replaced and named in one line."""
        words = list(args)
        for place, (word, following) in enumerate(pairwise(args)):
            if word == "-q" and is_pair_of_features(following) and not glob(following):  # noqa: PTH207
                words[place] = "--interactions"
                tell(f"-q {following} is now --interactions {following}; -q alone is --quiet")
        return super().parse_args(ctx, words)


@click.command(cls=TrainCommand, algorithms=True, short=_SHORT)
@click.argument("data", nargs=-1)
@options_of(AlgorithmOptions)
@options_of(NetworkOptions)
@options_of(ScheduleOptions)
@options_of(DataOptions)
@options_of(RunOptions)
@options_of(OutputOptions, quiet={"spellings": ("-q", "--quiet")})
@flag("--save-job JOB.toml", "Write the job to a file, which ddol train JOB.toml runs.")
@debug
@click.pass_context
def train(ctx: click.Context, save_job: str | None, **given: Any) -> None:
    """Learn from DATA with N agents, in one pass.

    DATA: one file, dealt to the agents round-robin; as many files as agents (or a pattern), one
    each; - for standard input. Without any: a built-in data set. Or JOB.toml, which describes a whole run;
    options beside it override.

    The label of a table is the column --label, or the one named label, y or target, or else the first;
    in LIBSVM and Vowpal Wabbit text it stands first in the line. The first line that is printed says how
    the data were understood.
    """
    job = job_from(given, typed(ctx))
    without_blas_threads()
    if save_job is not None:
        job.write(save_job)
    from ddol.cli.training import train_and_show  # the larger part of what is imported

    train_and_show(job)
