"""The figures of a run in Prometheus' text format."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ddol.lab.live.watched import WatchedRun
from ddol.version import __version__

_MOST_AGENTS = 1024


def metrics(watched: WatchedRun) -> str:
    """All figures, as ``/metrics`` serves them.

    Examples
    --------
    >>> import ddol
    >>> print(metrics(WatchedRun(ddol.dogd(), data="points.csv")))  # doctest: +ELLIPSIS
    # HELP ddol_run_info What is run.
    # TYPE ddol_run_info gauge
    ddol_run_info{algorithm="dogd",data="points.csv",version="..."} 1
    <BLANKLINE>
    """
    about = {"algorithm": watched.algorithm.name, "data": watched.data, "version": __version__}
    lines = [*_metric("run_info", "gauge", "What is run.", [(about, 1)])]
    last, trace = watched.last, watched.trace()
    if last is None or trace is None:
        return "\n".join(lines) + "\n"
    single = [
        ("rounds_total", "counter", "Rounds played.", last.rounds),
        ("messages_total", "counter", "Messages between agents.", last.messages),
        ("sent_bytes_total", "counter", "Bytes between agents.", last.bytes_sent),
        ("run_seconds", "gauge", "Time since the beginning.", last.seconds),
        ("consensus_distance", "gauge", "Distance from the mean weights.", last.consensus),
        ("ended", "gauge", "Whether the run has ended.", int(watched.ended)),
    ]
    if watched.share is not None:
        single.append(("done_ratio", "gauge", "Share of the data that was read.", watched.share))
    for name, kind, words, value in single:
        lines += _metric(name, kind, words, [({}, value)])
    for name, words, values in (
        ("examples_total", "Examples seen.", last.agent_examples),
        ("mistakes_total", "Wrong predictions.", last.mistakes),
        ("loss_total", "Objective, added up.", last.loss),
    ):
        each = [({"agent": str(i)}, value) for i, value in enumerate(values[:_MOST_AGENTS])]
        lines += _metric(name, "counter", words, each)
    bounds = [({"theorem": name}, facts["value"]) for name, facts in trace.bounds.items()]
    lines += _metric("mistakes_bound", "gauge", "Mistakes that a theorem allows.", bounds)
    made = trace.binding_certificate
    if made is not None:
        allowed: list = [({}, made.total)]
        lines += _metric("regret_bound", "gauge", "Regret that the certificate allows.", allowed)
    return "\n".join(lines) + "\n"


def _metric(name: str, kind: str, words: str, values: list) -> Iterator[str]:
    if values:
        yield f"# HELP ddol_{name} {words}"
        yield f"# TYPE ddol_{name} {kind}"
    for labels, value in values:
        facts = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
        yield f"ddol_{name}{f'{{{facts}}}' if facts else ''} {_number(value)}"


def _number(value: float) -> str:
    """As the format has it.

    Examples
    --------
    >>> _number(3), _number(0.1), _number(float("nan")), _number(float("-inf"))
    ('3', '0.1', 'NaN', '-Inf')
    """
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) else repr(float(value))


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
