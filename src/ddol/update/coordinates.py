"""Coordinates that standardise while they learn: x̃ = clip((x − centre)/scale, ±4).

Features that are not centred, or of very different scales, make a problem ill-conditioned: steps must
then be huge, and huge steps survive neither rare exchanges nor late answers. So `adaptive`, `coin` and
`newton` all learn weights of x̃, and each agent keeps what x̃ needs, per feature:

- how many examples had a value other than 0, the sum of these values, and their squares about a
  reference, the mean as it was a little while ago. Nothing ever cancels: the sum is kept as a deviation
  from the reference, and with f the share of values other than 0, r their mean and q their variance,
  a feature's variance over all examples is f·(q + r²·(1 − f)), a sum of positive numbers.
- its *centre* and *scale*, taken from these anew when the count has grown by a sixteenth. A feature is
  centred where at least half of its values are other than 0, so that a sparse row still costs
  O(non-zeros): there are at most twice as many centred features as an average row has values. A feature
  that never varies tells nothing, x̃ = 0; an update has an intercept of its own.
- how far a value may be from the reference, eight deviations, before it counts as if it were there: one
  wild value must not blind a feature for ever.

The first value of a feature that shows up later counts ±min(4, √examples): what 1/scale comes to.
Answers of a regression are centred and scaled in the same way, with every answer.

All of it is sums, so neighbours average it linearly. With a finite `memory` every sum forgets: instead of
shrinking D numbers an example, new ones weigh ever more (`WEIGHT`), and rows are divided by it in messages.

A late answer finds its row standardised as the coordinates are by then: rows wait raw.
"""

from __future__ import annotations

import math

from ddol.compiled import column, inner
from ddol.update.contract import LINEAR, LOCAL, Field

# Rows of D numbers, in front of an update's own.
FILLED, SUM, SQUARES, REFERENCE, CENTRE, INVERSE, LIMIT, NEXT, CENTRED, DUE = range(10)
OWN = 10
ROWS = (
    Field("filled", LOCAL),  # values other than 0
    Field("sum", LOCAL),  # of them, as deviations from the reference
    Field("squares", LOCAL),  # of these deviations
    Field("reference", LOCAL),
    Field("centre", LOCAL),
    Field("inverse", LOCAL),  # 1/scale; 0 where a feature says nothing
    Field("limit", LOCAL, math.inf),
    Field("next", LOCAL, 1e-300),  # count at which centre and scale are taken anew
    Field("centred", LOCAL),  # list of the features whose centre is not 0
    Field("due", LOCAL),  # list of the features whose count has reached `next`
)

# Scalars: sums that are averaged, six of the update itself among them, then notes.
SEEN, HEARD, ANSWERS, VARIATION, OWN_SUMS = range(5)
N_CENTRED, STALE, N_DUE, WEIGHT, TIME, LOOK, CLOCK, NOTES = range(10, 18)
SCALARS = (
    Field("seen"),  # examples
    Field("heard"),  # answers
    Field("answers"),  # their sum
    Field("variation"),  # their squares about the mean
    *(Field(f"own {k}") for k in range(6)),
    Field("n_centred", LOCAL),
    Field("stale", LOCAL),  # whether the list of centred features is to be made anew
    Field("n_due", LOCAL),
    Field("weight", LOCAL, 1.0),
    Field("time", LOCAL),
    Field("look", LOCAL),  # number of examples at which centred features are looked through
    Field("clock", LOCAL),  # penalty so far
    Field("note", LOCAL, 1.0),  # of the update itself
)
STATISTICS = (LINEAR,) * 3
"""Rows of a message: filled, sum, squares."""
COUNTED = (len(STATISTICS), OWN_SUMS)
"""Rows and scalars of a message that count examples and answers."""

# Parameters, in front of an update's own.
KEEP, REGRESSION, OWN_PARAMETERS = range(3)

CLIP = 4.0
GROWTH, DENSE = 1.0625 - 1e-8, 0.5 - 1e-8
"""A little less than what is said, so that the order of a summation does not decide."""
OUTLYING = 8.0
NEVER = 1e-299
"""`next` up to here: centre and scale have not been taken yet."""
WEIGHTIEST = 1e60
_ROUNDING = 1e-13
_VARIES = 1e-28
_ALL = 1.0 - 1e-10


