"""Charts of a run: the same for reports, for `Trace.plot` and for the page of a run that goes on."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from ddol.measure.certificate import certificate_curve
from ddol.measure.chart import Chart, Line, draw_on, new_axes
from ddol.storage import written_beside

if TYPE_CHECKING:
    from ddol.measure.regret import Regret
    from ddol.trace import Trace

_FEW = 10
_MOST_WEIGHTS = 7
_BAND = "The band spans the best and the worst agent."


def mistakes_chart(trace: Trace) -> Chart:
    """Share of wrong predictions so far; the band spans the best and the worst agent."""
    curves = trace.curves
    share = 100 * curves.mistakes / np.maximum(curves.examples, 1)
    band = _spread(trace, 100 * curves.agent_mistakes)
    words = f"The share of mistakes goes from {share[0]:.1f} % to {share[-1]:.2f} % at the end."
    caption = _BAND if band[0] is not None else ""
    line = Line(f"{share[-1]:.2f} %", curves.examples, share, *band)
    return Chart(
        "Wrong predictions so far", f"{words} {caption}", _EXAMPLES, "mistakes so far, %", (line,),
        log_x=True, caption=caption,
    )  # fmt: skip


def loss_chart(trace: Trace) -> Chart:
    """Mean loss so far, with the penalty on the weights where there is one."""
    curves = trace.curves
    mean = curves.loss / np.maximum(curves.examples, 1)
    steep = bool(np.all(mean > 0)) and mean.max() > 20 * mean.min()
    band = _spread(trace, curves.agent_loss)
    return Chart(
        "Mean loss so far",
        f"From {mean[0]:.4g} to {mean[-1]:.4g} at the end.",
        _EXAMPLES,
        "mean loss so far",
        (Line(f"{mean[-1]:.4g}", curves.examples, mean, *band, colour=1),),
        log_x=True,
        log_y=steep,
        caption="The loss of each example before it was learned from, with any penalty on the weights."
        + (f" {_BAND}" if band[0] is not None else ""),
    )


def consensus_chart(trace: Trace) -> Chart:
    """How far the agents disagree."""
    known = np.isfinite(trace.curves.consensus)
    distance = trace.curves.consensus[known]
    return Chart(
        "Consensus over rounds",
        f"The root mean square distance from the mean weights ends at {distance[-1]:.3g}.",
        "rounds",
        "‖wᵢ − mean‖",
        (Line(f"{distance[-1]:.3g}", trace.curves.rounds[known], distance, colour=3),),
        log_x=True,
        log_y=bool(np.all(distance > 0)),
        caption="√(mean over agents of ‖wᵢ − w̄‖²): 0 when all agree.",
    )


def traffic_chart(trace: Trace) -> Chart:
    """Bytes sent between neighbours."""
    sent = trace.curves.rounds / max(trace.rounds, 1) * trace.bytes_sent / 1e6
    each = bytes_in_words(trace.bytes_sent / max(trace.messages, 1))
    period = trace.algorithm.period
    often = "to every neighbour every round" if period == 1 else f"every {period} rounds"
    if trace.moments:
        often = "drawn as if they had been sent evenly"
    return Chart(
        "Sent between agents",
        f"{trace.messages:,} messages of {each} by the end.",
        "rounds",
        "MB",
        (Line(bytes_in_words(trace.bytes_sent), trace.curves.rounds, sent, colour=4),),
        caption=f"{trace.messages:,} messages of {each}, {often}.",
    )


def edges_chart(trace: Trace) -> Chart:
    """Messages of every edge, the busiest first."""
    sent = np.sort([messages for messages, _ in trace.traffic.values()])[::-1]
    if not len(sent):
        raise ValueError(
            "no message was sent, so there is no traffic to show; run with at least 2 agents"
        )
    (busiest, (most, _)) = max(trace.traffic.items(), key=lambda edge: edge[1])
    places = np.arange(1, len(sent) + 1)
    words = f"{len(sent):,} edges carried {sent[-1]:,} to {most:,} messages"
    return Chart(
        "Messages by edge",
        f"{words}.",
        "edges, the busiest first",
        "messages",
        (Line(f"{sent.sum():,}", places, sent, colour=4),),
        caption=f"{words}; the busiest is from agent {busiest[0]} to {busiest[1]}.",
    )


def bound_chart(trace: Trace) -> Chart:
    """Mistakes of all agents beside the bound of the theorem that covers the run."""
    found = trace.bound_curves()
    if not found:
        raise ValueError(f"no theorem on mistakes holds for {trace.name} on {trace.topology}")
    name, bound = next(iter(found.items()))
    facts = trace.bounds[name]
    rounds = trace.curves.rounds
    return Chart(
        f"Mistakes against the {name} bound",
        f"All agents together made {facts['observed']:,.0f} mistakes; the theorem allows "
        f"{facts['value']:,.1f}.",
        "rounds",
        "mistakes of all agents",
        (
            Line("bound", rounds, bound, colour="b", dashed=True),
            Line("observed", rounds, trace.curves.mistakes),
        ),
        caption="The bound moves with the mistakes of the best expert so far.",
    )


def regret_chart(regret: Regret) -> Chart:
    """Social regret, beside its bound where there is one."""
    lines = [Line("regret", regret.rounds, regret.social_curve, colour=2)]
    if regret.bound_curve.size:
        lines.append(Line("bound", regret.rounds, regret.bound_curve, colour="b", dashed=True))
    gap, method = regret.comparator.gap, regret.comparator.method
    known = f"optimality gap at most {gap:.2g}" if np.isfinite(gap) else "optimality gap unknown"
    return Chart(
        "Social regret",
        f"The agents paid {regret.social:,.4g} more than the best fixed weights ({method}).",
        "rounds",
        "regret of all agents",
        tuple(lines),
        caption=f"Against the best weights in hindsight ({method}; {known}).",
    )


def certificate_chart(trace: Trace) -> Chart:
    """The regret certificate: what one serial learner is promised, and the price of being distributed."""
    found = certificate_curve(trace.moments)
    if not len(found["examples"]):
        raise ValueError(
            f"no certificate was kept of this run of {trace.name}; one needs a schedule, such as async, or "
            "--certificate"
        )
    x, serial, drift = found["examples"], found["serial"], found["drift"]
    return Chart(
        "Regret certificate",
        f"The regret of all agents is at most {serial[-1] + drift[-1]:,.4g}: {serial[-1]:,.4g} as for one "
        f"serial learner, and {drift[-1]:,.4g} of drift.",
        _EXAMPLES,
        "regret at most",
        (
            Line("certificate", x, serial + drift, colour="b", dashed=True),
            Line("serial", x, serial, colour=2),
            Line("drift", x, drift, colour=3),
        ),
        caption=f"Against {trace.certificate.comparator}. Drift is the price of being distributed.",
    )


def drift_chart(trace: Trace) -> Chart:
    """The drift of every agent over time, of the few with the most and the least."""
    found = certificate_curve(trace.moments)
    if not len(found["examples"]):
        raise ValueError(
            f"no certificate was kept of this run of {trace.name}; run with certificate=True or a schedule"
        )
    drift = found["agent_drift"]
    order = np.argsort(-drift[-1], kind="stable")
    shown = order if len(order) <= 4 else np.concatenate([order[:2], order[-2:]])
    lines = [
        Line(f"agent {i}", found["examples"], drift[:, i], colour=k) for k, i in enumerate(shown)
    ]
    return Chart(
        "Drift of agents",
        f"From {drift[-1].min():,.4g} to {drift[-1].max():,.4g}, {drift[-1].sum():,.4g} together.",
        _EXAMPLES,
        "drift so far",
        tuple(lines),
        from_zero=False,
        caption="What it cost that an agent's weights were not those of one learner that sees everything.",
    )


def weights_chart(trace: Trace) -> Chart:
    """The largest weights over time, averaged over the agents, of the first output."""
    history = trace.weight_history
    if history is None:
        raise ValueError("no weights were recorded; run with record_weights=k")
    mean = history.weights.mean(axis=1)[:, 0]
    largest = np.argsort(-np.abs(mean[-1]), kind="stable")[:_MOST_WEIGHTS]
    lines = [Line(f"w{j}", history.rounds, mean[:, j], colour=k) for k, j in enumerate(largest)]
    facts = ", ".join(f"w{j} {mean[-1, j]:.3g}" for j in largest)
    words = f"At the end: {facts}."
    return Chart("Weights over time", words, "rounds", "weight", tuple(lines), from_zero=False)


CHARTS: dict[str, Callable[[Trace], Chart]] = {
    "mistakes": mistakes_chart,
    "loss": loss_chart,
    "consensus": consensus_chart,
    "traffic": traffic_chart,
    "edges": edges_chart,
    "bound": bound_chart,
    "certificate": certificate_chart,
    "drift": drift_chart,
    "weights": weights_chart,
}
_REGRET = "regret"
_EXAMPLES = "examples seen by all agents"


def chart_of(trace: Trace, what: str) -> Chart:
    """A chart of a run by name.

    Examples
    --------
    >>> import ddol
    >>> trace = ddol.run(ddol.dogd(), (np.eye(4), [1, -1, 1, -1]), 2)
    >>> chart_of(trace, "loss").y_label
    'mean loss so far'
    """
    if what not in CHARTS:
        raise ValueError(f"`what` is {what!r}; use one of {', '.join([*CHARTS, _REGRET])}")
    return CHARTS[what](trace)


def _spread(trace: Trace, counts: np.ndarray) -> tuple[Any, Any]:
    """Least and largest value over the agents, per example of each; nothing for many agents.

    The first few examples, which tell nothing yet, have no band.
    """
    if counts.shape[1] < 2:
        return None, None
    seen = trace.curves.agent_examples
    each = np.where(seen >= _FEW, counts / np.maximum(seen, 1), np.nan)
    known = np.isfinite(each).any(axis=1)
    least, most = np.full(len(each), np.nan), np.full(len(each), np.nan)
    least[known], most[known] = np.nanmin(each[known], axis=1), np.nanmax(each[known], axis=1)
    return least, most


def bytes_in_words(count: float) -> str:
    """A number of bytes with its unit.

    Examples
    --------
    >>> bytes_in_words(1_234_567)
    '1.23 MB'
    """
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:,.3g} {unit}"
        count /= 1000
    return f"{count:,.3g} TB"


def plot(trace: Trace, axes: Any, what: str, against: str | None, data: Any) -> Any:
    """A chart of a run on matplotlib's axes; see `Trace.plot`."""
    chart = _regret_chart_of(trace, data) if what == _REGRET else chart_of(trace, what)
    curves = trace.curves
    places = {"examples": (_EXAMPLES, curves.examples), "rounds": ("rounds", curves.rounds)}
    if against is not None:
        if against not in places:
            raise ValueError(f"`against` is {against!r}; use one of {', '.join(places)}")
        own = next((values for label, values in places.values() if label == chart.x_label), None)
        if own is None:
            raise ValueError(f"`against` is {against!r}; {what} has {chart.x_label!r} there")
        label, values = places[against]
        lines = tuple(replace(line, x=np.interp(line.x, own, values)) for line in chart.lines)
        chart = replace(chart, x_label=label, lines=lines)
    agents = "1 agent" if trace.agents == 1 else f"{trace.agents} agents, {trace.topology}"
    name = None if len(chart.lines) > 1 else f"{trace.name}, {agents}"
    return draw_on(chart, new_axes() if axes is None else axes, name)


