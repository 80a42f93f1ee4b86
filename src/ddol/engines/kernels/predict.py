"""Every agent predicts its own examples, and counts what that cost."""

from __future__ import annotations

import numpy as np

from ddol.compiled import call_float, call_void, floats, inner, integers
from ddol.engines.kernels.layout import (
    BINARY,
    BLEND,
    BOTH,
    CLASSES,
    OBSERVE,
    SCORE,
    TOGETHER,
    VALUE,
    answer_of,
    kept_of,
    note,
    noted_scores,
    part,
    rows_of,
    slopes_of,
    squares_of,
    turn_of,
    vector_at,
)
from ddol.engines.kernels.reading import fetch_ahead, row_at
from ddol.update.asking import (
    HEARD,
    NUMBERS,
    QUESTIONS,
    SHOWN,
    buy,
    is_sure,
    second_chance,
    wish,
)


@inner
def _best(worker):
    """Class with the largest score; the lowest class wins a tie."""
    scores, best = floats(worker.scratch.scores), 0
    for k in range(1, worker.shape.outputs):
        if scores[k] > scores[best] + worker.rules.tie:
            best = k
    return best


@inner
def _drawn(worker, chance):
    """Class of the expert that is followed: each with the share of its votes."""
    shares, passed = floats(worker.scratch.scores), 0.0
    for k in range(worker.shape.outputs):
        passed += shares[k]
        if chance < passed:
            return k
    return worker.shape.outputs - 1


@inner
def _count_classes(worker, y, chance, a):
    """Whether the prediction among several classes is wrong."""
    label = np.int64(y)
    if not worker.rules.randomized:
        return _best(worker) != label
    floats(worker.memory.expected)[a] += 1.0 - floats(worker.scratch.scores)[label]
    return _drawn(worker, chance) != label


@inner(inlined=True)
def unless_finite(z):
    """0, or NaN: a loss keeps it, whatever the loss of such a score is. See `Loops.propagates_nan`."""
    return z - z


@inner(inlined=True)
def _count_binary(worker, z, y, chance, a):
    """Whether the prediction between −1 and +1 is wrong; score 0 predicts +1."""
    if not worker.rules.randomized:
        return (z >= 0.0) != (y > 0.0)
    positive = 0.5 * (1.0 + z)
    floats(worker.memory.expected)[a] += 1.0 - positive if y > 0.0 else positive
    return (chance < positive) != (y > 0.0)


@inner(inlined=True)
def compare(worker, scores, y, importance, slopes):
    """What scores cost, and the slopes there (by address), which importance multiplies."""
    cost, outputs = 0.0, worker.shape.outputs
    if part(worker, TOGETHER) != 0:
        q = worker.rules.q
        cost = call_float(part(worker, TOGETHER), (scores, outputs, y, q, slopes))
        for k in range(outputs):
            cost += unless_finite(scores[k])
            floats(slopes)[k] *= importance
        return cost
    for k in range(outputs):
        arguments = (scores[k], answer_of(worker, y, k), worker.rules.q, slopes + 8 * k)
        cost += call_float(part(worker, BOTH), arguments) + unless_finite(scores[k])
        floats(slopes)[k] *= importance
    return cost


@inner(inlined=True)
def observe_example(worker, examples, copy, i):
    """Show one copy an example that it is going to predict."""
    x, index, n = row_at(worker, examples, i)
    for k in range(worker.shape.states):
        w, s = vector_at(worker, copy, k)
        call_void(part(worker, OBSERVE), (w, s, worker.rules.p, x, index, n, worker.shape.D))


@inner(inlined=True)
def score_example(worker, examples, copy, i):
    """Scores of one example, one per output."""
    x, index, n = row_at(worker, examples, i)
    scores, shape = floats(worker.scratch.scores), worker.shape
    for k in range(shape.outputs):
        w, s = vector_at(worker, copy, 0 if shape.states == 1 else k)
        arguments = (w, s, worker.rules.p, x, index, n, shape.D, np.float64(k))
        scores[k] = call_float(part(worker, SCORE), arguments)
    if part(worker, BLEND) != 0:
        _blend_scores(worker, copy, scores)
    return scores


