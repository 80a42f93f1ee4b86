"""`ddol.run`: an algorithm over streams of examples, in one call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from importlib import import_module
from typing import Any

from ddol.algorithm import Algorithm
from ddol.communicate.graph import Topology
from ddol.engines.answers import encoded
from ddol.engines.learner import Feed, Learner, Progress, Setup
from ddol.engines.weight_record import WeightRecord
from ddol.schedules.conditions import Conditions
from ddol.schedules.events import Events
from ddol.schedules.schedule import OwnSchedule, Schedule, schedule_of
from ddol.trace import Trace


def run(
    algorithm: Algorithm,
    streams: Any,
    topology: Topology | int | None = None,
    *,
    mixing: Any = None,
    engine: str = "local",
    workers: int | None = None,
    passes: int = 1,
    seed: int = 0,
    n_features: int | None = None,
    address: str | None = None,
    on_lost: str = "wait",
    classes: Sequence[float] | None = None,
    schedule: Schedule | str | OwnSchedule | None = None,
    conditions: Conditions | None = None,
    record: bool = False,
    replay: Events | None = None,
    record_weights: int | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    live: bool | int = False,
    **changes: Any,
) -> Trace:
    """Run an algorithm over streams of examples, and return its trace.

    Parameters
    ----------
    algorithm : Algorithm
        A preset such as ``dogd()``, or your own.
    streams : (X, y), one stream, a generator of (x, y), or one of these for each agent
        One is dealt round-robin: example k goes to agent k mod N.
    topology : Topology or int, optional
        The network; an int is the number of agents of a complete graph.
    mixing : optional
        See `Algorithm.on`.
    engine, workers, passes, seed, n_features, address, on_lost
        See `Setup`.
    classes : sequence of float, optional
        All labels, where streams come from files; −1 and +1, or 0, 1, …, if not given.
    schedule : str, function or Schedule, optional
        ``"async"``, ``"gossip"``, ``"walk"``, ``"push-sum"``, a schedule of one's own, or all about it;
        rounds if it is not given.
    conditions : Conditions, optional
        Speeds, latencies, losses, delays, absences.
    record : bool
        Keep the list of events in ``trace.events``.
    replay : Events, optional
        Play what happened in another run, over the same data.
    record_weights : int, optional
        Keep the weights of every so many rounds in ``trace.weight_history``; at most 512 times.
    on_progress : function of Progress, optional
        Called about four times a second, and whenever the number of examples passes a power of two.
        What it raises ends the run.
    live : bool or int
        Serve a page that shows the run while it goes on, on any free port or this one of this machine;
        its address is printed on standard error.
    **changes
        Fields of the algorithm to replace: ``batch``, ``period``, ``delay``, …

    Examples
    --------
    >>> import ddol, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((1000, 3)); y = np.sign(X @ [1.0, -2.0, 0.5])
    >>> trace = ddol.run(ddol.dogd(l2=0.0), (X, y), ddol.ring(4))
    >>> trace.examples, trace.rounds, trace.error < 0.1
    (1000, 250, True)
    """
    if topology is not None or mixing is not None:
        where = algorithm.n_agents if topology is None else topology
        algorithm = algorithm.on(where, mixing, **changes)
    elif changes:
        algorithm = replace(algorithm, **changes)
    # A pass over the memory takes half as long as learning: where the loss tells, at the end, of features
    # that are not finite, nobody looks before. Processes must agree beforehand.
    told = algorithm.update.loops(algorithm.average).propagates_nan and engine != "mpi"
    found, encoder = encoded(algorithm, streams, classes, checked=not told)
    plan = schedule_of(schedule, conditions, record, replay)
    setup = Setup(engine, workers, seed, n_features, address, on_lost, plan)
    feed = Feed(found, passes)
    with ExitStack() as stack:
        learner = Learner(algorithm, setup, on_progress=on_progress)
        stack.callback(learner.close)
        if record_weights is not None:
            learner.weight_record = WeightRecord(record_weights)
        if live is not False:
            page = stack.enter_context(_live_page(algorithm, feed, setup, live))
            learner.on_progress = page if on_progress is None else _both(page, on_progress)
        learner.follow(feed)
        return replace(learner.trace(), encoding=encoder.encoding)


def _live_page(algorithm: Algorithm, feed: Feed, setup: Setup, live: bool | int) -> Any:
    """The page stands above the engines, and is found only when it is asked for."""
    port = 0 if live is True else int(live)
    return import_module("ddol.live.server").served(algorithm, feed, setup, port)


def _both(
    first: Callable[[Progress], None], second: Callable[[Progress], None]
) -> Callable[[Progress], None]:
    def tell(progress: Progress) -> None:
        first(progress)
        second(progress)

    return tell
