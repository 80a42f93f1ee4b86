"""What ``ddol train`` was asked for, as a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from ddol.cli.schedule_options import ScheduleOptions
from ddol.streams.store.files import read_once
from ddol.values import dataclass


def part_of(kind: Any, given: Mapping[str, Any]) -> Any:
    """Those of the given options that are fields of one kind; others keep their defaults.

    Examples
    --------
    >>> part_of(LearnOptions, {"agents": 3, "quiet": True}).agents
    3
    """
    return kind(**{k: v for k, v in given.items() if k in kind.__dataclass_fields__})


@dataclass(frozen=True)
class DataOptions:
    """Which examples, and how they are read. None is "not given"."""

    data: tuple[str, ...] = ()
    format: str | None = None
    header: bool | None = None
    label: str | None = None
    labels: tuple[float | str, ...] | None = None
    drop: tuple[str, ...] = ()
    weight: str | None = None
    missing: str = "error"
    interactions: tuple[str, ...] = ()
    features: int | None = None
    zero_based: bool = False
    bits: int | None = None
    on_bad_line: str = "stop"
    deal: str = "round-robin"
    holdout: float | None = None
    shuffle: bool = False
    limit: int | None = None
    intercept: bool = True
    experts: int | None = None
    answers: str | None = None
    id: str | None = None
    late: str | None = None

    @property
    def from_stdin(self) -> bool:
        """Whether examples come through a pipe, which can be read once only."""
        return any(map(read_once, self.data))


@dataclass(frozen=True)
class LearnOptions:
    """The algorithm and its network. None is "not given": the algorithm's own default."""

    algorithm: str = "adaptive"
    agents: int = 4
    topology: str = "complete"
    mixing: str | None = None
    loss: str | None = None
    task: str | None = None
    tau: float | None = None
    C: float | None = None
    radius: float | None = None
    memory: float | None = None
    rank: int | None = None
    rate: float | None = None
    alpha: float | None = None
    l1: float | None = None
    l2: float | None = None
    p: float | None = None
    average: str | None = None
    batch: int = 1
    period: int = 1
    delay: int = 0
    query: str | None = None
    talk: str | None = None
    compress: str | None = None
    talk_to: str | None = None
    teach: str | None = None

    @property
    def talks(self) -> bool:
        """Whether agents are told to choose what they send, which needs events."""
        return any(
            rule is not None for rule in (self.talk, self.compress, self.talk_to, self.teach)
        )


@dataclass(frozen=True)
class RunOptions:
    """How the run is carried out and what it leaves."""

    passes: int = 1
    seed: int = 0
    engine: str = "local"
    workers: int | None = None
    address: str | None = None
    on_lost: str = "wait"
    initial: str | None = None
    model: str | None = None
    predictions: str | None = None
    checkpoint: str | None = None
    every: int | None = None
    resume: bool = False
    json: str | None = None
    report: str | None = None
    live: int | None = None
    quiet: bool = False


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
        chosen = {f"--{name}": value for name, value in vars(self.learn).items()}
        chosen |= {f"--{name}": value for name, value in vars(self.data).items() if name != "data"}
        chosen |= {f"--{name}": value for name, value in vars(self.schedule).items()}
        chosen |= {"--passes": self.run.passes, "--seed": self.run.seed}
        chosen |= {"--initial": self.run.initial}
        plain = {name: list(v) if isinstance(v, tuple) else v for name, v in chosen.items()}
        return {name.replace("_", "-"): value for name, value in plain.items()}

    def progress(self) -> dict[str, Any]:
        """What decides when a run shows, saves or stops, which all of its processes must share."""
        names = ("checkpoint", "every", "resume", "quiet", "on_lost")
        return {f"--{name}": getattr(self.run, name) for name in names}
