"""The parts of the page, each by the name of the element that it fills, drawn with the report's charts."""

from __future__ import annotations

from html import escape

import numpy as np

from ddol.engines.progress import Progress
from ddol.lab.live.watched import WatchedRun, listed
from ddol.lab.network import MOST_DRAWN, AgentMarks, draw_network, listening_edges
from ddol.lab.page import Cell, facts, figure, figures, fold, heading, page, paragraph, table
from ddol.lab.report_details import agreement, network_of
from ddol.measure.chart import number
from ddol.measure.curves import bytes_in_words, chart_of
from ddol.measure.theorems import find_theorem
from ddol.trace import Trace

PARTS = ("title", "bar", "facts", "charts", "sites", "behind", "log", "curves", "bound", "network")
_FOLDED = ("curves", "bound", "network")
"""Parts behind a fold, which stays as the reader has left it."""
_BEHIND = 0.9
_MOST_BEHIND = 5
_STYLE = """
#bar div{height:.5rem;border-radius:.25rem;background:var(--raised);overflow:hidden;margin:1rem 0 .3rem}
#bar div div{background:var(--s0);margin:0;border-radius:0}
#state{color:var(--soft);font-size:.9rem}
.net circle.behind{stroke:var(--s4);stroke-width:.05}
.net circle.absent{fill:var(--grid)!important;stroke:var(--soft);stroke-width:.02;stroke-dasharray:.05 .04}
#log ol{list-style:none;margin:0;padding:0;max-height:16rem;overflow-y:auto;font-size:.9rem}
#log time{color:var(--soft);font-variant-numeric:tabular-nums;margin-right:.8em}
"""
_SCRIPT = """
const state=document.getElementById("state"),news=new EventSource("events"+location.search);
news.onopen=()=>{state.textContent="live"};
news.onerror=()=>{state.textContent="no connection; trying again"};
news.onmessage=e=>{for(const [id,html] of Object.entries(JSON.parse(e.data))){
const part=document.getElementById(id);if(part)part.innerHTML=html}};
news.addEventListener("end",()=>{news.close();
state.textContent="the run has ended; these are its last figures"});
"""


def whole_page(watched: WatchedRun, nonce: str) -> str:
    """The page as it stands now; what comes later replaces its parts."""
    inside = {name: f'<div id="{name}">{html}</div>' for name, html in parts(watched).items()}
    body = [
        '<p id="state" role="status">connecting</p>',
        *(html for name, html in inside.items() if name not in _FOLDED),
        fold("Technical details", [inside[name] for name in _FOLDED]),
        f'<style>{_STYLE}</style><script nonce="{nonce}">{_SCRIPT}</script>',
    ]
    return page("A run of ddol", body)


def parts(watched: WatchedRun) -> dict[str, str]:
    """Every part of the page as it stands now."""
    trace = watched.trace()
    if trace is None:
        title = (
            f"<h1>{escape(watched.algorithm.name)}</h1>{paragraph('Nothing has been learned yet.')}"
        )
        return {**dict.fromkeys(PARTS, ""), "title": title, "log": _log(watched)}
    first = "mistakes" if trace.classification else "loss"
    return {
        "title": _title(watched, trace),
        "bar": _bar(watched),
        "facts": facts(_facts(trace, watched)),
        "charts": figures([figure(chart_of(trace, first))]),
        "sites": _by_site(trace, watched),
        "behind": _behind(watched),
        "log": _log(watched),
        "curves": figures([figure(chart_of(trace, what)) for what in _wanted(trace)])
        + "".join(agreement(trace)),
        "bound": _bound(trace),
        "network": _network(trace, watched),
    }


def _title(watched: WatchedRun, trace: Trace) -> str:
    if trace.classification:
        text = f"{100 * trace.error:.1f} % wrong so far"
    else:
        text = f"Mean loss {trace.mean_loss:.4g} so far"
    kind = "sites" if watched.sites else "agents"
    who = "One agent has" if trace.agents == 1 else f"{trace.agents} {kind} have"
    what = f" of {watched.data}" if watched.data else ""
    words = (
        f"{who} learned from {trace.examples:,} examples{what} in {trace.seconds:,.1f} s. Each example is "
        f"predicted before it is learned. Algorithm {trace.name.replace('_', '-')}, "
        f"{network_of(trace)}, engine {watched.engine}."
    )
    return f"<h1>{escape(text)}</h1>{paragraph(words, 'lead')}"


def _bar(watched: WatchedRun) -> str:
    if watched.share is None:
        return ""
    share = f"{100 * watched.share:.1f}"
    return (
        f'<div role="progressbar" aria-label="data read" aria-valuenow="{share}" aria-valuemin="0" '
        'aria-valuemax="100">'
        f'<div style="width:{share}%;height:100%"></div></div>{paragraph(f"{share} % read", "soft")}'
    )


def _facts(trace: Trace, watched: WatchedRun) -> list[tuple[str, str]]:
    pairs, last = [], watched.last
    if trace.classification:
        pairs.append((f"{100 * trace.error:.2f} %", "wrong so far"))
    else:
        pairs.append((f"{trace.mean_loss:.4g}", "loss per example"))
    if last is not None and last.window_error is not None:
        error = last.window_error
        shown = f"{100 * error:.2f} %" if trace.classification else f"{error:.4g}"
        what = "wrong" if trace.classification else "loss"
        pairs.append((shown, f"{what} of the last {last.window:,} examples"))
    if trace.classification and watched.tally is not None:
        guessed = watched.tally.baseline()
        pairs += [
            (f"{100 * guessed.constant:.2f} %", "wrong if always the same class"),
            (f"{100 * guessed.last:.2f} %", "wrong if always the last label"),
        ]
    pairs.append((number(trace.examples / max(trace.seconds, 1e-9)), "examples a second"))
    if trace.agents > 1:
        kind = "site" if watched.sites else "agent"
        pairs.append((bytes_in_words(trace.bytes_sent / trace.agents), f"sent by each {kind}"))
    return pairs


