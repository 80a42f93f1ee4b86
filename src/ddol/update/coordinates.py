"""Coordinates that standardise while they learn: x̃ = clip((x − centre)/scale, ±4).

Features that are not centred, or of very different scales, make a problem ill-conditioned: steps must
then be huge, and huge steps survive neither rare exchanges nor late answers. So `adaptive`, `coin` and
`newton` all learn weights of x̃, and each agent keeps what x̃ needs, per feature:

- how many examples had a value other than 0, the sum of these values, and their squares about a
  reference, the mean as it was a little while ago. Nothing ever cancels: the sum is kept as a deviation
  from the reference, and with f the share of values other than 0, r their mean and q their variance, a
  feature's variance over all examples is f·(q + r²·(1 − f)), a sum of positive numbers.
- its *centre* and *scale*, taken from these anew when the count has grown by a sixteenth. A feature is
  centred where at least half of its values are other than 0, and not where fewer than two fifths are, so
  that a sparse row still costs O(non-zeros): there are at most 2.5 times as many centred features as an
  average row has values. In between the centre is a part of the mean that grows from 0 to 1, and the scale
  the root of the mean square about it, so that agents whose counts differ a little differ a little. A
  feature that never varies tells nothing, x̃ = 0; an update has an intercept of its own. A feature that
  fewer than a ninth of the examples have is scaled as if a ninth had it, so that larger and smaller values
  can be told apart within the clip. How large such features are beside each other may be meant, too, as in
  tf–idf: one that is as large as others has the usual value x̃ = 3, as larger ones have, smaller ones
  have less, down to 1, by the mean of the logarithms of their root mean squares after the last round that was
  counted.
- how far a value may be from the reference, eight deviations, before it counts as if it were there: one
  wild value must not blind a feature for ever. A wild first value meets no such limit; so when a feature
  has had 6 and 12 values, an agent that is alone sums as many again by themselves, and where these vary a
  thousand times less (in squares) it forgets the values before them: a scale that is too small grows
  fast, one that is too large would shrink slowly. (Sums of several agents are about several references.)

No value among t others can be farther from their mean than √t deviations, so |x̃| is at most min(4, √t), t
the examples of earlier rounds. That is what the first value of a feature counts: its scale is not known.
Answers of a regression are centred and scaled in the same way, with every answer.

All of it is sums, so neighbours average it linearly. With a finite `memory` every sum forgets: instead of
shrinking D numbers an example, new ones weigh ever more (`WEIGHT`), and rows are divided by it in messages.

A late answer finds its row standardised as the coordinates are by then: rows wait raw.
"""

from __future__ import annotations

import math

from ddol.compiled import column, inner, row, sparse
from ddol.update.answers import (
    AGENTS,
    CENTRES,
    KEEP,
    OUTLYING,
    OWN_SUMS,
    POOLED,
    REGRESSION,
    SAMPLED,
    SEEN,
    VARIES,
    hear_together,
)
from ddol.update.contract import COUNT, LINEAR, LOCAL, UNBOUNDED, FeatureList, Field
from ddol.update.sampling import samples

UNKNOWN = 1e300
"""1/scale of a feature before its first value, which is then as far away as values can be."""

