"""The part of a run that one worker hosts, and what is seen of it."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np


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


class Snapshots(NamedTuple):
    """Rounds after which a run is looked at, and what is seen."""

    rounds: np.ndarray
    counters: np.ndarray
    """(rounds, agents, 4): mistakes, loss, expected mistakes and examples."""
    metrics: np.ndarray
    """(rounds, 2): consensus distance of all agents, and the largest log-weight of an expert, which is
    NaN where agents share none."""


def split(n_agents: int, workers: int) -> list[tuple[int, int]]:
    """First agent and number of agents of every worker: contiguous and as equal as can be.

    Examples
    --------
    >>> split(5, 2)
    [(0, 3), (3, 2)]
    """
    bounds = [(n_agents * w + workers - 1) // workers for w in range(workers + 1)]
    return [(a, b - a) for a, b in pairwise(bounds)]
