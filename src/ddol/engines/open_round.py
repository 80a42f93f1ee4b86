"""Collects rows from calls of any length into full rounds; the rest waits for the next call."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ddol.streams.dealing import online_table, table_round_robin
from ddol.streams.rows import Block, Rows, concatenate


class OpenRound:
    """The rows of a round that is not full yet.

    A round is up to `batch` examples for each of the N agents. Row k of the stream goes to agent k mod N,
    or to the agent that it names; then it joins the present round unless that agent's batch is full.

    Parameters
    ----------
    n_agents, batch : int

    Examples
    --------
    >>> waiting = OpenRound(n_agents=2, batch=1)
    >>> rows = Rows.from_dense(np.eye(3), [1.0, -1.0, 1.0])
    >>> [block.n_rounds for block in waiting.filled(rows)], len(waiting)
    ([1], 1)
    """

    def __init__(self, n_agents: int, batch: int) -> None:
        self.n_agents, self.batch = n_agents, batch
        self.rows: Rows | None = None
        self.agents: np.ndarray | None = None
        self._named: bool | None = None
        self._table = np.empty((0, n_agents, batch), np.int64)

    def __len__(self) -> int:
        return 0 if self.rows is None else len(self.rows)

    def filled(self, rows: Rows, agents: np.ndarray | None = None) -> Iterator[Block]:
        """Yield the full rounds that these rows make with those before them, and keep the rest."""
        self._check(agents)
        if not len(rows):
            return iter(())
        return self._by_turns(rows) if agents is None else self._by_arrival(rows, agents)

    def block(self) -> Block:
        """The open round as it is."""
        assert self.rows is not None
        if self.agents is None:
            return Block(self.rows, table_round_robin(len(self.rows), self.n_agents, self.batch))
        return Block(self.rows, online_table(self.agents, self.n_agents, self.batch))

    def _check(self, agents: np.ndarray | None) -> None:
        if self._named is not None and self._named != (agents is not None):
            raise ValueError(
                "`agents` must be given in every call or in none: rows go to the agents that they "
                "name, or to all agents in turn"
            )
        self._named = agents is not None

    def _by_turns(self, rows: Rows) -> Iterator[Block]:
        size = self.n_agents * self.batch
        if self.rows is not None:
            missing = size - len(self.rows)
            joined = concatenate([_like(self.rows, rows), rows.slice(0, missing)])
            rows = rows.slice(missing, len(rows))
            self.rows = joined
            if len(joined) < size:
                return
            self.rows = None
            yield Block(joined, table_round_robin(size, self.n_agents, self.batch))
        whole = len(rows) // size * size
        if whole < len(rows):
            self.rows = rows.take(np.arange(whole, len(rows)))
        if whole:
            if len(self._table) * size != whole:  # calls are often of the same length
                self._table = table_round_robin(whole, self.n_agents, self.batch)
            yield Block(rows, self._table)

    def _by_arrival(self, rows: Rows, agents: np.ndarray) -> Iterator[Block]:
        if self.rows is not None and self.agents is not None:
            rows = concatenate([_like(self.rows, rows), rows])
            agents = np.concatenate([self.agents, agents])
        table = online_table(agents, self.n_agents, self.batch)
        last = table[-1]
        full = len(table) if np.all(last >= 0) else len(table) - 1
        self.rows = self.agents = None
        if full < len(table):
            left = np.sort(last[last >= 0])
            self.rows, self.agents = rows.take(left), agents[left]
        if full:
            yield Block(rows, table[:full])


def _like(rows: Rows, model: Rows) -> Rows:
    """The same rows, dense or sparse as ``model`` is."""
    if rows.dense == model.dense:
        return rows
    weight = rows.weight if len(rows.weight) else None
    if model.dense:
        return Rows.from_dense(rows.to_scipy().toarray(), rows.y, weight)
    return Rows.from_csr(rows.to_scipy(), rows.y, weight)
