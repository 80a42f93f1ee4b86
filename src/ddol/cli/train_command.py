"""The options of ``ddol train``."""

from __future__ import annotations

from typing import Any

import click

from ddol.cli.blas import without_blas_threads
from ddol.cli.flags import (
    COUNT,
    COUNT_FROM_ZERO,
    Command,
    check_bad_line,
    debug,
    format_,
    header,
    label,
    learning,
    leaving,
    missing,
    network,
    on_bad_line,
    one_of,
    reading,
    running,
    zero_based,
)
from ddol.cli.options import DataOptions, LearnOptions, RunOptions, TrainOptions, part_of
from ddol.cli.schedule_options import ScheduleOptions, schedule_options
from ddol.engines.kinds import ENGINES

_QUIET = "quiet"


@click.command(cls=Command)
@click.argument("data", nargs=-1)
# What agents learn with.
@learning(
    "--algorithm NAME", "{names}.", default="adaptive", names="ddol.cli.registries:algorithms"
)
@learning(
    "--loss NAME", "{names}.", show_default="the algorithm's", names="ddol.cli.registries:losses"
)
@learning("--task NAME", "classification or regression.", show_default="what the loss is for")
@learning("--tau q", "Of the quantile loss: the quantile to learn.", type=float)
@learning("--C", "Weight of the loss.", name="C", type=float, show_default="1")
@learning("--radius", "Of the ball that weights stay in.", type=float)
@learning("--rate", "Scale of the steps.", type=float, show_default="the algorithm's")
@learning("--alpha", "Factor on a wrong expert's weight.", type=float, show_default="0.9")
@learning("--l1", "Weight of ‖w‖₁.", type=float)
@learning("--l2", "Weight of ‖w‖²/2.", type=float)
@learning(
    "--memory m", "Rounds after which an example counts 1/e.", type=float, show_default="all alike"
)
@learning("--rank m", "Rows of newton's sketch.", type=COUNT, show_default="a full matrix")
@learning("--p", "Exponent of p-norm.", type=float)
@learning(
    "--experts P",
    "Decision stumps, one on each of P features.",
    type=COUNT,
    show_default="one for each feature",
)
# The network.
@network("--agents N", "Number of agents.", type=COUNT, default=4)
@network(
    "--topology NAME",
    "{names}.",
    default="complete",
    names="ddol.communicate.topologies:topology_names",
)
@network(
    "--mixing NAME", "uniform or metropolis.", show_default="uniform if complete, else metropolis"
)
@network("--average NAME", "Space of the average: dual or primal.", show_default="the algorithm's")
@network("--batch n", "Examples per agent and round.", type=COUNT, default=1)
@network("--period n", "Rounds between two exchanges.", type=COUNT, default=1)
@learning(
    "--query s",
    "Ask for at most the share s of the answers; other rules: b:1, adaptive:1, unbiased:1, "
    "random:0.2, experts; +neighbours asks them first.",
    show_default="all answers",
)
@network(
    "--talk RULE",
    "Send always, never, or drift:E: what has moved by more than E/√t since it was sent.",
    show_default="always",
)
@network(
    "--compress CODE",
    "Messages in float32, 8bit, or top:K: the K features that changed most.",
    show_default="none",
)
@network(
    "--talk-to k",
    "Send to k neighbours: those that disagree most; k:loss: those that do best.",
    show_default="all",
)
@network(
    "--teach k",
    "Send examples to at most k neighbours whom they help; k:gradients: gradients alone.",
    show_default="nobody",
)
# What happens when.
@schedule_options
# The data.
@format_
@header
@label
@reading("--labels a,b", "All labels, where the beginning does not show them.")
@reading("--drop NAME", "Leave a column out; may be repeated.", multiple=True)
@reading("--weight NAME", "Column of importances; for LIBSVM text a file with one number per line.")
@reading(
    "--answers FILE", "The labels, in a file of their own and in the order in which they come."
)
@reading("--id NAME", "Column by which examples and answers are joined.")
@missing
@reading("--features D", "Number of columns, if known.", type=COUNT)
@zero_based
@reading("--bits b", "Hash the columns to 2^b.", type=click.IntRange(1, 31))
@reading(
    "--interactions -q ab",
    "Products of features, hashed: ab for namespaces that begin so, NAME*NAME for columns; may "
    "be repeated. -q alone is --quiet.",
    multiple=True,
    is_flag=False,
    flag_value=_QUIET,
)
@on_bad_line
@reading(
    "--intercept/--no-intercept", "A constant feature; weighted majority has none.", default=True
)
@reading("--shuffle/--no-shuffle", "Shuffle in bounded memory, or keep the order.", default=False)
@reading("--limit n", "Only the first n examples.", type=COUNT)
@reading(
    "--deal NAME",
    "One file: round-robin, or contiguous parts, one for each agent.",
    default="round-robin",
)
@reading(
    "--holdout share",
    "Share of the examples that is predicted and never learned from; 0 for none.",
    type=click.FloatRange(0, 0.5),
    show_default="0.1 with several passes, else none",
)
# How the run is carried out.
@running("--passes n", "Times that the data are read.", type=COUNT, default=1)
@running("--seed n", "Of everything random.", type=COUNT_FROM_ZERO, default=0)
@running("--engine NAME", "{names}.", default="local", names="ddol.cli.registries:engines")
@running(
    "--workers n",
    "Threads that read and play, or Ray actors.",
    type=COUNT,
    show_default="one per core",
)
@running(
    "--address A",
    "Ray cluster; auto for the one of this machine, local for one of this run.",
    show_default="RAY_ADDRESS, or local",
)
@running(
    "--on-lost WAY",
    "When a process is silent or lost: end, wait, or go on without it.",
    default="wait",
)
@running("--resume", "Go on from the newest checkpoint.", is_flag=True)
@running("--quiet", "No table.", is_flag=True)
@running("--initial MODEL", "Go on from a model of the same algorithm.")
# What it leaves.
@leaving("--model OUT", "The model, for ddol predict.")
@leaving("--predictions FILE", "What was predicted for every example before it was learned from.")
@leaving("--checkpoint DIR", "Folder of checkpoints, for --resume.")
@leaving("--every n", "Examples between checkpoints.", type=COUNT, show_default="1000000")
@leaving("--json OUT", "Figures as JSON; - for standard output.")
@leaving("--report OUT.html", "A page with curves.")
@leaving(
    "--live [PORT]",
    "A page that shows the run while it goes on, for this machine.",
    type=click.IntRange(0, 65535),
    is_flag=False,
    flag_value=0,
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
    without_blas_threads()
    from ddol.cli.beginning import begin_reading

    begun = begin_reading(options)
    from ddol.cli.train import train as run_training  # the larger part of what is imported

    run_training(options, begun)


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
