"""From checked arrays to what agents learn from: weights, intercept, order."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from ddol.estimators.content import by_content, has_twins
from ddol.streams.dealing import table_by_agent, table_of
from ddol.streams.rows import Block, Rows

MOST_COPIES = 16


@dataclass(frozen=True)
class TrainingRows:
    """Rows, and the list in which order (and how often) they are learned from.

    A row of weight w is learned from ⌈w⌉ times, at most 16, with the weight shared among the copies. So a
    row of weight 3 is three rows, a row of weight 0 is none, and a large weight makes no large step.

    Parameters
    ----------
    rows : Rows
        Each with the weight of one copy.
    order : (m,) of int or None
        Rows in the order of the table, copies side by side; None for every row once.
    agents : (n,) of int or None
        Agent of each row.
    """

    rows: Rows
    order: np.ndarray | None = None
    agents: np.ndarray | None = None

    @classmethod
    def of(
        cls,
        X: Any,
        y: np.ndarray,
        weight: np.ndarray | None = None,
        agents: np.ndarray | None = None,
        intercept: bool = False,
    ) -> TrainingRows:
        """Rows of an array or a CSR matrix; agents see a constant 1 before the features of an ``intercept``.

        Examples
        --------
        >>> TrainingRows.of(np.eye(3), np.ones(3), np.array([2.0, 0.0, 0.5])).listed
        array([0, 0, 2])
        """
        order = None
        if weight is not None:
            copies = np.minimum(np.ceil(weight), MOST_COPIES).astype(np.int64)
            order = np.repeat(np.arange(len(y)), copies)
            weight = weight / np.maximum(copies, 1)
            if np.all(weight[order] == 1.0):
                weight = None
            if len(order) == len(y) and np.all(copies == 1):
                order = None
        return cls(rows_of(X, y, weight, intercept), order, agents)

    @property
    def listed(self) -> np.ndarray:
        """Rows in the order of the table."""
        return np.arange(len(self.rows)) if self.order is None else self.order

    def canonical(self) -> TrainingRows:
        """The same rows in an order from which a random one is drawn.

        Where rows are repeated or have weights they are listed by what they say: so a row of weight 3 is
        the same as three rows, wherever they stand. Else their own order is as good.
        """
        plain = self.order is None and not len(self.rows.weight)
        if plain and not has_twins(self.rows):
            return self
        ranked = by_content(self.rows, self.agents)
        if self.order is not None:
            ranked = np.repeat(ranked, np.bincount(self.order, minlength=len(self.rows))[ranked])
        return replace(self, order=ranked)

    def split(self, fraction: float, rng: np.random.Generator) -> tuple[TrainingRows, np.ndarray]:
        """Rows to learn from, and those that are held out of them."""
        listed = self.listed
        distinct = listed[np.sort(np.unique(listed, return_index=True)[1])]
        count = int(np.ceil(fraction * len(distinct)))
        held_out = distinct[rng.permutation(len(distinct))[:count]]
        return replace(self, order=listed[~np.isin(listed, held_out)]), held_out

    def in_sequence(self) -> tuple[Rows, np.ndarray | None]:
        """Rows as they are to be learned from, and their agents."""
        if self.order is None:
            return self.rows, self.agents
        agents = None if self.agents is None else self.agents[self.order]
        return self.rows.take(self.order), agents

    def deal(self, n_agents: int, batch: int, rng: np.random.Generator | None = None) -> Block:
        """One pass over all rows, in random order if there is a generator; they stay where they are."""
        order = self.order
        if rng is not None:
            count = len(self.rows) if order is None else len(order)
            drawn = rng.permutation(count)
            order = drawn if order is None else order[drawn]
        if order is None:
            order = self.listed
        if self.agents is None:
            return Block(self.rows, table_of(order, n_agents, batch))
        table = table_by_agent(self.agents[order], n_agents, batch)
        return Block(
            self.rows, np.append(order, -1)[table]
        )  # -1 stands for no row, and is the last


def rows_of(X: Any, y: np.ndarray, weight: np.ndarray | None, intercept: bool) -> Rows:
    """Rows of an array or a CSR matrix, as they are in memory."""
    rows = (Rows.from_csr if sp.issparse(X) else Rows.from_dense)(X, y, weight)
    return rows.with_intercept(stored=False) if intercept else rows
