"""``ddol frontier``: what talking or asking less costs, policy by policy."""

from __future__ import annotations

import os
from contextlib import ExitStack
from html import escape

from ddol.algorithm import Algorithm
from ddol.cli.first_line import taken_for
from ddol.cli.outputs import check_outputs, command, write_json
from ddol.cli.table import say, show, warn
from ddol.job.algorithm import build, check_data
from ddol.job.options import DataOptions, LearnOptions, RunOptions
from ddol.job.pipeline import Pipeline
from ddol.lab.frontier import Frontier
from ddol.lab.frontier import frontier as run_frontier
from ddol.lab.page import figure, figures, heading, origin, paragraph, write_page
from ddol.streams.arrays import RowsStream
from ddol.streams.errors import DataError
from ddol.streams.rows import concatenate
from ddol.streams.stream import Stream
from ddol.study.progress import shown
from ddol.study.study import as_text


def frontier(
    data: DataOptions, learn: LearnOptions, run: RunOptions, against: str, out: str | None
) -> None:
    """Read the data, run every policy on them, and leave what was found."""
    check_outputs(out, run.report, run.json)
    algorithm, streams = _prepared(data, learn, run)
    with shown(False if run.quiet else None) as tell:
        try:
            found = run_frontier(algorithm, streams, against=against, seed=run.seed, on_run=tell)
        except ValueError as error:
            raise DataError(str(error)) from None
    _write(found, run, out)


def _prepared(
    data: DataOptions, learn: LearnOptions, run: RunOptions
) -> tuple[Algorithm, list[Stream]]:
    """The algorithm, and the data in memory: they are read once and learned many times."""
    algorithm = build(learn, run.seed)
    check_data(learn, data, algorithm)
    with ExitStack() as stack:
        prepared = Pipeline(data, algorithm, 1, run.seed, warn).prepare(stack)
        n_classes = len(prepared.encoding.classes or (0, 1))
        if n_classes > 2:
            algorithm = build(learn, run.seed, n_classes)
        streams: list[Stream] = [_in_memory(stream) for stream in prepared.streams]
        if not run.quiet:
            say(taken_for(prepared.encoding, algorithm.n_agents))
    return algorithm, streams


def _in_memory(stream: Stream) -> RowsStream:
    blocks = [rows for rows, _ in stream.read()]
    if not blocks:
        raise DataError(f"{stream.describe()}: found no example; expected at least one")
    return RowsStream(concatenate(blocks))


def _write(found: Frontier, run: RunOptions, out: str | None) -> None:
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
