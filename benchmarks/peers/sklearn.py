"""scikit-learn: SGDClassifier(shuffle=False).partial_fit, whole arrays in one call: its fastest way.

By default `partial_fit` shuffles its rows, which takes twice to three times as long and is another order.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import sklearn
from sklearn.linear_model import SGDClassifier

from benchmarks.contest import Contestant, Outcome
from benchmarks.data import Arrays, Text
from benchmarks.programs import call
from benchmarks.workloads import Data, Workload

VERSION = sklearn.__version__
_LARGE = 200 << 20
_BLOCK = 1024
_FROM_TEXT = """
import joblib, sys
from sklearn.datasets import load_svmlight_file
from sklearn.linear_model import SGDClassifier
X, y = load_svmlight_file(sys.argv[1])
X.indices, X.indptr = X.indices.astype("int32"), X.indptr.astype("int32")
joblib.dump(SGDClassifier(shuffle=False).partial_fit(X, y, classes=[-1, 1]), sys.argv[2])
"""


def contestants(workload: Workload, data: Data) -> list[Contestant]:
    """The rule of the workload with the same steps, and the defaults."""
    if workload.network != "alone":
        return []
    if isinstance(data, Text):
        # Its reader needs half a minute for the larger file, and says nothing new about it.
        return [_from_text(data)] if data.path.stat().st_size < _LARGE else []
    if not isinstance(data, Arrays):
        return []
    same = {"learning_rate": "invscaling", "eta0": workload.rate, "power_t": 0.5}
    penalty = {"alpha": workload.l2} if workload.l2 else {"penalty": None}
    return [
        _fitted(data, "sklearn SGD, same steps", **same, **penalty),
        _fitted(data, "sklearn SGD, defaults"),
    ]


def _fitted(data: Arrays, name: str, **choices: Any) -> Contestant:
    def new() -> SGDClassifier:
        return SGDClassifier(fit_intercept=False, shuffle=False, **choices)

    def run() -> Outcome:
        new().partial_fit(data.X, data.y, classes=data.classes)
        return Outcome()

    given = "".join(f", {k}={v!r}" for k, v in choices.items())
    settings = f"SGDClassifier(fit_intercept=False, shuffle=False{given}).partial_fit(X, y)"
    return Contestant(name, settings, run, lambda: progressive_error(new, data))


def progressive_error(new: Callable[[], Any], data: Arrays) -> float:
    """Error of predictions on short blocks, each before it is learned.

    A block is at most 1,024 examples, and at most a sixteenth of what was seen before it: predicting
    one by one would take hours, and predictions are hardly older than those of the others.
    """
    model, classes, wrong, lo = new(), data.classes, 0, 0
    while lo < data.n_examples:
        n = min(max(lo // 16, 1), _BLOCK)
        X, y = data.X[lo : lo + n], data.y[lo : lo + n]
        said = model.predict(X) if lo else np.full(len(y), classes[-1])
        wrong += np.count_nonzero(said != y)
        model.partial_fit(X, y, classes=classes)
        lo += n
    return wrong / data.n_examples


def _from_text(data: Text) -> Contestant:
    model = data.path.with_suffix(".joblib")
    command = [sys.executable, "-c", _FROM_TEXT, data.path, model]
    settings = "load_svmlight_file, SGDClassifier(shuffle=False).partial_fit, joblib.dump"
    return Contestant("sklearn from text", settings, lambda: call(command)[0])
