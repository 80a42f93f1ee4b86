"""river: one example at a time, as its documentation does it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import river
from river import linear_model, multiclass, optim

from benchmarks.contest import Contestant, Outcome
from benchmarks.data import Arrays
from benchmarks.workloads import Data, Workload

VERSION = river.__version__
_MOST_VALUES = 40_000_000
"""Of all weight vectors, about 10 seconds; of more it gets the first examples, which tables show."""


def contestants(workload: Workload, data: Data) -> list[Contestant]:
    """Logistic regression with the steps of the workload, one-vs-rest where classes are many."""
    if workload.network != "alone" or not isinstance(data, Arrays):
        return []
    many = len(data.classes) > 2
    values = data.n_values * (len(data.classes) if many else 1)
    n = min(data.n_examples, _MOST_VALUES * data.n_examples // values)

    def new() -> Any:
        steps = optim.SGD(optim.schedulers.InverseScaling(workload.rate, 0.5))
        rule = linear_model.LogisticRegression(steps, l2=workload.l2, intercept_lr=0.0)
        return multiclass.OneVsRestClassifier(rule) if many else rule

    steps = f"optim.SGD(InverseScaling({workload.rate:g}, 0.5))"
    settings = f"LogisticRegression({steps}, l2={workload.l2:g}): predict_one, learn_one"
    return [Contestant("river", settings, _passing(new, data, n), examples=n, warm=True)]


def _passing(new: Callable[[], Any], data: Arrays, n: int) -> Callable[[], Outcome]:
    def run() -> Outcome:
        model, wrong = new(), 0
        for x, y in _examples(data, n):
            wrong += model.predict_one(x) != y
            model.learn_one(x, y)
        return Outcome(wrong / n)

    return run


def _examples(data: Arrays, n: int) -> Iterator[tuple[dict[int, float], Any]]:
    """Rows as dictionaries; only what is stored, where rows are sparse."""
    labels = data.y[:n].tolist() if len(data.classes) > 2 else (data.y[:n] > 0).tolist()
    if data.dense:
        names = range(data.X.shape[1])
        for i in range(n):
            yield dict(zip(names, data.X[i].tolist(), strict=True)), labels[i]
        return
    ends, columns, values = data.X.indptr, data.X.indices, data.X.data
    for i in range(n):
        stored = slice(ends[i], ends[i + 1])
        yield dict(zip(columns[stored].tolist(), values[stored].tolist(), strict=True)), labels[i]
