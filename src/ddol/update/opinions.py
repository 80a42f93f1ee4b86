"""What the experts of a mixture say of one score or of several classes, and what that costs them.

See `ddol.update.mixtures`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from ddol.compiled import inner
from ddol.update.losses import Loss, squared
from ddol.update.mixtures import CENTRE, CLIP, COUNT, FIXED, LEAST, LOG, REACH, Places, rule_for


@inner(inlined=True)
def sound(z, own):
    """A score, or that of the agent's own learner where neighbours have made it no number."""
    return z if z - z == 0.0 else own


@inner(inlined=True)
def _chance(z):
    """σ(z), clipped."""
    return 1.0 / (1.0 + math.exp(-min(max(z, -CLIP), CLIP)))


@inner(inlined=True)
def within(m, z):
    """A prediction, within the range of the answers."""
    return m[CENTRE] + min(max(z - m[CENTRE], -m[REACH]), m[REACH]) if m[COUNT] > 0.0 else z


@inner(inlined=True)
def _weighted(experts, k, M, scores, at):
    """What expert k says, of the learners' scores from a place on."""
    z = 0.0
    for i in range(M):
        z += experts[k * M + i] * sound(scores[at + i], scores[at + M - 1])
    return z


def predicting(loss: Loss, places: Places, mixes: bool, notes: bool) -> Callable:
    """Function ``predict(m, scores, experts)`` of the mixture, or of the last expert alone; it may note what
    experts predicted."""
    (K, M), log, clipped = places, rule_for(loss) == LOG, loss.name == squared.name
    chances = places.chances

    @inner
    def last(m, scores, experts):
        return _weighted(experts, K - 1, M, scores, 0)

    def of_chances(m, scores, experts):
        p, rest = 0.0, 0.0
        for k in range(K):
            chance = _chance(_weighted(experts, k, M, scores, 0))
            p += m[FIXED + k] * chance
            rest += m[FIXED + k] * (1.0 - chance)
            if notes:
                m[chances + k] = chance
        if notes:
            m[chances + K] = p / (p + rest)
        return math.log(p / rest) if mixes else last(m, scores, experts)

    def of_scores(m, scores, experts):
        total = 0.0
        for k in range(K):
            z = _weighted(experts, k, M, scores, 0)
            total += m[FIXED + k] * (within(m, z) if clipped else z)
        return total

    if not mixes and not (notes and log):
        return last
    return of_chances if log else of_scores


class Judgement(NamedTuple):
    """How what was said is compared with an answer.

    ``cost(m, k, classes, stride, y, experts, q)`` is what expert k loses (the mixture, if k = K), by `LOG`
    the probability that it gave; ``wrong(…)``, of the same arguments, whether it was mistaken.
    """

    cost: Callable
    wrong: Callable


def blending(loss: Loss, places: Places, mixes: bool) -> Callable:
    """The same of several classes: ``blend(m, room, classes, experts, scores)``."""
    (K, M), together = places, loss.together is not None
    first = 0 if mixes else K - 1

    def of_scores(m, room, classes, experts, scores):
        for c in range(classes):
            scores[c] = 0.0
            for k in range(first, K):
                scores[c] += m[FIXED + k] * _weighted(experts, k, M, room, c * M)

    def of_chances(m, room, classes, experts, scores):
        for c in range(classes):
            scores[c] = 0.0
        for k in range(first, K):
            most, total = -math.inf, 0.0
            for c in range(classes):
                most = max(most, _weighted(experts, k, M, room, c * M))
            for c in range(classes):
                z = _weighted(experts, k, M, room, c * M)
                total += math.exp(z - most) if together else _sigma(z)
            for c in range(classes):
                z = _weighted(experts, k, M, room, c * M)
                chance = (math.exp(z - most) if together else _sigma(z)) / total
                scores[c] += m[FIXED + k] * ((1.0 - LEAST) * chance + LEAST / classes)
        for c in range(classes):
            scores[c] = math.log(scores[c] if together else scores[c] / (1.0 - scores[c]))

    return of_chances if rule_for(loss) == LOG and mixes else of_scores


