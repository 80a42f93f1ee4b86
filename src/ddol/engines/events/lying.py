"""Simulated liars (Byzantine agents): the kernel calls Python for the messages that they send, and rows with
false labels or units are changed before they learn from them."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ddol.algorithm import Algorithm
from ddol.engines.state import layout_of, n_states
from ddol.schedules.liars import LABELS, Lie, about_data, message_of
from ddol.storage import Expected, check_arrays
from ddol.streams.errors import DataError
from ddol.streams.rows import Block, Rows
from ddol.update.checks import allowed_numbers

_CALLED = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)


class Lying:
    """The liars of a run.

    Parameters
    ----------
    algorithm : Algorithm
    liars : dict of agent and lie
    seed : int
        Of the run.
    """

    def __init__(self, algorithm: Algorithm, liars: Mapping[int, Lie], seed: int) -> None:
        n = algorithm.n_agents
        for agent in liars:
            if agent >= n:
                raise DataError(f"`liars`: found agent {agent}, expected 0 to {n - 1}")
        if len(liars) == n:
            raise DataError(f"`liars`: all {n} agents lie; leave at least one that does not")
        self.algorithm, self.seed = algorithm, seed
        self.about_data = {agent: lie for agent, lie in liars.items() if about_data(lie)}
        self.about_messages = {agent: lie for agent, lie in liars.items() if not about_data(lie)}
        if self.about_messages and algorithm.chooses_messages:
            raise DataError(
                "`liars` send whole messages: leave talk, compress, talk_to and teach out"
            )
        self.lies = np.zeros(n, np.int64)
        self.lies[list(self.about_messages)] = 1
        self.refused, self.sent = np.zeros(n, np.int64), np.zeros(n, np.int64)
        self.room = np.empty((n, 0))
        self.allowed = np.empty(0), np.empty(0)
        self.failed: BaseException | None = None
        self._callback = _CALLED(self._write)

    def prepare(self, n_features: int) -> None:
        """Make room for messages about so many features."""
        if not self.about_messages:
            return
        least, most = allowed_numbers(layout_of(self.algorithm, n_features), n_features)
        vectors = n_states(self.algorithm)
        self.allowed = np.tile(least, vectors), np.tile(most, vectors)
        self.room = np.empty((len(self.lies), len(self.allowed[0])))

    @property
    def address(self) -> int:
        """Address of the function that the kernel calls when a liar sends; 0 where messages are true."""
        if not self.about_messages:
            return 0
        return int(ctypes.cast(self._callback, ctypes.c_void_p).value or 0)

    def _write(self, agent: int, room: int, place: int) -> None:
        target = np.ctypeslib.as_array(
            ctypes.cast(place, ctypes.POINTER(ctypes.c_double)), (self.room.shape[1],)
        )
        seed = self.seed, agent, int(self.sent[agent])
        self.sent[agent] += 1
        try:
            honest = self.room[self.lies == 0]
            with np.errstate(over="ignore"):  # what is infinite is refused
                sent = message_of(self.about_messages[agent], self.room[agent], honest, seed)
            # A number that no message may hold, such as a negative sum of squares, would give a liar away.
            target[:] = np.where(np.isfinite(sent), np.clip(sent, *self.allowed), sent)
        except Exception as error:  # raised when the kernel is done: it cannot pass one on
            self.failed = self.failed or error
            target[:] = np.nan

    def check(self) -> None:
        """Raise the error of a liar's function, which could not pass through the kernel."""
        if self.failed is not None:
            raise self.failed

    def state_dict(self) -> dict[str, np.ndarray]:
        """Messages sent by liars, and refused, for checkpoints."""
        return {"refused": self.refused.copy(), "sent": self.sent.copy()}

    def load_state_dict(self, kept: Mapping[str, np.ndarray], where: str) -> None:
        """Go on from there."""
        shape = Expected("int64", self.sent.shape)
        check_arrays(where, kept, {"refused": shape, "sent": shape})
        self.refused[:], self.sent[:] = kept["refused"], kept["sent"]

    def spoiled(self, block: Block) -> Block:
        """The block with false labels and units in the rows of agents that lie about their data."""
        if not self.about_data:
            return block
        rows = block.rows
        data, y = rows.data.copy(), rows.y.copy()
        for agent, lie in self.about_data.items():
            own = block.table[:, agent]
            places = np.unique(own[own >= 0])
            if lie == LABELS:
                y[places] = self._other(y[places])
            else:
                _scale(rows, data, places, float(str(lie).partition(":")[2]))
        return replace(block, rows=replace(rows, data=data, y=y))

    def _other(self, y: np.ndarray) -> np.ndarray:
        outputs = self.algorithm.outputs
        return -y if outputs == 1 else (y + 1.0) % outputs


def _scale(rows: Rows, data: np.ndarray, places: np.ndarray, factor: float) -> None:
    """Multiply the features of some rows."""
    if rows.dense:
        data.reshape(len(rows), -1)[places] *= factor
        return
    for place in places.tolist():
        data[rows.indptr[place] : rows.indptr[place + 1]] *= factor
