"""A run as one page for people: how good, for whom, and what matters; technical curves behind a fold."""

from __future__ import annotations

import os
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from ddol.job.evaluation import ClassEvaluation
from ddol.job.tally import Tally
from ddol.lab.network import AgentMarks, draw_network, listening_edges
from ddol.lab.page import (
    Cell,
    facts,
    figures,
    fold,
    heading,
    origin,
    paragraph,
    table,
    write_page,
)
from ddol.lab.page import figure as drawn
from ddol.lab.report_details import details
from ddol.measure.curves import bytes_in_words, chart_of
from ddol.measure.sites import in_words, sites_of
from ddol.trace import Trace

if TYPE_CHECKING:
    from ddol.measure.regret import Regret

_MOST_NAMED = 20
_MOST_AGENTS = 64
_MOST_CLASSES = 12
_MOST_FEATURES = 20


def write_report(
    trace: Trace,
    path: str | os.PathLike[str],
    command: str | None = None,
    regret: Regret | None = None,
    data: str | None = None,
    tally: Tally | None = None,
    importance: Sequence[tuple[str, float]] = (),
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
    data : str, optional
        What the data are called.
    tally : Tally, optional
        Labels and predictions counted while the run learned: shows baselines and the confusion of classes.
    importance : pairs of a feature's name and its weight per standard deviation

    Examples
    --------
    >>> import ddol, tempfile, pathlib
    >>> trace = ddol.run(ddol.dogd(), (np.eye(4), [1, -1, 1, -1]), 2)
    >>> path = pathlib.Path(tempfile.mkdtemp(), "run.html")
    >>> write_report(trace, path, data="four corners")
    >>> path.read_text().startswith("<!doctype html>")
    True
    """
    title = _title(trace, tally)
    body = [
        f"<h1>{title}</h1>",
        paragraph(_lead(trace, tally), "lead"),
        facts(_facts(trace, tally)),
        figures([drawn(chart_of(trace, "mistakes" if trace.classification else "loss"))]),
        *_sites(trace, tally),
        *_whom_it_helped(trace),
        *_privacy(trace),
        *_confusion(tally),
        *_importance(importance),
        fold("Technical details", [*_promises(trace), *details(trace, regret, data)]),
        *origin(command),
    ]
    write_page(path, f"{title} · ddol", body)


def site_names(trace: Trace) -> list[str]:
    """What the agents are called: their sites, or their numbers."""
    sites = tuple(getattr(trace.encoding, "sites", None) or ())
    if len(sites) == trace.agents:
        return [str(site) for site in sites]
    return [f"agent {i}" for i in range(trace.agents)]


def _title(trace: Trace, tally: Tally | None) -> str:
    if trace.classification:
        text = f"{100 * (1 - trace.error):.1f} % of predictions right"
    elif tally is not None:
        text = f"Typical error {_root_mean_square(tally):.4g}"
    else:
        text = f"Mean loss {trace.mean_loss:.4g}"
    return text if trace.agents == 1 else f"{text}: {trace.agents} {_kind(trace)} learning together"


def _root_mean_square(tally: Tally) -> float:
    return float(tally.evaluation.figures()["rmse"])


def _kind(trace: Trace) -> str:
    """Agents with names are sites."""
    return "sites" if getattr(trace.encoding, "sites", None) else "agents"


def _lead(trace: Trace, tally: Tally | None) -> str:
    counted = (
        f"The learner saw {trace.examples:,} examples. It predicted each one before it learned the label, so "
        "the error is what a user of the model would have seen."
    )
    return f"{counted} {_against_guessing(trace, tally)}".rstrip()


def _against_guessing(trace: Trace, tally: Tally | None) -> str:
    """Whether the learner is better than a guess, in one sentence."""
    if tally is None:
        return ""
    baseline = tally.baseline()
    if isinstance(tally.evaluation, ClassEvaluation):
        own, other = trace.error, baseline.constant
        text = f"It was wrong on {100 * own:.1f} %"
        guess = f"always guessing “{tally.most_frequent()}” would have been wrong on {100 * other:.1f} %"
    else:
        own, other = _root_mean_square(tally), baseline.constant
        text = f"Its root mean squared error was {own:.4g}"
        guess = f"always guessing the mean would have had {other:.4g}"
    return (
        f"{text}; {guess}."
        if own < 0.98 * other
        else f"{text}: no better than a guess, since {guess}."
    )


def _facts(trace: Trace, tally: Tally | None) -> list[tuple[str, str]]:
    pairs = []
    if trace.classification:
        pairs.append((f"{100 * trace.error:.2f} %", f"wrong: {trace.mistakes.sum():,} mistakes"))
        if tally is not None:
            pairs.append(
                (f"{100 * tally.baseline().constant:.2f} %", "wrong if always the same class")
            )
            pairs.append((f"{100 * tally.baseline().last:.2f} %", "wrong if always the last label"))
    elif tally is not None:
        pairs += [
            (f"{_root_mean_square(tally):.4g}", "root mean squared error"),
            (f"{tally.baseline().constant:.4g}", "the same if always the mean"),
            (f"{tally.baseline().last:.4g}", "the same if always the last label"),
        ]
    pairs.append((f"{trace.mean_loss:.4g}", "loss per example"))
    if trace.agents > 1:
        share = bytes_in_words(trace.bytes_sent / trace.agents)
        pairs += [
            (share, f"sent by each {_kind(trace)[:-1]} on average"),
        ]
        helped = sites_of(trace, site_names(trace))
        if helped and trace.classification:
            n = max(sum(row["examples"] for row in helped), 1)
            alone = sum(row["error_alone"] * row["examples"] for row in helped) / n
            pairs.insert(1, (f"{100 * alone:.2f} %", "wrong if each had learned alone"))
    return pairs


def _sites(trace: Trace, tally: Tally | None) -> list[str]:
    """One row for each site: examples, error, what a guess would have reached."""
    if trace.agents == 1:
        return []
    counted = trace.state.examples if trace.state is not None else None
    sent = _bytes_by_agent(trace)
    rows = []
    for i, name in enumerate(site_names(trace)[:_MOST_AGENTS]):
        n = int(counted[i]) if counted is not None else trace.examples // trace.agents
        row = [Cell(name), Cell(f"{n:,}", "n")]
        if trace.classification:
            row.append(Cell(f"{100 * trace.mistakes[i] / max(n, 1):.2f}", "n"))
            if tally is not None:
                row.append(Cell(f"{100 * tally.baseline(i).constant:.2f}", "n"))
        row += [Cell(f"{trace.loss[i] / max(n, 1):.5g}", "n"), Cell(bytes_in_words(sent[i]), "n")]
        rows.append(row)
    guess = ("error % of guessing",) if tally is not None else ()
    header = (
        _kind(trace)[:-1],
        "examples",
        *(("error %", *guess) if trace.classification else ()),
        "mean loss",
        "sent",
    )
    more = trace.agents - _MOST_AGENTS
    rest = [paragraph(f"… and {more:,} more agents.", "soft")] if more > 0 else []
    title = f"By {header[0]}"
    return [heading(title), table(header, rows, label=title), *rest]


def _privacy(trace: Trace) -> list[str]:
    """Of a private run: how much of the budget every agent has spent."""
    privacy = trace.privacy
    if privacy is None:
        return []
    names = site_names(trace)[:_MOST_AGENTS]
    rows = zip(names, privacy["spent"], privacy["released"], privacy["used_up"], strict=False)
    cells = [
        [
            Cell(name),
            Cell(f"{spent:.3g}", "n"),
            Cell(f"{count:,}", "n"),
            Cell("yes" if up else "no"),
        ]
        for name, spent, count, up in rows
    ]
    text = (
        f"What was sent is differentially private for single examples: at most "
        f"ε = {privacy['epsilon']:g} at δ = {privacy['delta']:g}, over {privacy['releases']:,} releases, "
        f"one every {privacy['every']:,} examples."
    )
    if privacy["public"]:
        text += f" The first {privacy['public']:,} examples of each site counted as public."
    header = ("site", "ε spent", "releases", "used up")
    return [heading("Privacy"), paragraph(text), table(header, cells)]


def _whom_it_helped(trace: Trace) -> list[str]:
    """Of a safe run: what each site would have lost alone and by sharing, and whom it averages with."""
    rows = sites_of(trace, site_names(trace))
    if not rows or trace.agents == 1:
        return []
    errors = rows[0]["error_alone"] is not None
    kinds = (
        ("error_alone", "error_shared", "error")
        if errors
        else ("loss_alone", "loss_shared", "loss")
    )
    cells = []
    for row in rows[:_MOST_AGENTS]:
        n = max(row["examples"], 1)
        text = [f"{100 * row[k]:.2f}" if errors else f"{row[k] / n:.4g}" for k in kinds]
        heard = ", ".join(
            f"{name} {100 * share:.0f} %" for name, share in row["listens_to"].items()
        )
        cells.append(
            [
                Cell(row["name"]),
                *(Cell(each, "n") for each in text),
                Cell(f"{100 * row['weight_shared']:.0f} %", "n"),
                Cell(row["helped"]),
                Cell(heard or "no other site", "list"),
            ]
        )
    unit = "error %" if errors else "loss"
    last = ("trust in sharing", "sharing helped", "averages with")
    header = ("site", f"{unit} alone", "sharing", "both combined", *last)
    words = (
        "Each site learned alone and together with the others, and predicted with a mixture of both; "
        "“trust in sharing” is the weight of the shared model in it at the end."
    )
    title = "Does sharing help?"
    return [
        heading(title), paragraph(in_words(rows)), table(header, cells, label=title),
        paragraph(words, "soft"), *_who_listens(trace, [row["name"] for row in rows]),
    ]  # fmt: skip


def _who_listens(trace: Trace, names: list[str]) -> list[str]:
    """The graph of the sites, by the weights with which they average."""
    edges, graph = listening_edges(trace), trace.algorithm.graph
    if edges is None:
        return []
    words = "Who listens to whom: lines are as wide as the weights of their ends, faint where neither listens"
    if len(names) <= _MOST_NAMED:
        words += "; " + ", ".join(f"{k} is {name}" for k, name in enumerate(names))
    drawing = draw_network(graph, words, AgentMarks(edges=edges))
    return [f"<figure>{drawing}<figcaption>{escape(words)}.</figcaption></figure>"]


def _promises(trace: Trace) -> list[str]:
    """Of a safe run: how far each site's loss was above that of the better of its learners, and may be."""
    rows = sites_of(trace, site_names(trace)) if trace.agents > 1 else []
    if not rows:
        return []
    cells = [
        [Cell(row["name"]), Cell(f"{row['regret']:.1f}", "n"), Cell(f"{row['bound']:.1f}", "n")]
        for row in rows[:_MOST_AGENTS]
    ]
    title = "Loss above the better of alone and shared"
    return [heading(title), table(("site", "this run", "at most"), cells, label=title)]


def _bytes_by_agent(trace: Trace) -> np.ndarray:
    """What each agent sent: counted by edge where they differ, else its share."""
    if trace.edges is None or not len(trace.edges):
        return np.full(trace.agents, trace.bytes_sent / trace.agents)
    sent = np.zeros(trace.agents)
    np.add.at(sent, trace.edges[:, 0].astype(np.intp), trace.edges[:, 3])
    return sent


def _confusion(tally: Tally | None) -> list[str]:
    """True classes against predicted ones."""
    if tally is None or not isinstance(tally.evaluation, ClassEvaluation):
        return []
    names, counts = [str(c) for c in tally.evaluation.classes], tally.evaluation.confusion
    if len(names) > _MOST_CLASSES or not counts.any():
        return []
    rows = []
    for k, name in enumerate(names):
        row = [Cell(name)]
        row += [Cell(f"{counts[k, j]:,}", "n good" if j == k else "n") for j in range(len(names))]
        share = counts[k, k] / max(counts[k].sum(), 1)
        row.append(Cell(f"{100 * share:.1f} %", "n"))
        rows.append(row)
    header = ("true class", *(f"predicted {name}" for name in names), "right")
    title = "Which classes were confused"
    return [
        heading(title),
        table(header, rows, label=title),
        paragraph("“Right” is the share of a class's examples that were predicted right.", "soft"),
    ]


def _importance(importance: Sequence[tuple[str, float]]) -> list[str]:
    """The features with the largest weights, in units that can be compared."""
    if not importance:
        return []
    shown = sorted(importance, key=lambda pair: -abs(pair[1]))[:_MOST_FEATURES]
    most = max(abs(shown[0][1]), 1e-300)
    rows = [
        [
            Cell(name),
            Cell(f"{value:+.4g}".replace("-", "−"), "n"),
            Cell("█" * round(20 * abs(value) / most), "bar"),
        ]
        for name, value in shown
    ]
    return [
        heading("What matters most"),
        table(("feature", "importance", ""), rows, label="What matters most"),
        paragraph(
            "The change of the score when the feature grows by one standard deviation and the others stay "
            "as they are. Correlated features share their importance.",
            "soft",
        ),
    ]
