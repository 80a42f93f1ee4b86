"""The commands and their options; whatever they do is imported only when they run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ddol.cli.errors import Commands
from ddol.cli.flags import Debug, Format, Label, ZeroBased
from ddol.cli.options import DataOptions, LearnOptions
from ddol.cli.train_command import train


def _show_version(wanted: bool) -> None:
    if wanted:
        from ddol import __version__

        typer.echo(f"ddol {__version__}")
        raise typer.Exit


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Data-distributed online learning: N agents on a graph, one pass, bounded memory.",
)


@app.callback()
def _main(
    version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_show_version, help="Show the version."),
    ] = False,
) -> None:
    pass


app.command()(train)


@app.command()
def predict(
    model: Annotated[str, typer.Argument(help="A file that `ddol train --model` wrote.")],
    data: Annotated[list[str], typer.Argument(help="Files to predict on; - for standard input.")],
    out: Annotated[
        str | None, typer.Option(metavar="FILE", help="By default standard output.")
    ] = None,
    scores: Annotated[bool, typer.Option("--scores", help="Scores instead of labels.")] = False,
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="The chance of every class, in rising order.")
    ] = False,
    format: Format = None,  # noqa: A002
    label: Label = None,
    zero_based: ZeroBased = False,
    debug: Debug = False,
) -> None:
    """Predict with a model: one line for every example of DATA."""
    from ddol.cli.predict import predict as run_prediction

    if scores and probabilities:
        raise ValueError("--scores does not go with --probabilities; leave one out")
    what = "probabilities" if probabilities else "scores" if scores else "labels"
    reading = DataOptions(tuple(data), format=format, label=label, zero_based=zero_based)
    run_prediction(model, reading, out, what)


@app.command()
def inspect(
    model: Annotated[str, typer.Argument(help="A file that `ddol train --model` wrote.")],
    top: Annotated[int, typer.Option(metavar="n", min=0, help="Largest weights to show.")] = 10,
    json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
    debug: Debug = False,
) -> None:
    """Show what a model is, its sizes, how it was trained, and its largest weights."""
    from ddol.cli.inspect import inspect as run_inspection

    run_inspection(model, top, json)


@app.command()
def reproduce(
    figures: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FIGURE]...",
            help="Names or numbers (see --list), or .toml files. All if none.",
        ),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            metavar="DIR", help="Folder of the data sets; else DDOL_DATA, the cache, a download."
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Orders of the examples.")] = 5,
    out: Annotated[
        str, typer.Option(metavar="DIR", help="Page, figures and numbers.")
    ] = "reproduction",
    claims: Annotated[
        str | None, typer.Option(metavar="FILE", help="The claims as Markdown, too.")
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="Name the figures and stop.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    debug: Debug = False,
) -> None:
    """Run the paper's experiments again and test its claims."""
    from ddol.cli.reproduce import list_figures
    from ddol.cli.reproduce import reproduce as run_reproduction

    if list_:
        list_figures()
    else:
        run_reproduction(figures or (), data, seeds, out, claims, quiet)


@app.command()
def bound(
    algorithm: Annotated[
        str, typer.Option(metavar="dwm-i|dwm-a|drwm|dogd|doeg|…", help="What agents learn with.")
    ] = "dwm-i",
    agents: Annotated[int, typer.Option(min=1, help="Number of agents.")] = 4,
    experts: Annotated[int | None, typer.Option(metavar="P", min=1, help="Experts.")] = None,
    mistakes: Annotated[
        float | None, typer.Option(metavar="m", min=0, help="The best expert's, at all agents.")
    ] = None,
    alpha: Annotated[
        float | None, typer.Option(help="Factor on a wrong expert's weight. [default: 0.9]")
    ] = None,
    rounds: Annotated[int | None, typer.Option(metavar="T", min=1, help="Rounds.")] = None,
    gradient: Annotated[
        float | None,
        typer.Option(metavar="G", min=0, help="At least the norm of every subgradient."),
    ] = None,
    divergence: Annotated[
        float | None,
        typer.Option(metavar="D", min=0, help="At least ψ(w*, w) of all w; the domain's if known."),
    ] = None,
    radius: Annotated[
        float | None, typer.Option(help="Radius of the ball that weights stay in.")
    ] = None,
    rate: Annotated[float | None, typer.Option(help="Scale of the steps.")] = None,
    topology: Annotated[str, typer.Option(help="Who talks to whom.")] = "complete",
    period: Annotated[int, typer.Option(min=1, help="Rounds between two exchanges.")] = 1,
    json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
    debug: Debug = False,
) -> None:
    """How many mistakes, or how much regret, N agents can have at most."""
    from ddol.cli.bound import Question
    from ddol.cli.bound import bound as run_bound

    learn = LearnOptions(
        algorithm, agents, topology, radius=radius, rate=rate, alpha=alpha, period=period
    )
    run_bound(learn, Question(experts, mistakes, rounds, gradient, divergence), json)


@app.command()
def plan(
    dim: Annotated[int, typer.Option(metavar="D", min=1, help="Features.")],
    workers: Annotated[int, typer.Option(metavar="n", min=1, help="Threads or processes.")],
    agents: Annotated[
        int | None, typer.Option(metavar="N", help="Agents. [default: 16 per worker]")
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="Examples per agent and round.")] = 1,
    period: Annotated[int | None, typer.Option(min=1, help="Rounds between two exchanges.")] = None,
    nnz: Annotated[
        int | None, typer.Option(min=1, help="Entries of an example. [default: all]")
    ] = None,
    engine: Annotated[str, typer.Option(metavar="threads|mpi", help="What is measured.")] = "mpi",
    latency: Annotated[
        float | None, typer.Option(metavar="µs", min=0, help="Of a message, of your network.")
    ] = None,
    bandwidth: Annotated[
        float | None, typer.Option(metavar="GB/s", min=0.0, help="Of your network.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
    debug: Debug = False,
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
    typer.echo(shown(found, json))


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def launch(
    ctx: typer.Context,
    n: Annotated[int, typer.Option("-n", min=1, help="Processes.")] = 2,
    hostfile: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Hosts, one per line: node1 slots=8.")
    ] = None,
    ft: Annotated[bool, typer.Option("--ft/--no-ft", help="Go on when a process is lost.")] = True,
) -> None:
    """Train in n processes: ddol launch -n 4 train DATA … (extra mpi)."""
    from ddol.launch import launch as run_job

    raise typer.Exit(run_job(n, ctx.args, hostfile, ft))
