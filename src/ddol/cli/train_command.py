"""The options of ``ddol train``."""

from __future__ import annotations

from typing import Any

import click

from ddol.cli.flags import (
    ALGORITHM,
    COUNT,
    COUNT_FROM_ZERO,
    DATA,
    NETWORK,
    OUT,
    RUN,
    Command,
    check_bad_line,
    debug,
    format_,
    label,
    missing,
    on_bad_line,
    one_of,
    option,
    zero_based,
)
from ddol.cli.options import DataOptions, LearnOptions, RunOptions, TrainOptions, part_of
from ddol.cli.schedule_options import ScheduleOptions, schedule_options
from ddol.engines.kinds import ENGINES

_QUIET = "quiet"


@click.command(cls=Command)
@click.argument("data", nargs=-1)
# What agents learn with.
@option(
    ALGORITHM,
    "--algorithm",
    metavar="NAME",
    default="adaptive",
    names="ddol.cli.registries:algorithms",
    help="{names}.",
)
@option(
    ALGORITHM,
    "--loss",
    metavar="NAME",
    show_default="the algorithm's",
    names="ddol.cli.registries:losses",
    help="{names}.",
)
@option(
    ALGORITHM,
    "--task",
    metavar="NAME",
    show_default="what the loss is for",
    help="classification or regression.",
)
@option(
    ALGORITHM, "--tau", metavar="q", type=float, help="Of the quantile loss: the quantile to learn."
)
@option(ALGORITHM, "--C", "C", type=float, show_default="1", help="Weight of the loss.")
@option(ALGORITHM, "--radius", type=float, help="Of the ball that weights stay in.")
@option(ALGORITHM, "--rate", type=float, show_default="the algorithm's", help="Scale of the steps.")
@option(
    ALGORITHM,
    "--alpha",
    type=float,
    show_default="0.9",
    help="Factor on a wrong expert's weight.",
)
@option(ALGORITHM, "--l1", type=float, help="Weight of ‖w‖₁.")
@option(ALGORITHM, "--l2", type=float, help="Weight of ‖w‖²/2.")
@option(
    ALGORITHM,
    "--memory",
    metavar="m",
    type=float,
    show_default="all alike",
    help="Rounds after which an example counts 1/e.",
)
@option(ALGORITHM, "--p", type=float, help="Exponent of p-norm.")
@option(
    ALGORITHM,
    "--experts",
    metavar="P",
    type=COUNT,
    show_default="one for each feature",
    help="Decision stumps, one on each of P features.",
)
# The network.
@option(NETWORK, "--agents", metavar="N", type=COUNT, default=4, help="Number of agents.")
@option(
    NETWORK,
    "--topology",
    metavar="NAME",
    default="complete",
    names="ddol.communicate.topologies:topology_names",
    help="{names}.",
)
@option(
    NETWORK,
    "--mixing",
    metavar="NAME",
    show_default="uniform if complete, else metropolis",
    help="uniform or metropolis.",
)
@option(
    NETWORK,
    "--average",
    metavar="NAME",
    show_default="the algorithm's",
    help="Space of the average: dual or primal.",
)
@option(
    NETWORK, "--batch", metavar="n", type=COUNT, default=1, help="Examples per agent and round."
)
@option(
    NETWORK, "--period", metavar="n", type=COUNT, default=1, help="Rounds between two exchanges."
)
@option(
    ALGORITHM,
    "--query",
    metavar="s",
    show_default="all answers",
    help="Ask for at most the share s of the answers; other rules: b:1, adaptive:1, unbiased:1, "
    "random:0.2, experts; +neighbours asks them first.",
)
@option(
    NETWORK,
    "--talk",
    metavar="RULE",
    show_default="always",
    help="Send always, never, or drift:E: what has moved by more than E/√t since it was sent.",
)
@option(
    NETWORK,
    "--compress",
    metavar="CODE",
    show_default="none",
    help="Messages in float32, 8bit, or top:K: the K features that changed most.",
)
@option(
    NETWORK,
    "--talk-to",
    metavar="k",
    show_default="all",
    help="Send to k neighbours: those that disagree most; k:loss: those that do best.",
)
@option(
    NETWORK,
    "--teach",
    metavar="k",
    show_default="nobody",
    help="Send examples to at most k neighbours whom they help; k:gradients: gradients alone.",
)
# What happens when.
@schedule_options
# The data.
@format_
@label
@option(
    DATA,
    "--labels",
    metavar="a,b",
    help="All labels, where the beginning does not show them.",
)
@option(DATA, "--drop", metavar="NAME", multiple=True, help="Leave a column out; may be repeated.")
@option(
    DATA,
    "--weight",
    metavar="NAME",
    help="Column of importances; for LIBSVM text a file with one number per line.",
)
@option(
    DATA,
    "--answers",
    metavar="FILE",
    help="The labels, in a file of their own and in the order in which they come.",
)
@option(DATA, "--id", metavar="NAME", help="Column by which examples and answers are joined.")
@missing
@option(DATA, "--features", metavar="D", type=COUNT, help="Number of columns, if known.")
@zero_based
@option(DATA, "--bits", metavar="b", type=click.IntRange(1, 31), help="Hash the columns to 2^b.")
@option(
    DATA,
    "--interactions",
    "-q",
    metavar="ab",
    multiple=True,
    is_flag=False,
    flag_value=_QUIET,
    help="Products of features, hashed: ab for namespaces that begin so, NAME*NAME for columns; may "
    "be repeated. -q alone is --quiet.",
)
@on_bad_line
@option(
    DATA,
    "--intercept/--no-intercept",
    default=True,
    help="A constant feature; weighted majority has none.",
)
@option(
    DATA,
    "--shuffle/--no-shuffle",
    default=False,
    help="Shuffle in bounded memory, or keep the order.",
)
@option(DATA, "--limit", metavar="n", type=COUNT, help="Only the first n examples.")
@option(
    DATA,
    "--deal",
    metavar="NAME",
    default="round-robin",
    help="One file: round-robin, or contiguous parts, one for each agent.",
)
@option(
    DATA,
    "--holdout",
    metavar="share",
    type=click.FloatRange(0, 0.5),
    show_default="0.1 with several passes, else none",
    help="Share of the examples that is predicted and never learned from; 0 for none.",
)
# How the run is carried out.
@option(RUN, "--passes", metavar="n", type=COUNT, default=1, help="Times that the data are read.")
@option(RUN, "--seed", metavar="n", type=COUNT_FROM_ZERO, default=0, help="Of everything random.")
@option(
    RUN,
    "--engine",
    metavar="NAME",
    default="local",
    names="ddol.cli.registries:engines",
    help="{names}.",
)
@option(
    RUN,
    "--workers",
    metavar="n",
    type=COUNT,
    show_default="one per core",
    help="Threads, or actors of Ray.",
)
@option(
    RUN,
    "--address",
    metavar="A",
    show_default="RAY_ADDRESS, or local",
    help="Ray cluster; auto for the one of this machine, local for one of this run.",
)
@option(
    RUN,
    "--on-lost",
    metavar="WAY",
    default="wait",
    help="When a process is silent or lost: end, wait, or go on without it.",
)
@option(RUN, "--resume", is_flag=True, help="Go on from the newest checkpoint.")
@option(RUN, "--quiet", is_flag=True, help="No table.")
@option(RUN, "--initial", metavar="MODEL", help="Go on from a model of the same algorithm.")
# What it leaves.
@option(OUT, "--model", metavar="OUT", help="The model, for ddol predict.")
@option(
    OUT,
    "--predictions",
    metavar="FILE",
    help="What was predicted for every example before it was learned from.",
)
@option(OUT, "--checkpoint", metavar="DIR", help="Folder of checkpoints, for --resume.")
@option(
    OUT,
    "--every",
    metavar="n",
    type=COUNT,
    show_default="1000000",
    help="Examples between checkpoints.",
)
@option(OUT, "--json", metavar="OUT", help="Figures as JSON; - for standard output.")
@option(OUT, "--report", metavar="OUT.html", help="A page with curves.")
@option(
    OUT,
    "--live",
    metavar="[PORT]",
    type=click.IntRange(0, 65535),
    is_flag=False,
    flag_value=0,
    help="A page that shows the run while it goes on, for this machine.",
)
@debug
def train(**given: Any) -> None:
    """Learn from DATA with N agents, in one pass.

    DATA: one file, dealt to the agents round-robin; as many files as agents (or a pattern), one
    each; - for standard input. Without any: a built-in data set.

    The label of a table is the column --label, or the one named label, y or target, or else the first;
    in LIBSVM and Vowpal Wabbit text it stands first in the line. The first line of a run says what was
    taken for what.
    """
    check_bad_line(given["on_bad_line"])
    one_of("--missing", given["missing"], ("error", "zero", "mean"))
    one_of("--deal", given["deal"], ("round-robin", "contiguous"))
    one_of("--engine", given["engine"], tuple(ENGINES))
    one_of("--on-lost", given["on_lost"], ("end", "wait", "without"))
    one_of("--task", given["task"], ("classification", "regression"))
    one_of("--average", given["average"], ("dual", "primal"))
    one_of("--mixing", given["mixing"], ("uniform", "metropolis"))
    given["labels"] = _labels(given["labels"])
    given["quiet"] |= _QUIET in given["interactions"]
    given["interactions"] = tuple(map(_pair, filter(_QUIET.__ne__, given["interactions"])))
    schedule = part_of(ScheduleOptions, given)
    given["delay"], given["late"] = schedule.whole_delay, schedule.delay_column
    options = TrainOptions(
        part_of(DataOptions, given),
        part_of(LearnOptions, given),
        part_of(RunOptions, given),
        schedule,
    )
    from ddol.cli.train import train as run_training

    run_training(options)


def _labels(text: str | None) -> tuple[float | str, ...] | None:
    """Labels that were named: numbers if all of them are."""
    if text is None:
        return None
    words = [word.strip() for word in text.split(",")]
    try:
        return tuple(float(word) for word in words)
    except ValueError:
        return tuple(words)


def _pair(text: str) -> str:
    sides = text.split("*")
    if (len(sides) == 2 and all(sides)) or (len(sides) == 1 and len(text) == 2):
        return text
    raise ValueError(
        f"--interactions: found {text!r}, expected the first letters of two namespaces, such as ab, or "
        "two columns, such as town*age"
    )
