"""``ddol.sweep``: all combinations of some settings, in parallel, kept as they are finished."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from ddol.algorithm import Algorithm
from ddol.job.job import Job
from ddol.job.run import run
from ddol.job.sources import fingerprint as data_fingerprint
from ddol.job.train import train
from ddol.recording import Curves
from ddol.streams.stream import Stream
from ddol.study.kept import RunFolder, fingerprint
from ddol.study.study import Study
from ddol.trace import Trace

Observe = Callable[[Trace, Any], Mapping[str, Any]]
Finished = tuple[dict[str, Any], Curves | None]


def sweep(
    axes: Mapping[str, Any],
    data: Any = None,
    *,
    workers: int | None = None,
    folder: str | os.PathLike[str] | None = None,
    shuffle: bool = True,
    observe: Observe | None = None,
    progress: bool | Callable[[int, int], None] | None = None,
) -> Study:
    """Run every combination of some settings.

    Parameters
    ----------
    axes : dict
        Name of a setting → its values, or one value: ``algorithm`` (names of presets, or algorithms),
        ``agents``, ``topology``, ``mixing``, ``data``, ``seed``, any parameter of the presets, any
        field of an algorithm (``period``, ``batch``, ``delay``, …) and any option of `ddol.run`.
        A dictionary of values gives them names of one's own.
    data : (X, y), stream(s), a `Job`, or a function of the seed that returns data
        As `ddol.run` takes them, files included; or a job, of which the axes say otherwise. The seed is that
        of the order of the examples: runs with the same seed see the same examples in the same order and
        can be compared in pairs.
    workers : int, optional
        Processes (or threads, where processes cannot be forked); one for each core by default.
    folder : path, optional
        Where finished runs are kept: a sweep that is started again plays only what is missing.
    shuffle : bool
        Whether the seed decides on the order of data that are given as they are.
    observe : function of the trace and the data, optional
        Returns more columns of the table, such as a regret.
    progress : bool or function of runs done and runs in all, optional
        A bar on standard error; by default where a terminal is attached.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> answers = rng.choice([-1.0, 1.0], 300)
    >>> advice = np.where(rng.random((300, 4)) < 0.3, -answers[:, None], answers[:, None])
    >>> found = sweep({"algorithm": ["dwm-a", "dwm-i"], "agents": 3, "seed": range(5)},
    ...               (advice, answers), workers=1)
    >>> len(found.rows), found.compare("algorithm", "mistakes")[0].pairs
    (10, 5)
    """
    named = [Axis.of(name, values) for name, values in axes.items()]
    if isinstance(data, str):
        data = Path(data)
    points = points_of(named)
    job = _Runs(points, data, shuffle, observe)
    if folder is not None:
        job.kept = RunFolder(folder, job.decisive())
    found = {} if job.kept is None else job.kept.finished()
    missing = [index for index in range(len(points)) if index not in found]
    with shown(progress) as tell:
        tell(len(found), len(points))
        for index, finished in _played(job, missing, workers):
            found[index] = finished
            tell(len(found), len(points))
    rows = [{**points[i].names, **found[i][0]} for i in range(len(points))]
    _warn_of_failures(rows)
    return Study(
        tuple(axis.name for axis in named), rows, [found[i][1] for i in range(len(points))]
    )


@dataclass
class _Runs:
    """Shared by all processes; each makes the data of a seed once for the runs that use them.

    Every process saves a run as soon as it has ended: a sweep that is killed loses only the runs under way.
    """

    points: Sequence[Point]
    data: Any
    shuffle: bool
    observe: Observe | None
    kept: RunFolder | None = None
    last: tuple[Any, Any] = field(default=(None, None))

    @property
    def is_plain(self) -> bool:
        """Whether nothing but arrays is looked at, and no function of a user's is called."""
        given = [
            self.data,
            *(point.values["data"] for point in self.points if "data" in point.values),
        ]
        parts = [part for data in given for part in (data if isinstance(data, tuple) else (data,))]
        arrays = (np.ndarray, list, type(None))
        return self.observe is None and all(isinstance(p, arrays) or sp.issparse(p) for p in parts)

    def _given(self, point: Point) -> Any:
        return point.values.get("data", self.data)

    def data_for(self, point: Point) -> Any:
        same = point.names.get("data"), point.names.get("seed")
        if self.last[0] != (same,):
            self.last = ((same,), data_for(point, self.data, self.shuffle))
        return self.last[1]

    def play(self, index: int) -> Finished:
        point = self.points[index]
        data = self.data_for(point)
        try:
            trace, data = play(point, data, self.shuffle and not callable(self._given(point)))
        except FloatingPointError as error:
            return {"problem": str(error)}, None
        more = {} if self.observe is None else dict(self.observe(trace, data))
        row = {**figures(trace), **more}
        if self.kept is not None:
            self.kept.keep(index, row, trace.curves)
        return row, trace.curves

    def decisive(self) -> list[tuple[Any, ...]]:
        """What decides on the result of each run; data are looked through once for all of them."""
        same = fingerprint((self.shuffle, self.observe))
        found, digests = [], dict[Any, Any]()
        if isinstance(self.data, Job):
            for point in self.points:
                job = self.data.but(**point.values)
                if job.data.data not in digests:
                    digests[job.data.data] = data_fingerprint(job.data)
                found.append((job.identity(), digests[job.data.data], same))
            return found
        for point in self.points:
            name = point.names.get("data")
            if name not in digests:
                digests[name] = fingerprint(self._given(point))
            values = {key: value for key, value in point.values.items() if key != "data"}
            found.append((values, digests[name], same))
        return found


