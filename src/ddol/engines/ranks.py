"""The processes of an MPI job: who they are, how they agree, and how they end together."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any

import numpy as np

from ddol.engines.errors import RankLostError
from ddol.engines.mpi_calls import load
from ddol.engines.worker import split
from ddol.streams.errors import DataError

DONE = "DDOL_DONE"
"""Variable with the word by which a job tells `ddol launch` that it has done all it should."""

_STARTED_BY = ("OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "PMI_SIZE")


class Ranks:
    """The processes of the job that are alive, and this one's place among them.

    Parameters
    ----------
    comm : mpi4py.MPI.Intracomm
    """

    def __init__(self, comm: Any) -> None:
        self.comm = comm

    @property
    def rank(self) -> int:
        """Number of this process."""
        return int(self.comm.rank)

    @property
    def size(self) -> int:
        """Number of processes."""
        return int(self.comm.size)

    @property
    def leads(self) -> bool:
        """Whether this process is the one that prints and writes."""
        return self.rank == 0

    @property
    def survives(self) -> bool:
        """Whether the job goes on when a process dies: started with ``--with-ft ulfm``."""
        tolerant = os.environ.get("OMPI_MCA_mpi_ft_enable", "")  # noqa: SIM112, as Open MPI has it
        return tolerant in ("1", "true") and self.size > 1

    def shares(self, n_agents: int) -> list[tuple[int, int]]:
        """First agent and number of agents of every process."""
        if self.size > n_agents:
            raise DataError(
                f"found {self.size} ranks for {n_agents} agents, expected at most one rank for each; "
                f"use mpiexec -n {n_agents}, or --agents {self.size}"
            )
        return split(n_agents, self.size)

    def own(self, n_agents: int) -> range:
        """Agents of this process."""
        first, agents = self.shares(n_agents)[self.rank]
        return range(first, first + agents)

    def gather(self, value: Any) -> list[Any]:
        """Every process's value, in their order, on every process."""
        with self.watching():
            return list(self.comm.allgather(value))

    def most(self, numbers: list[int]) -> list[int]:
        """The largest of every process's numbers, place by place."""
        MPI = load()
        here = np.array(numbers, np.int64)
        with self.watching():
            self.comm.Allreduce(MPI.IN_PLACE, here, MPI.MAX)
        return [int(number) for number in here]

    def from_leader(self, make: Callable[[], Any]) -> Any:
        """What one process makes, on every process."""
        value = make() if self.leads else None
        with self.watching():
            return self.comm.bcast(value)

    def check_same(self, facts: Mapping[str, Any]) -> None:
        """Refuse to go on where processes were started with different options."""
        first, *others = self.gather(dict(facts))
        for number, other in enumerate(others, start=1):
            for name in sorted({*first, *other}):
                if first.get(name) != other.get(name):
                    raise DataError(
                        f"the ranks were started with different options: {name} is "
                        f"{first.get(name)} on rank 0 and {other.get(name)} on rank {number}; "
                        "start all of them with one mpiexec and the same options"
                    )

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Turn MPI's report of a dead process into `RankLostError`."""
        MPI = load()
        try:
            yield
        except MPI.Exception as error:
            raise self.error(error.Get_error_code()) from error

    def error(self, code: int) -> Exception:
        """What an MPI error code means."""
        MPI = load()
        if MPI.Get_error_class(code) in (MPI.ERR_PROC_FAILED, MPI.ERR_REVOKED):
            return RankLostError("another rank of the job has died")
        return RuntimeError(f"MPI failed: {MPI.Get_error_string(code)}")

    def abort(self, code: int) -> None:
        """End every process of the job at once, with an exit code."""
        sys.stdout.flush()
        sys.stderr.flush()
        load().COMM_WORLD.Abort(code)


_ranks: Ranks | None = None


def open_ranks() -> Ranks:
    """Return the processes of this job; start MPI where that has not been done yet.

    From then on an exception that nobody catches ends the whole job, not this process alone.
    """
    global _ranks
    if _ranks is None:
        if not any(name in os.environ for name in _STARTED_BY):
            raise DataError(
                "engine mpi was started without mpiexec; use mpiexec -n 4 ddol train … --engine mpi, "
                "or ddol launch -n 4 train …"
            )
        here = int(os.environ.get("OMPI_COMM_WORLD_LOCAL_SIZE", "1"))
        if here > (os.cpu_count() or 1):
            # A process that spins while it waits keeps the one it waits for from running.
            os.environ.setdefault("OMPI_MCA_mpi_yield_when_idle", "1")
        try:
            MPI = load()
        except ImportError as error:
            raise DataError(str(error)) from error
        # A copy, so that nothing else in the process can be mistaken for ours.
        _ranks = Ranks(MPI.COMM_WORLD.Dup())
        sys.excepthook = _end_job
    return _ranks


def _end_job(kind: type[BaseException], error: BaseException, where: TracebackType | None) -> None:
    traceback.print_exception(kind, error, where)
    assert _ranks is not None
    _ranks.abort(1)


def leave(code: int) -> None:
    """End this process's part in the job, if it has one: with an error, everybody's.

    Parameters
    ----------
    code
        Exit code; 0 says that all was done.
    """
    if _ranks is None:
        return
    if code != 0:
        _ranks.abort(code)
    if _ranks.leads and DONE in os.environ:
        print(os.environ[DONE], file=sys.stderr, flush=True)


def rank_of_job() -> int | None:
    """Rank of this process as mpiexec has set it, without starting MPI; None outside a job."""
    number = os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ.get("PMIX_RANK")
    return None if number is None else int(number)
