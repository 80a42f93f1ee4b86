"""Messages about features: what agents know of them is averaged, and coordinates follow from it.

Loops over rows of the layout of `ddol.update.coordinates`.
"""

from __future__ import annotations

from ddol.compiled import column, inner, row
from ddol.update.coordinates import (
    ABSENT,
    FILLED,
    NEXT,
    REFERENCE,
    SQUARES,
    STALE,
    SUM,
    WEIGHT,
    retake,
)


def to_statistics(w, s, p, index, n, D, out):
    """The first three rows of a message: filled, sum, squares."""
    filled, reference = row(w, FILLED, D), row(w, REFERENCE, D)
    total, squares = row(w, SUM, D), row(w, SQUARES, D)
    counts, sums, spread = row(out, 0, n), row(out, 1, n), row(out, 2, n)
    share = 1.0 / s[WEIGHT]
    for j in range(n):
        d = column(index, j)
        counts[j] = share * filled[d]
        sums[j] = share * (total[d] + filled[d] * reference[d])
        spread[j] = share * squares[d]


@inner
def from_statistics(w, s, p, index, n, D, averaged):
    """Take averaged sums, and the coordinates that are due by them.

    What a row alone made due waits no more: averaged counts decide. Features may be counted from any
    place on, so they cannot be listed here.
    """
    filled, reference = row(w, FILLED, D), row(w, REFERENCE, D)
    total, squares, due = row(w, SUM, D), row(w, SQUARES, D), row(w, NEXT, D)
    counts, sums, spread = row(averaged, 0, n), row(averaged, 1, n), row(averaged, 2, n)
    weight, reached = s[WEIGHT], 0
    for j in range(n):
        d = column(index, j)
        filled[d] = weight * counts[j]
        total[d] = weight * sums[j] - filled[d] * reference[d]
        squares[d] = weight * spread[j]
        due[d] = abs(due[d])
        reached += filled[d] >= due[d]
    if reached > 0:
        _retake_reached(w, s, p, index, n, D)


@inner
def _retake_reached(w, s, p, index, n, D):
    """Take coordinates anew that are due by their counts: listed first, as nobody can guess which are."""
    filled, due, found, count = row(w, FILLED, D), row(w, NEXT, D), row(w, ABSENT, D), 0
    for j in range(n):
        d = column(index, j)
        found[count] = float(d)
        count += filled[d] >= due[d]
    for k in range(count):
        if retake(w, s, p, int(w[ABSENT * D + k]), D):
            s[STALE] = 1.0
