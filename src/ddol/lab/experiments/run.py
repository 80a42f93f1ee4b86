"""All of it: figures chosen, runs played, claims tested."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from ddol.lab.experiments.charts import charts_of, series
from ddol.lab.experiments.config import Figure, choose
from ddol.lab.experiments.evidence import Results
from ddol.lab.experiments.play import Laboratory
from ddol.lab.experiments.sources import Say
from ddol.lab.experiments.write import Reproduction


def reproduce(
    names: Sequence[str] = (),
    data: str | None = None,
    seeds: int = 5,
    say: Say = lambda text: None,
    progress: Callable[[Figure, int, int], None] = lambda figure, done, total: None,
) -> Reproduction:
    """Run the paper's experiments again.

    Parameters
    ----------
    names : sequence of str
        Figures by name or number; all by default.
    data : str, optional
        Folder with the data sets; else DDOL_DATA, the cache, or a download.
    seeds : int
        Orders of the examples.
    say : function of one string
        Called with lines about downloads and the like.
    progress : function of the figure, runs done and runs in all
        Called after every run.
    """
    figures = choose(names)
    began = time.perf_counter()
    laboratory = Laboratory(data, seeds, say)
    total, done = laboratory.runs(figures), 0
    for figure in figures:

        def after_run(figure: Figure = figure) -> None:
            nonlocal done
            done += 1
            progress(figure, done, total)

        laboratory.after_run = after_run
        laboratory.play([figure])
    played = laboratory.played
    results = Results(played, laboratory.speeds, laboratory.facts, laboratory.regrets)
    return Reproduction.of(
        figures,
        {figure.name: charts_of(figure, played) for figure in figures},
        {figure.name: series(figure, played) for figure in figures},
        results,
        seeds,
        time.perf_counter() - began,
    )
