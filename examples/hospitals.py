"""Five hospitals that share no rows: each keeps its patients, all get one model.

Tumours differ in size from hospital to hospital, so what one learns alone is of little use to the
others. On a ring each tells its weights to two neighbours, and nothing else.

Run: python examples/hospitals.py [PICTURE.png]
"""

import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from ddol import DDOLClassifier

NAMES = np.array(["Aarau", "Bern", "Chur", "Davos", "Evian"])


def scores(seed: int) -> list[float]:
    """Accuracy on everybody's patients: each hospital alone, all on a ring, all rows in one place."""
    X, y = load_breast_cancer(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, random_state=seed, stratify=y)
    size = X[:, 0] + np.random.default_rng(seed).normal(0, 3.5, len(y))
    hospitals = NAMES[np.searchsorted(np.quantile(size, [0.3, 0.5, 0.65, 0.9]), size)]
    model = DDOLClassifier(random_state=0)  # it needs no scaling, so nobody computes common means
    alone = [clone(model).fit(X[hospitals == h], y[hospitals == h]) for h in NAMES]
    ring = clone(model).set_params(topology="ring").fit(X, y, agents=hospitals)
    pooled = clone(model).fit(X, y)
    return [m.score(X_test, y_test) for m in (*alone, ring, pooled)]


def main(picture: Path) -> float:
    found = np.array([scores(seed) for seed in range(20)])
    figure, ax = plt.subplots(figsize=(7.5, 4), layout="constrained")
    colours = ["0.6"] * 5 + ["C0", "C2"]
    labels = [f"{name}\nalone" for name in NAMES] + ["ring of\nall five", "all rows in\none place"]
    for place, (column, colour) in enumerate(zip(found.T, colours, strict=True)):
        spread = np.random.default_rng(0).uniform(-0.15, 0.15, len(column))
        ax.scatter(place + spread, 100 * column, s=14, color=colour, alpha=0.6)
        ax.hlines(100 * column.mean(), place - 0.3, place + 0.3, color=colour, lw=3)
        ax.annotate(f"{100 * column.mean():.1f}", (place + 0.33, 100 * column.mean()), va="center")
    ax.set_xticks(range(7), labels)
    ax.set(xlim=(-0.5, 6.8), ylabel="accuracy on patients of all hospitals, %")
    ax.set_title("five hospitals, 20 splits: no row leaves its hospital")
    ax.grid(alpha=0.25, axis="y")
    figure.savefig(picture, dpi=110)
    alone, ring = found[:, :5].mean(), found[:, 5].mean()
    print(f"accuracy alone {alone:.3f}, together on a ring {ring:.3f}; picture in {picture}")
    return ring - alone


if __name__ == "__main__":
    default = Path(tempfile.gettempdir()) / "ddol-hospitals.png"
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else default)