def _wanted(trace: Trace) -> list[str]:
    wanted = ["loss"] if trace.classification else []
    if trace.bounds:
        wanted.append("bound")
    if trace.binding_certificate is not None:
        wanted.append("certificate")
    if np.any(trace.curves.consensus > 0):
        wanted.append("consensus")
    return wanted


def _bound(trace: Trace) -> str:
    made = trace.binding_certificate
    if made is not None:
        words = f"{number(made.total)}, of which {number(made.drift)} are drift, against {made.comparator}."
        return heading("Certificate") + paragraph(f"The regret of all agents is at most {words}")
    if not trace.bounds:
        found = find_theorem(trace.algorithm)
        if found.holds:
            words = (
                "The regret theorem applies; its bound needs the best weights in hindsight, and "
                "stands in the report of the run."
            )
        else:
            words = f"No bound applies: {'; '.join(found.missing)}."
        return heading("Bound") + paragraph(words, "soft")
    rows = [
        [
            Cell(name),
            Cell(f"{text['value']:,.1f} allowed", "n"),
            Cell(f"{text['observed']:,.0f} {text['quantity']}", "n"),
            Cell("kept", "good") if text["holds"] else Cell("EXCEEDED", "bad"),
        ]
        for name, text in trace.bounds.items()
    ]
    header = ("theorem", "bound", "observed", "verdict")
    return heading("Bound") + table(header, rows, wide=True, label="Bound")


def _network(trace: Trace, watched: WatchedRun) -> str:
    graph = getattr(trace.algorithm.mixing, "topology", None)
    last = watched.last
    if trace.agents == 1 or last is None:
        return ""
    seen = np.maximum(last.agent_examples, 1)
    each = last.mistakes / seen if trace.classification else last.loss / seen
    what = "error" if trace.classification else "mean loss"
    words = f"Agents by {what}, from {each.min():.3g} (green) to {each.max():.3g} (red)"
    if graph is None:
        return ""
    if trace.agents > MOST_DRAWN:
        words += ", on the diagonal of the matrix of who talks to whom"
    heard = listening_edges(trace)
    if heard is not None:
        words += (
            "; edges as wide as the weights with which their ends average, faint where neither does"
        )
    elif last.edges is not None and trace.agents <= MOST_DRAWN:
        words += "; edges as wide as their messages"
    edges = last.edges if heard is None else heard
    marks = AgentMarks(each, _is_behind(last.agent_examples), _absent(last), edges)
    if trace.agents <= MOST_DRAWN:
        rings = {"ringed: behind": marks.behind, "dashed: away": marks.absent}
        words += "".join(
            f"; {ring}" for ring, who in rings.items() if who is not None and who.any()
        )
    drawing = draw_network(graph, words, marks)
    caption = f"<figcaption>{escape(words)}.</figcaption>"
    return f"{heading('Network')}<figure>{drawing}{caption}</figure>"


def _by_site(trace: Trace, watched: WatchedRun) -> str:
    """A row for each site, where agents have names."""
    last = watched.last
    if last is None or len(watched.sites) != trace.agents or trace.agents > MOST_DRAWN:
        return ""
    seen = np.maximum(last.agent_examples, 1)
    rows = []
    for k, site in enumerate(watched.sites):
        error = f"{100 * last.mistakes[k] / seen[k]:.2f} %" if trace.classification else "–"
        cells = (f"{last.agent_examples[k]:,}", error, f"{last.loss[k] / seen[k]:.4g}")
        rows.append([Cell(site), *(Cell(cell, "n") for cell in cells)])
    return heading("By site") + table(
        ("site", "examples", "error", "mean loss"), rows, label="By site"
    )


def _absent(last: Progress) -> np.ndarray | None:
    return last.moments[-1].absent if last.moments else None


def _is_behind(examples: np.ndarray) -> np.ndarray:
    return examples < _BEHIND * examples.max()


def _behind(watched: WatchedRun) -> str:
    last = watched.last
    if last is None or len(last.agent_examples) == 1:
        return ""
    seen = last.agent_examples
    slow = [i for i in np.argsort(seen, kind="stable")[:_MOST_BEHIND] if _is_behind(seen)[i]]
    gone = _absent(last)
    away = ""
    if gone is not None and gone.any():
        away = paragraph(f"Away now: {listed(gone, watched.sites)}.", "soft")
    top = heading("Slower than the others") + away
    if not slow:
        return top if away else ""
    names = watched.sites or tuple(map(str, range(len(seen))))
    cells = ((names[i], f"{seen[i]:,}", f"{seen[i] / seen.max():.0%}") for i in slow)
    rows = [[Cell(name), Cell(count, "n"), Cell(share, "n")] for name, count, share in cells]
    return top + table(
        ("site" if watched.sites else "agent", "examples", "of the fastest"), rows, label="Behind"
    )


def _log(watched: WatchedRun) -> str:
    lines = "".join(
        f"<li><time>{seconds:,.1f} s</time>{escape(text)}</li>" for seconds, text in watched.notes()
    )
    return f"{heading('Events')}<ol>{lines}</ol>" if lines else ""
