"""The technical part of a report: curves against bounds, network, consensus, settings."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from datetime import datetime
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from ddol.lab.network import MOST_DRAWN, AgentMarks, draw_network
from ddol.lab.page import Cell, figure, figures, heading, paragraph, table
from ddol.measure.chart import number
from ddol.measure.curves import bytes_in_words, chart_of, regret_chart
from ddol.measure.theorems import find_theorem
from ddol.trace import Trace

_MOST_AGENTS = 20
"""Rows of the table of local certificates: those that may regret most."""

if TYPE_CHECKING:
    from ddol.algorithm import Algorithm
    from ddol.measure.regret import Regret


def details(trace: Trace, regret: Regret | None, data: str | None) -> list[str]:
    """Everything that a reader without a question about the method can skip."""
    return [
        figures(_curves(trace, regret)),
        *agreement(trace),
        *_bounds(trace, regret),
        *_network(trace),
        heading("What was run"),
        table(("setting", "value"), _settings(trace, data), label="What was run"),
    ]


def name_of(trace: Trace) -> str:
    """The algorithm as it is written on the command line."""
    return trace.name.replace("_", "-")


def network_of(trace: Trace) -> str:
    """The agents and their network in words."""
    if trace.agents == 1:
        return "one agent"
    shape = trace.topology.replace("_", " ").replace("-", " ")
    return f"{trace.agents} agents, {shape} network"


def agreement(trace: Trace) -> list[str]:
    """Where agents always agree, a sentence says so: a chart would be empty."""
    if trace.agents == 1 or np.any(trace.curves.consensus > 0):
        return []
    return [
        paragraph(
            "All agents have the same weights after every round: every agent hears every other one, "
            "and all are weighted alike.",
            "soft",
        )
    ]


def _settings(trace: Trace, data: str | None) -> list[list[Cell]]:
    """Data, algorithm and its options, and when: what it takes to run it again."""
    algorithm = trace.algorithm
    loss = algorithm.loss
    given = ", ".join(f"{value:g}" for value in loss.parameters)
    shown = {
        "data": f"{data or 'not named'}: {trace.examples:,} examples, {_columns(trace)}",
        "algorithm": name_of(trace),
        "loss": f"{loss.name.replace('_', ' ')}{f' ({given})' if given else ''}",
        "C": f"{algorithm.C:g}",
        "rate": str(algorithm.rate),
        **_options(algorithm),
        "average": f"in the {algorithm.average}",
        "batch, period, delay": f"{algorithm.batch}, {algorithm.period}, {algorithm.delay}",
        "network": f"{network_of(trace)}, {trace.mixing} mixing"
        if trace.agents > 1
        else "one agent",
        "sent": f"{trace.messages:,} messages, {bytes_in_words(trace.bytes_sent)}",
        "engine": f"{trace.engine}, {trace.workers} worker{'s' if trace.workers > 1 else ''}",
        "seed": str(trace.seed),
        "written": datetime.now().astimezone().strftime("%d %B %Y, %H:%M %Z"),
    }
    return [[Cell(name), Cell(value)] for name, value in shown.items()]


def _columns(trace: Trace) -> str:
    width = trace.weights.shape[-1]
    if trace.algorithm.update.experts:
        return f"{width:,} experts"
    constant = bool(getattr(trace.encoding, "intercept", False))
    return f"{width - constant:,} features" + (" and a constant" if constant else "")


def _options(algorithm: Algorithm) -> dict[str, str]:
    """Parameters of the preset, and when agents ask and talk, where it is not always."""
    facts = {**(algorithm.recipe or {})}
    for name in ("preset", "loss", "C", "rate", "average"):
        facts.pop(name, None)
    for name in ("query", "talk", "compress", "talk_to", "teach"):
        facts[name] = getattr(algorithm, name)
    return {
        name.replace("_", " "): _in_words(value)
        for name, value in facts.items()
        if value is not None
    }


def _in_words(value: Any) -> str:
    """A number, or what a rule of asking or talking says beside its defaults."""
    if not is_dataclass(value):
        return f"{value:g}" if isinstance(value, float) else str(value)
    own = [(f.name, getattr(value, f.name), f.default) for f in fields(value)]
    return ", ".join(f"{name} {_in_words(v)}" for name, v, default in own if v != default)


def _curves(trace: Trace, regret: Regret | None) -> list[str]:
    wanted = ["loss"] if trace.classification else []
    wanted += ["bound"] if trace.bounds else []
    if trace.binding_certificate is not None:
        wanted += ["certificate", "drift"] if trace.agents > 1 else ["certificate"]
    charts = [chart_of(trace, what) for what in wanted]
    if regret is not None and len(regret.social_curve) > 1:
        charts.append(regret_chart(regret))
    if trace.agents > 1:
        if np.any(trace.curves.consensus > 0):
            charts.append(chart_of(trace, "consensus"))
        alike = trace.edges is None or len(set(trace.edges[:, 2].tolist())) < 2
        charts.append(chart_of(trace, "traffic" if alike else "edges"))
    return [figure(chart) for chart in charts]


# --- bounds, network, agents ---------------------------------------------------------------------


def _bounds(trace: Trace, regret: Regret | None) -> list[str]:
    found = {**trace.bounds, **({} if regret is None else regret.bounds)}
    certified = [*_certified(trace), *_local(trace), *_regret_at_the_end(trace, regret)]
    if not found:
        return [heading("Bound"), *(certified or [paragraph(_why_none(trace, regret), "soft")])]
    rows = [
        [
            Cell(name),
            Cell(f"{facts['quantity']}: {facts['formula']}"),
            Cell(f"{facts['value']:,.1f} allowed", "n"),
            Cell(f"{facts['observed']:,.1f} observed", "n"),
            Cell("kept", "good") if facts["holds"] else Cell("EXCEEDED", "bad"),
        ]
        for name, facts in found.items()
    ]
    needs = "; ".join(next(iter(found.values()))["assumptions"])
    return [
        heading("Bound"),
        table(
            ("theorem", "what it says", "bound", "run", "verdict"), rows, wide=True, label="Bound"
        ),
        paragraph(f"It holds because of: {needs}.", "soft"),
        *certified,
    ]


def _certified(trace: Trace) -> list[str]:
    """The certificate in a sentence."""
    made = trace.binding_certificate
    if made is None:
        return []
    return [
        paragraph(
            f"Certificate: for convex losses the regret of all agents together is at most "
            f"{number(made.total)} against {made.comparator}: {number(made.serial)} as for one serial "
            f"learner, and {number(made.drift)} of drift, the price of being distributed. It holds on any "
            "graph and with any delays."
        )
    ]


def _local(trace: Trace) -> list[str]:
    """A bound on the regret of each agent's own plays, where it is below its loss."""
    informative = [
        (a, m) for a, m in enumerate(trace.local_certificates) if m.informative_up_to > 1.0
    ]
    if not informative:
        return []
    worst = sorted(informative, key=lambda pair: -pair[1].against(1.0))[:_MOST_AGENTS]
    rows = [
        [
            Cell(str(a)),
            Cell(f"{number(made.loss)}", "n"),
            Cell(f"{number(made.fixed)} + {number(made.per_norm)}·‖u‖", "n"),
            Cell(f"{made.informative_up_to:.3g}", "n"),
        ]
        for a, made in worst
    ]
    return [
        paragraph(
            "Regret of each agent's own predictions against any linear model u with an intercept, whose "
            "norm is that of its weights on rows of mean 0 and deviation 1. No number comes from a neighbour."
        ),
        table(
            ("agent", "loss", "regret at most", "below the loss up to ‖u‖"),
            rows,
            label="Regret by agent",
        ),
    ]


