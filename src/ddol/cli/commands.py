"""The commands beside ``train`` and their options; whatever they do is imported only when they run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ddol.cli.blas import without_blas_threads
from ddol.cli.flags import Command, as_json, debug, flag, options_of
from ddol.job.job import Job
from ddol.job.options import AlgorithmOptions, DataOptions, NetworkOptions, RunOptions, agents_for

COUNT = click.IntRange(min=1)
COUNT_FROM_ZERO = click.IntRange(min=0)
NOT_NEGATIVE = click.FloatRange(min=0)


@click.command(cls=Command)
@click.argument("model")
@click.argument("data", nargs=-1, required=True)
@flag("--out FILE", "By default standard output; .csv, .tsv and .parquet are tables.")
@flag("--id NAME", "Column of identifiers, to be written beside the predictions.", name="id_")
@flag("--scores", "Scores instead of labels.", is_flag=True)
@flag(
    "--proba --probabilities",
    "The chance of every class, in the order of ddol inspect.",
    name="proba",
    is_flag=True,
)
@flag("--agent NAME", "Predict as this agent would: its name, or its number.")
@options_of(DataOptions, "format", "header", "zero_based", "on_bad_line")
@debug
def predict(
    model: str,
    out: str | None,
    id_: str | None,
    scores: bool,
    proba: bool,
    agent: str | None,
    **given: Any,
) -> None:
    """Predict with a model: one line for every example of DATA, as it comes.

    MODEL: a file that `ddol train --model` wrote. DATA: files to predict on; - for standard input.
    Columns are found by their names; a label may be there, and is not looked at.
    """
    without_blas_threads()
    from ddol.cli.predict import Wanted
    from ddol.cli.predict import predict as run_prediction

    if scores and proba:
        raise ValueError("--scores does not go with --proba; leave one out")
    what = "chances" if proba else "scores" if scores else "labels"
    run_prediction(model, DataOptions(**given), out, Wanted(what, agent), id_)


@click.command(cls=Command)
@click.argument("model")
@click.argument("data", nargs=-1, required=True)
@flag("--json OUT", "Figures as JSON; - for standard output.")
@options_of(DataOptions, "format", "header", "zero_based", "on_bad_line")
@debug
def evaluate(model: str, json: str | None, **given: Any) -> None:
    """How well a model predicts DATA: accuracy, log loss, AUC, confusion; R², MAE, RMSE.

    MODEL: a file that `ddol train --model` wrote. DATA: files with labels; those that are named like
    the agents are evaluated one by one, too, each with its agent's own weights.
    """
    without_blas_threads()
    from ddol.cli.evaluate import evaluate as run_evaluation

    run_evaluation(model, DataOptions(**given), json)


@click.command(cls=Command)
@click.argument("model")
@flag("--top n", "Largest weights to show.", type=COUNT_FROM_ZERO, default=10)
@as_json
@debug
def inspect(model: str, top: int, json: bool) -> None:
    """Show what a model is, its sizes, how it was trained, and its largest weights.

    MODEL: a file that `ddol train --model` wrote.
    """
    from ddol.cli.inspect import inspect as run_inspection

    run_inspection(model, top, json)


@click.command(cls=Command)
@click.argument("figures", metavar="[FIGURE]...", nargs=-1)
@flag("--data DIR", "Folder of the data sets; else DDOL_DATA, the cache, a download.")
@flag("--seeds n", "Orders of the examples.", type=COUNT, default=5)
@flag("--out DIR", "Page, figures and numbers.", default="reproduction")
@flag("--claims FILE", "The claims as Markdown, too.")
@flag("--list", "Name the figures and stop.", name="list_", is_flag=True)
@flag("--quiet -q", "No progress.", is_flag=True)
@debug
def reproduce(
    figures: tuple[str, ...],
    data: str | None,
    seeds: int,
    out: str,
    claims: str | None,
    list_: bool,
    quiet: bool,
) -> None:
    """Run the paper's experiments again and test its claims.

    FIGURE: names or numbers (see --list), or .toml files. All if none.
    """
    from ddol.cli.reproduce import list_figures
    from ddol.cli.reproduce import reproduce as run_reproduction

    if list_:
        list_figures()
    else:
        run_reproduction(figures, data, seeds, out, claims, quiet)


@click.command(cls=Command)
@click.argument("file", metavar="FILE.toml")
@flag("--out TABLE", "The table of runs: .csv or .parquet.")
@flag("--report OUT.html", "Chart, means and comparisons as one page.")
@flag("--workers n", "Processes; one for each core if not given.", type=COUNT)
@flag("--quiet -q", "No progress.", is_flag=True)
@debug
def sweep(file: str, out: str | None, report: str | None, workers: int | None, quiet: bool) -> None:
    """Run all combinations of some settings and seeds, and compare them in pairs.

    Finished runs are kept beside FILE.toml: a sweep that was stopped goes on.
    """
    from ddol.cli.sweep import sweep as run_sweep

    run_sweep(file, out, report, workers, quiet)


@click.command(cls=Command, algorithms=True)
@click.argument("data", nargs=-1)
@flag(
    "--against",
    "What to save: bytes sent, or answers asked for.",
    type=click.Choice(("bytes", "labels")),
    default="bytes",
)
@options_of(AlgorithmOptions, "algorithm")
@options_of(
    NetworkOptions,
    "agents",
    "topology",
    agents={"shown": "16, or one a file"},
    topology={"default": "ring"},
)
@options_of(RunOptions, "seed")
@options_of(
    DataOptions,
    "shuffle",
    "limit",
    "bits",
    "format",
    "label",
    "missing",
    "on_bad_line",
    "zero_based",
)
@flag("--out TABLE.csv", "The table of runs.")
@flag("--report OUT.html", "Charts and table as one page.")
@flag("--json OUT", "The runs as JSON; - for standard output.")
@flag("--quiet -q", "No progress.", is_flag=True)
@debug
def frontier(against: str, out: str | None, agents: int | None, **given: Any) -> None:
    """Error and regret against bytes sent, or answers asked for, over all policies.

    Fixed periods, or asking at random, are the line to beat; of_line is the share of its cost at the same
    error. DATA: files as for ddol train, which are kept in memory.
    """
    from ddol.cli.frontier import frontier as run_frontier

    given["agents"] = agents or agents_for(given["data"], alone=16)
    run_frontier(Job.of(**given), against, out)


@click.command(cls=Command, algorithms=True)
@click.argument("data", nargs=-1)
@options_of(AlgorithmOptions, "algorithm")
@options_of(
    NetworkOptions,
    "agents",
    "topology",
    "batch",
    "period",
    "teach",
    "query",
    agents={"shown": "4, or one a file"},
)
@options_of(RunOptions, "seed")
@options_of(
    DataOptions, "shuffle", "limit", "format", "label", "missing", "on_bad_line", "zero_based"
)
@as_json
@debug
@click.pass_context
def leaks(ctx: click.Context, json: bool, agents: int | None, **given: Any) -> None:
    """What leaves a site, and how many rows an attack reconstructs from its messages.

    DATA: files as for ddol train, or JOB.toml; options beside it override. The attack is run with the
    algorithm, batch, period and network given.
    """
    from ddol.cli.leaks import leaks as run_leaks

    if len(given["data"]) == 1 and given["data"][0].endswith(".toml"):
        typed = click.core.ParameterSource.COMMANDLINE
        chosen = {name: value for name, value in {**given, "agents": agents}.items()
                  if name != "data" and ctx.get_parameter_source(name) == typed}  # fmt: skip
        run_leaks(Job.read(given["data"][0]).but(**chosen), json)
        return
    given["agents"] = agents or agents_for(given["data"])
    run_leaks(Job.of(**given), json)


@click.command(cls=Command)
@click.argument("data", nargs=-1)
@flag(
    "--privacy SPEC",
    "Budget: epsilon:4, or epsilon:4,delta:1e-6; may be given several times.",
    multiple=True,
    default=("epsilon:1", "epsilon:4"),
)
@flag("--every n", "Examples of a site between two releases.", type=COUNT, default=50)
@flag(
    "--public n",
    "First rows, which scales are taken from; they count as public.",
    type=COUNT,
    default=1000,
)
@options_of(NetworkOptions, "agents", "topology", agents={"shown": "16, or one a file"})
@options_of(RunOptions, "seed")
@options_of(
    DataOptions, "shuffle", "limit", "format", "label", "missing", "on_bad_line", "zero_based"
)
@as_json
@debug
def privacy(
    privacy: tuple[str, ...], every: int, public: int, json: bool, agents: int | None, **given: Any
) -> None:
    """What differential privacy of all messages costs: errors of sites alone, of sharing, of both.

    DATA: files as for ddol train, with two classes.
    """
    from ddol.cli.privacy import privacy as run_privacy

    given["agents"] = agents or agents_for(given["data"], alone=16)
    run_privacy(Job.of(**given), privacy, every, public, json)


@click.command(cls=Command, algorithms=True)
@options_of(AlgorithmOptions, "algorithm", algorithm={"default": "dwm-i"})
@options_of(NetworkOptions, "agents", "topology", "period", "query", agents={"default": 4})
@flag("--experts P", "Experts.", type=COUNT)
@flag("--mistakes m", "The best expert's, at all agents.", type=NOT_NEGATIVE)
@flag("--rounds T", "Rounds.", type=COUNT)
@flag("--gradient G", "At least the norm of every subgradient.", type=NOT_NEGATIVE)
@flag("--divergence D", "At least ψ(w*, w) of all w; the domain's if known.", type=NOT_NEGATIVE)
@as_json
@debug
def bound(json: bool, **given: Any) -> None:
    """How many mistakes, or how much regret, N agents can have at most."""
    from ddol.cli.bound import Question
    from ddol.cli.bound import bound as run_bound

    asked = {name: given.pop(name) for name in Question.__dataclass_fields__}
    run_bound(Job.of(**given), Question(**asked), json)


@click.command(cls=Command)
@flag("--dim D", "Features.", type=COUNT, required=True)
@flag("--workers n", "Threads or processes.", type=COUNT, required=True)
@flag("--agents N", "Agents.", type=int, show_default="16 per worker")
@flag("--batch n", "Examples per agent and round.", type=COUNT, default=1)
@flag("--period n", "Rounds between two exchanges.", type=COUNT)
@flag("--nnz n", "Entries of an example.", type=COUNT, show_default="all")
@flag("--engine threads|mpi|ray", "What is measured.", default="mpi")
@flag("--latency µs", "Of a message, of your network.", type=NOT_NEGATIVE)
@flag("--bandwidth GB/s", "Of your network.", type=NOT_NEGATIVE)
@as_json
@debug
def plan(
    dim: int,
    workers: int,
    agents: int | None,
    batch: int,
    period: int | None,
    nnz: int | None,
    engine: str,
    latency: float | None,
    bandwidth: float | None,
    json: bool,
) -> None:
    """How many times faster n workers will be, and at which period."""
    from ddol.lab.plan import plan as run_plan
    from ddol.lab.plan import shown

    found = run_plan(
        dim,
        workers,
        period,
        agents=agents,
        batch=batch,
        nnz=nnz,
        engine=engine,
        latency=None if latency is None else latency * 1e-6,
        bandwidth=None if bandwidth is None else bandwidth * 1e9,
    )
    click.echo(shown(found, json))


@click.command(cls=Command)
@click.argument("job")
@click.argument("n", type=COUNT)
@debug
def scale(job: str, n: int) -> None:
    """Give a job that runs on Ray n actors.

    JOB: its name and cluster, as an asynchronous job (`ddol train --engine ray --schedule async`) says at
    its start. Agents move between two blocks, and no example is lost.
    """
    from ddol.engines.ray.wishes import scale as ask

    click.echo(ask(job, n))


@click.command(
    cls=Command, context_settings={"allow_extra_args": True, "ignore_unknown_options": True}
)
@click.pass_context
@flag("-n n", "Processes.", type=COUNT, default=2)
@flag("--hostfile FILE", "Hosts, one per line: node1 slots=8.", type=click.Path(path_type=Path))
@flag("--ft/--no-ft", "Go on when a process is lost.", default=True)
def launch(ctx: click.Context, n: int, hostfile: Path | None, ft: bool) -> None:
    """Train in n processes: ddol launch -n 4 train DATA … (extra mpi)."""
    from ddol.launch import launch as run_job

    ctx.exit(run_job(n, ctx.args, hostfile, ft))
