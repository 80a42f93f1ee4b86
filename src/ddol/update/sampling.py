"""Of which rounds statistics of features are taken, and averaged: of all of the first, then of 1 in 32.

A scale that is known to a few per cent is known well enough, and taking the statistics of a row costs as
much as its score. Rounds are drawn by the golden ratio, so that no period of a stream keeps step with them,
and depend on nothing but their number: all agents, and all engines, draw the same ones.
"""

from __future__ import annotations

import math

import numpy as np

from ddol.compiled import inner

ALL, SHARE = 256.0, 0.03125
"""Rounds that are all sampled, and the share of those after them."""
_GOLDEN = 0.6180339887498949


@inner(inlined=True)
def samples(t: float) -> bool:
    """Whether a round is sampled; of exchanges, in the order of their numbers, likewise."""
    turned = t * _GOLDEN
    return t <= ALL or turned - math.floor(turned) < SHARE


def count_sampled(rounds: int, before: int = 0) -> int:
    """Sampled rounds among those after round ``before``, up to ``rounds``.

    Examples
    --------
    >>> count_sampled(256), count_sampled(1056) - 256, count_sampled(1056, 256)
    (256, 25, 25)
    """
    found = 0
    for lo in range(before + 1, rounds + 1, 1 << 20):
        t = np.arange(lo, min(lo + (1 << 20), rounds + 1), dtype=np.float64)
        turned = t * _GOLDEN
        found += int(np.count_nonzero((t <= ALL) | (turned - np.floor(turned) < SHARE)))
    return found