@inner
def _blend_scores(worker, copy, scores):
    """Let an update make scores of several classes of what it has noted of each, and note them, too."""
    shape, room = worker.shape, worker.scratch.scores + 8 * worker.shape.outputs
    count, first = noted_scores(worker), shape.scalars - shape.kept - 1
    for k in range(shape.outputs):
        _, s = vector_at(worker, copy, k)
        for j in range(count):
            floats(room)[k * count + j] = floats(s)[first + j]
    w, s = vector_at(worker, copy, 0)
    call_void(part(worker, BLEND), (w, s, worker.rules.p, shape.outputs, room, scores))
    for k in range(shape.outputs):
        _, s = vector_at(worker, copy, k)
        floats(s)[first + count] = scores[k]


@inner(inlined=True)
def importance_of(worker, examples, i):
    """By what the loss of an example counts."""
    if examples.weight == 0:
        return worker.rules.C
    return worker.rules.C * floats(examples.weight)[i]


@inner(inlined=True)
def predict_example(worker, examples, a, copy, i, chance, slopes):
    """Predict one example, count it, and keep the slopes (by address) for when the answer arrives.

    Returns what it cost.
    """
    rules, memory, y = worker.rules, worker.memory, floats(examples.y)[i]
    scores = score_example(worker, examples, copy, i)
    if examples.scores != 0:
        for k in range(worker.shape.outputs):
            floats(examples.scores)[i * worker.shape.outputs + k] = scores[k]
    wrong = False
    if rules.kind == BINARY:
        wrong = _count_binary(worker, scores[0], y, chance, a)
    elif rules.kind == CLASSES:
        wrong = _count_classes(worker, y, chance, a)
    integers(memory.mistakes)[a] += wrong
    integers(memory.examples)[a] += 1
    importance = importance_of(worker, examples, i)
    if rules.experts:
        floats(slopes)[0] = y
        return (importance if wrong else 0.0) + unless_finite(scores[0])
    if worker.shape.kept == 0:
        return importance * compare(worker, scores, y, importance, slopes)
    cost, together = 0.0, part(worker, TOGETHER) != 0
    if together:
        cost = compare(worker, scores, y, importance, slopes)
    for k in range(worker.shape.outputs):
        if not together:
            arguments = (scores[k], answer_of(worker, y, k), rules.q)
            cost += call_float(part(worker, VALUE), arguments) + unless_finite(scores[k])
        kept_of(worker, slopes, k)[0] = importance
        note(worker, slopes, vector_at(worker, copy, k)[1], k)
    return importance * cost


@inner
def renew_slopes(worker, examples, copy, i, slopes):
    """Take the slopes of an answer that arrives at the weights of now.

    Where agents ask for answers, what is kept in the place of slopes says whether, by what weight, and
    what was answered: see `_note_answer`.
    """
    y, weight, kept = floats(examples.y)[i], 1.0, floats(slopes)
    if worker.rules.asks != 0:
        if kept[0] != kept[0]:  # not asked for
            return
        weight, y = abs(kept[0]), 1.0 if kept[0] > 0.0 else -1.0
        if worker.rules.kind == CLASSES:
            y = kept[1]
    scores = score_example(worker, examples, copy, i)
    compare(worker, scores, y, importance_of(worker, examples, i), slopes)
    if weight != 1.0:
        for k in range(worker.shape.outputs):
            kept[k] *= weight


@inner
def _note_answer(worker, said, weight, slopes):
    """Keep what was answered, and by what weight it counts, until slopes are taken."""
    if worker.rules.kind == CLASSES:
        floats(slopes)[0] = weight
        floats(slopes)[1] = said
    else:
        floats(slopes)[0] = weight if said > 0.0 else -weight


@inner
def _margin(worker):
    """How sure a prediction is: |score|, or the lead of the best among several."""
    scores, outputs = floats(worker.scratch.scores), worker.shape.outputs
    if outputs == 1:
        return abs(scores[0])
    best, second = max(scores[0], scores[1]), min(scores[0], scores[1])
    for k in range(2, outputs):
        second = max(second, min(best, scores[k]))
        best = max(best, scores[k])
    return best - second


@inner
def _asking_of(worker, a):
    return floats(worker.memory.asking + 8 * NUMBERS * a)


