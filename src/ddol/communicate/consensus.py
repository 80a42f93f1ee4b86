"""How fast averaging alone brings the agents together."""

from __future__ import annotations

from typing import Any

import numpy as np

from ddol.communicate.graph import FloatArray, Topology
from ddol.communicate.mixing import Mixing

DENSE_LIMIT = 600


def consensus_rate(mixing: Mixing) -> float:
    """Return |λ₂|: the factor by which a round of averaging shrinks disagreement in the long run.

    The largest eigenvalue of a mixing matrix is 1, its eigenvector is agreement, and the second
    largest in modulus is what is left of the slowest disagreement after a round.

    Examples
    --------
    >>> from ddol.communicate.mixing import uniform
    >>> from ddol.communicate.topologies import complete, ring
    >>> consensus_rate(uniform(complete(10_000)))
    0.0
    >>> round(consensus_rate(uniform(ring(4))), 6)
    0.333333
    """
    if mixing.is_uniform_complete:
        return 0.0
    for special in (_second_of_translates, _second_of_star, _second_of_path):
        value = special(mixing)
        if value is not None:
            return min(1.0, value)
    scale = _reversible_scale(mixing)
    if mixing.n_agents <= DENSE_LIMIT:
        return _second_dense(mixing, scale)
    return _second_of_any(mixing) if scale is None else _second_of_reversible(mixing, scale)


def spectral_gap(mixing: Mixing) -> float:
    """Return 1 − |λ₂|: 1 on the complete graph, near 0 where news travels slowly.

    Examples
    --------
    >>> from ddol.communicate.mixing import metropolis
    >>> from ddol.communicate.topologies import path, star
    >>> spectral_gap(metropolis(path(9))) < spectral_gap(metropolis(star(9)))
    True
    """
    return 1 - consensus_rate(mixing)


def _group(graph: Topology) -> tuple[int, ...] | None:
    """Sizes of the cyclic groups whose product moves any agent of the graph to any other."""
    n = graph.n_agents
    if graph.name in ("ring", "exponential"):
        return (n,)
    if graph.name == "hypercube":
        return (2,) * (n.bit_length() - 1)
    return graph.shape if graph.name == "torus" else None


def _row_of_all(mixing: Mixing, group: tuple[int, ...]) -> FloatArray | None:
    """Weights that every agent gives to the agent some way off, by that way; None if they differ."""
    n = mixing.n_agents
    indptr, indices, weights = mixing.csr()
    sizes = np.diff(indptr)
    if (sizes != sizes[0]).any():
        return None
    sources = np.repeat(np.arange(n), sizes[0])
    ends = zip(
        np.unravel_index(sources, group), np.unravel_index(indices, group), group, strict=True
    )
    ways = np.ravel_multi_index([(there - here) % size for here, there, size in ends], group)
    ways, weights = ways.reshape(n, -1), weights.reshape(n, -1)
    order = np.argsort(ways, axis=1)
    ways = np.take_along_axis(ways, order, axis=1)
    weights = np.take_along_axis(weights, order, axis=1)
    if (ways != ways[0]).any() or not np.allclose(weights, weights[0], rtol=1e-12, atol=0):
        return None
    row = np.zeros(n)
    row[ways[0]] = weights[0]
    return row.reshape(group)


def _second_of_translates(mixing: Mixing) -> float | None:
    """Where all agents see the same graph from their place: eigenvalues are a Fourier transform.

    On the ring they are (1 + 2 cos(2πk/N))/3.
    """
    group = _group(mixing.topology)
    row = None if group is None else _row_of_all(mixing, group)
    if row is None:
        return None
    moduli = np.abs(np.fft.fftn(row)).ravel()
    return float(moduli[1:].max())


def _second_of_star(mixing: Mixing) -> float | None:
    """1 − 1/N with Metropolis weights, 1/2 with equal ones: leaves that differ, and agree in sum."""
    graph = mixing.topology
    star = graph.n_edges == graph.n_agents - 1 == graph.degrees.max()
    known = {"metropolis": 1 - 1 / graph.n_agents, "uniform": 0.5}
    return known.get(mixing.name) if star else None


