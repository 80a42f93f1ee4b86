"""The processes of an MPI job: their ranks, how they agree, and how they end together."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from ddol.engines.errors import RankLostError
from ddol.engines.mpi import messages
from ddol.engines.mpi.calls import CALLS, MpiContext, load, open_context, unload
from ddol.engines.mpi.heartbeat import Heartbeat, new_token
from ddol.engines.mpi.job import EXIT_MARK
from ddol.engines.threads.atomics import TOO_LONG
from ddol.engines.workers.partition import split
from ddol.streams.errors import DataError
from ddol.streams.over.parallel import usable_cores

if TYPE_CHECKING:
    from ddol.engines.groups.grouped import Neighbours
    from ddol.engines.groups.recovery import Copy

_PR_SET_PDEATHSIG = 1  # of Linux's prctl.h

# Open MPI declares a process dead after ten seconds without a sign of it.
_DETECTOR = {"": "1", "_thread": "1", "_period": "1.0", "_timeout": "10.0"}

_LONGEST_START = 120.0
"""Seconds from the first rank's call to the last one's, where a rank may be lost."""

_LONGEST_END = 10.0
"""Seconds from the first rank's end to the last one's, when all is done."""

_LONGEST_ABORT = 5.0
"""Seconds that ending every process may take."""

_STARTED_BY = ("OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "PMI_SIZE")


class Ranks:
    """The processes of the job that are alive, and this one's place among them.

    Parameters
    ----------
    comm : mpi4py.MPI.Intracomm
    """

    def __init__(self, comm: Any) -> None:
        self.comm = comm
        self._mpi = load()
        self._unwell = False
        self.numbers = list(range(self.size))
        """Ranks of the processes at the start of the job."""
        self.hosts = [""] * self.size
        self.heartbeat: Heartbeat | None = None

    def listen(self, on_lost: str) -> None:
        """Exchange heartbeats with the others from now on; all processes must call it."""
        heartbeat = Heartbeat(self.rank, on_lost, _give_up)
        addresses, token = self.gather(heartbeat.address), self.from_leader(new_token)
        self.hosts = [address.host for address in addresses]
        heartbeat.begin(addresses, token)
        self.heartbeat = heartbeat

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
        """Whether the job can go on without one of its processes."""
        return tolerant() and self.size > 1

    def all_well(self, here: bool) -> bool:
        """Whether all processes are alive and well; collective, with the same result everywhere.

        Processes call it when they have made a trace, and before anything else when they find one lost. After
        a no it must not be called again: it would wait for ever.
        """
        MPI = self._mpi
        try:
            with self._waiting():
                well = bool(self.comm.Agree(int(here)))
        except MPI.Exception:  # a process was lost
            well = False
        self._unwell = not well
        return well

    def shrink(self) -> None:
        """Go on with the processes that are left."""
        before = dict(zip(self.numbers, self.hosts, strict=True))
        with self.watching():
            self.comm.Revoke()  # wakes those who wait for us
            if not self._unwell:
                self.all_well(False)
            own = self.numbers[self.rank], self.hosts[self.rank]
            self.comm, self._unwell = self.comm.Shrink(), False
            self.numbers, self.hosts = map(list, zip(*messages.gather(self.comm, own), strict=True))
        if self.heartbeat is not None:
            self.heartbeat.keep(set(self.numbers))
        if cut_off(before, self.numbers):
            text = f"ddol: rank {own[0]} on {own[1]} is cut off from most of the job and ends"
            print(text, file=sys.stderr, flush=True)
            os._exit(1)
        if self.size == len(before):
            raise RuntimeError(
                "MPI failed though no rank has died; start again, with --resume if there is a "
                "checkpoint, and --debug to see more"
            )

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
            return messages.gather(self.comm, value)

    def gather_rows(self, own: np.ndarray, rows: Sequence[int]) -> np.ndarray:
        """Every process's rows of numbers, one after the other; `rows` says how many each has."""
        words = np.ascontiguousarray(own).reshape(-1).view(np.int64)
        each = int(np.prod(own.shape[1:]))
        with self.watching():
            found = messages.gather_words(self.comm, words, [n * each for n in rows])
        return np.concatenate(found).view(np.float64).reshape(-1, *own.shape[1:])

    def connect(self, near: Neighbours | None, agents: int, numbers: int) -> MpiContext:
        """Make what a kernel calls to meet those of other ranks; see `ddol.engines.groups.grouped.Group`."""
        rows = () if near is None else (near.rows_to, near.rows_from, agents, numbers, tolerant())
        with self.watching():
            context = open_context(self.comm, *rows)
        if self.heartbeat is not None:
            self.heartbeat.follow(context.words[CALLS : CALLS + 1])
        return context

    def snapshot(self, own: Copy) -> Copy:
        """Give a copy to another process, on another host if possible; return that of a third one."""
        after, before = circle(self.hosts, self.rank)
        with self.watching():
            given: Copy = messages.pass_on(self.comm, own, after, before)
        return given

    def restore(self, copy: Copy | None, holder: int, takers: Sequence[int]) -> Copy | None:
        """Send a copy from the process that has it to the others."""
        found: Copy = self.from_one(copy, holder)
        return found

    def reduce(self, numbers: list[int]) -> list[int]:
        """The largest of every process's numbers, place by place."""
        with self.watching():
            found = messages.gather_numbers(self.comm, np.array(numbers, np.int64))
        return [int(number) for number in found.max(axis=0)]

    def from_one(self, value: Any, rank: int) -> Any:
        """The value of one process, on every process."""
        with self.watching():
            return messages.broadcast(self.comm, value, rank)

    def from_leader(self, make: Callable[[], Any]) -> Any:
        """Let the first process make a value, and return it on every process."""
        return self.from_one(make() if self.leads else None, 0)

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
        """Turn MPI's report of a dead process into `RankLostError`, and report ranks that are waited for."""
        MPI = self._mpi
        try:
            with self._waiting():
                yield
        except MPI.Exception as error:
            raise self.error(error.Get_error_code()) from error
        except messages.DamagedMessageError as error:
            kind = RankLostError if self.survives else RuntimeError
            raise kind(f"MPI failed: {error}") from error

    def _waiting(self) -> AbstractContextManager[None]:
        """Report the ranks that are waited for."""
        return nullcontext() if self.heartbeat is None else self.heartbeat.waiting()

    def error(self, code: int) -> Exception:
        """The exception for an error code of MPI."""
        MPI = self._mpi
        if code == TOO_LONG:
            return RuntimeError("found more numbers to exchange than MPI can count; use --bits")
        reason = MPI.Get_error_string(code)
        lost = MPI.Get_error_class(code) in (MPI.ERR_PROC_FAILED, MPI.ERR_REVOKED)
        # Now and then Open MPI calls it by another name; `shrink` finds out who is missing.
        if lost or self.survives:
            return RankLostError(reason)
        return RuntimeError(f"MPI failed: {reason}")

    def abort(self, code: int) -> None:
        """End every process of the job at once, with an exit code."""
        report_exit_code(code)
        # Where no process answers any more, it would wait for ever.
        end = threading.Timer(_LONGEST_ABORT, os._exit, (code,))
        end.daemon = True
        end.start()
        self._mpi.COMM_WORLD.Abort(code)


