"""Simulated liars: agents that send false messages, or learn from false labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ddol.streams.errors import DataError

FLIP, ZERO, NOISE, ALIE = "flip", "zero", "noise", "alie"
"""Lies about messages; `noise` is of size 10⁹."""
LABELS, UNITS = "labels", "units"
"""Lies about data: labels of another class, and features times a number."""
_GRAMMAR = "agents:KIND such as 0,5:flip, with flip, zero, noise, alie, labels or units:NUMBER"
_SIZE = 1e9

Lie = str | Callable[[np.ndarray, np.ndarray], Any]


def liars_of(value: Any) -> dict[int, Lie]:
    """Which agents lie, and how.

    Parameters
    ----------
    value : None, dict of agent and lie, or text
        A lie is one of `flip` (−10 times the mean message of the honest), `zero`, `noise`, `alie` (their
        mean less 1.5 deviations), `labels`, `units:1000`, or a function of the agent's own message and
        that mean.

    Examples
    --------
    >>> liars_of("0,5:flip;2:units:1000")
    {0: 'flip', 5: 'flip', 2: 'units:1000'}
    """
    if value is None:
        return {}
    pairs = value.items() if isinstance(value, Mapping) else _read(str(value))
    found: dict[int, Lie] = {}
    for agent, lie in pairs:
        if isinstance(agent, bool) or int(agent) != agent or agent < 0:
            raise ValueError(f"`liars`: found agent {agent!r}, expected a number from 0")
        found[int(agent)] = lie if callable(lie) else _checked(str(lie))
    return found


def _read(text: str) -> list[tuple[int, str]]:
    pairs = []
    for part in filter(None, text.replace(" ", "").split(";")):
        agents, colon, lie = part.partition(":")
        if not colon or not all(agent.isdigit() for agent in agents.split(",")):
            raise ValueError(f"`liars`: found {part!r}, expected {_GRAMMAR}")
        pairs += [(int(agent), lie) for agent in agents.split(",")]
    return pairs


def _checked(lie: str) -> str:
    kind, _, number = lie.partition(":")
    try:
        known = kind == UNITS and np.isfinite(float(number))
    except ValueError:
        known = False
    if not known and lie not in (FLIP, ZERO, NOISE, ALIE, LABELS):
        raise ValueError(f"`liars`: found {lie!r}, expected {_GRAMMAR}")
    return lie


def about_data(lie: Lie) -> bool:
    """Whether a lie is about the data, so that messages are what the agent believes."""
    return isinstance(lie, str) and (lie == LABELS or lie.startswith(UNITS))


def message_of(
    lie: Lie, own: np.ndarray, honest: np.ndarray, seed: tuple[int, int, int]
) -> np.ndarray:
    """The message that a liar sends in the place of its own.

    Parameters
    ----------
    lie : str or function
    own : (numbers,)
    honest : (agents, numbers)
        What those who do not lie would send now.
    seed : of the noise

    Examples
    --------
    >>> message_of("flip", np.array([1.0]), np.array([[1.0], [3.0]]), (0, 0, 0))
    array([-20.])
    """
    mean = honest.mean(axis=0) if len(honest) else own
    if callable(lie):
        try:
            found = np.asarray(lie(own.copy(), mean), float)
        except Exception as error:
            raise DataError(
                f"`liars`: the function failed: {error!r}; expected f(own, mean)"
            ) from error
        if found.shape != own.shape:
            raise DataError(
                f"`liars`: the function gave numbers {found.shape}, expected {own.shape} as its own message"
            )
        return found
    if lie == ZERO:
        return np.zeros_like(own)
    if lie == NOISE:
        return _SIZE * np.random.default_rng(seed).standard_normal(own.shape)
    if lie == ALIE:
        spread = honest.std(axis=0) if len(honest) else np.zeros_like(own)
        return np.asarray(mean - 1.5 * spread)
    return np.asarray(-10.0 * mean)