# Rows of D numbers, in front of an update's own.
FILLED, SUM, SQUARES, REFERENCE, CENTRE, INVERSE, LIMIT, NEXT, BEFORE = range(9)
SIZE, CENTRED, DUE, MARK, ABSENT, MOVED, WAS_CENTRE, WAS_INVERSE, OWN = range(9, 18)
ROWS = (
    Field("filled", LOCAL),  # values other than 0
    Field("sum", LOCAL),  # of them, as deviations from the reference
    Field("squares", LOCAL),  # of these deviations
    Field("reference", LOCAL),
    Field("centre", LOCAL),
    Field("inverse", LOCAL, UNKNOWN),  # 1/scale; 0 where a feature says nothing
    Field("limit", LOCAL, math.inf, UNBOUNDED),
    Field("next", LOCAL, 1e-300),  # count at which centre and scale are taken anew
    Field("before", LOCAL, -1.0),  # squares of values before those summed now; < 0: all are
    # Logarithm of a rare feature's root mean square; infinite: none known.
    Field("size", LOCAL, math.inf, UNBOUNDED),
    Field("centred", LOCAL),  # list of the features whose centre is not 0
    Field("due", LOCAL),  # list of the features whose count has reached `next`
    Field("mark", LOCAL),  # which features a row has, while those that it lacks are listed
    Field("absent", LOCAL),  # list of the centred features that a row lacks, and room for others
    Field("moved", LOCAL),  # list of the features whose centre and scale were taken anew
    Field("was_centre", LOCAL),  # centre and 1/scale of these before
    Field("was_inverse", LOCAL),  # 0 where a feature is not listed
)

# Scalars: sums that are averaged, six of the update itself among them, then notes.
N_CENTRED, STALE, N_DUE, WEIGHT, TIME, LOOK, REACH, SAMPLES, CLOCK = range(13, 22)
SIZES, SIZED, USUAL, N_MOVED, NOTES = range(22, 27)
SCALARS = (
    Field("sampled", least=0.0),  # examples that statistics are of
    Field("seen", least=0.0),  # examples
    Field("heard", least=0.0),  # answers
    Field("answers"),  # their sum
    Field("variation", least=0.0),  # their squares about the mean
    *(Field(f"own {k}") for k in range(6)),
    # The largest answer and −answer; neighbours share them where answers are numbers.
    Field("highest", LOCAL, -math.inf, UNBOUNDED),
    Field("lowest", LOCAL, -math.inf, UNBOUNDED),
    Field("n_centred", LOCAL, holds=COUNT),
    Field("stale", LOCAL),  # whether the list of centred features is to be made anew
    Field("n_due", LOCAL, holds=COUNT),
    Field("weight", LOCAL, 1.0),
    Field("time", LOCAL),
    Field("look", LOCAL),  # number of examples at which centred features are looked through
    Field("reach", LOCAL),  # |x̃| at most
    Field("samples", LOCAL, 1.0),  # whether statistics are taken of this round's examples
    Field("clock", LOCAL),  # penalty so far
    Field("sizes", LOCAL),  # sum of the sizes of rare features
    Field("sized", LOCAL),  # how many these are
    # Their mean after the last round that was counted; infinite: none yet.
    Field("usual", LOCAL, math.inf, UNBOUNDED),
    Field("n_moved", LOCAL, holds=COUNT),
    *(Field(f"note {k}", LOCAL, 1.0) for k in range(3)),  # of the update itself
)
LISTS = (
    FeatureList("centred", "n_centred", nonzero="centre", stale="stale"),
    FeatureList("due", "n_due"),
    FeatureList("moved", "n_moved"),
)
"""Loops follow these lists wherever they lead, so they are checked in every state that is read."""
STATISTICS = (LINEAR,) * 3
"""The first rows of a message, and of what is collected: filled, sum, squares."""
COUNTED = (len(STATISTICS), 1)
"""Rows and scalars of a message that are statistics of the features."""

CLIP = 4.0
NEAR = 1.5
"""How much a scale may change, in deviations also a centre, for weights to move along."""
GROWTH, _LITTLE = 1.0625 - 1e-8, 1e-8
"""A little less than what is said, so that the order of a summation does not decide."""
BEGINS = 0.8
"""Part of the share from which on a feature is centred in full, from which on it is centred in part."""
YOUNG, GROWN, DOUBLED, FAR = 6.0 - 1e-8, 24.0 - 1e-8, 2.0 - 1e-8, 1000.0
"""From and up to which count a feature's next values, as many again, are summed by themselves: where they
vary so much less (in squares), the values before them are forgotten."""
FORGETS = 0.999
"""What is left of an example after a round, down to which weights move along with centres and scales."""
RAREST = 1.0 / 9.0
"""A feature that is rarer is scaled as if it were in so many examples."""
LEAST = math.sqrt(RAREST)
"""What a rare feature counts that is much smaller than the others: as if all examples had it."""
NEVER = 1e-299
"""`next` up to here: centre and scale have not been taken yet."""
WEIGHTIEST = 1e60
_ROUNDING = 1e-13
_BESIDE = 1e-5
_ALL = 1.0 - 1e-10


