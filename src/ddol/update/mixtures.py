"""Weighted majority over learners: how an agent mixes what several learners of its own predict.

Expert k says Σ_m Λ_km·z_m, where z_m is the score of learner m. What is kept of the mixture stands among an
agent's scalars, from `base` on; see `Places`. Three rules move the experts' weights when an answer comes:

- `LOG` (log loss): w_k ∝ w_k·p_k(y), with p_k = σ(z_k) clipped to [10⁻⁴, 1−10⁻⁴], and fixed share
  (Herbster and Warmuth) with α_t = 1/(t+1). The agent predicts p = Σ w_k·p_k, and the score is its logit.
- `SQUARED` (squared loss): w_k ∝ w_k·exp(−ℓ_k/4B²), and the same shares. Predictions are clipped to the
  centre ± B; B is doubled when an answer lies outside, and such an answer moves no weights.
- `HEDGED` (any other convex loss): AdaHedge (de Rooij, van Erven, Grünwald and Koolen 2014), which needs
  neither a range nor a rate.

Whether sharing helps is told by two bettors (Waudby-Smith and Ramdas 2024): one bets that the mixture
loses less than the agent alone, the other that the shared learner loses more; one example counts at most
1 nat (of squared loss half of the range's square, of other losses of numbers the largest spread, of
other losses of classes a mistake). A bettor's capital exceeds 1/a at some time with a probability of at most
a if it is wrong, at whatever time one looks.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

from ddol.compiled import inner
from ddol.update.losses import REGRESSION, Loss, logistic, squared

LOG, SQUARED, HEDGED = range(3)
"""Rules of the weights."""

CLIP = math.log((1.0 - 1e-4) / 1e-4)
"""The score at which a probability is 1 − 10⁻⁴."""
ALIKE = 1e-6
"""Losses that differ by so little of the largest are alike: learners may be the same but for rounding."""
LEAST_GAP = 0.01
"""Of AdaHedge's gaps, in spreads: with less, weights would follow what is rounding."""
SWITCHES = 3
"""Sequences of experts with up to so many changes are followed."""

(
    COUNT, LOSS, WRONG, WRONG_ALONE, WRONG_SHARED, CENTRE, REACH, OUTSIDE, GAP, VARIANCE, SPREAD,
    HELPS, HELPS_SUM, HELPS_SQUARES, HARMS, HARMS_SUM, HARMS_SQUARES, LATE, FIXED,
) = range(19)  # fmt: skip
"""Numbers of a mixture: answers, loss and mistakes of the mixture, of the first and of the last expert;
of squared loss the centre and B, and what answers outside cost; of AdaHedge the mixability gaps, variances
and the largest spread; the logarithms of both bettors' capital with the sums and squares of what they have
seen; and the most answers that came between a prediction and its own."""


class Places(NamedTuple):
    """Where the numbers of a mixture of K experts stand, counted from its first."""

    experts: int
    learners: int

    @property
    def weights(self) -> int:
        """Weights of the experts."""
        return FIXED

    @property
    def losses(self) -> int:
        """Losses of the experts so far."""
        return FIXED + self.experts

    @property
    def best(self) -> int:
        """Least loss of a sequence with m changes that ends in expert k: (SWITCHES + 1, K)."""
        return FIXED + 2 * self.experts

    @property
    def notes(self) -> int:
        """Scores of the learners and of the mixture as they were predicted with, answers until then, the
        answer."""
        return FIXED + (3 + SWITCHES) * self.experts

    @property
    def size(self) -> int:
        """Numbers in all."""
        return self.notes + self.learners + 3


def rule_for(loss: Loss) -> int:
    """The rule that a loss allows.

    Examples
    --------
    >>> from ddol.update.losses import hinge
    >>> rule_for(logistic) == LOG, rule_for(squared) == SQUARED, rule_for(hinge) == HEDGED
    (True, True, True)
    """
    return {logistic.name: LOG, squared.name: SQUARED}.get(loss.name, HEDGED)


