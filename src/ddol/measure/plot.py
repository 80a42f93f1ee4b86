"""Curves of a trace, drawn with matplotlib (extra ``plot``)."""

from __future__ import annotations

from typing import Any

import numpy as np


def pyplot() -> Any:
    """matplotlib.pyplot, or an error that names the extra."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            "plots need matplotlib; install it with: pip install 'ddol[plot]'"
        ) from error
    return plt


def plot_trace(
    trace: Any, ax: Any = None, what: str = "mistakes", against: str = "examples"
) -> Any:
    """Error rate, mean loss or consensus distance against the examples seen, or the rounds."""
    curves = trace.curves
    places = {
        "examples": (curves.examples, "examples seen by all agents"),
        "rounds": (curves.rounds, "rounds (examples seen by each agent)"),
    }
    if against not in places:
        raise ValueError(f"`against` is {against!r}; use one of {', '.join(places)}")
    seen = np.maximum(curves.examples, 1)
    choices = {
        "mistakes": (100 * curves.mistakes / seen, "mistakes so far, %"),
        "loss": (curves.loss / seen, "mean loss so far"),
        "consensus": (curves.consensus, "consensus distance"),
    }
    if what not in choices:
        raise ValueError(f"`what` is {what!r}; use one of {', '.join(choices)}")
    values, label = choices[what]
    if ax is None:
        _, ax = pyplot().subplots(figsize=(6, 3.6), layout="constrained")
    agents = "1 agent" if trace.agents == 1 else f"{trace.agents} agents, {trace.topology}"
    ax.plot(places[against][0], values, label=f"{trace.name}, {agents}")
    ax.set_xscale("log")
    ax.set_xlabel(places[against][1])
    ax.set_ylabel(label)
    ax.grid(alpha=0.25)
    ax.legend(frameon=False)
    return ax
