"""The rows that a schedule still needs: those to be predicted, and those whose labels are under way."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ddol.streams.rows import Block, Rows, concatenate, no_rows


class RowNumbers:
    """Serial numbers of rows, 0, 1, … as they are fed, and their numbers in the whole data.

    Parameters
    ----------
    n_agents : int
    keep : bool
        Remember the agent of every row, which the numbers in the whole data follow from.
    """

    def __init__(self, n_agents: int, keep: bool = True) -> None:
        self.n_agents, self.keep = n_agents, keep
        self.count = 0
        self._whose: list[NDArray[np.int32]] = []

    def add(self, table: NDArray) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Number the rows of a table (rounds, N): the serial numbers, and the rows that are used, rising."""
        used = np.sort(table[table >= 0])
        serials = np.where(table >= 0, np.searchsorted(used, table) + self.count, -1)
        if self.keep:
            whose = np.empty(len(used), np.int32)
            agents = np.broadcast_to(np.arange(self.n_agents), table.shape)
            whose[serials[table >= 0] - self.count] = agents[table >= 0]
            self._whose.append(whose)
        self.count += len(used)
        return serials, used

    def load_state_dict(self, count: int, whose: NDArray) -> None:
        """Go on from so many rows."""
        self.count, self._whose = count, [whose.astype(np.int32)]

    def whose(self) -> NDArray[np.int32]:
        """The agent of every row, by serial number."""
        return np.concatenate([np.empty(0, np.int32), *self._whose])

    def ranks(self) -> NDArray[np.int64]:
        """Number of every row among those of its agent, by serial number."""
        agents = self.whose()
        order = np.argsort(agents, kind="stable")
        starts = np.searchsorted(agents[order], np.arange(self.n_agents))
        rank = np.empty(len(agents), np.int64)
        rank[order] = np.arange(len(agents)) - starts[agents[order]]
        return rank

    def in_the_data(self, passes: int, n_streams: int) -> NDArray[np.int64]:
        """Number of every row in the whole data, by serial number; streams come one after the other.

        Examples
        --------
        >>> numbers = RowNumbers(2)
        >>> _ = numbers.add(np.array([[0, 2], [1, -1]]))
        >>> numbers.in_the_data(1, n_streams=2).tolist()
        [0, 1, 2]
        """
        if n_streams == 1 or self.count == 0:
            return np.arange(self.count) % max(self.count // passes, 1)
        agents = self.whose()
        lengths = np.bincount(agents, minlength=self.n_agents) // passes
        offsets = np.cumsum(lengths) - lengths
        return offsets[agents] + self.ranks() % np.maximum(lengths, 1)[agents]


class RowPool:
    """The rows that are still needed, by serial number.

    Parameters
    ----------
    n_agents : int
    keep_numbers : bool
        Whether the rows' numbers in the whole data will be asked for.

    Examples
    --------
    >>> pool = RowPool(2)
    >>> pool.add(Block(Rows.from_dense(np.eye(3), [1, 2, 3]), np.array([[[0], [1]], [[2], [-1]]])))
    (array([0, 1, 0, 1]), array([ 0,  1,  2, -1]))
    >>> pool.rows.y[pool.where[2 - pool.first]].item()
    3.0
    """

    def __init__(self, n_agents: int, keep_numbers: bool = False) -> None:
        self.numbers = RowNumbers(n_agents, keep_numbers)
        self.rows: Rows = no_rows()
        self.serials = np.empty(0, np.int64)
        self.first = 0
        self.where = np.empty(0, np.int64)

    def add(self, block: Block, needed: NDArray | None = None) -> tuple[NDArray, NDArray]:
        """Take in a block: the agents of its table's places, and the serial numbers of their rows.

        Parameters
        ----------
        block : Block
            Of one example a turn.
        needed : serial numbers, optional
            Earlier rows that are still to be used, rising; all if it is not given.
        """
        before = self.numbers.count
        serials, used = self.numbers.add(block.table[:, :, 0])
        if needed is not None:
            kept = np.searchsorted(self.serials, needed)
            self.rows, self.serials = self.rows.take(kept), needed
        new = _taken(block.rows, used)
        self.rows = concatenate([self.rows, new]) if len(self.serials) else new
        self.serials = np.concatenate([self.serials, np.arange(before, self.numbers.count)])
        self._index()
        return np.tile(np.arange(block.n_agents), block.n_rounds), serials.ravel()

    def load_state_dict(self, rows: Rows, serials: NDArray, count: int, whose: NDArray) -> None:
        """Go on from where another pool was: its rows, and whose all rows so far were."""
        self.rows, self.serials = rows, serials
        self.numbers.load_state_dict(count, whose)
        self._index()

    def _index(self) -> None:
        count = self.numbers.count
        self.first = int(self.serials[0]) if len(self.serials) else count
        self.where = np.full(max(count - self.first, 1), -1, np.int64)
        self.where[self.serials - self.first] = np.arange(len(self.serials))


def _taken(rows: Rows, used: NDArray) -> Rows:
    """Some rows of a block, without a copy where they lie beside each other."""
    if not len(used):
        return rows.slice(0, 0)
    if used[-1] - used[0] + 1 == len(used):
        return rows.slice(int(used[0]), int(used[-1]) + 1)
    return rows.take(used)
