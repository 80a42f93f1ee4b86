"""Scores of rows by weights that stay as they are."""

from __future__ import annotations

import numpy as np

from ddol.compiled import call_float, entry, floats, unpacked
from ddol.engines.kernels.layout import (
    SCORE_UNSEEN,
    Examples,
    Worker,
    part,
    vector_at,
)
from ddol.engines.kernels.reading import forget_rows, row_at


@entry("void(struct*, struct*, int64, int64, int64)")
def _scores(worker, examples, copy, n, out):
    worker, examples = unpacked(Worker, worker), unpacked(Examples, examples)
    shape, scores = worker.shape, floats(out)
    forget_rows(worker, examples)
    for i in range(n):
        x, index, size = row_at(worker, examples, i)
        for k in range(shape.outputs):
            w, s = vector_at(worker, copy, 0 if shape.states == 1 else k)
            arguments = (w, s, worker.rules.p, x, index, size, shape.D, np.float64(k))
            scores[i * shape.outputs + k] = call_float(part(worker, SCORE_UNSEEN), arguments)


def read_scores(worker: bytes, examples: bytes, copy: int, n: int, out: int) -> None:
    """Write the scores (n, outputs) of the first n rows of a block by one copy."""
    _scores(worker, examples, copy, n, out)
