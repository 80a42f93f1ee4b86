"""MPI from compiled code: a kernel sums and exchanges without returning to Python.

The addresses of the C functions and all handles travel as integers in one int64 array, the
*context*. So the compiled code names no MPI symbol, is kept on disk like any other, and
loads on a machine without MPI. Nothing here imports mpi4py before `load`.

The communicators return their error codes (`ERRORS_RETURN`): a call that meets a lost rank
gives a nonzero status to the kernel, which stops, and Python decides what to do.
"""

# Signatures say the types of compiled functions.
# mypy: disable-error-code=no-untyped-def

from __future__ import annotations

import ctypes
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddol.compiled import address_of, call_int32, entry, floats, inner, integers, ints
from ddol.engines.threads.atomics import ABORTED, CALL, DONE, SENT, TOO_LONG, Addresses, addresses

# Words of a context; SENT (6) has the same place in a context of threads.
ALLREDUCE, ALLTOALLV, IN_PLACE, DOUBLE, SUM, MAX = range(6)
COMM, NEIGHBOURS, ABORT, N_DESTINATIONS, N_SOURCES, N_RANKS = range(SENT + 1, SENT + 7)
SENT_ROWS, N_SENT_ROWS, OUTBOX, ROOM, GHOSTS, CALLS = range(SENT + 7, SENT + 13)

# Six tables follow, each of the number of destinations or sources in words: rows to each
# destination, rows from each source, then the four int32 tables that MPI reads.
_TABLES = 32

# MPI counts in C's int.
_MOST = 2**31 - 1


def load() -> Any:
    """Import mpi4py's `MPI` and start MPI, or say what to install.

    Raises
    ------
    ImportError
        mpi4py or the MPI library it needs is not installed.

    Examples
    --------
    >>> load().COMM_WORLD.size  # doctest: +SKIP
    1
    """
    try:
        import mpi4py

        if "mpi4py.MPI" not in sys.modules:
            mpi4py.rc.initialize, mpi4py.rc.finalize = False, True
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:  # RuntimeError: mpi4py found no MPI library
        reason = str(error).splitlines()[0]
        raise ImportError(
            f"engine 'mpi' needs mpi4py and an MPI library ({reason}); pip install ddol[mpi]"
        ) from error
    if not MPI.Is_initialized():
        level = ctypes.byref(ctypes.c_int())
        _library(MPI).MPI_Init_thread(None, None, MPI.THREAD_MULTIPLE, level)
        for comm in (MPI.COMM_WORLD, MPI.COMM_SELF):
            comm.Set_errhandler(MPI.ERRORS_RETURN)
    return MPI


def unload() -> None:
    """End MPI, which waits for all ranks, where it has been started."""
    MPI = sys.modules.get("mpi4py.MPI")
    if MPI is not None and MPI.Is_initialized() and not MPI.Is_finalized():
        _library(MPI).MPI_Finalize()


def _library(MPI: Any) -> ctypes.CDLL:
    """The MPI library that mpi4py uses, and no other; its calls release the interpreter's lock.

    mpi4py keeps the lock while MPI starts and ends, so that no thread could watch it.
    """
    return ctypes.CDLL(MPI.__file__)  # finds what its dependencies hold


@dataclass(frozen=True, slots=True)
class MpiContext:
    """The memory and communicators that compiled code needs of MPI; keep it while kernels run.

    Attributes
    ----------
    words : int64 array
        The context of :func:`mpi_reduce` and :func:`mpi_exchange`.
    comm, graph : mpi4py communicators
        Private copies of the user's communicator, of all ranks and of the neighbours only;
        `graph` is None where no neighbours were named, or where ranks may be lost.
    memory : arrays
        What the words point to.
    """

    words: NDArray[np.int64]
    comm: Any
    graph: Any
    memory: tuple[NDArray[Any], ...] = ()

    @property
    def addresses(self) -> Addresses:
        """Where the functions are that take this context."""
        return mpi_addresses()

    @property
    def context(self) -> int:
        """Where the words are."""
        return int(self.words.ctypes.data)

    @property
    def sent(self) -> int:
        """Numbers that this rank has given to MPI for others so far."""
        return int(self.words[SENT])

    def revoke(self) -> None:
        """Wake every rank that waits in a call on this context; needs `mpiexec --with-ft ulfm`."""
        for communicator in (self.comm, self.graph):
            if communicator is not None:
                communicator.Revoke()

    def free(self) -> None:
        """Free both communicators; all ranks must call it."""
        for communicator in (self.graph, self.comm):
            if communicator is not None:
                communicator.Free()


