"""The options of a run as values; each is declared here once, for all interfaces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from ddol.parameters import Bounds, Count, CountFromZero, declared
from ddol.streams.formats import ReadOptions
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


def agents_for(data: Sequence[str], alone: int = 4) -> int:
    """Number of agents where it is not given: one for each file, `alone` for a single one.

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


@dataclass(frozen=True)
class DataOptions(ReadOptions):
    """Which examples, and how they are read. None is "not given".

    Parameters
    ----------
    data : tuple of str, or anything that `ddol.run` takes
        Files; none for a built-in data set. In Python also arrays, frames, streams.
    """

    data: tuple[str, ...] | Any = ()
    schema: str | None = declared(
        None,
        "File of the columns, their kinds and the labels: read if it exists, else written.",
        metavar="FILE",
    )
    class_weight: str | None = declared(
        None,
        "Weights of the classes, such as yes=5,no=1; balanced: rare classes count as much as frequent ones.",
        metavar="W",
    )
    answers: str | None = declared(
        None,
        "Late labels: a file of them, in the order in which they arrive.",
        metavar="FILE",
    )
    id: str | None = declared(None, "Column that joins the examples with the labels of --answers.")
    intercept: bool | None = declared(
        None,
        "Learn an intercept; weighted majority has none.",
        shown="yes for files, no for arrays",
    )
    shuffle: bool = declared(False, "Shuffle the examples, in bounded memory.")
    limit: Count | None = declared(None, "Read only the first n examples.", metavar="n")
    deal: Literal["round-robin", "contiguous"] = declared(
        "round-robin",
        "How one file is dealt to the agents: round-robin, or contiguous (a part for each).",
    )
    holdout: Annotated[float, Bounds(least=0, most=0.5)] | None = declared(
        None,
        "Share of the examples to predict and never learn from; 0 for none.",
        metavar="share",
        shown="0.1 with several passes over files, else none",
    )
    experts: Count | Literal["advice"] | None = declared(
        None,
        "Use decision stumps on P features as experts; advice: the columns are the experts' advice.",
        metavar="P",
        group="Algorithm",
        shown="one for each feature of files, advice for arrays",
    )
    late: str | None = None
    labelled: bool | None = field(default=True, kw_only=True)

    @property
    def from_stdin(self) -> bool:
        """Whether examples come through a pipe, which can be read once only."""
        return self.in_files and any(map(read_once, self.data))

    @property
    def in_files(self) -> bool:
        """Whether examples are in files, or built in, and not given as Python objects."""
        return isinstance(self.data, tuple) and all(isinstance(path, str) for path in self.data)

    @property
    def with_intercept(self) -> bool:
        """Whether a constant feature is added, if the algorithm can have one."""
        return self.in_files if self.intercept is None else self.intercept

    @property
    def n_stumps(self) -> int | None:
        """Number of decision stumps; None for one on each column."""
        return self.experts if isinstance(self.experts, int) else None

    @property
    def advised(self) -> bool:
        """Whether the columns are the advice of experts already."""
        return self.experts == "advice" or (self.experts is None and not self.in_files)


