"""How a run is carried out: engine, workers, seed, schedule."""

from __future__ import annotations

from dataclasses import dataclass, field

from ddol.engines.kinds import Capabilities, EngineKind, engine_named
from ddol.schedules.schedule import Schedule


@dataclass(frozen=True)
class Setup:
    """How a run is carried out. What it computes is given by the algorithm.

    Parameters
    ----------
    engine : str or EngineKind
        A name in `ddol.engines.kinds.ENGINES`, or an engine of one's own.
    workers : int or None
        Threads, or actors; None for one per core.
    seed : int
        Of all that is drawn.
    n_features : int or None
        Needed beforehand by algorithms whose start depends on it, where streams do not know it.
    address : str or None
        Of a Ray cluster; None for what ``RAY_ADDRESS`` says, or one that is started for the run.
    on_lost : "end", "wait" or "without"
        What happens when a process is lost: the run ends, waits for another one in its place, or goes on
        without its agents.
    schedule : Schedule
        What happens when, where that is not rounds, and whether it is recorded.
    readers : int
        How many of the threads read while the others learn.
    """

    engine: str | EngineKind = "local"
    workers: int | None = None
    seed: int = 0
    n_features: int | None = None
    address: str | None = None
    on_lost: str = "wait"
    schedule: Schedule = field(default_factory=Schedule)
    readers: int = 0

    @property
    def can(self) -> Capabilities:
        """Capabilities of the engine."""
        return engine_named(self.engine).can

    @property
    def engine_name(self) -> str:
        """Name of the engine, for tables and traces."""
        return self.engine if isinstance(self.engine, str) else self.engine.name