class MixtureLoops(NamedTuple):
    """Compiled functions of a mixture: what it predicts, and what it learns from an answer.

    ``predict(m, scores, experts) -> float`` and ``learn(m, y, experts, q)``, with the mixture's numbers in
    ``m``, Λ in ``experts`` and the loss's parameters in ``q``. Scores and answer are read from the notes
    by ``learn``.
    """

    predict: Callable
    learn: Callable


@inner(inlined=True)
def sound(z, own):
    """A score, or that of the agent's own learner where neighbours have made it no number."""
    return z if z - z == 0.0 else own


@inner(inlined=True)
def _chance(z):
    """σ(z), clipped."""
    return 1.0 / (1.0 + math.exp(-min(max(z, -CLIP), CLIP)))


@inner(inlined=True)
def _share(m, weights, K, total):
    """Normalise the weights, and let every expert give some of its own to the others."""
    alpha = 1.0 / (m[COUNT] + 1.0)
    for k in range(K):
        own = m[weights + k] / total
        m[weights + k] = (1.0 - alpha) * own + alpha * (1.0 - own) / max(K - 1.0, 1.0)


@inner(inlined=True)
def _bet(m, capital, gain):
    """Let a bettor who bets on gains win or lose; a gain is between −1 and 1."""
    n = m[COUNT]
    if n > 1.0:
        mean = m[capital + 1] / n
        stake = min(max(mean / (m[capital + 2] / n + 1e-12), 0.0), 0.9)
        m[capital] += math.log1p(stake * gain)
    m[capital + 1] += gain
    m[capital + 2] += gain * gain


@inner(inlined=True)
def _limited(gain):
    return min(max(gain, -1.0), 1.0)


@inner(inlined=True)
def _follow(m, best, K, k, loss):
    """Add an expert's loss to the best sequences that end in it; called for all experts, changes from
    above."""
    for changes in range(SWITCHES, -1, -1):
        m[best + changes * K + k] += loss


@inner
def _change(m, best, K):
    """Let sequences change the expert before the next answer: from the best one with one change less."""
    for changes in range(SWITCHES, 0, -1):
        least = math.inf
        for k in range(K):
            least = min(least, m[best + (changes - 1) * K + k])
        for k in range(K):
            m[best + changes * K + k] = min(m[best + changes * K + k], least)


@inner(inlined=True)
def _wrong(z, y):
    """1 for a mistake between two classes; a score of 0 says +1."""
    return 1.0 if (z >= 0.0) != (y > 0.0) else 0.0


@inner(inlined=True)
def _said(m, experts, k, M, notes):
    """Score of an expert."""
    z = 0.0
    for i in range(M):
        z += experts[k * M + i] * m[notes + i]
    return z


@functools.cache
def mixing(loss: Loss, K: int, M: int, mixes: bool = True) -> MixtureLoops:
    """The functions of K experts over M learners for a loss; where it does not mix, the last expert predicts.

    Examples
    --------
    >>> import numpy as np
    >>> numbers = np.zeros(Places(2, 2).size)
    >>> numbers[FIXED : FIXED + 2] = 0.5
    >>> mix = mixing(logistic, 2, 2)
    >>> mix.predict(numbers, (0.0, 0.0), np.eye(2).reshape(-1))
    0.0
    """
    rule = rule_for(loss)
    make = {LOG: _log, SQUARED: _squared, HEDGED: _hedged}[rule]
    found = make(loss, Places(K, M))
    if not mixes:
        found = _last_expert(found, Places(K, M))
    return MixtureLoops(*map(inner, found))


