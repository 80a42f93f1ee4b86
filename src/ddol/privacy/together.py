"""Several private sites on a graph: what a budget costs, in errors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ddol.communicate.mixing import Mixing
from ddol.privacy.budget import Budget
from ddol.privacy.site import Known, PrivateSite


@dataclass(frozen=True)
class Private:
    """Settings of a run: the budget, examples between two releases, the rate of the shared learner.

    Examples
    --------
    >>> Private(Budget(4.0), every=100).rate
    16.0
    """

    budget: Budget | None
    """None: shared without noise, and without a promise, to compare with."""
    every: int = 50
    rate: float = 16.0


@dataclass(frozen=True)
class Result:
    """Progressive errors, and log losses in nats, of all sites together.

    Examples
    --------
    >>> Result(0.1, 0.2, 0.1, 0.3, 0.4, 0.3, 4.0).mixed
    0.1
    """

    alone: float
    shared: float
    mixed: float
    loss_alone: float
    loss_shared: float
    loss_mixed: float
    spent: float


def learn_privately(
    settings: Private,
    known: Known,
    X: np.ndarray,
    y: np.ndarray,
    mixing: Mixing,
    rng: np.random.Generator | None = None,
) -> Result:
    """Deal rows in turn to the sites of a mixing matrix, who learn, release and average.

    Examples
    --------
    >>> from ddol import complete, metropolis
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((4000, 3)); y = np.sign(X[:, 0])
    >>> known = Known(np.zeros(3), np.ones(3))
    >>> found = learn_privately(Private(Budget(4.0, releases=10), 100), known, X, y, metropolis(complete(4)))
    >>> bool(found.loss_mixed <= found.loss_alone + (np.log(3) + np.log(1000)) / 1000)
    True
    """
    n = mixing.n_agents
    budget = settings.budget or Budget(1e6, releases=max(len(y) // n // settings.every, 1))
    draws = [None] * n if rng is None else rng.spawn(n)
    sites = [PrivateSite(known, budget, settings.every, settings.rate, each) for each in draws]
    W = mixing.dense()
    wrong, loss, count = np.zeros(4), np.zeros(4), len(y) // n * n
    for t in range(count // n):
        for i, site in enumerate(sites):
            answer = y[t * n + i]
            said = site.learn(X[t * n + i], answer)
            positive = answer == known.classes[1]
            wrong += (said >= 0.5) != positive
            loss -= np.log(said if positive else 1.0 - said)
        if (t + 1) % settings.every == 0:
            for site, dual in zip(sites, W @ np.array([s.message() for s in sites]), strict=True):
                site.mix(dual)
    error, mean = wrong / count, loss / count
    return Result(error[0], error[2], error[3], mean[0], mean[2], mean[3], sites[0].spent)