@inner(inlined=True)
def clipped(z, most):
    return min(max(z, -most), most)


@inner(inlined=True)
def root_of_weight(s):
    """√WEIGHT; nobody waits for a root where nothing is forgotten."""
    return 1.0 if s[WEIGHT] == 1.0 else math.sqrt(s[WEIGHT])


@inner(inlined=True)
def standardised(w, s, d, D, x):
    """x̃ of a value; of 0, where a row does not have the feature."""
    return clipped((x - w[CENTRE * D + d]) * w[INVERSE * D + d], s[REACH])


@inner
def lacks(w, s, index, n, D):
    """Whether a sparse row does not have all centred features: their x̃ is not 0."""
    if not sparse(index) or s[N_CENTRED] == 0.0:
        return False
    centre, present = row(w, CENTRE, D), 0
    for j in range(n):
        present += centre[column(index, j)] != 0.0
    return present < s[N_CENTRED]


@inner
def list_absent(w, s, index, n, D):
    """List the centred features that a sparse row lacks; how many there are."""
    if not lacks(w, s, index, n, D):
        return 0
    mark, count = row(w, MARK, D), 0
    for j in range(n):
        mark[column(index, j)] = 1.0
    for k in range(int(s[N_CENTRED])):
        d = int(w[CENTRED * D + k])
        if mark[d] == 0.0:
            w[ABSENT * D + count] = d
            count += 1
    for j in range(n):
        mark[column(index, j)] = 0.0
    return count


@inner
def dot(w, s, x, index, n, D):
    """Weights, an update's first row, times x̃; NaN where a value is not finite."""
    if sparse(index):
        return _sparse_dot(w, s, x, index, n, D)
    total, doubt, most, whole, rest = 0.0, 0.0, s[REACH], n & -8, 0.0
    u, centre, inverse = row(w, OWN, D), row(w, CENTRE, D), row(w, INVERSE, D)
    for j in range(whole, n):
        rest += u[j] * clipped((x[j] - centre[j]) * inverse[j], most) + 0.0 * x[j]
    for j in range(whole):
        total += u[j] * clipped((x[j] - centre[j]) * inverse[j], most)
        doubt += 0.0 * x[j]
    return total + doubt + rest


@inner
def _sparse_dot(w, s, x, index, n, D):
    """The same of a sparse row, two values at a time: one sum would wait for itself at every value."""
    u, centre, inverse = row(w, OWN, D), row(w, CENTRE, D), row(w, INVERSE, D)
    even, odd, doubt, most, present, j = 0.0, 0.0, 0.0, s[REACH], 0, 0
    while j + 2 <= n:
        d, e = column(index, j), column(index, j + 1)
        even += u[d] * clipped((x[j] - centre[d]) * inverse[d], most)
        odd += u[e] * clipped((x[j + 1] - centre[e]) * inverse[e], most)
        doubt += 0.0 * x[j] + 0.0 * x[j + 1]
        present += (centre[d] != 0.0) + (centre[e] != 0.0)
        j += 2
    if j < n:
        d = column(index, j)
        even += u[d] * clipped((x[j] - centre[d]) * inverse[d], most)
        doubt += 0.0 * x[j]
        present += centre[d] != 0.0
    if present < s[N_CENTRED]:
        odd += _dot_of_absent(w, s, index, n, D)
    return even + odd + doubt


