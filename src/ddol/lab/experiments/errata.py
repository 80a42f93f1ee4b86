"""The counterexample to the paper's Theorems 1 and 2, played with the library, and its figure.

    python -m ddol.lab.experiments.errata [docs/figures/errata.svg]

prints the numbers of docs/errata.md and, given its name, writes the figure.

One agent of N meets hard examples: in every round the heaviest experts that together hold half the
weight are wrong. One expert is never wrong, and no expert errs at the other agents.
"""

from __future__ import annotations

import sys

import numpy as np

from ddol.algorithm import Algorithm
from ddol.measure.bounds import dwm_a, dwm_i
from ddol.measure.chart import Chart, Line, draw_row
from ddol.presets import dwm_a as by_averaging
from ddol.presets import dwm_i as by_imitation
from ddol.reference import play_round, start
from ddol.storage import write_text

ALPHA, P, N = 0.5, 1025, 4
SIZES = (1, 2, 4, 8, 16)
STATED = float(np.log(P) / np.log(2 / (1 + ALPHA)))


def attack(algorithm: Algorithm, n_agents: int) -> np.ndarray:
    """Total weight of the experts before each mistake of agent 1, the never wrong one's being 1."""
    algorithm = algorithm.on(n_agents)
    agents = start(algorithm, P)
    agreed = np.full((1, P), -1.0), np.array([-1.0])
    totals = []
    while True:
        share = algorithm.update.weights(agents.states[0][0])
        totals.append(1 / share[0])
        wrong = heaviest_half(share)
        if wrong is None:
            return np.array(totals)
        advice = agreed[0].copy()
        advice[0, wrong] = 1.0
        examples = [(advice, agreed[1]), *[agreed] * (n_agents - 1)]
        agents, outcome = play_round(algorithm, agents, examples)
        assert outcome.mistakes.tolist() == [1] + [0] * (n_agents - 1)


def heaviest_half(share: np.ndarray) -> np.ndarray | None:
    """The heaviest experts, without the first, that hold half the weight; None if all hold less."""
    order = 1 + np.argsort(-share[1:], kind="stable")
    enough = np.searchsorted(np.cumsum(share[order]), 0.5 + 1e-9)
    return None if enough == order.size else order[: enough + 1]


def together(name: str, n_agents: int) -> float:
    """The bound on all agents' mistakes that holds, for an expert that is never wrong."""
    return float((dwm_i if name == "DWM-I" else dwm_a)(0.0, P, n_agents, ALPHA))


def weight_chart(name: str, totals: np.ndarray) -> Chart:
    """The total weight against mistakes: as the paper says, as it is, as it must be."""
    bound, mistakes = together(name, N), np.arange(totals.size)
    lines = (
        Line(f"printed: {STATED:.1f}", [0, STATED], [P, 1], colour="b", dashed=True),
        Line(f"corrected: {bound:.1f}", [0, bound], [P, 1], colour=2),
        Line(f"measured: {mistakes[-1]}", mistakes, totals, colour=0),
    )
    words = (
        "Total weight of the experts, of which the one that is never wrong holds 1: the printed "
        f"proof allows {STATED:.1f} mistakes, the corrected one {bound:.1f}; agent 1 made {mistakes[-1]}."
    )
    labels = "mistakes of agent 1", "total weight of the experts"
    return Chart(f"{name}, {N} agents", words, *labels, lines, log_y=True)


def size_chart(mistakes: dict[str, list[int]]) -> Chart:
    """How far agent 1 gets beyond the stated bound as the network grows."""
    lines = [Line("stated", SIZES, [STATED] * len(SIZES), colour="b", dashed=True)]
    for colour, (name, seen) in enumerate(mistakes.items()):
        held = [together(name, n) for n in SIZES]
        lines.append(Line(f"{name} holds", SIZES, held, colour=2 + colour, dashed=True))
        lines.append(Line(name, SIZES, seen, colour=colour, dots=True))
    words = (
        "Mistakes of agent 1 and the bounds on all agents together, by number of agents. "
        + " ".join(f"{name}: {', '.join(map(str, seen))}." for name, seen in mistakes.items())
    )
    return Chart(
        "Any number of agents", words, "agents N", "mistakes of agent 1", tuple(lines),
        log_x=True, log_y=True, x_ticks=tuple(map(float, SIZES)),
    )  # fmt: skip


def main(figure: str | None = None) -> None:
    """Print the numbers, and draw them into a file if one is named."""
    presets = {"DWM-I": by_imitation(ALPHA), "DWM-A": by_averaging(ALPHA)}
    runs = {name: {n: attack(preset, n) for n in SIZES} for name, preset in presets.items()}
    mistakes = {name: [run[n].size - 1 for n in SIZES] for name, run in runs.items()}
    print(f"stated for every agent: {STATED:.1f}")
    for name, seen in mistakes.items():
        for n, count in zip(SIZES, seen, strict=True):
            print(f"{name}  N = {n:2d}  agent 1: {count:3d}  together ≤ {together(name, n):.1f}")
    if figure is not None:
        weights = [weight_chart(name, run[N]) for name, run in runs.items()]
        write_text(figure, draw_row([*weights, size_chart(mistakes)]))


if __name__ == "__main__":
    main(*sys.argv[1:2])
