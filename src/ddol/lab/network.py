"""The graph of a run as a drawing: agents as dots with their numbers, edges as lines; or its matrix.

Drawn by hand for the same reasons as charts (`ddol.measure.chart`).
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from html import escape

import numpy as np

from ddol.communicate.graph import Topology
from ddol.measure.sites import listening
from ddol.trace import Trace

MOST_DRAWN = 200
"""Agents that are drawn as dots; a network of more is drawn as its matrix."""
_MOST_EDGES = 2000
_MOST_CELLS = 64
_NEAR = 0.02
_BEND = 0.22
_THIN, _THICK = 0.006, 0.03


@dataclass(frozen=True)
class AgentMarks:
    """What a drawing shows of the agents and of the edges between them; None is not shown.

    Parameters
    ----------
    values : (N,)
        Colour agents from the least (green) to the largest (red).
    behind, absent : (N,) of bool
        Agents that get a ring, and agents that lose their colour.
    edges : (edges, 4)
        Sender, receiver, messages and bytes, as in `ddol.trace.Trace`: an edge is as wide as its messages,
        and faint where there are none; or those of `listening_edges`.
    """

    values: np.ndarray | None = None
    behind: np.ndarray | None = None
    absent: np.ndarray | None = None
    edges: np.ndarray | None = None


def draw_network(graph: Topology, words: str, marks: AgentMarks | None = None) -> str:
    """The graph as an ``<svg>`` element: dots and lines, or its matrix where there are too many.

    An edge that would run through another agent, such as those that close a torus, is bent.

    Parameters
    ----------
    graph : Topology
    words : str
        What it shows, for those who cannot see it.
    marks : AgentMarks, optional

    Examples
    --------
    >>> from ddol import ring, torus
    >>> draw_network(torus(3, 4), "a torus").count("Q")  # three rows and four columns are closed
    7
    >>> draw_network(ring(300), "a ring").count("<circle")
    0
    """
    marks = marks or AgentMarks()
    if graph.n_agents > MOST_DRAWN or graph.n_edges > _MOST_EDGES:
        return _draw_matrix(graph, words, marks)
    places, pairs, paths = _geometry(graph)
    radius = min(0.1, 1.2 / graph.n_agents**0.85)
    widths = _widths(pairs, marks.edges)
    lines = "".join(f'<path d="{path}"{width}/>' for path, width in zip(paths, widths, strict=True))
    dots = []
    for i, (x, y) in enumerate(places):
        fill = "" if marks.values is None else f' style="fill:{_colour(marks.values, i)}"'
        rings = {"behind": marks.behind, "absent": marks.absent}
        names = " ".join(name for name, of in rings.items() if of is not None and of[i])
        ring = f' class="{names}"' if names else ""
        dots.append(f'<circle cx="{x:.3f}" cy="{y:.3f}" r="{radius:.3f}"{fill}{ring}/>')
        if radius > 0.05:
            dots.append(
                f'<text x="{x:.3f}" y="{y + 0.35 * radius:.3f}" '
                f'style="font-size:{radius:.3f}px">{i}</text>'
            )
    tall = max(float(np.abs(places[:, 1]).max()), 0.25) + 0.15 + _BEND * bool(graph.shape)
    box = f"-1.25 {-tall:.2f} 2.5 {2 * tall:.2f}"
    return _svg("net", box, f"{graph.name} network", words, lines + "".join(dots))


@functools.lru_cache(maxsize=4)
def _geometry(graph: Topology) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Places of agents, edges, and their lines: a live page draws the same graph again and again."""
    places, pairs = graph.positions() * [1, -1], graph.edges()
    return places, pairs, [_edge(places, i, j) for i, j in pairs]


def _svg(kind: str, box: str, title: str, words: str, inside: str) -> str:
    return (
        f'<svg class="{kind}" viewBox="{box}" role="img" aria-label="{escape(title)}">'
        f"<title>{escape(title)}</title><desc>{escape(words)}</desc>{inside}</svg>"
    )


