"""The counterexample to the paper's Theorems 1 and 2, played with the library, and its figure.

    python -m ddol.experiments.errata [docs/figures/errata.svg]

prints the numbers of docs/errata.md and, given its name, writes the figure.

One agent of N meets hard examples: in every round the heaviest experts that together hold half the
weight are wrong. One expert is never wrong, and nobody errs at the other agents.
"""

from __future__ import annotations

import sys

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np

from ddol.algorithm import Algorithm, play_round, start
from ddol.measure.bounds import dwm_a, dwm_i
from ddol.presets import dwm_a as by_averaging
from ddol.presets import dwm_i as by_imitation

ALPHA, P, N = 0.5, 1025, 4
SIZES = (1, 2, 4, 8, 16)
STATED = float(np.log(P) / np.log(2 / (1 + ALPHA)))

INK, STATED_COLOUR, HOLDS_COLOUR = "#222222", "#c1121f", "#2a7f3f"
SEEN_COLOUR = {"DWM-I": "#1f5fa8", "DWM-A": "#c77700"}


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


def draw_weights(ax: plt.Axes, name: str, totals: np.ndarray) -> None:
    """Draw the total weight against mistakes: as the paper says, as it is, as it must be."""
    mistakes = np.arange(totals.size)
    bound = together(name, N)
    ax.plot([0, STATED], [P, 1], "--", color=STATED_COLOUR, lw=1.8, label="printed proof: at most")
    ax.plot(
        [0, bound], [P, 1], color=HOLDS_COLOUR, lw=1.6, label="corrected proof: at most", zorder=3
    )
    ax.plot(mistakes, totals, color=SEEN_COLOUR[name], lw=4, label="measured")
    ax.plot(mistakes[-1], totals[-1], "o", color=SEEN_COLOUR[name], ms=9, zorder=4)
    ax.axhline(1, color=INK, lw=0.8)
    ax.text(2, 0.92, "weight of the expert that is never wrong", va="top", fontsize=9, color=INK)
    ax.annotate(f"{STATED:.1f}", (STATED, 1), (STATED + 2, 1.35), color=STATED_COLOUR)
    ax.annotate(f"{bound:.1f}", (bound, 1), (bound, 1.45), color=HOLDS_COLOUR, ha="center")
    ax.annotate(
        f"{mistakes[-1]} mistakes",
        (mistakes[-1], totals[-1]),
        (mistakes[-1] - 3, totals[-1] * 0.93),
        color=SEEN_COLOUR[name],
        ha="right",
        va="top",
    )
    ax.set(yscale="log", ylim=(0.6, 1800), xlim=(0, 118), title=f"{name}, {N} agents")
    ax.set(xlabel="mistakes of agent 1", ylabel="total weight of the experts")
    ax.legend(frameon=False, loc="upper right")


def draw_sizes(ax: plt.Axes, mistakes: dict[str, list[int]]) -> None:
    """Draw how far agent 1 gets beyond the stated bound as the network grows."""
    place = np.arange(len(SIZES))
    for offset, (name, seen) in zip((-0.2, 0.2), mistakes.items(), strict=True):
        ax.bar(place + offset, seen, 0.36, color=SEEN_COLOUR[name], label=name)
        for x, count in zip(place + offset, seen, strict=True):
            ax.text(x, count - 3, str(count), color="white", fontsize=9, ha="center", va="top")
        bounds = [together(name, n) for n in SIZES]
        ax.hlines(bounds, place + offset - 0.18, place + offset + 0.18, color=HOLDS_COLOUR, lw=2)
    ax.axhline(STATED, color=STATED_COLOUR, ls="--", lw=1.8, label="stated for every agent")
    ax.plot([], [], color=HOLDS_COLOUR, lw=2, label="holds for all together")
    ax.set_xticks(place, [str(n) for n in SIZES])
    ax.set(xlabel="agents N", ylabel="mistakes of agent 1", title="any number of agents")
    ax.legend(frameon=False, loc="upper left")


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
        draw(figure, {name: run[N] for name, run in runs.items()}, mistakes)


def draw(path: str, totals: dict[str, np.ndarray], mistakes: dict[str, list[int]]) -> None:
    """Write the figure."""
    style = {
        "svg.fonttype": "none",
        "svg.hashsalt": "ddol",
        "font.family": "sans-serif",
        "font.sans-serif": ["Helvetica", "Arial", "DejaVu Sans"],
        "font.size": 10,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.edgecolor": INK,
    }
    with mpl.rc_context(style):
        figure, axes = plt.subplots(1, 3, figsize=(13, 4.2), layout="constrained")
        for ax, (name, run) in zip(axes, totals.items(), strict=False):
            draw_weights(ax, name, run)
        draw_sizes(axes[2], mistakes)
        figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    main(*sys.argv[1:2])
