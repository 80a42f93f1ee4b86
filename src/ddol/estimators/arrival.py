"""Numbers of the agents that rows name."""

from __future__ import annotations

from typing import Any

import numpy as np


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