def _last_expert(whole: MixtureLoops, places: Places) -> MixtureLoops:
    """The last expert in the place of the mixture, which counts all the same."""
    K, M = places
    weights, learned = places.weights, inner(whole.learn)

    def predict(m, scores, experts):
        z = 0.0
        for i in range(M):
            z += experts[(K - 1) * M + i] * sound(scores[i], scores[M - 1])
        return z

    def learn(m, y, experts, q):
        learned(m, y, experts, q)
        for k in range(K):
            m[weights + k] = 1.0 if k == K - 1 else 0.0

    return MixtureLoops(predict, learn)


def _log(loss: Loss, places: Places) -> MixtureLoops:
    K, M = places
    weights, losses, best, notes = places.weights, places.losses, places.best, places.notes

    def predict(m, scores, experts):
        p, rest = 0.0, 0.0
        for k in range(K):
            z = 0.0
            for i in range(M):
                z += experts[k * M + i] * sound(scores[i], scores[M - 1])
            chance = _chance(z)
            p += m[weights + k] * chance
            rest += m[weights + k] * (1.0 - chance)
        return math.log(p / rest)

    def learn(m, y, experts, q):
        sign, total, alone, shared = 1.0 if y > 0.0 else -1.0, 0.0, 0.0, 0.0
        m[LATE] = max(m[LATE], m[COUNT] - m[notes + M + 1])
        _change(m, best, K)
        for k in range(K):
            chance = _chance(sign * _said(m, experts, k, M, notes))
            cost = -math.log(chance)
            m[weights + k] *= chance
            total += m[weights + k]
            m[losses + k] += cost
            _follow(m, best, K, k, cost)
            alone = cost if k == 0 else alone
            shared = cost
        cost = -math.log(_chance(sign * m[notes + M]))
        m[LOSS] += cost
        m[COUNT] += 1.0
        m[WRONG] += _wrong(m[notes + M], y)
        m[WRONG_ALONE] += _wrong(_said(m, experts, 0, M, notes), y)
        m[WRONG_SHARED] += _wrong(_said(m, experts, K - 1, M, notes), y)
        _bet(m, HELPS, _limited(alone - cost))
        _bet(m, HARMS, _limited(shared - alone))
        _share(m, weights, K, total)

    return MixtureLoops(predict, learn)


def _squared(loss: Loss, places: Places) -> MixtureLoops:
    K, M = places
    weights, losses, best, notes = places.weights, places.losses, places.best, places.notes

    @inner(inlined=True)
    def within(m, z):
        """A prediction, within the range of the answers."""
        return m[CENTRE] + min(max(z - m[CENTRE], -m[REACH]), m[REACH]) if m[COUNT] > 0.0 else z

    def predict(m, scores, experts):
        total = 0.0
        for k in range(K):
            z = 0.0
            for i in range(M):
                z += experts[k * M + i] * sound(scores[i], scores[M - 1])
            total += m[weights + k] * within(m, z)
        return total

    def learn(m, y, experts, q):
        mixed, least, total, alone, shared = m[notes + M], math.inf, 0.0, 0.0, 0.0
        if m[COUNT] == 0.0:
            m[CENTRE] = y
        reach = m[REACH]
        outside = abs(y - m[CENTRE]) > reach or m[COUNT] == 0.0
        slope = 0.0 if outside else 0.25 / max(reach * reach, 1e-300)
        m[LATE] = max(m[LATE], m[COUNT] - m[notes + M + 1])
        _change(m, best, K)
        for k in range(K):
            z = within(m, _said(m, experts, k, M, notes))
            cost = 0.5 * (z - y) * (z - y)
            least = min(least, cost)
            m[losses + k] += cost
            _follow(m, best, K, k, cost)
            alone = cost if k == 0 else alone
            shared = cost
            m[weights + k] *= math.exp(-slope * cost)
            total += m[weights + k]
        cost = 0.5 * (mixed - y) * (mixed - y)
        m[LOSS] += cost
        m[COUNT] += 1.0
        if outside:
            m[OUTSIDE] += max(cost - least, 0.0)
            m[REACH] = max(2.0 * reach, abs(y - m[CENTRE]))
        else:
            _share(m, weights, K, total)
        scale = 2.0 * reach * reach
        if scale > 0.0:
            _bet(m, HELPS, _limited((alone - cost) / scale))
            _bet(m, HARMS, _limited((shared - alone) / scale))

    return MixtureLoops(predict, learn)


