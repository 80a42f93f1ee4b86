"""The commands and their options; whatever they do is imported only when they run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ddol.cli.errors import Commands
from ddol.cli.flags import (
    COUNT,
    COUNT_FROM_ZERO,
    NOT_NEGATIVE,
    as_json,
    check_bad_line,
    debug,
    format_,
    label,
    missing,
    on_bad_line,
    zero_based,
)
from ddol.cli.options import DataOptions, LearnOptions, RunOptions, part_of
from ddol.cli.train_command import train
from ddol.version import __version__


@click.group(
    cls=Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
)
@click.version_option(__version__, message="ddol %(version)s", help="Show the version.")
@click.pass_context
def app(ctx: click.Context) -> None:
    """Data-distributed online learning: N agents on a graph, one pass, bounded memory."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
        ctx.exit(2)


app.add_command(train)


@app.command()
@click.argument("model")
@click.argument("data", nargs=-1, required=True)
@click.option("--out", metavar="FILE", help="By default standard output.")
@click.option("--scores", is_flag=True, help="Scores instead of labels.")
@click.option(
    "--proba",
    "--probabilities",
    "proba",
    is_flag=True,
    help="The chance of every class, in the order of ddol inspect.",
)
@click.option(
    "--agent", metavar="NAME", help="Predict as this agent would: its name, or its number."
)
@format_
@zero_based
@on_bad_line
@debug
def predict(
    model: str,
    data: tuple[str, ...],
    out: str | None,
    scores: bool,
    proba: bool,
    agent: str | None,
    format: str | None,  # noqa: A002
    zero_based: bool,
    on_bad_line: str,
) -> None:
    """Predict with a model: one line for every example of DATA, as it comes.

    MODEL: a file that `ddol train --model` wrote. DATA: files to predict on; - for standard input.
    Columns are found by their names; a label may be there, and is not looked at.
    """
    from ddol.cli.predict import Wanted
    from ddol.cli.predict import predict as run_prediction

    check_bad_line(on_bad_line)
    if scores and proba:
        raise ValueError("--scores does not go with --proba; leave one out")
    what = "chances" if proba else "scores" if scores else "labels"
    reading = DataOptions(data, format=format, zero_based=zero_based, on_bad_line=on_bad_line)
    run_prediction(model, reading, out, Wanted(what, agent))


@app.command()
@click.argument("model")
@click.argument("data", nargs=-1, required=True)
@click.option("--json", metavar="OUT", help="Figures as JSON; - for standard output.")
@format_
@zero_based
@on_bad_line
@debug
def evaluate(
    model: str,
    data: tuple[str, ...],
    json: str | None,
    format: str | None,  # noqa: A002
    zero_based: bool,
    on_bad_line: str,
) -> None:
    """How well a model predicts DATA: accuracy, log loss, AUC, confusion; R², MAE, RMSE.

    MODEL: a file that `ddol train --model` wrote. DATA: files with labels; those that are named like
    the agents are evaluated one by one, too, each with its agent's own weights.
    """
    from ddol.cli.evaluate import evaluate as run_evaluation

    check_bad_line(on_bad_line)
    reading = DataOptions(data, format=format, zero_based=zero_based, on_bad_line=on_bad_line)
    run_evaluation(model, reading, json)


@app.command()
@click.argument("model")
@click.option(
    "--top", metavar="n", type=COUNT_FROM_ZERO, default=10, help="Largest weights to show."
)
@as_json
@debug
def inspect(model: str, top: int, json: bool) -> None:
    """Show what a model is, its sizes, how it was trained, and its largest weights.

    MODEL: a file that `ddol train --model` wrote.
    """
    from ddol.cli.inspect import inspect as run_inspection

    run_inspection(model, top, json)


@app.command()
@click.argument("figures", metavar="[FIGURE]...", nargs=-1)
@click.option(
    "--data", metavar="DIR", help="Folder of the data sets; else DDOL_DATA, the cache, a download."
)
@click.option("--seeds", metavar="n", type=COUNT, default=5, help="Orders of the examples.")
@click.option("--out", metavar="DIR", default="reproduction", help="Page, figures and numbers.")
@click.option("--claims", metavar="FILE", help="The claims as Markdown, too.")
@click.option("--list", "list_", is_flag=True, help="Name the figures and stop.")
@click.option("--quiet", "-q", is_flag=True, help="No progress.")
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


@app.command()
@click.argument("file", metavar="FILE.toml")
@click.option("--out", metavar="TABLE", help="The table of runs: .csv or .parquet.")
@click.option("--report", metavar="OUT.html", help="Chart, means and comparisons as one page.")
@click.option(
    "--workers", metavar="n", type=COUNT, help="Processes; one for each core if not given."
)
@click.option("--quiet", "-q", is_flag=True, help="No progress.")
@debug
def sweep(file: str, out: str | None, report: str | None, workers: int | None, quiet: bool) -> None:
    """Run all combinations of some settings and seeds, and compare them in pairs.

    Finished runs are kept beside FILE.toml: a sweep that was stopped goes on.
    """
    from ddol.cli.sweep import sweep as run_sweep

    run_sweep(file, out, report, workers, quiet)


