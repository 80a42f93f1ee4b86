"""Map the agent ids that users give to the numbers of the agents."""

from __future__ import annotations

from typing import Any

import numpy as np


class AgentIds:
    """Numbers of the agents that rows name.

    Agents are the distinct ids, in rising order. Whole numbers from 0 to N − 1 are themselves where the
    number of agents N is known beforehand.

    Parameters
    ----------
    n_agents : int, optional
        Where it is known beforehand.
    as_they_come : bool
        Number ids as a stream brings them, so that its cut into calls changes nothing.

    Examples
    --------
    >>> ids = AgentIds()
    >>> ids.numbers([2002, 1001, 2002])
    array([1, 0, 1])
    >>> ids.known
    [1001, 2002]
    """

    def __init__(self, n_agents: int | None = None, as_they_come: bool = False) -> None:
        self.as_they_come = as_they_come
        self.known: list[Any] = []
        self._range = None if n_agents is None else range(n_agents)

    def numbers(self, agents: Any, n_agents: int | None = None) -> np.ndarray:
        """Agent of each row; ids not met before come after the others.

        Parameters
        ----------
        agents : (n,) of any ids that can be sorted
        n_agents : int, optional
            Refuse more than these.
        """
        given = np.asarray(agents)
        _refuse_missing(given)
        if not self.known and self._are_numbers(given):
            self.known = list(self._range or ())
        distinct, first, inverse = np.unique(given, return_index=True, return_inverse=True)
        met = distinct[np.argsort(first)] if self.as_they_come else distinct
        places = {known: number for number, known in enumerate(self.known)}
        for new in met.tolist():
            if new not in places:
                places[new] = len(places)
                self.known.append(new)
        if n_agents is not None and len(self.known) > n_agents:
            raise ValueError(
                f"`agents` names {len(self.known)} agents, expected at most {n_agents}; "
                f"set n_agents={len(self.known)}"
            )
        return np.array([places[one] for one in distinct.tolist()], np.int64)[inverse]

    def known_numbers(self, agents: Any, n_agents: int) -> np.ndarray:
        """Agent of each row, where all must have been met before; by number where rows were dealt in turn."""
        given, known = np.asarray(agents), self.known or list(range(n_agents))
        _refuse_missing(given)
        distinct, inverse = np.unique(given, return_inverse=True)
        places = {one: number for number, one in enumerate(known)}
        for one in distinct.tolist():
            if one not in places:
                raise ValueError(
                    f"found the agent {one!r}, expected one of those learned from: "
                    f"{', '.join(map(repr, known[:10]))}{', …' if len(known) > 10 else ''}"
                )
        return np.array([places[one] for one in distinct.tolist()], np.int64)[inverse]

    def number_if_known(self, agent: Any) -> int | None:
        """Number of one agent; None for an id that has not been met.

        Numbers from 0 to N − 1 are known before any id is.

        Examples
        --------
        >>> ids = AgentIds(2)
        >>> ids.number_if_known(1), ids.number_if_known("us")
        (1, None)
        """
        _refuse_missing(np.asarray([agent], object))
        known = self.known or list(self._range or ())
        return known.index(agent) if agent in known else None

    def _are_numbers(self, given: np.ndarray) -> bool:
        """Whether ids are numbers of agents already."""
        if self._range is None or not np.issubdtype(given.dtype, np.integer) or not len(given):
            return False
        return bool(given.min() >= 0 and given.max() < len(self._range))


def _refuse_missing(agents: np.ndarray) -> None:
    """Refuse rows that name no agent."""
    if agents.dtype.kind not in "fO":
        return
    missing = np.array([one is None or one != one for one in agents.tolist()], bool)
    if missing.any():
        row = int(missing.argmax())
        raise ValueError(f"`agents`: found {agents[row]} in row {row}, expected the id of an agent")
