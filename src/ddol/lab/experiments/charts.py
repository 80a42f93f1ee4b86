"""From runs to charts: one for every variant of a figure's data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ddol.lab.experiments.config import Figure
from ddol.lab.experiments.play import Key, Repeats, keys_of
from ddol.measure.chart import Chart, Line

_FEW = 16
_SAMPLES = "samples seen by one agent"
NAMES = {"dwm_i": "DWM-I", "dwm_a": "DWM-A", "dogd": "DOGD", "doeg": "DOEG"}


def charts_of(figure: Figure, played: Mapping[Key, Repeats]) -> dict[str, Chart]:
    """The panels of a figure, by what tells them apart."""
    make = {
        "mistakes": _mistakes,
        "objective": _objective,
        "total mistakes": _totals,
        "total objective": _totals,
        "best expert": _best_expert,
    }[figure.show]
    panels: dict[str, Chart] = {}
    for variant in figure.variants:
        runs = {key: played[key] for key in keys_of(figure) if key.variant == variant}
        panels |= make(figure, variant, runs)
    return panels


def _title(figure: Figure, variant: str) -> str:
    return f"{figure.title} ({variant})" if len(figure.variants) > 1 else figure.title


def _mistakes(figure: Figure, variant: str, runs: Mapping[Key, Repeats]) -> dict[str, Chart]:
    """Mistakes of the mean agent; the band spans agents and seeds."""
    lines = []
    # One agent sees all samples; beyond those of the next run there is nothing to compare it with.
    most = sorted(int(run.samples[-1]) for run in runs.values())[-2:][0]
    for i, (key, run) in enumerate(runs.items()):
        every = np.moveaxis(run.mistakes, 1, 0).reshape(len(run.samples), -1)
        every = every[run.samples <= most]
        x, band = run.samples[: len(every)], (every.min(axis=1), every.max(axis=1))
        lines.append(Line(f"N = {key.agents}", x, every.mean(axis=1), *band, colour=i))
    words = "Mistakes of an agent against the samples it has seen. " + _ends(lines, ".0f")
    chart = Chart(_title(figure, variant), words, _SAMPLES, "mistakes of an agent", tuple(lines))
    return {variant: chart}


def _objective(figure: Figure, variant: str, runs: Mapping[Key, Repeats]) -> dict[str, Chart]:
    """Average objective so far; the band spans the seeds."""
    lines = []
    for i, (key, run) in enumerate(runs.items()):
        # The first few samples tell nothing yet.
        later = run.samples >= min(_FEW, run.samples[-1])
        seen = run.objective[:, later]
        x, band = run.samples[later], (seen.min(axis=0), seen.max(axis=0))
        lines.append(Line(f"N = {key.agents}", x, seen.mean(axis=0), *band, colour=i))
    words = "Average objective against the samples that one agent has seen. " + _ends(lines, ".4g")
    title = _title(figure, variant)
    chart = Chart(title, words, _SAMPLES, "average objective", tuple(lines), True, True)
    return {variant: chart}


def _totals(figure: Figure, variant: str, runs: Mapping[Key, Repeats]) -> dict[str, Chart]:
    """What all agents together paid for the whole data, against their number."""
    mistakes = figure.show == "total mistakes"
    lines = []
    for i, name in enumerate(figure.algorithms):
        own = {key.agents: run for key, run in runs.items() if key.algorithm == name}
        values = [run.total_mistakes if mistakes else run.total_loss for run in own.values()]
        mean = [v.mean() for v in values]
        band = [v.min() for v in values], [v.max() for v in values]
        label = NAMES.get(name, name)
        lines.append(Line(label, list(own), mean, *band, colour=i, dots=True))
    words = f"Total {'mistakes' if mistakes else 'objective'} by number of agents. " + "; ".join(
        f"{line.name}: " + ", ".join(f"{y:,.0f}" for y in line.y) for line in lines
    )
    chart = Chart(
        _title(figure, variant),
        words,
        "agents N",
        figure.show,
        tuple(lines),
        log_x=max(figure.agents) > 8,
        x_ticks=tuple(map(float, figure.agents)),
    )
    return {variant: chart}


def _best_expert(figure: Figure, variant: str, runs: Mapping[Key, Repeats]) -> dict[str, Chart]:
    """Mistakes of the best expert at all agents, and of one agent; a panel for each N."""
    panels = {}
    for n in figure.agents:
        lines: list[Line] = []
        for i, (key, run) in enumerate((k, r) for k, r in runs.items() if k.agents == n):
            if not lines:
                expert = run.best_expert.mean(axis=0)
                lines.append(Line("best expert", run.samples, expert, colour=2))
                lines.append(Line("÷ N", run.samples, expert / n, colour=2, dashed=True))
            mean = run.mistakes.mean(axis=(0, 2))
            lines.append(Line(NAMES.get(key.algorithm, key.algorithm), run.samples, mean, colour=i))
        title = f"Best expert at all {n} agents against one agent"
        words = "Mistakes against the samples that one agent has seen. " + _ends(lines, ".0f")
        panels[f"N = {n}"] = Chart(title, words, _SAMPLES, "mistakes", tuple(lines))
    return panels


def _ends(lines: list[Line], form: str) -> str:
    """Where the lines end, in words."""
    return "At the end: " + ", ".join(f"{line.name}: {line.y[-1]:{form}}" for line in lines) + "."


def series(figure: Figure, played: Mapping[Key, Repeats]) -> list[dict[str, Any]]:
    """The numbers behind a figure, for JSON."""
    found = []
    for key in keys_of(figure):
        run = played[key]
        found.append(
            {
                "variant": key.variant,
                "algorithm": key.algorithm,
                "agents": key.agents,
                "seeds": len(run.total_loss),
                "samples_per_agent": run.samples.tolist(),
                "mean_mistakes_per_agent": run.mistakes.mean(axis=(0, 2)).tolist(),
                "mean_objective": run.objective.mean(axis=0).tolist(),
                "total_mistakes": run.total_mistakes.tolist(),
                "total_objective": run.total_loss.tolist(),
                "seconds_on_one_core": run.seconds,
            }
        )
    return found
