"""Domains: the set W that weights are projected back onto.

Each mirror map has its own Bregman projection; `ddol.update.mirrors` says which pairs have a closed form.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

EVERYWHERE, L2_BALL, L1_BALL, SIMPLEX, NORM_BALL = (
    "everywhere",
    "l2_ball",
    "l1_ball",
    "simplex",
    "norm_ball",
)


@dataclass(frozen=True)
class Domain:
    """A convex set, by its kind and radius.

    Examples
    --------
    >>> l1_ball(10.0)
    Domain(kind='l1_ball', radius=10.0)
    >>> l2_ball(0)
    Traceback (most recent call last):
    ValueError: `radius` of l2_ball must be a positive number, it is 0
    """

    kind: str
    radius: float = math.inf

    def __post_init__(self) -> None:
        unbounded = self.kind == EVERYWHERE
        if not unbounded and not 0.0 < self.radius < math.inf:
            raise ValueError(
                f"`radius` of {self.kind} must be a positive number, it is {self.radius}"
            )


everywhere = Domain(EVERYWHERE)


def l2_ball(radius: float = 1.0) -> Domain:
    """{w : ‖w‖₂ ≤ radius}."""
    return Domain(L2_BALL, radius)


def l1_ball(radius: float = 1.0) -> Domain:
    """{w : ‖w‖₁ ≤ radius}."""
    return Domain(L1_BALL, radius)


def simplex(radius: float = 1.0) -> Domain:
    """{w ≥ 0 : Σ w = radius}."""
    return Domain(SIMPLEX, radius)


def norm_ball(radius: float = 1.0) -> Domain:
    """{w : ‖w‖_p ≤ radius}, in the norm of the p-norm mirror itself."""
    return Domain(NORM_BALL, radius)