@inner
def _dot_of_absent(w, s, index, n, D):
    """What centred features that a row lacks add: all of them, less those that are there."""
    u, total = row(w, OWN, D), 0.0
    for k in range(int(s[N_CENTRED])):
        d = int(w[CENTRED * D + k])
        total += u[d] * standardised(w, s, d, D, 0.0)
    for j in range(n):
        d = column(index, j)
        total -= u[d] * standardised(w, s, d, D, 0.0)
    return total


# --- an example --------------------------------------------------------------------------------


@inner
def observe(w, s, p, x, index, n, D):
    filled, due = row(w, FILLED, D), row(w, NEXT, D)
    total, squares = row(w, SUM, D), row(w, SQUARES, D)
    reference, limit = row(w, REFERENCE, D), row(w, LIMIT, D)
    weight, reached = s[WEIGHT], 0
    s[SEEN] += 1.0
    if s[SAMPLES] == 0.0:
        return
    s[SAMPLED] += 1.0
    for j in range(n):
        d = column(index, j)
        counted = weight if x[j] != 0.0 else 0.0
        apart = clipped(x[j] - reference[d], limit[d])
        filled[d] += counted
        total[d] += counted * apart
        squares[d] += counted * apart * apart
        reached += filled[d] >= due[d]
    if reached > 0:
        list_due(w, s, index, n, D)


@inner
def list_due(w, s, index, n, D):
    """Note the features whose centre and scale are to be taken anew, once the round is over.

    A feature that is on the list already has the negative of its `next`. A message makes it positive again
    while the feature stays on the list, so several messages before the end of a round could fill the list.
    """
    for j in range(n):
        d = column(index, j)
        if 0.0 < w[NEXT * D + d] <= w[FILLED * D + d] and s[N_DUE] < D:
            w[NEXT * D + d] *= -1.0
            w[DUE * D + int(s[N_DUE])] = d
            s[N_DUE] += 1.0


@inner
def notice(w, s, p, delta, maxima, x, index, n, D, y, weight, sums):
    """Collect what an example and its answer add, in the first three rows and the scalars from `sums` on."""
    reference, limit = row(w, REFERENCE, D), row(w, LIMIT, D)
    filled, total, squares = row(delta, 0, D), row(delta, 1, D), row(delta, 2, D)
    if s[SAMPLES] != 0.0:
        for j in range(n):
            d = column(index, j)
            counted = weight * s[WEIGHT] if x[j] != 0.0 else 0.0
            apart = clipped(x[j] - reference[d], limit[d])
            filled[d] += counted
            total[d] += counted * apart
            squares[d] += counted * apart * apart
        delta[sums + SAMPLED] += weight
    delta[sums + SEEN] += weight
    if p[REGRESSION] != 0.0:
        hear_together(s, delta, maxima, sums, y, weight)


@inner
def commit(w, s, delta, index, n, D):
    """Add what was collected."""
    if s[SAMPLES] == 0.0:
        return
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


@inner(inlined=True)
def _sum_up(w, d, D):
    """Put together what was summed of one feature: squares about its mean, which the reference becomes."""
    filled, due, before = w[FILLED * D + d], abs(w[NEXT * D + d]), w[BEFORE * D + d]
    count = filled
    if before >= 0.0:
        # Of the values since the sums began anew; where these do not vary, they tell nothing of the scale,
        # unless they are too small beside a wild reference to tell whether they vary.
        begun = due / DOUBLED
        late, gap = max(filled - begun, 1.0), w[SUM * D + d] / max(filled - begun, 1.0)
        about = gap * w[SUM * D + d]
        rest = max(w[SQUARES * D + d] - about, _ROUNDING * about)
        reference = w[REFERENCE * D + d]
        varies = rest > _ROUNDING * about or abs(reference + gap) < _BESIDE * abs(reference)
        if filled >= due and varies and FAR * rest * begun < before * late:
            count = late
            w[SQUARES * D + d] = rest * (filled / late)
        else:
            w[SQUARES * D + d] += before
        w[BEFORE * D + d] = -1.0
    shift = w[SUM * D + d] / count
    if due < NEVER:
        # Squares were about 0 until now; what cannot be told from rounding is none.
        about = shift * w[SUM * D + d]
        rest = w[SQUARES * D + d] - about
        w[SQUARES * D + d] = rest if rest > _ROUNDING * about else 0.0
    w[REFERENCE * D + d] += shift
    w[SUM * D + d] = 0.0