@inner(inlined=True)
def clipped(z):
    return min(max(z, -CLIP), CLIP)


@inner(inlined=True)
def standardised(w, d, D, x):
    """x̃ of a value."""
    return clipped((x - w[CENTRE * D + d]) * w[INVERSE * D + d])


@inner(inlined=True)
def absent(w, d, D):
    """x̃ of a feature that a row does not have: 0 unless it is centred."""
    return clipped(-w[CENTRE * D + d] * w[INVERSE * D + d])


@inner(inlined=True)
def first_size(seen):
    """|x̃| of the first value of a feature, among so many examples."""
    return min(CLIP, math.sqrt(max(seen - 1.0, 0.0)))


@inner(inlined=True)
def met(w, d, D, x, first):
    """x̃ of a value that is learned from, which may be the first of its feature."""
    z = standardised(w, d, D, x)
    unknown = first if x > 0.0 else (-first if x < 0.0 else 0.0)
    return unknown if abs(w[NEXT * D + d]) < NEVER else z


@inner(inlined=True)
def deviation(w, d, D, x):
    """x − reference, within its limit."""
    limit = w[LIMIT * D + d]
    return min(max(x - w[REFERENCE * D + d], -limit), limit)


# --- an answer, as a number ----------------------------------------------------------------------


@inner(inlined=True)
def mean_answer(s):
    return s[ANSWERS] / s[HEARD] if s[HEARD] > 0.0 else 0.0


@inner(inlined=True)
def scale_of_answers(s):
    """Deviation of the answers; 0 where they have not varied."""
    if s[HEARD] == 0.0:
        return 0.0
    variance, mean = s[VARIATION] / s[HEARD], s[ANSWERS] / s[HEARD]
    return math.sqrt(variance) if variance > _VARIES * mean * mean else 0.0


@inner(inlined=True)
def variation(s, y):
    """What an answer adds to the squares about the mean: its distances before and after it counts."""
    before = s[ANSWERS] / s[HEARD] if s[HEARD] > 0.0 else y
    return (y - before) * (y - (s[ANSWERS] + y) / (s[HEARD] + 1.0))


def hear(w, s, p, x, index, n, D, y):
    s[VARIATION] += variation(s, y)
    s[ANSWERS] += y
    s[HEARD] += 1.0


@inner(inlined=True)
def was_blind(seen, heard):
    """Whether an answer, the last of those heard, belongs to a prediction made before any answer.

    As many answers were under way then as are now, unless there were fewer examples.
    """
    return 2.0 * (heard - 1.0) - seen < 0.75


@inner(inlined=True)
def in_units_of_answers(s, p, score):
    if p[REGRESSION] == 0.0:
        return score
    return mean_answer(s) + scale_of_answers(s) * score


# --- an example --------------------------------------------------------------------------------


@inner
def observe(w, s, p, x, index, n, D):
    # Short loops over few rows: one over all of them would not use vector registers.
    weight, reached = s[WEIGHT], 0.0
    for j in range(n):
        d = column(index, j)
        filled = w[FILLED * D + d] + (weight if x[j] != 0.0 else 0.0)
        w[FILLED * D + d] = filled
        reached += 1.0 if filled >= w[NEXT * D + d] else 0.0
    for j in range(n):
        d = column(index, j)
        apart = deviation(w, d, D, x[j]) if x[j] != 0.0 else 0.0
        w[SUM * D + d] += weight * apart
        w[SQUARES * D + d] += weight * apart * apart
    s[SEEN] += 1.0
    if reached > 0.0:
        list_due(w, s, index, n, D)


@inner
def list_due(w, s, index, n, D):
    """Note the features whose centre and scale are to be taken anew, once the round is over.

    A feature that is on the list already has the negative of its `next`.
    """
    for j in range(n):
        d = column(index, j)
        if 0.0 < w[NEXT * D + d] <= w[FILLED * D + d]:
            w[NEXT * D + d] *= -1.0
            w[DUE * D + int(s[N_DUE])] = d
            s[N_DUE] += 1.0


