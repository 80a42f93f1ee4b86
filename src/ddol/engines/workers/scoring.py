"""Scores of rows by a given state: what the learner would have predicted then."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property, partial
from itertools import pairwise
from threading import Lock
from typing import Any

import numpy as np

from ddol.algorithm import Algorithm
from ddol.engines.kernels import Standardised, read_products
from ddol.engines.state import State, layout_of, n_states, start_state
from ddol.engines.workers.inputs import RowsPlace
from ddol.engines.workers.partition import Partition
from ddol.engines.workers.worker import KernelWorker
from ddol.streams.over.parallel import usable_cores
from ddol.streams.rows import Rows, no_rows
from ddol.update.coordinates import UNKNOWN
from ddol.update.rates import constant


class Scorer:
    """Scores of rows by a state, through the update's own loop, as if each row was observed first.

    Parameters
    ----------
    algorithm : Algorithm
    theta, scalars : arrays (copies, outputs, rows, D) and (copies, outputs, scalars)
        As in `ddol.engines.state.State`; some of the copies will do.

    Examples
    --------
    >>> from ddol.engines.local import advance
    >>> from ddol.presets import dogd
    >>> from ddol.streams.rows import Block
    >>> algorithm = dogd(l2=0.0).on(2)
    >>> rows = Rows.from_dense([[1.0, 0.0], [0.0, 2.0]], [1.0, -1.0])
    >>> state = advance(algorithm, start_state(algorithm, 2), Block(rows, np.array([[[0], [1]]])))
    >>> Scorer(algorithm, state.theta, state.scalars)(rows).tolist()
    [[[0.5], [-2.0]]]
    """

    def __init__(self, algorithm: Algorithm, theta: np.ndarray, scalars: np.ndarray) -> None:
        if algorithm.tests:
            update: Any = algorithm.update
            theta, scalars = update.untested(theta, scalars)
            algorithm = replace(algorithm, trust="all")
        # Nothing is learned, so that no agent's rate matters.
        self._algorithm = replace(algorithm, rate=constant(1.0), delay=0, batch=1, period=1).on(1)
        self._state = replace(
            start_state(self._algorithm, 1),
            theta=np.ascontiguousarray(theta, float),
            scalars=np.ascontiguousarray(scalars, float),
        )
        _check(self._algorithm, self._state)
        self._workers = [self._worker()]
        self._table: tuple[tuple[int, bool], Standardised] | None = None
        self._one_at_a_time = Lock()

    def __call__(self, rows: Rows, copy: int | None = None) -> np.ndarray:
        """Scores (copies, n, outputs) of rows with at most D features, by all copies or by one."""
        theta = self._state.theta
        if rows.n_features > theta.shape[3]:
            raise ValueError(
                f"found rows of {rows.n_features} features, expected at most {theta.shape[3]}"
            )
        if copy is not None and not 0 <= copy < len(theta):
            raise ValueError(f"found no agent {copy}, expected one of {len(theta)}")
        copies = range(len(theta)) if copy is None else [copy]
        found = np.empty((len(copies), len(rows), self._algorithm.outputs))
        with self._one_at_a_time:
            for each, out in zip(copies, found, strict=True):
                self._write_scores(rows, each, out)
        return found

    def _write_scores(self, rows: Rows, copy: int, out: np.ndarray) -> None:
        """Write scores (n, outputs) by one copy."""
        parts, table = _parts(rows), self._standardised(rows, copy)
        if table is not None:
            _read_by_all_cores(rows, table.read, parts, out)
            return
        self._workers += [self._worker() for _ in range(len(self._workers), _cores_for(parts))]
        _by_all_cores(
            lambda number, taken: self._workers[number].write_scores(rows, copy, taken, out), parts
        )

    def _standardised(self, rows: Rows, copy: int) -> Standardised | None:
        """A table of a copy for sparse rows; None where making it would take longer than it saves."""
        known, there = self._algorithm.update.coordinates, (copy, rows.intercept)
        if rows.dense or known is None:
            return None
        if self._table is not None and self._table[0] == there:
            return self._table[1]
        theta, scalars = self._state.theta[copy], self._state.scalars[copy]
        if rows.data.size < theta[:, 0].size:
            return None
        centre, inverse, reach = known
        raw, most = self._raw_weights[copy], scalars[:, reach, None]
        table = np.zeros((*raw.shape, 4))
        table[..., 0], table[..., 1] = theta[:, centre], theta[:, inverse]
        # A feature without a scale is as far from 0 as can be; one that never varies adds nothing.
        unit = np.where(table[..., 1] < UNKNOWN, table[..., 1], most)
        np.divide(raw, unit, out=table[..., 2], where=unit > 0.0)
        table[..., 3] = table[..., 2] * np.clip(-table[..., 0] * table[..., 1], -most, most)
        empty = replace(no_rows(), indptr=np.zeros(2, np.int64), y=np.zeros(1), weight=np.ones(1))
        nothing = replace(empty, n_features=raw.shape[1], intercept=rows.intercept)
        update = self._algorithm.update
        plain = self._worker(replace(self._algorithm, update=update.without_range()))
        ranges = [update.range_of(own) for own in scalars]
        zeros = np.column_stack([plain.scores(nothing, copy)[0], most, ranges])
        self._table = there, Standardised(table, zeros)
        return self._table[1]

    @cached_property
    def _raw_weights(self) -> np.ndarray:
        return self._workers[0].weights()

    def _worker(self, algorithm: Algorithm | None = None) -> KernelWorker:
        return KernelWorker(algorithm or self._algorithm, self._state, Partition(0, 1))


_A_PART = 1 << 22
"""Bytes of rows that take a core about a millisecond: asking for the next ones is nothing beside it."""


def _parts(rows: Rows) -> list[range]:
    """Rows for a core at a time."""
    count = max(1, rows.nbytes // _A_PART)
    ends = np.linspace(0, len(rows), count + 1).astype(int).tolist()
    return [range(lo, hi) for lo, hi in pairwise(ends)]


def _cores_for(parts: list[range]) -> int:
    return min(usable_cores(), len(parts))


def _by_all_cores(work: Callable[[int, Iterator[range]], None], parts: list[range]) -> None:
    """Let every core do something with one part after the other, until none is left.

    A core that begins late, or is slower, takes fewer of them.
    """
    left, cores = iter(parts), _cores_for(parts)  # a list's iterator gives nothing twice
    if cores == 1:
        work(0, left)
        return
    from concurrent.futures import ThreadPoolExecutor  # brings logging, which few runs need

    with ThreadPoolExecutor(cores - 1) as threads:
        others = [threads.submit(work, number, left) for number in range(1, cores)]
        work(0, left)
        for other in others:
            other.result()


def _check(algorithm: Algorithm, state: State) -> None:
    """Refuse what is no state of the algorithm: a trace that came from a file may say anything."""
    theta, scalars = state.theta.shape, state.scalars.shape
    layout = layout_of(algorithm, theta[-1] if theta else 0)
    copies, outputs = len(state.theta) if theta else 0, n_states(algorithm)
    if theta[:3] != (copies, outputs, len(layout.rows)) or len(theta) != 4 or not copies:
        raise ValueError(f"found weights {theta}, expected those of {algorithm.name}")
    if scalars != (copies, outputs, len(layout.scalars)):
        raise ValueError(f"found scalars {scalars}, expected those of {algorithm.name}")


def products(rows: Rows, weights: np.ndarray) -> np.ndarray:
    """Scores (n, outputs) of rows where they are products of weights (outputs, D) and features.

    Examples
    --------
    >>> rows = Rows.from_dense([[1.0, 0.0], [0.0, 2.0]], [1.0, -1.0]).with_intercept(stored=False)
    >>> products(rows, np.array([[0.5, 1.0, 1.0]])).tolist()
    [[1.5], [2.5]]
    """
    if rows.dense:
        X, first = rows.data.reshape(len(rows), rows.n_stored), int(rows.intercept)
        with np.errstate(invalid="ignore"):  # the caller checks scores that are not finite
            found = X @ weights[:, first:].T
        return found + weights[:, 0] if rows.intercept else found
    out, given = np.empty((len(rows), len(weights))), np.ascontiguousarray(weights, float)
    _read_by_all_cores(rows, partial(read_products, given), _parts(rows), out)
    return out


def _read_by_all_cores(
    rows: Rows, read: Callable[[bytes, range, int], None], parts: list[range], out: np.ndarray
) -> None:
    """Let every core write scores of sparse rows, one part after the other."""
    place = RowsPlace(rows).alone

    def work(_: int, taken: Iterator[range]) -> None:
        for part in taken:
            read(place, part, out.ctypes.data)

    _by_all_cores(work, parts)