def cut_off(before: Mapping[int, str], left: Sequence[int]) -> bool:
    """Whether the ranks that are left are the smaller part of a job whose network has come apart.

    Who has lost whole hosts cannot know whether they are dead or go on without us; of two halves the one
    with the first rank goes on, so that never both do.

    Parameters
    ----------
    before : dict of rank to host
    left : ranks

    Examples
    --------
    >>> hosts = {0: "a", 1: "a", 2: "b", 3: "b"}
    >>> [cut_off(hosts, left) for left in ([0, 1], [2, 3], [1, 2, 3], [2])]
    [False, True, False, True]
    """
    if {before[rank] for rank in left} == set(before.values()):
        return False
    half = len(before) / 2
    return len(left) < half or (len(left) == half and min(before) not in left)


def circle(hosts: Sequence[str], rank: int) -> tuple[int, int]:
    """Ranks after and before one in a circle in which neighbours are on different hosts.

    It is so wherever no host has more than half of the ranks.

    Examples
    --------
    >>> [circle(["a", "a", "b", "b"], rank) for rank in range(4)]
    [(2, 2), (3, 3), (0, 0), (1, 1)]
    >>> circle(["a", "a", "a"], 0)
    (1, 2)
    """
    size, most = len(hosts), max(Counter(hosts).values())
    order = sorted(range(size), key=lambda r: (hosts[r], r))
    place, step = order.index(rank), most if most < size else 1
    return order[(place + step) % size], order[(place - step) % size]


_ranks: Ranks | None = None


def open_ranks(on_lost: str = "wait") -> Ranks:
    """Return the processes of this job; start MPI where that has not been done yet.

    From then on an exception that is not caught ends the whole job, not this process alone.

    Parameters
    ----------
    on_lost : "end", "wait" or "without"
        What to do about a process without heartbeats; the first call decides.
    """
    global _ranks
    if _ranks is None:
        if not any(name in os.environ for name in _STARTED_BY):
            raise DataError(
                "engine mpi was started without mpiexec; use mpiexec -n 4 ddol train … --engine mpi, "
                "or ddol launch -n 4 train …"
            )
        _tune(on_lost)
        _end_with_parent()
        try:
            with _watching_the_start():
                MPI = load()
        except ImportError as error:
            raise DataError(str(error)) from error
        world = Ranks(MPI.COMM_WORLD)
        with world.watching():
            # A copy, so that nothing else in the process can be mistaken for ours.
            _ranks = Ranks(world.comm.Dup())
        _ranks.listen(on_lost)
        sys.excepthook = _end_job
    return _ranks