def _regret_chart_of(trace: Trace, data: Any) -> Chart:
    from ddol.measure.regret import regret

    if data is None:
        raise ValueError(
            "regret is against the best weights in hindsight, which need the data of the run: data=(X, y)"
        )
    found = regret(trace, data)
    if len(found.social_curve) < 2:
        raise ValueError(f"the regret of this run is known at its end only, {found.social:.6g}")
    return regret_chart(found)


def to_frame(trace: Trace, library: str) -> Any:
    """Curves as a frame; see `Trace.to_frame`."""
    curves = trace.curves
    seen = np.maximum(curves.examples, 1)
    columns = {
        "rounds": curves.rounds,
        "examples": curves.examples,
        "mistakes": curves.mistakes,
        "error": curves.mistakes / seen,
        "loss": curves.loss,
        "mean_loss": curves.loss / seen,
        "worst": curves.worst,
        "consensus": curves.consensus,
        **{f"bound {name}": values for name, values in trace.bound_curves().items()},
    }
    return frame_of(columns, library)


LIBRARIES = ("pandas", "polars")


def frame_of(columns: Mapping[str, Sequence[Any]], library: str) -> Any:
    """A DataFrame of pandas or polars.

    Examples
    --------
    >>> frame_of({"a": [1, 2]}, "pandas").shape
    (2, 1)
    """
    if library not in LIBRARIES:
        raise ValueError(f"`library` is {library!r}; use {' or '.join(LIBRARIES)}")
    try:
        frames = import_module(library)
    except ImportError as error:
        raise ImportError(f"install {library} for frames: pip install {library}") from error
    return frames.DataFrame(columns)


def columns_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Columns by name; None where a row has no such figure.

    Examples
    --------
    >>> columns_of([{"a": 1}, {"a": 2, "b": 3}])
    {'a': [1, 2], 'b': [None, 3]}
    """
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def write_table(path: str | os.PathLike[str], rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows as CSV, or as Parquet where the name ends so (extra ``tables``)."""
    with written_beside(str(path)) as beside:
        if str(path).endswith(".parquet"):
            frame_of(columns_of(rows), "polars").write_parquet(beside)
            return
        with beside.open("w", newline="", encoding="utf-8") as file:
            lines = csv.DictWriter(file, list(columns_of(rows)))
            lines.writeheader()
            lines.writerows(rows)
