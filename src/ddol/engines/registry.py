"""The engines by name: an engine is a file of its own and one line here."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any, Protocol

import numpy as np

from ddol.engines.setup import EngineKind
from ddol.engines.state import State
from ddol.engines.worker import Snapshots
from ddol.streams.rows import Block


class Engine(Protocol):
    """Where rounds run. Engines differ in nothing that the result shows.

    Its class has the method ``open(algorithm, state, setup)``: where all agents sit, what they know, which
    is copied, and what is wished for.
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


ENGINES: dict[str, EngineKind] = {
    "local": EngineKind("ddol.engines.local:Local"),
    "threads": EngineKind("ddol.engines.threads:Threads"),
    "mpi": EngineKind("ddol.engines.mpi:Mpi", "ddol.engines.recovery:MpiGroup"),
}


def engine_named(name: str | EngineKind) -> EngineKind:
    """Find the classes of an engine.

    Examples
    --------
    >>> engine_named("local").engine.__name__
    'Local'
    """
    if isinstance(name, EngineKind):
        return name
    if name not in ENGINES:
        raise ValueError(f"unknown engine {name!r}; use one of {', '.join(ENGINES)}")
    return EngineKind(*(_imported(found) for found in ENGINES[name]))


def _imported(found: Any) -> Any:
    if not isinstance(found, str):
        return found
    module, _, attribute = found.partition(":")
    return getattr(import_module(module), attribute)