def tolerant() -> bool:
    """Whether MPI goes on when a process dies: started with ``--with-ft ulfm``."""
    given = os.environ.get("OMPI_MCA_mpi_ft_enable", "")  # noqa: SIM112, as Open MPI has it
    return given in ("1", "true")


def _end_with_parent() -> None:
    """Let the system end this process when the one that started it is killed."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if (
        EXIT_MARK in os.environ and os.getppid() == 1
    ):  # it was killed before, and MPI would wait for it
        os._exit(1)


def _give_up(reason: str) -> None:
    """End this process, whose main thread waits for ever; the others find out by themselves."""
    if reason:
        text = f"ddol: {reason}; the job ends, go on with --resume if there is a checkpoint"
        print(text, file=sys.stderr)
        report_exit_code(1)
        time.sleep(1.0)  # mpiexec passes on what was said before, as long as this process lives
    os._exit(1)


def report_exit_code(code: int) -> None:
    """Send `ddol launch` the exit code of the job: mpiexec may wait for a host that is gone."""
    sys.stdout.flush()
    if EXIT_MARK in os.environ:
        print(f"{os.environ[EXIT_MARK]} {code}", file=sys.stderr)
    sys.stderr.flush()


def _tune(on_lost: str) -> None:
    """Set what Open MPI reads when it starts, unless it is set already."""
    if on_lost == "without":
        for name, value in _DETECTOR.items():
            os.environ.setdefault(f"OMPI_MCA_mpi_ft_detector{name}", value)
        # One that was called dead and comes back is ended by Open MPI, in a sentence and a page of addresses.
        os.environ.setdefault("OMPI_MCA_opal_stacktrace_output", "none")
    here = int(os.environ.get("OMPI_COMM_WORLD_LOCAL_SIZE", "1"))
    # A process that only spins while it waits keeps others from running: its own thread that parses, or
    # the process it waits for.
    os.environ.setdefault("OMPI_MCA_mpi_yield_when_idle", "1")
    if here == int(os.environ.get("OMPI_COMM_WORLD_SIZE", "0")):
        # Looking for networks takes libfabric a second, and on one host there is no need.
        os.environ.setdefault("OMPI_MCA_btl", "^ofi")


@contextmanager
def _watching_the_start() -> Iterator[None]:
    """End this process where another one has died before MPI has started.

    MPI would wait for it for ever; from its start on, it notices.
    """
    started = threading.Event()
    if tolerant():
        threading.Thread(target=_watch_the_start, args=(started,), daemon=True).start()
    try:
        yield
    finally:
        started.set()


def _watch_the_start(started: threading.Event) -> None:
    expected = int(os.environ.get("OMPI_COMM_WORLD_LOCAL_SIZE", "1"))
    began, missed = time.monotonic(), 0
    while not started.wait(0.2):
        missed = missed + 1 if 0 < _ranks_here() < expected else 0
        # All are forked at about the same time.
        if missed > 10 or time.monotonic() - began > _LONGEST_START:
            text = "ddol: a rank died while the job was starting; start it again"
            print(text, file=sys.stderr, flush=True)
            os._exit(1)


def _ranks_here() -> int:
    """Number of processes of the job on this host, 0 where the system does not say."""
    with suppress(OSError):
        launcher = os.getppid()
        while b"OMPI_COMM_WORLD_RANK=" in Path(f"/proc/{launcher}/environ").read_bytes():
            launcher = int(Path(f"/proc/{launcher}/stat").read_text().rsplit(")", 1)[1].split()[1])
        lists = Path(f"/proc/{launcher}/task").glob("*/children")
        return sum(len(each.read_text().split()) for each in lists)
    return 0


def _end_job(kind: type[BaseException], error: BaseException, where: TracebackType | None) -> None:
    traceback.print_exception(kind, error, where)
    assert _ranks is not None
    _ranks.abort(1)


def leave(code: int) -> None:
    """End this process's part in the job, if it has one: with an error, the whole job.

    Parameters
    ----------
    code
        Exit code; 0 says that all was done.
    """
    if _ranks is None:
        return
    if code != 0:
        _ranks.abort(code)
    if _ranks.leads:
        report_exit_code(0)
    if tolerant():
        # Ending MPI waits for all ranks, for ever if one is lost just then.
        sys.stdout.flush()
        end = threading.Timer(_LONGEST_END, os._exit, (0,))
        end.daemon = True
        end.start()
        unload()
        end.cancel()


def cores_of_rank() -> int:
    """Cores that this process has for itself."""
    here = int(os.environ.get("OMPI_COMM_WORLD_LOCAL_SIZE", "1"))
    cores = os.cpu_count() or 1
    # mpiexec may have bound it to some of them.
    return max(1, min(usable_cores(), cores // here))
