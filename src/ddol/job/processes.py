"""The processes of a run: which of them speaks and writes, and what they must share."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, TextIO

from ddol.engines.kinds import ENGINES, engine_named
from ddol.job.job import Job
from ddol.storage import Warn
from ddol.streams.errors import DataError


class RunProcesses:
    """The processes of a run: one, or the ranks of MPI, of which the first talks and writes."""

    def __init__(self, job: Job, warn: Warn) -> None:
        self.ranks: Any = None
        self.warn_here = warn
        if not job.data.in_files:
            return  # every process was given all the data
        if engine_named(job.run.engine).can.replicated:
            from ddol.engines.mpi.ranks import open_ranks

            self.ranks = open_ranks(job.run.on_lost)
        else:
            check_alone(job.run.engine)

    @property
    def leads(self) -> bool:
        """Whether this is the one that talks and writes."""
        return self.ranks is None or bool(self.ranks.leads)

    @property
    def screen(self) -> TextIO | None:
        """Where the table is shown: by one process only."""
        return sys.stderr if self.leads else None

    def warn(self, text: str) -> None:
        """Print a warning, once for all."""
        if self.leads:
            self.warn_here(text)

    def check_same(self, options: dict[str, Any]) -> None:
        """Refuse to go on where the processes were given different options."""
        if self.ranks is not None:
            self.ranks.check_same(options)

    def own(self, n_agents: int) -> range | None:
        """Agents of this process, where there are several."""
        return None if self.ranks is None else self.ranks.own(n_agents)

    def gather(self, values: list[Any]) -> list[Any]:
        """The values of all processes."""
        if self.ranks is None:
            return values
        return [value for each in self.ranks.gather(values) for value in each]

    def from_leader(self, make: Callable[[], Any]) -> Any:
        """What one process makes, for all."""
        return make() if self.ranks is None else self.ranks.from_leader(make)

    def most(self, numbers: list[int]) -> list[int]:
        """The largest of every process's numbers, place by place."""
        return numbers if self.ranks is None else list(self.ranks.reduce(numbers))


def check_alone(engine: str) -> None:
    """Refuse to run N separate copies under mpiexec."""
    size = int(os.environ.get("OMPI_COMM_WORLD_SIZE", "1"))
    if size > 1:
        raise DataError(
            f"mpiexec started {size} ranks, but --engine is {engine}, which would run {size} copies; "
            f"use --engine {' or '.join(name for name, kind in ENGINES.items() if kind.can.replicated)}"
        )
