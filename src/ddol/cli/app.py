"""The commands and their options; whatever they do is imported only when they run."""

from __future__ import annotations

import os
import sys
import time
import traceback
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from ddol.cli.options import DataOptions, LearnOptions, RunOptions, TrainOptions


class _Commands(TyperGroup):
    """One place where errors become one line and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except (typer.Exit, typer.Abort, SystemExit, KeyboardInterrupt):
            raise
        except BrokenPipeError:
            # Whoever read our output has enough of it; what is still buffered goes nowhere.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(0) from None
        except Exception as error:
            if hasattr(error, "format_message"):
                raise  # wrong usage: the parser prints it itself, with the usage line
            _let_the_first_speak()
            if ctx.meta.get("debug"):
                traceback.print_exc()
            print(f"{_prefix(error)}{_one_line(error)}", file=sys.stderr)
            raise typer.Exit(_exit_code(error)) from None


def _let_the_first_speak() -> None:
    """Ranks of an MPI job often fail alike; the first one's line is enough, and ends the others."""
    if os.environ.get("OMPI_COMM_WORLD_RANK", "0") != "0":
        time.sleep(0.5)


def _prefix(error: Exception) -> str:
    return "" if type(error).__name__ == "StoppedError" else "ddol: "


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split())
    plain = isinstance(error, ValueError | OSError) or type(error).__module__.startswith("ddol")
    return text if text and plain else f"{type(error).__name__}: {text or 'no message'}"


def _exit_code(error: Exception) -> int:
    code = getattr(error, "exit_code", None)
    if isinstance(code, int):
        return code
    return 2 if isinstance(error, ValueError | FileNotFoundError) else 1


def _remember_debug(ctx: typer.Context, wanted: bool) -> bool:
    if wanted:
        ctx.find_root().meta["debug"] = True
    return wanted


def _show_version(wanted: bool) -> None:
    if wanted:
        from ddol import __version__

        typer.echo(f"ddol {__version__}")
        raise typer.Exit


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Data-distributed online learning: N agents on a graph, one pass, bounded memory.",
)

Debug = Annotated[
    bool,
    typer.Option(
        "--debug",
        is_eager=True,
        callback=_remember_debug,
        help="Show the traceback of an error.",
    ),
]
Format = Annotated[
    str | None,
    typer.Option(
        metavar="libsvm|csv|tsv|parquet|npy|npz", help="By default the file's ending decides."
    ),
]
Label = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="Label column of a table: name or number.")
]
ZeroBased = Annotated[bool, typer.Option("--zero-based", help="LIBSVM indices begin at 0, not 1.")]

_DATA, _ALGORITHM, _NETWORK, _RUN, _OUT = (
    "Data",
    "Algorithm",
    "Network",
    "Run",
    "What it leaves",
)


@app.callback()
def _main(
    version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_show_version, help="Show the version."),
    ] = False,
) -> None:
    pass


def _option(panel: str, text: str, *names: str, **more: Any) -> Any:
    return typer.Option(*names, help=text, rich_help_panel=panel, **more)


