"""Testing neighbours: an agent averages only with those whose weights predict its own examples well.

Of every neighbour j an agent keeps the newest message, and on its own answered examples

    D_j ← (1 − 1/200)·D_j + ℓ(θ_j) − ℓ(own)

where ℓ(θ_j) is the loss that it would have with that message in the place of its shared weights, ℓ(own)
that of its own learner. It averages with j while D_j ≤ 1 and after 5 tests; else its own message takes
j's place. Where the same sum of its shared learner exceeds 5, that begins anew from the own one.

Losses are in nats: the log loss as it is; others of classes, too; those of numbers as multiples of the own
learner's mean loss. One example counts at most −ln 10⁻⁴. Messages are tested with the first 256 examples,
then with a share of 1/wires of them, so that tests cost about as much as a step whatever the degree.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

from ddol.compiled import address_of, column, floats, inner, sparse
from ddol.update.beside import Geometry, places_of
from ddol.update.contract import Loops
from ddol.update.losses import REGRESSION, Loss, squared
from ddol.update.mixtures import CLIP, COUNT, LOG, Places, rule_for

WANTS, ASTRAY, BOXES = range(3)
"""Numbers of an agent: whether the next example is a test, the sum of its shared learner; then its boxes."""
TESTS, WORSE, THERE, SCALARS = range(4)
"""Numbers of a box: tests, D, whether there is a message, and that message's scalars."""

MEMORY, PATIENCE, TRUSTED, LOST = 200.0, 5.0, 1.0, 5.0
ALL = 256.0
_GOLDEN = 0.6180339887498949


@inner(inlined=True)
def passes(box):
    """Whether a neighbour is averaged with, from the numbers of its box."""
    return box[TESTS] >= PATIENCE and box[WORSE] <= TRUSTED


@inner(inlined=True)
def wants(count, wires):
    """Whether messages are tested with an example, after so many answers."""
    turned = count * _GOLDEN
    return 1.0 if count < ALL or (turned - math.floor(turned)) * wires < 1.0 else 0.0


class _Nats(NamedTuple):
    """What a score costs in nats: ``of(m, z, y, q)``, and ``noted(m, k)`` of the first or the last expert."""

    of: Callable
    noted: Callable


@functools.cache
def _nats(loss: Loss, g: Geometry) -> _Nats:
    places = Places(g.experts, g.learners)
    value, losses, costs, rest = inner(loss.value), places.losses, places.costs, places.rest
    numbers, is_log = loss.task == REGRESSION, rule_for(loss) == LOG
    share, last, notes, classes = (
        0.5 if loss.name == squared.name else 1.0,
        g.learners - 1,
        g.notes,
        g.classes,
    )

    @inner
    def scaled(m, cost):
        if numbers:
            mean = m[losses] / max(m[COUNT], 1.0)
            cost = share * cost / mean if mean > 0.0 else 0.0
        return min(cost, CLIP)

    @inner
    def nats(m, z, y, q):
        if z - z != 0.0:
            return CLIP
        if is_log:
            return math.log1p(math.exp(-min(max(z * y, -CLIP), CLIP)))
        return scaled(m, value(z, y, q))

    def noted(m, k, y, q):
        if classes:  # the mixture's costs are those of all classes
            i = 0 if k > 0 else last
            return nats(m, m[notes + i] - m[rest + i], y, q)
        return m[costs + k] if is_log else scaled(m, m[costs + k])

    return _Nats(nats, inner(noted))


@functools.cache
def testing(own: Loops, g: Geometry, loss: Loss) -> tuple[Callable, Callable]:
    """Loops ``test(w, s, p, x, index, n, D)`` of all messages, and ``recover(w, s, p, D)`` of the shared
    learner.

    Scores of the learners and the answer stand in the mixture's notes.
    """
    nats, (hold, give_back) = _nats(loss, g), _room(g)
    return inner(_test(own, g, nats, hold, give_back)), inner(_recover(g, nats))


