"""Mixing matrices: with which weight an agent listens to each neighbour.

A_ij > 0 only where j is a neighbour of i or i itself, and every row sums to 1. After a round agent
i holds Σ_j A_ij θ_j. The paper's choice is `uniform`; off the complete graph `metropolis` is the
default, since its columns sum to 1 too, so that no agent's examples count for more than another's.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from threading import RLock
from typing import Any

import numpy as np

from ddol.communicate.graph import FloatArray, IntArray, Topology, described_parts, from_pairs

ROW_SUM_TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False)
class Mixing:
    """A row-stochastic matrix over the agents, in compressed rows (CSR), diagonal included.

    Agent ``i`` listens to ``indices[indptr[i]:indptr[i + 1]]`` (rising, itself among them) with the
    ``weights`` at the same places. When every entry is 1/N nothing is stored: all three arrays are
    empty and one shared copy of the agents' weights is exact.

    Parameters
    ----------
    name : str
        ``uniform``, ``metropolis`` or ``custom``.
    topology : Topology
        The graph on which the agents talk.
    indptr, indices : int64 arrays
        Whom each agent listens to; empty when every entry is 1/N.
    weights : float64 array
        The entries A_ij in the same order.

    Examples
    --------
    >>> from ddol.communicate.topologies import path
    >>> uniform(path(3)).dense().round(2).tolist()
    [[0.5, 0.5, 0.0], [0.33, 0.33, 0.33], [0.0, 0.5, 0.5]]
    """

    name: str
    topology: Topology
    indptr: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    indices: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    weights: FloatArray = field(default_factory=lambda: np.empty(0))

    @property
    def n_agents(self) -> int:
        """Number of agents N."""
        return self.topology.n_agents

    @property
    def is_uniform_complete(self) -> bool:
        """Whether every entry is 1/N, so that all agents agree after every round."""
        return self.indptr.size == 0

    def at(self, t: int) -> Mixing:
        """Return the matrix of round t: always this one (see `changing` for the other kind)."""
        return self

    @property
    def at_once(self) -> float:
        """How many agents an exchange averages, N/Σ A_ij²: N on the complete graph, 1 where no agent listens.

        Examples
        --------
        >>> from ddol.communicate.topologies import complete, ring
        >>> round(metropolis(ring(9)).at_once, 6), uniform(complete(9)).at_once
        (3.0, 9.0)
        """
        n = float(self.n_agents)
        return n if self.is_uniform_complete else n / float(np.sum(self.weights**2))

    @property
    def n_messages(self) -> int:
        """Messages of one exchange: pairs i ≠ j with A_ij > 0, of which j sends to i."""
        n = self.n_agents
        if self.is_uniform_complete:
            return n * (n - 1)
        listeners = np.repeat(np.arange(n), np.diff(self.indptr))
        return int(np.count_nonzero((self.weights > 0) & (self.indices != listeners)))

    def check_keeps_to(self, graph: Topology, of_round: str = "") -> None:
        """Refuse entries between agents that are not neighbours in the graph."""
        if self.topology is not graph:
            indptr, listened, weights = self.csr()
            listeners = np.repeat(np.arange(self.n_agents), np.diff(indptr))
            _check_keeps_to(graph, listeners, listened, weights, of_round)

    def row(self, agent: int) -> tuple[IntArray, FloatArray]:
        """Whom one agent listens to, and with which weights."""
        if self.is_uniform_complete:
            n = self.n_agents
            return np.arange(n, dtype=np.int64), np.full(n, 1 / n)
        part = slice(self.indptr[agent], self.indptr[agent + 1])
        return self.indices[part], self.weights[part]

    def csr(self) -> tuple[IntArray, IntArray, FloatArray]:
        """Arrays ``(indptr, indices, weights)``, written out for the complete graph too."""
        if not self.is_uniform_complete:
            return self.indptr, self.indices, self.weights
        n = self.n_agents
        everyone = np.tile(np.arange(n, dtype=np.int64), n)
        return np.arange(n + 1, dtype=np.int64) * n, everyone, np.full(n * n, 1 / n)

    def written_out(self) -> Mixing:
        """The same with all entries stored: agents keep copies of their own, also where they agree."""
        return Mixing(self.name, self.topology, *self.csr())

    def dense(self) -> FloatArray:
        """Write out the matrix A, N × N."""
        indptr, indices, weights = self.csr()
        matrix = np.zeros((self.n_agents, self.n_agents))
        matrix[np.repeat(np.arange(self.n_agents), np.diff(indptr)), indices] = weights
        return matrix


KEPT = 256
"""Matrices of a `Changing` that are kept: rounds in a row are asked for by several, each once."""


@dataclass(frozen=True, eq=False)
class Changing:
    """A mixing matrix that changes by round, checked as each round asks for it.

    Parameters
    ----------
    matrix_of_round : function of t
    n_agents : int
    topology : Topology or None
        The graph that all matrices must keep to; None where none was given.
    """

    matrix_of_round: Callable[[int], Any]
    n_agents: int
    name: str = "changing"
    topology: Topology | None = None
    _kept: dict[int, Mixing] = field(default_factory=dict, repr=False)
    _lock: Any = field(default_factory=RLock, repr=False)

    @property
    def is_uniform_complete(self) -> bool:
        """Never known of all rounds to come, so False."""
        return False

    @property
    def at_once(self) -> float:
        """How many agents an exchange averages: never known, so all that there are."""
        return float(self.n_agents)

    def at(self, t: int) -> Mixing:
        """Return the matrix of round t, counted from 1; the last ones are kept."""
        with self._lock:
            if t not in self._kept:
                if len(self._kept) > 2 * KEPT:
                    self._kept.clear()
                self._kept[t] = self._made(t)
            return self._kept[t]

    def _made(self, t: int) -> Mixing:
        mixing = _matrix_at(self.matrix_of_round, t)
        if mixing.n_agents != self.n_agents:
            raise ValueError(
                f"`mixing` must keep its size, round {t} has {mixing.n_agents} agents "
                f"and round 1 had {self.n_agents}"
            )
        if self.topology is not None:
            mixing.check_keeps_to(self.topology, f" of round {t}")
        return mixing

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name[0] != "_"}

    def __setstate__(self, kept: dict[str, Any]) -> None:
        vars(self).update(kept, _kept={}, _lock=RLock())


def uniform(graph: Topology) -> Mixing:
    """Listen to oneself and every neighbour alike: A_ij = 1/N_i, the paper's average.

    N_i counts agent i and its neighbours. Rows sum to 1; columns do only on regular graphs.

    Examples
    --------
    >>> from ddol.communicate.topologies import ring
    >>> uniform(ring(4)).weights.round(3).tolist() == [0.333] * 12
    True
    """
    if graph.is_complete:
        return Mixing("uniform", graph)
    indptr, indices = _with_diagonal(graph)
    sizes = np.diff(indptr)
    return Mixing("uniform", graph, indptr, indices, np.repeat(1 / sizes, sizes))


def metropolis(graph: Topology) -> Mixing:
    """Give every edge 1/(1 + the larger degree of its ends), and the rest to oneself.

    A_ij = 1/(1 + max(d_i, d_j)), A_ii = 1 − Σ_j A_ij: symmetric, hence doubly stochastic, on any
    undirected graph.

    Examples
    --------
    >>> from ddol.communicate.topologies import path
    >>> metropolis(path(3)).dense().sum(axis=0).round(12).tolist()
    [1.0, 1.0, 1.0]
    """
    if graph.is_complete:
        return Mixing("metropolis", graph)
    indptr, indices = _with_diagonal(graph)
    sources = np.repeat(np.arange(graph.n_agents), np.diff(indptr))
    degrees = graph.degrees
    weights = 1 / (1 + np.maximum(degrees[sources], degrees[indices]))
    own = sources == indices
    weights[own] = 0
    weights[own] = 1 - np.add.reduceat(weights, indptr[:-1])
    return Mixing("metropolis", graph, indptr, indices, weights)


def custom(matrix: Any, topology: Topology | None = None) -> Mixing:
    """Check a matrix of one's own, dense or scipy sparse, and make a mixing of it.

    Parameters
    ----------
    matrix : array or scipy sparse matrix, N × N
        Finite, not negative, every row with sum 1 (within 1e-9).
    topology : Topology, optional
        The graph that the entries must keep to; without it, two agents are neighbours where either
        listens to the other. A matrix whose agents fall into parts that never exchange anything, such as
        the identity, raises a warning: each part learns alone.

    Examples
    --------
    >>> custom([[0.9, 0.1], [0.2, 0.8]]).row(1)[1].tolist()
    [0.2, 0.8]
    >>> custom([[0.9, 0.1], [0.2, 0.7]])
    Traceback (most recent call last):
    ValueError: `mixing` rows must sum to 1, row 1 sums to 0.9; use ddol.metropolis(graph)
    """
    mixing = _checked(matrix, topology)
    parts = mixing.topology.components()
    if len(parts) > 1:
        warnings.warn(
            f"`mixing` has {len(parts)} parts that exchange nothing: {described_parts(parts)}; each "
            "learns alone",
            stacklevel=2,
        )
    return mixing


def from_links(n_agents: int, links: Iterable[Sequence[float]]) -> Mixing:
    """Directed links, each with a weight of its own.

    Parameters
    ----------
    n_agents : int
    links : of (listener, sender) or (listener, sender, weight)
        What ``listener`` hears from ``sender`` counts ``weight``, and what it knows itself the rest up to
        1. Without weights all that an agent hears, and what it knows, count the same.

    Examples
    --------
    >>> from_links(3, [(0, 1, 0.25), (1, 2, 0.5), (2, 0, 0.5)]).dense()
    array([[0.75, 0.25, 0.  ],
           [0.  , 0.5 , 0.5 ],
           [0.5 , 0.  , 0.5 ]])
    """
    given = [(int(listener), int(sender), weight) for listener, sender, *weight in links]
    heard = np.bincount([listener for listener, _, _ in given], minlength=n_agents)
    matrix = np.zeros((n_agents, n_agents))
    for listener, sender, weight in given:
        matrix[listener, sender] += weight[0] if weight else 1.0 / (1 + heard[listener])
    others = matrix.sum(axis=1)
    most = int(others.argmax())
    if others[most] > 1.0 + ROW_SUM_TOLERANCE:
        raise ValueError(
            f"weights of the links to agent {most} add up to {others[most]:g}, expected at most 1"
        )
    np.fill_diagonal(matrix, matrix.diagonal() + np.maximum(1.0 - others, 0.0))
    return custom(matrix)


def changing(matrix_of_round: Callable[[int], Any], topology: Topology | None = None) -> Changing:
    """Mix by another matrix every round: a function of t = 1, 2, … gives it.

    The matrix of a single round need not connect all agents: gossip between two at a time is a
    matrix that changes.

    Parameters
    ----------
    matrix_of_round : function of t
        It may be asked for a round more than once, and must give the same matrix.
    topology : Topology, optional
        The graph whose edges the entries of every matrix must keep to.

    Examples
    --------
    >>> import numpy as np
    >>> swap = np.array([[0.5, 0.5], [0.5, 0.5]])
    >>> every_other = changing(lambda t: swap if t % 2 == 0 else np.eye(2))
    >>> every_other.at(1).dense().tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    if not callable(matrix_of_round):
        raise ValueError(f"`mixing` must be a function of the round, got {matrix_of_round!r}")
    # Asking for round 1 shows the size, and a wrong signature before any round is played.
    found = Changing(matrix_of_round, _matrix_at(matrix_of_round, 1).n_agents, topology=topology)
    found.at(1)
    return found


