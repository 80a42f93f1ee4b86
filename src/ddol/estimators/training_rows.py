"""From checked arrays to what agents learn from: weights, intercept, order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from ddol.estimators.gathering import Copies, by_content, has_twins, pieces
from ddol.streams.dealing import table_by_agent, table_round_robin
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
    intercept : bool
        Whether agents see a constant 1 before the features.
    """

    rows: Rows
    order: np.ndarray | None = None
    agents: np.ndarray | None = None
    intercept: bool = False
    _copies: dict[int, Copies] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(
        cls,
        X: Any,
        y: np.ndarray,
        weight: np.ndarray | None = None,
        agents: np.ndarray | None = None,
        intercept: bool = False,
    ) -> TrainingRows:
        """Rows of an array or a CSR matrix that are checked already, but for values that are not finite.

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
        rows = (Rows.from_csr if sp.issparse(X) else Rows.from_dense)(X, y, weight)
        return cls(rows, order, agents, intercept)

    @property
    def listed(self) -> np.ndarray:
        """Rows in the order of the table."""
        return np.arange(len(self.rows)) if self.order is None else self.order

    @property
    def strange(self) -> int:
        """Values that are not finite, among those that were dealt."""
        return sum(copies.strange for copies in self._copies.values())

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

    def in_sequence(self, unit: int) -> Iterator[tuple[Rows, np.ndarray | None]]:
        """Rows as they are to be learned from, and their agents, in pieces of whole rounds (``unit``)."""
        if not self.intercept and self.order is None:
            yield self.rows, self.agents
            return
        n = len(self.rows) if self.order is None else len(self.order)
        for lo, hi in pieces(n, self.rows, unit):
            places = None if self.order is None else self.order[lo:hi]
            rows = self._seen(lo, hi) if places is None else self._taken(places)
            named = self.agents
            if named is not None:
                named = named[lo:hi] if places is None else named[places]
            yield rows, named

    def deal(
        self, n_agents: int, batch: int, rng: np.random.Generator | None = None
    ) -> Iterator[Block]:
        """One pass over all rows, in random order if there is a generator.

        Without an intercept they are read where they are. With one they are copied a piece at a time,
        into the order in which agents see them.
        """
        order = self.order
        if rng is not None:
            drawn = rng.permutation(len(self.listed))
            order = drawn if order is None else order[drawn]
        unit = n_agents * batch
        if self.agents is not None:
            yield from self._deal_by_agent(order, n_agents, batch)
        elif not self.intercept:
            table = table_round_robin(len(self.listed), n_agents, batch)
            if order is not None:
                table = np.where(table >= 0, order[table], -1)
            yield Block(self.rows, table)
        else:
            n = len(self.rows) if order is None else len(order)
            table = np.empty((0, n_agents, batch), np.int64)
            for lo, hi in pieces(n, self.rows, unit):
                if len(table) != -(-(hi - lo) // unit) or (hi - lo) % unit:
                    table = table_round_robin(hi - lo, n_agents, batch)
                rows = self._seen(lo, hi) if order is None else self._taken(order[lo:hi])
                yield Block(rows, table)

    def _deal_by_agent(
        self, order: np.ndarray | None, n_agents: int, batch: int
    ) -> Iterator[Block]:
        assert self.agents is not None
        order = np.arange(len(self.rows)) if order is None else order
        table = table_by_agent(self.agents[order], n_agents, batch)
        for lo, hi in pieces(len(table), self.rows, 1):
            places = table[lo:hi]
            dealt = places >= 0
            numbers = np.where(dealt, np.cumsum(dealt).reshape(dealt.shape) - 1, -1)
            yield Block(self._taken(order[places[dealt]]), numbers)

    def _taken(self, places: np.ndarray) -> Rows:
        return self._room(len(places)).listed(np.ascontiguousarray(places))

    def _seen(self, lo: int, hi: int) -> Rows:
        return self._room(hi - lo).between(lo, hi)

    def _room(self, size: int) -> Copies:
        """Memory for copies: of the first piece, which is the largest."""
        if not self._copies or max(self._copies) < size:
            self._copies[size] = Copies(self.rows, self.intercept, size)
        return self._copies[max(self._copies)]
