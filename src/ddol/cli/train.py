"""``ddol train``: from options to a run, and from a run to the files it leaves."""

from __future__ import annotations

import ctypes
import json
import math
import os
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from ddol.algorithm import Algorithm
from ddol.checkpoint import Checkpoint, load_checkpoint, locked, resume, set_aside
from ddol.cli.algorithms import build, check_data
from ddol.cli.keeping import CheckpointWriter
from ddol.cli.options import RunOptions, TrainOptions
from ddol.cli.pipeline import Pipeline, Prepared
from ddol.cli.sources import fingerprint
from ddol.cli.stopping import Signals, StoppedError
from ddol.cli.table import ProgressTable, say, summary, warn
from ddol.compiled import on_compiling
from ddol.engines.errors import RankLostError
from ddol.engines.learner import Feed, Learner, Progress, Setup
from ddol.model import model_of
from ddol.storage import check_writable, write_text
from ddol.streams.encoding import Encoding
from ddol.streams.errors import DataError
from ddol.trace import Trace

if TYPE_CHECKING:
    from ddol.measure.applicable import MistakeBound

STDOUT = "-"
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h
_MOST_ROUNDS = 8192
_MOST_PLACES = 1 << 18


class RunError(Exception):
    """The run could not be finished, for a reason that is not the input's."""


def train(options: TrainOptions) -> Trace:
    """Learn from data, show how it goes, and write what was asked for.

    Parameters
    ----------
    options : TrainOptions
    """
    _keep_memory()
    crew = _Crew(options.run)
    crew.check_same(options.identity() | options.progress())
    check(options, crew.leads)
    run = {**options.identity(), "the data": _data_of(options, crew)}
    algorithm = build(options.learn, options.run.seed)
    check_data(options.learn, options.data, algorithm)
    if options.run.engine == "local" and (options.run.workers or 1) > 1:
        crew.warn("--workers is for --engine threads; the local engine runs in one")
    if options.run.quiet or not crew.leads:
        on_compiling(lambda text: None)
    with ExitStack() as stack:
        if options.run.checkpoint is not None and crew.leads:
            stack.enter_context(locked(options.run.checkpoint))
        saved = _saved(options.run, run, crew)
        signals = stack.enter_context(Signals(at_once=True))
        pipeline = Pipeline(
            options.data,
            algorithm,
            options.run.passes,
            options.run.seed,
            crew.warn,
            crew.own(algorithm.n_agents),
            crew.gather,
            _parsers(options.run),
            options.run.engine == "threads",
        )
        known = None if saved is None else Encoding.from_plain(saved.facts, saved.arrays)
        prepared = pipeline.prepare(stack, known)
        n_classes = len(prepared.encoding.classes or (0, 1))
        if n_classes > 2:
            algorithm = build(options.learn, options.run.seed, n_classes)
        setup = Setup(
            options.run.engine,
            options.run.workers,
            options.run.seed,
            prepared.n_weights,
            schedule=options.schedule.to_schedule(),
        )
        learner = Learner(algorithm, setup)
        if saved is not None:
            resume(learner, saved, str(options.run.checkpoint))
        stack.callback(learner.close)
        _make_room(options.run, crew)
        signals.at_once = options.data.from_stdin
        with _in_mid_run():
            writer = CheckpointWriter(options.run, run)
            feed = _feed(options.run, algorithm, prepared)
            bound = _promise(algorithm, prepared.n_weights)
            table = None
            if not options.run.quiet:
                table = ProgressTable(feed, learner.position, algorithm, bound, crew.screen)
            watch = _Watch(learner, prepared, writer, crew, signals, table)
            return _carry_out(options, watch, feed)


def _data_of(options: TrainOptions, crew: _Crew) -> list[str]:
    """What identifies the data; processes that deal one file to all agents must have the same."""
    if options.run.engine != "mpi" and options.run.checkpoint is None:
        return []
    found = fingerprint(options.data)
    if len(found) == 1:  # else each reads its own files, and others' may be missing here
        crew.check_same({f"the data ({' '.join(options.data.data)})": found[0]})
    return found


def _keep_memory() -> None:
    """Let the C library use again what was freed, instead of giving it back to the system.

    Block after block needs as much as the one before, and pages that come anew must be cleared: a
    tenth of the time from text to model.
    """
    tune = getattr(ctypes.CDLL(None), "mallopt", None) if os.name == "posix" else None
    if tune is not None:
        tune(_MMAP_THRESHOLD, 64 << 20)
        tune(_TRIM_THRESHOLD, 256 << 20)


