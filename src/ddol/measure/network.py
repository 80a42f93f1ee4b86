"""The graph of a run as a drawing: agents as dots with their numbers, edges as lines.

Drawn by hand for the same reasons as charts (`ddol.measure.chart`).
"""

from __future__ import annotations

from html import escape

import numpy as np

from ddol.communicate.graph import Topology

MOST_EDGES = 2000
_NEAR = 0.02
_BEND = 0.22


def draw_network(graph: Topology, words: str) -> str:
    """The graph as an ``<svg>`` element, described by some words.

    An edge that would run through another agent, such as those that close a torus, is bent.

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
        dots.append(f'<circle data-agent="{i}" cx="{x:.3f}" cy="{y:.3f}" r="{radius:.3f}"/>')
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
