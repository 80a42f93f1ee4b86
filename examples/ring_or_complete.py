"""A ring against a complete graph: 32 agents, the same examples, fewer and fewer neighbours.

Run: python examples/ring_or_complete.py [PICTURE.png]
"""

import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import ddol
from ddol import DDOLClassifier

N = 32
GRAPHS = [ddol.complete(N), ddol.exponential(N), ddol.torus(4, 8), ddol.ring(N)]


def main(picture: Path) -> dict[str, float]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((64_000, 40)) * rng.uniform(0.1, 3, 40)
    y = np.where(rng.random(64_000) < 0.05, -1, 1) * np.sign(X @ rng.standard_normal(40))
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.8), layout="constrained")
    found = {}
    for place, graph in enumerate(GRAPHS):
        model = DDOLClassifier("dogd", l2=0.01, rate=0.1, topology=graph, passes=1, shuffle=False)
        trace = model.fit(X, y).trace_
        curves, label = trace.curves, f"{graph.name}, {trace.bytes_sent / 1e6:.0f} MB sent"
        axes[0].plot(curves.rounds, 100 * curves.mistakes / curves.examples, label=label)
        axes[1].plot(curves.rounds, curves.consensus, color=f"C{place}")
        found[graph.name] = trace.error
    axes[0].set(xscale="log", ylabel="mistakes so far, %", title=f"{N} agents learn")
    axes[0].legend(fontsize=8)
    axes[1].set(xscale="log", yscale="log", ylabel="distance from the mean agent")
    axes[1].set_title("how far they disagree (complete: not at all)")
    for ax in axes[:2]:
        ax.set_xlabel("rounds")
        ax.grid(alpha=0.25)
    for place, graph in enumerate(GRAPHS):
        corner = np.array([2.6 * (place % 2), -2.8 * (place // 2)])
        angles = np.arange(N) * 2 * np.pi / N
        points = np.c_[np.cos(angles), np.sin(angles)] + corner
        axes[2].plot(*points[graph.edges()].transpose(2, 1, 0), color=f"C{place}", lw=0.4)
        axes[2].text(corner[0], corner[1] + 1.12, graph.name, ha="center", fontsize=8)
    axes[2].set_aspect("equal")
    axes[2].set_axis_off()
    figure.savefig(picture, dpi=110)
    print("mistakes", {k: f"{v:.3%}" for k, v in found.items()}, "picture in", picture)
    return found


if __name__ == "__main__":
    default = Path(tempfile.gettempdir()) / "ddol-ring-or-complete.png"
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else default)
