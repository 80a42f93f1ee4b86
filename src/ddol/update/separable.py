"""Loops of any mirror map that works feature by feature: the form in which users write their own.

Rows: θ and w. The two link functions are compiled on their own; their addresses travel among the
parameters, as the bits of two numbers, and the loops call them from there.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ddol.compiled import address_of, bits, call_float, column, inner
from ddol.update.contract import ADD, LINEAR, Layout, Loops

L2, TO_PRIMAL, TO_DUAL, OWN = 0, 1, 2, 3
LAYOUT = Layout(rows=("theta", "w"), message=(LINEAR,), collected=1)


def as_number(address: int) -> float:
    """Give an address the type of a parameter."""
    return float(np.int64(address).view(np.float64))


@inner
def _primal(p, theta):
    return call_float(bits(p[TO_PRIMAL]), (theta, address_of(p, OWN)))


def score(w, s, p, x, index, n, D, which):
    total = 0.0
    for j in range(n):
        total += w[D + column(index, j)] * x[j]
    return total


def begin(w, s, p, D, eta, weight):
    if p[L2] == 0.0:
        return
    for d in range(D):
        w[d] -= eta * weight * p[L2] * w[D + d]
        w[D + d] = _primal(p, w[d])


def step(w, s, p, x, index, n, D, g, eta, weight):
    for j in range(n):
        d = column(index, j)
        w[d] -= eta * weight * g * x[j]
        w[D + d] = _primal(p, w[d])


def commit(w, s, p, delta, maxima, index, n, D, eta):
    for j in range(n):
        d = column(index, j)
        w[d] += delta[d]
        w[D + d] = _primal(p, w[d])
        delta[d] = 0.0


def to_message(w, s, p, index, n, D, out):
    for j in range(n):
        out[j] = w[column(index, j)]


def from_message(w, s, p, index, n, D, averaged):
    for j in range(n):
        d = column(index, j)
        w[d] = averaged[j]
        w[D + d] = _primal(p, w[d])


def to_primal_message(w, s, p, index, n, D, out):
    for j in range(n):
        out[j] = w[D + column(index, j)]


def from_primal_message(w, s, p, index, n, D, averaged):
    for j in range(n):
        d = column(index, j)
        w[D + d] = averaged[j]
        w[d] = call_float(bits(p[TO_DUAL]), (averaged[j], address_of(p, OWN)))


_OWN = score, step, begin, commit, to_message, from_message
LOOPS = Loops.of(*_OWN, weights=to_primal_message, additive=True, shared=ADD)
PRIMAL_LOOPS = replace(
    LOOPS, to_message=to_primal_message, from_message=from_primal_message, shared=None
)