@inner(inlined=True)
def _resize(w, s, d, D, square):
    """Note the mean square of a rare feature's values; 0 where a feature is not rare, or nothing is known."""
    if w[SIZE * D + d] < math.inf:
        s[SIZES] -= w[SIZE * D + d]
        s[SIZED] -= 1.0
    w[SIZE * D + d] = 0.5 * math.log(square) if square > 0.0 else math.inf
    if square > 0.0:
        s[SIZES] += w[SIZE * D + d]
        s[SIZED] += 1.0


@inner(inlined=True)
def _beside_others(w, s, d, D):
    """What a rare feature counts beside the others: larger ones more, up to 1."""
    ratio = math.exp(w[SIZE * D + d] - s[USUAL]) if s[USUAL] < math.inf else 1.0
    return min(max(ratio, LEAST), 1.0)


@inner(inlined=True)
def _part_of_mean(p, share):
    """Which part of its mean a feature's centre is; agents whose shares differ a little differ a little."""
    least, most = BEGINS * p[CENTRES], p[CENTRES] - _LITTLE
    within = least > 0.0 and share < most
    return max((share - least) / (most - least), 0.0) if within else 1.0


@inner(inlined=True)
def _note_move(w, s, d, D):
    """Note the coordinates that an update's weights are in, so that it can follow to others: see `moved`."""
    inverse = w[INVERSE * D + d]
    room = s[N_MOVED] < D  # there is, unless the list came from elsewhere
    if room and w[WAS_INVERSE * D + d] == 0.0 and 0.0 < inverse < UNKNOWN:
        w[WAS_CENTRE * D + d] = w[CENTRE * D + d]
        w[WAS_INVERSE * D + d] = inverse
        w[MOVED * D + int(s[N_MOVED])] = d
        s[N_MOVED] += 1.0


@inner(inlined=True)
def moved(w, p, d, D):
    """How a listed feature has moved, so that the score can stay the same function.

    Its weight is to be multiplied by the first number, and the intercept to grow by its weight before times
    the second.

    A scale or centre that was far off, as one of few values may be, is corrected instead: what was learned
    with it was clipped, and not a function of x beyond.
    """
    before, inverse = w[WAS_INVERSE * D + d], w[INVERSE * D + d]
    was, centre = w[WAS_CENTRE * D + d], w[CENTRE * D + d]
    w[WAS_INVERSE * D + d] = 0.0
    if inverse == 0.0:
        return 1.0, 0.0
    ratio, shift = before / inverse, (centre - was) * before
    if max(ratio, 1.0 / ratio) * (1.0 + abs(shift)) > NEAR:
        return 1.0, 0.0
    return ratio, shift


