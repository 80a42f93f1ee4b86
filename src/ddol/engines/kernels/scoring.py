"""Scores of rows by weights that stay as they are."""

from __future__ import annotations

import numpy as np

from ddol.compiled import call_float, entry, floats, indices, integers, unpacked
from ddol.engines.kernels.layout import (
    SCORE_UNSEEN,
    Examples,
    Worker,
    part,
    vector_at,
)
from ddol.engines.kernels.reading import forget_rows, row_at


@entry("void(struct*, struct*, int64, int64, int64, int64)")
def _scores(worker, examples, copy, lo, hi, out):
    worker, examples = unpacked(Worker, worker), unpacked(Examples, examples)
    shape, scores = worker.shape, floats(out)
    forget_rows(worker, examples)
    for i in range(lo, hi):
        x, index, size = row_at(worker, examples, i)
        for k in range(shape.outputs):
            w, s = vector_at(worker, copy, 0 if shape.states == 1 else k)
            arguments = (w, s, worker.rules.p, x, index, size, shape.D, np.float64(k))
            scores[i * shape.outputs + k] = call_float(part(worker, SCORE_UNSEEN), arguments)


@entry("void(int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def _sparse_products(n, x, features, indptr, ones, weights, outputs, D, out):
    starts, values, columns = integers(indptr), floats(x), indices(features)
    for i in range(n):
        for k in range(outputs):
            w = floats(weights + 8 * (k * D + ones))
            total = floats(weights)[k * D] if ones else 0.0
            for j in range(starts[i], starts[i + 1]):
                total += w[columns[j]] * values[j]
            floats(out)[i * outputs + k] = total


def read_products(examples: Examples, n: int, weights: np.ndarray, out: int) -> None:
    """Write the products (n, outputs) of sparse rows and weights (outputs, D)."""
    places = examples.x, examples.features, examples.indptr, examples.ones
    _sparse_products(n, *places, weights.ctypes.data, *weights.shape, out)


def read_scores(worker: bytes, examples: bytes, copy: int, part: range, out: int) -> None:
    """Write the scores of some rows by one copy to their places in (rows, outputs)."""
    _scores(worker, examples, copy, part.start, part.stop, out)