def _test(own: Loops, g: Geometry, cost_of: _Nats, hold: Callable, give_back: Callable) -> Callable:
    W, M, K, box, mixture, notes = g.wires, g.learners, g.experts, g.box, g.mixture, g.notes
    counted, linear, largest, rows = g.counted, g.linear, g.largest, g.message - g.statistics
    quarter, size, sent = M * g.parameters + K * M, SCALARS + g.averaged, g.sent
    w_of, s_of, p_of = places_of(g)
    scored, taken, message_at = inner(own.score), inner(own.from_message), _message_at(g)
    take_others = _take_others(own, g)
    possible, classes, rest = _possible(g), g.classes, Places(K, M).rest
    nats, noted = cost_of

    def test(w, s, p, x, index, n, D):
        known = floats(address_of(s, box))
        if known[WANTS] == 0.0:
            return
        m, q = floats(address_of(s, mixture)), floats(address_of(p, quarter))
        y, own_w, own_s, own_p = m[notes + M + 2], w_of(w, 0, D), s_of(s, 0), p_of(p, 0)
        others = m[rest + M - 1] if classes else 0.0
        base = noted(m, 0, y, q)
        others_too = hold(w, s, index, n, D)
        for wire in range(W):
            there = floats(address_of(known, BOXES + wire * size))
            if there[THERE] != 0.0:
                for k in range(counted, linear):  # those of the first learner that is sent
                    own_s[k] = there[SCALARS + (sent - 1) * counted + k]
                for k in range(linear, linear + largest):
                    own_s[k] = there[SCALARS + (sent - 1) * linear + k]
                message = message_at(w, wire * rows, index, n, D)
                sane = possible(message, n, own_s)
                taken(own_w, own_s, own_p, index, n, D, message)
                sane = sane and take_others(own_w, own_s, own_p, w, wire * rows, others_too, D)
                z = scored(own_w, own_s, own_p, x, index, n, D, 0.0)
                there[TESTS] += 1.0
                cost = nats(m, z - others, y, q) if sane else CLIP
                there[WORSE] += cost - base - there[WORSE] / MEMORY
        give_back(w, s, index, n, D, others_too)

    return test


def _possible(g: Geometry) -> Callable:
    """Whether numbers of a message are none that a learner can have, though it predicts well with them."""
    rows, count = g.message - g.statistics, len(g.least)
    places, least = tuple(k for k, _ in g.least) or (0,), tuple(b for _, b in g.least) or (0.0,)

    def possible(message, n, s):
        wrong = 0
        for i in range(count):
            k = places[i]
            if k >= rows:
                wrong += not s[k - rows] >= least[i]
            else:
                for j in range(n):
                    wrong += not message[k * n + j] >= least[i]
        return wrong == 0

    return inner(possible)


def _recover(g: Geometry, cost_of: _Nats) -> Callable:
    W, M, K, box, mixture, notes = g.wires, g.learners, g.experts, g.box, g.mixture, g.notes
    quarter, (fixed, by_feature), scalars = M * g.parameters + K * M, g.rows, g.scalars
    w_of, s_of, _ = places_of(g)
    _, noted = cost_of

    def recover(w, s, p, D):
        known, m = floats(address_of(s, box)), floats(address_of(s, mixture))
        y, q = m[notes + M + 2], floats(address_of(p, quarter))
        gap = noted(m, K - 1, y, q) - noted(m, 0, y, q)
        known[ASTRAY] += gap - known[ASTRAY] / MEMORY
        known[WANTS] = wants(m[COUNT], W)
        if known[ASTRAY] <= LOST:
            return
        known[ASTRAY] = 0.0
        target, own, to, source = w_of(w, 0, D), w_of(w, M - 1, D), s_of(s, 0), s_of(s, M - 1)
        for d in range((fixed + by_feature * D) * D):
            target[d] = own[d]
        for k in range(scalars):
            to[k] = source[k]

    return recover


