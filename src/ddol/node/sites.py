"""What sharing does for the site of a node: how its own learner, the shared one and their mixture do."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ddol.node.agent import LiveAgent
from ddol.update import mixtures as at
from ddol.update.losses import REGRESSION
from ddol.update.safe import Safe

_SURE = math.log(20.0)
"""Logarithm of a bettor's capital at which its bet is believed: it errs once in 20 times."""


def site_of(agent: LiveAgent) -> dict[str, Any]:
    """The row of a safe node in the table of sites; nothing where the node is not safe, or has no label yet.

    Errors are at the weights of when a label came; of several classes, the mean over one against all.

    Examples
    --------
    >>> import ddol
    >>> node = ddol.Node("eu")
    >>> for k in range(100):
    ...     node.learn({"x": k % 2}, bool(k % 2))
    >>> site = node.state()["sites"]
    >>> site["helped"], site["error_alone"] < 0.1
    ('unclear', True)
    """
    player, algorithm = agent.learning.player, agent.learning.algorithm
    update = algorithm.update
    if not algorithm.safe or player is None or not hasattr(update, "mixture_of"):
        return {}
    mixture: Safe = update  # type: ignore[assignment]
    numbers = mixture.mixture_of(player.state.scalars[0])
    places, count = mixture.places, float(numbers[0, at.COUNT])
    if count == 0.0:
        return {}
    weights = numbers[:, places.weights : places.weights + places.experts]
    losses = numbers[:, places.losses : places.losses + places.experts]
    found = {
        "loss": float(numbers[:, at.LOSS].sum()),
        "loss_alone": float(losses[:, 0].sum()),
        "loss_shared": float(losses[:, -1].sum()),
        "weight_shared": float(np.mean(weights @ mixture.opinions[:, 0])),
        "helped": _helped(numbers),
    }
    if algorithm.loss.task != REGRESSION:
        wrong = numbers[:, [at.WRONG_ALONE, at.WRONG_SHARED]].mean(axis=0) / count
        found |= {"error_alone": float(wrong[0]), "error_shared": float(wrong[1])}
    return found


def _helped(numbers: np.ndarray) -> str:
    helps, harms = numbers[:, at.HELPS].max(), numbers[:, at.HARMS].max()
    if helps > _SURE:
        return "yes"
    return "no" if harms > _SURE else "unclear"


def figures(agent: LiveAgent) -> dict[str, Any]:
    """How an agent does, as plain values."""
    n, labels = max(agent.examples, 1), agent.labels
    total = agent.loss_sum if agent.regression else agent.mistakes
    features = agent.features
    return {
        "name": agent.name,
        "algorithm": agent.learning.algorithm.name,
        "classes": list(labels.classes),
        "examples": agent.examples,
        "answers": agent.answers,
        "error": total / n,
        "error_window": agent.window_sum / max(len(agent.window), 1),
        "waiting": len(agent.room),
        "expired": agent.room.expired,
        "features": len(features.names) or features.width - 1,
        "sites": {"name": agent.name, "examples": agent.examples, "error": total / n}
        | site_of(agent),
    }
