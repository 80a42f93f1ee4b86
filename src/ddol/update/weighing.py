"""How the weights of a mixture's experts move when an answer comes: see `ddol.update.mixtures`."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

from ddol.compiled import inner
from ddol.update.losses import REGRESSION, Loss, squared
from ddol.update.mixtures import (
    ALIKE,
    ALIKE_LOSS,
    CENTRE,
    COUNT,
    FIXED,
    GAP,
    HARMS,
    HELPS,
    HELPS_FACTOR,
    HELPS_SQUARES,
    HELPS_SUM,
    LATE,
    LEAST_GAP,
    LOG,
    LOSS,
    REACH,
    SPREAD,
    SWITCHES,
    WRONG,
    WRONG_ALONE,
    WRONG_SHARED,
    Places,
    rule_for,
)
from ddol.update.opinions import Judgement, blending, comparing, no_others, others_of, predicting

FACTOR, SUM, SQUARES = HELPS_FACTOR - HELPS, HELPS_SUM - HELPS, HELPS_SQUARES - HELPS
"""Where the other numbers of a bettor stand, from the first of either."""


class MixtureLoops(NamedTuple):
    """Compiled functions of a mixture: what it predicts, and what it learns from an answer.

    ``predict(m, scores, experts) -> float``, or `note`, which also notes it, and ``learn(m, y, experts, q)``:
    the numbers of the mixture are in ``m``, Λ in ``experts``, parameters of the loss in ``q``; `learn` reads
    scores and answer from the notes. Of several classes, ``blend(m, room, classes, experts, scores)`` writes
    their scores, of those of all learners in ``room`` (classes, learners), and
    ``judge(m, classes, stride, y, experts, q)`` is told which class it was; the numbers of the next class
    stand `stride` behind.
    """

    predict: Callable
    note: Callable
    learn: Callable
    blend: Callable
    judge: Callable


@functools.cache
def mixing(loss: Loss, K: int, M: int, mixes: bool = True, classes: bool = False) -> MixtureLoops:
    """The functions of K experts over M learners for a loss; where it does not mix, the last expert predicts.

    Parameters
    ----------
    loss : Loss
    K, M : int
    mixes : bool
    classes : bool
        Whether there are several classes, each of which has a score.

    Examples
    --------
    >>> import numpy as np
    >>> from ddol.update.losses import logistic
    >>> numbers = np.zeros(Places(2, 2).size)
    >>> numbers[FIXED : FIXED + 2] = 0.5
    >>> mix = mixing(logistic, 2, 2)
    >>> mix.predict(numbers, (0.0, 0.0), np.eye(2).reshape(-1))
    0.0
    """
    places = Places(K, M)
    shown = places.rest
    compare = comparing(loss, places, classes)
    judged = inner(_judge(loss, places, compare))
    predict, note = (predicting(loss, places, mixes, notes) for notes in (False, True))
    blend = blending(loss, places, mixes)

    @inner(inlined=True)
    def keep_last(m):
        for k in range(0 if mixes else K):
            m[FIXED + k] = 1.0 if k == K - 1 else 0.0

    def learn(m, y, experts, q):
        judged(m, 1, 0, y, experts, q)
        keep_last(m)

    rests = inner(others_of(places)) if classes and loss.together is not None else no_others

    def judge(m, classes, stride, y, experts, q):
        judged(m, classes, stride, y, experts, q)
        keep_last(m)
        rests(m, classes, stride)
        for c in range(1, classes):
            for i in range(shown):
                m[c * stride + i] = m[i]

    return MixtureLoops(inner(predict), inner(note), inner(learn), inner(blend), inner(judge))


@inner(inlined=True)
def _bet(m, capital, gain):
    """Let a bettor who bets on gains win or lose; a gain is between −1 and 1."""
    gain, n = min(max(gain, -1.0), 1.0), m[COUNT]
    if n > 1.0:
        stake = min(max(m[capital + SUM] / (m[capital + SQUARES] + 1e-12 * n), 0.0), 0.9)
        m[capital + FACTOR] *= 1.0 + stake * gain
        if not 1e-100 < m[capital + FACTOR] < 1e100:
            m[capital] += math.log(m[capital + FACTOR])
            m[capital + FACTOR] = 1.0
    m[capital + SUM] += gain
    m[capital + SQUARES] += gain * gain


@inner
def _change(m, best, K):
    """Let sequences change the expert before the next answer: from the best one with one change less."""
    for changes in range(SWITCHES, 0, -1):
        least = math.inf
        for k in range(K):
            least = min(least, m[best + (changes - 1) * K + k])
        for k in range(K):
            m[best + changes * K + k] = min(m[best + changes * K + k], least)


def _judge(loss: Loss, places: Places, compare: Judgement) -> Callable:
    (K, M), losses, best = places, places.losses, places.best
    costs, notes = places.costs, places.notes
    log, numbers, ranged = (
        rule_for(loss) == LOG,
        loss.task == REGRESSION,
        loss.name == squared.name,
    )
    (cost, wrong), moved = compare, inner((_bayes if log else _hedge)(places))

    def judge(m, classes, stride, y, experts, q):
        if ranged and m[COUNT] == 0.0:
            m[CENTRE] = y
        m[LATE] = max(m[LATE], m[COUNT] - m[notes + M + 1])
        _change(m, best, K)
        alone, shared = 0.0, 0.0
        for k in range(K):
            found = cost(m, k, classes, stride, y, experts, q)
            shared = -math.log(found) if log else found
            m[costs + k] = shared
            if log:
                m[FIXED + k] *= found
            alone = shared if k == 0 else alone
            m[losses + k] += shared
            for changes in range(SWITCHES + 1):
                m[best + changes * K + k] += shared
        found = cost(m, K, classes, stride, y, experts, q)
        mixed = -math.log(found) if log else found
        m[LOSS] += mixed
        m[COUNT] += 1.0
        if ranged:
            m[REACH] = max(m[REACH], abs(y - m[CENTRE]))
        scale, ahead = m[SPREAD] if numbers else 1.0, alone - mixed
        if not numbers:
            mine = wrong(m, 0, classes, stride, y, experts, q)
            theirs = wrong(m, K - 1, classes, stride, y, experts, q)
            ours = wrong(m, K, classes, stride, y, experts, q)
            m[WRONG_ALONE] += mine
            m[WRONG_SHARED] += theirs
            m[WRONG] += ours
            if not log:
                alone, shared, ahead = mine, theirs, mine - ours
        if scale > 0.0:
            _bet(m, HELPS, ahead / scale)
            _bet(m, HARMS, (shared - alone) / scale)
        moved(m, mixed)

    return judge


@inner(inlined=True)
def _share(m, K, total):
    """Normalise the weights, and let every expert give some of its own to the others."""
    t = m[COUNT] + 1.0
    alpha = 1.0 / (t * (1.0 + math.log(t)))
    other = alpha / max(K - 1.0, 1.0)
    keep = (1.0 - alpha - other) / total
    for k in range(K):
        m[FIXED + k] = keep * m[FIXED + k] + other


def _bayes(places: Places) -> Callable:
    """Weights that were multiplied by probabilities, with shares."""
    K = places.experts

    def bayes(m, mixed):
        total = 0.0
        for k in range(K):
            total += m[FIXED + k]
        if m[LATE] > 0.0:  # the weights of now would have predicted otherwise
            m[GAP] += max(mixed + math.log(total), 0.0)
        _share(m, K, total)

    return bayes


def _hedge(places: Places) -> Callable:
    """Exponential weights at AdaHedge's rate, with shares."""
    K, costs = places.experts, places.costs
    log_k = math.log(max(K, 2))

    def hedge(m, mixed):
        lowest, highest, total = math.inf, -math.inf, 0.0
        for k in range(K):
            lowest, highest = min(lowest, m[costs + k]), max(highest, m[costs + k])
        gap = m[GAP]
        for k in range(K if gap > 0.0 else 0):
            m[FIXED + k] *= math.exp((lowest - m[costs + k]) * log_k / gap)
            total += m[FIXED + k]
        if gap > 0.0:
            _share(m, K, total)
        hedged = lowest - (math.log(total) * gap / log_k if gap > 0.0 else 0.0)
        if highest - lowest <= ALIKE * highest:
            m[ALIKE_LOSS] += max(mixed - hedged, 0.0)
            return
        m[SPREAD] = max(m[SPREAD], highest - lowest)
        m[GAP] = max(gap + max(mixed - hedged, 0.0), LEAST_GAP * m[SPREAD])
        if gap == 0.0 or gap == m[GAP]:
            return
        total = 0.0
        for k in range(K):
            m[FIXED + k] = m[FIXED + k] ** (gap / m[GAP])
            total += m[FIXED + k]
        for k in range(K):
            m[FIXED + k] /= total

    return hedge