def mixing_for(spec: str | Mixing | Changing | Any, graph: Topology) -> Mixing | Changing:
    """Find or make the mixing on a graph: a name, a matrix, a function of t, or a ready one.

    Examples
    --------
    >>> from ddol.communicate.topologies import ring
    >>> mixing_for("metropolis", ring(5)).name
    'metropolis'
    """
    if isinstance(spec, str):
        if spec not in ("uniform", "metropolis"):
            raise ValueError(f"`mixing` must be uniform, metropolis or a matrix, got {spec!r}")
        return uniform(graph) if spec == "uniform" else metropolis(graph)
    # A matrix without a graph implies the complete graph, which allows any matrix.
    keep_to = None if graph.is_complete else graph
    if isinstance(spec, Mixing | Changing):
        _check_size(spec.n_agents, graph)
        return spec if keep_to is None else _keeping_to(spec, graph)
    mixing = changing(spec, keep_to) if callable(spec) else custom(spec, keep_to)
    _check_size(mixing.n_agents, graph)
    return mixing


def _keeping_to(mixing: Mixing | Changing, graph: Topology) -> Mixing | Changing:
    """The mixing, which has been found to keep to the graph's edges, or will be round by round."""
    if isinstance(mixing, Changing):
        found = replace(mixing, topology=graph, _kept={})
        found.at(1)
        return found
    mixing.check_keeps_to(graph)
    return mixing