@app.command()
@click.argument("data", nargs=-1)
@click.option(
    "--against",
    type=click.Choice(("bytes", "labels")),
    default="bytes",
    help="What to save: bytes sent, or answers asked for.",
)
@click.option("--algorithm", metavar="NAME", default="adaptive", help="What agents learn with.")
@click.option("--loss", metavar="NAME", show_default="the algorithm's", help="As in ddol train.")
@click.option("--rate", type=float, show_default="the algorithm's", help="Scale of the steps.")
@click.option(
    "--agents", metavar="N", type=COUNT, show_default="16, or one a file", help="Number of agents."
)
@click.option("--topology", metavar="NAME", default="ring", help="Who talks to whom.")
@click.option(
    "--seed", type=int, default=0, help="Of the order, of what is drawn, of random graphs."
)
@click.option("--shuffle", is_flag=True, help="Put the examples into another order first.")
@click.option("--limit", metavar="n", type=COUNT, help="Examples to read at most.")
@click.option("--bits", metavar="b", type=COUNT, help="Hash features into 2^b columns.")
@format_
@label
@missing
@on_bad_line
@zero_based
@click.option("--out", metavar="TABLE.csv", help="The table of runs.")
@click.option("--report", metavar="OUT.html", help="Charts and table as one page.")
@click.option("--json", metavar="OUT", help="The runs as JSON; - for standard output.")
@click.option("--quiet", "-q", is_flag=True, help="No progress.")
@debug
def frontier(against: str, out: str | None, agents: int | None, **given: Any) -> None:
    """Error and regret against bytes sent, or answers asked for, over all policies.

    Fixed periods, or asking at random, are the line to beat; of_line is the share of its cost at the same
    error. DATA: files as for ddol train, which are kept in memory.
    """
    from ddol.cli.frontier import frontier as run_frontier

    several = len(given["data"]) > 1
    given["agents"] = agents or (len(given["data"]) if several else 16)

    data, learn = part_of(DataOptions, given), part_of(LearnOptions, given)
    run_frontier(data, learn, part_of(RunOptions, given), against, out)


@app.command()
@click.option(
    "--algorithm",
    metavar="NAME",
    default="dwm-i",
    help="What agents learn with: dwm-i, dwm-a, drwm, dogd, doeg, …",
)
@click.option("--agents", metavar="N", type=COUNT, default=4, help="Number of agents.")
@click.option("--experts", metavar="P", type=COUNT, help="Experts.")
@click.option(
    "--mistakes", metavar="m", type=NOT_NEGATIVE, help="The best expert's, at all agents."
)
@click.option("--alpha", type=float, show_default="0.9", help="Factor on a wrong expert's weight.")
@click.option("--rounds", metavar="T", type=COUNT, help="Rounds.")
@click.option(
    "--gradient", metavar="G", type=NOT_NEGATIVE, help="At least the norm of every subgradient."
)
@click.option(
    "--divergence",
    metavar="D",
    type=NOT_NEGATIVE,
    help="At least ψ(w*, w) of all w; the domain's if known.",
)
@click.option("--radius", type=float, help="Radius of the ball that weights stay in.")
@click.option("--rate", type=float, help="Scale of the steps.")
@click.option("--topology", metavar="NAME", default="complete", help="Who talks to whom.")
@click.option("--period", metavar="n", type=COUNT, default=1, help="Rounds between two exchanges.")
@click.option(
    "--query",
    metavar="s",
    show_default="all answers",
    help="Which answers are asked for: experts, random:0.2.",
)
@as_json
@debug
def bound(json: bool, **given: Any) -> None:
    """How many mistakes, or how much regret, N agents can have at most."""
    from ddol.cli.bound import Question
    from ddol.cli.bound import bound as run_bound

    run_bound(part_of(LearnOptions, given), part_of(Question, given), json)


@app.command()
@click.option("--dim", metavar="D", type=COUNT, required=True, help="Features.")
@click.option("--workers", metavar="n", type=COUNT, required=True, help="Threads or processes.")
@click.option("--agents", metavar="N", type=int, show_default="16 per worker", help="Agents.")
@click.option("--batch", metavar="n", type=COUNT, default=1, help="Examples per agent and round.")
@click.option("--period", metavar="n", type=COUNT, help="Rounds between two exchanges.")
@click.option("--nnz", metavar="n", type=COUNT, show_default="all", help="Entries of an example.")
@click.option("--engine", metavar="threads|mpi|ray", default="mpi", help="What is measured.")
@click.option("--latency", metavar="µs", type=NOT_NEGATIVE, help="Of a message, of your network.")
@click.option("--bandwidth", metavar="GB/s", type=NOT_NEGATIVE, help="Of your network.")
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
    from ddol.plan import plan as run_plan
    from ddol.plan import shown

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


@app.command()
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


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
@click.pass_context
@click.option("-n", metavar="n", type=COUNT, default=2, help="Processes.")
@click.option(
    "--hostfile",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Hosts, one per line: node1 slots=8.",
)
@click.option("--ft/--no-ft", default=True, help="Go on when a process is lost.")
def launch(ctx: click.Context, n: int, hostfile: Path | None, ft: bool) -> None:
    """Train in n processes: ddol launch -n 4 train DATA … (extra mpi)."""
    from ddol.launch import launch as run_job

    ctx.exit(run_job(n, ctx.args, hostfile, ft))
