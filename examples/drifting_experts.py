"""Experts on a stream that drifts: each is right for a season, and the agents' trust moves on.

Every season is three times as long as all before it: weighted majority trusts whoever was right most
often so far, and a new favourite needs as long to take over as the old one had to win.

Run: python examples/drifting_experts.py [PICTURE.png]
"""

import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression

from ddol import WeightedMajorityClassifier

SEASONS, STARTS, END = ("spring", "summer", "autumn", "winter"), (0, 200, 800, 3200), 12_800
DIRECTIONS = np.random.default_rng(1).standard_normal((4, 6))


def stream(rng: np.random.Generator, rows: int, season: int) -> tuple[np.ndarray, np.ndarray]:
    X = rng.standard_normal((rows, 6))
    return X, (X @ DIRECTIONS[season] + rng.normal(0, 0.7, rows) > 0).astype(int)


def main(picture: Path) -> float:
    rng = np.random.default_rng(0)
    experts = [(s, LogisticRegression().fit(*stream(rng, 300, k))) for k, s in enumerate(SEASONS)]
    agents = WeightedMajorityClassifier(experts, alpha=0.9, n_agents=4, topology="ring")
    seen, weights, wrong = np.arange(80, END + 1, 80), [], []
    for end in seen:
        X, y = stream(rng, 80, int(np.searchsorted(STARTS, end)) - 1)
        agents.partial_fit(X, y, classes=[0, 1])
        weights.append(agents.weights_.mean(axis=0))
        wrong.append([agents.trace_.mistakes.sum(), *agents.expert_mistakes_.sum(axis=0)])
    print(agents.report(), f"picture in {picture}", sep="\n")
    draw(seen, np.array(weights), np.array(wrong), picture)
    return wrong[-1][0] / min(wrong[-1][1:])


def draw(seen: np.ndarray, weights: np.ndarray, wrong: np.ndarray, picture: Path) -> None:
    figure, (top, below) = plt.subplots(2, 1, figsize=(8, 5), sharex=True, layout="constrained")
    top.stackplot(seen, weights.T)
    top.set(ylabel="trust", ylim=(0, 1), title="four experts in colours, the agents' vote in black")
    for season, start in zip(SEASONS, STARTS, strict=True):
        top.axvline(start, color="black", lw=1, ls=":")
        top.text(max(start, 80) * 1.07, 0.05, f"{season} begins", fontsize=8)
    last = np.vstack([wrong[:3], wrong[3:] - wrong[:-3]]) / np.minimum(seen, 240)[:, None]
    below.plot(seen, 100 * last[:, 1:], lw=1, alpha=0.7)
    below.plot(seen, 100 * last[:, 0], color="black", lw=2)
    below.set(xscale="log", xlim=(80, END), xlabel="examples", ylabel="wrong of the last 240, %")
    figure.savefig(picture, dpi=110)


if __name__ == "__main__":
    default = Path(tempfile.gettempdir()) / "ddol-drifting-experts.png"
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else default)
