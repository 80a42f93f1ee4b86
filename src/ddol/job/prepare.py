"""From a job to agents and examples that are ready to begin."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from ddol.algorithm import Algorithm
from ddol.engines.feed import Feed
from ddol.engines.kinds import ENGINES, engine_named
from ddol.engines.learner import Learner
from ddol.engines.setup import Setup
from ddol.job.algorithm import build, check_classes, check_data
from ddol.job.checks import check
from ddol.job.interface import Interface
from ddol.job.job import Job
from ddol.job.pipeline import Pipeline, Prepared
from ddol.job.sources import fingerprint, in_columns
from ddol.storage import Warn, damaged
from ddol.streams.coding.labels import listed
from ddol.streams.errors import DataError
from ddol.streams.open import expand

if TYPE_CHECKING:
    from ddol.checkpoint import Checkpoint
    from ddol.folders import KeepingPlace
    from ddol.model import Model
    from ddol.streams.coding.encoding import Encoding

_MOST_ROUNDS = 8192
_MOST_PLACES = 1 << 18


@dataclass(frozen=True)
class PreparedJob:
    """A job whose data were looked at.

    Parameters
    ----------
    job : Job
    algorithm : Algorithm
        On its network, for the classes that the data have.
    data : Prepared
    setup : Setup
    processes : RunProcesses
    identity : dict
        Options and data that make the run what it is.
    saved : Checkpoint or None
        Where the run goes on.
    initial : Model or None
        What the agents know before round 1.
    """

    job: Job
    algorithm: Algorithm
    data: Prepared
    setup: Setup
    processes: RunProcesses
    identity: dict[str, Any]
    saved: Checkpoint | None = None
    initial: Model | None = None

    def learner(self) -> Learner:
        """Agents at the beginning, or where a model or a checkpoint left them."""
        state, algorithm = None, self.algorithm
        if self.initial is not None:
            from ddol.job.initial import algorithm_to_go_on, state_to_go_on

            path = str(self.job.run.initial)
            sites = self.data.encoding.sites
            state = state_to_go_on(self.initial, algorithm, self.setup.seed, path, sites)
            algorithm = algorithm_to_go_on(self.initial, algorithm)
        learner = Learner(algorithm, self.setup, state)
        learner.history.recent.size = self.job.output.window
        if self.saved is not None:
            from ddol.checkpoint import resume

            resume(learner, self.saved, str(self.job.output.checkpoint))
        return learner

    def feed(self) -> Feed:
        """What the learner follows."""
        every, block_rounds = self.job.output.every, None
        if every is not None:
            # Checkpoints are written between blocks, so no block may be longer than this.
            per_round = self.algorithm.n_agents * self.algorithm.batch
            block_rounds = max(1, min(_MOST_ROUNDS, min(every, _MOST_PLACES) // per_round))
        return Feed(self.data.streams, self.job.run.passes, block_rounds)


def prepare(job: Job, stack: ExitStack, interface: Interface | None = None) -> PreparedJob:
    """Check a job, open its data, learn how they are encoded, and build its algorithm.

    Parameters
    ----------
    job : Job
    stack : ExitStack
        Removes temporary files, and frees the folder of checkpoints, when it is closed.
    interface : Interface, optional

    Examples
    --------
    >>> with ExitStack() as stack:
    ...     made = prepare(Job.of(algorithm="dogd", agents=2), stack)
    ...     made.algorithm.n_agents, made.data.encoding.classes
    (2, (0.0, 1.0))
    """
    interface = interface or Interface()
    processes = RunProcesses(job, interface.warn)
    if job.data.schema is not None:
        from ddol.job.schema import with_schema

        job = replace(job, data=with_schema(job.data))
    if not job.data.in_files:
        job = replace(job, data=in_columns(job.data))
    processes.check_same(job.identity() | job.progress())
    job = _in_the_order_before(job, processes, interface)
    algorithm = build(job)
    check(job, algorithm, processes.leads)
    check_data(job, algorithm)
    identity = {**job.identity(), "the data": _data_of(job, processes)}
    _check_engine(job, processes)
    if job.output.checkpoint is not None and processes.leads:
        stack.enter_context(_folder(job.output.checkpoint).locked())
    saved = _saved(job, identity, processes, interface)
    initial = _initial(job, algorithm.loss.name)
    pipeline = _pipeline(job, algorithm, processes)
    data = pipeline.prepare(stack, _known(job, saved, initial))
    if processes.leads:
        _write_schema(job, data)
    n_classes = len(data.encoding.classes or (0, 1))
    if data.encoding.own_units and _decides_units(job, algorithm):
        job = job.but(statistics="own")
    if n_classes > 2 or "statistics" in job.algorithm.parameters:
        algorithm = build(job, n_classes)
    if not job.data.in_files and algorithm.classification:
        check_classes(algorithm, data.encoding.classes or ())
    setup = _setup(job, data, algorithm)
    return PreparedJob(job, algorithm, data, setup, processes, identity, saved, initial)


def _write_schema(job: Job, data: Prepared) -> None:
    """Write the schema, if one is wanted and the file does not exist."""
    path = job.data.schema
    if path is not None and not Path(path).exists():
        from ddol.job.schema import write_schema

        write_schema(path, data.encoding)


def _folder(place: str) -> KeepingPlace:
    """The folder of checkpoints, which few runs have."""
    from ddol.folders import folder_at

    return folder_at(place)


def _initial(job: Job, loss: str) -> Model | None:
    """The model to start from, if there is one."""
    if job.run.initial is None:
        return None
    from ddol.job.initial import model_to_begin_with

    return model_to_begin_with(job.run.initial, loss, job.data.label)


def _pipeline(job: Job, algorithm: Algorithm, processes: RunProcesses) -> Pipeline:
    can = engine_named(job.run.engine).can

    def readers(outputs: int) -> int:
        return _readers(job, replace(algorithm, outputs=outputs))

    # A pass over the memory takes half as long as learning: where the loss tells, at the end, of features
    # that are not finite, arrays are not looked through before. Processes must agree beforehand.
    checked_later = algorithm.update.loops(algorithm.average).propagates_nan and not can.replicated
    return Pipeline(
        replace(job.data, late=job.schedule.delay_column),
        algorithm,
        job.run.passes,
        job.run.seed,
        processes.warn,
        processes.own(algorithm.n_agents),
        processes.gather,
        _parsers(job),
        readers if _reads_beside(job) else None,
        not can.in_process and job.data.in_files,
        not checked_later,
        _decides_units(job, algorithm),
    )


def _decides_units(job: Job, algorithm: Algorithm) -> bool:
    """Whether the data decide by whose rows agents standardise: they can, and nothing is said about it."""
    named = isinstance(job.algorithm.algorithm, str)
    said = "statistics" in job.algorithm.parameters
    return named and not said and "statistics" in (algorithm.recipe or {})


def _check_engine(job: Job, processes: RunProcesses) -> None:
    run, can = job.run, engine_named(job.run.engine).can
    if can.cluster:
        from ddol.engines.ray.cluster import check_address, load, meant

        ray = load(joins=meant(run.address) is not None)
        if not ray.is_initialized():  # who is connected stays so, whatever the address
            check_address(run.address)
    if not can.parallel and (run.workers or 1) > 1 and job.data.in_files:
        processes.warn(
            f"--workers {run.workers} of --engine {run.engine} only read, one learns; use --engine threads"
        )


def _known(job: Job, saved: Checkpoint | None, initial: Model | None) -> Encoding | None:
    """The encoding of the data where it was learned before: by a checkpoint, or a model."""
    if saved is not None:
        from ddol.streams.coding.encoding import Encoding

        with damaged(str(job.output.checkpoint), "checkpoint"):
            return Encoding.from_plain(saved.facts, saved.arrays)
    if initial is None:
        return None
    from ddol.job.initial import encoding_to_go_on

    return encoding_to_go_on(initial, job.data, str(job.run.initial), job.n_agents)


def _setup(job: Job, data: Prepared, algorithm: Algorithm) -> Setup:
    run, kept = job.run, data.encoder.delays
    return Setup(
        run.engine,
        run.workers,
        run.seed,
        data.n_weights if job.data.in_files else job.data.features,
        run.address,
        run.on_lost,
        job.schedule.to_schedule(None if kept is None else kept[1]),
        0 if data.in_memory else _readers(job, algorithm),
    )


def _data_of(job: Job, processes: RunProcesses) -> list[str]:
    """What identifies the data; processes that deal one file to all agents must have the same."""
    if job.output.checkpoint is None and not engine_named(job.run.engine).can.replicated:
        return []
    found = fingerprint(job.data)
    if len(found) == 1:  # else each reads its own files, and others' may be missing here
        processes.check_same({f"the data ({' '.join(job.data.data)})": found[0]})
    return found


def _parsers(job: Job) -> int | None:
    """Threads that parse: where threads learn, all of them, which wait for it."""
    if not job.data.in_files:
        return 1
    if engine_named(job.run.engine).can.replicated:
        from ddol.engines.mpi.ranks import cores_of_rank

        return cores_of_rank()
    if not _reads_beside(job):
        return job.run.workers
    from ddol.engines.threads.rounds import checked_workers

    return checked_workers(job.run.workers)


def _reads_beside(job: Job) -> bool:
    """Whether several threads of this process learn, of which some can read."""
    can = engine_named(job.run.engine).can
    return can.in_process and can.parallel


def _readers(job: Job, algorithm: Algorithm) -> int:
    """Threads that read while others learn."""
    if not _reads_beside(job) or job.schedule.to_schedule().needs_events(algorithm):
        return 0
    from ddol.engines.threads.rounds import readers_beside

    return readers_beside(algorithm, job.run.workers)


def _in_the_order_before(job: Job, processes: RunProcesses, interface: Interface) -> Job:
    """The job with its files in the order of the run that is resumed, whose agents have the same ones."""
    folder = job.output.checkpoint
    if folder is None or not job.output.resume or not job.data.in_files or not job.data.data:
        return job
    paths = expand(job.data.data)
    if len(paths) < 2:
        return job
    before, now = processes.from_leader(lambda: _data_before(folder)), fingerprint(job.data)
    if before == now or sorted(before) != sorted(now):
        return job
    paths = [paths[now.index(each)] for each in before]
    if processes.leads and not job.output.quiet:
        interface.say(
            f"files are taken in the order of the run that is resumed: {listed(paths, 5)}"
        )
    return replace(job, data=replace(job.data, data=tuple(paths)))


def _data_before(folder: str) -> list[str]:
    from ddol.checkpoint import load_checkpoint

    found = load_checkpoint(folder, warn=lambda text: None)
    return [] if found is None else list(found.run.get("the data", []))


def _saved(
    job: Job, identity: dict[str, Any], processes: RunProcesses, interface: Interface
) -> Checkpoint | None:
    """The checkpoint to resume from, if there is one and ``--resume`` is given."""
    folder = job.output.checkpoint
    if folder is None or not job.output.resume:
        return None
    from ddol.checkpoint import load_checkpoint

    found = processes.from_leader(
        lambda: load_checkpoint(folder, identity, interface.warn, Job().identity())
    )
    if processes.leads and not job.output.quiet:
        examples = "the beginning" if found is None else f"{found.state.examples.sum():,}"
        unit = "; no checkpoint was found" if found is None else " examples"
        interface.say(f"resuming {folder} from {examples}{unit}")
    return found


class RunProcesses:
    """The processes of a run: one, or the ranks of MPI, of which the first talks and writes."""

    def __init__(self, job: Job, warn: Warn) -> None:
        self.ranks: Any = None
        self.warn_here = warn
        if not job.data.in_files:
            return  # every process was given all the data
        if engine_named(job.run.engine).can.replicated:
            from ddol.engines.mpi.ranks import open_ranks

            self.ranks = open_ranks(job.run.on_lost)
        else:
            check_alone(job.run.engine)

    @property
    def leads(self) -> bool:
        """Whether this is the one that talks and writes."""
        return self.ranks is None or bool(self.ranks.leads)

    @property
    def screen(self) -> TextIO | None:
        """Where the table is shown: by one process only."""
        return sys.stderr if self.leads else None

    def warn(self, text: str) -> None:
        """Print a warning, once for all."""
        if self.leads:
            self.warn_here(text)

    def check_same(self, options: dict[str, Any]) -> None:
        """Refuse to start if the processes were given different options."""
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
        return numbers if self.ranks is None else list(self.ranks.reduce(numbers))


def check_alone(engine: str) -> None:
    """Refuse to run N separate copies under mpiexec."""
    size = int(os.environ.get("OMPI_COMM_WORLD_SIZE", "1"))
    if size > 1:
        raise DataError(
            f"mpiexec started {size} ranks, but --engine is {engine}, which would run {size} copies; "
            f"use --engine {' or '.join(name for name, kind in ENGINES.items() if kind.can.replicated)}"
        )