def _hedging(places: Places, value: Callable) -> tuple[Callable, Callable]:
    """AdaHedge's weights, and its mixed loss of a round."""
    K, M = places
    weights, losses, notes = places.weights, places.losses, places.notes
    log_k = math.log(K)

    @inner
    def weigh(m):
        """Make weights proportional to exp(−η·loss), η = ln K / gaps."""
        least, total = math.inf, 0.0
        for k in range(K):
            least = min(least, m[losses + k])
        for k in range(K):
            m[weights + k] = math.exp((least - m[losses + k]) * log_k / m[GAP])
            total += m[weights + k]
        for k in range(K):
            m[weights + k] /= total

    @inner
    def mix_loss(m, experts, y, q, lowest):
        """−ln Σ w_k·exp(−η·ℓ_k) / η, before the losses are counted; at first η is infinite."""
        if m[GAP] == 0.0:
            return lowest
        total = 0.0
        for k in range(K):
            cost = value(_said(m, experts, k, M, notes), y, q)
            total += m[weights + k] * math.exp((lowest - cost) * log_k / m[GAP])
        return lowest - math.log(total) * m[GAP] / log_k

    return weigh, mix_loss


def _hedged(loss: Loss, places: Places) -> MixtureLoops:
    K, M = places
    weights, losses, best, notes = places.weights, places.losses, places.best, places.notes
    value, numbers = inner(loss.value), loss.task == REGRESSION
    weigh, mix_loss = _hedging(places, value)

    def predict(m, scores, experts):
        total = 0.0
        for k in range(K):
            for i in range(M):
                total += m[weights + k] * experts[k * M + i] * sound(scores[i], scores[M - 1])
        return total

    def learn(m, y, experts, q):
        hedged, lowest, highest, score = 0.0, math.inf, -math.inf, m[notes + M]
        m[LATE] = max(m[LATE], m[COUNT] - m[notes + M + 1])
        _change(m, best, K)
        for k in range(K):
            cost = value(_said(m, experts, k, M, notes), y, q)
            hedged += m[weights + k] * cost
            lowest, highest = min(lowest, cost), max(highest, cost)
            _follow(m, best, K, k, cost)
        mixed = mix_loss(m, experts, y, q, lowest)
        spread = m[SPREAD]
        for k in range(K):
            cost = value(_said(m, experts, k, M, notes), y, q)
            m[VARIANCE] += m[weights + k] * (cost - hedged) * (cost - hedged)
            m[losses + k] += cost
        if highest - lowest > ALIKE * highest:
            m[SPREAD] = max(spread, highest - lowest)
            m[GAP] = max(m[GAP] + max(hedged - mixed, 0.0), LEAST_GAP * m[SPREAD])
        else:
            m[OUTSIDE] += highest - lowest
        alone, shared = _said(m, experts, 0, M, notes), _said(m, experts, K - 1, M, notes)
        m[LOSS] += value(score, y, q)
        m[COUNT] += 1.0
        if numbers:
            if spread > 0.0:
                own = value(alone, y, q)
                _bet(m, HELPS, _limited((own - value(score, y, q)) / spread))
                _bet(m, HARMS, _limited((value(shared, y, q) - own) / spread))
        else:
            mine, theirs = _wrong(alone, y), _wrong(shared, y)
            m[WRONG] += _wrong(score, y)
            m[WRONG_ALONE] += mine
            m[WRONG_SHARED] += theirs
            _bet(m, HELPS, mine - _wrong(score, y))
            _bet(m, HARMS, theirs - mine)
        if m[GAP] > 0.0:
            weigh(m)

    return MixtureLoops(predict, learn)