@inner
def retake(w, s, p, d, D):
    """Take the centre and the scale of one feature from its sums; whether it is centred otherwise now."""
    _sum_up(w, d, D)
    filled = w[FILLED * D + d]
    within = w[SQUARES * D + d] / filled
    w[NEXT * D + d] = GROWTH * filled
    if YOUNG <= filled < GROWN and p[POOLED] == 1.0 and p[KEEP] == 1.0:
        w[NEXT * D + d] = DOUBLED * filled
        w[BEFORE * D + d] = w[SQUARES * D + d]
        w[SQUARES * D + d] = 0.0
    share, mean = filled / (s[SAMPLED] * s[WEIGHT]), w[REFERENCE * D + d]
    share = share if share < _ALL else 1.0
    if p[KEEP] > FORGETS:  # else weights stay with the recent mean as it moves, and with its scale
        _note_move(w, s, d, D)
    variance = within + mean * mean * (1.0 - share)
    varies = variance > VARIES * mean * mean
    deviation = math.sqrt(variance) if varies else 0.0
    w[LIMIT * D + d] = OUTLYING * deviation if varies else math.inf
    before, part = w[CENTRE * D + d], _part_of_mean(p, share)
    w[CENTRE * D + d] = part * share * mean
    if part == 1.0:
        _resize(w, s, d, D, 0.0)
        if varies and share < 1.0:
            deviation = math.sqrt(max(share, RAREST) * variance)
        w[INVERSE * D + d] = 1.0 / deviation if varies else 0.0
    else:
        # Agents that have met one value each, of either sign, may agree on a mean and a variance of 0.
        square, off = within + mean * mean, part * share * mean
        _resize(w, s, d, D, square)
        spread = max(share, RAREST) * square - off * (2.0 * share * mean - off)
        beside = 1.0 + (1.0 - part) * (_beside_others(w, s, d, D) - 1.0)
        w[INVERSE * D + d] = beside / math.sqrt(spread) if square > 0.0 else 0.0
    return (before == 0.0) != (w[CENTRE * D + d] == 0.0)


@inner
def _retake_listed(w, s, p, d, D):
    """The same, and put the feature on the list of those that are centred, or strike it off."""
    if not retake(w, s, p, d, D):
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


@inner(inlined=True)
def take_anew(w, s, p, D, t):
    """End a round: let coordinates move that are due, and say whether the next round is sampled."""
    # Who keeps own statistics sends none, and has fewer examples to know them from.
    always = p[KEEP] != 1.0 or p[POOLED] < p[AGENTS]
    sampled, s[SAMPLES] = s[SAMPLES], 1.0 if always or samples(t + 1.0) else 0.0
    if s[REACH] < CLIP:
        s[REACH] = max(s[REACH], min(CLIP, math.sqrt(s[SEEN])))
    if s[STALE] != 0.0 or s[N_DUE] != 0.0 or s[SAMPLED] * s[WEIGHT] >= s[LOOK]:
        _move(w, s, p, D)
    if sampled != 0.0 and s[SIZED] > 0.0:
        s[USUAL] = s[SIZES] / s[SIZED]


@inner
def _move(w, s, p, D):
    """Let coordinates move that are due."""
    if s[STALE] != 0.0:
        _list_anew(w, s, D)
    if s[N_DUE] != 0.0:
        _retake_due(w, s, p, D)
    sampled = s[SAMPLED] * s[WEIGHT]
    if sampled >= s[LOOK]:
        s[LOOK] = GROWTH * sampled
        _look_through(w, s, p, D, BEGINS * p[CENTRES] * sampled)


@inner
def _retake_due(w, s, p, D):
    """Take the coordinates anew that are due."""
    for k in range(int(s[N_DUE])):
        d = int(w[DUE * D + k])
        if w[NEXT * D + d] < 0.0:  # else a message has settled it
            _retake_listed(w, s, p, d, D)
    s[N_DUE] = 0.0


@inner
def _look_through(w, s, p, D, least):
    """Take the coordinates anew of centred features that are dense no more."""
    k = 0
    while k < int(s[N_CENTRED]):
        d, count = int(w[CENTRED * D + k]), s[N_CENTRED]
        if w[FILLED * D + d] < least:
            _retake_listed(w, s, p, d, D)
        if s[N_CENTRED] == count:  # not struck off: another feature would stand at its place
            k += 1


@inner
def age(s, p, t):
    """Let sums over examples forget until round t; what is left of them."""
    if p[KEEP] == 1.0:
        return 1.0
    left = p[KEEP] if t == s[TIME] + 1.0 else p[KEEP] ** (t - s[TIME])
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