@inner(inlined=True)
def _sigma(z):
    """σ(z), not quite 0, so that it can be divided by."""
    return 1.0 / (1.0 + math.exp(-max(z, -700.0)))


# --- what an answer says of it -------------------------------------------------------------------------


def comparing(loss: Loss, places: Places, classes: bool) -> Judgement:
    """How experts are judged, of one score or of those of several classes."""
    K, M = places
    value, clipped, chances = inner(loss.value), loss.name == squared.name, places.chances

    @inner
    def said(m, experts, k, at):
        """Score of an expert, or of the mixture, of the class whose notes begin there."""
        if k == K:
            return m[at + M]
        z = 0.0
        for i in range(M):
            z += experts[k * M + i] * m[at + i]
        return z

    notes = places.notes
    if classes:
        of_classes = _chance_of_class if rule_for(loss) == LOG else _sum_of_costs
        return Judgement(inner(of_classes(loss, places, said)), inner(_wrong_class(places, said)))

    def wrong(m, k, classes, stride, y, experts, q):
        return 1.0 if (said(m, experts, k, notes) >= 0.0) != (y > 0.0) else 0.0

    def chance(m, k, classes, stride, y, experts, q):
        return m[chances + k] if y > 0.0 else 1.0 - m[chances + k]

    def cost(m, k, classes, stride, y, experts, q):
        z = said(m, experts, k, notes)
        return value(within(m, z) if clipped else z, y, q)

    return Judgement(inner(chance if rule_for(loss) == LOG else cost), inner(wrong))


def _wrong_class(places: Places, said: Callable) -> Callable:
    notes = places.notes

    def wrong(m, k, classes, stride, y, experts, q):
        best, most = 0, said(m, experts, k, notes)
        for c in range(1, classes):
            z = said(m, experts, k, notes + c * stride)
            if z > most:
                best, most = c, z
        return 1.0 if best != int(y) else 0.0

    return wrong


def _chance_of_class(loss: Loss, places: Places, said: Callable) -> Callable:
    (K, _), notes, together = places, places.notes, loss.together is not None

    def chance(m, k, classes, stride, y, experts, q):
        most, total, right = 0.0, 0.0, said(m, experts, k, notes + int(y) * stride)
        if together:
            most = right
            for c in range(classes):
                most = max(most, said(m, experts, k, notes + c * stride))
        for c in range(classes):
            z = said(m, experts, k, notes + c * stride)
            total += math.exp(z - most) if together else _sigma(z)
        found = (math.exp(right - most) if together else _sigma(right)) / total
        return found if k == K else (1.0 - LEAST) * found + LEAST / classes

    return chance


def _sum_of_costs(loss: Loss, places: Places, said: Callable) -> Callable:
    notes, value = places.notes, inner(loss.value)

    def cost(m, k, classes, stride, y, experts, q):
        total = 0.0
        for c in range(classes):
            sign = 1.0 if c == int(y) else -1.0
            total += value(said(m, experts, k, notes + c * stride), sign, q)
        return total

    return cost


@inner(inlined=True)
def no_others(m, classes, stride):
    """Where each class has a loss of its own."""


def others_of(places: Places) -> Callable:
    """Note what other classes have, so that softmax is σ of what is left of a score."""
    (_, M), rest, notes = places, places.rest, places.notes

    def rests(m, classes, stride):
        for i in range(M):
            most, before = -math.inf, 0.0
            for c in range(classes):
                most = max(most, m[notes + c * stride + i])
            for c in range(classes):
                m[rest + c * stride + i] = before
                before += math.exp(m[notes + c * stride + i] - most)
            before = 0.0
            for c in range(classes - 1, -1, -1):
                others = m[rest + c * stride + i] + before
                m[rest + c * stride + i] = most + math.log(max(others, 1e-300))
                before += math.exp(m[notes + c * stride + i] - most)

    return rests
