"""Three figures: speed against error, cost against agents, cost against features."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.report import Findings

_COLOURS = {
    "ddol": "#0072b2",
    "sklearn": "#e69f00",
    "vw": "#009e73",
    "river": "#cc79a7",
    "numpy": "#999999",
}
_MARKERS = "osD^vP*X"
_CONTESTED = ("svmguide1", "cod-rna", "covtype-csr", "covtype-dense", "like-rcv1", "classes")


def draw(findings: Findings, folder: Path) -> list[Path]:
    """Draw what was measured; returns the files. Without matplotlib there are none."""
    try:
        import matplotlib
    except ImportError:
        findings.left_out.append("figures, which need the extra plot")
        return []
    matplotlib.use("svg")
    # Fixed names of elements: two runs on the same numbers give the same file.
    matplotlib.rcParams["svg.hashsalt"] = "ddol"
    import matplotlib.pyplot as plt

    drawn = []
    for name, figure in _figures(findings, plt):
        path = folder / f"bench-{name}.svg"
        figure.savefig(path, bbox_inches="tight", metadata={"Date": None})
        plt.close(figure)
        drawn.append(path)
    return drawn


def _figures(findings: Findings, plt: Any) -> Iterator[tuple[str, Any]]:
    shown = [w for w in _CONTESTED if any(r.workload == w for r in findings.results)]
    if shown:
        yield "speed-error", _speed_against_error(findings, shown, plt)
    for name, xlabel, ylabel in (
        ("agents", "agents N", "ns per example"),
        ("features", "features D", "ns per stored number"),
    ):
        if any(p.figure == name for p in findings.points):
            yield name, _curves(findings, name, xlabel, ylabel, plt)


def _speed_against_error(findings: Findings, shown: list[str], plt: Any) -> Any:
    columns = min(3, len(shown))
    rows = -(-len(shown) // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(4.2 * columns, 3.4 * rows), squeeze=False)
    for ax in axes.flat[len(shown) :]:
        ax.set_visible(False)
    entered = [r for r in findings.results if r.workload in shown and r.error is not None]
    names = list(dict.fromkeys(r.name for r in entered))
    for ax, workload in zip(axes.flat, shown, strict=False):
        for r in entered:
            if r.workload == workload:
                marker = _MARKERS[names.index(r.name) % len(_MARKERS)]
                colour = _COLOURS.get(r.peer, "black")
                ax.plot(r.examples / r.best, 100 * r.error, marker, color=colour, label=r.name)
        ax.set(xscale="log", title=workload, xlabel="examples per second", ylabel="error, %")
        ax.xaxis.set_minor_formatter("")  # where all are near, labels between powers overlap
        ax.margins(0.15)
        ax.grid(alpha=0.3)
    legends = (ax.get_legend_handles_labels() for ax in axes.flat)
    found = {name: line for both in legends for line, name in zip(*both, strict=True)}
    figure.suptitle("Speed against progressive error: right and down is better")
    figure.tight_layout()
    place = {"loc": "upper center", "bbox_to_anchor": (0.5, 0.0), "ncol": 4}
    figure.legend(found.values(), found.keys(), **place)
    return figure


def _curves(findings: Findings, name: str, xlabel: str, ylabel: str, plt: Any) -> Any:
    figure, ax = plt.subplots(figsize=(6.5, 4))
    points = [p for p in findings.points if p.figure == name]
    for curve in dict.fromkeys(p.curve for p in points):
        own = [p for p in points if p.curve == curve]
        style = "--" if curve.startswith("sklearn") else "-"
        ax.plot([p.x for p in own], [p.nanoseconds for p in own], style, marker=".", label=curve)
    ax.set(xscale="log", yscale="log", xlabel=xlabel, ylabel=ylabel)
    ax.legend(fontsize=8)
    ax.grid(alpha=0.3)
    return figure
