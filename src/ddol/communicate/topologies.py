"""Topologies: functions that return a connected graph of agents.

Every function here returns a `Topology`; `topology` finds one by name (``"ring"``,
``"random-regular:4"``) or makes one from a matrix, an edge list, a networkx graph or a function.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ddol.communicate.graph import (
    IntArray,
    Topology,
    check_connected,
    check_count,
    from_pairs,
)
from ddol.communicate.random_graphs import erdos_renyi, random_regular

__all__ = [
    "RANDOM_TOPOLOGIES",
    "TOPOLOGIES",
    "Topology",
    "complete",
    "erdos_renyi",
    "exponential",
    "from_adjacency",
    "from_edges",
    "from_networkx",
    "grid",
    "hypercube",
    "path",
    "random_regular",
    "ring",
    "star",
    "topology",
    "topology_names",
    "torus",
]


def complete(n: int) -> Topology:
    """Join every two agents: the graph of the paper's theorems. No edge is stored.

    ::

        0 ─── 1
        │ ╲ ╱ │
        │ ╱ ╲ │
        3 ─── 2

    Examples
    --------
    >>> complete(10_000).n_edges
    49995000
    """
    return Topology("complete", check_count(n))


def ring(n: int) -> Topology:
    """Join every agent to the next one, and the last to the first.

    ::

        0 ─ 1 ─ 2
        │       │
        5 ─ 4 ─ 3

    Examples
    --------
    >>> ring(6).degrees.tolist()
    [2, 2, 2, 2, 2, 2]
    """
    agents = np.arange(check_count(n))
    return from_pairs("ring", n, agents, (agents + 1) % n)


def path(n: int) -> Topology:
    """Join every agent to the next one.

    ::

        0 ─ 1 ─ 2 ─ 3

    Examples
    --------
    >>> path(4).degrees.tolist()
    [1, 2, 2, 1]
    """
    agents = np.arange(check_count(n) - 1)
    return from_pairs("path", n, agents, agents + 1)


def star(n: int) -> Topology:
    """Join agent 0, the hub, to all the others.

    ::

            1
            │
        4 ─ 0 ─ 2
            │
            3

    Examples
    --------
    >>> star(5).degrees.tolist()
    [4, 1, 1, 1, 1]
    """
    leaves = np.arange(1, check_count(n))
    return from_pairs("star", n, np.zeros_like(leaves), leaves)


def grid(rows: int, cols: int) -> Topology:
    """Join the agents of a lattice to those beside, above and below.

    ::

        0 ─ 1 ─ 2
        │   │   │
        3 ─ 4 ─ 5

    Examples
    --------
    >>> grid(2, 3).neighbours(4).tolist()
    [1, 3, 5]
    """
    cells = np.arange(check_count(rows, "rows") * check_count(cols, "cols")).reshape(rows, cols)
    i = np.concatenate([cells[:, :-1].ravel(), cells[:-1].ravel()])
    j = np.concatenate([cells[:, 1:].ravel(), cells[1:].ravel()])
    return from_pairs("grid", rows * cols, i, j, (rows, cols))


def torus(rows: int, cols: int) -> Topology:
    """Make a lattice whose rows and columns are rings.

    ::

          ┆   ┆   ┆
        ┄ 0 ─ 1 ─ 2 ┄
          │   │   │
        ┄ 3 ─ 4 ─ 5 ┄
          ┆   ┆   ┆

    Examples
    --------
    >>> torus(3, 4).degrees.tolist() == [4] * 12
    True
    """
    cells = np.arange(check_count(rows, "rows") * check_count(cols, "cols")).reshape(rows, cols)
    i = np.concatenate([cells.ravel(), cells.ravel()])
    j = np.concatenate([np.roll(cells, -1, axis=1).ravel(), np.roll(cells, -1, axis=0).ravel()])
    return from_pairs("torus", rows * cols, i, j, (rows, cols))


def hypercube(n: int) -> Topology:
    """Join agents whose numbers differ in one bit; n must be a power of two.

    ::

          6 ──── 7
        ╱ │    ╱ │
        2 ──── 3 │
        │ 4 ── │ 5
        │╱     │╱
        0 ──── 1

    Examples
    --------
    >>> hypercube(8).neighbours(0).tolist()
    [1, 2, 4]
    """
    if check_count(n) & (n - 1):
        raise ValueError(
            f"hypercube needs a power of two agents, got {n}; use torus or exponential"
        )
    agents = np.arange(n)
    bits = 1 << np.arange(n.bit_length() - 1)
    return from_pairs(
        "hypercube", n, np.repeat(agents, bits.size), (agents[:, None] ^ bits).ravel()
    )


def exponential(n: int) -> Topology:
    """Join agents whose distance around the ring is a power of two.

    ::

        0 ─ 1 ─ 2 ─ 3 ─ 4 ─ 5 ─ …      and 0 ─ 1, 0 ─ 2, 0 ─ 4, 0 ─ 8, …
        └───────┘
        └───────────────┘

    Examples
    --------
    >>> exponential(16).neighbours(0).tolist()
    [1, 2, 4, 8, 12, 14, 15]
    """
    agents = np.arange(check_count(n))
    hops = 1 << np.arange((n - 1).bit_length())
    targets = ((agents[:, None] + hops) % n).ravel()
    return from_pairs("exponential", n, np.repeat(agents, hops.size), targets)


def from_edges(n: int, edges: Iterable[tuple[int, int]] | IntArray) -> Topology:
    """Make a topology from pairs of agents, in any order and either direction.

    Examples
    --------
    >>> from_edges(3, [(0, 1), (2, 1)]).neighbours(1).tolist()
    [0, 2]
    """
    pairs = _as_pairs(edges)
    wrong = np.flatnonzero(((pairs < 0) | (pairs >= check_count(n))).any(axis=1))
    if wrong.size:
        raise ValueError(
            f"`edges` must join agents 0 to {n - 1}, edge {wrong[0]} is {pairs[wrong[0]].tolist()}"
        )
    return check_connected(from_pairs("edges", n, pairs[:, 0], pairs[:, 1]))


def _as_pairs(edges: Iterable[tuple[int, int]] | IntArray) -> IntArray:
    listed = edges if isinstance(edges, np.ndarray) else list(edges)
    if len(listed) == 0:
        return np.empty((0, 2), dtype=np.int64)
    try:
        pairs = np.asarray(listed)
    except ValueError:  # pairs of unequal length
        pairs = np.empty(0)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise ValueError("`edges` must be pairs of agents' numbers, such as [(0, 1), (1, 2)]")
    return pairs.astype(np.int64)


def from_adjacency(matrix: Any) -> Topology:
    """Make a topology from a symmetric matrix, dense or scipy sparse: not 0 means an edge.

    Examples
    --------
    >>> from_adjacency([[0, 1], [1, 0]]).edges().tolist()
    [[0, 1]]
    """
    table: Any = matrix if hasattr(matrix, "tocoo") else np.asarray(matrix)
    if table.ndim != 2 or table.shape[0] != table.shape[1] or table.shape[0] == 0:
        raise ValueError(f"`adjacency` must be a square matrix, got shape {table.shape}")
    i, j = table.nonzero()
    n = table.shape[0]
    there, back = np.unique(i * n + j), np.unique(j * n + i)
    one_way = np.setdiff1d(there, back)
    if one_way.size:
        a, b = divmod(int(one_way[0]), n)
        raise ValueError(f"`adjacency` must be symmetric, but has ({a}, {b}) and not ({b}, {a})")
    return check_connected(from_pairs("adjacency", n, i, j))


def from_networkx(graph: Any) -> Topology:
    """Make a topology from an undirected networkx graph; agents are its nodes in their order.

    Examples
    --------
    >>> import networkx
    >>> from_networkx(networkx.petersen_graph()).n_edges
    15
    """
    if graph.is_directed():
        raise ValueError("`graph` must be undirected; use graph.to_undirected()")
    number = {node: k for k, node in enumerate(graph.nodes)}
    i = np.array([number[a] for a, _ in graph.edges()], dtype=np.int64)
    j = np.array([number[b] for _, b in graph.edges()], dtype=np.int64)
    return check_connected(from_pairs("networkx", check_count(len(number)), i, j))


def _most_square(n: int) -> tuple[int, int]:
    rows = next(r for r in range(math.isqrt(check_count(n)), 0, -1) if n % r == 0)
    return rows, n // rows


TOPOLOGIES: dict[str, Callable[[int], Topology]] = {
    "complete": complete,
    "ring": ring,
    "path": path,
    "star": star,
    "grid": lambda n: grid(*_most_square(n)),
    "torus": lambda n: torus(*_most_square(n)),
    "hypercube": hypercube,
    "exponential": exponential,
}
RANDOM_TOPOLOGIES: dict[str, tuple[Callable[..., Topology], str, type]] = {
    "random-regular": (random_regular, "DEGREE", int),
    "erdos-renyi": (erdos_renyi, "P", float),
}
"""Functions of the number of agents, a parameter and a seed; the parameter's name and type."""


