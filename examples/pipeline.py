"""Ten digits, four agents, one pipeline: what every class looks for, and what learning cost.

Run: python examples/pipeline.py [PICTURE.png]
"""

import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ddol import DDOLClassifier


def main(picture: Path) -> float:
    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0, stratify=y)
    model = make_pipeline(StandardScaler(), DDOLClassifier(n_agents=4, random_state=0))
    score = model.fit(X_train, y_train).score(X_test, y_test)
    draw(model[-1], score, picture)
    print(f"held-out accuracy {score:.3f}, picture in {picture}")
    return score


def draw(agents: DDOLClassifier, score: float, picture: Path) -> None:
    figure = plt.figure(figsize=(10, 3.7), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=[1.2, 1])
    left.suptitle("weights of the ten classes, averaged over 4 agents")
    weights = agents.coef_ / np.abs(agents.coef_).max(axis=1, keepdims=True)
    for digit, ax in enumerate(left.subplots(2, 5).flat):
        ax.imshow(weights[digit].reshape(8, 8), cmap="RdBu", vmin=-1, vmax=1)
        ax.set_title(str(agents.classes_[digit]), fontsize=10)
        ax.set_axis_off()
    ax, curves = right.subplots(), agents.trace_.curves
    per_agent = np.maximum(curves.examples[:, None] / 4, 1)
    ax.plot(curves.examples, 100 * curves.agent_mistakes / per_agent, color="0.75", lw=1)
    ax.plot(curves.examples, 100 * curves.mistakes / curves.examples, color="C0", lw=2)
    ax.axhline(100 * (1 - score), color="C3", ls="--", lw=1)
    ax.annotate("held-out error after 5 passes", (40, 100 * (1 - score) * 1.1), color="C3")
    ax.annotate("all agents", (curves.examples[20], 60), color="C0")
    ax.set(xscale="log", yscale="log", xlabel="examples seen by all agents")
    ax.set_ylabel("mistakes so far, %")
    ax.set_title("predicted first, learned afterwards")
    ax.grid(alpha=0.25)
    figure.savefig(picture, dpi=110)


if __name__ == "__main__":
    default = Path(tempfile.gettempdir()) / "ddol-pipeline.png"
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else default)