@app.command(no_args_is_help=False)
def train(
    data: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[DATA]...",
            help="A file, dealt to the agents round-robin; as many files as agents (or a pattern), "
            "one each; - for standard input. Without any: a built-in data set.",
        ),
    ] = None,
    algorithm: Annotated[
        str,
        _option(
            _ALGORITHM,
            "What agents learn with.",
            metavar="adaptive|dogd|doeg|coin|newton|dual-averaging|dwm-i|dwm-a|drwm",
        ),
    ] = "adaptive",
    agents: Annotated[int, _option(_NETWORK, "Number of agents.", min=1)] = 4,
    topology: Annotated[
        str,
        _option(
            _NETWORK,
            "Who talks to whom.",
            metavar="complete|ring|path|star|grid|torus|hypercube|exponential|random-regular:DEGREE|erdos-renyi:P",
        ),
    ] = "complete",
    mixing: Annotated[
        str | None,
        _option(
            _NETWORK,
            "Weights of the average; by default uniform on the complete graph, else metropolis.",
            metavar="uniform|metropolis",
        ),
    ] = None,
    loss: Annotated[
        str | None,
        _option(
            _ALGORITHM,
            "What a wrong prediction costs: hinge, squared-hinge, logistic, perceptron; squared, "
            "absolute, huber, epsilon-insensitive, quantile for numbers. [default: hinge]",
            metavar="NAME",
        ),
    ] = None,
    task: Annotated[
        str | None,
        _option(
            _ALGORITHM, "By default what the loss is for.", metavar="classification|regression"
        ),
    ] = None,
    C: Annotated[
        float | None, _option(_ALGORITHM, "Weight of the loss. [default: 1]", "--C")
    ] = None,
    radius: Annotated[
        float | None, _option(_ALGORITHM, "Radius of the ball that weights stay in.")
    ] = None,
    rate: Annotated[float | None, _option(_ALGORITHM, "Scale of the steps.")] = None,
    alpha: Annotated[
        float | None,
        _option(_ALGORITHM, "Factor on a wrong expert's weight. [default: 0.9]"),
    ] = None,
    l1: Annotated[float | None, _option(_ALGORITHM, "Weight of ‖w‖₁.")] = None,
    l2: Annotated[float | None, _option(_ALGORITHM, "Weight of ‖w‖²/2.")] = None,
    p: Annotated[float | None, _option(_ALGORITHM, "Exponent of p-norm.", "--p")] = None,
    experts: Annotated[
        int | None,
        _option(
            _ALGORITHM,
            "Decision stumps for dwm-i, dwm-a, drwm: one on each of P features. [default: all]",
            metavar="P",
            min=1,
        ),
    ] = None,
    average: Annotated[
        str | None, _option(_NETWORK, "Space of the average.", metavar="dual|primal")
    ] = None,
    batch: Annotated[int, _option(_NETWORK, "Examples per agent and round.", min=1)] = 1,
    period: Annotated[int, _option(_NETWORK, "Rounds between two exchanges.", min=1)] = 1,
    delay: Annotated[int, _option(_NETWORK, "Rounds until an answer arrives.", min=0)] = 0,
    passes: Annotated[int, _option(_RUN, "Times that the data are read.", min=1)] = 1,
    shuffle: Annotated[
        bool,
        _option(_DATA, "Keep the order, or shuffle in bounded memory.", "--shuffle/--no-shuffle"),
    ] = False,
    seed: Annotated[int, _option(_RUN, "Of everything random.", min=0)] = 0,
    limit: Annotated[
        int | None, _option(_DATA, "Only the first n examples.", metavar="n", min=1)
    ] = None,
    intercept: Annotated[
        bool, _option(_DATA, "A constant feature; weighted majority has none.")
    ] = True,
    format: Annotated[  # noqa: A002
        str | None,
        _option(
            _DATA, "By default the file's ending decides.", metavar="libsvm|csv|tsv|parquet|npy|npz"
        ),
    ] = None,
    label: Annotated[
        str | None,
        _option(_DATA, "Label column of a table: name or number.", metavar="COLUMN"),
    ] = None,
    labels: Annotated[
        str | None,
        _option(_DATA, "All labels, where the beginning does not show them.", metavar="1,2,3"),
    ] = None,
    features: Annotated[
        int | None, _option(_DATA, "Number of columns, if known.", metavar="D", min=1)
    ] = None,
    zero_based: Annotated[
        bool, _option(_DATA, "LIBSVM indices begin at 0, not 1.", "--zero-based")
    ] = False,
    bits: Annotated[
        int | None,
        _option(_DATA, "Hash the columns to 2^b.", metavar="b", min=1, max=31),
    ] = None,
    on_bad_line: Annotated[
        str, _option(_DATA, "Stop at a bad line, or leave it out.", metavar="error|skip")
    ] = "error",
    engine: Annotated[
        str, _option(_RUN, "Where rounds run.", metavar="local|threads|mpi")
    ] = "local",
    workers: Annotated[
        int | None, _option(_RUN, "Threads; one per core by default.", metavar="n", min=1)
    ] = None,
    model: Annotated[str | None, _option(_OUT, "The model.", metavar="OUT")] = None,
    checkpoint: Annotated[
        str | None, _option(_OUT, "Folder of checkpoints.", metavar="DIR")
    ] = None,
    every: Annotated[
        int | None,
        _option(_OUT, "Examples between checkpoints. [default: 1000000]", metavar="n", min=1),
    ] = None,
    resume: Annotated[bool, _option(_RUN, "Go on from the newest checkpoint.", "--resume")] = False,
    json: Annotated[
        str | None, _option(_OUT, "Figures as JSON; - for standard output.", metavar="OUT")
    ] = None,
    report: Annotated[str | None, _option(_OUT, "A page with curves.", metavar="OUT.html")] = None,
    quiet: Annotated[bool, _option(_RUN, "No table.", "--quiet", "-q")] = False,
    debug: Debug = False,
) -> None:
    """Learn from DATA with N agents, in one pass."""
    given = dict(locals())
    _one_of("--on-bad-line", on_bad_line, ("error", "skip"))
    _one_of("--engine", engine, ("local", "threads", "mpi"))
    _one_of("--task", task, ("classification", "regression"))
    _one_of("--average", average, ("dual", "primal"))
    _one_of("--mixing", mixing, ("uniform", "metropolis"))
    given |= {"data": tuple(data or ()), "labels": _numbers(labels)}
    options = TrainOptions(
        DataOptions(**_part(DataOptions, given)),
        LearnOptions(**_part(LearnOptions, given)),
        RunOptions(**_part(RunOptions, given)),
    )
    from ddol.cli.train import train as run_training

    run_training(options)


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


def _part(kind: Any, given: dict[str, Any]) -> dict[str, Any]:
    return {name: given[name] for name in kind.__dataclass_fields__}


def _one_of(name: str, value: str | None, allowed: tuple[str, ...]) -> None:
    if value is not None and value not in allowed:
        raise ValueError(f"{name}: found {value!r}, expected one of {', '.join(allowed)}")


def _numbers(text: str | None) -> tuple[float, ...] | None:
    if text is None:
        return None
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise ValueError(f"--labels: found {text!r}, expected numbers such as 1,2,3") from None
