"""A run as one page: curves against bounds, agents, network, consensus, traffic, command, versions."""

from __future__ import annotations

import os
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from ddol.measure.applicable import find_theorem
from ddol.measure.chart import Chart, Line
from ddol.measure.page import (
    Cell,
    facts,
    figure,
    figures,
    heading,
    origin,
    paragraph,
    table,
    write_page,
)
from ddol.trace import Trace

if TYPE_CHECKING:
    from ddol.measure.regret import Regret

_MOST_AGENTS = 64
_MOST_EDGES = 2000
_FEW = 10
_EXAMPLES = "examples seen by all agents"


def write_report(
    trace: Trace,
    path: str | os.PathLike[str],
    command: str | None = None,
    regret: Regret | None = None,
) -> None:
    """Write a run as one self-contained HTML file.

    Parameters
    ----------
    trace : Trace
    path : file name
        Written beside and renamed, so that an older file stays whole until the new one is.
    command : str, optional
        What was called, shown as it is.
    regret : Regret, optional
        From `ddol.measure.regret.regret`, shown beside its bound.

    Examples
    --------
    >>> import ddol, tempfile, pathlib
    >>> trace = ddol.run(ddol.dogd(), (np.eye(4), [1, -1, 1, -1]), 2)
    >>> path = pathlib.Path(tempfile.mkdtemp(), "run.html")
    >>> write_report(trace, path)
    >>> path.read_text().startswith("<!doctype html>")
    True
    """
    title = f"{_name(trace)}, {_agents(trace)}"
    body = [
        f"<h1>{escape(title)}</h1>",
        paragraph(_lead(trace), "lead"),
        facts(_facts(trace)),
        figures(_curves(trace, regret)),
        *_bounds(trace, regret),
        '<div class="beside">',
        *_network(trace),
        *_agent_table(trace),
        "</div>",
        *origin(command),
    ]
    write_page(path, f"{title} · ddol", body)


def _name(trace: Trace) -> str:
    return trace.name.replace("_", "-")


def _agents(trace: Trace) -> str:
    if trace.agents == 1:
        return "one agent"
    shape = trace.topology.replace("_", " ").replace("-", " ")
    return f"{trace.agents} agents, {shape} network"


def _lead(trace: Trace) -> str:
    speed = trace.examples / max(trace.seconds, 1e-9)
    return (
        f"{trace.examples:,} examples in {trace.rounds:,} rounds, {trace.seconds:.2f} s on the engine "
        f"“{trace.engine}” with {trace.workers} worker{'s' if trace.workers > 1 else ''} "
        f"({speed:,.0f} examples a second), seed {trace.seed}. Mistakes and losses are counted before "
        "the weights learn from the answer."
    )


def _facts(trace: Trace) -> list[tuple[str, str]]:
    pairs = []
    if trace.classification:
        pairs.append((f"{100 * trace.error:.2f} %", f"wrong: {trace.mistakes.sum():,} mistakes"))
    pairs.append((f"{trace.mean_loss:.4g}", "objective per example"))
    if trace.agents > 1:
        pairs += [
            (f"{trace.consensus:.3g}", "consensus distance at the end"),
            (f"{trace.messages:,}", "messages between neighbours"),
            (_bytes(trace.bytes_sent), "sent in these messages"),
        ]
    return pairs


def _bytes(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:,.3g} {unit}"
        count /= 1000
    return f"{count:,.3g} TB"


# --- curves --------------------------------------------------------------------------------------


def _curves(trace: Trace, regret: Regret | None) -> list[str]:
    parts = [_error(trace)] if trace.classification else []
    parts.append(_loss(trace))
    if trace.bounds:
        parts.append(_against_bound(trace))
    if regret is not None and regret.social_curve.size:
        parts.append(_regret(trace, regret))
    if trace.agents > 1:
        parts.append(_consensus(trace))
        parts.append(_traffic(trace))
    return parts


def _spread(trace: Trace, counts: np.ndarray) -> tuple[Any, Any]:
    """Least and largest value over the agents, per example of each; nothing for many agents.

    The first few examples, which tell nothing yet, have no band.
    """
    if counts.shape[1] < 2:
        return None, None
    seen = trace.curves.examples / trace.agents
    each = np.where(seen[:, None] >= _FEW, counts / np.maximum(seen, 1)[:, None], np.nan)
    return each.min(axis=1), each.max(axis=1)


