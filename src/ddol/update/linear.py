"""Loops of the Euclidean mirror: weights are their own dual.

Row: the weights, up to a factor. Scalars: that factor, and the squared norm of the stored weights.
The factor makes L2 shrinking and the projection onto an L2 ball O(1), so a sparse row costs O(nnz).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ddol.compiled import address_of, column, floats, inner, sparse
from ddol.update.contract import ADD, LOCAL, Field, Layout, Loops
from ddol.update.turns import SHORT

SCALE, SQUARES, TOUCHED = 0, 1, 2
L2, KIND, RADIUS = 0, 1, 2
_FREE, _L2_BALL, _L1_BALL, _SIMPLEX = 0.0, 1.0, 2.0, 3.0
KINDS = {"everywhere": _FREE, "l2_ball": _L2_BALL, "l1_ball": _L1_BALL, "simplex": _SIMPLEX}

LAYOUT = Layout(
    rows=("w",),
    scalars=(Field("scale", LOCAL, 1.0), Field("squares", LOCAL), Field("touched", LOCAL)),
)


@inner
def _dot(w, x, index, start, stop):
    total = 0.0
    for j in range(start, stop):
        total += w[column(index, j)] * x[j]
    return total


@inner
def _short_dot(w, x, index, start, stop):
    """The same of few numbers, eight sums: one would wait for itself at every number."""
    a, b, c, d, e, f, g, h, j = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, start
    if j + 8 <= stop:
        a = w[column(index, j)] * x[j]
        b = w[column(index, j + 1)] * x[j + 1]
        c = w[column(index, j + 2)] * x[j + 2]
        d = w[column(index, j + 3)] * x[j + 3]
        e = w[column(index, j + 4)] * x[j + 4]
        f = w[column(index, j + 5)] * x[j + 5]
        g = w[column(index, j + 6)] * x[j + 6]
        h = w[column(index, j + 7)] * x[j + 7]
        j += 8
    if j + 4 <= stop:
        a += w[column(index, j)] * x[j]
        b += w[column(index, j + 1)] * x[j + 1]
        c += w[column(index, j + 2)] * x[j + 2]
        d += w[column(index, j + 3)] * x[j + 3]
        j += 4
    if j + 2 <= stop:
        e += w[column(index, j)] * x[j]
        f += w[column(index, j + 1)] * x[j + 1]
        j += 2
    if j < stop:
        g += w[column(index, j)] * x[j]
    return ((a + b) + (c + d)) + ((e + f) + (g + h))


@inner
def dot(w, x, index, n):
    """⟨w, x⟩; numbers that fill no vector registers are summed at the same time, not afterwards."""
    whole = n & -16
    return _dot(w, x, index, 0, whole) + _short_dot(w, x, index, whole, n)


def score(w, s, p, x, index, n, D, which):
    return s[SCALE] * dot(w, x, index, n)


@inner
def _keep_in_range(w, s, D):
    """Multiply the factor out before it leaves the range of numbers, so rarely that O(D) is nothing."""
    if abs(s[SCALE]) < 1e-100:
        for d in range(D):
            w[d] *= s[SCALE]
        s[SQUARES] *= s[SCALE] * s[SCALE]
        s[SCALE] = 1.0


def begin(w, s, p, D, eta, weight):
    s[SCALE] *= 1.0 - eta * p[L2] * weight
    _keep_in_range(w, s, D)


@inner
def _keep_norm(w, s, D, gained, n):
    """Add to the squared norm; it loses digits, and summing it anew once in 16·D weights costs little."""
    s[SQUARES] += gained
    s[TOUCHED] += n
    if s[TOUCHED] > 16.0 * D:
        fresh = 0.0
        for d in range(D):
            fresh += w[d] * w[d]
        s[SQUARES] = fresh
        s[TOUCHED] = 0.0


@inner
def _inverse(s):
    """1 over the factor; a bare quotient would be divided anew for every number, as sums may be reordered."""
    return 1.0 / s[SCALE] if s[SCALE] != 0.0 else 0.0


@inner
def _move(w, x, index, start, stop, move):
    """Add to the weights; what the sum of their squares gains."""
    gained = 0.0
    for j in range(start, stop):
        d = column(index, j)
        change = move * x[j]
        gained += change * (2.0 * w[d] + change)
        w[d] += change
    return gained


@inner
def _short_move(w, x, index, n, move):
    """The same of few numbers, two at a time: one sum would wait for itself at every number."""
    even, odd, j = 0.0, 0.0, 0
    while j + 2 <= n:
        d, e = column(index, j), column(index, j + 1)
        change, other = move * x[j], move * x[j + 1]
        even += change * (2.0 * w[d] + change)
        odd += other * (2.0 * w[e] + other)
        w[d] += change
        w[e] += other
        j += 2
    if j < n:
        d = column(index, j)
        change = move * x[j]
        even += change * (2.0 * w[d] + change)
        w[d] += change
    return even + odd


@inner
def _per_slope(s, eta, weight):
    """How far a step goes for a slope of 1: known before the slope is."""
    return -eta * weight * _inverse(s)


def step(w, s, p, x, index, n, D, g, eta, weight):
    move = _per_slope(s, eta, weight) * g
    if sparse(index):
        gained = _short_move(w, x, index, n, move)
    else:  # In two parts as in `dot`.
        whole = n & -8
        gained = _move(w, x, index, 0, whole, move) + _move(w, x, index, whole, n, move)
    _keep_norm(w, s, D, gained, n)


def commit(w, s, p, delta, maxima, index, n, D, eta):
    inverse, gained = _inverse(s), 0.0
    for j in range(n):
        d = column(index, j)
        change = inverse * delta[d]
        gained += change * (2.0 * w[d] + change)
        w[d] += change
        delta[d] = 0.0
    _keep_norm(w, s, D, gained, n)


def finish(w, s, p, D, t, eta):
    kind = p[KIND]
    if kind == _L2_BALL:
        norm = abs(s[SCALE]) * max(s[SQUARES], 0.0) ** 0.5
        if norm > p[RADIUS]:
            s[SCALE] *= p[RADIUS] / norm
            _keep_in_range(w, s, D)
    elif kind != _FREE:
        _project_onto_l1(w, s, p, D, kind == _SIMPLEX)


@inner
def _project_onto_l1(w, s, p, D, nonnegative):
    """Soft threshold at the level where the sum is the radius, found by repeated averaging."""
    total = 0.0
    for d in range(D):
        w[d] *= s[SCALE]
        total += w[d] if nonnegative else abs(w[d])
    s[SCALE] = 1.0
    if not nonnegative and total <= p[RADIUS]:
        return
    count = D
    level = (total - p[RADIUS]) / count
    while True:
        kept, inside = 0, 0.0
        for d in range(D):
            size = w[d] if nonnegative else abs(w[d])
            if size > level:
                kept += 1
                inside += size
        if kept == count or kept == 0:  # 0: the sum left the range of numbers
            break
        count = kept
        level = (inside - p[RADIUS]) / count
    fresh = 0.0
    for d in range(D):
        size = w[d] if nonnegative else abs(w[d])
        rest = max(size - level, 0.0)
        w[d] = rest if nonnegative or w[d] >= 0.0 else -rest
        fresh += rest * rest
    s[SQUARES] = fresh
    s[TOUCHED] = 0.0


def to_message(w, s, p, index, n, D, out):
    scale = s[SCALE]
    for j in range(n):
        out[j] = scale * w[column(index, j)]


@inner
def _replace(w, index, start, stop, inverse, averaged):
    """Put new weights in; what the sum of their squares gains."""
    gained = 0.0
    for j in range(start, stop):
        d = column(index, j)
        fresh = inverse * averaged[j]
        gained += fresh * fresh - w[d] * w[d]
        w[d] = fresh
    return gained


def from_message(w, s, p, index, n, D, averaged):
    # In two parts as in `dot`.
    inverse, whole = _inverse(s), n & -16
    gained = _replace(w, index, 0, whole, inverse, averaged)
    gained += _replace(w, index, whole, n, inverse, averaged)
    if n == D:
        _keep_norm(w, s, D, gained, n)
    else:  # some features, and w may begin at the first of them: the next step sums all of them anew
        s[SQUARES] += gained
        s[TOUCHED] += n


def squares(w, s, p, D):
    return s[SCALE] * s[SCALE] * max(s[SQUARES], 0.0)


# --- a step and the next score ---------------------------------------------------------------------
# A short dense row is stepped along and the next one scored in one go: the score need not wait until new
# weights can be read again. Loops are in two parts as in `dot`.


@inner
def _move_on(w, x, following, start, stop, move):
    """Add to the weights: (the sum of their squares, ⟨w, following⟩)."""
    squares, total = 0.0, 0.0
    for j in range(start, stop):
        fresh = w[j] + move * x[j]
        w[j] = fresh
        squares += fresh * fresh
        total += fresh * following[j]
    return squares, total


@inner
def _move_on_shortly(w, x, following, start, stop, move):
    """The same of few numbers, two at a time: one sum would wait for itself at every number."""
    squares, even, odd, j = 0.0, 0.0, 0.0, start
    while j + 2 <= stop:
        fresh, other = w[j] + move * x[j], w[j + 1] + move * x[j + 1]
        w[j] = fresh
        w[j + 1] = other
        squares += fresh * fresh + other * other
        even += fresh * following[j]
        odd += other * following[j + 1]
        j += 2
    if j < stop:
        fresh = w[j] + move * x[j]
        w[j] = fresh
        squares += fresh * fresh
        even += fresh * following[j]
    return squares, even + odd


@inner
def _move_along(w, x, index, n, move):
    """Add to the weights; ‖x‖²."""
    if not sparse(index):
        for j in range(n):
            w[j] += move * x[j]
        return dot(x, x, index, n)
    even, odd, j = 0.0, 0.0, 0
    while j + 2 <= n:  # one sum would wait for itself at every number
        w[column(index, j)] += move * x[j]
        w[column(index, j + 1)] += move * x[j + 1]
        even += x[j] * x[j]
        odd += x[j + 1] * x[j + 1]
        j += 2
    if j < n:
        w[column(index, j)] += move * x[j]
        even += x[j] * x[j]
    return even + odd


@inner
def _constant(w, ones, move):
    """Add to the weight of the 1 in front of a row, if there is one: what it gives the next score."""
    if ones == 0:
        return 0.0
    w[0] += move
    return w[0]


def step_and_score(w, s, p, x, index, n, D, z, g, eta, weight, ones, following, next_index, next_n):
    move, v = _per_slope(s, eta, weight) * g, floats(address_of(w, ones))
    if sparse(index) or n >= SHORT:
        constant = _constant(w, ones, move)
        if n < SHORT or g != 0.0:
            # ‖w + move·x‖², with the ⟨w, x⟩ of which z was made; w has shrunk since.
            product = z * (1.0 - eta * p[L2]) * _inverse(s)
            length = _move_along(v, x, index, n, move)
            touched = n if weight != 0.0 else 0  # who only looks leaves the state as it is
            _keep_norm(w, s, D, move * (2.0 * product + move * (ones + length)), touched)
        return s[SCALE] * (constant + dot(v, following, next_index, next_n))
    whole = n & -16
    squares, total = _move_on(v, x, following, 0, whole, move)
    more, rest = _move_on_shortly(v, x, following, whole, n, move)
    constant = _constant(w, ones, move)
    s[SQUARES] = constant * constant + squares + more
    return s[SCALE] * (constant + total + rest)


# --- without an L2 term and a domain ---------------------------------------------------------------
# The factor is 1, and there is nothing to begin or to finish.


def free_score(w, s, p, x, index, n, D, which):
    return dot(w, x, index, n)


def free_step(w, s, p, x, index, n, D, g, eta, weight):
    move = -eta * weight * g
    for j in range(n):
        w[column(index, j)] += move * x[j]


def free_step_and_score(
    w, s, p, x, index, n, D, z, g, eta, weight, ones, following, next_index, next_n
):
    move, v = -eta * weight * g, floats(address_of(w, ones))
    constant = _constant(w, ones, move)
    if sparse(index) or n >= SHORT:
        if n < SHORT or g != 0.0:
            free_step(v, s, p, x, index, n, D, g, eta, weight)
        return constant + dot(v, following, next_index, next_n)
    whole = n & -16
    _, total = _move_on(v, x, following, 0, whole, move)
    _, rest = _move_on_shortly(v, x, following, whole, n, move)
    return constant + total + rest


for _loop in (score, step, free_step):
    inner(_loop)
_OWN = score, step, begin, finish, commit, to_message, from_message, squares
_NATURE: dict[str, Any] = {"additive": True, "branchless_step": True, "propagates_nan": True}
LOOPS = Loops.of(*_OWN, weights=to_message, shared=ADD, **_NATURE)
SHRUNK = replace(LOOPS, finish=None, step_and_score=step_and_score)
"""With an L2 term and no domain."""
FREE = Loops(free_score, free_step, step_and_score=free_step_and_score, **_NATURE)
