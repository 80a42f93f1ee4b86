"""Memory that a worker needs beside the state of its agents."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ddol.algorithm import Algorithm
from ddol.engines.kernels import COPIES, SLOTS, Scratch
from ddol.engines.kernels.layout import in_lines
from ddol.engines.state import (
    State,
    averages_together,
    layout_of,
    loops_of,
    most_heard,
    n_states,
    numbers_sent,
    sharing,
)
from ddol.engines.workers.shares import apart
from ddol.streams.rows import Rows
from ddol.update.contract import LARGEST, Layout

_LISTED = 4096
"""Features from which it pays to exchange those only that some agent has met."""
_CACHED = 1 << 15
"""Numbers of all agents' messages that are exchanged at a time: they stay in the second cache."""


class BegunRows(NamedTuple):
    """Where rows are copied behind the 1 that they begin with."""

    data: np.ndarray
    indices: np.ndarray
    numbers: np.ndarray

    @classmethod
    def of(cls, size: int) -> BegunRows:
        """Room for rows of at most so many values."""
        data, indices = np.empty((SLOTS, size)), np.empty((SLOTS, size), np.uint32)
        data[:, :1], indices[:, :1] = 1.0, 0
        return cls(apart(data), apart(indices), apart(np.empty(SLOTS, np.int64)))

    @property
    def size(self) -> int:
        """Most values of a row."""
        return self.data.shape[1]


class Met(NamedTuple):
    """Features that some agent of a worker has met; only these are exchanged."""

    listed: np.ndarray
    n: np.ndarray
    known: np.ndarray

    @classmethod
    def of(cls, algorithm: Algorithm, state: State) -> Met:
        """Those that are not as they were at the start."""
        start = algorithm.update.start(state.n_features).rows
        known = np.zeros(state.n_features, bool)
        for outputs in state.theta:
            known |= (outputs != start).any(axis=(0, 1))
        found = np.flatnonzero(known)
        listed = np.empty(state.n_features, np.uint32)
        listed[: len(found)] = found
        return cls(listed, np.array([len(found)], np.int64), known.view(np.uint8))


class Workspace:
    """Scratch memory of one worker; all of its arrays are written all the time.

    Parameters
    ----------
    algorithm : Algorithm
    n_features : int
    agents : int
        That the worker hosts.
    workers : int
        Of the run.
    separate : bool
        Every agent has its own copy, and whole messages are averaged.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        n_features: int,
        agents: int,
        workers: int,
        separate: bool = False,
    ) -> None:
        D, outputs, self.algorithm = n_features, n_states(algorithm), algorithm
        layout, copied = layout_of(algorithm, D), separate or sharing(algorithm) == COPIES
        robust = algorithm.robust is not None
        whole = workers > 1 or separate or layout.boxes.wires > 0 or robust
        exchanges = copied and algorithm.n_agents > 1
        merges = not loops_of(algorithm).additive and algorithm.batch > 1
        scored = apart(np.empty(algorithm.outputs * (1 + layout.kept)))
        self.scores = scored[: algorithm.outputs]  # behind them is room for what is noted
        self._make_room_for_steps(layout, outputs, 0 if copied else D)
        self.merged = apart(np.zeros((2, D if merges else 0)))
        self.merged_index = np.empty(D if merges else 0, np.uint32)
        self.mean = apart(np.empty((outputs if exchanges else 0, D)))
        rows, scalars = len(layout.message_rows), layout.linear_scalars + layout.largest_scalars
        cached = max(64, _CACHED // max(algorithm.n_agents * rows, 1))
        self.block = D if layout.whole else min(D, cached)
        here = rows * (D if algorithm.update.experts else self.block if exchanges else 0) + scalars
        across = numbers_sent(algorithm, D) if whole and exchanges else 0
        self.mixed = apart(np.empty(max(D, here, across + rows * self.block)))
        maxima = across and averages_together(algorithm) and LARGEST in layout.modes
        self.largest = apart(np.empty(across if maxima else 0))
        here_too = exchanges and not whole
        all_of_it = exchanges and workers == 1 and not separate and whole
        room = agents * in_lines(rows * self.block + scalars) if here_too else 0
        self.packed = apart(np.empty(agents * across if all_of_it else room))
        self.passed = apart(np.empty(layout.boxes.wires, np.int64))
        self.gathered = apart(np.empty(most_heard(algorithm) * (max(D, 1) + 2)))
        self.lists = here_too and D >= _LISTED and algorithm.update.grows and not layout.whole
        self.met: Met | None = None
        self.begun = BegunRows.of(0)

    def _make_room_for_steps(self, layout: Layout, outputs: int, D: int) -> None:
        """Memory in which agents that share a copy of D features collect their steps; none for D = 0."""
        collected = layout.sums * D + layout.linear_scalars if D else 0
        largest = layout.maxima * D + layout.largest_scalars if D else 0
        self.delta = apart(np.zeros(outputs * collected + 1 if D else 0))
        self.maxima = apart(np.zeros(outputs * largest))
        self.maxima.reshape(outputs, -1)[:, layout.maxima * D :] = -np.inf
        self.union = np.empty(D + 1 if D else 0, np.uint32)
        self.in_union = np.zeros(D, np.uint8)

    def begin(self, rows: Rows) -> bool:
        """Make room for rows that begin with a 1 which is not stored; whether that is new."""
        if not rows.intercept or self.begun.size >= rows.n_features:
            return False
        longest = rows.n_features
        if longest > _LISTED and not rows.dense:
            longest = 1 + int(np.diff(rows.indptr).max(initial=0))
        if self.begun.size >= longest:
            return False
        self.begun = BegunRows.of(-(-longest // 8) * 8)
        return True

    def meet(self, state: State, dense: bool) -> bool:
        """List the features that agents have met, but not where rows are dense; whether that is new."""
        listing = self.lists and not dense
        if listing == (self.met is not None):
            return False
        self.met = Met.of(self.algorithm, state) if listing else None
        return True

    def scratch(self) -> Scratch:
        """Where it is."""
        met = self.met
        return Scratch(
            scores=self.scores.ctypes.data,
            delta=self.delta.ctypes.data,
            maxima=self.maxima.ctypes.data,
            union=self.union.ctypes.data,
            in_union=self.in_union.ctypes.data,
            mixed=self.mixed.ctypes.data,
            largest=self.largest.ctypes.data if self.largest.size else 0,
            mean=self.mean.ctypes.data if self.mean.size else 0,
            merged=self.merged.ctypes.data,
            merged_index=self.merged_index.ctypes.data,
            touched=0 if met is None else met.listed.ctypes.data,
            n_touched=0 if met is None else met.n.ctypes.data,
            is_touched=0 if met is None else met.known.ctypes.data,
            passed=self.passed.ctypes.data,
            gathered=self.gathered.ctypes.data,
            begun=self.begun.data.ctypes.data,
            begun_index=self.begun.indices.ctypes.data,
            begun_rows=self.begun.numbers.ctypes.data,
            begun_size=self.begun.size,
        )


def most_reduced(algorithm: Algorithm, n_features: int) -> int:
    """Most numbers that workers sum at a time: collected steps, or what an agent sends."""
    layout = layout_of(algorithm, n_features)
    rows = max(layout.sums, layout.maxima)
    scalars = max(layout.linear_scalars, layout.largest_scalars)
    collected = n_states(algorithm) * (rows * n_features + scalars) + 1
    return max(collected, numbers_sent(algorithm, n_features))
