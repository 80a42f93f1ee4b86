"""Metrics of nodes in the format of Prometheus."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

_SHOWN = {
    "predictions": ("counter", "Predictions made."),
    "examples": ("counter", "Examples learned."),
    "answers": ("counter", "Labels of predictions that were learned."),
    "duplicate": ("counter", "Labels that were given again."),
    "unknown": ("counter", "Labels of predictions that are not known."),
    "expired": ("counter", "Predictions that were dropped without a label."),
    "waiting": ("gauge", "Predictions that wait for their labels."),
    "error": ("gauge", "Progressive error; of a regression, the mean squared error."),
    "error_window": ("gauge", "The same over the last answers."),
    "messages_sent": ("counter", "Messages sent to peers."),
    "bytes_sent": ("counter", "Their bytes."),
    "features": ("gauge", "Features known."),
}
BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0)
"""Upper ends of the buckets of latency, in seconds."""


class Latency:
    """How long requests take, counted by bucket.

    Examples
    --------
    >>> latency = Latency()
    >>> latency.add(0.002)
    >>> latency.count
    1
    """

    def __init__(self) -> None:
        self.buckets = [0] * (len(BUCKETS) + 1)
        self.count, self.total = 0, 0.0

    def add(self, seconds: float) -> None:
        """One more request."""
        place = 0
        while place < len(BUCKETS) and seconds > BUCKETS[place]:
            place += 1
        self.buckets[place] += 1
        self.count += 1
        self.total += seconds

    def lines(self, name: str) -> Iterator[str]:
        """As Prometheus has it."""
        yield f"# HELP {name} Time of a request, in seconds."
        yield f"# TYPE {name} histogram"
        total = 0
        for end, count in zip((*BUCKETS, "+Inf"), self.buckets, strict=True):
            total += count
            yield f'{name}_bucket{{le="{end}"}} {total}'
        yield f"{name}_sum {self.total:.9g}"
        yield f"{name}_count {self.count}"


def exposition(
    states: Mapping[str, Mapping[str, Any]], codes: Mapping[int, int], latency: Latency
) -> str:
    """All figures as text.

    Examples
    --------
    >>> print(exposition({"default": {"examples": 3, "peers": []}}, {200: 5}, Latency())[:119])
    # HELP ddol_examples_total Examples learned.
    # TYPE ddol_examples_total counter
    ddol_examples_total{model="default"} 3
    """
    lines: list[str] = []
    for figure, (kind, said) in _SHOWN.items():
        found = [(f'model="{_quoted(m)}"', s[figure]) for m, s in states.items() if figure in s]
        if found:
            lines += _family(f"ddol_{figure}", kind, said, found)
    spent = [
        (f'model="{_quoted(m)}"', s["privacy"]["spent"])
        for m, s in states.items()
        if "privacy" in s
    ]
    if spent:
        said = "Epsilon of the privacy budget that is spent."
        lines += _family("ddol_privacy_epsilon_spent", "gauge", said, spent)
    lines += _peers(states)
    counted = [(f'code="{code}"', n) for code, n in sorted(codes.items())]
    lines += _family("ddol_http_requests", "counter", "Requests by status.", counted)
    lines += latency.lines("ddol_infer_seconds")
    return "\n".join(lines) + "\n"


def _peers(states: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    by_figure: dict[str, list[tuple[str, Any]]] = {"alive": [], "messages": [], "refused": []}
    for model, state in states.items():
        for peer in state["peers"]:
            labels = f'model="{_quoted(model)}",peer="{_quoted(peer["name"])}"'
            for figure, values in by_figure.items():
                values.append((labels, int(peer[figure])))
    said = {
        "alive": "Whether a peer is there.",
        "messages": "Messages of a peer that were taken.",
        "refused": "Messages of a peer that were refused.",
    }
    for figure, values in by_figure.items():
        kind = "gauge" if figure == "alive" else "counter"
        yield from _family(f"ddol_peer_{figure}", kind, said[figure], values)


def _family(name: str, kind: str, said: str, values: Iterable[tuple[str, Any]]) -> list[str]:
    name = f"{name}_total" if kind == "counter" else name
    rows = [f"{name}{{{labels}}} {value:.10g}" for labels, value in values]
    return [f"# HELP {name} {said}", f"# TYPE {name} {kind}", *rows]


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
