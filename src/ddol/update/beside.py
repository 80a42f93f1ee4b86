"""Several learners side by side in one agent's state: loops that call those of the learner, one after the
other.

Learners are of one update, with parameters of their own. Their rows stand one after the other, the first
ones are sent; so do the parameters. Scalars begin with those that neighbours average, of all learners that
are sent, then each learner has all of its own, and behind them stand the numbers of the mixture
(`ddol.update.mixtures`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

from ddol.compiled import address_of, floats, inner
from ddol.update.contract import Loops
from ddol.update.losses import Loss
from ddol.update.mixtures import COUNT, FIXED, Places
from ddol.update.opinions import sound
from ddol.update.weighing import mixing


class Geometry(NamedTuple):
    """Where the numbers of every learner are.

    Parameters
    ----------
    learners, sent, experts : int
        How many there are, of which the first so many are sent; and how many experts mix their scores.
    rows : (fixed, by feature)
        Rows of D numbers of one learner: fixed + by feature · D.
    scalars, parameters : int
        Of one learner.
    linear, largest, counted : int
        Its scalars that are averaged, and how many of these are statistics.
    message, statistics : int
        Rows of its message, the first of which are statistics.
    mixture : int
        Place of the mixture's scalars.
    notes : int
        Place of the scores that are noted, counted from the mixture's first number.
    wires, box : int
        Neighbours whose messages are tested, the agent itself among them, and the place of what is known
        of them.
    mixes : bool
        The mixture's weights move; else the last expert predicts.
    fresh : bool
        Slopes are those at the weights of now.
    least : tuple of (place, number)
        Numbers of a message that are bounded from below.
    classes : bool
        There are several outputs, whose scores are compared: one mixture for all.
    lists : tuple of (row, scalar)
        Lists of a learner's features that count where a row has a zero, and their lengths.
    """

    learners: int
    sent: int
    experts: int
    rows: tuple[int, int]
    scalars: int
    parameters: int
    linear: int
    largest: int
    counted: int
    message: int
    statistics: int
    mixture: int
    notes: int
    wires: int = 0
    box: int = 0
    mixes: bool = True
    fresh: bool = False
    least: tuple[tuple[int, float], ...] = ()
    classes: bool = False
    lists: tuple[tuple[int, int], ...] = ()

    @property
    def averaged(self) -> int:
        """Scalars in front that neighbours average."""
        return self.sent * (self.linear + self.largest)


class LearnerPlaces(NamedTuple):
    """Compiled functions that find a learner's rows, scalars and parameters, and the mixture's numbers."""

    w: Callable
    s: Callable
    p: Callable


@functools.cache
def places_of(g: Geometry) -> LearnerPlaces:
    fixed, by_feature = g.rows
    averaged, scalars, parameters = g.averaged, g.scalars, g.parameters

    @inner(inlined=True)
    def w_of(w, m, D):
        return floats(address_of(w, m * (fixed + by_feature * D) * D))

    @inner(inlined=True)
    def s_of(s, m):
        return floats(address_of(s, averaged + m * scalars))

    @inner(inlined=True)
    def p_of(p, m):
        return floats(address_of(p, m * parameters))

    return LearnerPlaces(w_of, s_of, p_of)


@functools.cache
def _scores(score: Callable, g: Geometry, m: int) -> Callable:
    """Scores of the first learners, up to number m, as a tuple."""
    w_of, s_of, p_of = places_of(g)
    scored = inner(score)
    if m == 0:

        def first(w, s, p, x, index, n, D, which):
            return (scored(w_of(w, 0, D), s_of(s, 0), p_of(p, 0), x, index, n, D, which),)

        return inner(first)
    before = _scores(score, g, m - 1)

    def scores(w, s, p, x, index, n, D, which):
        others = before(w, s, p, x, index, n, D, which)
        own = scored(w_of(w, m, D), s_of(s, m), p_of(p, m), x, index, n, D, which)
        return others + (own,)  # noqa: RUF005 - the compiler knows no other way

    return inner(scores)


@functools.cache
def loops_beside(own: Loops, g: Geometry, loss: Loss) -> Loops:
    """Loops of several learners whose own loops are all the same, and of the mixture that predicts.

    A step is given what its answer counts for a slope: every learner steps along the slope at its own score.
    """
    found: dict[str, Any] = {
        **_predicting(own, g, loss),
        **_learning(own, g, loss),
        **_each(own, g),
        **_talking(own, g),
    }
    return Loops(**found, additive=True, shared=None, propagates_nan=own.propagates_nan)


def _predicting(own: Loops, g: Geometry, loss: Loss) -> dict[str, Callable]:
    M, K, mixture, notes, wires, box = g.learners, g.experts, g.mixture, g.notes, g.wires, g.box
    experts, classes = g.learners * g.parameters, g.classes
    predict, note, _, blended, judged = mixing(loss, g.experts, M, g.mixes, g.classes)
    seen = _scores(own.score, g, M - 1)
    unseen = _scores(own.score_unseen or own.score, g, M - 1)

    def score(w, s, p, x, index, n, D, which):
        scores = seen(w, s, p, x, index, n, D, which)
        m = floats(address_of(s, mixture))
        for k in range(M):
            m[notes + k] = sound(scores[k], scores[M - 1])
        if wires > 0 and scores[0] - scores[0] != 0.0:
            s[box + 1] = math.inf  # the shared learner begins anew
        if not classes:
            m[notes + M] = note(m, scores, floats(address_of(p, experts)))
        m[notes + M + 1] = m[COUNT]
        return m[notes + M]

    def score_unseen(w, s, p, x, index, n, D, which):
        scores = unseen(w, s, p, x, index, n, D, which)
        if classes:
            return scores[int(which)]
        return predict(floats(address_of(s, mixture)), scores, floats(address_of(p, experts)))

    def blend(w, s, p, outputs, room, scores):
        numbers = floats(address_of(s, mixture))
        blended(numbers, room, outputs, floats(address_of(p, experts)), scores)

    def judge(w, s, p, outputs, stride, y):
        q = floats(address_of(p, experts + K * M))
        numbers = floats(address_of(s, mixture))
        judged(numbers, outputs, stride, y, floats(address_of(p, experts)), q)

    found = {"score": score, "score_unseen": score_unseen}
    return found | {"blend": blend, "judge": judge} if classes else found


def _learning(own: Loops, g: Geometry, loss: Loss) -> dict[str, Callable]:
    M, K, mixture, notes = g.learners, g.experts, g.mixture, g.notes
    experts = g.learners * g.parameters
    w_of, s_of, p_of = places_of(g)
    learn, classes, rest = mixing(loss, K, M, g.mixes).learn, g.classes, Places(K, M).rest
    stepped, slope, scored, fresh = (
        inner(own.step),
        inner(loss.derivative),
        inner(own.score),
        g.fresh,
    )
    test, recover = _trust_loops(own, g, loss)

    def step(w, s, p, x, index, n, D, g, eta, weight):
        m = floats(address_of(s, mixture))
        y, q = m[notes + M + 2], floats(address_of(p, experts + K * M))
        if not classes:
            learn(m, y, floats(address_of(p, experts)), q)
        test(w, s, p, x, index, n, D)
        for k in range(M):
            there, z = (w_of(w, k, D), s_of(s, k), p_of(p, k)), m[notes + k]
            if fresh and weight == 1.0 and m[COUNT] != m[notes + M + 1] + 1.0:
                z = scored(there[0], there[1], there[2], x, index, n, D, 0.0)
            each = g * slope(z - m[rest + k] if classes else z, y, q)
            if each != 0.0:
                stepped(there[0], there[1], there[2], x, index, n, D, each, eta, weight)
        recover(w, s, p, D)

    return {"step": step}


def _trust_loops(own: Loops, g: Geometry, loss: Loss) -> tuple[Callable, Callable]:
    """Tests of what neighbours sent, where they are tested."""
    if not g.wires:
        return _untested, _never_astray
    from ddol.update.trust import testing

    return testing(own, g, loss)


@inner(inlined=True)
def _untested(w, s, p, x, index, n, D):
    """Where neighbours are trusted."""


@inner(inlined=True)
def _never_astray(w, s, p, D):
    """Where the shared learner stays what neighbours make of it."""


def _each(own: Loops, g: Geometry) -> dict[str, Callable]:
    """What every learner does once a round, or with every example."""
    M = g.learners
    found: dict[str, Callable] = {}
    w_of, s_of, p_of = places_of(g)
    if own.begin is not None:
        begun = inner(own.begin)

        def begin(w, s, p, D, eta, weight):
            for m in range(M):
                begun(w_of(w, m, D), s_of(s, m), p_of(p, m), D, eta, weight)

        found["begin"] = begin
    if own.finish is not None:
        finished = inner(own.finish)

        def finish(w, s, p, D, t, eta):
            for m in range(M):
                finished(w_of(w, m, D), s_of(s, m), p_of(p, m), D, t, eta)

        found["finish"] = finish
    if own.observe is not None:
        observed = inner(own.observe)

        def observe(w, s, p, x, index, n, D):
            for m in range(M):
                observed(w_of(w, m, D), s_of(s, m), p_of(p, m), x, index, n, D)

        found["observe"] = observe
    if own.hear is not None:
        heard = inner(own.hear)

        def hear(w, s, p, x, index, n, D, y):
            for m in range(M):
                heard(w_of(w, m, D), s_of(s, m), p_of(p, m), x, index, n, D, y)

        found["hear"] = hear
    return found | {"weights": _weights(own, g)}


def _weights(own: Loops, g: Geometry) -> Callable:
    """Weights of the learners, as much of each as the mixture follows it; its last row is room for them."""
    M, K, mixture, first = g.learners, g.experts, g.mixture, g.learners * g.parameters
    w_of, s_of, p_of = places_of(g)
    read, shares = inner(own.weights), FIXED

    def weights(w, s, p, index, n, D, out):
        room, m = w_of(w, M, D), floats(address_of(s, mixture))
        for j in range(n):
            out[j] = 0.0
        for i in range(M):
            share = 0.0
            for k in range(K):
                share += m[shares + k] * p[first + k * M + i]
            read(w_of(w, i, D), s_of(s, i), p_of(p, i), index, n, D, room)
            for j in range(n):
                out[j] += share * room[j]

    return weights


def _talking(own: Loops, g: Geometry) -> dict[str, Callable]:
    """Messages of all learners that are sent: statistics of each, then the rest of each."""
    sent, counted, linear, largest = g.sent, g.counted, g.linear, g.largest
    w_of, s_of, p_of = places_of(g)
    statistics, rest = g.statistics, g.message - g.statistics
    written, taken = inner(own.to_message), inner(own.from_message)

    @inner(inlined=True)
    def place_of(m, k):
        """Where the k-th averaged scalar of learner m stands: statistics first, then sums, then maxima."""
        if k < counted:
            return m * counted + k
        if k < linear:
            return sent * counted + m * (linear - counted) + k - counted
        return sent * linear + m * largest + k - linear

    def to_message(w, s, p, index, n, D, out):
        for m in range(sent):
            own_s = s_of(s, m)
            room = floats(address_of(out, m * rest * n))
            written(w_of(w, m, D), own_s, p_of(p, m), index, n, D, room)
            for k in range(linear + largest):
                s[place_of(m, k)] = own_s[k]

    def from_message(w, s, p, index, n, D, averaged):
        for m in range(sent):
            own_s = s_of(s, m)
            for k in range(linear + largest):
                own_s[k] = s[place_of(m, k)]
            room = floats(address_of(averaged, m * rest * n))
            taken(w_of(w, m, D), own_s, p_of(p, m), index, n, D, room)

    found = {"to_message": to_message, "from_message": from_message}
    if own.to_statistics is None or own.from_statistics is None:
        return found
    counts, recounted = inner(own.to_statistics), inner(own.from_statistics)

    def to_statistics(w, s, p, index, n, D, out):
        for m in range(sent):
            room = floats(address_of(out, m * statistics * n))
            counts(w_of(w, m, D), s_of(s, m), p_of(p, m), index, n, D, room)

    def from_statistics(w, s, p, index, n, D, averaged):
        for m in range(sent):
            room = floats(address_of(averaged, m * statistics * n))
            recounted(w_of(w, m, D), s_of(s, m), p_of(p, m), index, n, D, room)

    return found | {"to_statistics": to_statistics, "from_statistics": from_statistics}
