"""The graph of a run as a drawing: agents as dots with their numbers, edges as lines.

Drawn by hand for the same reasons as charts (`ddol.measure.chart`).
"""

from __future__ import annotations

import math
from html import escape

import numpy as np

from ddol.communicate.graph import Topology

MOST_EDGES = 2000
_NEAR = 0.02
_BEND = 0.22
_MOST_CELLS = 4096


def draw_network(
    graph: Topology,
    words: str,
    values: np.ndarray | None = None,
    behind: np.ndarray | None = None,
    absent: np.ndarray | None = None,
) -> str:
    """The graph as an ``<svg>`` element.

    An edge that would run through another agent, such as those that close a torus, is bent.

    Parameters
    ----------
    graph : Topology
    words : str
        What it shows, for those who cannot see it.
    values : (N,), optional
        Colour agents from the least (green) to the largest (red).
    behind, absent : (N,) of bool, optional
        Agents that get a ring, and agents that lose their colour.

    Examples
    --------
    >>> from ddol import torus
    >>> draw_network(torus(3, 4), "a torus").count("Q")  # three rows and four columns are closed
    7
    """
    places = graph.positions() * [1, -1]
    radius = min(0.1, 1.2 / graph.n_agents**0.85)
    lines = "".join(f'<path d="{_edge(places, i, j)}"/>' for i, j in graph.edges())
    dots = []
    for i, (x, y) in enumerate(places):
        fill = "" if values is None else f' style="fill:{_colour(values, i)}"'
        marks = {"behind": behind, "absent": absent}
        names = " ".join(name for name, of in marks.items() if of is not None and of[i])
        ring = f' class="{names}"' if names else ""
        dots.append(f'<circle cx="{x:.3f}" cy="{y:.3f}" r="{radius:.3f}"{fill}{ring}/>')
        if radius > 0.05:
            dots.append(
                f'<text x="{x:.3f}" y="{y + 0.35 * radius:.3f}" '
                f'style="font-size:{radius:.3f}px">{i}</text>'
            )
    tall = max(float(np.abs(places[:, 1]).max()), 0.25) + 0.15 + _BEND * bool(graph.shape)
    return (
        f'<svg class="net" viewBox="-1.25 {-tall:.2f} 2.5 {2 * tall:.2f}" role="img" '
        f'aria-label="{escape(graph.name)} network"><title>{escape(graph.name)} network</title>'
        f"<desc>{escape(words)}</desc>{lines}{''.join(dots)}</svg>"
    )


def agent_grid(values: np.ndarray, words: str) -> str:
    """Many agents as the cells of a square, coloured by a value; neighbours share one beyond 4,096.

    Examples
    --------
    >>> agent_grid(np.arange(300.0), "by error").count("<rect")
    300
    """
    if len(values) > _MOST_CELLS:
        values = np.array([part.mean() for part in np.array_split(values, _MOST_CELLS)])
    side = math.ceil(math.sqrt(len(values)))
    cells = "".join(
        f'<rect x="{i % side}" y="{i // side}" width=".92" height=".92" fill="{_colour(values, i)}"/>'
        for i in range(len(values))
    )
    return (
        f'<svg class="cells" viewBox="0 0 {side} {side}" role="img" aria-label="agents">'
        f"<title>agents</title><desc>{escape(words)}</desc>{cells}</svg>"
    )


def _colour(values: np.ndarray, agent: int) -> str:
    """From green for the least value to red for the largest; grey where there is none."""
    low, high, value = float(np.min(values)), float(np.max(values)), float(values[agent])
    if not math.isfinite(low + high):
        return "#888"
    share = (value - low) / (high - low) if high > low else 0.0
    return f"hsl({130 * (1 - share):.0f} 55% 38%)"


def _edge(places: np.ndarray, i: int, j: int) -> str:
    """A straight line, or a bent one where another agent is in its way."""
    start, end = places[i], places[j]
    along = end - start
    length = float(np.linalg.norm(along)) or 1.0
    beside = np.array([-along[1], along[0]]) / length
    others = np.delete(places, [i, j], axis=0) - start
    part = others @ along / length**2
    blocked = np.any((np.abs(others @ beside) < _NEAR) & (part > 0.0) & (part < 1.0))
    first, last = (f"{x:.3f} {y:.3f}" for x, y in (start, end))
    if not blocked:
        return f"M{first}L{last}"
    x, y = (start + end) / 2 + 2 * _BEND * beside * min(length, 1.0)
    return f"M{first}Q{x:.3f} {y:.3f} {last}"
