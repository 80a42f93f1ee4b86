"""Assembling a kernel's worker from an algorithm and a state."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ddol.algorithm import Algorithm
from ddol.communicate.mixing import Changing
from ddol.engines import kernels
from ddol.engines.kernels import COPIES, Examples, Worker
from ddol.engines.shares import apart
from ddol.engines.state import State, averages_together, n_states, numbers_sent, sharing
from ddol.streams.rows import Block, Rows, concatenate
from ddol.update.losses import REGRESSION
from ddol.update.rates import Power, Rate, evaluate
from ddol.update.rule import MAX


class Partition(NamedTuple):
    """The part of a run that one worker hosts."""

    first: int
    """First agent."""
    agents: int
    workers: int = 1
    column: int = 0
    """Column of the table at which the worker's agents begin."""
    packed: np.ndarray | None = None
    """Where agents' numbers are exchanged; None for memory of its own."""
    own: int = 0
    """Row of `packed` at which the worker's agents begin."""
    places: np.ndarray | None = None
    """Row of `packed` of every agent; None where they are in their order."""
    reduce: int = 0
    reduce_max: int = 0
    exchange: int = 0
    context: int = 0
    """The communicator: its functions and their memory, by address."""


class Matrices(NamedTuple):
    """Rows of mixing matrices, in CSR form."""

    starts: np.ndarray
    columns: np.ndarray
    weights: np.ndarray


class Snapshots(NamedTuple):
    """Rounds after which a run is looked at, and what is seen."""

    rounds: np.ndarray
    counters: np.ndarray
    """(rounds, agents, 4): mistakes, loss, expected mistakes and examples."""
    metrics: np.ndarray
    """(rounds, 2): consensus distance of all agents, and the largest log-weight of an expert, which is
    NaN where agents share none."""


