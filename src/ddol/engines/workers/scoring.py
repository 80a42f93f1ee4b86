"""Scores of rows by a state that stays as it is: what the learner would have predicted then."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ddol.algorithm import Algorithm
from ddol.engines.kernels import Examples, read_products
from ddol.engines.state import start_state
from ddol.engines.workers.worker import KernelWorker, Partition, addresses
from ddol.streams.rows import Rows


def scores(algorithm: Algorithm, theta: np.ndarray, scalars: np.ndarray, rows: Rows) -> np.ndarray:
    """Scores (copies, n, outputs) of rows, through the update's own loop, as if each was observed first.

    Parameters
    ----------
    algorithm : Algorithm
    theta, scalars : arrays (copies, outputs, rows, D) and (copies, outputs, scalars)
        As in `ddol.engines.state.State`; some of the copies will do.
    rows : Rows
        With at most D features.

    Examples
    --------
    >>> from ddol.engines.local import advance
    >>> from ddol.presets import dogd
    >>> from ddol.streams.rows import Block
    >>> algorithm = dogd(l2=0.0).on(2)
    >>> rows = Rows.from_dense([[1.0, 0.0], [0.0, 2.0]], [1.0, -1.0])
    >>> state = advance(algorithm, start_state(algorithm, 2), Block(rows, np.array([[[0], [1]]])))
    >>> scores(algorithm, state.theta, state.scalars, rows).tolist()
    [[[0.5], [-2.0]]]
    """
    D = theta.shape[3]
    if rows.n_features > D:
        raise ValueError(f"found rows of {rows.n_features} features, expected at most {D}")
    alone = replace(algorithm, delay=0, batch=1, period=1).on(1)
    empty = start_state(alone, 1)
    found = []
    for copy in range(len(theta)):
        own = replace(
            empty,
            theta=np.ascontiguousarray(theta[copy : copy + 1], float),
            scalars=np.ascontiguousarray(scalars[copy : copy + 1], float),
        )
        found.append(KernelWorker(alone, own, Partition(0, 1)).scores(rows))
    return np.stack(found)


def products(rows: Rows, weights: np.ndarray) -> np.ndarray:
    """Scores (n, outputs) of rows where they are products of weights (outputs, D) and features.

    Examples
    --------
    >>> rows = Rows.from_dense([[1.0, 0.0], [0.0, 2.0]], [1.0, -1.0]).with_intercept(stored=False)
    >>> products(rows, np.array([[0.5, 1.0, 1.0]])).tolist()
    [[1.5], [2.5]]
    """
    if rows.dense:
        X, first = rows.data.reshape(len(rows), rows.n_stored), int(rows.intercept)
        found = X @ weights[:, first:].T
        return found + weights[:, 0] if rows.intercept else found
    out, given = np.empty((len(rows), len(weights))), np.ascontiguousarray(weights, float)
    nothing = {**dict.fromkeys(Examples._fields, 0), "ones": int(rows.intercept)}
    read_products(Examples(**nothing | addresses(rows)), len(rows), given, out.ctypes.data)
    return out
