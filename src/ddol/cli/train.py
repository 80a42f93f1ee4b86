"""``ddol train``: from options to a run, and from a run to the files it leaves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ddol.algorithm import Algorithm
from ddol.cli.outputs import STDOUT, check_outputs, write_model, write_outputs
from ddol.cli.run_processes import RunProcesses
from ddol.cli.table import ProgressTable, say, warn
from ddol.cli.watching import RunWatch
from ddol.compiled import on_compiling
from ddol.engines.errors import EngineError, SetupError
from ddol.engines.feed import Feed
from ddol.engines.kinds import engine_named, require
from ddol.engines.learner import Learner
from ddol.engines.setup import Setup
from ddol.job.algorithm import build, check_data
from ddol.job.checkpoints import CheckpointWriter
from ddol.job.options import DataOptions, LearnOptions, RunOptions, TrainOptions
from ddol.job.pipeline import Pipeline, Prepared
from ddol.job.sources import fingerprint, recording_mark
from ddol.job.stopping import Signals, StoppedError
from ddol.storage import check_writable, damaged
from ddol.streams.errors import DataError
from ddol.streams.store.room import keep_memory
from ddol.streams.stream import described
from ddol.trace import Trace

if TYPE_CHECKING:
    from ddol.checkpoint import Checkpoint
    from ddol.folders import KeepingPlace
    from ddol.lab.live.watched import WatchedRun
    from ddol.measure.applicable import MistakeBound
    from ddol.model import Model
    from ddol.streams.coding.encoding import Encoding

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
    keep_memory()
    job = RunProcesses(options.run)
    if options.run.quiet or not job.leads:
        on_compiling(lambda text: None)
    job.check_same(options.identity() | options.progress())
    check(options, job.leads)
    run = {**options.identity(), "the data": _data_of(options, job)}
    algorithm = build(options.learn, options.run.seed)
    check_data(options.learn, options.data, algorithm)
    engine = engine_named(options.run.engine).can
    if engine.cluster:
        _check_ray(options.run)
    if not engine.parallel and (options.run.workers or 1) > 1:
        job.warn(
            f"the engine {options.run.engine} reads with so many --workers, and learns in one; use --engine "
            "threads"
        )
    with ExitStack() as stack:
        if options.run.checkpoint is not None and job.leads:
            stack.enter_context(_folder(options.run.checkpoint).locked())
        saved = _saved(options.run, run, job)
        signals = stack.enter_context(Signals(at_once=True))
        initial = _initial(options.run)
        pipeline = _pipeline(options, algorithm, job)
        prepared = pipeline.prepare(stack, _known(options, saved, initial))
        prepared = replace(prepared, initial=initial)
        if job.leads and not options.run.quiet:
            _say_what_was_taken(prepared, algorithm)
        for suspicion in prepared.suspicions:
            job.warn(suspicion)
        n_classes = len(prepared.encoding.classes or (0, 1))
        if n_classes > 2:
            algorithm = build(options.learn, options.run.seed, n_classes)
        setup = _setup(options, prepared, algorithm)
        learner = _learner(options, algorithm, setup, saved, prepared)
        stack.callback(learner.close, keep=False)
        _make_room(options.run, job)
        with _in_mid_run():
            feed = _feed(options.run, algorithm, prepared)
            writer = CheckpointWriter(options.run, run)
            watch = RunWatch(learner, prepared, writer, job, signals, options.data.from_stdin)
            _show(options.run, watch, feed, stack)
            _write_predictions(options.run, watch, stack)
            return _carry_out(options, watch, feed)


def _folder(place: str) -> KeepingPlace:
    """The folder of checkpoints, which few runs have."""
    from ddol.folders import folder_at

    return folder_at(place)


def _initial(run: RunOptions) -> Model | None:
    """The model to go on from, if there is one."""
    if run.initial is None:
        return None
    from ddol.model import load

    return load(run.initial)


def _say_what_was_taken(prepared: Prepared, algorithm: Algorithm) -> None:
    """The first line of a run."""
    from ddol.cli.first_line import taken_for

    say(taken_for(prepared.encoding, algorithm.n_agents))
    if prepared.initial is not None:
        from ddol.job.sites import matches

        if line := matches(prepared.initial, prepared.encoding.sites):
            say(line)


def _pipeline(options: TrainOptions, algorithm: Algorithm, job: RunProcesses) -> Pipeline:
    return Pipeline(
        options.data,
        algorithm,
        options.run.passes,
        options.run.seed,
        job.warn,
        job.own(algorithm.n_agents),
        job.gather,
        _parsers(options.run),
        (lambda outputs: _readers(options, replace(algorithm, outputs=outputs)))
        if _reads_beside(options.run)
        else None,
        not engine_named(options.run.engine).can.in_process,
    )


def _show(run: RunOptions, watch: RunWatch, feed: Feed, stack: ExitStack) -> None:
    """Give a run what shows how it goes: a table, examples held out, a page."""
    learner, prepared, job = watch.learner, watch.prepared, watch.job
    algorithm = learner.algorithm
    if not run.quiet:
        bound = _promise(algorithm, prepared.n_weights)
        watch.table = ProgressTable(
            feed, learner.position, algorithm, bound, job.screen, bool(prepared.held)
        )
    if prepared.held:
        from ddol.job.holdout import Holdout

        watch.holdout = Holdout(prepared, job.gather)
    if run.live is not None and job.leads:
        served = _served(run, algorithm, feed, learner.setup, prepared)
        watch.page = stack.enter_context(served)


def _check_ray(run: RunOptions) -> None:
    from ddol.engines.ray.cluster import check_address, load, meant

    load(joins=meant(run.address) is not None)
    check_address(run.address)


def _known(
    options: TrainOptions, saved: Checkpoint | None, initial: Model | None
) -> Encoding | None:
    """The encoding of the data where somebody has learned it before: a checkpoint, or a model."""
    if saved is not None:
        from ddol.streams.coding.encoding import Encoding

        with damaged(str(options.run.checkpoint), "checkpoint"):
            return Encoding.from_plain(saved.facts, saved.arrays)
    if initial is None:
        return None
    from ddol.job.initial import encoding_to_go_on

    return encoding_to_go_on(initial, options.data, str(options.run.initial), options.learn.agents)


def _setup(options: TrainOptions, prepared: Prepared, algorithm: Algorithm) -> Setup:
    run = options.run
    readers = 0 if prepared.in_memory else _readers(options, algorithm)
    kept = prepared.encoder.delays
    schedule = options.schedule.to_schedule(None if kept is None else kept[1])
    return Setup(
        run.engine,
        run.workers,
        run.seed,
        prepared.n_weights,
        run.address,
        run.on_lost,
        schedule,
        readers,
    )


def _learner(
    options: TrainOptions,
    algorithm: Algorithm,
    setup: Setup,
    saved: Checkpoint | None,
    prepared: Prepared,
) -> Learner:
    """Agents at the beginning, or where a model or a checkpoint left them."""
    state, initial = None, prepared.initial
    if initial is not None:
        from ddol.job.initial import algorithm_to_go_on, state_to_go_on

        path = str(options.run.initial)
        sites = prepared.encoding.sites
        state = state_to_go_on(initial, algorithm, setup.seed, path, sites)
        algorithm = algorithm_to_go_on(initial, algorithm)
    learner = Learner(algorithm, setup, state)
    if saved is not None:
        from ddol.checkpoint import resume

        resume(learner, saved, str(options.run.checkpoint))
    return learner


def _served(
    run: RunOptions, algorithm: Algorithm, feed: Feed, setup: Setup, prepared: Prepared
) -> AbstractContextManager[WatchedRun]:
    from ddol.lab.live.server import served

    assert run.live is not None
    return served(algorithm, feed, setup, run.live, described(prepared.sources))


def _data_of(options: TrainOptions, job: RunProcesses) -> list[str]:
    """What identifies the data; processes that deal one file to all agents must have the same."""
    if options.run.checkpoint is None and not engine_named(options.run.engine).can.replicated:
        return []
    found = fingerprint(options.data)
    if len(found) == 1:  # else each reads its own files, and others' may be missing here
        job.check_same({f"the data ({' '.join(options.data.data)})": found[0]})
    return found


def check(options: TrainOptions, leads: bool = True) -> None:
    """Refuse what cannot end well, before any work is done."""
    run, data = options.run, options.data
    options.schedule.check(run.checkpoint, options.learn.batch, run.engine, options.learn.talks)
    options.schedule.check_recorded(lambda: recording_mark(data, run.seed))
    if run.resume and run.checkpoint is None:
        raise DataError("--resume needs --checkpoint DIR, the folder of the earlier run")
    if run.every is not None and run.checkpoint is None:
        raise DataError("--every needs --checkpoint DIR, the folder to write to")
    if run.checkpoint is not None and data.from_stdin:
        raise DataError("--checkpoint does not go with standard input; save it to a file first")
    _check_predictions(options)
    _check_lateness(options)
    if not leads:
        return
    check_outputs(run.model, run.json, run.report, run.predictions)
    if run.checkpoint is not None:
        folder = _folder(run.checkpoint)
        try:
            folder.make()
        except OSError as error:
            raise DataError(f"--checkpoint {run.checkpoint}: {error.strerror}") from None
        check_writable(folder.file("checkpoint"))
    if data.from_stdin and engine_named(run.engine).can.replicated:
        raise DataError(
            f"standard input reaches one rank only; with --engine {run.engine} give a file"
        )


def _check_lateness(options: TrainOptions) -> None:
    """Rows keep their order, and one process reads them, where each says how late its answer is."""
    data, run = options.data, options.run
    if data.answers is None and data.late is None:
        if data.id is not None:
            raise DataError("--id needs --answers FILE, the file of answers")
        return
    flag = "--delay column:NAME" if data.answers is None else "--answers"
    strange = {
        "--delay": data.answers is not None and options.schedule.delay != "0",
        "--shuffle": data.shuffle,
        "--holdout": bool(data.holdout) or (run.passes > 1 and data.holdout is None),
        "--deal contiguous": data.deal != "round-robin",
        "--checkpoint": run.checkpoint is not None,
        "--predictions": run.predictions is not None,
        f"--engine {run.engine}": not engine_named(run.engine).can.clock,
    }
    for other, given in strange.items():
        if given:
            raise DataError(f"{flag} does not go with {other}; leave one out")


def _check_predictions(options: TrainOptions) -> None:
    """Scores of single examples are at hand only where one process plays rounds."""
    if options.run.predictions is None:
        return
    if options.run.predictions == options.run.json == STDOUT:
        raise DataError(
            "--predictions - and --json - both write to standard output; give one of them a file"
        )
    require(options.run.engine, "predictions", "--predictions")
    if options.schedule.to_schedule().plays_events or options.learn.talks:
        raise DataError(
            "--predictions needs --schedule rounds in which every agent sends; leave one out"
        )
    if options.learn.algorithm in ("drwm", "rwma"):
        raise DataError(
            f"--predictions does not go with --algorithm {options.learn.algorithm}, which draws what "
            "it says; use dwm-i"
        )


def _parsers(run: RunOptions) -> int | None:
    """Threads that parse: where threads learn, all of them, which wait for it."""
    if engine_named(run.engine).can.replicated:
        from ddol.engines.mpi.ranks import cores_of_rank

        return cores_of_rank()
    if not _reads_beside(run):
        return run.workers
    from ddol.engines.threads.rounds import checked_workers

    return checked_workers(run.workers)


def _reads_beside(run: RunOptions) -> bool:
    """Whether several threads of this process learn, of which some can read."""
    can = engine_named(run.engine).can
    return can.in_process and can.parallel


def _readers(options: TrainOptions, algorithm: Algorithm) -> int:
    """Threads that read while others learn."""
    run, in_rounds = options.run, not options.schedule.to_schedule().plays_events
    if not _reads_beside(run) or options.learn.talks or not in_rounds:
        return 0
    from ddol.engines.threads.rounds import readers_beside

    return readers_beside(algorithm, run.workers)


def _saved(run: RunOptions, identity: dict[str, Any], job: RunProcesses) -> Checkpoint | None:
    """The checkpoint to go on from, if there is one and it is wanted."""
    folder = run.checkpoint
    if folder is None or not run.resume:
        return None
    from ddol.checkpoint import load_checkpoint

    defaults = TrainOptions(DataOptions(data=()), LearnOptions(), RunOptions()).identity()
    found = job.from_leader(lambda: load_checkpoint(folder, identity, warn, defaults))
    if job.leads and not run.quiet:
        examples = "the beginning" if found is None else f"{found.state.examples.sum():,}"
        unit = "; no checkpoint was found" if found is None else " examples"
        say(f"resuming {folder} from {examples}{unit}")
    return found


def _make_room(run: RunOptions, job: RunProcesses) -> None:
    """Set checkpoints of an earlier run aside, once it is sure that this one begins."""
    if run.checkpoint is None or run.resume or not job.leads:
        return
    from ddol.checkpoint import set_aside

    if count := set_aside(run.checkpoint):
        job.warn(
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


def _carry_out(options: TrainOptions, watch: RunWatch, feed: Feed) -> Trace:
    learner, table, job = watch.learner, watch.table, watch.job
    with ExitStack() as stack:
        if table is not None:
            stack.callback(table.bar.close)
        learner.on_progress = watch
        try:
            learner.follow(feed, learner.position)
        except StoppedError as stop:
            if stop.again:
                raise
            left = [text for text in (_model_so_far(options, watch), watch.writer.advice()) if text]
            nothing = "nothing was written; use --model OUT, or --checkpoint DIR to go on"
            if options.run.model is not None:
                nothing = "no example was learned from, so that nothing was written"
            raise StoppedError(stop.number, "; ".join(left) or nothing) from None
        trace = learner.trace(last=True)
        measured = watch.holdout.measured(learner, at_end=True) if watch.holdout else None
        if table is not None:
            table.end(measured)
    if job.leads:
        write_outputs(options, trace, watch.prepared, measured)
    return trace


def _model_so_far(options: TrainOptions, watch: RunWatch) -> str:
    """Write the model of a run that was stopped, if one was asked for, and say so."""
    path = options.run.model
    engine = watch.learner.engine
    if path is None or engine is None or not engine.counters().rounds:
        return ""
    trace = watch.learner.trace(last=True)
    if watch.job.leads:
        write_model(options, trace, watch.prepared)
    return f"model of the {trace.examples:,} examples so far: {path}"


def _write_predictions(run: RunOptions, watch: RunWatch, stack: ExitStack) -> None:
    """Have what is predicted written while the run goes on; the file stays if it is stopped."""
    if run.predictions is not None:
        from ddol.cli.predictions import PredictionWriter

        writer = PredictionWriter(run.predictions, watch.prepared.encoding)
        watch.learner.on_predicted = stack.enter_context(writer)


def _promise(algorithm: Algorithm, n_weights: int | None) -> MistakeBound | None:
    """The bound to show while a run goes on: there are some for experts only."""
    if not algorithm.update.experts:
        return None
    from ddol.measure.applicable import applicable_bound

    return applicable_bound(algorithm, n_weights)


@contextmanager
def _in_mid_run() -> Iterator[None]:
    """What goes wrong from here on is not the fault of the options; bad data still are."""
    try:
        yield
    except (DataError, SetupError, EngineError, StoppedError):
        raise
    except (OSError, ValueError, ArithmeticError, RuntimeError, MemoryError) as error:
        raise RunError(str(error) or type(error).__name__) from error