def open_context(
    comm: Any,
    rows_to: Mapping[int, Sequence[int]] | None = None,
    rows_from: Mapping[int, int] | None = None,
    ghosts: int = 0,
    row_length: int = 0,
    tolerant: bool = False,
) -> MpiContext:
    """Make the context by which this rank reduces and exchanges; all ranks must call it.

    Parameters
    ----------
    comm : mpi4py.MPI.Intracomm
        The ranks that work together; it is copied and not changed.
    rows_to : mapping of rank to rows, optional
        Which rows go to which rank. If one rank gives it all must, also those that send nothing.
    rows_from : mapping of int to int, optional
        How many rows come from which rank.
    ghosts : int
        Row at which they are put, one after the other in the order of their ranks.
    row_length : int
        Most numbers in a row.
    tolerant : bool
        Whether ranks may be lost (`mpiexec --with-ft ulfm`). Open MPI's communicators with a
        topology may deadlock then, so all ranks are named, most of them with nothing to send.

    Examples
    --------
    >>> from mpi4py import MPI  # doctest: +SKIP
    >>> open_context(MPI.COMM_WORLD, {1: [0]}, {1: 2}, ghosts=4, row_length=54)  # doctest: +SKIP
    """
    MPI = load()
    copy, graph = comm.Dup(), None
    copy.Set_errhandler(MPI.ERRORS_RETURN)
    exchanges = rows_to is not None and rows_from is not None
    rows_to, rows_from = rows_to or {}, rows_from or {}
    named = range(copy.size) if exchanges and tolerant else ()
    rows_to = {rank: rows_to.get(rank, ()) for rank in sorted({*rows_to, *named})}
    rows_from = {rank: rows_from.get(rank, 0) for rank in sorted({*rows_from, *named})}
    if exchanges and not tolerant:
        graph = copy.Create_dist_graph_adjacent(list(rows_from), list(rows_to), reorder=False)
        graph.Set_errhandler(MPI.ERRORS_RETURN)
    sent = np.array([row for rows in rows_to.values() for row in rows], dtype=np.int64)
    outbox = np.empty(len(sent) * row_length)
    counts = [*map(len, rows_to.values()), *rows_from.values()]
    words = np.zeros(_TABLES + 3 * len(counts), dtype=np.int64)
    _fill_in_mpi(words, copy, (graph or copy) if exchanges else None, tolerant)
    words[N_DESTINATIONS], words[N_SOURCES] = len(rows_to), len(rows_from)
    words[N_RANKS] = copy.size
    words[SENT_ROWS], words[N_SENT_ROWS] = sent.ctypes.data, len(sent)
    words[OUTBOX], words[ROOM], words[GHOSTS] = outbox.ctypes.data, row_length, ghosts
    words[_TABLES : _TABLES + len(counts)] = counts
    return MpiContext(words, copy, graph, (sent, outbox))


