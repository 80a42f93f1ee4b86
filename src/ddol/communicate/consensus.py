"""How fast averaging alone brings the agents together."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ddol.communicate.graph import FloatArray
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


def rounds_to_agree(mixing: Mixing, factor: float = 1e-3) -> float:
    """Predict after how many rounds of averaging the disagreement is ``factor`` of what it was.

    ⌈log factor / log |λ₂|⌉; infinite when averaging never brings the agents together.

    Examples
    --------
    >>> from ddol.communicate.mixing import metropolis
    >>> from ddol.communicate.topologies import complete, ring
    >>> rounds_to_agree(metropolis(complete(64))), rounds_to_agree(metropolis(ring(64)))
    (1, 2149)
    """
    if not 0 < factor < 1:
        raise ValueError(f"`factor` must lie between 0 and 1, got {factor}")
    rate = consensus_rate(mixing)
    if rate <= factor:
        return 1
    return math.inf if rate >= 1 - 1e-14 else math.ceil(math.log(factor) / math.log(rate))


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
    from scipy.sparse import diags_array
    from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

    matrix = (diags_array(scale) @ _sparse(mixing) @ diags_array(1 / scale)).tocsc()
    agree = scale / np.linalg.norm(scale)
    start = np.cos(np.arange(mixing.n_agents))

    def without_agreement(v: FloatArray) -> FloatArray:
        v = v.ravel()
        return matrix @ v - agree * (agree @ v)

    rest = LinearOperator(matrix.shape, without_agreement, dtype=float)
    try:
        value = eigsh(rest, k=1, ncv=60, maxiter=60, tol=1e-10, v0=start, return_eigenvectors=False)
        return float(min(1.0, abs(value[0])))
    except ArpackNoConvergence:
        # Slow graphs (rings, paths, grids) are the ones whose inverse is cheap, and so near to 1 it
        # tells eigenvalues apart that differ by 1e-8.
        second = eigsh(matrix, k=2, sigma=1 + 1e-9, v0=start, return_eigenvectors=False).min()
    if 1 - 2 * matrix.diagonal().min() > second:  # only then may the lowest be the larger one
        lowest = eigsh(matrix, k=1, sigma=-1 - 1e-9, v0=start, return_eigenvectors=False)[0]
        second = max(second, -lowest)
    return float(min(1.0, second))


def _second_of_any(mixing: Mixing) -> float:
    from scipy.sparse.linalg import ArpackNoConvergence, eigs

    matrix = _sparse(mixing).tocsc()
    start = np.cos(np.arange(mixing.n_agents))
    try:
        values = eigs(matrix, k=4, v0=start, maxiter=300, return_eigenvectors=False)
    except ArpackNoConvergence:
        values = eigs(matrix, k=4, sigma=1 + 1e-9, v0=start, return_eigenvectors=False)
    return float(min(1.0, np.sort(np.abs(values))[-2]))


def _sparse(mixing: Mixing) -> Any:
    from scipy.sparse import csr_array

    indptr, indices, weights = mixing.csr()
    return csr_array((weights, indices, indptr), shape=(mixing.n_agents, mixing.n_agents))
