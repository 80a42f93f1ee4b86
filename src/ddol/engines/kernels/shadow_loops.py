"""Loops of a shadow: those of the Euclidean update, or of weights on both sides on the L1 ball.

In the place of scores of what is not seen they have the dual norm of a row, squared; in that of the squared
norm the entropy has its smallest weight. Scalars of the entropy: weights are FACTOR times what is stored,
whose sum is SIZE and whose smallest is LEAST. The update's own loops, which keep logarithms, do not know it.
"""

from __future__ import annotations

import math
from dataclasses import replace

from ddol.compiled import column, inner
from ddol.update import linear
from ddol.update.contract import Loops

FACTOR, SIZE, TOUCHED, LEAST = range(4)
RADIUS = 0


def _row_squares(w, s, p, x, index, n, D, which):
    """‖row‖₂²."""
    total = 0.0
    for j in range(n):
        total += x[j] * x[j]
    return total


def _row_largest(w, s, p, x, index, n, D, which):
    """‖row‖_∞²."""
    largest = 0.0
    for j in range(n):
        largest = max(largest, abs(x[j]))
    return largest * largest


def _score(w, s, p, x, index, n, D, which):
    total = 0.0
    for j in range(n):
        d = column(index, j)
        total += x[j] * (w[d] - w[D + d])
    return total * s[FACTOR]


def _step(w, s, p, x, index, n, D, g, eta, weight):
    gained, least = 0.0, s[LEAST]
    for j in range(n):
        d = column(index, j)
        growth = math.exp(-eta * g * x[j])
        up, down = w[d] * growth, w[D + d] / growth
        gained += up - w[d] + (down - w[D + d])
        w[d], w[D + d] = up, down
        least = min(least, min(up, down))
    s[SIZE] += gained
    s[LEAST] = least
    s[TOUCHED] += n


@inner
def _multiply_out(w, s, D):
    """Let the factor be 1, and sum up anew: sums lose digits by and by."""
    total, least = 0.0, math.inf
    for d in range(2 * D):
        w[d] *= s[FACTOR]
        total += w[d]
        least = min(least, w[d])
    s[FACTOR], s[SIZE], s[TOUCHED], s[LEAST] = 1.0, total, 0.0, least


def _finish(w, s, p, D, t, eta):
    total = s[FACTOR] * s[SIZE]
    if total > p[RADIUS]:
        s[FACTOR] *= p[RADIUS] / total
    if s[TOUCHED] > 16.0 * D or s[FACTOR] < 1e-100:
        _multiply_out(w, s, D)


def _smallest(w, s, p, D):
    return s[FACTOR] * s[LEAST]


EUCLIDEAN_LOOPS = replace(linear.LOOPS, score_unseen=_row_squares)
ENTROPY_LOOPS = Loops(_score, _step, finish=_finish, squares=_smallest, score_unseen=_row_largest)
WANTED = {"score", "begin", "step", "finish", "squares", "score_unseen"}