def _fill_in_mpi(words: NDArray[np.int64], comm: Any, neighbours: Any, tolerant: bool) -> None:
    """Write the addresses of MPI's functions and its handles to the words of a context."""
    MPI = load()
    library = _library(MPI)

    def place(name: str) -> int:
        return ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0

    words[ALLREDUCE] = place("MPI_Allreduce")
    # Both take the same arguments.
    words[ALLTOALLV] = place("MPI_Alltoallv" if tolerant else "MPI_Neighbor_alltoallv")
    words[IN_PLACE] = int(MPI.IN_PLACE)
    handles = {DOUBLE: MPI.DOUBLE, SUM: MPI.SUM, MAX: MPI.MAX, COMM: comm}
    if neighbours is not None:
        handles[NEIGHBOURS] = neighbours
    for word, thing in handles.items():
        words[word] = MPI._handleof(thing)


@inner
def _allreduce(context, buffer, count, operation):
    if context[ABORT] != 0:
        return ABORTED
    if count > _MOST:
        return TOO_LONG
    if context[N_RANKS] == 1:
        return DONE
    context[SENT] += count
    context[CALLS] += 1  # odd in a call: another thread looks for how long
    status = call_int32(
        context[ALLREDUCE],
        (
            context[IN_PLACE],
            address_of(buffer, 0),
            count,
            context[DOUBLE],
            operation,
            context[COMM],
        ),
    )
    context[CALLS] += 1
    return status


@inner
def _scale(rows, n, row_length, counts, starts):
    """Turn rows per neighbour into doubles per neighbour and where each begins."""
    start = 0
    for j in range(n):
        counts[j] = rows[j] * row_length
        starts[j] = start
        start += rows[j] * row_length
    return start


@entry(CALL)
def mpi_reduce(context, buffer, count):
    """Replace `buffer` by its sum over the ranks; return 0 or MPI's error code."""
    return _allreduce(context, buffer, count, context[SUM])


@entry(CALL)
def mpi_reduce_max(context, buffer, count):
    """Replace `buffer` by its maximum over the ranks; return 0 or MPI's error code."""
    return _allreduce(context, buffer, count, context[MAX])


@inner
def _fill_outbox(context, packed, count):
    """Copy the rows that others need one after the other, and return where they are."""
    rows, outbox = integers(context[SENT_ROWS]), floats(context[OUTBOX])
    for j in range(context[N_SENT_ROWS]):
        for k in range(count):
            outbox[j * count + k] = packed[rows[j] * count + k]
    return context[OUTBOX]


@entry(CALL)
def mpi_exchange(context, packed, count):
    """Send rows of `packed` to the ranks that need them and fetch the ghosts; 0 or MPI's error."""
    if context[ABORT] != 0:
        return ABORTED
    if context[NEIGHBOURS] == 0:
        return DONE
    if count > context[ROOM]:
        return TOO_LONG
    n_to, n_from = context[N_DESTINATIONS], context[N_SOURCES]
    rows_to = address_of(context, 0) + 8 * _TABLES
    rows_from = rows_to + 8 * n_to
    to_counts = rows_from + 8 * n_from
    to_starts = to_counts + 8 * n_to
    from_counts = to_starts + 8 * n_to
    from_starts = from_counts + 8 * n_from
    sent = _scale(integers(rows_to), n_to, count, ints(to_counts), ints(to_starts))
    received = _scale(integers(rows_from), n_from, count, ints(from_counts), ints(from_starts))
    if max(sent, received) > _MOST:
        return TOO_LONG
    context[SENT] += sent
    double = context[DOUBLE]
    ghosts = address_of(packed, 0) + 8 * context[GHOSTS] * count
    outgoing = (_fill_outbox(context, packed, count), to_counts, to_starts, double)
    incoming = (ghosts, from_counts, from_starts, double)
    context[CALLS] += 1
    status = call_int32(context[ALLTOALLV], outgoing + incoming + (context[NEIGHBOURS],))
    context[CALLS] += 1
    return status


def mpi_addresses() -> Addresses:
    """Return where the ranks' communication functions are in memory; needs no MPI.

    Examples
    --------
    >>> mpi_addresses().reduce > 0
    True
    """
    return addresses(mpi_reduce, mpi_reduce_max, mpi_exchange)
