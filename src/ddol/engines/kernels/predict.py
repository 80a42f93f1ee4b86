"""Every agent predicts its own examples, and counts what that cost."""

from __future__ import annotations

import numpy as np

from ddol.compiled import call_float, floats, inner, integers
from ddol.engines.kernels.fetching import _fetch_ahead
from ddol.engines.kernels.layout import (
    BINARY,
    CLASSES,
    COPIES,
    DERIVATIVE,
    SCORE,
    TIE,
    VALUE,
    _part,
    _row,
    _rows_of,
    _slopes_of,
    _squares,
    _state,
    _turn,
)


@inner
def _best(worker):
    """Class with the largest score; the lowest class wins a tie."""
    scores, best = floats(worker.scores), 0
    tie = TIE if worker.experts else 0.0
    for k in range(1, worker.outputs):
        if scores[k] > scores[best] + tie:
            best = k
    return best


@inner
def _drawn(worker, chance):
    """Class of the expert that is followed: each with the share of its votes."""
    shares, passed = floats(worker.scores), 0.0
    for k in range(worker.outputs):
        passed += shares[k]
        if chance < passed:
            return k
    return worker.outputs - 1


@inner
def _count_classes(worker, y, chance, a):
    """Whether the prediction among several classes is wrong."""
    label = np.int64(y)
    if not worker.randomized:
        return _best(worker) != label
    floats(worker.expected)[a] += 1.0 - floats(worker.scores)[label]
    return _drawn(worker, chance) != label


@inner(inlined=True)
def _unless_finite(z):
    """0, or NaN: a loss keeps it, whatever the loss of such a score is. See `Loops.score`."""
    return z - z


@inner(inlined=True)
def _count_binary(worker, z, y, chance, a):
    """Whether the prediction between −1 and +1 is wrong; score 0 predicts +1."""
    if not worker.randomized:
        return (z >= 0.0) != (y > 0.0)
    positive = 0.5 * (1.0 + z)
    floats(worker.expected)[a] += 1.0 - positive if y > 0.0 else positive
    return (chance < positive) != (y > 0.0)


@inner(inlined=True)
def _score(worker, examples, a, i):
    """Scores of one example, one per output."""
    x, index, n = _row(worker, examples, i)
    copy = a if worker.sharing == COPIES else 0
    scores = floats(worker.scores)
    for k in range(worker.outputs):
        w, s = _state(worker, copy, 0 if worker.states == 1 else k)
        arguments = (w, s, worker.p, x, index, n, worker.D, np.float64(k))
        scores[k] = call_float(_part(worker, SCORE), arguments)
    return scores


@inner(inlined=True)
def _predict(worker, examples, a, i, chance, slopes):
    """Predict one example, count what it cost, and keep the slopes for when the answer arrives."""
    y = floats(examples.y)[i]
    scores = _score(worker, examples, a, i)
    wrong = False
    if worker.kind == BINARY:
        wrong = _count_binary(worker, scores[0], y, chance, a)
    elif worker.kind == CLASSES:
        wrong = _count_classes(worker, y, chance, a)
    integers(worker.mistakes)[a] += wrong
    integers(worker.examples)[a] += 1
    importance = worker.C
    if examples.weight != 0:
        importance *= floats(examples.weight)[i]
    if worker.experts:
        slopes[0] = y
        return (importance if wrong else 0.0) + _unless_finite(scores[0])
    cost = 0.0
    for k in range(worker.outputs):
        answer = y
        if worker.kind == CLASSES:
            answer = 1.0 if k == np.int64(y) else -1.0
        arguments = (scores[k], answer, worker.q)
        cost += call_float(_part(worker, VALUE), arguments) + _unless_finite(scores[k])
        slopes[k] = importance * call_float(_part(worker, DERIVATIVE), arguments)
    return importance * cost


@inner(inlined=True)
def _penalty(worker, copy):
    """λ‖w‖²/2, which every loss has beside its own."""
    return 0.5 * worker.l2 * _squares(worker, copy) if worker.l2 > 0.0 else 0.0


@inner(inlined=True)
def _predict_agent(worker, examples, r, a, penalty, fetches):
    """An agent predicts its own examples with its own weights."""
    rows = _rows_of(worker, examples, examples.predicted, r, a)
    for b in range(worker.batch):
        if rows[b] < 0:
            continue
        if fetches:
            _fetch_ahead(worker, examples, r, a * worker.batch + b)
        chance = 0.0
        if worker.randomized:
            chance = floats(examples.chances)[(r * worker.agents + a) * worker.batch + b]
        slopes = _slopes_of(worker, _turn(worker, examples.t + r), a, b)
        cost = _predict(worker, examples, a, rows[b], chance, slopes)
        floats(worker.loss)[a] += cost + penalty
