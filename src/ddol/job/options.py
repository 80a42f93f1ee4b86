"""What a run is told, as values; each option is declared here once, for all interfaces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from ddol.job.schedule import ScheduleOptions
from ddol.parameters import Bounds, Count, CountFromZero, declared
from ddol.streams.store.files import read_once

# The registries are imported when their names are asked for: `ddol --help` waits for no NumPy.


def algorithm_names() -> list[str]:
    """Names of the presets, as the command line writes them."""
    from ddol.presets import PRESETS

    return [name.replace("_", "-") for name in PRESETS]


def graph_names() -> list[str]:
    """Names of the topologies."""
    from ddol.communicate.topologies import topology_names

    return topology_names()


def engine_names() -> list[str]:
    """Names of the engines."""
    from ddol.engines.kinds import ENGINES

    return list(ENGINES)


def format_names() -> list[str]:
    """Names of the file formats."""
    from ddol.streams.formats import FORMATS

    return list(FORMATS)


def agents_for(data: Sequence[str], alone: int = 4) -> int:
    """Number of agents where nobody has said it: one for each file, and so many for a single one.

    Examples
    --------
    >>> agents_for(["a.csv", "b.csv"]), agents_for(["a.csv"])
    (2, 4)
    """
    paths = list(data)
    if any(mark in path for path in paths for mark in "*?["):
        from ddol.streams.open import expand

        paths = expand(paths)
    return len(paths) if len(paths) > 1 else alone


def pair_of_features(text: str) -> str:
    """Two namespaces or two columns of an interaction; others are refused."""
    sides = text.split("*")
    if (len(sides) == 2 and all(sides)) or (len(sides) == 1 and len(text) == 2):
        return text
    raise ValueError(
        f"--interactions: found {text!r}, expected the first letters of two namespaces, such as ab, or "
        "two columns, such as town*age"
    )


def listed_labels(text: str) -> tuple[float | str, ...]:
    """Labels that were named with commas between them: numbers if all of them are."""
    words = [word.strip() for word in text.split(",")]
    try:
        return tuple(float(word) for word in words)
    except ValueError:
        return tuple(words)


@dataclass(frozen=True)
class DataOptions:
    """Which examples, and how they are read. None is "not given"."""

    data: tuple[str, ...] = ()
    format: str | None = declared(
        None, "By default the file's extension decides.", names=format_names
    )
    header: bool | None = declared(
        None,
        "The first line of CSV text has the names of the columns, or is an example.",
        shown="names if no cell is a number or comes again below, or one stands above a number",
    )
    label: str | None = declared(
        None,
        "The label's column of a table, by its name, or by its number from 0 (-1 is the last).",
        shown="label, y or target in any case, else the first column",
    )
    labels: tuple[float | str, ...] | None = declared(
        None,
        "All labels, where the beginning does not show them.",
        metavar="a,b",
        read=listed_labels,
    )
    drop: tuple[str, ...] = declared((), "Leave a column out; may be repeated.", many=True)
    weight: str | None = declared(
        None, "Column of importances; for LIBSVM text a file with one number per line."
    )
    answers: str | None = declared(
        None,
        "The labels, in a file of their own and in the order in which they come.",
        metavar="FILE",
    )
    id: str | None = declared(None, "Column by which examples and labels are joined.")
    missing: Literal["error", "zero", "mean"] = declared(
        "error",
        "A missing value (empty, NA, ?, null): error: stop there; zero: it is 0; mean: it is the "
        "column's mean so far.",
    )
    features: Count | None = declared(None, "Number of columns, if known.", metavar="D")
    zero_based: bool = declared(False, "LIBSVM indices begin at 0, not 1.")
    bits: Annotated[int, Bounds(least=1, most=31)] | None = declared(
        None, "Hash the columns to 2^b.", metavar="b"
    )
    interactions: tuple[str, ...] = declared(
        (),
        "Products of features, hashed: ab for namespaces that begin so, NAME*NAME for columns; may "
        "be repeated. -q alone is --quiet.",
        metavar="ab",
        many=True,
        read=pair_of_features,
    )
    on_bad_line: Literal["stop", "skip"] = declared(
        "stop", "stop: stop there; skip: leave it out and count it."
    )
    intercept: bool = declared(True, "A constant feature; weighted majority has none.")
    shuffle: bool = declared(False, "Shuffle in bounded memory, or keep the order.")
    limit: Count | None = declared(None, "Only the first n examples.", metavar="n")
    deal: Literal["round-robin", "contiguous"] = declared(
        "round-robin", "One file: round-robin, or contiguous parts, one for each agent."
    )
    holdout: Annotated[float, Bounds(least=0, most=0.5)] | None = declared(
        None,
        "Share of the examples that is predicted and never learned from; 0 for none.",
        metavar="share",
        shown="0.1 with several passes, else none",
    )
    experts: Count | None = declared(
        None,
        "Decision stumps, one on each of P features.",
        metavar="P",
        group="Algorithm",
        shown="one for each feature",
    )
    late: str | None = None

    @property
    def from_stdin(self) -> bool:
        """Whether examples come through a pipe, which can be read once only."""
        return any(map(read_once, self.data))


@dataclass(frozen=True)
class LearnOptions:
    """The algorithm and its network. None is "not given": the algorithm's own default.

    Parameters
    ----------
    parameters : dict
        Those of the algorithm itself, which its preset declares.
    """

    algorithm: str = declared(
        "adaptive", "What agents learn with.", names=algorithm_names, group="Algorithm"
    )
    task: Literal["classification", "regression"] | None = declared(
        None, "classification or regression.", shown="what the loss is for", group="Algorithm"
    )
    tau: float | None = declared(
        None, "Of the quantile loss: the quantile to learn.", metavar="q", group="Algorithm"
    )
    agents: Count = declared(4, "Number of agents.", metavar="N")
    topology: str = declared("complete", "Who talks to whom.", names=graph_names)
    mixing: Literal["uniform", "metropolis"] | None = declared(
        None, "uniform or metropolis.", shown="uniform if complete, else metropolis"
    )
    average: Literal["dual", "primal"] | None = declared(
        None, "Space of the average: dual or primal.", shown="the algorithm's"
    )
    batch: Count = declared(1, "Examples per agent and round.", metavar="n")
    period: Count = declared(1, "Rounds between two exchanges.", metavar="n")
    delay: int = 0
    gradient: Literal["kept", "arrival"] | None = declared(
        None,
        "Gradients of late answers are kept from the prediction, or taken on arrival.",
        shown="arrival for adaptive, coin and newton",
    )
    query: str | None = declared(
        None,
        "Ask for at most the share s of the labels; other rules: b:1, adaptive:1, unbiased:1, "
        "random:0.2, experts; +neighbours asks them first.",
        metavar="s",
        group="Algorithm",
        shown="all labels",
    )
    talk: str | None = declared(
        None,
        "Send always, never, or drift:E: what has moved by more than E/√t since it was sent.",
        metavar="RULE",
        shown="always",
    )
    compress: str | None = declared(
        None,
        "Messages in float32, 8bit, or top:K: the K features that changed most.",
        metavar="CODE",
        shown="none",
    )
    talk_to: str | None = declared(
        None,
        "Send to k neighbours: those that disagree most; k:loss: those that do best.",
        metavar="k",
        shown="all",
    )
    teach: str | None = declared(
        None,
        "Send examples to at most k neighbours whom they help; k:gradients: gradients alone.",
        metavar="k",
        shown="none",
    )
    safe: bool = declared(
        False,
        "Each agent also learns alone, and predicts with a mixture: never much worse than alone or together.",
    )
    trust: Literal["test", "all"] | None = declared(
        None,
        "test: average only with neighbours whose weights predict one's own examples well.",
        shown="test if safe, else all",
    )
    parameters: Mapping[str, Any] = field(default_factory=dict)

    @property
    def talks(self) -> bool:
        """Whether agents are told to choose what they send, which needs events."""
        return any(
            rule is not None for rule in (self.talk, self.compress, self.talk_to, self.teach)
        )


@dataclass(frozen=True)
class RunOptions:
    """How the run is carried out and what it leaves."""

    passes: Count = declared(1, "Times that the data are read.", metavar="n")
    seed: CountFromZero = declared(0, "Of everything random.", metavar="n")
    engine: str = declared("local", "Where agents run.", names=engine_names, kinds=())
    workers: Count | None = declared(
        None, "Threads that read and learn, or Ray actors.", metavar="n", shown="one per core"
    )
    address: str | None = declared(
        None,
        "Ray cluster; auto for the one of this machine, local for one of this run.",
        metavar="A",
        shown="RAY_ADDRESS, or local",
    )
    on_lost: Literal["end", "wait", "without"] = declared(
        "wait",
        "When a process is silent or lost: end, wait, or go on without it.",
        metavar="WAY",
    )
    resume: bool = declared(False, "Go on from the newest checkpoint.")
    quiet: bool = declared(False, "No table.")
    initial: str | None = declared(
        None, "Go on from a model of the same algorithm.", metavar="MODEL"
    )
    model: str | None = declared(
        None, "The model, for ddol predict.", metavar="OUT", group="Output"
    )
    predictions: str | None = declared(
        None,
        "What was predicted for every example before it was learned from.",
        metavar="FILE",
        group="Output",
    )
    checkpoint: str | None = declared(
        None, "Folder of checkpoints, for --resume.", metavar="DIR", group="Output"
    )
    every: Count | None = declared(
        None, "Examples between checkpoints.", metavar="n", shown="1000000", group="Output"
    )
    json: str | None = declared(
        None, "Figures as JSON; - for standard output.", metavar="OUT", group="Output"
    )
    report: str | None = declared(None, "A page with curves.", metavar="OUT.html", group="Output")
    live: Annotated[int, Bounds(least=0, most=65535)] | None = declared(
        None,
        "A page that shows the run while it goes on, for this machine.",
        metavar="[PORT]",
        bare=0,
        group="Output",
    )


@dataclass(frozen=True)
class TrainOptions:
    """All options of ``ddol train``."""

    data: DataOptions
    learn: LearnOptions
    run: RunOptions
    schedule: ScheduleOptions = field(default_factory=ScheduleOptions)

    def identity(self) -> dict[str, Any]:
        """What decides the result of a run: a checkpoint with another one is of another run.

        Where the run takes place (engine, workers) and what it leaves does not.
        """
        learn = {**vars(self.learn), **self.learn.parameters}
        learn.pop("parameters")
        data = {name: value for name, value in vars(self.data).items() if name != "data"}
        run = {"passes": self.run.passes, "seed": self.run.seed, "initial": self.run.initial}
        chosen = learn | data | vars(self.schedule) | run
        plain = {name: list(v) if isinstance(v, tuple) else v for name, v in chosen.items()}
        return {f"--{name.replace('_', '-')}": value for name, value in plain.items()}

    def progress(self) -> dict[str, Any]:
        """What decides when a run shows, saves or stops, which all of its processes must share."""
        names = ("checkpoint", "every", "resume", "quiet", "on_lost")
        return {f"--{name}": getattr(self.run, name) for name in names}


def part_of(kind: Any, given: Mapping[str, Any]) -> Any:
    """Those of the given options that are fields of one kind; others keep their defaults.

    Examples
    --------
    >>> part_of(LearnOptions, {"agents": 3, "quiet": True, "rate": 0.5})
    LearnOptions(algorithm='adaptive', ..., agents=3, ..., parameters={'rate': 0.5})
    """
    own = {name: value for name, value in given.items() if name in kind.__dataclass_fields__}
    if kind is LearnOptions:
        from ddol.presets import preset_parameters

        more = preset_parameters().keys() - own.keys()
        own["parameters"] = {k: v for k, v in given.items() if k in more and v is not None}
    return kind(**own)


GROUPS: dict[type, str] = {
    LearnOptions: "Network",
    ScheduleOptions: "Schedule (D: a number, a..b, exponential:m or geometric:m)",
    DataOptions: "Data",
    RunOptions: "Run",
}
"""What a job is made of, and the heading of each part on the help page."""
