"""Weighted averages over the neighbourhood, in plain NumPy, as the reference computes them.

Values are per agent along axis 0; any number of axes may follow.
"""

from __future__ import annotations

import numpy as np

from ddol.communicate.graph import FloatArray
from ddol.communicate.mixing import Mixing


def linear(mixing: Mixing, values: FloatArray) -> FloatArray:
    """Average in the space of the values: Σ_j A_ij v_j.

    On log-weights this is the geometric mean of the paper's DWM-I and DOEG, on weights the
    arithmetic mean of DOGD.

    Examples
    --------
    >>> import numpy as np
    >>> from ddol.communicate.mixing import uniform
    >>> from ddol.communicate.topologies import path
    >>> linear(uniform(path(3)), np.array([0.0, 3.0, 6.0])).tolist()
    [1.5, 3.0, 4.5]
    """
    check_agents(mixing, values)
    if mixing.is_uniform_complete:
        return _shared(values.mean(axis=0), values)
    out = np.empty_like(values, dtype=np.float64)
    for agent in range(mixing.n_agents):
        near, weights = mixing.row(agent)
        out[agent] = np.tensordot(weights, values[near], axes=1)
    return out


def log_mean_exp(mixing: Mixing, values: FloatArray) -> FloatArray:
    """Average what the values are logarithms of: log Σ_j A_ij exp(v_j).

    This is the arithmetic mean of DWM-A, taken on log-weights. The largest value of each coordinate
    is subtracted first, so that nothing overflows and the largest term never underflows.

    Examples
    --------
    >>> import numpy as np
    >>> from ddol.communicate.mixing import uniform
    >>> from ddol.communicate.topologies import complete
    >>> log_mean_exp(uniform(complete(2)), np.array([-1000.0, -1000.0])).tolist()
    [-1000.0, -1000.0]
    """
    check_agents(mixing, values)
    if mixing.is_uniform_complete:
        everyone = np.full(mixing.n_agents, 1 / mixing.n_agents)
        return _shared(_log_weighted_sum(everyone, values), values)
    out = np.empty_like(values, dtype=np.float64)
    for agent in range(mixing.n_agents):
        near, weights = mixing.row(agent)
        heard = weights > 0
        out[agent] = _log_weighted_sum(weights[heard], values[near[heard]])
    return out


def largest(mixing: Mixing, values: FloatArray) -> FloatArray:
    """Take the largest value in the neighbourhood: max of v_j over j with A_ij > 0.

    Examples
    --------
    >>> import numpy as np
    >>> from ddol.communicate.mixing import uniform
    >>> from ddol.communicate.topologies import path
    >>> largest(uniform(path(4)), np.array([1.0, 2.0, 3.0, 4.0])).tolist()
    [2.0, 3.0, 4.0, 4.0]
    """
    check_agents(mixing, values)
    if mixing.is_uniform_complete:
        return _shared(values.max(axis=0), values)
    out = np.empty_like(values, dtype=np.float64)
    for agent in range(mixing.n_agents):
        near, weights = mixing.row(agent)
        out[agent] = values[near[weights > 0]].max(axis=0)
    return out


def check_agents(mixing: Mixing, values: FloatArray) -> None:
    """Refuse values whose first axis is not the agents of the mixing."""
    if values.ndim == 0 or values.shape[0] != mixing.n_agents:
        raise ValueError(
            f"`values` must have one row for each of {mixing.n_agents} agents, "
            f"got shape {values.shape}"
        )


def _shared(one: FloatArray, values: FloatArray) -> FloatArray:
    return np.broadcast_to(one, values.shape).astype(np.float64)


def _log_weighted_sum(weights: FloatArray, values: FloatArray) -> FloatArray:
    top = values.max(axis=0)
    # Where every value is −inf (weight 0 everywhere) −inf − −inf would be NaN.
    top = np.where(np.isneginf(top), 0.0, top)
    with np.errstate(divide="ignore"):
        return top + np.log(np.tensordot(weights, np.exp(values - top), axes=1))
