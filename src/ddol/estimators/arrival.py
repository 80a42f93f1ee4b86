"""Rounds by arrival: for rows that name their agent, one call after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def table_by_arrival(agents: Sequence[int] | np.ndarray, n_agents: int, batch: int) -> np.ndarray:
    """Table of rounds in which a row joins the present round unless its agent's batch is full.

    Unlike a table of whole streams it depends on the rows so far only, never on those to come, so that
    a stream may be cut anywhere.

    Examples
    --------
    >>> table_by_arrival([0, 0, 1, 1, 0], n_agents=2, batch=1)[:, :, 0].tolist()
    [[0, -1], [1, 2], [4, 3]]
    """
    rounds: list[int] = []
    places: list[int] = []
    number, filled = 0, [0] * n_agents
    for agent in np.asarray(agents).tolist():
        if filled[agent] == batch:
            number, filled = number + 1, [0] * n_agents
        rounds.append(number)
        places.append(filled[agent])
        filled[agent] += 1
    table = np.full((number + 1 if rounds else 0, n_agents, batch), -1, np.int64)
    table[rounds, agents, places] = np.arange(len(rounds))
    return table


class AgentNames:
    """Numbers of the agents that rows name: whole numbers from 0 are themselves, others are counted.

    Parameters
    ----------
    by_arrival : bool
        Number names as they come, so that the cut of a stream into calls changes nothing; by default
        they are numbered in rising order, so that the order of the rows does not.

    Examples
    --------
    >>> names = AgentNames()
    >>> names.numbers(["Lyon", "Bern", "Lyon"], n_agents=3)
    array([1, 0, 1])
    >>> names.names
    ['Bern', 'Lyon']
    """

    def __init__(self, by_arrival: bool = False) -> None:
        self.by_arrival = by_arrival
        self.names: list[Any] = []

    def numbers(self, agents: Any, n_agents: int | None = None) -> np.ndarray:
        """Agent of each row; names not met before come after the others.

        Parameters
        ----------
        agents : (n,) of int or of names
        n_agents : int, optional
            Refuse more than these.
        """
        found = np.asarray(agents)
        if np.issubdtype(found.dtype, np.integer) and not self.names:
            numbers = found.astype(np.int64)
            count = int(numbers.max(initial=-1)) + 1
            if numbers.min(initial=0) < 0:
                raise ValueError(f"`agents` must be numbered from 0, found {numbers.min()}")
        else:
            distinct, first, inverse = np.unique(found, return_index=True, return_inverse=True)
            met = distinct[np.argsort(first)] if self.by_arrival else distinct
            self.names += [name for name in met.tolist() if name not in self.names]
            places = {name: number for number, name in enumerate(self.names)}
            numbers = np.array([places[name] for name in distinct.tolist()], np.int64)[inverse]
            count = len(self.names)
        if n_agents is not None and count > n_agents:
            raise ValueError(
                f"`agents` names {count} agents, expected at most {n_agents}; set n_agents={count}"
            )
        return numbers
