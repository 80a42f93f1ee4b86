"""``ddol sweep``: many runs from one small file, their table, their chart, their comparisons."""

from __future__ import annotations

from html import escape

from ddol.cli.table import say, show
from ddol.cli.training import command
from ddol.job.outputs import check_outputs
from ddol.lab.page import figure, figures, heading, origin, paragraph, write_page
from ddol.streams.errors import DataError
from ddol.study.config import SweepFile, read_sweep
from ddol.study.study import Study, as_text
from ddol.study.sweep import sweep as run_sweep


def sweep(path: str, out: str | None, report: str | None, workers: int | None, quiet: bool) -> None:
    """Run what a file asks for, and leave what was found."""
    check_outputs(out, report)
    asked = read_sweep(path)
    folder = asked.path.with_suffix(".runs")
    try:
        found = run_sweep(
            asked.axes,
            asked.job,
            workers=workers,
            folder=folder,
            progress=False if quiet else None,
        )
        lines = [str(line) for line in _comparisons(asked, found)]
        chart = found.chart(asked.show, asked.against)
    except (ValueError, TypeError) as error:
        raise DataError(f"{path}: {error}") from None
    for text in (str(found), *lines):
        show(text)
    if out is not None:
        found.write(out)
    if report is not None:
        data = ", ".join(asked.job.data.data) or "built-in data"
        body = [
            f"<h1>{escape(asked.path.stem)}</h1>",
            paragraph(
                f"{len(found.rows)} runs on {data}.",
                "lead",
            ),
            figures([figure(chart)]),
            heading("Means over the seeds"),
            f"<pre>{escape(as_text(found.summary()))}</pre>",
            *([heading("In pairs"), *map(paragraph, lines)] if lines else []),
            *origin(command()),
        ]
        write_page(report, f"{asked.path.stem} · ddol", body)
    if not quiet:
        kept = {"table": out, "report": report, "runs": str(folder)}
        say("; ".join(f"{what}: {place}" for what, place in kept.items() if place is not None))


def _comparisons(asked: SweepFile, found: Study) -> list:
    axis = asked.compare or next(iter(found.varied), None)
    return [] if axis is None else found.compare(axis, asked.show)
