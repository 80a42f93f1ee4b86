"""Rates: the step size η_t of round t = 1, 2, …

A rate is any callable of the round, and the same for all agents unless it is `PerAgent`. It is evaluated
outside the kernel, a block of rounds at a time, so it needs no compilation: one that takes arrays is called
once a block, any other once a round.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

Rate = Callable[[Any], Any]


@dataclass(frozen=True)
class Power:
    """η_t = η₀ · t^(−exponent).

    Examples
    --------
    >>> inverse_sqrt(2.0)(np.array([1, 4]))
    array([2., 1.])
    """

    scale: float
    exponent: float

    def __post_init__(self) -> None:
        if not isinstance(self.scale, Real) or not 0.0 < self.scale < math.inf:
            raise ValueError(
                f"`rate` must be a positive number or a function of the round, it is {self.scale!r}"
            )

    def __call__(self, t: np.ndarray) -> np.ndarray:
        """Values of rounds t."""
        return self.scale / np.asarray(t, float) ** self.exponent

    def __str__(self) -> str:
        known = {0.0: "", 0.5: "/√t", 1.0: "/t"}
        return f"{self.scale:g}" + known.get(self.exponent, f"/t^{self.exponent:g}")


def constant(rate: float = 1.0) -> Power:
    """η_t = η₀."""
    return Power(rate, 0.0)


def inverse_sqrt(rate: float = 1.0) -> Power:
    """η_t = η₀/√t, the paper's."""
    return Power(rate, 0.5)


def inverse(rate: float = 1.0) -> Power:
    """η_t = η₀/t, for strongly convex objectives."""
    return Power(rate, 1.0)


@dataclass(frozen=True)
class PerAgent:
    """Agent i steps by factor_i · η_t.

    Parameters
    ----------
    rate : callable of the round
        η_t, the same for all agents.
    factors : one positive number for each agent

    Examples
    --------
    >>> str(PerAgent(inverse_sqrt(1.0), (0.5, 2.0)))
    '(0.5, 2) × 1/√t'
    """

    rate: Rate
    factors: tuple[float, ...]

    def __post_init__(self) -> None:
        given = tuple(map(float, self.factors))
        object.__setattr__(self, "factors", given)
        if not given or not all(0.0 < factor < math.inf for factor in given):
            raise ValueError(f"`rate` must be a positive number for each agent, it is {given}")

    def __call__(self, t: Any) -> Any:
        """Values of rounds t that all agents have in common."""
        return self.rate(t)

    def __str__(self) -> str:
        some = ", ".join(f"{factor:g}" for factor in self.factors[:4])
        return f"({some}{', …' if len(self.factors) > 4 else ''}) × {self.rate}"


def agent_rate(rate: Rate, agent: int, value: float) -> float:
    """What one agent makes of the common ``value`` of a rate."""
    return value * rate.factors[agent] if isinstance(rate, PerAgent) else value


@dataclass(frozen=True)
class Later:
    """A rate as it is after some rounds: η_{t + rounds}."""

    rate: Rate
    rounds: int

    def __call__(self, t: Any) -> Any:
        """Values of rounds t."""
        return self.rate(t + self.rounds)


def later(rate: Rate, rounds: int) -> Rate:
    """The rate of a run that goes on after so many rounds.

    Examples
    --------
    >>> float(later(inverse_sqrt(2.0), 3)(1))
    1.0
    """
    if isinstance(rate, PerAgent):
        return PerAgent(later(rate.rate, rounds), rate.factors)
    if rounds == 0 or (isinstance(rate, Power) and rate.exponent == 0.0):
        return rate
    return Later(rate, rounds)


def evaluate(rate: Rate, first: int, rounds: int) -> np.ndarray:
    """Values of ``rate`` in the rounds ``first``, …, ``first + rounds − 1``, checked.

    Examples
    --------
    >>> evaluate(lambda t: 1 / t if t > 1 else 2.0, 1, 3)
    array([2.        , 0.5       , 0.33333333])
    """
    t = np.arange(first, first + rounds)
    if isinstance(rate, PerAgent):
        return evaluate(rate.rate, first, rounds)
    if isinstance(rate, Power):  # finite and positive for every round
        return rate(t)
    values = _on_array(rate, t)
    if values is None:
        values = np.array([_on_round(rate, int(round_)) for round_ in t], float)
    bad = np.flatnonzero(~(np.isfinite(values) & (values >= 0.0)))
    if bad.size:
        raise ValueError(
            f"`rate` gave {values[bad[0]]} in round {t[bad[0]]}, expected a finite number ≥ 0"
        )
    return values


def _on_array(rate: Rate, t: np.ndarray) -> np.ndarray | None:
    """All rounds in one call, or None where the rate takes one round at a time."""
    # One round more than asked for: a function of one number would take an array of one.
    more = np.append(t, t[-1:] + 1)
    try:
        values = np.asarray(rate(more), float)
    except Exception:  # whatever a function of one number raises when it is given many
        return None
    return values[: len(t)] if values.shape == more.shape else None


def _on_round(rate: Rate, t: int) -> float:
    try:
        return float(rate(t))
    except TypeError as error:
        name = getattr(rate, "__name__", repr(rate))
        raise TypeError(
            f"`rate` function {name} failed in round {t}: {error}; expected a function of the "
            "round t = 1, 2, … that returns a number"
        ) from error


def shaped(rate: Any, shape: Callable[[float], Rate]) -> Rate:
    """A rate as a function of the round: a number, or one for each agent, of this shape.

    Examples
    --------
    >>> shaped(0.5, constant) == constant(0.5)
    True
    """
    if callable(rate):
        return rate
    return PerAgent(shape(1.0), tuple(rate)) if np.ndim(rate) else shape(rate)
