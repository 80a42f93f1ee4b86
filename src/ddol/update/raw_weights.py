"""Weights of features as they are, from those of standardised ones: what users see of a model."""

from __future__ import annotations

from ddol.compiled import column, inner
from ddol.update.answers import REGRESSION, in_units_of_answers, scale_of_answers
from ddol.update.coordinates import CENTRE, INVERSE, REACH, UNKNOWN


@inner(inlined=True)
def _per_unit(w, s, d, D):
    """What x̃ changes by per unit of a feature; where no scale is known yet, by which 1 is away from 0."""
    inverse = w[INVERSE * D + d]
    return inverse if inverse < UNKNOWN else s[REACH]


@inner(inlined=True)
def _never_varies(w, d, D):
    """Whether a feature is the same in all examples, and not 0."""
    return w[INVERSE * D + d] == 0.0 and w[CENTRE * D + d] != 0.0


@inner
def raw_weights(w, s, p, index, n, D, out, place, intercept):
    """Weights of raw features from those of x̃, which stand in the row `place`.

    What is left, the intercept, is the weight of the first feature that never varies, if there is one.
    """
    scale, rest, constant = 1.0, intercept, 0
    if p[REGRESSION] != 0.0:
        scale = scale_of_answers(s)
    while constant < D and not _never_varies(w, constant, D):
        constant += 1
    for d in range(D):
        rest -= w[place * D + d] * _per_unit(w, s, d, D) * w[CENTRE * D + d]
    for j in range(n):
        d = column(index, j)
        out[j] = scale * w[place * D + d] * _per_unit(w, s, d, D)
    if constant < D:
        for j in range(n):
            if column(index, j) == constant:
                out[j] = in_units_of_answers(s, p, rest) / w[CENTRE * D + constant]