@inner
def notice(w, s, p, delta, x, index, n, D, y, weight, sums):
    """Collect what an example and its answer add, in the first three rows and the scalars from `sums` on."""
    counted = weight * s[WEIGHT]
    for j in range(n):
        d = column(index, j)
        if x[j] != 0.0:
            apart = deviation(w, d, D, x[j])
            delta[d] += counted
            delta[D + d] += counted * apart
            delta[2 * D + d] += counted * apart * apart
    delta[sums + SEEN] += weight
    if p[REGRESSION] != 0.0:
        delta[sums + HEARD] += weight
        delta[sums + ANSWERS] += weight * y
        delta[sums + VARIATION] += weight * variation(s, y)


@inner
def commit(w, s, delta, index, n, D):
    """Add what was collected."""
    reached = 0
    for j in range(n):
        d = column(index, j)
        filled = w[FILLED * D + d] + delta[d]
        w[FILLED * D + d] = filled
        w[SUM * D + d] += delta[D + d]
        w[SQUARES * D + d] += delta[2 * D + d]
        reached += filled >= w[NEXT * D + d]
        delta[d] = 0.0
        delta[D + d] = 0.0
        delta[2 * D + d] = 0.0
    if reached > 0:
        list_due(w, s, index, n, D)


# --- the end of a round --------------------------------------------------------------------------


@inner
def retake(w, s, d, D):
    """Take the centre and the scale of one feature from its sums; whether it is centred otherwise now."""
    filled, shift = w[FILLED * D + d], w[SUM * D + d] / w[FILLED * D + d]
    if abs(w[NEXT * D + d]) < NEVER:
        # Squares were about 0 until now; what cannot be told from rounding is none.
        about_zero = shift * w[SUM * D + d]
        rest = w[SQUARES * D + d] - about_zero
        w[SQUARES * D + d] = rest if rest > _ROUNDING * about_zero else 0.0
    w[REFERENCE * D + d] += shift
    w[SUM * D + d] = 0.0
    w[NEXT * D + d] = GROWTH * filled
    share, mean = filled / (s[SEEN] * s[WEIGHT]), w[REFERENCE * D + d]
    share = share if share < _ALL else 1.0
    within = w[SQUARES * D + d] / filled
    variance = within + mean * mean * (1.0 - share)
    varies = variance > _VARIES * mean * mean
    w[LIMIT * D + d] = OUTLYING * math.sqrt(variance) if varies else math.inf
    before = w[CENTRE * D + d]
    if share >= DENSE:
        w[CENTRE * D + d] = share * mean
        w[INVERSE * D + d] = 1.0 / math.sqrt(share * variance) if varies else 0.0
    else:
        # Agents that have met one value each, of either sign, may agree on a mean and a variance of 0.
        size = share * (within + mean * mean)
        w[CENTRE * D + d] = 0.0
        w[INVERSE * D + d] = 1.0 / math.sqrt(size) if size > 0.0 else 0.0
    return (before == 0.0) != (w[CENTRE * D + d] == 0.0)


@inner
def _retake_listed(w, s, d, D):
    """The same, and put the feature on the list of those that are centred, or strike it off."""
    if not retake(w, s, d, D):
        return
    count = int(s[N_CENTRED])
    if w[CENTRE * D + d] != 0.0:
        w[CENTRED * D + count] = d
        s[N_CENTRED] = count + 1.0
        return
    for k in range(count):
        if w[CENTRED * D + k] == d:
            w[CENTRED * D + k] = w[CENTRED * D + count - 1]
            s[N_CENTRED] = count - 1.0
            return


@inner
def _list_anew(w, s, D):
    """Make the list of centred features from nothing: messages do not know which features they are of."""
    count = 0
    for d in range(D):
        if w[CENTRE * D + d] != 0.0:
            w[CENTRED * D + count] = d
            count += 1
    s[N_CENTRED] = count
    s[STALE] = 0.0


@inner
def take_anew(w, s, D):
    """Let coordinates move: those that are due, and those of centred features that are dense no more."""
    if s[STALE] != 0.0:
        _list_anew(w, s, D)
    for k in range(int(s[N_DUE])):
        d = int(w[DUE * D + k])
        if w[NEXT * D + d] < 0.0:  # else a message has settled it
            _retake_listed(w, s, d, D)
    s[N_DUE] = 0.0
    seen = s[SEEN] * s[WEIGHT]
    if seen < s[LOOK]:
        return
    s[LOOK] = GROWTH * seen
    k = 0
    while k < int(s[N_CENTRED]):
        d = int(w[CENTRED * D + k])
        if w[FILLED * D + d] < DENSE * seen:
            _retake_listed(w, s, d, D)
        else:
            k += 1