def _error(trace: Trace) -> str:
    curves = trace.curves
    share = 100 * curves.mistakes / np.maximum(curves.examples, 1)
    low, high = _spread(trace, 100 * curves.agent_mistakes)
    band = "The band spans the best and the worst agent." if low is not None else ""
    chart = Chart(
        "Wrong predictions so far",
        f"The share of mistakes falls from {share[0]:.1f} % to {share[-1]:.2f} % at the end. {band}",
        _EXAMPLES,
        "mistakes, %",
        (Line(f"{100 * trace.error:.2f} %", curves.examples, share, low, high),),
        log_x=True,
    )
    return figure(chart, caption=band)


def _loss(trace: Trace) -> str:
    curves = trace.curves
    mean = curves.loss / np.maximum(curves.examples, 1)
    low, high = _spread(trace, curves.agent_loss)
    positive = bool(np.all(mean > 0))
    steep = positive and mean.max() > 20 * mean.min()
    chart = Chart(
        "Objective per example so far",
        f"From {mean[0]:.4g} to {mean[-1]:.4g} at the end.",
        _EXAMPLES,
        "mean objective",
        (Line(f"{mean[-1]:.4g}", curves.examples, mean, low, high, colour=1),),
        log_x=True,
        log_y=steep,
    )
    return figure(chart, caption="Each example is charged at the weights that predicted it.")


def _against_bound(trace: Trace) -> str:
    name, bound = next(iter(trace.bound_curves().items()))
    told = trace.bounds[name]
    chart = Chart(
        f"Mistakes against the {name} bound",
        f"All agents together made {told['observed']:,.0f} mistakes; the theorem allows "
        f"{told['value']:,.1f}.",
        "rounds",
        "mistakes of all agents",
        (
            Line("bound", trace.curves.rounds, bound, colour="b", dashed=True),
            Line("observed", trace.curves.rounds, trace.curves.mistakes, colour=0),
        ),
    )
    return figure(chart, caption="The bound moves with the mistakes of the best expert so far.")


def _regret(trace: Trace, regret: Regret) -> str:
    lines = [Line("regret", regret.rounds, regret.social_curve, colour=2)]
    if regret.bound_curve.size:
        lines.append(Line("bound", regret.rounds, regret.bound_curve, colour="b", dashed=True))
    chart = Chart(
        "Social regret",
        f"The agents paid {regret.social:,.4g} more than the best fixed weights, found by "
        f"{regret.comparator.method}.",
        "rounds",
        "regret of all agents",
        tuple(lines),
    )
    gap = regret.comparator.gap
    known = f"optimality gap at most {gap:.2g}" if np.isfinite(gap) else "optimality gap unknown"
    return figure(chart, caption=f"Against weights by {regret.comparator.method}; {known}.")


def _consensus(trace: Trace) -> str:
    known = np.isfinite(trace.curves.consensus)
    distance = trace.curves.consensus[known]
    still = bool(np.all(distance == 0.0))
    words = "All agents hold the same weights after every round." if still else ""
    chart = Chart(
        "Consensus over rounds",
        words or f"The root mean square distance from the mean weights ends at {distance[-1]:.3g}.",
        "rounds",
        "‖wᵢ − mean‖",
        (Line(f"{distance[-1]:.3g}", trace.curves.rounds[known], distance, colour=3),),
        log_x=True,
        log_y=not still and bool(np.all(distance > 0)),
    )
    return figure(chart, caption=words or "√(mean over agents of ‖wᵢ − w̄‖²): 0 when all agree.")


def _traffic(trace: Trace) -> str:
    sent = trace.curves.rounds / max(trace.rounds, 1) * trace.bytes_sent / 1e6
    period = trace.algorithm.period
    each = trace.bytes_sent / max(trace.messages, 1)
    chart = Chart(
        "Sent between agents",
        f"{trace.messages:,} messages of {each:,.0f} bytes by the end.",
        "rounds",
        "MB",
        (Line(_bytes(trace.bytes_sent), trace.curves.rounds, sent, colour=4),),
    )
    often = "every round" if period == 1 else f"every {period} rounds"
    return figure(
        chart, caption=f"{trace.messages:,} messages of {_bytes(each)}, to every neighbour {often}."
    )


# --- bounds, network, agents ---------------------------------------------------------------------


