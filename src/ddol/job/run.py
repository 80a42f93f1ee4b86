"""`ddol.run`: a job in one call."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from ddol.algorithm import Algorithm
from ddol.communicate.graph import Topology
from ddol.engines.progress import Progress
from ddol.job.interface import Interface
from ddol.job.job import Job
from ddol.job.prepare import prepare
from ddol.job.train import train
from ddol.streams.coding.encoder import Encoder
from ddol.streams.errors import DataError
from ddol.streams.stream import Stream
from ddol.trace import Trace

if TYPE_CHECKING:
    from ddol.schedules.conditions import Conditions
    from ddol.schedules.schedule import OwnSchedule, Schedule


def run(
    algorithm: Algorithm | str,
    streams: Any,
    topology: Topology | int | str | None = None,
    *,
    mixing: Any = None,
    engine: Any = "local",
    workers: int | None = None,
    passes: int = 1,
    seed: int = 0,
    schedule: Schedule | str | OwnSchedule | None = None,
    conditions: Conditions | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    **options: Any,
) -> Trace:
    """Run an algorithm over streams of examples, and return its trace.

    Parameters
    ----------
    algorithm : Algorithm or str
        A preset such as ``dogd()``, its name, or your own.
    streams : (X, y), a data frame, files, one stream, a generator of (x, y), or one of these for each agent
        One is dealt round-robin: example k goes to agent k mod N. Files are read as ``ddol train`` reads
        them, with an intercept; arrays and streams are learned from as they are.
    topology : Topology, str or int, optional
        The network; an int is the number of agents of a complete graph.
    mixing : optional
        Weights of the averages; see `Algorithm.on`.
    engine : "local", "threads", "mpi", "ray", or an EngineKind
        Where it runs; the result is the same.
    workers : int, optional
        Threads, or actors; by default one per core.
    passes : int
        Passes over the streams.
    seed : int
        Of all that is drawn.
    schedule : str, function or Schedule, optional
        ``"async"``, ``"gossip"``, ``"walk"``, ``"push-sum"``, a schedule of your own, or a whole `Schedule`;
        by default synchronous rounds.
    conditions : Conditions, optional
        Speeds, latencies, losses, delays, absences.
    on_progress : function of Progress, optional
        Called about four times a second, and whenever the number of examples passes a power of two.
        What it raises ends the run.
    **options
        Any other option of a `Job`, by its name. Of the algorithm: its parameters, such as ``rate``, and
        ``batch``, ``period``, ``delay``, ``safe``, …. Of the data: ``intercept``, ``label``, ``labels``,
        ``missing``, ``bits``, ``features``, ``holdout``, …. Of the outputs: ``model``, ``checkpoint``,
        ``resume``, ``live`` (True for any free port), …. Of schedules: ``record`` (True keeps
        ``trace.events``, a name is a file), ``replay`` (events or a file), ``certificate``.
        ``record_weights=k`` keeps the weights of every k-th round in ``trace.weight_history``, 512 times at
        most. Or fields of the algorithm to replace.

    Examples
    --------
    >>> import ddol, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((1000, 3)); y = np.sign(X @ [1.0, -2.0, 0.5])
    >>> trace = ddol.run(ddol.dogd(l2=0.0), (X, y), ddol.ring(4))
    >>> trace.examples, trace.rounds, trace.error < 0.1
    (1000, 250, True)
    >>> from sklearn.datasets import load_iris
    >>> ddol.run("dogd", load_iris(return_X_y=True), 4, intercept=True, shuffle=True).weights.shape
    (1, 3, 5)
    """
    options |= {"mixing": mixing, "engine": engine, "workers": workers, "passes": passes}
    options |= {"seed": seed, "schedule": schedule, "conditions": conditions}
    job = job_of(algorithm, streams, topology, **_by_present_names(options))
    with spelled_for_python():
        return train(job, Interface(on_progress=on_progress))


_OLD_NAMES = {"n_features": "features", "classes": "labels"}


def _by_present_names(given: dict[str, Any]) -> dict[str, Any]:
    """Options by the names of a job: old names warn; an option of several types becomes one for each."""
    options = dict(given)
    for old, new in _OLD_NAMES.items():
        if old in options:
            message = f"`{old}` is `{new}` now; the old name goes with the next version"
            warnings.warn(message, DeprecationWarning, stacklevel=3)
            options[new] = options.pop(old)
    if not isinstance(options.get("labels"), str | None):
        options["labels"] = tuple(options["labels"])
    record, replay, live = (options.get(name) for name in ("record", "replay", "live"))
    if isinstance(record, bool):
        options |= {"record": None, "keep_events": record}
    elif record is not None:
        options["record"] = os.fspath(record)
    if replay is not None and not isinstance(replay, str):
        options |= {"replay": None, "events": replay}
    if isinstance(live, bool):
        options["live"] = 0 if live else None
    return options


@contextmanager
def spelled_for_python() -> Iterator[None]:
    """Have messages about options say ``batch`` instead of ``--batch``."""
    try:
        yield
    except DataError as error:
        text = str(error)
        if " ddol " in text or not _FLAG.search(text):  # a command stays as it is
            raise
        renamed = _FLAG.sub(lambda found: f"`{found[1].replace('-', '_')}`", text)
        raise type(error)(renamed) from error.__cause__


_FLAG = re.compile(r"(?<![\w-])--([a-z][a-z-]+)")


def job_of(algorithm: Algorithm | str, streams: Any, topology: Any = None, **options: Any) -> Job:
    """The job that a call in Python describes; see `run`.

    Examples
    --------
    >>> job_of("dogd", "votes.csv", 8, rate=0.5).n_agents
    8
    """
    if isinstance(topology, int) and not isinstance(topology, bool):
        if options.get("agents") not in (None, topology):
            raise ValueError(
                f"`topology` is {topology} agents, but `agents` is {options['agents']}; give one of them"
            )
        options["agents"], topology = topology, None
    own = {field.name for field in fields(Algorithm)} & {"name", "update", "recipe"}
    changes = {name: options.pop(name) for name in own & options.keys()}
    if isinstance(algorithm, Algorithm):
        algorithm = replace(algorithm, **changes)
    return Job.of(data=_data(streams), algorithm=algorithm, topology=topology, **options)


def _data(streams: Any) -> Any:
    """Names of files as a job has them; anything else as it is."""
    if isinstance(streams, str | os.PathLike):
        return (os.fspath(streams),)
    several = isinstance(streams, list | tuple) and len(streams) > 0
    if several and all(isinstance(each, str | os.PathLike) for each in streams):
        return tuple(map(os.fspath, streams))
    return streams


def encoded(
    algorithm: Algorithm,
    streams: Any,
    classes: Sequence[Any] | None = None,
    stack: ExitStack | None = None,
) -> tuple[list[Stream], Encoder]:
    """Streams with encoded columns and labels, and what encodes them.

    Parameters
    ----------
    algorithm : Algorithm
    streams : (X, y), a stream, or a list of either
    classes : sequence of labels, optional
        All labels; by default those that the data show.
    stack : ExitStack, optional
        Removes temporary files when it is closed.
    """
    made = prepare(
        job_of(algorithm, streams, labels=None if classes is None else tuple(classes)),
        stack or ExitStack(),
    )
    return made.data.streams, made.data.encoder
