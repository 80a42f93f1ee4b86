"""From checked arrays to what agents learn from: weights, intercept, and an order made of the content."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from ddol.compiled import bits, entry, floats, indices, inner, integers, prefetch
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


_AHEAD = 6  # rows
_FIRST = 8  # non-zeros of a row that tell it from almost any other


@inner(inlined=True)
def _stirred(key, number):  # type: ignore[no-untyped-def]
    """A key with one more number in it (after Stafford's mixer of 64 bits)."""
    key = (key ^ number) * np.uint64(0xBF58476D1CE4E5B9)
    key = (key ^ (key >> np.uint64(29))) * np.uint64(0x94D049BB133111EB)
    return key ^ (key >> np.uint64(32))


@entry("void(int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def _key_rows(n, rows, x, index, indptr, D, y, most, out):  # type: ignore[no-untyped-def]
    """Write a key of every row: of its answer and its first non-zeros."""
    for k in range(n):
        row = k if rows == 0 else integers(rows)[k]
        if indptr == 0 and k + _AHEAD < n:
            prefetch(x + 8 * D * (k + _AHEAD if rows == 0 else integers(rows)[k + _AHEAD]))
        lo, size = row * D, D
        if indptr != 0:
            lo = integers(indptr)[row]
            size = integers(indptr)[row + 1] - lo
        key, found, j = _stirred(np.uint64(0), np.uint64(bits(floats(y)[row] + 0.0))), 0, 0
        while j < size and found < most:
            value = floats(x)[lo + j]
            if value != 0.0:
                column = j if indptr == 0 else np.int64(indices(index)[lo + j])
                key = _stirred(_stirred(key, np.uint64(bits(value))), np.uint64(column))
                found += 1
            j += 1
        integers(out)[k] = np.int64(key >> np.uint64(1))


@entry("int64(int64, int64, int64, int64, int64, int64)")
def _find_twin(n, x, index, indptr, D, y):  # type: ignore[no-untyped-def]
    """First row that is the same as the one before it, or 0."""
    for row in range(1, n):
        if floats(y)[row] != floats(y)[row - 1]:
            continue
        lo, before, size = row * D, (row - 1) * D, D
        if indptr != 0:
            lo, before = integers(indptr)[row], integers(indptr)[row - 1]
            size = integers(indptr)[row + 1] - lo
            if lo - before != size:
                continue
        j = 0
        while j < size and floats(x)[lo + j] == floats(x)[before + j]:
            if indptr != 0 and indices(index)[lo + j] != indices(index)[before + j]:
                break
            j += 1
        if j == size:
            return row
    return 0


def has_twins(rows: Rows) -> bool:
    """Whether a row is the same as the one before it, as where rows are repeated.

    Examples
    --------
    >>> has_twins(Rows.from_dense([[1.0], [2.0], [2.0]], [1, 0, 0]))
    True
    """
    if rows.dense:
        places = rows.data.ctypes.data, 0, 0
    else:
        places = rows.data.ctypes.data, rows.indices.ctypes.data, rows.indptr.ctypes.data
    return bool(_find_twin(len(rows), *places, rows.n_stored, rows.y.ctypes.data))


def by_content(rows: Rows, agents: np.ndarray | None = None) -> np.ndarray:
    """Numbers of the rows in an order that does not depend on their arrangement.

    It is that of keys of 64 bits, each of a row's answer, agent and first non-zeros; only rows that these
    do not tell apart are looked at whole. Dense and sparse rows have the same keys.

    Examples
    --------
    >>> rows = Rows.from_dense([[1.0], [2.0], [3.0]], [1, 0, 1])
    >>> by_content(rows).tolist() == (2 - by_content(rows.take([2, 1, 0]))).tolist()
    True
    """
    keys = _keys(rows, None, _FIRST)
    if agents is not None:
        keys ^= agents.astype(np.int64) << 40
    order = np.argsort(keys)
    ranked = keys[order]
    same = np.zeros(len(order) + 1, bool)
    same[1:-1] = ranked[1:] == ranked[:-1]
    tied = np.flatnonzero(same[1:] | same[:-1])
    if tied.size:
        among = np.ascontiguousarray(order[tied])
        whole = _keys(rows, among, rows.n_stored)
        order[tied] = among[np.lexsort((among, whole, keys[among]))]
    return order


def _keys(rows: Rows, among: np.ndarray | None, most: int) -> np.ndarray:
    """Keys of all rows or of some, by their first non-zeros."""
    n = len(rows) if among is None else len(among)
    keys = np.empty(n, np.int64)
    _key_rows(
        n,
        0 if among is None else among.ctypes.data,
        rows.data.ctypes.data,
        rows.indices.ctypes.data,
        0 if rows.dense else rows.indptr.ctypes.data,
        rows.n_stored,
        rows.y.ctypes.data,
        most,
        keys.ctypes.data,
    )
    return keys