def _bounds(trace: Trace, regret: Regret | None) -> list[str]:
    found = {**trace.bounds, **({} if regret is None else regret.bounds)}
    if not found:
        return [heading("Bound"), paragraph(_why_none(trace, regret), "soft")]
    rows = [
        [
            Cell(name),
            Cell(f"{told['quantity']}: {told['formula']}"),
            Cell(f"{told['value']:,.1f} allowed", "n"),
            Cell(f"{told['observed']:,.1f} observed", "n"),
            Cell("kept", "good") if told["holds"] else Cell("EXCEEDED", "bad"),
        ]
        for name, told in found.items()
    ]
    needs = "; ".join(next(iter(found.values()))["assumptions"])
    return [
        heading("Bound"),
        table(("theorem", "what it says", "bound", "run", "verdict"), rows, wide=True),
        paragraph(f"It holds because of: {needs}.", "soft"),
    ]


def _why_none(trace: Trace, regret: Regret | None) -> str:
    if regret is not None and regret.why_no_bound:
        return regret.why_no_bound.capitalize() + "."
    made = find_theorem(trace.algorithm)
    if made.holds:
        return (
            "The regret theorem applies; its bound needs the best weights in hindsight, which "
            "ddol.measure.regret.regret(trace, data) finds."
        )
    return made.reason[:1].upper() + made.reason[1:] + "."


def _network(trace: Trace) -> list[str]:
    graph = getattr(trace.algorithm.mixing, "topology", None)
    if trace.agents == 1 or graph is None:
        return []
    edges = graph.n_edges
    words = f"{trace.agents} agents, {edges:,} edges, {trace.mixing} mixing"
    gap = getattr(trace.algorithm.mixing, "is_uniform_complete", False)
    told = "news reaches everybody in one round" if gap else "news travels edge by edge"
    if edges > _MOST_EDGES:
        drawing = paragraph(f"{words}: too many to draw; {told}.")
    else:
        caption = f"<figcaption>{escape(words)}; {told}.</figcaption>"
        drawing = f"<figure>{_drawing(graph, words)}{caption}</figure>"
    return ["<section>", heading("Network"), drawing, "</section>"]


def _drawing(graph: Any, words: str) -> str:
    """The graph, agents as dots with their numbers."""
    places = graph.positions() * [1, -1]
    radius = min(0.1, 1.2 / graph.n_agents**0.85)
    lines = "".join(
        f'<line x1="{places[i, 0]:.3f}" y1="{places[i, 1]:.3f}" '
        f'x2="{places[j, 0]:.3f}" y2="{places[j, 1]:.3f}"/>'
        for i, j in graph.edges()
    )
    dots = []
    for i, (x, y) in enumerate(places):
        dots.append(f'<circle cx="{x:.3f}" cy="{y:.3f}" r="{radius:.3f}"/>')
        if radius > 0.05:
            dots.append(
                f'<text x="{x:.3f}" y="{y + 0.35 * radius:.3f}" '
                f'style="font-size:{radius:.3f}px">{i}</text>'
            )
    tall = max(float(np.abs(places[:, 1]).max()), 0.25) + 0.15
    return (
        f'<svg class="net" viewBox="-1.15 {-tall:.2f} 2.3 {2 * tall:.2f}" role="img" '
        f'aria-label="{escape(graph.name)} network"><title>{escape(graph.name)} network</title>'
        f"<desc>{escape(words)}</desc>{lines}{''.join(dots)}</svg>"
    )


def _agent_table(trace: Trace) -> list[str]:
    seen = trace.state.examples if trace.state is not None else None
    rows = []
    for i in range(min(trace.agents, _MOST_AGENTS)):
        n = int(seen[i]) if seen is not None else trace.examples // trace.agents
        row = [Cell(str(i), "n"), Cell(f"{n:,}", "n")]
        if trace.classification:
            share = 100 * trace.mistakes[i] / max(n, 1)
            row += [Cell(f"{trace.mistakes[i]:,}", "n"), Cell(f"{share:.2f}", "n")]
        rows.append([*row, Cell(f"{trace.loss[i] / max(n, 1):.5g}", "n")])
    counted = ("mistakes", "error %") if trace.classification else ()
    header = ("agent", "examples", *counted, "mean objective")
    more = trace.agents - _MOST_AGENTS
    rest = [paragraph(f"… and {more:,} more agents.", "soft")] if more > 0 else []
    return ["<section>", heading("Agents"), table(header, rows), *rest, "</section>"]
