"""``ddol frontier``: error against bytes sent or labels asked for, policy by policy."""

from __future__ import annotations

import os
from contextlib import ExitStack
from html import escape

from ddol.algorithm import Algorithm
from ddol.cli.table import say, show, warn
from ddol.cli.training import command
from ddol.job.interface import Interface
from ddol.job.job import Job
from ddol.job.options import OutputOptions
from ddol.job.outputs import check_outputs, write_json
from ddol.job.prepare import prepare
from ddol.job.train import data_summary
from ddol.lab.frontier import Frontier
from ddol.lab.frontier import frontier as run_frontier
from ddol.lab.page import figure, figures, heading, origin, paragraph, write_page
from ddol.streams.arrays import RowsStream
from ddol.streams.errors import DataError
from ddol.streams.rows import concatenate
from ddol.streams.stream import Stream
from ddol.study.study import as_text
from ddol.study.sweep import shown


def frontier(job: Job, against: str, out: str | None) -> None:
    """Read the data, run every policy on them, and leave what was found."""
    output, seed = job.output, job.run.seed
    check_outputs(out, output.report, output.json)
    algorithm, streams = _prepared(job)
    with shown(False if output.quiet else None) as tell:
        try:
            found = run_frontier(algorithm, streams, against=against, seed=seed, on_run=tell)
        except ValueError as error:
            raise DataError(str(error)) from None
    _write(found, output, out)


def _prepared(job: Job) -> tuple[Algorithm, list[Stream]]:
    """The algorithm, and the data in memory: they are read once and learned many times."""
    with ExitStack() as stack:
        made = prepare(job, stack, Interface(say, warn))
        streams: list[Stream] = [_in_memory(stream) for stream in made.data.streams]
        if not job.output.quiet:
            say(data_summary(made.data.encoding, made.algorithm.n_agents))
    return made.algorithm, streams


def _in_memory(stream: Stream) -> RowsStream:
    blocks = [rows for rows, _ in stream.read()]
    if not blocks:
        raise DataError(f"{stream.describe()}: found no example; expected at least one")
    return RowsStream(concatenate(blocks))


def _write(found: Frontier, run: OutputOptions, out: str | None) -> None:
    if run.json != "-":
        show(as_text(found.rows))
    if run.json is not None:
        write_json(run.json, {"against": found.against, "line": found.line, "runs": found.rows})
    if out is not None:
        found.write(out)
    if run.report is not None:
        has_regret = any(row["regret"] == row["regret"] for row in found.rows)
        charts = [found.chart(), *([found.chart("regret")] if has_regret else [])]
        body = [
            f"<h1>{escape(charts[0].title)}</h1>",
            paragraph(f"{len(found.rows)} runs; the line to beat is {found.line}.", "lead"),
            figures([figure(chart) for chart in charts]),
            heading("All runs"),
            f"<pre>{escape(as_text(found.rows))}</pre>",
            *origin(command()),
        ]
        write_page(run.report, "frontier · ddol", body)
    if not run.quiet:
        kept = {"table": out, "figures": run.json, "report": run.report}
        lines = [f"{what}: {os.fspath(place)}" for what, place in kept.items() if place]
        if lines:
            say("; ".join(lines))