def figures(trace: Trace) -> dict[str, Any]:
    """Row of the table about a run."""
    bound = next((entry["value"] for entry in trace.bounds.values()), None)
    return {
        "examples": trace.examples,
        "rounds": trace.rounds,
        "mistakes": int(trace.mistakes.sum()),
        "error": trace.error,
        "worst_agent": int(trace.mistakes.max()),
        "loss": float(trace.loss.sum()),
        "mean_loss": trace.mean_loss,
        "bound": bound,
        "labels": trace.labels,
        "consensus": trace.consensus,
        "messages": trace.messages,
        "bytes_sent": trace.bytes_sent,
        "seconds": trace.seconds,
    }


def _played(
    job: _Runs, missing: Sequence[int], workers: int | None
) -> Iterator[tuple[int, Finished]]:
    """Runs as they are finished."""
    count = min(workers or os.cpu_count() or 1, len(missing))
    if count <= 1:
        for index in missing:
            yield index, job.play(index)
        return
    pieces = np.array_split(np.asarray(missing), min(len(missing), 8 * count))
    with _pool(job, count) as pool:
        tasks = [pool.submit(_play_piece, piece.tolist()) for piece in pieces]
        try:
            for task in as_completed(tasks):
                yield from task.result()
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise


def _pool(job: _Runs, count: int) -> Executor:
    """Processes where they can be forked, which have the data and all functions already; else threads.

    A fork leaves the threads behind in which polars works, and a call into it then waits for ever. A
    process that is started anew runs the user's script again, and knows no function that was made in it.
    """
    waits = "polars" in sys.modules and not job.is_plain
    if sys.platform != "linux" or waits:
        return ThreadPoolExecutor(count, "ddol-sweep", _begin, (job,))
    return ProcessPoolExecutor(count, multiprocessing.get_context("fork"), _begin, (job,))


_HERE = threading.local()


def _begin(job: _Runs) -> None:
    _HERE.runs = replace(job)


def _play_piece(indices: list[int]) -> list[tuple[int, Finished]]:
    """Runs that stand together share their data."""
    runs: _Runs = _HERE.runs
    return [(index, runs.play(index)) for index in indices]


def _warn_of_failures(rows: Sequence[Mapping[str, Any]]) -> None:
    failed = [row for row in rows if "problem" in row]
    if failed:
        warnings.warn(
            f"{len(failed)} of {len(rows)} runs failed, the first of them: {failed[0]['problem']}",
            stacklevel=3,
        )


Tell = Callable[[int, int], None]


