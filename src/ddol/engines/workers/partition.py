"""The part of a run that one worker hosts, and what is seen of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

_MOST_NUMBERS = 1 << 16
"""Of snapshots that wait until workers put them together."""
_NO_SUMS = np.empty((0, 0, 0))


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
    order: np.ndarray
    """(rounds, 2, agents): see `order_of`; 0 where agents average at the end of a round."""


def order_of(starts: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Agents by the last one that they hear, and how many hear none behind each agent: (2, agents).

    So many of them can average as soon as an agent and all before it have written.

    Examples
    --------
    >>> order_of(np.array([0, 3, 5, 7]), np.array([0, 1, 2, 0, 1, 0, 2])).tolist()  # a star of three
    [[1, 0, 2], [0, 1, 3]]
    """
    last = np.maximum.reduceat(columns, starts[:-1])
    order = np.argsort(last, kind="stable")
    ready = np.searchsorted(last[order], np.arange(len(last)), side="right")
    return np.stack([order, ready])


class Snapshots(NamedTuple):
    """Rounds after which a run is looked at, and what is seen."""

    rounds: np.ndarray
    counters: np.ndarray
    """(rounds, agents, 4): mistakes, loss, expected mistakes and examples."""
    metrics: np.ndarray
    """(rounds, 2): consensus distance of all agents, and the largest log-weight of an expert, which is
    NaN where agents share none. Of one among several workers the first is Σ‖w_i − w̄‖² over its agents, around
    their own mean."""
    sums: np.ndarray = _NO_SUMS
    """(rounds, outputs, D): weights of one among several workers, summed over its agents."""

    @classmethod
    def joined(cls, pieces: Sequence[Snapshots], n_agents: int = 0) -> Snapshots:
        """Those of pieces that follow one another, whose rounds are counted from one beginning."""
        if not pieces:
            return cls(np.empty(0, np.int64), np.empty((0, n_agents, 4)), np.empty((0, 2)))
        if len(pieces) == 1:
            return pieces[0]
        return cls(*map(np.concatenate, zip(*pieces, strict=True)))

    @property
    def agents(self) -> int:
        """Agents that are seen."""
        return self.counters.shape[1]

    def squares_around(self, centre: np.ndarray) -> np.ndarray:
        """Σ‖w_i − centre‖² over a worker's agents: those around their own mean, and those of the mean."""
        gaps = self.sums / self.agents - centre
        squares: np.ndarray = self.metrics[:, 0] + self.agents * np.sum(gaps * gaps, axis=(1, 2))
        return squares

    def with_squares(self, squares: np.ndarray, counters: np.ndarray) -> Snapshots:
        """The same rounds as seen of all agents, of whom counters and Σ‖w_i − w̄‖² are known."""
        distance = np.sqrt(squares / counters.shape[1])
        metrics = np.column_stack([distance, self.metrics[:, 1]])
        return Snapshots(self.rounds, counters, metrics)


def seen_together(parts: Sequence[Snapshots]) -> Snapshots:
    """Snapshots of all agents, from those of several workers.

    Examples
    --------
    >>> now, counters = np.array([1]), np.zeros((1, 1, 4))
    >>> parts = [Snapshots(now, counters, np.zeros((1, 2)), np.full((1, 1, 1), w)) for w in (1.0, 3.0)]
    >>> seen_together(parts).metrics[:, 0]  # one agent is at 1, the other at 3
    array([1.])
    """
    agents = sum(part.agents for part in parts)
    centre = np.sum([part.sums for part in parts], axis=0) / agents
    squares = np.sum([part.squares_around(centre) for part in parts], axis=0)
    counters = np.concatenate([part.counters for part in parts], axis=1)
    return parts[0].with_squares(squares, counters)


def cut_at_snapshots(
    rounds: int, after: Sequence[int], numbers: int, waiting: int = 0
) -> Iterator[tuple[int, int, list[int]]]:
    """Cut rounds wherever as many snapshots have been taken as memory is taken for.

    Parameters
    ----------
    rounds : int
    after : rising numbers from 0 to `rounds`
        A snapshot is taken when so many rounds are played.
    numbers : int
        Of one snapshot.
    waiting : int
        Snapshots that were taken before.

    Yields
    ------
    first and last round of each piece, and its snapshots

    Examples
    --------
    >>> list(cut_at_snapshots(9, [1, 2, 5], numbers=30_000))
    [(0, 2, [1, 2]), (2, 9, [3])]
    """
    lo, room = 0, most_seen(numbers) - waiting
    while len(after) >= room:
        hi = after[room - 1]
        yield lo, hi, [each - lo for each in after[:room]]
        lo, after, room = hi, after[room:], most_seen(numbers)
    if lo < rounds or len(after) or not lo:  # a block without rounds is played as well
        yield lo, rounds, [each - lo for each in after]


def most_seen(numbers: int) -> int:
    """Snapshots that memory is taken for, where each has so many numbers."""
    return max(1, _MOST_NUMBERS // max(numbers, 1))


def split(n_agents: int, workers: int) -> list[tuple[int, int]]:
    """First agent and number of agents of every worker: contiguous and as equal as can be.

    Examples
    --------
    >>> split(5, 2)
    [(0, 3), (3, 2)]
    """
    bounds = [(n_agents * w + workers - 1) // workers for w in range(workers + 1)]
    return [(a, b - a) for a, b in pairwise(bounds)]