@inner
def _neighbours_answer(worker, examples, a, i, seen):
    """What the first neighbour that is sure says of an example; NaN where none is. Their scores replace the
    agent's own."""
    p, own = floats(worker.rules.asks), _asking_of(worker, a)
    starts = integers(worker.rules.neighbours)
    n = starts[a + 1] - starts[a]
    _, _, shown = row_at(worker, examples, i)
    for turn in range(n):
        j = starts[starts[a] + (np.int64(seen) + turn) % n]
        scores = score_example(worker, examples, j, i)
        own[QUESTIONS] += 1.0
        own[SHOWN] += np.float64(shown * (8 if examples.indptr == 0 else 12))
        theirs = np.float64(integers(worker.memory.examples)[j])
        if is_sure(p, _asking_of(worker, j), theirs, _margin(worker)):
            if worker.rules.kind == CLASSES:
                return np.float64(_best(worker))
            return 1.0 if scores[0] >= 0.0 else -1.0
    return np.nan


@inner
def _ask_neighbours(worker, examples, a, copy, i, slopes):
    """What a neighbour says that is sure of an example, of which the slopes then are; NaN where none is."""
    seen = integers(worker.memory.examples)[a]
    said = _neighbours_answer(worker, examples, a, i, seen)
    if np.isnan(said):
        return said
    _asking_of(worker, a)[HEARD] += 1.0
    if worker.rules.experts:
        floats(slopes)[0] = said
        return said
    scores = score_example(worker, examples, copy, i)
    compare(worker, scores, said, importance_of(worker, examples, i), slopes)
    return said


@inner
def ask_for_answer(worker, examples, a, copy, i, chance, slopes):
    """Let an agent decide whether it wants the answer to what it has just predicted.

    Slopes of an answer that it does not want are NaN; experts' answers carry their weight in their size.
    """
    p, own = floats(worker.rules.asks), _asking_of(worker, a)
    seen = np.float64(integers(worker.memory.examples)[a])
    drawn = second_chance(chance) if worker.rules.randomized else chance
    weight, said = wish(p, own, seen, _margin(worker), drawn), np.nan
    if weight > 0.0 and worker.rules.neighbours != 0:
        said = _ask_neighbours(worker, examples, a, copy, i, slopes)
    bought = buy(p, own, seen, weight if np.isnan(said) else 0.0)
    if np.isnan(said):
        weight, said = bought, floats(examples.y)[i]
    if worker.rules.arrival and weight > 0.0:
        _note_answer(worker, said, weight, slopes)
        return
    for k in range(worker.shape.outputs):
        kept_of(worker, slopes, k)[0] *= weight if weight > 0.0 else np.nan


@inner(inlined=True)
def penalty_of(worker, copy):
    """λ‖w‖²/2, which every loss has beside its own."""
    return 0.5 * worker.rules.l2 * squares_of(worker, copy) if worker.rules.l2 > 0.0 else 0.0


@inner(inlined=True)
def predict_agent(worker, examples, r, a, copy, penalty, fetches):
    """An agent predicts its own examples of a round with its own weights."""
    rows, batch = rows_of(worker, examples, examples.predicted, r, a), worker.shape.batch
    if part(worker, OBSERVE) != 0:
        for b in range(batch):
            if rows[b] >= 0:
                observe_example(worker, examples, copy, rows[b])
    for b in range(batch):
        if rows[b] < 0:
            continue
        if fetches:
            fetch_ahead(worker, examples, r, a * batch + b)
        chance = 0.0
        if worker.rules.randomized or worker.rules.asks != 0:
            chance = floats(examples.chances)[(r * worker.shape.agents + a) * batch + b]
        slopes = slopes_of(worker, turn_of(worker, examples.t + r), a, b)
        cost = predict_example(worker, examples, a, copy, rows[b], chance, slopes)
        if worker.rules.asks != 0:
            ask_for_answer(worker, examples, a, copy, rows[b], chance, slopes)
        floats(worker.memory.loss)[a] += cost + penalty
    if worker.rules.arrival:
        renew_batch(worker, examples, r, a, copy)


@inner
def renew_batch(worker, examples, r, a, copy):
    """Take the slopes of the labels that arrive in a round, which are not learned from yet."""
    rows = rows_of(worker, examples, examples.learned, r, a)
    turn = turn_of(worker, examples.t + r + 1)
    for b in range(worker.shape.batch):
        if rows[b] >= 0:
            renew_slopes(worker, examples, copy, rows[b], slopes_of(worker, turn, a, b))
