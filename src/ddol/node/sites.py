"""Whether sharing helps the site of a node: errors of its own learner, the shared one and their mixture."""

from __future__ import annotations

from typing import Any

from ddol.measure.sites import site_row
from ddol.node.agent import LiveAgent

_UNKNOWN = (
    "error_alone", "error_shared", "loss_alone", "loss_shared", "loss", "weight_shared", "bound",
)  # fmt: skip


def site_of(agent: LiveAgent) -> dict[str, Any]:
    """The row of a node in the table of sites, with the keys that ``ddol train --json`` has.

    What is not known is None: before the first label, and where the node is not safe.

    Examples
    --------
    >>> import ddol
    >>> node = ddol.Node("eu")
    >>> for k in range(100):
    ...     node.learn({"x": k % 2}, bool(k % 2))
    >>> site = node.state()["sites"]
    >>> site["helped"], site["error_alone"] < 0.1, site["loss"] < site["loss_alone"] + site["bound"]
    ('unclear', True, True)
    """
    learning, n = agent.learning, agent.examples
    row = {"name": agent.name, "examples": n, "error": _error(agent)}
    update: Any = learning.algorithm.update
    if learning.player is None or not hasattr(update, "mixture_of") or not n:
        return row | dict.fromkeys(_UNKNOWN) | {"helped": "unclear"}
    mixture = update.mixture_of(learning.player.state.scalars[0])
    return {"name": agent.name} | site_row(learning.algorithm, mixture, n, agent.mistakes) | row


def privacy_of(agent: LiveAgent) -> dict[str, Any]:
    """How much of its privacy budget a node has spent; nothing where it has none."""
    budget: Any = agent.learning.algorithm.privacy
    if budget is None:
        return {}
    now = budget.after(released_by(agent))
    return {"privacy": {"epsilon": budget.epsilon, "delta": budget.delta, **now}}


def released_by(agent: LiveAgent) -> int:
    """Releases of a node with a privacy budget; 0 without one."""
    algorithm: Any = agent.learning.algorithm
    player = agent.learning.player
    if algorithm.privacy is None or player is None:
        return 0
    _, scalars = algorithm.update.part_of(player.state.theta[0], player.state.scalars[0], 0)
    return int(algorithm.update.learner.released(scalars))


def _error(agent: LiveAgent) -> float:
    """Progressive error; of a regression, the mean squared error."""
    total = agent.loss_sum if agent.regression else agent.mistakes
    return total / max(agent.examples, 1)


def figures(agent: LiveAgent) -> dict[str, Any]:
    """Metrics of an agent, as plain values."""
    labels, features = agent.labels, agent.features
    columns = features.n_values if features.dense else None
    if features.bits is not None:
        columns = 1 << features.bits
    return {
        "name": agent.name,
        "algorithm": agent.learning.algorithm.name,
        "classes": list(labels.classes),
        "examples": agent.examples,
        "answers": agent.answers,
        "error": _error(agent),
        "error_window": agent.window_sum / max(len(agent.window), 1),
        "waiting": len(agent.room),
        "expired": agent.room.expired,
        "features": len(features.names) if columns is None else columns,
        **privacy_of(agent),
        "sites": site_of(agent),
    }
