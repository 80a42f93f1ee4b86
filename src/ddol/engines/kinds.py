"""The engines by name: an engine is a file of its own and one line here."""

from __future__ import annotations

from typing import Any, NamedTuple


class EngineKind(NamedTuple):
    """An engine and who plays together on it: classes, or ``"module:class"`` to import them late."""

    engine: Any
    processes: Any = "ddol.engines.groups.processes:SingleProcess"
    scheduled: Any = None
    """The engine for schedules other than rounds, if there is one."""

    @property
    def name(self) -> str:
        """The engine's own name."""
        return str(self.engine.name)


ENGINES: dict[str, EngineKind] = {
    "local": EngineKind(
        "ddol.engines.local:Local", scheduled="ddol.engines.events.scheduled:Scheduled"
    ),
    "threads": EngineKind(
        "ddol.engines.threads.rounds:Threads", scheduled="ddol.engines.threads.turns:AsyncThreads"
    ),
    "mpi": EngineKind("ddol.engines.mpi.rounds:Mpi", "ddol.engines.mpi.recovery:MpiGroup"),
    "ray": EngineKind(
        "ddol.engines.ray.rounds:Ray",
        "ddol.engines.ray.processes:Actors",
        "ddol.engines.ray.turns:AsyncRay",
    ),
}