def topology_names() -> list[str]:
    """What `topology` understands.

    Examples
    --------
    >>> "ring" in topology_names(), "erdos-renyi:P" in topology_names()
    (True, True)
    """
    drawn = [f"{name}:{parameter}" for name, (_, parameter, _) in RANDOM_TOPOLOGIES.items()]
    return [*TOPOLOGIES, *drawn]


def topology(spec: str | Topology | Any, n: int, seed: int = 0) -> Topology:
    """Find or make the graph of n agents that ``spec`` describes.

    Parameters
    ----------
    spec : str, Topology, matrix, edges, networkx graph or function
        A name of `topology_names` (``grid`` and ``torus`` take the most square lattice of n agents), a
        `Topology`, a square adjacency matrix, a list of edges, a networkx graph, or a function of
        the number of agents that returns one of these.
    n : int
        Number of agents.
    seed : int
        Of the random graphs.

    Examples
    --------
    >>> topology("torus", 12).shape
    (3, 4)
    >>> topology("random-regular:4", 50, seed=3).n_edges
    100
    >>> topology(lambda n: [(0, k) for k in range(1, n)], 4).degrees.tolist()
    [3, 1, 1, 1]
    """
    if isinstance(spec, str):
        return _by_name(spec, n, seed)
    graph = _from_value(spec, n, seed)
    if graph.n_agents != n:
        raise ValueError(f"`topology` {graph.name} has {graph.n_agents} agents, the run has {n}")
    return graph


def _from_value(spec: Any, n: int, seed: int) -> Topology:
    if isinstance(spec, Topology):
        return check_connected(spec)
    if hasattr(spec, "nodes") and hasattr(spec, "edges"):
        return from_networkx(spec)
    if callable(spec):
        return topology(spec(n), n, seed)
    if getattr(spec, "shape", None) == (n, n):
        return from_adjacency(spec)
    return from_edges(n, spec)


def _by_name(spec: str, n: int, seed: int) -> Topology:
    name, _, parameter = spec.replace("_", "-").partition(":")
    if name in TOPOLOGIES and not parameter:
        return TOPOLOGIES[name](n)
    if name in RANDOM_TOPOLOGIES and parameter:
        build, _, kind = RANDOM_TOPOLOGIES[name]
        try:
            value = kind(parameter)
        except ValueError:
            raise ValueError(
                f"`topology` {name} needs a number after the colon, got {parameter!r}"
            ) from None
        return build(n, value, seed)
    raise ValueError(f"`topology` must be one of {', '.join(topology_names())}, got {spec!r}")