def _second_of_path(mixing: Mixing) -> float | None:
    """Where agents hear only those next to them in number: bisection on three diagonals."""
    from scipy.linalg import eigh_tridiagonal

    indptr, indices, _ = mixing.csr()
    sources = np.repeat(np.arange(mixing.n_agents), np.diff(indptr))
    if abs(indices - sources).max() > 1:
        return None
    scale = _reversible_scale(mixing)
    if scale is None:
        return None
    matrix, last = _sparse(mixing), mixing.n_agents - 1
    beside = matrix.diagonal(1) * scale[:-1] / scale[1:]

    def eigenvalue(k: int) -> float:
        one = {"select": "i", "select_range": (k, k)}
        return float(eigh_tridiagonal(matrix.diagonal(), beside, eigvals_only=True, **one)[0])

    return max(eigenvalue(last - 1), -eigenvalue(0))


def _reversible_scale(mixing: Mixing) -> FloatArray | None:
    """√π where π_i A_ij = π_j A_ji, which makes diag(√π) A diag(1/√π) symmetric; else None."""
    if mixing.name == "metropolis":
        return np.ones(mixing.n_agents)
    if mixing.name == "uniform":
        return np.sqrt(mixing.topology.degrees + 1.0)
    matrix = _sparse(mixing)
    return np.ones(mixing.n_agents) if abs(matrix - matrix.T).max() < 1e-14 else None


def _second_dense(mixing: Mixing, scale: FloatArray | None) -> float:
    matrix = mixing.dense()
    if scale is None:
        moduli = np.abs(np.linalg.eigvals(matrix))
    else:
        moduli = np.abs(np.linalg.eigvalsh(scale[:, None] * matrix / scale))
    return float(min(1.0, np.sort(moduli)[-2]))


def _second_of_reversible(mixing: Mixing, scale: FloatArray) -> float:
    matrix = _sparse(mixing, scale).tocsc()
    start = np.cos(np.arange(mixing.n_agents))
    # Slow graphs, such as lattices, are the ones whose inverse is cheap.
    found = None if mixing.topology.shape else _by_products(matrix, scale, start)
    return float(min(1.0, _by_inverse(matrix, start) if found is None else found))


def _by_products(matrix: Any, scale: FloatArray, start: FloatArray) -> float | None:
    """Largest modulus once agreement is taken out, by products with vectors; None if it takes long."""
    from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

    agree = scale / np.linalg.norm(scale)

    def without_agreement(v: FloatArray) -> FloatArray:
        v = v.ravel()
        return matrix @ v - agree * (agree @ v)

    rest = LinearOperator(matrix.shape, without_agreement, dtype=float)
    try:
        value = eigsh(rest, k=1, ncv=60, maxiter=60, tol=1e-10, v0=start, return_eigenvectors=False)
    except ArpackNoConvergence:
        return None
    return float(abs(value[0]))


def _by_inverse(matrix: Any, start: FloatArray) -> float:
    """The same by inverses, which so near to 1 tell eigenvalues apart that differ by 1e-8."""
    from scipy.sparse.linalg import eigsh

    second = eigsh(matrix, k=2, sigma=1 + 1e-9, v0=start, return_eigenvectors=False).min()
    if 1 - 2 * matrix.diagonal().min() > second:  # only then may the lowest be the larger one
        lowest = eigsh(matrix, k=1, sigma=-1 - 1e-9, v0=start, return_eigenvectors=False)[0]
        second = max(second, -lowest)
    return float(second)


def _second_of_any(mixing: Mixing) -> float:
    from scipy.sparse.linalg import ArpackNoConvergence, eigs

    matrix = _sparse(mixing).tocsc()
    start = np.cos(np.arange(mixing.n_agents))
    try:
        values = eigs(matrix, k=4, v0=start, maxiter=300, return_eigenvectors=False)
    except ArpackNoConvergence:
        values = eigs(matrix, k=4, sigma=1 + 1e-9, v0=start, return_eigenvectors=False)
    return float(min(1.0, np.sort(np.abs(values))[-2]))


def _sparse(mixing: Mixing, scale: FloatArray | None = None) -> Any:
    """The matrix, or s_i·A_ij/s_j."""
    from scipy.sparse import csr_array

    indptr, indices, weights = mixing.csr()
    if scale is not None:
        weights = np.repeat(scale, np.diff(indptr)) * weights / scale[indices]
    places = indices.astype(np.int32), indptr.astype(np.int32)  # all that SciPy's solvers take
    return csr_array((weights, *places), shape=(mixing.n_agents, mixing.n_agents))
