"""Loops that follow from a layout: what an update need not write itself."""

from __future__ import annotations

import functools
from collections.abc import Callable

from ddol.compiled import column, inner


@functools.cache
def messages(rows: tuple[int, ...]) -> tuple[Callable, Callable]:
    """Send some rows as they are, and adopt what comes back."""
    count = len(rows)

    def to_message(w, s, p, index, n, D, out):
        for k in range(count):
            for j in range(n):
                out[k * n + j] = w[rows[k] * D + column(index, j)]

    def from_message(w, s, p, index, n, D, averaged):
        for k in range(count):
            for j in range(n):
                w[rows[k] * D + column(index, j)] = averaged[k * n + j]

    return to_message, from_message


@functools.cache
def absorb(step: Callable) -> Callable:
    """Take a step that only adds on rows that begin at 0, and are added later."""
    taken = inner(step)

    def absorb(w, s, p, delta, maxima, x, index, n, D, g, eta, weight):
        taken(delta, s, p, x, index, n, D, g, eta, weight)

    return absorb


def absorb_gradient(w, s, p, delta, maxima, x, index, n, D, g, eta, weight):
    """Collect −η·g·x in one row, for an update that knows how to commit it."""
    for j in range(n):
        delta[column(index, j)] -= eta * weight * g * x[j]


@functools.cache
def commit(rows: int) -> Callable:
    """Add what steps collected."""

    def commit(w, s, p, delta, maxima, index, n, D, eta):
        for k in range(rows):
            for j in range(n):
                d = k * D + column(index, j)
                w[d] += delta[d]
                delta[d] = 0.0

    return commit


def weights(w, s, p, index, n, D, out):
    """The first row is the weights."""
    for j in range(n):
        out[j] = w[column(index, j)]
