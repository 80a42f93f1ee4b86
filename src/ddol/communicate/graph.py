"""The network as a value: who talks with whom, without weights."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Topology:
    """An undirected graph of agents 0, …, N−1 without self loops.

    The neighbours of agent ``i`` are ``indices[indptr[i]:indptr[i + 1]]``, in rising order. The
    complete graph stores no edge at all (both arrays are empty), so 10,000 agents cost nothing.

    Parameters
    ----------
    name : str
        Such as ``ring``; shown in tables and reports.
    n_agents : int
        Number of agents N.
    indptr, indices : int64 arrays
        Neighbour lists in compressed rows (CSR); empty for the implicit complete graph.
    shape : tuple of int
        Rows and columns of a grid or torus, for the drawing; otherwise empty.

    Examples
    --------
    >>> from ddol.communicate.topologies import ring
    >>> ring(5).neighbours(0).tolist()
    [1, 4]
    """

    name: str
    n_agents: int
    indptr: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    indices: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    shape: tuple[int, ...] = ()

    @property
    def is_implicit(self) -> bool:
        """Whether this is the complete graph with no edge stored."""
        return self.indptr.size == 0

    @property
    def degrees(self) -> IntArray:
        """Number of neighbours of every agent, itself not counted."""
        if self.is_implicit:
            return np.full(self.n_agents, self.n_agents - 1, dtype=np.int64)
        return np.diff(self.indptr)

    @property
    def n_edges(self) -> int:
        """Number of undirected edges."""
        if self.is_implicit:
            return self.n_agents * (self.n_agents - 1) // 2
        return self.indices.size // 2

    @property
    def is_complete(self) -> bool:
        """Whether every two agents are neighbours (true of any graph on one agent)."""
        return self.n_edges == self.n_agents * (self.n_agents - 1) // 2

    @property
    def is_connected(self) -> bool:
        """Whether news from any agent can reach every other."""
        return len(self.components()) == 1

    def neighbours(self, agent: int) -> IntArray:
        """Neighbours of one agent, in rising order."""
        if self.is_implicit:
            everyone = np.arange(self.n_agents, dtype=np.int64)
            return np.delete(everyone, agent)
        return self.indices[self.indptr[agent] : self.indptr[agent + 1]]

    def csr(self) -> tuple[IntArray, IntArray]:
        """Neighbour lists ``(indptr, indices)``, written out for the complete graph too."""
        if not self.is_implicit:
            return self.indptr, self.indices
        n = self.n_agents
        rows = np.broadcast_to(np.arange(n, dtype=np.int64), (n, n))
        off_diagonal = ~np.eye(n, dtype=bool)
        return np.arange(n + 1, dtype=np.int64) * (n - 1), rows[off_diagonal]

    def edges(self) -> IntArray:
        """Edges as an array of pairs (i, j) with i < j, in rising order.

        Examples
        --------
        >>> from ddol.communicate.topologies import path
        >>> path(3).edges().tolist()
        [[0, 1], [1, 2]]
        """
        indptr, indices = self.csr()
        sources = np.repeat(np.arange(self.n_agents, dtype=np.int64), np.diff(indptr))
        once = sources < indices
        return np.column_stack([sources[once], indices[once]])

    def components(self) -> list[IntArray]:
        """Agents of each connected component, the one with agent 0 first."""
        if self.is_implicit:
            return [np.arange(self.n_agents, dtype=np.int64)]
        sources = np.repeat(np.arange(self.n_agents), self.degrees)
        lowest = np.arange(self.n_agents, dtype=np.int64)
        while True:
            # Every agent takes the lowest number heard of; asking that agent in turn doubles the
            # reach, so a path of n agents needs about log n rounds.
            heard = lowest.copy()
            np.minimum.at(heard, sources, lowest[self.indices])
            heard = heard[heard]
            if np.array_equal(heard, lowest):
                break
            lowest = heard
        return [np.flatnonzero(lowest == root) for root in np.unique(lowest)]

    def positions(self) -> FloatArray:
        """Place every agent in the plane for a drawing, one row (x, y) each, within [−1, 1]².

        A path lies on a line, a star around its hub, a grid or torus on a lattice, a hypercube as
        the sum of one direction per bit, and everything else on a circle that starts at the top.

        Examples
        --------
        >>> from ddol.communicate.topologies import path
        >>> path(3).positions().tolist()
        [[-1.0, 0.0], [0.0, 0.0], [1.0, 0.0]]
        """
        n = self.n_agents
        if n == 1:
            return np.zeros((1, 2))
        if self.name == "path":
            return np.column_stack([np.linspace(-1, 1, n), np.zeros(n)])
        if self.name == "star":
            return np.vstack([np.zeros((1, 2)), _circle(n - 1)])
        if self.shape:
            return _lattice(*self.shape)
        if self.name == "hypercube":
            return _cube(n)
        return _circle(n)


def from_pairs(
    name: str, n_agents: int, i: IntArray, j: IntArray, shape: tuple[int, ...] = ()
) -> Topology:
    """Build a topology from edges (i[k], j[k]); repeated edges and self loops are dropped."""
    sources = np.concatenate([i, j]).astype(np.int64)
    targets = np.concatenate([j, i]).astype(np.int64)
    keep = sources != targets
    keys = np.unique(sources[keep] * n_agents + targets[keep])
    indptr = np.zeros(n_agents + 1, dtype=np.int64)
    np.cumsum(np.bincount(keys // n_agents, minlength=n_agents), out=indptr[1:])
    return Topology(name, n_agents, indptr, keys % n_agents, shape)


def check_connected(graph: Topology) -> Topology:
    """Return the graph, or raise a ``ValueError`` that names its components."""
    parts = graph.components()
    if len(parts) == 1:
        return graph
    raise ValueError(
        f"`topology` {graph.name} must be connected, but its {graph.n_agents} agents fall into "
        f"{len(parts)} components: {described_parts(parts)}; add edges between them"
    )


def described_parts(parts: list[IntArray]) -> str:
    """The agents of the first few components of a graph."""
    shown = ", ".join(_name_component(part) for part in parts[:4])
    return f"{shown} and {len(parts) - 4} more" if len(parts) > 4 else shown


def check_count(n: int, what: str = "n") -> int:
    """Return ``n`` as an int, or raise a ``ValueError`` if it cannot count agents."""
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
        raise ValueError(f"`{what}` must be a whole number of agents, at least 1, got {n!r}")
    return int(n)


def _name_component(agents: IntArray) -> str:
    first = ", ".join(str(agent) for agent in agents[:5])
    return "{" + first + (f", … {len(agents)} agents" if len(agents) > 5 else "") + "}"


def _circle(n: int) -> FloatArray:
    angle = np.pi / 2 - 2 * np.pi * np.arange(n) / n
    return np.column_stack([np.cos(angle), np.sin(angle)])


def _lattice(rows: int, cols: int) -> FloatArray:
    y, x = np.divmod(np.arange(rows * cols), cols)
    half = max(rows - 1, cols - 1, 1) / 2
    return np.column_stack([x - (cols - 1) / 2, (rows - 1) / 2 - y]) / half


def _cube(n: int) -> FloatArray:
    dim = n.bit_length() - 1
    bits = (np.arange(n)[:, None] >> np.arange(dim)) & 1
    # Shrinking directions keep the corners of high-dimensional cubes apart.
    angle = np.pi * np.arange(dim) / dim + 0.35
    length = 0.75 ** np.arange(dim)
    directions = np.column_stack([np.cos(angle), np.sin(angle)]) * length[:, None]
    corners = (bits - 0.5) @ directions
    return corners / np.abs(corners).max()
