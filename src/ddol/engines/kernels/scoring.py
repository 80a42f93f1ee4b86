"""Scores of rows by weights that stay as they are."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ddol.compiled import call_float, call_void, entry, floats, indices, inner, integers, unpacked
from ddol.engines.kernels.layout import (
    BLEND,
    SCORE_UNSEEN,
    Examples,
    Worker,
    noted_scores,
    part,
    vector_at,
)
from ddol.engines.kernels.reading import begin_row, forget_rows, row_in
from ddol.update.answers import within
from ddol.update.coordinates import clipped
from ddol.update.linear import dot


@entry("void(struct*, struct*, int64, int64, int64, int64)")
def _scores(worker, examples, copy, lo, hi, out):
    worker, examples = unpacked(Worker, worker), unpacked(Examples, examples)
    shape, scores = worker.shape, floats(out)
    forget_rows(worker, examples)
    begun = lo
    for i in range(lo, hi):
        # Rows are copied two ahead of the one that is read: what is written last is slow to read.
        while examples.ones != 0 and begun < min(i + 3, hi):
            begin_row(worker, examples, begun, begun & 3)
            begun += 1
        x, index, size = row_in(worker, examples, i, i & 3)
        if part(worker, BLEND) != 0:
            place = floats(out + 8 * i * shape.outputs)
            _blended(worker, copy, (x, index, size), place)
            continue
        for k in range(shape.outputs):
            w, s = vector_at(worker, copy, 0 if shape.states == 1 else k)
            arguments = (w, s, worker.rules.p, x, index, size, shape.D, np.float64(k))
            scores[i * shape.outputs + k] = call_float(part(worker, SCORE_UNSEEN), arguments)


@inner
def _blended(worker, copy, row, scores):
    """Write scores of classes that an update makes of all that its learners say."""
    shape, count, (x, index, size) = worker.shape, noted_scores(worker), row
    room = worker.scratch.scores + 8 * shape.outputs
    for k in range(shape.outputs):
        w, s = vector_at(worker, copy, k)
        for j in range(count):
            arguments = (w, s, worker.rules.p, x, index, size, shape.D, np.float64(j))
            floats(room)[k * count + j] = call_float(part(worker, SCORE_UNSEEN), arguments)
    w, s = vector_at(worker, copy, 0)
    call_void(part(worker, BLEND), (w, s, worker.rules.p, shape.outputs, room, scores))


@inner(inlined=True)
def _sparse_row(examples, i):
    """Values and columns of a sparse row, as they are stored, and how many there are."""
    start, end = integers(examples.indptr)[i], integers(examples.indptr)[i + 1]
    return floats(examples.x + 8 * start), indices(examples.features + 4 * start), end - start


@entry("void(struct*, int64, int64, int64, int64, int64, int64)")
def _sparse_products(examples, lo, hi, weights, outputs, D, out):
    examples, scores = unpacked(Examples, examples), floats(out)
    ones = examples.ones
    for i in range(lo, hi):
        x, index, n = _sparse_row(examples, i)
        for k in range(outputs):
            w = weights + 8 * k * D
            first = floats(w)[0] if ones else 0.0
            scores[i * outputs + k] = first + dot(floats(w + 8 * ones), x, index, n)


@inner(inlined=True)
def _added(features, column, x, most):
    """What a value adds to the score of a row that lacks it; NaN where it is not finite."""
    feature = floats(features + 32 * column)
    return feature[2] * clipped((x - feature[0]) * feature[1], most) - feature[3] + 0.0 * x


@inner
def _standardised_dot(features, most, x, index, n):
    """What the values of a row add; two sums, since one would wait for itself at every value."""
    even, odd, j = 0.0, 0.0, 0
    while j + 2 <= n:
        even += _added(features, index[j], x[j], most)
        odd += _added(features, index[j + 1], x[j + 1], most)
        j += 2
    if j < n:
        even += _added(features, index[j], x[j], most)
    return even + odd


@entry("void(struct*, int64, int64, int64, int64, int64, int64, int64)")
def _sparse_standardised(examples, lo, hi, table, zeros, outputs, D, out):
    examples, scores = unpacked(Examples, examples), floats(out)
    for i in range(lo, hi):
        x, index, n = _sparse_row(examples, i)
        for k in range(outputs):
            features, zero = table + 32 * (k * D + examples.ones), floats(zeros + 32 * k)
            score = zero[0] + _standardised_dot(features, zero[1], x, index, n)
            scores[i * outputs + k] = within(score, zero[2], zero[3])


class Standardised(NamedTuple):
    """A state whose scores are sums over standardised features, as sparse rows are scored best.

    Parameters
    ----------
    table : (outputs, D, 4)
        Of each feature its centre, 1/scale, weight, and what a value of 0 adds to a score.
    zeros : (outputs, 4)
        The score of a row that has nothing but the 1 in front of it, if there is one; |x̃| at most; and the
        range of scores.
    """

    table: np.ndarray
    zeros: np.ndarray

    def read(self, examples: bytes, part: range, out: int) -> None:
        """Write the scores of some sparse rows to their places in (rows, outputs)."""
        outputs, D, _ = self.table.shape
        places = self.table.ctypes.data, self.zeros.ctypes.data
        _sparse_standardised(examples, part.start, part.stop, *places, outputs, D, out)


def read_products(weights: np.ndarray, examples: bytes, part: range, out: int) -> None:
    """Write the products of some sparse rows and weights (outputs, D) to their places in (rows, outputs)."""
    _sparse_products(examples, part.start, part.stop, weights.ctypes.data, *weights.shape, out)


def read_scores(worker: bytes, examples: bytes, copy: int, part: range, out: int) -> None:
    """Write the scores of some rows by one copy to their places in (rows, outputs)."""
    _scores(worker, examples, copy, part.start, part.stop, out)