@contextmanager
def shown(wanted: bool | Tell | None) -> Iterator[Tell]:
    """A function of runs done and runs in all, which draws a bar on standard error.

    Parameters
    ----------
    wanted : bool or function
        None draws a bar where a terminal is attached; a function is called instead.
    """
    if callable(wanted):
        yield wanted
    elif wanted or (wanted is None and sys.stderr.isatty()):
        from rich.console import Console
        from rich.progress import Progress

        with Progress(console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task("runs", total=None)
            yield lambda done, total: bar.update(task, completed=done, total=total)
    else:
        yield lambda done, total: None


SEED, DATA = "seed", "data"


@dataclass(frozen=True)
class Axis:
    """One thing that varies: its values by the names that tables show."""

    name: str
    values: dict[Any, Any]

    @classmethod
    def of(cls, name: str, given: Any) -> Axis:
        """From a dictionary of names, a list of values, or one value.

        Examples
        --------
        >>> Axis.of("agents", [1, 4]).values
        {1: 1, 4: 4}
        """
        if isinstance(given, Mapping):
            return cls(name, dict(given))
        one = isinstance(given, str | Algorithm) or not isinstance(given, Iterable)
        many = [given] if one or name == DATA else list(given)
        values = {_shown(value): value for value in many}
        if not values:
            raise ValueError(f"the axis `{name}` has no value; give at least one")
        if len(values) < len(many):
            raise ValueError(
                f"two values of the axis `{name}` have the same name; give a dictionary of names"
            )
        return cls(name, values)


def _shown(value: Any) -> Any:
    """What a table calls a value."""
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, np.generic):
        return value.item()
    return str(getattr(value, "name", None) or getattr(value, "__name__", None) or value)


@dataclass(frozen=True)
class Point:
    """One run: the names of its values, and the values themselves."""

    names: dict[str, Any]
    values: dict[str, Any]


def points_of(axes: Sequence[Axis]) -> list[Point]:
    """Every combination; those that share data and seed stand together.

    Examples
    --------
    >>> axes = [Axis.of("seed", range(2)), Axis.of("agents", [1, 4])]
    >>> [tuple(point.names.values()) for point in points_of(axes)]
    [(0, 1), (0, 4), (1, 1), (1, 4)]
    """
    order = sorted(axes, key=lambda axis: (axis.name != DATA, axis.name != SEED))
    found = []
    for chosen in itertools.product(*(axis.values for axis in order)):
        names = dict(zip((axis.name for axis in order), chosen, strict=True))
        names = {axis.name: names[axis.name] for axis in axes}
        found.append(Point(names, {axis.name: axis.values[names[axis.name]] for axis in axes}))
    return found


def play(point: Point, data: Any, shuffle: bool) -> tuple[Trace, Any]:
    """Run one point on its data; the trace, and the data as they were seen."""
    given = {name: value for name, value in point.values.items() if name != DATA}
    if isinstance(data, Job):
        job = data.but(**point.values)
        return train(job), job.data.data
    algorithm, network = given.pop("algorithm", "adaptive"), given.pop("topology", None)
    if isinstance(network, str) and not isinstance(data, list):
        given.setdefault("agents", 1)
    if shuffle and given.get(SEED) is not None and _is_streams(data):
        given.setdefault("shuffle", True)
    return run(algorithm, data, network, **given), data


def _is_streams(data: Any) -> bool:
    """Whether data are streams or files, and not arrays."""
    first = data[0] if isinstance(data, list | tuple) and data else data
    return isinstance(first, Stream | str | os.PathLike)


def data_for(point: Point, data: Any, shuffle: bool) -> Any:
    """The data of a point: made by a function of the seed, or arrays in the order of its seed.

    Streams are put into their order when they are encoded.
    """
    if isinstance(data, Job):
        return data
    data, seed = point.values.get(DATA, data), point.values.get(SEED)
    if callable(data):
        return data(0 if seed is None else seed)
    if not shuffle or seed is None or _is_streams(data):
        return data  # these are put into their order when they are read
    rng = np.random.default_rng(seed)
    return [_mixed(pair, rng) for pair in data] if isinstance(data, list) else _mixed(data, rng)


def _mixed(pair: Any, rng: np.random.Generator) -> Any:
    order = rng.permutation(len(pair[1]))
    return tuple(_take(part, order) for part in pair)


def _take(values: Any, order: np.ndarray) -> Any:
    if hasattr(values, "iloc"):
        return values.iloc[order]
    return values[order] if hasattr(values, "shape") else np.asarray(values)[order]
