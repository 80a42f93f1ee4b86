"""Where rounds run: the compiled kernel, and the engines that host it."""

from __future__ import annotations

from typing import Any

from ddol.algorithm import Algorithm
from ddol.engines.local import Local
from ddol.engines.state import State

ENGINES = ("local", "threads", "mpi")


def open_engine(name: str, algorithm: Algorithm, state: State, workers: int | None) -> Any:
    """Start an engine by name; the others' modules are imported only when they are wanted."""
    if name == "local":
        return Local(algorithm, state)
    if name == "threads":
        from ddol.engines.threads import Threads

        return Threads(algorithm, state, workers)
    if name == "mpi":
        from ddol.engines.mpi import Mpi

        return Mpi(algorithm, state)
    raise ValueError(f"unknown engine {name!r}; use one of {', '.join(ENGINES)}")
