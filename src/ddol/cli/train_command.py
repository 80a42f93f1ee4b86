"""The options of ``ddol train``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ddol.cli.flags import (
    ALGORITHM,
    DATA,
    NETWORK,
    OUT,
    RUN,
    Debug,
    Format,
    Label,
    ZeroBased,
    option,
)
from ddol.cli.options import DataOptions, LearnOptions, RunOptions, TrainOptions

Number = float | None
Whole = int | None
Text = str | None


def train(
    data: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="DATA",
            show_default=False,
            help="One file, dealt to the agents round-robin; as many files as agents (or a "
            "pattern), one each; - for standard input. Without any: a built-in data set.",
        ),
    ] = None,
    # What agents learn with.
    algorithm: Annotated[
        str,
        option(
            ALGORITHM,
            "adaptive, dogd, doeg, coin, newton, dual-averaging; with experts dwm-i, dwm-a, drwm.",
            metavar="NAME",
        ),
    ] = "adaptive",
    loss: Annotated[
        Text,
        option(
            ALGORITHM,
            "hinge, squared-hinge, logistic, perceptron; for numbers squared, absolute, huber, "
            "epsilon-insensitive, quantile.",
            metavar="NAME",
            show_default="the algorithm's",
        ),
    ] = None,
    task: Annotated[
        Text,
        option(
            ALGORITHM,
            "classification or regression.",
            metavar="NAME",
            show_default="what the loss is for",
        ),
    ] = None,
    C: Annotated[Number, option(ALGORITHM, "Weight of the loss.", "--C", show_default="1")] = None,
    radius: Annotated[Number, option(ALGORITHM, "Of the ball that weights stay in.")] = None,
    rate: Annotated[
        Number, option(ALGORITHM, "Scale of the steps.", show_default="the algorithm's")
    ] = None,
    alpha: Annotated[
        Number, option(ALGORITHM, "Factor on a wrong expert's weight.", show_default="0.9")
    ] = None,
    l1: Annotated[Number, option(ALGORITHM, "Weight of ‖w‖₁.")] = None,
    l2: Annotated[Number, option(ALGORITHM, "Weight of ‖w‖²/2.")] = None,
    p: Annotated[Number, option(ALGORITHM, "Exponent of p-norm.", "--p")] = None,
    experts: Annotated[
        Whole,
        option(
            ALGORITHM,
            "Decision stumps, one on each of P features.",
            metavar="P",
            min=1,
            show_default="one for each feature",
        ),
    ] = None,
    # The network.
    agents: Annotated[int, option(NETWORK, "Number of agents.", metavar="N", min=1)] = 4,
    topology: Annotated[
        str,
        option(
            NETWORK,
            "complete, ring, path, star, grid, torus, hypercube, exponential, "
            "random-regular:DEGREE, erdos-renyi:P.",
            metavar="NAME",
        ),
    ] = "complete",
    mixing: Annotated[
        Text,
        option(
            NETWORK,
            "uniform or metropolis.",
            metavar="NAME",
            show_default="uniform if complete, else metropolis",
        ),
    ] = None,
    average: Annotated[
        Text,
        option(
            NETWORK,
            "Space of the average: dual or primal.",
            metavar="NAME",
            show_default="the algorithm's",
        ),
    ] = None,
    batch: Annotated[int, option(NETWORK, "Examples per agent and round.", metavar="n", min=1)] = 1,
    period: Annotated[
        int, option(NETWORK, "Rounds between two exchanges.", metavar="n", min=1)
    ] = 1,
    delay: Annotated[
        int, option(NETWORK, "Rounds until an answer arrives.", metavar="n", min=0)
    ] = 0,
    # The data.
    format: Format = None,  # noqa: A002
    label: Label = None,
    labels: Annotated[
        Text,
        option(DATA, "All labels, where the beginning does not show them.", metavar="1,2,3"),
    ] = None,
    features: Annotated[
        Whole, option(DATA, "Number of columns, if known.", metavar="D", min=1)
    ] = None,
    zero_based: ZeroBased = False,
    bits: Annotated[
        Whole, option(DATA, "Hash the columns to 2^b.", metavar="b", min=1, max=31)
    ] = None,
    on_bad_line: Annotated[
        str, option(DATA, "error: stop there; skip: leave it out and count it.", metavar="NAME")
    ] = "error",
    intercept: Annotated[
        bool, option(DATA, "A constant feature; weighted majority has none.")
    ] = True,
    shuffle: Annotated[
        bool,
        option(DATA, "Shuffle in bounded memory, or keep the order.", "--shuffle/--no-shuffle"),
    ] = False,
    limit: Annotated[Whole, option(DATA, "Only the first n examples.", metavar="n", min=1)] = None,
    # How the run is carried out.
    passes: Annotated[int, option(RUN, "Times that the data are read.", metavar="n", min=1)] = 1,
    seed: Annotated[int, option(RUN, "Of everything random.", metavar="n", min=0)] = 0,
    engine: Annotated[str, option(RUN, "local, threads or mpi.", metavar="NAME")] = "local",
    workers: Annotated[
        Whole, option(RUN, "Threads.", metavar="n", min=1, show_default="one per core")
    ] = None,
    resume: Annotated[bool, option(RUN, "Go on from the newest checkpoint.", "--resume")] = False,
    quiet: Annotated[bool, option(RUN, "No table.", "--quiet", "-q")] = False,
    # What it leaves.
    model: Annotated[Text, option(OUT, "The model, for ddol predict.", metavar="OUT")] = None,
    checkpoint: Annotated[
        Text, option(OUT, "Folder of checkpoints, for --resume.", metavar="DIR")
    ] = None,
    every: Annotated[
        Whole,
        option(OUT, "Examples between checkpoints.", metavar="n", min=1, show_default="1000000"),
    ] = None,
    json: Annotated[
        Text, option(OUT, "Figures as JSON; - for standard output.", metavar="OUT")
    ] = None,
    report: Annotated[Text, option(OUT, "A page with curves.", metavar="OUT.html")] = None,
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
