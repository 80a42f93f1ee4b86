"""The same model on threads: engines differ in nothing that the result shows.

Run: python examples/threads.py [PICTURE.png]
"""

import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_classification

from ddol import DDOLClassifier

WAYS = {"local": {}, "1 thread": {"workers": 1}, "2 threads": {"workers": 2}}
MARKS = {"local": ("o", 90), "1 thread": ("o", 40), "2 threads": ("x", 14)}


def main(picture: Path) -> float:
    X, y = make_classification(60_000, 400, n_informative=40, random_state=0)
    network = {"n_agents": 64, "batch": 8, "passes": 1, "shuffle": False}
    models, speeds = {}, {}
    for name, options in WAYS.items():
        engine = {"engine": "threads" if options else "local", **options}
        models[name] = DDOLClassifier(**network, **engine).fit(X, y)
        runs = [DDOLClassifier(**network, **engine).fit(X, y).trace_ for _ in range(3)]
        speeds[name] = max(len(y) / run.seconds for run in runs)
    draw(models, speeds, picture)
    local = models["local"].trace_
    assert all(np.array_equal(m.trace_.mistakes, local.mistakes) for m in models.values())
    gap = max(np.abs(m.coef_ - models["local"].coef_).max() for m in models.values())
    print(f"largest difference of a weight {gap:.1e}, the same mistakes; picture in {picture}")
    return float(gap)


def draw(models: dict, speeds: dict, picture: Path) -> None:
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(11, 3.6), layout="constrained")
    strongest = np.argsort(-np.abs(models["local"].coef_[0]))[:40]
    for name, (mark, size) in MARKS.items():
        model, curves = models[name], models[name].trace_.curves
        colour = f"C{list(MARKS).index(name)}"
        left.scatter(range(40), model.coef_[0, strongest], s=size, marker=mark, color=colour)
        share = 100 * curves.mistakes / curves.examples
        middle.plot(curves.examples, share, color=colour, lw=size / 12, label=name)
    left.set(title="the 40 largest weights", xlabel="feature, by weight", ylabel="weight")
    middle.set(title="64 agents: mistakes so far, %", xlabel="examples", xscale="log")
    middle.legend(fontsize=8)
    bars = right.bar(list(speeds), [v / 1e6 for v in speeds.values()], color=["C0", "C1", "C2"])
    right.bar_label(bars, fmt="%.2f")
    right.set(title="million examples a second", ylim=(0, 1.2e-6 * max(speeds.values())))
    figure.savefig(picture, dpi=110)


if __name__ == "__main__":
    default = Path(tempfile.gettempdir()) / "ddol-threads.png"
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else default)
