"""Answers that are numbers, centred and scaled while they are learned, as features are.

A score is in deviations of the answers from their mean; a prediction is in their own units, and within the
range of the answers that were heard, unless that is switched off. One wild answer must not change what all
weights mean: beyond eight deviations it counts as if it were there.
"""

from __future__ import annotations

import math

from ddol.compiled import inner

# Scalars of `ddol.update.coordinates`: sums that neighbours average.
SAMPLED, SEEN, HEARD, ANSWERS, VARIATION, OWN_SUMS = range(6)
HIGHEST, LOWEST = 11, 12
"""The largest answer and the largest −answer that were heard; −inf: none, or no range is kept."""
# Its parameters.
KEEP, REGRESSION, AGENTS, POOLED, FRESH, CENTRES, CLIPS, OWN_PARAMETERS = range(8)

OUTLYING = 8.0
"""Deviations from the mean up to which a value counts as it is."""
VARIES = 1e-28
"""Less than this, in squares of the mean, is rounding."""


@inner(inlined=True)
def mean_answer(s):
    return s[ANSWERS] / s[HEARD] if s[HEARD] > 0.0 else 0.0


@inner(inlined=True)
def scale_of_answers(s):
    """Deviation of the answers; 0 where they have not varied."""
    if s[HEARD] == 0.0:
        return 0.0
    variance, mean = s[VARIATION] / s[HEARD], s[ANSWERS] / s[HEARD]
    return math.sqrt(variance) if variance > VARIES * mean * mean else 0.0


@inner(inlined=True)
def limited(s, y):
    """An answer as statistics take it: one that is farther away than `OUTLYING` as if it were there."""
    most = OUTLYING * scale_of_answers(s)
    if most == 0.0:
        return y
    mean = mean_answer(s)
    return mean + min(max(y - mean, -most), most)


@inner(inlined=True)
def variation(s, y):
    """What an answer adds to the squares about the mean: its distances before and after it counts."""
    before = s[ANSWERS] / s[HEARD] if s[HEARD] > 0.0 else y
    return (y - before) * (y - (s[ANSWERS] + y) / (s[HEARD] + 1.0))


@inner(inlined=True)
def knows_range(s):
    """Whether the range of answers is kept: what was learned before it was has none, and begins none."""
    return s[HEARD] == 0.0 or s[HIGHEST] > -math.inf


def hear(w, s, p, x, index, n, D, y):
    if knows_range(s):
        s[HIGHEST] = max(s[HIGHEST], y)
        s[LOWEST] = max(s[LOWEST], -y)
    y = limited(s, y)
    s[VARIATION] += variation(s, y)
    s[ANSWERS] += y
    s[HEARD] += 1.0


@inner
def hear_together(s, delta, maxima, sums, y, weight):
    """Collect what an answer adds on a shared copy: from `sums` on, and to the first maxima."""
    if knows_range(s):
        maxima[0] = max(maxima[0], y)
        maxima[1] = max(maxima[1], -y)
    y = limited(s, y)
    delta[sums + HEARD] += weight
    delta[sums + ANSWERS] += weight * y
    delta[sums + VARIATION] += weight * variation(s, y)


@inner(inlined=True)
def teaches_nothing(s, p, g, weight):
    """Whether an answer has no slope, or its slope was taken before two numbers were heard.

    A step weighs 1 over the examples of its batch, which were all predicted before any answer to them was
    heard. As many answers were under way then as are now, unless there were fewer examples.
    """
    return g == 0.0 or (p[REGRESSION] != 0.0 and _heard_before(s, p, 1.0 / weight, 0.0) < 1.75)


@inner(inlined=True)
def absorbs_nothing(s, p, g, weight):
    """The same on a shared copy, where steps weigh less by the agents, and nobody's batch is counted yet."""
    size = 1.0 / (weight * p[AGENTS])
    return g == 0.0 or (p[REGRESSION] != 0.0 and _heard_before(s, p, size, size) < 1.75)


@inner(inlined=True)
def under_way(s, p):
    """Numbers not heard yet, of the examples whose slopes were taken; not counted of classes."""
    kept = p[REGRESSION] != 0.0 and p[FRESH] == 0.0
    return max(s[SEEN] - s[HEARD], 0.0) if kept else 0.0


@inner(inlined=True)
def _heard_before(s, p, size, own):
    """Answers that had been heard when the slopes were taken of the batch whose answers come now."""
    if p[FRESH] != 0.0:
        return s[HEARD] + own - size
    return 2.0 * (s[HEARD] + own) - (s[SEEN] + own) - size


@inner(inlined=True)
def in_units_of_answers(s, p, score):
    if p[REGRESSION] == 0.0:
        return score
    return mean_answer(s) + scale_of_answers(s) * score


@inner(inlined=True)
def within(z, low, high):
    """A number clipped to a range; NaN stays NaN."""
    return low if z < low else high if z > high else z


@inner(inlined=True)
def predicted(s, p, score):
    """A score in units of the answers, within their range."""
    z = in_units_of_answers(s, p, score)
    if p[CLIPS] != 0.0 and s[HIGHEST] > -math.inf:
        return within(z, -s[LOWEST], s[HIGHEST])
    return z
