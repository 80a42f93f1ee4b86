"""What a reproduction leaves: a page, its figures as SVG, its numbers as JSON, its claims as Markdown."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path
from typing import Any

from ddol.lab.experiments.claims import claims_of, which_scale
from ddol.lab.experiments.config import Figure
from ddol.lab.experiments.descent_claims import regrets, speed
from ddol.lab.experiments.evidence import HOLDS, NOT, PART, Claim, Results
from ddol.lab.page import (
    Cell,
    facts,
    figure,
    figures,
    heading,
    origin,
    paragraph,
    table,
    versions,
    write_page,
)
from ddol.measure.chart import Chart, draw
from ddol.storage import write_text

_PAPER = "Ouyang and Gray, Data-Distributed Weighted Majority and Online Mirror Descent (2011)"
_STYLES = {HOLDS: "good", PART: "fair", NOT: "bad"}


@dataclass(frozen=True)
class Reproduction:
    """The paper's figures as they came out here.

    Parameters
    ----------
    figures : tuple of Figure
    charts : dict
        Name of a figure → its panels by what tells them apart.
    claims : tuple of Claim
    scale : str
        Whether raw or scaled cod-rna matches the paper.
    speeds : list of dict
        Speed-up by number of agents.
    regrets : list of dict
        Social regrets beside their bounds.
    series : dict
        Name of a figure → its numbers.
    seeds : int
    seconds : float
        That all of it took.
    """

    figures: tuple[Figure, ...]
    charts: dict[str, dict[str, Chart]]
    claims: tuple[Claim, ...]
    scale: str
    speeds: list[dict[str, Any]]
    regrets: list[dict[str, Any]]
    series: dict[str, list[dict[str, Any]]]
    seeds: int
    seconds: float

    @classmethod
    def of(
        cls,
        figures: Sequence[Figure],
        panels: dict[str, dict[str, Chart]],
        series: dict[str, list[dict[str, Any]]],
        results: Results,
        seeds: int,
        seconds: float,
    ) -> Reproduction:
        """Test the claims on the results."""
        found = tuple(claims_of(results))
        return cls(
            tuple(figures),
            panels,
            found,
            which_scale(results),
            speed(results),
            regrets(results),
            series,
            seeds,
            seconds,
        )

    def write(self, folder: str | Path, command: str | None = None) -> Path:
        """Write the page, the figures and the numbers into a folder; the page's place is returned."""
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        for name, charts in self.charts.items():
            for label, chart in charts.items():
                ending = f"-{label.replace(' = ', '').replace(' ', '-')}" if len(charts) > 1 else ""
                write_text(place / f"{name}{ending}.svg", draw(chart, standalone=True) + "\n")
        write_text(place / "numbers.json", json.dumps(self.to_dict(), indent=1) + "\n")
        page = place / "report.html"
        write_page(page, "The paper's experiments again · ddol", self._body(command))
        return page

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain numbers, strings and lists."""
        return {
            "claims": [asdict(claim) for claim in self.claims],
            "cod-rna": self.scale,
            "speed": self.speeds,
            "regret": self.regrets,
            "figures": {
                f.name: {"number": f.number, "title": f.title, "series": self.series[f.name]}
                for f in self.figures
            },
            "seeds": self.seeds,
            "seconds": self.seconds,
            "versions": versions(),
        }

    def _body(self, command: str | None) -> list[str]:
        counts = Counter(claim.verdict for claim in self.claims)
        verdicts = [(str(counts[v]), v) for v in (HOLDS, PART, NOT)]
        return [
            "<h1>The paper’s experiments again</h1>",
            paragraph(
                f"{_PAPER}: {len(self.figures)} figures, {self.seeds} orders of the examples each, in "
                f"{self.seconds:.0f} s; bands span the orders (and the agents, where mistakes of an "
                "agent are shown).",
                "lead",
            ),
            facts([*verdicts, (str(len(self.claims)), "claims tested")]),
            heading("Claims"),
            _claims_table(self.claims),
            *([paragraph(self.scale)] if self.scale else []),
            heading("Figures"),
            *map(self._section, self.figures),
            *_regret_section(self.regrets),
            *_speed_section(self.speeds),
            *origin(command),
        ]

    def _section(self, one: Figure) -> str:
        panels = self.charts[one.name]
        parts = [figure(chart, label if len(panels) > 1 else "") for label, chart in panels.items()]
        words = ", ".join(f"{name} = {value:g}" for name, value in one.parameters.items())
        experts = f", {one.experts} decision stumps" if one.experts else ""
        top = f'<h3 id="{escape(one.name)}">Figure {one.number}. {escape(one.title)}</h3>'
        return (
            f'<section class="paper">{top}{paragraph(f"{words}{experts}; {one.name}.toml", "soft")}'
            f"{figures(parts)}</section>"
        )

    def markdown(self) -> str:
        """The claims as a Markdown table."""
        lines = ["| figure | the paper says | measured | verdict |", "|---|---|---|---|"]
        for claim in self.claims:
            cells = (claim.figures, f"“{claim.quote}”", claim.measured, f"**{claim.verdict}**")
            lines.append("| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |")
        return "\n".join(lines)


def _claims_table(claims: Sequence[Claim]) -> str:
    rows = [
        [
            Cell(claim.figures if claim.figures.startswith("table") else f"fig. {claim.figures}"),
            Cell(claim.quote, quote=True),
            Cell(claim.measured),
            Cell(claim.verdict, _STYLES[claim.verdict]),
        ]
        for claim in claims
    ]
    return table(("where", "the paper says", "measured here", "verdict"), rows, wide=True)


def _regret_section(found: Sequence[dict[str, Any]]) -> list[str]:
    if not found:
        return []
    rows = [
        [
            Cell(f"{row['data']}, {row['variant']}"),
            Cell(str(row["agents"]), "n"),
            Cell(f"{row['regret']:,.4g}", "n"),
            Cell(f"{row['bound']:,.4g}", "n"),
            Cell("kept", "good") if row["holds"] else Cell("EXCEEDED", "bad"),
            Cell(f"{row['best_objective']:.6g}", "n"),
            Cell(f"{row['gap']:.1g}", "n"),
        ]
        for row in found
    ]
    header = ("data", "agents", "social regret", "bound", "verdict", "best objective", "gap")
    words = (
        "DOGD against the best fixed weights in hindsight, found by liblinear; the objective of these "
        "and how far it is from the optimum at most are per example. First order of the examples."
    )
    return [heading("Regret"), paragraph(words), table(header, rows)]


def _speed_section(speeds: Sequence[dict[str, Any]]) -> list[str]:
    if not speeds:
        return []

    def shown(value: float | None, form: str) -> Cell:
        return Cell("–" if value is None else f"{value:{form}}", "n")

    rows = [
        [
            Cell(str(row["agents"]), "n"),
            shown(row["rounds"], ",d"),
            shown(row["rounds_to_goal"], ",d"),
            shown(row["speedup_in_rounds"], ".1f"),
            shown(row["seconds_on_one_core"], ".2f"),
            shown(row["seconds_on_all_cores"], ".2f"),
            shown(row["speedup_in_time"], ".2f"),
        ]
        for row in speeds
    ]
    header = (
        "agents",
        "rounds",
        "rounds to goal",
        "speed-up in rounds",
        "s, one core",
        "s, all cores",
        "speed-up in time",
    )
    words = (
        "DOEG on covtype. The goal is the average objective of one agent over the whole data; the "
        "speed-up is one agent’s ÷ N agents’, in rounds and, with the agents spread over as many cores "
        "of this machine as pay, in seconds. A dash: not reached, or not timed."
    )
    return [heading("Speed-up"), paragraph(words), table(header, rows)]
