"""What talking and asking less cost: 16 agents on a ring, all policies, error against bytes and answers.

Run: python examples/frontier.py [PICTURE.png]
"""

import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import ddol
from ddol.lab.frontier import Frontier, frontier
from ddol.measure.chart import draw_on


def main(picture: Path) -> dict[str, Frontier]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((24_000, 20)) * rng.uniform(0.1, 3, 20)
    y = np.where(rng.random(24_000) < 0.05, -1, 1) * np.sign(X @ rng.standard_normal(20))
    network = ddol.adaptive().on(ddol.ring(16))
    figure, axes = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
    found = {what: frontier(network, (X, y), against=what) for what in ("bytes", "labels")}
    for ax, one in zip(axes, found.values(), strict=True):
        draw_on(one.chart(), ax)
        ax.set_title(f"dashed: {one.line}, the line to beat")
    figure.savefig(picture, dpi=110)
    for what, one in found.items():
        best = min((row for row in one.rows if row["of_line"] > 0), key=lambda row: row["of_line"])
        print(
            f"{what}: {best['policy']} {best['parameter']} pays {best['of_line']:.0%} of {one.line}"
        )
    return found


if __name__ == "__main__":
    default = Path(tempfile.gettempdir()) / "ddol-frontier.png"
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else default)