def _with_diagonal(graph: Topology) -> tuple[IntArray, IntArray]:
    """Neighbour lists in which every agent is its own neighbour too, still in rising order."""
    agents = np.arange(graph.n_agents, dtype=np.int64)
    sources = np.concatenate([np.repeat(agents, graph.degrees), agents])
    targets = np.concatenate([graph.csr()[1], agents])
    order = np.lexsort((targets, sources))
    return graph.csr()[0] + np.arange(graph.n_agents + 1), targets[order]


def _matrix_at(matrix_of_round: Callable[[int], Any], t: int) -> Mixing:
    try:
        matrix = matrix_of_round(t)
    except Exception as error:
        who = getattr(matrix_of_round, "__name__", "mixing")
        raise ValueError(
            f"`mixing` function {who} failed at round t = {t} with {error!r}; "
            f"it must take the round, from 1, and return an N × N matrix"
        ) from error
    return matrix if isinstance(matrix, Mixing) else _checked(matrix)


def _checked(matrix: Any, topology: Topology | None = None) -> Mixing:
    rows, cols, entries, n = _entries(matrix)
    wrong = np.flatnonzero(~(np.isfinite(entries) & (entries >= 0)))
    if wrong.size:
        k = wrong[0]
        raise ValueError(
            f"`mixing` must be finite and not negative, entry ({rows[k]}, {cols[k]}) is "
            f"{entries[k]:g}; use ddol.metropolis(graph)"
        )
    sums = np.bincount(rows, weights=entries, minlength=n)
    worst = int(np.argmax(np.abs(sums - 1)))
    if abs(sums[worst] - 1) > ROW_SUM_TOLERANCE:
        raise ValueError(
            f"`mixing` rows must sum to 1, row {worst} sums to {sums[worst]:.12g}; "
            f"use ddol.metropolis(graph)"
        )
    if topology is None:
        topology = from_pairs("custom", n, rows[entries > 0], cols[entries > 0])
    _check_size(n, topology)
    _check_keeps_to(topology, rows, cols, entries)
    if entries.size == n * n and np.allclose(entries, 1 / n, rtol=1e-12, atol=0):
        return Mixing("custom", topology)
    # Rows off by 1e-9 would drift by a thousandth in a million rounds.
    return _compressed(topology, rows, cols, entries / sums[rows])