def _regret_at_the_end(trace: Trace, regret: Regret | None) -> list[str]:
    """The regret in a sentence, where a curve of it would be one point."""
    if regret is None or len(regret.social_curve) != 1:
        return []
    words = (
        f"Regret at the end, of all agents together: {number(regret.social)} against the best weights "
        f"in hindsight ({regret.comparator.method})."
    )
    made = trace.certificate
    if made is not None and regret.social > made.total:
        words += " They lie outside of the set that the certificate speaks about."
    return [paragraph(words)]


def _why_none(trace: Trace, regret: Regret | None) -> str:
    if regret is not None and regret.why_no_bound:
        return _sentence(regret.why_no_bound)
    made = find_theorem(trace.algorithm)
    if made.holds:
        return (
            "The regret theorem applies; its bound needs the best weights in hindsight, which "
            "ddol.measure.regret.regret(trace, data) finds."
        )
    if trace.algorithm.update.experts:
        return _sentence(made.reason)
    hint = "A certificate bounds the regret on any graph: --certificate keeps one."
    return f"{_sentence(made.reason)} {hint}"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "."


def _network(trace: Trace) -> list[str]:
    graph = getattr(trace.algorithm.mixing, "topology", None)
    if trace.agents == 1 or graph is None:
        return []
    edges = graph.n_edges
    words = f"{trace.agents} agents, {edges:,} edges, {trace.mixing} mixing"
    gap = getattr(trace.algorithm.mixing, "is_uniform_complete", False)
    facts = "every agent hears every other in one round" if gap else "weights travel edge by edge"
    drawing = draw_network(graph, words, AgentMarks(_errors(trace), edges=trace.edges))
    coloured = "green agents are the best, red ones the worst"
    shown = f"{words}; {facts}; {coloured}"
    if trace.agents > MOST_DRAWN:
        shown += "; who talks to whom, with the agents on the diagonal"
    drawing = f"<figure>{drawing}<figcaption>{escape(shown)}.</figcaption></figure>"
    return ["<section>", heading("Network"), drawing, "</section>"]


def _errors(trace: Trace) -> np.ndarray:
    """Error rate of every agent, or its mean objective."""
    seen = np.full(trace.agents, trace.examples / trace.agents)
    if trace.state is not None:
        seen = np.maximum(trace.state.examples, 1)
    return np.asarray((trace.mistakes if trace.classification else trace.loss) / seen)
