"""The commands beside ``train`` and their options; what they do is imported only when they run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ddol.cli.flags import (
    COUNT,
    COUNT_FROM_ZERO,
    NOT_NEGATIVE,
    Command,
    as_json,
    debug,
    flag,
    job_from,
    options_of,
    typed,
    without_blas_threads,
)
from ddol.job.job import Job
from ddol.job.options import AlgorithmOptions, DataOptions, NetworkOptions, RunOptions, agents_for

_READING = ("format", "header", "zero_based", "on_bad_line", "limit")
_STUDIED = ("shuffle", *_READING, "label", "missing", "bits")
_QUIET = flag("--quiet -q", "Show no progress.", is_flag=True)
_AGENT = flag(
    "--agent NAME", "Predict as this agent: its name, its number, or shared for a new site."
)


@click.command(cls=Command)
@click.argument("model")
@click.argument("data", nargs=-1)
@flag(
    "--out FILE",
    "Write the predictions here instead of to standard output; .csv, .tsv and .parquet are tables.",
)
@flag("--id NAME", "Column of identifiers to write beside the predictions.", name="id_")
@flag("--scores", "Write scores instead of labels.", is_flag=True)
@flag(
    "--proba --probabilities",
    "Write the probability of every class, in the order of ddol inspect.",
    name="proba",
    is_flag=True,
)
@_AGENT
@options_of(DataOptions, *_READING)
@debug
@click.pass_context
def predict(
    ctx: click.Context,
    model: str,
    out: str | None,
    id_: str | None,
    scores: bool,
    proba: bool,
    agent: str | None,
    **given: Any,
) -> None:
    """Predict with a model: one line for every example of DATA, as soon as it is read.

    MODEL: a file that `ddol train --model` wrote, or JOB.toml, which names the model and says how files are
    read. DATA: files to predict on; - for standard input; by default the job's. Columns are found by their
    names; a label may be there and is ignored.
    """
    without_blas_threads()
    from ddol.cli.predict import Wanted
    from ddol.cli.predict import predict as run_prediction

    if scores and proba:
        raise ValueError("--scores does not go with --proba; leave one out")
    what = "chances" if proba else "scores" if scores else "labels"
    run_prediction(*_model_and_data(ctx, model, given), out, Wanted(what, agent), id_)


def _model_and_data(
    ctx: click.Context, model: str, given: dict[str, Any]
) -> tuple[str, DataOptions]:
    """A model and how its data are read; a job says both."""
    if not model.endswith(".toml"):
        if not given["data"]:
            raise click.UsageError("Missing argument 'DATA...'", ctx)
        return model, DataOptions(**given)
    job = job_from({**given, "data": (model, *given["data"])}, typed(ctx))
    if job.output.model is None:
        raise ValueError(
            f"{model}: found no model under [output], expected its name; train with --model OUT"
        )
    return job.output.model, job.data


@click.command(cls=Command)
@click.argument("model")
@click.argument("data", nargs=-1)
@flag("--json OUT", "Write the results as JSON; - for standard output.")
@_AGENT
@options_of(DataOptions, *_READING)
@debug
@click.pass_context
def evaluate(
    ctx: click.Context, model: str, json: str | None, agent: str | None, **given: Any
) -> None:
    """How well a model predicts DATA: accuracy, log loss, AUC and confusion, or R², MAE and RMSE.

    MODEL: a file that `ddol train --model` wrote, or JOB.toml, which names the model and says how files are
    read. DATA: files with labels, by default the job's. A file that is named after a site of the model is
    predicted by that site's agent and reported on its own; other files by all agents together. With --agent
    that agent predicts all files.
    """
    without_blas_threads()
    from ddol.cli.evaluate import evaluate as run_evaluation

    run_evaluation(*_model_and_data(ctx, model, given), json, agent)


@click.command(cls=Command)
@click.argument("model")
@flag("--top n", "How many of the largest weights to show.", type=COUNT_FROM_ZERO, default=10)
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
@flag("--data DIR", "Folder of the data sets; by default DDOL_DATA, the cache, or a download.")
@flag("--seeds n", "Random orders of the examples to run.", type=COUNT, default=5)
@flag("--out DIR", "Folder for the page, figures and numbers.", default="reproduction")
@flag("--claims FILE", "Write the claims as Markdown, too.")
@flag("--list", "List the figures and exit.", name="list_", is_flag=True)
@_QUIET
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

    FIGURE: names or numbers (see --list), or .toml files; all if none is given.
    """
    from ddol.cli.reproduce import list_figures
    from ddol.cli.reproduce import reproduce as run_reproduction

    if list_:
        list_figures()
    else:
        run_reproduction(figures, data, seeds, out, claims, quiet)