def check(options: TrainOptions, leads: bool = True) -> None:
    """Refuse what cannot end well, before any work is done."""
    run, data = options.run, options.data
    options.schedule.check(run.checkpoint, options.learn.batch)
    if run.resume and run.checkpoint is None:
        raise DataError("--resume needs --checkpoint DIR, the folder of the earlier run")
    if run.every is not None and run.checkpoint is None:
        raise DataError("--every needs --checkpoint DIR, the folder to write to")
    if run.checkpoint is not None and data.from_stdin:
        raise DataError("--checkpoint does not go with standard input; save it to a file first")
    if not leads:
        return
    for path in (run.model, run.json, run.report):
        if path is not None and path != STDOUT:
            check_writable(path)
    if run.checkpoint is not None:
        try:
            Path(run.checkpoint).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DataError(f"--checkpoint {run.checkpoint}: {error.strerror}") from None
        check_writable(Path(run.checkpoint, "checkpoint"))
    if run.engine == "mpi" and data.from_stdin:
        raise DataError("standard input reaches one rank only; with --engine mpi give a file")


class _Crew:
    """The processes of a run: one, or the ranks of MPI, of which the first talks and writes."""

    def __init__(self, run: RunOptions) -> None:
        self.ranks: Any = None
        if run.engine == "mpi":
            from ddol.engines.ranks import open_ranks

            self.ranks = open_ranks()
        else:
            _check_alone(run.engine)

    @property
    def leads(self) -> bool:
        return self.ranks is None or bool(self.ranks.leads)

    @property
    def screen(self) -> TextIO | None:
        """Where the table is shown: by one process only."""
        return sys.stderr if self.leads else None

    def warn(self, text: str) -> None:
        if self.leads:
            warn(text)

    def check_same(self, options: dict[str, Any]) -> None:
        """Refuse to go on where the processes were given different options."""
        if self.ranks is not None:
            self.ranks.check_same(options)

    def own(self, n_agents: int) -> range | None:
        """Agents of this process, where there are several."""
        return None if self.ranks is None else self.ranks.own(n_agents)

    def gather(self, values: list[Any]) -> list[Any]:
        """The values of all processes."""
        if self.ranks is None:
            return values
        return [value for each in self.ranks.gather(values) for value in each]

    def from_leader(self, make: Callable[[], Any]) -> Any:
        """What one process makes, for all."""
        return make() if self.ranks is None else self.ranks.from_leader(make)

    def most(self, numbers: list[int]) -> list[int]:
        """The largest of every process's numbers, place by place."""
        return numbers if self.ranks is None else list(self.ranks.most(numbers))


def _parsers(run: RunOptions) -> int | None:
    """Threads that parse: with the threads engine, all that learn, which wait for it."""
    if run.engine == "mpi":
        from ddol.engines.ranks import cores_of_rank

        return cores_of_rank()
    if run.engine != "threads":
        return run.workers
    from ddol.engines.threads import checked_workers

    return checked_workers(run.workers)


def _check_alone(engine: str) -> None:
    """Refuse to run N separate copies under mpiexec."""
    size = int(os.environ.get("OMPI_COMM_WORLD_SIZE", "1"))
    if size > 1:
        raise DataError(
            f"mpiexec started {size} ranks, but --engine is {engine}, which would run {size} copies; "
            "add --engine mpi"
        )


def _saved(run: RunOptions, identity: dict[str, Any], crew: _Crew) -> Checkpoint | None:
    """The checkpoint to go on from, if there is one and it is wanted."""
    folder = run.checkpoint
    if folder is None or not run.resume:
        return None
    found = crew.from_leader(lambda: load_checkpoint(folder, identity, warn))
    if crew.leads and not run.quiet:
        examples = "the beginning" if found is None else f"{found.state.examples.sum():,}"
        unit = "; no checkpoint was found" if found is None else " examples"
        say(f"resuming {folder} from {examples}{unit}")
    return found


def _make_room(run: RunOptions, crew: _Crew) -> None:
    """Set checkpoints of an earlier run aside, once it is sure that this one begins."""
    if run.checkpoint is None or run.resume or not crew.leads:
        return
    if count := set_aside(run.checkpoint):
        crew.warn(
            f"{run.checkpoint}: {count} checkpoints of an earlier run are renamed to *.old; "
            "use --resume to go on from them instead"
        )


