"""The engines by name, each with what it can do. An engine is a file of its own and one entry here."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from ddol.engines.errors import SetupError


@dataclass(frozen=True)
class Capabilities:
    """What an engine can do beyond playing rounds. An engine declares all that it can.

    Nothing else in ddol depends on an engine's name.

    Parameters
    ----------
    in_process : bool
        This process reads the streams and holds every agent.
    parallel : bool
        Several workers play at the same time.
    predictions : bool
        Rounds return the scores with which single examples were predicted.
    asks : bool
        Agents can ask their neighbours for answers.
    talks : bool
        Agents can choose what they send (`talk`, `compress`, `talk_to`, `teach`).
    schedules : tuple of str
        Schedules besides rounds.
    clock : bool
        Schedules run on a virtual clock: they repeat to the bit, with conditions, recordings and lists of
        one's own. Without it they run in real time.
    replicated : bool
        Every process runs the whole program (as MPI does), and all of them must agree on what they do.
    cluster : bool
        Workers are on a cluster that has an address.

    Examples
    --------
    >>> Capabilities(schedules=("async",)).real_time
    True
    """

    in_process: bool = True
    parallel: bool = False
    predictions: bool = False
    asks: bool = False
    talks: bool = False
    schedules: tuple[str, ...] = ()
    clock: bool = False
    replicated: bool = False
    cluster: bool = False

    @property
    def real_time(self) -> bool:
        """Whether schedules run in real time: messages have a size that must be known beforehand."""
        return bool(self.schedules) and not self.clock

    @property
    def remote(self) -> bool:
        """Whether workers elsewhere read the streams and play them, and this process only watches."""
        return not (self.in_process or self.replicated)

    @property
    def certificate(self) -> bool:
        """Whether rounds can have a regret certificate, which follows from their scores."""
        return self.predictions


_MEANINGS = {
    "in_process": "keeps all agents in one process",
    "predictions": "returns the scores of single examples",
    "certificate": "returns the scores of single examples",
    "asks": "lets agents ask their neighbours",
    "talks": "lets agents choose what they send",
    "schedules": "plays schedules other than rounds",
    "clock": "runs schedules on a virtual clock",
}


@dataclass(frozen=True)
class EngineKind:
    """An engine and what it can do. Classes may be given as ``"module:class"``, to be imported when needed.

    Parameters
    ----------
    engine : class
        See `ddol.engines.registry.Engine`.
    processes : class
        The processes that play a run on it, see `ddol.engines.processes.Processes`; one if not given.
    can : Capabilities
    """

    engine: Any
    processes: Any = "ddol.engines.processes:SingleProcess"
    can: Capabilities = field(default_factory=Capabilities)

    @property
    def name(self) -> str:
        """The engine's own name."""
        return str(self.engine.name)


ENGINES: dict[str, EngineKind] = {
    "local": EngineKind(
        "ddol.engines.local:Local",
        can=Capabilities(
            predictions=True,
            asks=True,
            talks=True,
            schedules=("async", "push-sum", "gossip", "walk"),
            clock=True,
        ),
    ),
    "threads": EngineKind(
        "ddol.engines.threads.rounds:Threads",
        can=Capabilities(
            parallel=True, predictions=True, asks=True, talks=True, schedules=("async",)
        ),
    ),
    "mpi": EngineKind(
        "ddol.engines.mpi.rounds:Mpi",
        "ddol.engines.mpi.rounds:MpiProcesses",
        can=Capabilities(in_process=False, parallel=True, replicated=True),
    ),
    "ray": EngineKind(
        "ddol.engines.ray.rounds:Ray",
        can=Capabilities(in_process=False, parallel=True, schedules=("async",), cluster=True),
    ),
}


def engine_named(name: str | EngineKind) -> EngineKind:
    """Find an engine, of which nothing is imported yet.

    Examples
    --------
    >>> engine_named("threads").can.parallel
    True
    """
    if isinstance(name, EngineKind):
        return name
    if name not in ENGINES:
        raise ValueError(f"unknown engine {name!r}; use one of {', '.join(ENGINES)}")
    return ENGINES[name]


def imported(found: Any) -> Any:
    """A part of an engine, which may be given as ``"module:class"``."""
    if not isinstance(found, str):
        return found
    module, _, attribute = found.partition(":")
    return getattr(import_module(module), attribute)


def require(engine: str | EngineKind, capability: str, what: str) -> None:
    """Refuse what an engine cannot do, in one sentence that says which engines can.

    Parameters
    ----------
    engine : str or EngineKind
    capability : str
        A name of `Capabilities`.
    what : str
        What needs it.

    Examples
    --------
    >>> require("mpi", "predictions", "--predictions")
    Traceback (most recent call last):
    ddol.engines.errors.SetupError: --predictions needs an engine that returns the scores of single
    examples, which mpi does not; use local or threads
    """
    kind = engine_named(engine)
    if getattr(kind.can, capability):
        return
    name = engine if isinstance(engine, str) else kind.name
    able = [other for other, known in ENGINES.items() if getattr(known.can, capability)]
    raise SetupError(
        f"{what} needs an engine that {_MEANINGS[capability]}, which {name} does not; "
        f"use {' or '.join([', '.join(able[:-1]), able[-1]] if able[:-1] else able)}"
    )
