"""Safe together, and privately: any algorithm, with a learner of one's own beside the shared one."""

from __future__ import annotations

from dataclasses import replace

from ddol.algorithm import Algorithm
from ddol.update.budget import Budget


def safe(algorithm: Algorithm) -> Algorithm:
    """Let every agent keep a learner of its own beside the shared one, and predict with a mixture of both.

    Whatever its neighbours send, an agent's loss exceeds that of learning alone, and that of sharing, by a
    few nats over the whole run (theory.md §9): the price of not having to know beforehand whom to trust.

    Parameters
    ----------
    algorithm : Algorithm
        One that learns from the slope of a loss.

    Examples
    --------
    >>> import ddol, numpy as np
    >>> X = np.random.default_rng(0).standard_normal((2000, 4)); y = np.sign(X @ [1.0, -2.0, 0.5, 0.0])
    >>> y[::4] *= -1.0  # agent 0 has other labels than the three others
    >>> trace = ddol.run(ddol.safe(ddol.adaptive("logistic")), (X, y), 4)
    >>> trace.error < 0.1 < ddol.run(ddol.adaptive("logistic"), (X, y), 4).error
    True
    """
    _check(algorithm, "safe")
    return replace(algorithm, safe=True)


def private(algorithm: Algorithm, privacy: Budget | str) -> Algorithm:
    """Let every agent send what is differentially private, and keep a learner of its own without noise.

    A weighted majority predicts, as in `safe`, so noise costs an agent a few nats at most over the whole
    run. Labels, names of columns, and (but for public rows) scales must be known beforehand.

    Parameters
    ----------
    algorithm : Algorithm
        What agents learn with alone.
    privacy : str, or Budget
        Such as "epsilon:4", or "epsilon:4,delta:1e-6,every:100,releases:256,public:50".

    Examples
    --------
    >>> import ddol, numpy as np
    >>> X = np.random.default_rng(0).standard_normal((2000, 4)); y = np.sign(X @ [1.0, -2.0, 0.5, 0.0])
    >>> trace = ddol.run(ddol.private(ddol.adaptive(), "epsilon:8,releases:16"), (X, y), 4)
    >>> trace.error < 0.1, [0.0 < spent < 8.0 for spent in trace.privacy["spent"]]
    (True, [True, True, True, True])
    """
    _check(algorithm, "private")
    return replace(algorithm, privacy=privacy)


def _check(algorithm: Algorithm, of: str) -> None:
    if not isinstance(algorithm, Algorithm):
        raise TypeError(
            f"{of}: found {algorithm!r}, expected an algorithm such as ddol.adaptive('logistic')"
        )