@dataclass(frozen=True)
class AlgorithmOptions:
    """The algorithm. None is "not given": the algorithm's own default.

    Parameters
    ----------
    algorithm : str, or Algorithm
    outputs : int, optional
        Scores of an example, where the data do not say it.
    parameters : dict
        Those of the algorithm itself, which its preset declares.
    """

    algorithm: str | Any = declared(
        "adaptive", "Learning algorithm.", key="name", names=algorithm_names
    )
    task: Literal["classification", "regression"] | None = declared(
        None, "classification or regression.", shown="as the loss says"
    )
    tau: float | None = declared(None, "Quantile to learn, with --loss quantile.", metavar="q")
    average_iterates: bool = declared(
        False, "Predict with the mean of the weights over all rounds (Polyak averaging)."
    )
    gradient: Literal["kept", "arrival"] | None = declared(
        None,
        "With late labels: take gradients at the weights that predicted (kept), or at those on arrival.",
        shown="arrival for adaptive, coin and newton, else kept",
    )
    safe: bool = declared(
        False,
        "Each agent also learns alone, and predicts with a mixture: never much worse than alone or together.",
    )
    trust: Literal["test", "all"] | None = declared(
        None,
        "test: average only with neighbours whose weights predict the agent's own examples well.",
        shown="test if safe, else all",
    )
    privacy: str | Any = declared(
        None,
        "Make messages differentially private for single examples; each agent also keeps a learner "
        "without noise for itself (implies --safe).",
        metavar="epsilon:4",
        shown="none",
    )
    outputs: int | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What the algorithm is called."""
        return self.algorithm if isinstance(self.algorithm, str) else str(self.algorithm.name)


@dataclass(frozen=True)
class NetworkOptions:
    """Communication: graph, averages, how often, and what is sent. None is "not given"."""

    agents: Count | None = declared(
        None, "Number of agents.", metavar="N", shown="one for each file, or 4; 1 for arrays"
    )
    topology: str | Any = declared(
        None, "Communication graph of the agents.", names=graph_names, shown="complete"
    )
    mixing: Literal["uniform", "metropolis", "tested"] | Any = declared(
        None,
        "Weights of the averages: uniform, metropolis, or tested (as --trust test).",
        shown="uniform if complete, else metropolis",
        metavar="NAME",
    )
    average: str | Any = declared(
        None,
        "Average in the dual or in the primal space; or robustly, where up to b neighbours of an agent send "
        "false messages: clip:b or trim:b.",
        metavar="WHERE",
        shown="the algorithm's",
    )
    batch: Count | None = declared(None, "Examples per agent and round.", metavar="n", shown="1")
    period: Count | None = declared(None, "Rounds between two exchanges.", metavar="n", shown="1")
    query: float | str | Any = declared(
        None,
        "Active learning: ask for at most this share of the labels; other rules: b:1, adaptive:1, "
        "unbiased:1, random:0.2, experts; +neighbours asks them first.",
        metavar="s",
        group="Algorithm",
        shown="all labels",
    )
    talk: str | Any = declared(
        None,
        "When to send: always, never, or drift:E (what has moved by more than E/√t since it was sent).",
        metavar="RULE",
        shown="always",
    )
    compress: str | Any = declared(
        None,
        "Write messages as float32, 8bit, or top:K (the K features that changed most).",
        metavar="CODE",
        shown="none",
    )
    talk_to: int | str | Any = declared(
        None,
        "Send only to the k neighbours that disagree most; k:loss: to those that predict best.",
        metavar="k",
        shown="all",
    )
    teach: int | str | Any = declared(
        None,
        "Send examples to at most k neighbours that they help; k:gradients: send gradients alone.",
        metavar="k",
        shown="none",
    )


@dataclass(frozen=True)
class RunOptions:
    """How the run is carried out."""

    passes: Count = declared(1, "Passes over the data.", metavar="n")
    seed: CountFromZero = declared(0, "Random seed.", metavar="n")
    engine: str = declared("local", "Where agents run.", names=engine_names, kinds=())
    workers: Count | None = declared(
        None, "Threads that read and learn, or Ray actors.", metavar="n", shown="one per core"
    )
    address: str | None = declared(
        None,
        "Address of a Ray cluster; auto: the one of this machine; local: start one for this run.",
        metavar="A",
        shown="RAY_ADDRESS, or local",
    )
    on_lost: Literal["end", "wait", "without"] = declared(
        "wait",
        "When a process is lost: end, wait for another, or go on without it.",
        metavar="WAY",
    )
    initial: str | None = declared(
        None, "Start from a saved model of the same algorithm.", metavar="MODEL"
    )


@dataclass(frozen=True)
class OutputOptions:
    """What the run leaves, and what it shows."""

    model: str | None = declared(None, "Write the model, for ddol predict.", metavar="OUT")
    predictions: str | None = declared(
        None,
        "Write what was predicted for every example before it was learned from.",
        metavar="FILE",
    )
    checkpoint: str | None = declared(None, "Folder of checkpoints, for --resume.", metavar="DIR")
    every: Count | None = declared(
        None, "Examples between checkpoints.", metavar="n", shown="1000000"
    )
    json: str | None = declared(
        None, "Write the results as JSON; - for standard output.", metavar="OUT"
    )
    report: str | None = declared(None, "Write a report with curves.", metavar="OUT.html")
    live: Annotated[int, Bounds(least=0, most=65535)] | None = declared(
        None,
        "Serve a page that shows the run while it goes on, on this machine only.",
        metavar="[PORT]",
        bare=0,
    )
    progress_json: str | None = declared(
        None,
        "Write progress as a line of JSON about every second; - for standard output.",
        metavar="FILE",
    )
    window: Count = declared(
        1000, "Show the error of the last n examples beside the error so far.", metavar="n"
    )
    record_weights: int | None = None
    resume: bool = declared(False, "Resume from the newest checkpoint.")
    quiet: bool = declared(False, "Show no progress.")
