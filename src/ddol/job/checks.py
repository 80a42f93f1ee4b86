"""Refuse combinations of options that cannot work, before any work is done."""

from __future__ import annotations

from ddol.algorithm import Algorithm
from ddol.engines.kinds import engine_named, require
from ddol.job.job import Job
from ddol.job.outputs import STDOUT, check_outputs
from ddol.job.sources import recording_mark
from ddol.storage import check_writable
from ddol.streams.errors import DataError
from ddol.streams.open import expand
from ddol.update.budget import Budget, budget_of


def check(job: Job, algorithm: Algorithm, leads: bool = True) -> None:
    """Refuse options that do not go together, and files that cannot be written.

    Parameters
    ----------
    job : Job
    algorithm : Algorithm
    leads : bool
        Whether this process writes.
    """
    data, run, output = job.data, job.run, job.output
    job.schedule.check(output.checkpoint, algorithm, run.engine)
    job.schedule.check_recorded(lambda: recording_mark(data, run.seed), algorithm.n_agents)
    if output.resume and output.checkpoint is None:
        raise DataError("--resume needs --checkpoint DIR, the folder of the earlier run")
    if output.every is not None and output.checkpoint is None:
        raise DataError("--every needs --checkpoint DIR, the folder to write to")
    if output.checkpoint is not None and data.from_stdin:
        raise DataError(
            "--checkpoint: a pipe is read once, so that a run could not go on from its middle; save it to a "
            "file first, or use --model, which a stopped run leaves, and --initial"
        )
    check_private(job, budget_of(algorithm.privacy))
    _check_predictions(job, algorithm)
    _check_lateness(job)
    if not leads:
        return
    read = [*expand(data.data), data.answers or ""] if data.in_files and data.data else []
    check_outputs(output.model, output.json, output.report, output.predictions, read=read)
    if output.checkpoint is not None:
        _check_folder(output.checkpoint)
    if data.from_stdin and engine_named(run.engine).can.replicated:
        raise DataError(
            f"standard input reaches one rank only; with --engine {run.engine} give a file"
        )


def check_private(job: Job, budget: Budget | None) -> None:
    """Refuse what would make an example count beyond its own gradient."""
    if budget is None:
        return
    budget.check_passes(job.run.passes)
    telling = {
        "--class-weight balanced": (
            job.data.class_weight == "balanced",
            "labels are counted; give weights",
        ),
        "--missing mean": (
            job.data.missing == "mean",
            "means follow from other examples; use zero",
        ),
        "--initial": (job.run.initial is not None, "what a model knows is not private"),
    }
    for option, (given, why) in telling.items():
        if given:
            raise DataError(f"{option} does not go with --privacy: {why}")


def _check_folder(place: str) -> None:
    from ddol.folders import folder_at

    folder = folder_at(place)
    try:
        folder.make()
    except OSError as error:
        raise DataError(f"--checkpoint {place}: {error.strerror}") from None
    check_writable(folder.file("checkpoint"))


def _check_lateness(job: Job) -> None:
    """With a column of delays, refuse what changes the order of rows or needs several processes."""
    data, run = job.data, job.run
    late = job.schedule.delay_column
    if data.answers is None and late is None:
        if data.id is not None:
            raise DataError("--id needs --answers FILE, the file of answers")
        return
    flag = "--delay column:NAME" if data.answers is None else "--answers"
    both = data.answers is not None and job.schedule.delay not in (None, "0")
    held = bool(data.holdout) or (run.passes > 1 and data.holdout is None)
    order = "the order of the examples says when labels come"
    strange = {
        "--delay": (both, "the file itself says how late each label is"),
        "--shuffle": (data.shuffle, order),
        "--holdout": (held, "an example that is left out has no place among the labels"),
        "--deal contiguous": (data.deal != "round-robin", order),
        "--checkpoint": (
            job.output.checkpoint is not None,
            "labels that are under way are not kept in checkpoints",
        ),
        "--predictions": (
            job.output.predictions is not None,
            "scores are not kept until a late label comes; predict with --model afterwards, or use "
            "ddol.TicketLearner",
        ),
        f"--engine {run.engine}": (
            not engine_named(run.engine).can.clock,
            "late labels need the clock of --engine local",
        ),
    }
    for other, (given, why) in strange.items():
        if given:
            raise DataError(f"{flag} does not go with {other}: {why}; leave one out")


def counts_predictions(job: Job, algorithm: Algorithm) -> bool:
    """Whether a report can count the predictions of single examples, from the first one on."""
    events = job.schedule.to_schedule().needs_events(algorithm)
    plain = not (job.output.resume or events or algorithm.update.randomized)
    return plain and engine_named(job.run.engine).can.predictions


def _check_predictions(job: Job, algorithm: Algorithm) -> None:
    """Refuse ``--predictions`` where the scores of single examples are not available."""
    output = job.output
    if output.predictions is None:
        return
    if output.predictions == output.json == STDOUT:
        raise DataError(
            "--predictions - and --json - both write to standard output; give one of them a file"
        )
    require(job.run.engine, "predictions", "--predictions")
    if job.schedule.to_schedule().needs_events(algorithm):
        raise DataError(
            "--predictions needs --schedule rounds in which every agent sends; leave one out"
        )
    if algorithm.update.randomized:
        raise DataError(
            f"--predictions does not go with --algorithm {job.algorithm.name}, which draws "
            "its predictions at random; use dwm-i"
        )
