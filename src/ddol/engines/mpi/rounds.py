"""The MPI engine: the ranks of a job host the agents."""

from __future__ import annotations

from ddol.algorithm import Algorithm
from ddol.engines.groups.grouped import Grouped
from ddol.engines.mpi.ranks import open_ranks
from ddol.engines.setup import Setup
from ddol.engines.state import State


class Mpi(Grouped):
    """Rounds of all agents, each rank playing those of its own; see `Grouped`."""

    name = "mpi"

    @classmethod
    def open(cls, algorithm: Algorithm, state: State, setup: Setup) -> Mpi:
        """As many workers as the job has ranks, whatever is wished for."""
        return cls(algorithm, state, open_ranks())