def _entries(matrix: Any) -> tuple[IntArray, IntArray, FloatArray, int]:
    """Entries of a dense or sparse matrix as (row, column, value) and its size, zeros left out."""
    sparse = hasattr(matrix, "tocoo")
    try:
        table: Any = matrix.tocsr().tocoo() if sparse else np.asarray(matrix, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"`mixing` must be a matrix of numbers, got {matrix!r}") from None
    if table.ndim != 2 or table.shape[0] != table.shape[1] or table.shape[0] == 0:
        raise ValueError(f"`mixing` must be a square matrix, got shape {table.shape}")
    if sparse:
        rows, cols, entries = table.row, table.col, table.data
    else:
        rows, cols = np.nonzero(table)
        entries = table[rows, cols]
    return rows.astype(np.int64), cols.astype(np.int64), entries.astype(float), table.shape[0]


def _check_size(n: int, graph: Topology) -> None:
    if n != graph.n_agents:
        raise ValueError(
            f"`mixing` has {n} agents, the graph {graph.name} has {graph.n_agents}; "
            f"give both the same number"
        )


def _check_keeps_to(
    graph: Topology, rows: IntArray, cols: IntArray, entries: FloatArray, of_round: str = ""
) -> None:
    if graph.is_complete:
        return
    n = graph.n_agents
    edges = np.repeat(np.arange(n), graph.degrees) * n + graph.indices
    off = np.flatnonzero((entries > 0) & (rows != cols) & ~np.isin(rows * n + cols, edges))
    if off.size:
        i, j = rows[off[0]], cols[off[0]]
        raise ValueError(
            f"`mixing`{of_round} entry ({i}, {j}) is {entries[off[0]]:g}, but agents {i} and {j} are not "
            f"neighbours in {graph.name}; use ddol.metropolis(graph)"
        )


def _compressed(graph: Topology, rows: IntArray, cols: IntArray, entries: FloatArray) -> Mixing:
    n = graph.n_agents
    agents = np.arange(n, dtype=np.int64)
    # Zeros on the diagonal keep the promise that every agent's row names the agent itself.
    keys, places = np.unique(
        np.concatenate([rows * n + cols, agents * n + agents]), return_inverse=True
    )
    weights = np.bincount(places[: rows.size], weights=entries, minlength=keys.size)
    indptr = np.zeros(n + 1, dtype=np.int64)
    np.cumsum(np.bincount(keys // n, minlength=n), out=indptr[1:])
    return Mixing("custom", graph, indptr, keys % n, weights.astype(np.float64))