@inner
def age(s, p, t):
    """Let sums over examples forget until round t; what is left of them."""
    if p[KEEP] == 1.0:
        return 1.0
    left = p[KEEP] ** (t - s[TIME])
    s[TIME] = t
    s[WEIGHT] /= left
    for k in range(OWN_SUMS):
        s[k] *= left
    return left


@inner
def lighten(w, s, D):
    """Measure rows in new weights, before they leave the range of numbers; what the old weight was."""
    weight = s[WEIGHT]
    if weight < WEIGHTIEST:
        return 1.0
    for d in range(D):
        w[FILLED * D + d] /= weight
        w[SUM * D + d] /= weight
        w[SQUARES * D + d] /= weight
        w[NEXT * D + d] = max(w[NEXT * D + d] / weight, 1e-300)
    s[LOOK] /= weight
    s[WEIGHT] = 1.0
    return weight


# --- messages --------------------------------------------------------------------------------------


@inner
def to_message(w, s, index, n, D, out, row):
    """Three rows of a message, from `row` on: filled, sum, squares."""
    share = 1.0 / s[WEIGHT]
    for j in range(n):
        out[row * n + j] = share * w[FILLED * D + column(index, j)]
    for j in range(n):
        d = column(index, j)
        total = w[SUM * D + d] + w[FILLED * D + d] * w[REFERENCE * D + d]
        out[(row + 1) * n + j] = share * total
    for j in range(n):
        out[(row + 2) * n + j] = share * w[SQUARES * D + column(index, j)]


@inner
def from_message(w, s, index, n, D, averaged, row):
    """Take averaged sums, and the coordinates that are due by them.

    What a row alone made due waits no more: averaged counts decide. Features may be counted from any
    place on, so they cannot be listed here.
    """
    weight, reached = s[WEIGHT], 0.0
    for j in range(n):
        d = column(index, j)
        filled, due = weight * averaged[row * n + j], abs(w[NEXT * D + d])
        w[FILLED * D + d] = filled
        w[NEXT * D + d] = due
        reached += 1.0 if filled >= due else 0.0
    for j in range(n):
        d = column(index, j)
        total = weight * averaged[(row + 1) * n + j]
        w[SUM * D + d] = total - w[FILLED * D + d] * w[REFERENCE * D + d]
    for j in range(n):
        w[SQUARES * D + column(index, j)] = weight * averaged[(row + 2) * n + j]
    if reached > 0.0:
        for j in range(n):
            d = column(index, j)
            if w[FILLED * D + d] >= w[NEXT * D + d] and retake(w, s, d, D):
                s[STALE] = 1.0


# --- reading ---------------------------------------------------------------------------------------


@inner
def raw_weights(w, s, p, index, n, D, out, row, intercept):
    """Weights of raw features from those of x̃, which stand in a row.

    What is left, the intercept, is the weight of the first feature that never varies, if there is one.
    """
    scale, rest, constant = 1.0, intercept, -1
    if p[REGRESSION] != 0.0:
        scale = scale_of_answers(s)
    for d in range(D):
        raw = w[row * D + d] * w[INVERSE * D + d]
        rest -= raw * w[CENTRE * D + d]
        if constant < 0 and w[INVERSE * D + d] == 0.0 and w[CENTRE * D + d] != 0.0:
            constant = d
    for j in range(n):
        d = column(index, j)
        out[j] = scale * w[row * D + d] * w[INVERSE * D + d]
        if d == constant:
            out[j] = in_units_of_answers(s, p, rest) / w[CENTRE * D + d]


def parameters(memory: float, regression: bool) -> list[float]:
    """Numbers that the loops find first in ``p``."""
    if not memory > 1.0:
        raise ValueError(f"`memory` must be more than 1 round, it is {memory}")
    return [math.exp(-1.0 / memory), float(regression)]
