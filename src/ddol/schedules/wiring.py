"""The mixing matrix as numbered wires, by which messages travel from agent to agent."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ddol.communicate.graph import described_parts
from ddol.communicate.mixing import Changing, Mixing, metropolis

MOST_WIRES = 1 << 26


@dataclass(frozen=True, eq=False)
class Wiring:
    """Places in the rows of a mixing matrix: wire e brings messages of ``sender[e]`` to an agent.

    Agent j receives on the wires ``starts[j]:starts[j + 1]``, with rising senders, itself among them
    (``own[j]``). Agent i speaks on the wires ``spoken[spoken_starts[i]:spoken_starts[i + 1]]``, which lead
    to ``listener[e]``.
    """

    n_agents: int
    starts: NDArray[np.int64]
    sender: NDArray[np.int64]
    weight: NDArray[np.float64]
    own: NDArray[np.int64]
    listener: NDArray[np.int64]
    spoken_starts: NDArray[np.int64]
    spoken: NDArray[np.int64]

    @classmethod
    def of(cls, mixing: Mixing | Changing) -> Wiring:
        """The wires of a mixing; where the matrix changes, there is a wire between any two agents.

        Examples
        --------
        >>> from ddol.communicate.mixing import metropolis
        >>> from ddol.communicate.topologies import path
        >>> wires = Wiring.of(metropolis(path(3)))
        >>> wires.sender.tolist(), wires.own.tolist()
        ([0, 1, 0, 1, 2, 1, 2], [0, 3, 6])
        """
        n = mixing.n_agents
        everyone_connected = isinstance(mixing, Changing) or mixing.is_uniform_complete
        if everyone_connected and n * n > MOST_WIRES:
            raise ValueError(
                f"{n} agents on a complete graph need {n * n} mailboxes; take a sparser topology "
                "for schedules, or at most 8192 agents"
            )
        if isinstance(mixing, Changing):
            starts: NDArray[np.int64] = np.arange(n + 1, dtype=np.int64) * n
            sender: NDArray[np.int64] = np.tile(np.arange(n, dtype=np.int64), n)
            weight: NDArray[np.float64] = np.zeros(n * n)
        else:
            indptr, indices, weights = mixing.csr()
            starts, sender, weight = indptr.copy(), indices.copy(), weights.copy()
        listener = np.repeat(np.arange(n, dtype=np.int64), np.diff(starts))
        own = np.flatnonzero(listener == sender)
        others = np.flatnonzero(listener != sender)
        spoken = others[np.argsort(sender[others], kind="stable")]
        spoken_starts = np.searchsorted(sender[spoken], np.arange(n + 1))
        return cls(n, starts, sender, weight, own, listener, spoken_starts, spoken)

    def between(self, agents: NDArray, peers: NDArray) -> NDArray[np.int64]:
        """The wires that bring messages of ``peers`` to ``agents``; −1 where there is none."""
        keys = self.listener * self.n_agents + self.sender
        wanted = agents.astype(np.int64) * self.n_agents + peers
        places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        return np.where(keys[places] == wanted, places, -1)


def walk_chances(mixing: Mixing | Changing, wires: Wiring) -> NDArray[np.float64]:
    """Chance, summed up along an agent's wires, that a token goes to their senders.

    Metropolis weights of the graph: on it the token visits all agents equally often.
    """
    if isinstance(mixing, Changing):
        raise ValueError(
            "the schedule walk needs a fixed mixing matrix, this one changes by the round; use async"
        )
    parts = mixing.topology.components()
    if len(parts) > 1:
        raise ValueError(
            f"the schedule walk needs a connected graph; this one has {len(parts)} parts "
            f"({described_parts(parts)}); add edges, or use async"
        )
    chain = metropolis(mixing.topology)
    _, indices, weights = chain.csr()
    if len(weights) != len(wires.sender) or not np.array_equal(indices, wires.sender):
        raise ValueError(
            "the schedule walk needs links in both directions, this mixing has one-way edges; use async"
        )
    sums = np.cumsum(weights)
    before = np.concatenate([[0.0], sums])[wires.starts[:-1]]
    return sums - np.repeat(before, np.diff(wires.starts))