@click.command(cls=Command)
@click.argument("file", metavar="FILE.toml")
@flag("--out TABLE", "Write the table of runs: .csv or .parquet.")
@flag("--report OUT.html", "Write a page with chart, means and comparisons.")
@flag("--workers n", "Number of processes; by default one per core.", type=COUNT)
@_QUIET
@debug
def sweep(file: str, out: str | None, report: str | None, workers: int | None, quiet: bool) -> None:
    """Run all combinations of some settings and seeds, and compare them in pairs.

    FILE.toml: a job in which any value may be a list of values (docs/study.md). Finished runs are kept beside
    the file, so that a sweep that was stopped continues.
    """
    from ddol.cli.sweep import sweep as run_sweep

    run_sweep(file, out, report, workers, quiet)


@click.command(cls=Command, algorithms=True)
@click.argument("data", nargs=-1)
@flag(
    "--against",
    "What to save: bytes sent, or labels asked for.",
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
@options_of(DataOptions, *_STUDIED)
@flag("--out TABLE.csv", "Write the table of runs.")
@flag("--report OUT.html", "Write a page with charts and the table.")
@flag("--json OUT", "Write the runs as JSON; - for standard output.")
@_QUIET
@debug
@click.pass_context
def frontier(ctx: click.Context, against: str, out: str | None, **given: Any) -> None:
    """Error and regret against bytes sent, or labels asked for, over all policies.

    The baseline is exchanging at fixed periods, or asking at random; the column of_line is a policy's cost as
    a share of the baseline's at the same error. DATA: files as for ddol train, which are kept in memory, or
    JOB.toml; options beside it override.
    """
    from ddol.cli.frontier import frontier as run_frontier

    run_frontier(_placed(job_from(given, typed(ctx)), 16), against, out)


def _placed(job: Job, alone: int) -> Job:
    """The job with a number of agents; `alone` is that for a single file."""
    if job.known_agents is not None or not job.data.in_files:
        return job
    return job.but(agents=agents_for(job.data.data, alone))


@click.command(cls=Command, algorithms=True)
@click.argument("data", nargs=-1)
@options_of(AlgorithmOptions, "algorithm", "safe", "privacy")
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
@options_of(DataOptions, *_STUDIED)
@as_json
@debug
@click.pass_context
def leaks(ctx: click.Context, json: bool, **given: Any) -> None:
    """List what leaves a site, and attack its messages: how many rows can others reconstruct?

    DATA: files as for ddol train, or JOB.toml; options beside it override. The attack is run with the
    algorithm, batch, period and network given, and again with 100 examples between messages, as nodes with
    identities have it.
    """
    from ddol.cli.leaks import leaks as run_leaks

    run_leaks(_placed(job_from(given, typed(ctx)), 4), json)


@click.command(cls=Command)
@click.argument("data", nargs=-1)
@flag(
    "--privacy SPEC",
    "Budget: epsilon:4, or epsilon:4,delta:1e-6,every:100,public:50; may be given several times.",
    multiple=True,
    default=("epsilon:1,public:50", "epsilon:4,public:50"),
)
@options_of(NetworkOptions, "agents", "topology", agents={"shown": "16, or one a file"})
@options_of(RunOptions, "seed")
@options_of(DataOptions, *_STUDIED)
@as_json
@debug
@click.pass_context
def privacy(ctx: click.Context, privacy: tuple[str, ...], json: bool, **given: Any) -> None:
    """Measure what differential privacy costs: errors of sites alone, of sharing, and of both mixed.

    DATA: files as for ddol train, with classes, or JOB.toml; options beside it override.
    """
    from ddol.cli.leaks import privacy as run_privacy

    run_privacy(_placed(job_from(given, typed(ctx)), 16), privacy, json)


@click.command(cls=Command, algorithms=True, renamed={"--gradient": "--gradient-norm"})
@click.argument("data", metavar="[JOB.toml]", nargs=-1)
@options_of(AlgorithmOptions, "algorithm", "safe", algorithm={"default": "dwm-i"})
@options_of(NetworkOptions, "agents", "topology", "batch", "period", "query", agents={"default": 4})
@flag("--experts P", "Number of experts.", type=COUNT)
@flag("--mistakes m", "Mistakes of the best expert, at all agents together.", type=NOT_NEGATIVE)
@flag("--rounds T", "Number of rounds.", type=COUNT)
@flag("--gradient-norm G", "Upper bound of the norm of every subgradient.", type=NOT_NEGATIVE)
@flag(
    "--divergence D",
    "Upper bound of the divergence ψ(w*, w); by default the domain's, if known.",
    type=NOT_NEGATIVE,
)
@flag(
    "--spread S",
    "With --safe, of a loss that is not logistic: how much the losses of two learners differ at most.",
    type=NOT_NEGATIVE,
)
@as_json
@debug
@click.pass_context
def bound(ctx: click.Context, json: bool, **given: Any) -> None:
    """Upper bound of the mistakes, or of the regret, of N agents.

    JOB.toml: a run, whose data say how many experts and rounds there are; options beside it override.
    """
    from ddol.cli.bound import Question
    from ddol.cli.bound import bound as run_bound

    asked = {name: given.pop(name) for name in Question.__dataclass_fields__}
    _only_a_job(given["data"])
    run_bound(job_from(given, typed(ctx)), Question(**asked), json)


def _only_a_job(data: tuple[str, ...]) -> None:
    if any(not path.endswith(".toml") for path in data):
        raise ValueError(f"found {data[0]}, expected JOB.toml, which names the data")


@click.command(cls=Command)
@click.argument("data", metavar="[JOB.toml]", nargs=-1)
@flag("--dim D", "Number of features; by default that of the job's data.", type=COUNT)
@flag(
    "--nnz n",
    "Non-zero features of an example.",
    type=COUNT,
    show_default="all, or as the job's data",
)
@options_of(NetworkOptions, "agents", "batch", "period", agents={"shown": "16 per worker"},
            period={"shown": "the least for 90 %"})  # fmt: skip
@options_of(RunOptions, "workers", "engine", workers={"shown": None}, engine={"default": "mpi"})
@flag("--latency µs", "Latency of a message in your network.", type=NOT_NEGATIVE)
@flag("--bandwidth GB/s", "Bandwidth of your network.", type=NOT_NEGATIVE)
@as_json
@debug
@click.pass_context
def plan(
    ctx: click.Context,
    dim: int | None,
    nnz: int | None,
    latency: float | None,
    bandwidth: float | None,
    json: bool,
    **given: Any,
) -> None:
    """How many times faster a run with n workers will be, and with which period.

    JOB.toml: the run to plan; options beside it override.
    """
    from ddol.cli.bound import plan_job

    _only_a_job(given["data"])
    job = job_from(given, typed(ctx))
    network = (
        None if latency is None else latency * 1e-6,
        None if bandwidth is None else bandwidth * 1e9,
    )
    plan_job(job, dim, nnz, network, json)


@click.command(cls=Command)
@click.argument("job")
@click.argument("n", type=COUNT)
@debug
def scale(job: str, n: int) -> None:
    """Change the number of actors of a job that runs on Ray to n.

    JOB: its name and cluster, as printed when an asynchronous job (`ddol train --engine ray --schedule
    async`) starts. Agents move between two blocks, and no example is lost.
    """
    from ddol.engines.ray.scaling import scale as ask

    click.echo(ask(job, n))


@click.command(
    cls=Command, context_settings={"allow_extra_args": True, "ignore_unknown_options": True}
)
@click.pass_context
@flag("-n n", "Number of processes.", type=COUNT, default=2)
@flag("--hostfile FILE", "Hosts, one per line: node1 slots=8.", type=click.Path(path_type=Path))
@flag("--ft/--no-ft", "Continue when a process is lost.", default=True)
def launch(ctx: click.Context, n: int, hostfile: Path | None, ft: bool) -> None:
    """Train in n processes: ddol launch -n 4 train DATA … (extra mpi)."""
    from ddol.launch import launch as run_job

    ctx.exit(run_job(n, ctx.args, hostfile, ft))
