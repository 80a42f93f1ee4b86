"""The engines by name: an engine is a file of its own and one line here."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any, NamedTuple, Protocol

import numpy as np

from ddol.engines.state import State
from ddol.engines.worker import Snapshots
from ddol.streams.rows import Block


class Engine(Protocol):
    """Where rounds run. Engines differ in nothing that the result shows.

    One is opened with ``(algorithm, state, workers)``: where all agents sit, what they know, and the
    number of workers that is wished for, or None. The state is copied.
    """

    name: str
    workers: int

    def play(self, block: Block, after: Sequence[int] = ()) -> Snapshots:
        """Play the rounds of a block.

        Parameters
        ----------
        block : Block
        after : rising numbers from 0 to the block's rounds
            A snapshot is taken when so many rounds are played.
        """

    def state(self) -> State:
        """The state of all agents, in memory of its own."""

    def counters(self) -> State:
        """Counters of all agents, to be read only."""

    def weights(self) -> np.ndarray:
        """Primal weights of the copies: (copies, outputs, D)."""

    def close(self) -> None:
        """Give threads and communicators back."""


class EngineKind(NamedTuple):
    """An engine and who plays together on it: classes, or ``"module:class"`` to import them late."""

    engine: Any
    processes: Any = "ddol.engines.processes:SingleProcess"


ENGINES: dict[str, EngineKind] = {
    "local": EngineKind("ddol.engines.local:Local"),
    "threads": EngineKind("ddol.engines.threads:Threads"),
    "mpi": EngineKind("ddol.engines.mpi:Mpi", "ddol.engines.recovery:MpiGroup"),
}


def engine_named(name: str) -> EngineKind:
    """Find the classes of an engine.

    Examples
    --------
    >>> engine_named("local").engine.__name__
    'Local'
    """
    if name not in ENGINES:
        raise ValueError(f"unknown engine {name!r}; use one of {', '.join(ENGINES)}")
    return EngineKind(*(_imported(found) for found in ENGINES[name]))


def _imported(found: Any) -> Any:
    if not isinstance(found, str):
        return found
    module, _, attribute = found.partition(":")
    return getattr(import_module(module), attribute)