def _message_at(g: Geometry) -> Callable:
    """Where a message's numbers of a row's features are: of a dense row where they stand, else gathered."""
    (fixed, by_feature), M = g.rows, g.learners
    rows = g.message - g.statistics

    def message_at(w, first, index, n, D):
        held = fixed + by_feature * D
        gathered = floats(address_of(w, ((M + 1) * held + 1) * D))
        kept = floats(address_of(w, ((M + 1) * held + 1 + rows + first) * D))
        if not sparse(index):
            return kept
        for k in range(rows):
            for j in range(n):
                gathered[k * n + j] = kept[k * D + column(index, j)]
        return gathered

    return inner(message_at)


def _take_others(own: Loops, g: Geometry) -> Callable:
    """Take a message for features that count though a sparse row lacks them; whether all are possible."""
    (fixed, by_feature), M = g.rows, g.learners
    rows = g.message - g.statistics
    taken, possible = inner(own.from_message), _possible(g)
    w_of, _, _ = places_of(g)

    @inner
    def take_others(own_w, own_s, own_p, w, first, count, D):
        held = fixed + by_feature * D
        gathered = floats(address_of(w, ((M + 1) * held + 1) * D))
        kept = floats(address_of(w, ((M + 1) * held + 1 + rows + first) * D))
        listed, sane = w_of(w, M, D), True
        for i in range(count):
            d = int(listed[i])
            for k in range(rows):
                gathered[k] = kept[k * D + d]
            sane = sane and possible(gathered, 1, own_s)
            # A dense row of one feature, which the learner's rows begin at.
            taken(floats(address_of(own_w, d)), own_s, own_p, 0, 1, D, gathered)
        return sane

    return take_others


def _room(g: Geometry) -> tuple[Callable, Callable]:
    """Put the shared learner aside while messages take its place, and back again: what an example reads.

    That are its features and, of a sparse one, those of the learner's lists too: a centred feature counts
    where a row has a zero. These are listed in the row that is room for weights.
    """
    (fixed, by_feature), M, box = g.rows, g.learners, g.box
    spare = box + BOXES + g.wires * (SCALARS + g.averaged)
    scalars, n_lists = g.scalars, len(g.lists)
    list_rows = tuple(row for row, _ in g.lists) or (0,)
    lengths = tuple(length for _, length in g.lists) or (0,)
    w_of, s_of, _ = places_of(g)

    @inner
    def absent(w, s, index, n, D):
        listed, shared, count = w_of(w, M, D), w_of(w, 0, D), 0
        if sparse(index):
            for i in range(n_lists):
                for k in range(int(s[lengths[i]])):
                    d = int(shared[list_rows[i] * D + k])
                    there = count >= D - n
                    for j in range(n):
                        there = there or column(index, j) == d
                    if not there:
                        listed[count] = d
                        count += 1
        return count

    @inner
    def hold(w, s, index, n, D):
        held = fixed + by_feature * D
        room, shared = floats(address_of(w, (M * held + 1) * D)), w_of(w, 0, D)
        kept, numbers = floats(address_of(s, spare)), s_of(s, 0)
        for k in range(scalars):
            kept[k] = numbers[k]
        count, listed = absent(w, numbers, index, n, D), w_of(w, M, D)
        for k in range(held):
            for j in range(n):
                room[k * n + j] = shared[k * D + column(index, j)]
            for j in range(count):
                room[held * n + k * count + j] = shared[k * D + int(listed[j])]
        return count

    @inner
    def give_back(w, s, index, n, D, count):
        held, listed = fixed + by_feature * D, w_of(w, M, D)
        room, shared = floats(address_of(w, (M * held + 1) * D)), w_of(w, 0, D)
        for k in range(held):
            for j in range(n):
                shared[k * D + column(index, j)] = room[k * n + j]
            for j in range(count):
                shared[k * D + int(listed[j])] = room[held * n + k * count + j]
        kept, numbers = floats(address_of(s, spare)), s_of(s, 0)
        for k in range(scalars):
            numbers[k] = kept[k]

    return hold, give_back
