"""Rows that are to be predicted, or whose answers are under way: what a schedule keeps of its streams."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ddol.streams.rows import Block, Rows, concatenate, no_rows


class RowPool:
    """Rows by serial number: 0, 1, … in the order in which they were fed.

    Parameters
    ----------
    n_agents : int
    keep_origins : bool
        Remember whose every row was, so that it can be numbered as in the whole data.

    Examples
    --------
    >>> pool = RowPool(2)
    >>> pool.add(Block(Rows.from_dense(np.eye(3), [1, 2, 3]), np.array([[[0], [1]], [[2], [-1]]])))
    (array([0, 1, 0, 1]), array([ 0,  1,  2, -1]))
    >>> pool.rows.y[pool.where[2 - pool.first]].item()
    3.0
    """

    def __init__(self, n_agents: int, keep_origins: bool = False) -> None:
        self.n_agents = n_agents
        self.rows: Rows = no_rows()
        self.serials = np.empty(0, np.int64)
        self.first = 0
        self.where = np.empty(0, np.int64)
        self.count = 0
        self._origins: list[np.ndarray] | None = [] if keep_origins else None

    def add(self, block: Block, needed: NDArray | None = None) -> tuple[NDArray, NDArray]:
        """Take in a block: the agents of its table's places, and the serial numbers of their rows.

        Parameters
        ----------
        block : Block
            Of one example a turn.
        needed : serial numbers, optional
            Earlier rows that are still to be used, rising; all if it is not given.
        """
        table = block.table[:, :, 0].ravel()
        agents = np.tile(np.arange(self.n_agents), block.n_rounds)
        used = np.sort(table[table >= 0])
        fresh = np.arange(self.count, self.count + len(used))
        if needed is not None:
            kept = np.searchsorted(self.serials, needed)
            self.rows, self.serials = self.rows.take(kept), needed
        new = _taken(block.rows, used)
        self.rows = concatenate([self.rows, new]) if len(self.serials) else new
        self.serials = np.concatenate([self.serials, fresh])
        self.count += len(used)
        self._index()
        serials = np.where(
            table >= 0, np.searchsorted(used, table) + fresh[0] if len(used) else -1, -1
        )
        if self._origins is not None:
            whose = np.empty(len(used), np.int32)
            whose[serials[serials >= 0] - fresh[0]] = agents[serials >= 0]
            self._origins.append(whose)
        return agents, serials

    def _index(self) -> None:
        self.first = int(self.serials[0]) if len(self.serials) else self.count
        self.where = np.full(max(self.count - self.first, 1), -1, np.int64)
        self.where[self.serials - self.first] = np.arange(len(self.serials))

    def numbers(self, passes: int, n_streams: int) -> NDArray[np.int64]:
        """Number of every row in the whole data, by serial number; streams come one after the other."""
        assert self._origins is not None
        if n_streams == 1 or not self._origins:
            return np.arange(self.count) % max(self.count // passes, 1)
        agents = np.concatenate(self._origins)
        lengths = np.bincount(agents, minlength=self.n_agents) // passes
        order = np.argsort(agents, kind="stable")
        starts = np.searchsorted(agents[order], np.arange(self.n_agents))
        rank = np.empty(len(agents), np.int64)
        rank[order] = np.arange(len(agents)) - starts[agents[order]]
        offsets = np.cumsum(lengths) - lengths
        return offsets[agents] + rank % np.maximum(lengths, 1)[agents]

    def rows_of_agents(self, numbers: NDArray) -> list[NDArray[np.int64]]:
        """Numbers of every agent's rows, in the order in which it sees them."""
        agents = np.concatenate(self._origins) if self._origins else np.empty(0, np.int32)
        return [numbers[np.flatnonzero(agents == i)] for i in range(self.n_agents)]


def _taken(rows: Rows, used: NDArray) -> Rows:
    """Some rows of a block, without a copy where they lie beside each other."""
    if not len(used):
        return rows.slice(0, 0)
    if used[-1] - used[0] + 1 == len(used):
        return rows.slice(int(used[0]), int(used[-1]) + 1)
    return rows.take(used)
