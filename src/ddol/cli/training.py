"""What ``ddol train`` shows: a table while it runs, and a summary at the end."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ddol.cli.table import ProgressTable, say, summary, warn
from ddol.compiled import on_compiling
from ddol.engines.errors import EngineError, SetupError
from ddol.engines.learner import Learner
from ddol.job.interface import Interface
from ddol.job.job import Job
from ddol.job.outputs import STDOUT
from ddol.job.prepare import PreparedJob
from ddol.job.stopping import Signals, StoppedError
from ddol.job.train import train
from ddol.streams.errors import DataError
from ddol.streams.store.room import keep_memory
from ddol.trace import Trace

if TYPE_CHECKING:
    from ddol.measure.applicable import MistakeBound


class RunError(Exception):
    """The run could not be finished, for a reason that is not the input's."""


def train_and_show(job: Job) -> Trace:
    """Carry out a job, show its progress, and print its results."""
    keep_memory()
    if job.output.quiet or os.environ.get("OMPI_COMM_WORLD_RANK", "0") != "0":
        on_compiling(lambda text: None)
    again = [word for word in sys.argv[1:] if word != "--resume"]
    with Signals(at_once=True) as signals:
        interface = Interface(
            say,
            warn,
            display=None if _tells_json() else _table,
            signals=signals,
            in_mid_run=_in_mid_run,
            finished=_tell_what_was_left,
            advice=shlex.join(["ddol", *again, "--resume"]),
            command=command(),
        )
        return train(job, interface)


def _tells_json() -> bool:
    """Whether lines are JSON, beside which no table is shown."""
    logs = sys.modules.get("ddol.cli.logs")
    return logs is not None and logs.is_json()


def command() -> str:
    """The command line as it was given."""
    return shlex.join(["ddol", *sys.argv[1:]])


def _table(made: PreparedJob, learner: Learner) -> ProgressTable:
    bound = _promise(made)
    screen, held = made.processes.screen, bool(made.data.held)
    return ProgressTable(made.feed(), learner.position, learner.algorithm, bound, screen, held)


def _promise(made: PreparedJob) -> MistakeBound | None:
    """The bound to show during a run: there are some for experts only."""
    if not made.algorithm.update.experts:
        return None
    from ddol.measure.applicable import applicable_bound

    return applicable_bound(made.algorithm, made.data.n_weights)


def _tell_what_was_left(made: PreparedJob, trace: Trace) -> None:
    job, output = made.job, made.job.output
    if output.quiet:
        return
    say("")
    for line in summary(trace, job.run.passes):
        say(line)
    for what, path in (
        ("model", output.model),
        ("figures", output.json),
        ("report", output.report),
        ("predictions", output.predictions),
        ("recording", job.schedule.record),
    ):
        if path is not None and path != STDOUT:
            say(f"{what}: {path}")
    for line in _whom_it_helped(trace, made.data.encoding.sites):
        say(line)


def _whom_it_helped(trace: Trace, names: Sequence[str]) -> list[str]:
    """The table of a safe run; for other runs with data by site, a hint at --safe."""
    if trace.algorithm.safe and trace.agents > 1:
        from ddol.measure.sites import in_words, sites_of, table

        rows = sites_of(trace, names)
        return ["", *table(rows), in_words(rows)]
    if len(names) > 1 and trace.agents > 1 and not trace.algorithm.update.experts:
        return ["--safe tells whether sharing helps each site, and lets none lose much by it"]
    return []


@contextmanager
def _in_mid_run() -> Iterator[None]:
    """What goes wrong from here on is not the fault of the options; bad data still are."""
    try:
        yield
    except (DataError, SetupError, EngineError, StoppedError):
        raise
    except (OSError, ValueError, ArithmeticError, RuntimeError, MemoryError) as error:
        raise RunError(str(error) or type(error).__name__) from error
