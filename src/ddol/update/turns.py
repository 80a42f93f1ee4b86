"""A turn of an agent that learns alone, as one function: from a score to the step, and to the next score.

Every score waits for the step before it. Called one by one, loss and loops would make it wait for the
calls, too; together they are compiled to code in which only the arithmetic is left to wait for.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

from ddol.compiled import inner

SHORT = 128
"""Rows of fewer values are stepped along even where the slope is 0: a wrong guess would cost more."""

ARGUMENTS = (
    "w, s, p, x, index, n, D, z, y, q, importance, eta, l2, learns, total, "
    "following, next_index, next_n"
)
NUMBERS = ("z", "y", "importance", "eta", "l2")
COUNTS = ("n", "D", "learns", "next_n")


class Parts(NamedTuple):
    """What a turn is made of: loops of an update, and the two functions of a loss."""

    score: Callable
    step: Callable
    begin: Callable | None
    squares: Callable | None
    step_and_score: Callable | None
    value: Callable
    derivative: Callable


@functools.cache
def turn(parts: Parts, branchless: bool, ones: int) -> Callable:
    """Learn from the answer y to a row whose score was z, and score the row that follows.

    The objective of the round is added to ``total``. Where nothing is to be learned, the importance is 0, and
    the state stays as it is. In front of every row is a 1 that is not stored, where `ones` is 1: only a
    `step_and_score` that is written knows about it.
    """
    begin, squares, value, derivative, go_on = (
        inner(part, inlined=True)
        for part in (
            parts.begin or _nothing,
            parts.squares or _no_squares,
            parts.value,
            parts.derivative,
            parts.step_and_score or _one_by_one(parts.score, parts.step, branchless),
        )
    )

    def turn(
        w,
        s,
        p,
        x,
        index,
        n,
        D,
        z,
        y,
        q,
        importance,
        eta,
        l2,
        learns,
        total,
        following,
        next_index,
        next_n,
    ):
        if learns:
            total[0] += 0.5 * l2 * squares(w, s, p, D) + importance * value(z, y, q)
            begin(w, s, p, D, eta, 1.0)
        g, there = derivative(z, y, q), (w, s, p, x, index, n, D)
        return go_on(*there, z, g, eta, importance, ones, following, next_index, next_n)

    return turn


@functools.cache
def _one_by_one(score: Callable, step: Callable, branchless: bool) -> Callable:
    scored, stepped = inner(score), inner(step)

    def step_and_score(
        w, s, p, x, index, n, D, z, g, eta, weight, ones, following, next_index, next_n
    ):
        g *= weight
        if (branchless and n < SHORT) or g != 0.0:
            stepped(w, s, p, x, index, n, D, g, eta, 1.0)
        return scored(w, s, p, following, next_index, next_n, D, 0.0)

    return step_and_score


def _nothing(w, s, p, D, eta, weight):
    """Where nothing is to begin."""


def _no_squares(w, s, p, D):
    return 0.0