def _widths(pairs: np.ndarray, edges: np.ndarray | None) -> list[str]:
    """How wide the lines are: as the messages of both directions, where these differ."""
    if edges is None:
        return [""] * len(pairs)
    sent: dict[tuple[int, int], int] = {}
    for i, j, messages, _ in edges.tolist():
        pair = (min(i, j), max(i, j))
        sent[pair] = sent.get(pair, 0) + messages
    counts = np.array([sent.get((min(i, j), max(i, j)), 0) for i, j in pairs.tolist()], float)
    if not counts.size or counts.min() == counts.max():
        return [""] * len(pairs)
    widths = _THIN + (_THICK - _THIN) * counts / counts.max()
    faint = ["" if count else ";opacity:0.25" for count in counts]
    return [f' style="stroke-width:{w:.4f}{f}"' for w, f in zip(widths, faint, strict=True)]


def listening_edges(trace: Trace) -> np.ndarray | None:
    """Edges by the weights with which their ends average now, where neighbours are tested; else None.

    Examples
    --------
    >>> import ddol
    >>> X = np.random.default_rng(0).standard_normal((400, 3)); y = np.sign(X @ [1.0, -2.0, 0.5])
    >>> y[::2] *= -1.0  # two sites that do not agree
    >>> listening_edges(ddol.run(ddol.safe(ddol.adaptive()), (X, y), 2)).tolist()
    [[1, 0, 0, 0], [0, 1, 0, 0]]
    """
    if not trace.algorithm.tests or trace.state is None:
        return None
    heard, graph = listening(trace), trace.algorithm.graph
    pairs = graph.edges()
    both = np.concatenate([pairs, pairs[:, ::-1]])
    weights = np.round(1e6 * heard[both[:, 0], both[:, 1]])
    return np.column_stack([both[:, 1], both[:, 0], weights, 0 * weights]).astype(np.int64)


def _draw_matrix(graph: Topology, words: str, marks: AgentMarks) -> str:
    """Who talks to whom, as dark as they talk; on the diagonal agents by their values.

    Neighbouring agents share a cell where there are more than 64.
    """
    n = graph.n_agents
    side = min(n, _MOST_CELLS)
    cell_of = np.arange(n) * side // n
    dark = np.zeros((side, side))
    if marks.edges is not None:
        np.add.at(dark, (cell_of[marks.edges[:, 1]], cell_of[marks.edges[:, 0]]), marks.edges[:, 2])
    elif graph.is_complete:
        dark[:] = 1.0
    else:
        indptr, indices = graph.csr()
        heard = np.repeat(cell_of, np.diff(indptr))
        np.add.at(dark, (heard, cell_of[indices]), 1.0)
    shades = np.ceil(4 * dark / max(float(dark.max()), 1e-300)) / 4
    cells = [
        f'<rect x="{lo}" y="{row}" width="{hi - lo}" height="1" opacity="{shades[row, lo]:g}"/>'
        for row in range(side)
        for lo, hi in _runs(shades[row])
    ]
    if marks.values is not None:
        size = np.bincount(cell_of)
        means = np.bincount(cell_of, marks.values) / size
        cells += [
            f'<rect x="{k}" y="{k}" width="1" height="1" style="fill:{_colour(means, k)}"/>'
            for k in range(side)
        ]
    return _svg("cells", f"0 0 {side} {side}", f"{graph.name} matrix", words, "".join(cells))


def _runs(shades: np.ndarray) -> list[tuple[int, int]]:
    """Where the same shade, but none, goes on from cell to cell."""
    starts = np.flatnonzero(np.diff(shades, prepend=-1.0))
    ends = np.append(starts[1:], len(shades))
    pairs = zip(starts.tolist(), ends.tolist(), strict=True)
    return [(lo, hi) for lo, hi in pairs if shades[lo] > 0.0]


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
