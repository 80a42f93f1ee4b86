"""The runs of a sweep: every combination of the values of its axes, and how one of them is played."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ddol.algorithm import Algorithm
from ddol.job.job import Job
from ddol.job.run import run
from ddol.job.train import train
from ddol.streams.stream import Stream
from ddol.trace import Trace

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
