"""Error against the privacy budget, 16 sites on the complete graph; the figure of docs/leaks.md.

python -m benchmarks.privacy [docs/figures/privacy.svg] [--seeds 3]
"""

from __future__ import annotations

import argparse
import functools
from dataclasses import replace
from pathlib import Path

import numpy as np

import ddol
from benchmarks.safe import examples
from ddol.measure.chart import Chart, Line, draw
from ddol.update.budget import Budget

EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
ROWS, AGENTS = {"cod-rna": 59_535, "covtype": 320_000}, 16
KINDS = {"alone": "error_alone", "shared": "error_shared", "mixture": "error"}


examples = functools.cache(examples)


def errors(name: str, budget: Budget, seeds: int) -> dict[str, float]:
    """Mean errors of all sites, in %."""
    found = []
    for seed in range(seeds):
        algorithm = ddol.private(ddol.adaptive(), budget)
        sites = ddol.run(algorithm, examples(name, seed, ROWS[name]), AGENTS, seed=seed).sites()
        found.append([[row[kind] for kind in KINDS.values()] for row in sites])
    return dict(zip(KINDS, (100 * np.mean(found, axis=(0, 1))).tolist(), strict=True))


def main() -> None:
    """Print a table, and draw it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("figure", nargs="?", default="docs/figures/privacy.svg")
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    lines = []
    for place, name in enumerate(ROWS):
        found = []
        for epsilon in EPSILONS:
            found.append(errors(name, Budget(epsilon, public=60), given.seeds))
            print(name, epsilon, *(f"{each:.2f}" for each in found[-1].values()), flush=True)
        bare = replace(Budget(1.0, public=60), noise=0.0)
        none = errors(name, bare, given.seeds)
        print(name, "none", *(f"{each:.2f}" for each in none.values()), flush=True)
        for kind in KINDS:
            y = tuple(row[kind] for row in found)
            lines.append(
                Line(
                    f"{name}, {kind}",
                    EPSILONS,
                    y,
                    colour=place,
                    dashed=kind == "alone",
                    dots=kind == "shared",
                )
            )
    chart = Chart(
        "Error against the privacy budget", "The mixture stays with learning alone; the shared one nears it.",
        "epsilon", "error %", tuple(lines), log_x=True, x_ticks=EPSILONS,
        caption="16 sites. Dots: the shared learner. Dashed: alone. The mixture predicts.",
    )  # fmt: skip
    Path(given.figure).write_text(draw(chart, standalone=True), encoding="utf-8")


if __name__ == "__main__":
    main()