def split(n_agents: int, workers: int) -> list[tuple[int, int]]:
    """First agent and number of agents of every worker: contiguous and as equal as can be.

    Examples
    --------
    >>> split(5, 2)
    [(0, 3), (3, 2)]
    """
    bounds = [(n_agents * w + workers - 1) // workers for w in range(workers + 1)]
    return [(a, b - a) for a, b in pairwise(bounds)]


def most_reduced(algorithm: Algorithm, n_features: int) -> int:
    """Most numbers that workers sum at a time: collected steps, or what an agent sends."""
    layout = algorithm.update.layout(algorithm.average, n_features)
    rows, scalars = max(layout.delta, layout.maxima), max(layout.sums, layout.maxima_scalars)
    collected = n_states(algorithm) * (rows * n_features + scalars) + 1
    return max(collected, numbers_sent(algorithm, n_features))


class KernelWorker:
    """A worker with the memory that its addresses point to.

    Parameters
    ----------
    algorithm : Algorithm
    state : State
        Of this worker's agents only; its arrays are written to in place.
    partition : Partition
    separate : bool
        Every agent has a copy of the weights of its own, even where one could serve all.
    """

    def __init__(
        self, algorithm: Algorithm, state: State, partition: Partition, separate: bool = False
    ) -> None:
        self.algorithm, self.partition = algorithm, partition
        self.sharing = COPIES if separate else sharing(algorithm)
        self.complete = averages_together(algorithm)
        self.parameters = np.ascontiguousarray(algorithm.update.parameters(), float)
        self.loss_parameters = np.array([*algorithm.loss.parameters, 0.0])
        self._parts: dict[bool, np.ndarray] = {}
        self._workers: dict[bool, Worker] = {}
        self._rows: Rows | None = None
        self._addresses: dict[str, int] = {}
        self.adopt(state)

    def adopt(self, state: State) -> None:
        """Work on the arrays of ``state`` from now on."""
        self.state = state
        D, outputs = state.n_features, n_states(self.algorithm)
        copies = self.partition.agents if self.sharing == COPIES else 0
        merges = not self.algorithm.update.additive and self.algorithm.batch > 1
        layout = self.layout = self.algorithm.update.layout(self.algorithm.average, D)
        self.modes = np.array(layout.numbers, np.int64)
        # Every worker writes these all the time.
        self.scores = apart(np.empty(self.algorithm.outputs))
        self.delta = apart(np.zeros(outputs * (layout.delta * D + layout.sums) + 1))
        self.maxima = apart(np.zeros(outputs * (layout.maxima * D + layout.maxima_scalars)))
        numbers = numbers_sent(self.algorithm, D)
        self.mixed = apart(np.empty(numbers))
        maxima = self.complete and MAX in layout.numbers
        self.largest = apart(np.empty(numbers if maxima else 0))
        self.merged = apart(np.zeros((2, D if merges else 0)))
        self.mean = apart(np.empty((outputs if copies else 0, D)))
        self.touched = np.empty(D if merges else 0, np.uint32)
        own = np.empty((1, copies, numbers))
        self.packed = own if self.partition.packed is None else self.partition.packed
        self.fixed_matrices = None if self._changing else self._matrices([1])
        self._workers.clear()

    @property
    def _changing(self) -> bool:
        return isinstance(self.algorithm.mixing, Changing)

    def _matrices(self, rounds: list[int]) -> Matrices:
        """Rows of the mixing matrices of some rounds that belong to this worker's agents."""
        first, last = self.partition.first, self.partition.first + self.partition.agents
        starts = np.zeros((len(rounds), self.partition.agents + 1), np.int64)
        columns, weights, before = [np.empty(0, np.int64)], [np.empty(0)], 0
        for place, t in enumerate(rounds):
            silent = len(rounds) > 1 and t % self.algorithm.period
            if self.sharing != COPIES or self.complete or silent:
                continue
            indptr, agents, values = self.algorithm.mixing.at(t).csr()
            lo, hi = indptr[first], indptr[last]
            starts[place] = indptr[first : last + 1] - lo + before
            places = self.partition.places
            columns.append(agents[lo:hi] if places is None else places[agents[lo:hi]])
            weights.append(values[lo:hi])
            before += int(hi - lo)
        return Matrices(starts, np.concatenate(columns), np.concatenate(weights))

    def _worker(self, dense: bool, matrices: Matrices) -> Worker:
        algorithm, state, partition = self.algorithm, self.state, self.partition
        if dense not in self._parts:
            loops = algorithm.update.loops(algorithm.average).addresses(dense)
            self._parts[dense] = np.append(loops, algorithm.loss.addresses())
        kind = kernels.REGRESSION if algorithm.loss.task == REGRESSION else kernels.BINARY
        copies, outputs, slots, D = state.theta.shape
        return Worker(
            n_agents=algorithm.n_agents,
            kind=kernels.CLASSES if algorithm.outputs > 1 else kind,
            sharing=self.sharing,
            additive=bool(algorithm.update.additive),
            experts=bool(algorithm.update.experts),
            branchless_step=algorithm.update.loops(algorithm.average).branchless_step,
            randomized=bool(algorithm.update.randomized),
            period=int(algorithm.period),
            delay=int(algorithm.delay),
            C=float(algorithm.C),
            l2=float(algorithm.update.l2),
            parts=self._parts[dense].ctypes.data,
            p=self.parameters.ctypes.data,
            q=self.loss_parameters.ctypes.data,
            agents=partition.agents,
            copies=copies,
            batch=int(algorithm.batch),
            outputs=int(algorithm.outputs),
            states=outputs,
            slots=slots,
            n_scalars=state.scalars.shape[2],
            D=D,
            delta_rows=self.layout.delta,
            maxima_rows=self.layout.maxima,
            packed_rows=len(self.layout.packed),
            n_sums=self.layout.sums,
            n_maxima=self.layout.maxima_scalars,
            theta=state.theta.ctypes.data,
            scalars=state.scalars.ctypes.data,
            sums=state.sums.ctypes.data if state.sums.size else 0,
            mistakes=state.mistakes.ctypes.data,
            loss=state.loss.ctypes.data,
            expected=state.expected.ctypes.data,
            examples=state.examples.ctypes.data,
            slopes=state.slopes.ctypes.data,
            scores=self.scores.ctypes.data,
            delta=self.delta.ctypes.data,
            maxima=self.maxima.ctypes.data,
            largest=self.largest.ctypes.data if self.largest.size else 0,
            mixed=self.mixed.ctypes.data,
            mean=self.mean.ctypes.data,
            merged=self.merged.ctypes.data,
            touched=self.touched.ctypes.data,
            workers=partition.workers,
            complete=bool(self.complete),
            packed=self.packed.ctypes.data,
            buffers=self.packed.shape[0],
            buffer_rows=self.packed.shape[1],
            own=partition.own,
            starts=matrices.starts.ctypes.data,
            matrices=len(matrices.starts),
            columns=matrices.columns.ctypes.data,
            shares=matrices.weights.ctypes.data,
            modes=self.modes.ctypes.data,
            reduce=partition.reduce,
            reduce_max=partition.reduce_max,
            exchange=partition.exchange,
            context=partition.context,
        )

    def at_hand(self, rows: Rows) -> tuple[Worker, Examples]:
        """The worker, and rows that events name by themselves: there are no rounds."""
        none = Matrices(np.zeros((1, 1), np.int64), np.empty(0, np.int64), np.empty(0))
        numbers: dict[str, Any] = dict.fromkeys(Examples._fields, 0)
        numbers |= {"scale": 0.0, "exponent": 0.0, "t": 1}
        return self._worker(rows.dense, none), Examples(**numbers | addresses(rows))

    def play_block(self, block: Block, after: Sequence[int] = ()) -> int:
        """Play the rounds of a block that has no new features; 0, or the communicator's error."""
        state = self.state
        rows, predicted, learned, pending = with_pending(state, block)
        rows = rows.widen(state.n_features)
        status = self.play(rows, predicted, learned, state.t, after)
        self.state = replace(state, t=state.t + len(predicted), pending=pending)
        return status

    def play(
        self,
        rows: Rows,
        predicted: np.ndarray,
        learned: np.ndarray,
        t: int,
        after: Sequence[int] = (),
    ) -> int:
        """Play the rounds of a table; 0, or the communicator's error.

        What is seen when as many rounds are played as `after` says is kept in `snapshots`.
        """
        n = len(after)
        self.snapshots = Snapshots(
            np.array(after, np.int64), np.empty((n, self.partition.agents, 4)), np.empty((n, 2))
        )
        for lo, hi in self._pieces(len(predicted)):
            matrices = self.fixed_matrices or self._matrices(list(range(t + lo, t + hi)))
            # A snapshot after 0 rounds is taken before the first one.
            first, last = np.searchsorted(self.snapshots.rounds, (lo or -1, hi), side="right")
            here = Snapshots(*(array[first:last] for array in self.snapshots))
            seen = predicted[lo:hi]
            told = seen if learned is predicted else learned[lo:hi]
            status = self._play(
                rows, seen, told, t + lo, matrices, here._replace(rounds=here.rounds - lo)
            )
            if status != 0:
                return status
        return 0

    def _play(
        self,
        rows: Rows,
        predicted: np.ndarray,
        learned: np.ndarray,
        t: int,
        matrices: Matrices,
        snapshots: Snapshots,
    ) -> int:
        rounds = len(predicted)
        # Names keep the memory alive until the kernel is done with the addresses.
        tables = np.ascontiguousarray(predicted), np.ascontiguousarray(learned)
        chances = self._chances(t, rounds)
        rates, scale, exponent = rates_of(self.algorithm.rate, t, rounds)
        if rows is not self._rows:
            self._rows, self._addresses = rows, addresses(rows)
        first = tables[0].ctypes.data
        examples = Examples(
            **self._addresses,
            predicted=first,
            learned=first if predicted is learned else tables[1].ctypes.data,
            columns=predicted.shape[1],
            first=self.partition.column,
            chances=chances.ctypes.data,
            rates=rates.ctypes.data if len(rates) else 0,
            scale=scale,
            exponent=exponent,
            rounds=rounds,
            t=t,
            snapshots=snapshots.rounds.ctypes.data,
            n_snapshots=len(snapshots.rounds),
            counters=snapshots.counters.ctypes.data,
            metrics=snapshots.metrics.ctypes.data,
        )
        worker = self._workers.get(rows.dense)
        if worker is None or matrices is not self.fixed_matrices:
            worker = self._workers[rows.dense] = self._worker(rows.dense, matrices)
        return int(kernels.play(worker, examples))

    def _pieces(self, rounds: int) -> Iterator[tuple[int, int]]:
        """All rounds at once, but few at a time where each has a matrix of its own."""
        size = 256 if self._changing else max(rounds, 1)
        return ((lo, min(lo + size, rounds)) for lo in range(0, max(rounds, 1), size))

    def _chances(self, t: int, rounds: int) -> np.ndarray:
        """Uniform numbers for the draws of the rounds t, …: a function of seed, agent and round."""
        batch = self.algorithm.batch
        if not self.algorithm.update.randomized:
            return np.empty((0, 0, 0))
        drawn = np.empty((rounds, self.partition.agents, batch))
        for a in range(self.partition.agents):
            bits = np.random.PCG64(
                np.random.SeedSequence([self.state.seed, self.partition.first + a])
            )
            bits.advance((t - 1) * batch)
            drawn[:, a] = np.random.Generator(bits).random((rounds, batch))
        return drawn

    def weights(self) -> np.ndarray:
        """Primal weights of this worker's copies: (copies, outputs, D)."""
        copies, outputs, _, D = self.state.theta.shape
        out = np.empty((copies, outputs, D))
        empty = Matrices(np.empty((1, 1), np.int64), np.empty(0, np.int64), np.empty(0))
        worker = next(iter(self._workers.values()), None) or self._worker(True, empty)
        kernels.read_weights(worker, out.ctypes.data)
        return out


def rates_of(rate: Rate, t: int, rounds: int) -> tuple[np.ndarray, float, float]:
    """A table of the rates of the rounds t, …, or none where the kernel takes scale/t^exponent."""
    if isinstance(rate, Power) and rate.exponent in (0.0, 0.5, 1.0):
        return np.empty(0), float(rate.scale), float(rate.exponent)
    return evaluate(rate, t, rounds), 0.0, 0.0


def addresses(rows: Rows) -> dict[str, int]:
    """Where the arrays of a block are; 0 for those that it does not have."""
    return {
        "x": rows.data.ctypes.data,
        "features": rows.indices.ctypes.data,
        "indptr": 0 if rows.dense else rows.indptr.ctypes.data,
        "y": rows.y.ctypes.data,
        "weight": rows.weight.ctypes.data if len(rows.weight) else 0,
    }


def with_pending(state: State, block: Block) -> tuple[Rows, np.ndarray, np.ndarray, Block | None]:
    """Rows, the tables of predictions and of answers, and what is under way after the block.

    Without a delay both tables are the block's. With a delay of k rounds, the answers of a round are
    those of the predictions k rounds before.
    """
    if state.pending is None:
        return block.rows, block.table, block.table, None
    late, rows = state.pending, block.rows
    if len(late.rows):
        rows, offset = concatenate([late.rows, block.rows]), len(late.rows)
    else:
        offset = 0
    predicted = np.where(block.table >= 0, block.table + offset, -1)
    all_tables = np.concatenate([late.table, predicted])
    learned = all_tables[: len(predicted)]
    rest = all_tables[len(predicted) :]
    needed = np.unique(rest[rest >= 0])
    renumbered = np.where(rest >= 0, np.searchsorted(needed, rest), -1)
    return rows, predicted, learned, Block(rows.take(needed), renumbered)