def _feed(run: RunOptions, algorithm: Algorithm, prepared: Prepared) -> Feed:
    block_rounds = None
    if run.every is not None:
        # Checkpoints are written between blocks, so no block may be longer than this.
        per_round = algorithm.n_agents * algorithm.batch
        block_rounds = max(1, min(_MOST_ROUNDS, min(run.every, _MOST_PLACES) // per_round))
    return Feed(prepared.streams, run.passes, block_rounds)


def _carry_out(options: TrainOptions, watch: _Watch, feed: Feed) -> Trace:
    learner, table, crew = watch.learner, watch.table, watch.crew
    with ExitStack() as stack:
        if table is not None:
            stack.callback(table.bar.close)
        learner.on_progress = watch
        learner.follow(feed, learner.position)
        trace = learner.trace()
        if table is not None:
            table.end()
    if crew.leads:
        _leave(options, trace, watch.prepared)
    return trace


def _promise(algorithm: Algorithm, n_weights: int | None) -> MistakeBound | None:
    """The bound to show while a run goes on: there are some for experts only."""
    if not algorithm.update.experts:
        return None
    from ddol.measure.applicable import applicable_bound

    return applicable_bound(algorithm, n_weights)


@dataclass
class _Watch:
    """What is to be done while a run goes on: show where it stands, keep checkpoints, and stop."""

    learner: Learner
    prepared: Prepared
    writer: CheckpointWriter
    crew: _Crew
    signals: Signals
    table: ProgressTable | None

    def __call__(self, progress: Progress) -> None:
        # A process that is lost here is noticed again, and made up for, by the learner.
        with suppress(RankLostError):
            self._look(progress)

    def _look(self, progress: Progress) -> None:
        """Show, keep and stop, each if it is time to.

        Processes take part in all of it together, and what they remember of the last time may
        differ once one of them was lost; so it is time for all if it is for one.
        """
        table, between_blocks = self.table, progress.position is not None
        if table is None and not between_blocks:
            return
        shows, keeps, number = self.crew.most(
            [
                int(table is not None and table.due(progress)),
                int(between_blocks and self.writer.due(progress)),
                (self.signals.caught or 0) if between_blocks else 0,
            ]
        )
        if table is not None:
            table.show(progress, bool(shows))
        if keeps or number:
            self.writer.save(self.learner, progress, self.prepared.encoding, self.crew.leads)
        if number:
            raise StoppedError(number, self.writer.advice())


@contextmanager
def _in_mid_run() -> Iterator[None]:
    """What goes wrong from here on is not the fault of the options; bad data still are."""
    try:
        yield
    except (DataError, StoppedError):
        raise
    except (OSError, ValueError, ArithmeticError, RuntimeError, MemoryError) as error:
        raise RunError(str(error) or type(error).__name__) from error


def _leave(options: TrainOptions, trace: Trace, prepared: Prepared) -> None:
    """Write the model, the figures and the report, and say what happened."""
    run = options.run
    skipped = _skipped(prepared)
    if run.model is not None:
        settings = {k: v for k, v in vars(options.learn).items() if v is not None}
        settings.pop("algorithm")
        model_of(trace, prepared.encoding, settings).save(run.model)
    if run.json is not None:
        name = options.learn.algorithm.replace("_", "-")
        own = {"algorithm": name, "skipped_lines": skipped}
        _write_json(run.json, {**trace.to_dict(), **own})
    if run.report is not None:
        _write_report(run, trace, prepared)
    options.schedule.leave(trace)
    if not run.quiet:
        say("")
        for line in summary(trace):
            say(line)
        for what, path in (
            ("model", run.model),
            ("figures", run.json),
            ("report", run.report),
            ("recording", options.schedule.record),
        ):
            if path is not None and path != STDOUT:
                say(f"{what}: {path}")


def _skipped(prepared: Prepared) -> int:
    """Lines that were skipped, after telling about the first of them."""
    count = 0
    for source in prepared.sources:
        bad = getattr(source, "bad_lines", None)
        if bad is not None and bad.count:
            count += bad.count
            first = f"; the first: {bad.messages[0]}" if bad.messages else ""
            warn(f"{source.describe()}: skipped {bad.count} bad lines{first}")
    encoder = prepared.encoder
    if encoder.n_skipped:
        first = f"; the first: {encoder.skipped[0]}"
        warn(f"skipped {encoder.n_skipped} rows with missing or impossible values{first}")
    return count + encoder.n_skipped


def _write_json(path: str, figures: dict[str, Any]) -> None:
    text = json.dumps(_plain(figures), indent=2, ensure_ascii=False) + "\n"
    if path == STDOUT:
        sys.stdout.write(text)
        sys.stdout.flush()
    else:
        write_text(path, text)


def _plain(value: Any) -> Any:
    """JSON has no NaN and no infinity: null stands for them."""
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _write_report(run: RunOptions, trace: Trace, prepared: Prepared) -> None:
    from ddol.measure.regret import regret_within_reach
    from ddol.measure.report import write_report

    assert run.report is not None
    regret = regret_within_reach(trace, prepared.streams, run.passes)
    data = ", ".join(source.describe() for source in prepared.sources[:3])
    more = f" and {len(prepared.sources) - 3} more" if len(prepared.sources) > 3 else ""
    write_report(trace, run.report, command(), regret, f"{data}{more}")


def command() -> str:
    """The command line as it was given."""
    return shlex.join(["ddol", *sys.argv[1:]])
