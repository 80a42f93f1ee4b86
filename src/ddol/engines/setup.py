"""How a run is carried out."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ddol.algorithm import Algorithm
from ddol.communicate.mixing import Changing
from ddol.engines.kinds import Capabilities, EngineKind, engine_named, require
from ddol.schedules.schedule import Schedule
from ddol.update.contract import ARRIVAL, KEPT


@dataclass(frozen=True)
class Setup:
    """How a run is carried out; what it computes is the algorithm's.

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

    def playing(self, algorithm: Algorithm) -> Setup:
        """The same for an algorithm, which may ask for events where everybody else plays rounds."""
        if not algorithm.chooses_messages or self.schedule.talks:
            return self
        require(self.engine, "talks", "a rule of `talk`, `compress`, `talk_to` or `teach`")
        return replace(self, schedule=replace(self.schedule, talks=True))

    def replayable(self, algorithm: Algorithm) -> Algorithm:
        """The algorithm as a recording says, or so that rounds recorded on any workers come again to the bit.

        Where all agents share one copy of the weights every worker adds up what its own agents say first, and
        another number of workers rounds differently; so each agent has a copy of its own.
        """
        replay = self.schedule.replay
        if replay is not None and replay.gradient:
            taken = ARRIVAL if algorithm.at_arrival else KEPT
            if algorithm.gradient is not None and taken != replay.gradient:
                raise ValueError(
                    f"the recording took gradients {replay.gradient!r}, `gradient` is "
                    f"{algorithm.gradient!r}; leave it out"
                )
            algorithm = replace(algorithm, gradient=replay.gradient)
        mixing, rounds = algorithm.mixing, self.schedule.record and not self.schedule.plays_events
        if not rounds or not self.can.parallel or algorithm.n_agents == 1:
            return algorithm
        if isinstance(mixing, Changing) or not mixing.is_uniform_complete:
            return algorithm
        return replace(algorithm, mixing=mixing.written_out())

    @property
    def in_real_time(self) -> bool:
        """Whether workers send messages when they like: of a size that must be known before the first."""
        return self.schedule.plays_events and self.can.real_time

    @property
    def can(self) -> Capabilities:
        """What the engine can do."""
        return engine_named(self.engine).can

    @property
    def engine_name(self) -> str:
        """Name of the engine, for tables and traces."""
        return self.engine if isinstance(self.engine, str) else self.engine.name
