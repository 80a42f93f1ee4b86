"""`ddol.run`: an algorithm over streams of examples, in one call."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ddol.algorithm import Algorithm
from ddol.communicate.graph import Topology
from ddol.engines.faults import check_dense
from ddol.engines.feed import Feed
from ddol.engines.history import WeightRecord
from ddol.engines.kinds import EngineKind, engine_named
from ddol.engines.learner import Learner
from ddol.engines.progress import Progress
from ddol.engines.setup import Setup
from ddol.schedules.schedule import Schedule, schedule_of
from ddol.streams.arrays import RowsStream
from ddol.streams.coding.discovery import Wishes, learn_encoding, peek
from ddol.streams.coding.encoder import Encoder
from ddol.streams.coding.encoding import Encoding
from ddol.streams.coding.labels import Label, distinct, listed
from ddol.streams.coding.order import LabelOrder
from ddol.streams.errors import DataError
from ddol.streams.over.limited import ReadAhead
from ddol.streams.sources import as_streams
from ddol.streams.stream import Stream
from ddol.trace import Trace

if TYPE_CHECKING:
    from ddol.schedules.conditions import Conditions
    from ddol.schedules.events import Events
    from ddol.schedules.schedule import OwnSchedule


def run(
    algorithm: Algorithm,
    streams: Any,
    topology: Topology | int | None = None,
    *,
    mixing: Any = None,
    engine: str | EngineKind = "local",
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
    certificate: bool = False,
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
    engine : "local", "threads", "mpi", "ray", or an EngineKind
        Where it runs; the result is the same.
    workers : int, optional
        Threads, or actors; one per core if it is not given.
    passes : int
        Times that the streams are read.
    seed : int
        Of all that is drawn.
    n_features : int, optional
        Number of features, where streams do not know it and the algorithm's start depends on it.
    address : str, optional
        Of a Ray cluster; else what ``RAY_ADDRESS`` says, or one that is started for this run ("local").
    on_lost : "wait", "without" or "end"
        What happens when a process is lost: the run waits for another one, goes on without, or ends.
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
    certificate : bool
        Keep the regret certificate of rounds, too, in ``trace.certificate``; events always have one.
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
    told = algorithm.update.loops(algorithm.average).propagates_nan
    told = told and not engine_named(engine).can.replicated
    found, encoder = encoded(algorithm, streams, classes, not told, _warn_user)
    plan = schedule_of(schedule, conditions, record, replay, certificate)
    setup = Setup(engine, workers, seed, n_features, address, on_lost, plan)
    feed = Feed(found, passes)
    with ExitStack() as stack:
        learner = Learner(algorithm, setup, on_progress=on_progress)
        stack.callback(learner.close, keep=False)
        if record_weights is not None:
            learner.history.weights = WeightRecord(record_weights)
        if live is not False:
            page = stack.enter_context(_live_page(algorithm, feed, setup, live))
            learner.on_progress = page if on_progress is None else _both(page, on_progress)
        learner.follow(feed)
        return replace(learner.trace(last=True), encoding=encoder.encoding)


REMEDY = "shuffle the rows before"
"""What to do about rows in the order of their labels."""


def _warn_user(text: str) -> None:
    """Warn whoever called `run`."""
    warnings.warn(text, stacklevel=4)


def _live_page(algorithm: Algorithm, feed: Feed, setup: Setup, live: bool | int) -> Any:
    """The page stands above the engines, and is found only when it is asked for."""
    port = 0 if live is True else int(live)
    return import_module("ddol.lab.live.server").served(algorithm, feed, setup, port)


def _both(
    first: Callable[[Progress], None], second: Callable[[Progress], None]
) -> Callable[[Progress], None]:
    def tell(progress: Progress) -> None:
        first(progress)
        second(progress)

    return tell


def encoded(
    algorithm: Algorithm,
    streams: Any,
    classes: Sequence[Label] | None = None,
    checked: bool = True,
    warn: Callable[[str], None] | None = None,
) -> tuple[list[Stream], Encoder]:
    """Streams with encoded columns and labels, and what encodes them.

    Parameters
    ----------
    algorithm : Algorithm
    streams : (X, y), a stream, or a list of either
    classes : sequence of labels, optional
        All labels; by default those of the arrays in memory, or those that the files show.
    checked : bool
        Refuse features that are not finite now, and not when they have been learned from.
    warn : function of one line, optional
        Told if the rows come in the order of their labels.
    """
    found = as_streams(streams, checked and not algorithm.update.experts, algorithm.n_agents)
    widths = sorted({s.n_features for s in found if s.n_features is not None})
    if len(widths) > 1 and _in_memory(found):
        raise DataError(
            f"found streams with {widths[0]} and {widths[-1]} features, expected the same number; "
            "give every agent the same columns"
        )
    if algorithm.classification:
        check_dense(algorithm, found)
    parts = [s if s.restartable else ReadAhead(s) for s in found]
    encoding, orders = _encoding(algorithm, parts, classes)
    if warn is not None:
        doubts = (o.doubt(p.describe(), REMEDY) for p, o in zip(parts, orders, strict=True))
        for doubt in filter(None, doubts):
            warn(doubt)
    encoder = Encoder(encoding)
    if classes is None and encoder.start == _AS_LEARNED and _in_memory(parts):
        return parts, encoder  # all labels were looked at, and are the numbers to learn from
    return [encoder.stream(part) for part in parts], encoder


def _encoding(
    algorithm: Algorithm, streams: list[Stream], classes: Sequence[Label] | None
) -> tuple[Encoding, list[LabelOrder]]:
    """Labels of arrays as they are; of files, what their beginnings show. And in which order they come."""
    numbered = algorithm.outputs > 1
    if _in_memory(streams):
        rows = [s.rows for s in streams if isinstance(s, RowsStream)]
        orders = [LabelOrder(algorithm.classification).with_labels(each.y) for each in rows]
        if not algorithm.classification:
            return Encoding(), orders
        if classes is None:
            classes = sorted(set().union(*(distinct(each.y).tolist() for each in rows)))
        return Encoding(classes=check_classes(algorithm, classes), numbered=numbered), orders
    given = None if classes is None else tuple(classes)
    wishes = Wishes(classes=given, classification=algorithm.classification)
    peeks = [peek(stream, wishes) for stream in streams]
    encoding = learn_encoding(streams, wishes, peeks)
    orders = [seen.order for seen in peeks]
    if encoding.classes is None:
        return encoding, orders
    known = check_classes(algorithm, encoding.classes)
    return replace(encoding, classes=known, numbered=numbered), orders


_AS_LEARNED = Encoding(classes=(-1.0, 1.0))
"""Columns and labels stay as they are."""


def _in_memory(streams: list[Stream]) -> bool:
    return all(isinstance(stream, RowsStream) for stream in streams)


def check_classes(algorithm: Algorithm, classes: Sequence[Label]) -> tuple[Label, ...]:
    """Refuse labels that the algorithm cannot tell apart.

    Examples
    --------
    >>> from ddol.presets import dogd
    >>> check_classes(dogd(), [0.0, 1.0])
    (0.0, 1.0)
    >>> check_classes(dogd(), [1.0, 2.0, 3.0])
    Traceback (most recent call last):
    ddol.streams.errors.DataError: found 3 classes (1, 2, 3), expected 2 for ...
    """
    found = tuple(sorted(c if isinstance(c, str) else float(c) for c in classes))
    n_classes = getattr(algorithm.update, "n_classes", None)
    expected = n_classes or (2 if algorithm.outputs == 1 else algorithm.outputs)
    if len(found) == expected:
        return found
    if n_classes is not None and len(found) < expected and set(found) <= set(range(expected)):
        return tuple(float(k) for k in range(expected))
    if not found:
        raise DataError("found no example; expected at least one")
    names = listed(found, 10)
    noun = "class" if len(found) == 1 else "classes"
    hint = (
        "learn from data that has both"
        if len(found) == 1
        else f"for more classes use outputs={len(found)}, for numbers a regression loss"
    )
    raise DataError(
        f"found {len(found)} {noun} ({names}), expected {expected} for {algorithm.name} with the "
        f"loss {algorithm.loss.name}; {hint}"
    )
