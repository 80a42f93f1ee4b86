"""One agent whose examples come one at a time: rows are written to the same memory again and again."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ddol.algorithm import Algorithm
from ddol.compiled import Entry, entry, packed, unpacked
from ddol.engines import kernels
from ddol.engines.kernels import Examples
from ddol.engines.kernels import layout as places
from ddol.engines.kernels.average import adopt_columns, write_columns
from ddol.engines.kernels.layout import FINISH, Worker, part
from ddol.engines.kernels.update import finish_copy
from ddol.engines.state import State, grow, with_outputs
from ddol.engines.workers.inputs import addresses, rates_of
from ddol.engines.workers.partition import Matrices, Partition
from ddol.engines.workers.worker import KernelWorker
from ddol.streams.rows import Rows
from ddol.update.rates import evaluate

_ROUND_AT = 8 * Examples._fields.index("t")
_NONE_SEEN = packed(kernels.SnapshotPlaces(0, 0, 0, 0, 0))


class _Room(NamedTuple):
    """Memory of one row, packed for kernels."""

    rows: Rows
    weight: np.ndarray
    table: np.ndarray
    alone: bytes


class SinglePlayer(KernelWorker):
    """One agent that scores and learns single rows, and exchanges messages with agents elsewhere.

    An answer is one round of the algorithm with one agent: the gradient is taken at the weights of now.
    Nothing here is safe for threads; rows are given as values and, where they are sparse, rising columns.

    Parameters
    ----------
    algorithm : Algorithm
        Of one agent.
    state : State
        Its arrays are written to in place.
    dense : bool
        Rows have all columns.

    Examples
    --------
    >>> from ddol.engines.state import start_state
    >>> from ddol.presets import dogd
    >>> algorithm = dogd(l2=0.0)
    >>> player = SinglePlayer(algorithm, start_state(algorithm, 2), dense=True)
    >>> player.learn(np.array([1.0, 2.0]), None, 1.0)
    >>> player.score(np.array([1.0, 0.0]), None)
    [1.0]
    """

    def __init__(self, algorithm: Algorithm, state: State, dense: bool) -> None:
        self.dense, self.t = dense, state.t
        self._scores = np.empty(algorithm.outputs)
        super().__init__(algorithm, state, Partition(0, 1))

    @property
    def _one_matrix(self) -> Matrices:
        assert self.fixed_matrices is not None
        return self.fixed_matrices

    @property
    def _meets(self) -> bool:
        return True  # agents that are elsewhere: the loops of messages are compiled

    def _compiled(self, dense: bool) -> np.ndarray:
        parts = super()._compiled(dense)
        if parts[places.SCORE_UNSEEN] == 0:
            found = self.loops.addresses(dense, {"score_unseen"}, ())
            parts[places.SCORE_UNSEEN] = found[places.SCORE_UNSEEN]
        return parts

    def adopt(self, state: State) -> None:
        """Work on the arrays of ``state`` from now on."""
        super().adopt(state)
        self.t = state.t
        self.touched = np.zeros(state.n_features, bool)
        if not self.dense:
            start = self.algorithm.update.start(state.n_features).rows
            self.touched |= (state.theta[0] != start).any(axis=(0, 1))
        self._scores = np.empty(self.algorithm.outputs)
        self._make_room(state.n_features if self.dense else 64)

    def _make_room(self, size: int) -> None:
        data, y, weight = np.zeros(size), np.zeros(1), np.ones(1)
        index = np.empty(0 if self.dense else size, np.uint32)
        indptr = np.zeros(0 if self.dense else 2, np.int64)
        rows = Rows(data, index, indptr, self.state.n_features, y, weight)
        table = np.zeros((1, 1, 1), np.int64)
        numbers: dict[str, Any] = {
            **dict.fromkeys(Examples._fields, 0),
            **addresses(rows),
            "ones": 0,
        }
        alone = packed(Examples(**numbers))
        _, scale, exponent = rates_of(self.algorithm.rate, 1, 1)
        place = table.ctypes.data
        numbers |= {"predicted": place, "learned": place, "columns": 1, "rounds": 1, "t": 1}
        told = packed(Examples(**(numbers | {"scale": scale, "exponent": exponent})))
        self.room = _Room(rows, weight, table, alone)
        self._told = told[:_ROUND_AT], told[_ROUND_AT + 8 :]
        self._plain_rate = not len(rates_of(self.algorithm.rate, 1, 1)[0])
        self._play_with: tuple[Entry, bytes] | None = None
        self._score_with: tuple[bytes, int] | None = None

    def _write(self, values: np.ndarray, columns: np.ndarray | None) -> None:
        rows, n = self.room.rows, len(values)
        if columns is None:
            rows.data[:] = values
            return
        if n > len(rows.data):
            self._make_room(2 * n)
            rows = self.room.rows
        rows.data[:n], rows.indices[:n] = values, columns
        rows.indptr[1] = n

    def score(self, values: np.ndarray, columns: np.ndarray | None) -> list[float]:
        """Scores of a row, by the outputs, with the weights of now."""
        self._write(values, columns)
        if self._score_with is None:
            self._score_with = self._any_worker(self.dense), self._scores.ctypes.data
        worker, out = self._score_with
        kernels.read_scores(worker, self.room.alone, 0, _FIRST, out)
        return self._scores.tolist()

    def learn(
        self, values: np.ndarray, columns: np.ndarray | None, y: float, weight: float = 1.0
    ) -> None:
        """Play a round with one example."""
        self._write(values, columns)
        if self._play_with is None:
            self._play_with = self._worker(self.dense, self._one_matrix)
            self._prepare(self.room.rows)
        room, (kernel, worker) = self.room, self._play_with
        room.rows.y[0], room.weight[0] = y, weight
        before, after = self._told
        examples = before + self.t.to_bytes(8, sys.byteorder) + after
        if not self._plain_rate:
            examples = self._with_rate(examples)
        kernels.play(kernel, worker, examples, _NONE_SEEN, 0, 1)
        self.t += 1
        if columns is not None:
            self.touched[columns] = True

    def _with_rate(self, examples: bytes) -> bytes:
        """Name a table of one rate, where rates are no power of the round."""
        self._rate = rates_of(self.algorithm.rate, self.t, 1)[0]
        at = 8 * Examples._fields.index("rates")
        place = int(self._rate.ctypes.data).to_bytes(8, sys.byteorder)
        return examples[:at] + place + examples[at + 8 :]

    # --- messages -----------------------------------------------------------------------------------

    @property
    def numbers(self) -> tuple[int, int]:
        """Rows of a message, and its scalars, of each weight vector."""
        layout = self.layout
        return len(layout.message_rows), layout.linear_scalars + layout.largest_scalars

    @property
    def states(self) -> int:
        """Weight vectors."""
        return int(self.state.theta.shape[1])

    def message(self, columns: np.ndarray | None) -> np.ndarray:
        """The message that neighbours average, of some columns or all: (states, rows · columns + scalars)."""
        rows, scalars = self.numbers
        n = self.state.n_features if columns is None else len(columns)
        out = np.empty((self.states, rows * n + scalars))
        _read_message(self._any_worker(self.dense), columns, n, out)
        return out

    def told_strangers(self, columns: np.ndarray | None) -> np.ndarray:
        """The message for agents that have not begun together with this one."""
        found = self.message(columns)
        for k, body in enumerate(self._bodies(found)):
            body[:] = self.algorithm.update.to_strangers(body, self._rows_of(k, columns))
        return found

    def as_own(self, told: np.ndarray, columns: np.ndarray | None) -> np.ndarray:
        """The message of such an agent, of these columns, in the form of the own one; in place."""
        for k, body in enumerate(self._bodies(told)):
            rows = self._rows_of(k, columns)
            body[:] = self.algorithm.update.from_strangers(body, rows)
            if columns is not None:
                self.state.theta[0, k][:, columns] = rows
        return told

    def _bodies(self, numbers: np.ndarray) -> Iterator[np.ndarray]:
        """The rows (rows, n) of a message, of each weight vector."""
        rows, scalars = self.numbers
        n = (numbers.shape[1] - scalars) // max(rows, 1)
        return (each[: rows * n].reshape(rows, n) for each in numbers)

    def _rows_of(self, k: int, columns: np.ndarray | None) -> np.ndarray:
        """Rows of the state, of some columns (a copy) or all (themselves)."""
        rows: np.ndarray = self.state.theta[0, k]
        return rows if columns is None else rows[:, columns]

    def take(self, columns: np.ndarray | None, averaged: np.ndarray) -> bool:
        """Adopt an average of messages, and project; False, and as before, if that leaves no numbers."""
        theta, scalars = self.state.theta, self.state.scalars
        at: Any = slice(None) if columns is None else columns
        before = theta[..., at].copy(), scalars.copy()
        n = self.state.n_features if columns is None else len(columns)
        t = max(self.t - 1, 1)
        eta = float(evaluate(self.algorithm.rate, t, 1)[0])
        _take_average(self._any_worker(self.dense), columns, n, averaged, t, eta)
        if columns is not None:
            self.touched[columns] = True
        kept = not (np.isnan(theta[..., at]).any() or np.isnan(scalars).any())
        if not kept:
            theta[..., at], scalars[...] = before
        return kept

    # --- growing ------------------------------------------------------------------------------------

    def now(self) -> State:
        """The live state, with its round."""
        return replace(self.state, t=self.t)

    def widen(self, n_features: int) -> None:
        """Make room for columns that come after those of now."""
        self.adopt(grow(self.algorithm, self.now(), n_features))

    def grown(self, algorithm: Algorithm) -> SinglePlayer:
        """The same agent with an algorithm of more outputs."""
        return SinglePlayer(algorithm, with_outputs(algorithm, self.now()), self.dense)


_FIRST = range(0, 1)


@entry("void(struct*, int64, int64, int64)")
def _write(worker, index, n, out):  # type: ignore[no-untyped-def]
    write_columns(unpacked(Worker, worker), 0, index, n, out)


@entry("void(struct*, int64, int64, int64, int64, double)")
def _adopt(worker, index, n, averaged, t, eta):  # type: ignore[no-untyped-def]
    worker = unpacked(Worker, worker)
    adopt_columns(worker, 0, index, n, averaged)
    if part(worker, FINISH) != 0:
        finish_copy(worker, 0, t, eta)


def _read_message(worker: bytes, columns: np.ndarray | None, n: int, out: np.ndarray) -> None:
    """Write the message of n features, those that are listed or all, to ``out`` (states, numbers)."""
    _write(worker, 0 if columns is None else columns.ctypes.data, n, out.ctypes.data)


def _take_average(
    worker: bytes, columns: np.ndarray | None, n: int, averaged: np.ndarray, t: int, eta: float
) -> None:
    """Adopt averaged messages of n features, and project."""
    index = 0 if columns is None else columns.ctypes.data
    _adopt(worker, index, n, averaged.ctypes.data, t, eta)
