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


def main(picture: Path) -> float:
    X, y = make_classification(60_000, 400, n_informative=40, random_state=0)
    network = {"n_agents": 64, "batch": 8, "passes": 1, "shuffle": False}
    models = {}
    for name, options in WAYS.items():
        engine = "threads" if options else "local"
        models[name] = DDOLClassifier(**network, engine=engine, **options).fit(X, y)
    gap = draw(models, picture)
    local = models["local"].trace_
    assert all(np.array_equal(m.trace_.mistakes, local.mistakes) for m in models.values())
    print(f"largest difference of a weight {gap:.1e}, the same mistakes; picture in {picture}")
    return gap


def draw(models: dict, picture: Path) -> float:
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(11, 3.6), layout="constrained")
    local = models["local"].coef_[0]
    strongest, gaps = np.argsort(-np.abs(local))[:40], []
    for place, (name, model) in enumerate(models.items()):
        colour, size = f"C{place}", (90, 35, 10)[place]
        left.scatter(range(40), model.coef_[0, strongest], s=size, color=colour)
        curves = model.trace_.curves
        share = 100 * curves.mistakes / curves.examples
        middle.plot(curves.examples, share, color=colour, lw=size / 12, label=name)
        gaps.append(np.abs(model.coef_[0] - local))
        right.plot(1e16 * np.sort(gaps[-1]), color=colour, lw=(6, 3, 1)[place])
    left.set(title="the 40 largest weights", xlabel="feature, by weight", ylabel="weight")
    middle.set(title="64 agents: mistakes so far, %", xlabel="examples", xscale="log")
    middle.legend(fontsize=8)
    right.set(title="distance from local, in units of 10⁻¹⁶", xlabel="weights, by distance")
    figure.savefig(picture, dpi=110)
    return float(np.max(gaps))


if __name__ == "__main__":
    default = Path(tempfile.gettempdir()) / "ddol-threads.png"
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else default)
