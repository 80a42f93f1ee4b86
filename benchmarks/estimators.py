"""The estimators beside scikit-learn's SGD: held-out scores, and what ten classes cost.

    python -m benchmarks.estimators [--splits 20]

Scores are of a pipeline with StandardScaler, after 5 passes, everything at its defaults; every split
has the same seed for everybody. Nothing is written; the tables are Markdown.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.linear_model import SGDClassifier, SGDRegressor
from sklearn.model_selection import ShuffleSplit, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.data import MissingDataError, arrays
from ddol import DDOLClassifier, DDOLRegressor

DATA: dict[str, tuple[Callable, type, type]] = {
    "breast cancer": (load_breast_cancer, DDOLClassifier, SGDClassifier),
    "digits, 10 classes": (load_digits, DDOLClassifier, SGDClassifier),
    "diabetes, R²": (load_diabetes, DDOLRegressor, SGDRegressor),
}
NETWORKS: dict[str, dict[str, Any]] = {
    "1 agent": {},
    "4 agents": {"n_agents": 4},
    "4 on a ring": {"n_agents": 4, "topology": "ring"},
    "16 agents": {"n_agents": 16},
}


def score(estimator: BaseEstimator, X: np.ndarray, y: np.ndarray, splits: int) -> np.ndarray:
    """Held-out scores of a scaling pipeline, a quarter of the rows held out."""
    cv = ShuffleSplit(splits, test_size=0.25, random_state=0)
    return 100 * cross_val_score(make_pipeline(StandardScaler(), estimator), X, y, cv=cv)


def quality(splits: int) -> None:
    """Mean and standard deviation over the splits, in points."""
    print(f"| data | SGD | {' | '.join(NETWORKS)} | 4 agents − SGD |")
    print("|---" * (len(NETWORKS) + 3) + "|")
    for name, (load, ours, sgd) in DATA.items():
        X, y = load(return_X_y=True)
        theirs = score(sgd(random_state=0), X, y, splits)
        found = {k: score(ours(random_state=0, **v), X, y, splits) for k, v in NETWORKS.items()}
        cells = [f"{s.mean():.1f} ± {s.std():.1f}" for s in (theirs, *found.values())]
        gap = found["4 agents"].mean() - theirs.mean()
        print(f"| {name} | {' | '.join(cells)} | {gap:+.1f} |", flush=True)


def ten_classes(repeats: int = 5) -> None:
    """Seconds of `fit` on dense covtype with 10 outputs and with one, one pass."""
    covtype = arrays("covtype")
    tenths = np.searchsorted(np.quantile(covtype.X[:, 1], np.arange(0.1, 1, 0.1)), covtype.X[:, 1])
    print("\n| fit on covtype | 1 output, s | 10 outputs, s | ratio |\n|---|---|---|---|")
    for name, options in {"1 agent": {}, "4 agents": {"n_agents": 4}}.items():
        times: dict[int, list[float]] = {1: [], 10: []}
        for _ in range(repeats):
            for outputs, y in ((1, covtype.y), (10, tenths)):
                model = DDOLClassifier(passes=1, random_state=0, **options)
                began = time.perf_counter()
                model.fit(covtype.X, y)
                times[outputs].append(time.perf_counter() - began)
        one, ten = min(times[1]), min(times[10])
        print(f"| {name} | {one:.2f} | {ten:.2f} | {ten / one:.1f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=20, help="splits of every data set")
    quality(parser.parse_args().splits)
    try:
        ten_classes()
    except MissingDataError as missing:
        print(f"\nno cost of ten classes: {missing}")


if __name__ == "__main__":
    main()
