"""From checked arrays to the examples that agents learn from: weights, intercept, order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from ddol.streams.dealing import table_by_agent, table_round_robin
from ddol.streams.rows import Block, Rows

MOST_COPIES = 16
_CHUNK, _PIECE = 1 << 16, 1 << 18  # numbers that stay in the cache
_STEPS = float(1 << 24)


@dataclass(frozen=True)
class Examples:
    """Rows, and the list in which order (and how often) they are learned from.

    A row of weight w is learned from ⌈w⌉ times, at most 16, with the weight shared among the copies. So a
    row of weight 3 is three rows, a row of weight 0 is none, and a large weight makes no large step.

    Parameters
    ----------
    rows : Rows
        Each with the weight of one copy.
    listed : (m,) of int
        Rows in the order of the table, copies side by side.
    agents : (n,) of int or None
        Agent of each row.
    intercept : bool
        Whether agents see a constant 1 before the features.
    """

    rows: Rows
    listed: np.ndarray
    agents: np.ndarray | None = None
    intercept: bool = False

    @classmethod
    def of(
        cls,
        X: Any,
        y: np.ndarray,
        weight: np.ndarray | None = None,
        agents: np.ndarray | None = None,
        intercept: bool = False,
    ) -> Examples:
        """Examples of an array or a CSR matrix that are checked already.

        Examples
        --------
        >>> Examples.of(np.eye(3), np.ones(3), np.array([2.0, 0.0, 0.5])).listed
        array([0, 0, 2])
        """
        listed = np.arange(len(y))
        if weight is not None:
            copies = np.minimum(np.ceil(weight), MOST_COPIES).astype(np.int64)
            listed = np.repeat(listed, copies)
            weight = weight / np.maximum(copies, 1)
            if np.all(weight[listed] == 1.0):
                weight = None
        rows = (Rows.from_csr if sp.issparse(X) else Rows.from_dense)(X, y, weight)
        return cls(rows, listed, agents, intercept)

    @property
    def n_features(self) -> int:
        """Features that agents see."""
        return self.rows.n_features + self.intercept

    def in_sequence(self) -> tuple[Rows, np.ndarray | None]:
        """Rows as they are to be learned from, one after the other, and their agents."""
        agents = None if self.agents is None else self.agents[self.listed]
        as_they_are = np.array_equal(self.listed, np.arange(len(self.rows)))
        return self._seen(self.rows if as_they_are else self.rows.take(self.listed)), agents

    def _seen(self, rows: Rows) -> Rows:
        return rows.with_intercept() if self.intercept else rows

    def canonical(self) -> Examples:
        """The same examples listed by a fingerprint of what they say.

        Then nothing depends on the order in which the rows stand in a table, nor on whether a row is
        repeated or has a weight: rows with the same fingerprint are the same.
        """
        used = np.zeros(len(self.rows), bool)
        used[self.listed] = True
        prints = np.zeros(len(self.rows), np.uint64)
        # Rows of weight 0 are as if they were not there, and so are their columns' largest values.
        prints[used] = fingerprints(
            self.rows if used.all() else self.rows.take(np.flatnonzero(used))
        )
        if self.agents is not None:
            prints = prints ^ (self.agents.astype(np.uint64) << np.uint64(40))
        return replace(self, listed=self.listed[np.argsort(prints[self.listed], kind="stable")])

    def split(self, fraction: float, rng: np.random.Generator) -> tuple[Examples, np.ndarray]:
        """Examples to learn from, and the rows that are held out of them."""
        distinct = self.listed[np.sort(np.unique(self.listed, return_index=True)[1])]
        count = int(np.ceil(fraction * len(distinct)))
        held_out = distinct[rng.permutation(len(distinct))[:count]]
        kept = self.listed[~np.isin(self.listed, held_out)]
        return replace(self, listed=kept), held_out

    def deal(
        self, n_agents: int, batch: int, rng: np.random.Generator | None = None
    ) -> Iterator[Block]:
        """One pass over all examples, in random order if there is a generator.

        Rows are copied a piece at a time, into the order in which agents see them: that is sooner done
        than adding an intercept to all of them, and takes no second array of their size.
        """
        order = self.listed if rng is None else self.listed[rng.permutation(len(self.listed))]
        if self.agents is None:
            table = table_round_robin(len(order), n_agents, batch)
        else:
            table = table_by_agent(self.agents[order], n_agents, batch)
        width = max(1, len(self.rows.data) // len(self.rows)) * n_agents * batch
        step = max(1, _PIECE // width)
        for lo in range(0, len(table), step):
            places = table[lo : lo + step]
            dealt = places >= 0
            numbers = np.where(dealt, np.cumsum(dealt).reshape(dealt.shape) - 1, -1)
            yield Block(self._seen(self.rows.take(order[places[dealt]])), numbers)


def fingerprints(rows: Rows) -> np.ndarray:
    """One 64-bit number for each row's features, answer and weight; dense and CSR rows agree.

    Σ_d q_d·k_d mod 2⁶⁴ with random odd k_d, of values rounded to 24 bits of the largest in their
    column: units, and the rounding that comes with changing them, leave a fingerprint as it is.

    Examples
    --------
    >>> dense = Rows.from_dense([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]], [1, 1, 1])
    >>> first, second, third = fingerprints(dense)
    >>> bool(first == second), bool(first == third)
    (True, False)
    >>> bool(np.all(fingerprints(Rows.from_csr(dense.to_scipy(), dense.y)) == fingerprints(dense)))
    True
    """
    keys = np.random.default_rng(0).integers(0, 1 << 63, rows.n_features + 2, np.uint64)
    keys = keys << np.uint64(1) | np.uint64(1)
    total = _rounded(rows.y * _unit(np.abs(rows.y).max())) * keys[-1]
    if len(rows.weight):
        total += _rounded(rows.weight * _STEPS) * keys[-2]
    units = _unit(_largest(rows))
    for lo, hi in _chunks(rows):
        part = rows.slice(lo, hi)
        if rows.dense:
            values = _rounded(part.data.reshape(hi - lo, -1) * units)
            total[lo:hi] += values @ keys[: rows.n_features]
        else:
            terms = _rounded(part.data * units[part.indices]) * keys[part.indices]
            sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(terms)])
            total[lo:hi] += sums[part.indptr[1:]] - sums[part.indptr[:-1]]
    return total


def _chunks(rows: Rows) -> Iterator[tuple[int, int]]:
    """Pieces that stay in the cache between two passes over them."""
    step = max(1, _CHUNK * max(len(rows), 1) // max(len(rows.data), 1))
    return ((lo, min(lo + step, len(rows))) for lo in range(0, len(rows), step))


def _largest(rows: Rows) -> np.ndarray:
    """Largest absolute value of every column."""
    if rows.dense:
        X = rows.data.reshape(len(rows), -1)
        return np.maximum(X.max(axis=0), -X.min(axis=0))
    largest = np.zeros(rows.n_features)
    np.maximum.at(largest, rows.indices, np.abs(rows.data))
    return largest


def _unit(largest: Any) -> Any:
    """What brings values to whole steps of 2⁻²⁴ of the largest."""
    return _STEPS / np.where(largest > _STEPS / np.finfo(float).max, largest, 1.0)


def _rounded(values: np.ndarray) -> np.ndarray:
    return np.rint(values).astype(np.int64).view(np.uint64)
