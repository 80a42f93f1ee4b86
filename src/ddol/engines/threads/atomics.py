"""A barrier and reductions between threads, in compiled code.

The barrier takes about 0.2 µs between two cores. On it stand the calls by which workers in one
process communicate: `threads_reduce`, `threads_reduce_max` and `threads_exchange`.

A worker that stops early for any reason must call `abort`; the others then leave their next or
present barrier with `ABORTED` instead of waiting for ever.
"""

# Signatures say the types of compiled functions.
# mypy: disable-error-code=no-untyped-def

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ddol.compiled import (
    INTERPRETED,
    Entry,
    atomic_load,
    atomic_store,
    entry,
    floats,
    inner,
    integers,
    pause,
    yield_core,
)

#: What a call returns: all well, stopped by another worker, or more than the memory holds.
#: MPI's own error codes are positive.
DONE, ABORTED, TOO_LONG = 0, -1, -2

# Words that several threads write are 128 bytes apart: two lines of x86, one of Apple's.
_LINE = 16
ABORT = 0

# More spins than this only steal time from the thread that is waited for.
_SPINS = 50

CALL = "int64(int64*, double*, int64)"


def new_control(n_workers: int) -> NDArray[np.int64]:
    """Return the words of a barrier: an abort flag and a count per worker, on lines of their own.

    Examples
    --------
    >>> barrier(new_control(1), 0, 1)
    0
    """
    return np.zeros((1 + n_workers) * _LINE, dtype=np.int64)


def abort(control: NDArray[np.int64]) -> None:
    """Make every present and later `barrier` on `control` return `ABORTED`.

    Examples
    --------
    >>> control = new_control(2)
    >>> abort(control)
    >>> barrier(control, 0, 2) == ABORTED
    True
    """
    control[ABORT] = 1


@inner
def barrier(control, worker, n_workers):
    """Wait until `n_workers` threads are here: spin shortly, then yield the core.

    Every worker counts its own arrivals and waits until the others have counted as many: a line
    of memory travels once, where a common count would travel there and back.

    Parameters
    ----------
    control : int64 array or C pointer
        The words of `new_control`, shared by the threads.
    worker : int
        Which of them this thread is.
    n_workers : int
        How many threads meet.

    Returns
    -------
    int
        `DONE`, or `ABORTED` as soon as a thread has called `abort`. After an abort the
        counts are stale: the next run needs new words.

    Examples
    --------
    >>> barrier(new_control(1), 0, 1) == DONE
    True
    """
    mine = (1 + worker) * _LINE
    arrivals = atomic_load(control, mine) + 1
    atomic_store(control, mine, arrivals)
    for other in range(n_workers):
        spins = 0
        while atomic_load(control, (1 + other) * _LINE) < arrivals:
            if atomic_load(control, ABORT) != 0:
                return ABORTED
            if spins < _SPINS:
                spins += 1
                pause()
            else:
                yield_core()
    return ABORTED if atomic_load(control, ABORT) != 0 else DONE


# --- Communication by shared memory -------------------------------------------------------
#
# Words of a worker's context; SENT has the same place in an MPI context.
CONTROL, N_WORKERS, WORKER, SLOTS, STRIDE, PARITY, SENT = range(7)


class Addresses(NamedTuple):
    """Addresses of a communicator's C functions, for a kernel that calls by address.

    All three are `int64 f(int64 *context, double *buffer, int64 count)` and return 0 when done.
    `reduce` and `reduce_max` replace `count` numbers by their sum and maximum over the workers.
    `exchange` brings rows of `count` numbers to the workers that need them.
    """

    reduce: int
    reduce_max: int
    exchange: int


@dataclass(frozen=True, slots=True)
class SharedMemory:
    """Memory by which the workers of one process communicate; keep it while they run.

    Attributes
    ----------
    control : int64 array
        The words of the barrier.
    slots : float64 array (2, workers, stride)
        What the workers offer to each other, in two copies used in turn.
    contexts : int64 array (workers, words)
        Row w is the context of worker w.
    """

    control: NDArray[np.int64]
    slots: NDArray[np.float64]
    contexts: NDArray[np.int64]


def share(n_workers: int, capacity: int) -> SharedMemory:
    """Allocate the memory by which `n_workers` threads reduce and exchange.

    Parameters
    ----------
    n_workers : int
        How many threads meet.
    capacity : int
        The largest number of doubles that a worker reduces in one call.

    Examples
    --------
    >>> share(n_workers=2, capacity=54).slots.shape
    (2, 2, 64)
    """
    if n_workers < 1 or capacity < 0:
        raise ValueError(
            "share: `n_workers` must be at least 1 and `capacity` at least 0, "
            f"got {n_workers} and {capacity}"
        )
    stride = -(-max(capacity, 1) // _LINE) * _LINE
    memory = SharedMemory(
        control=new_control(n_workers),
        slots=np.zeros((2, n_workers, stride)),
        contexts=np.zeros((n_workers, 2 * _LINE), dtype=np.int64),
    )
    for w, words in enumerate(memory.contexts):
        words[CONTROL] = memory.control.ctypes.data
        words[N_WORKERS] = n_workers
        words[WORKER] = w
        words[SLOTS] = memory.slots.ctypes.data
        words[STRIDE] = stride
    return memory


@inner
def _offer(context, values, count):
    """Show `values` to the other workers and wait for theirs; return (status, slots).

    Two copies used in turn make one barrier enough: who writes a copy again has passed the
    barrier of the other copy, which each worker enters only when it has done reading this one.
    """
    n_workers, stride = context[N_WORKERS], context[STRIDE]
    slots = context[SLOTS] + 8 * n_workers * stride * context[PARITY]
    if count > stride:
        return TOO_LONG, slots
    mine = floats(slots + 8 * stride * context[WORKER])
    for k in range(count):
        mine[k] = values[k]
    context[PARITY] = 1 - context[PARITY]
    if n_workers > 1:
        context[SENT] += count
    return barrier(integers(context[CONTROL]), context[WORKER], n_workers), slots


@entry(CALL)
def threads_reduce(context, buffer, count):
    """Replace `buffer` by its sum over the workers, x_k ← Σ_w x_k^w.

    The sum runs in the order of the workers on every worker, so all hold the same bits.
    """
    status, slots = _offer(context, buffer, count)
    if status != DONE:
        return status
    first = floats(slots)
    for k in range(count):
        buffer[k] = first[k]
    for w in range(1, context[N_WORKERS]):
        other = floats(slots + 8 * context[STRIDE] * w)
        for k in range(count):
            buffer[k] += other[k]
    return DONE


@entry(CALL)
def threads_reduce_max(context, buffer, count):
    """Replace `buffer` by its maximum over the workers, x_k ← max_w x_k^w."""
    status, slots = _offer(context, buffer, count)
    if status != DONE:
        return status
    for w in range(context[N_WORKERS]):
        other = floats(slots + 8 * context[STRIDE] * w)
        for k in range(count):
            buffer[k] = max(buffer[k], other[k])
    return DONE


@entry(CALL)
def threads_exchange(context, packed, count):
    """Wait until every worker has written its rows of `packed`, which all of them read.

    `packed` has two copies used in turn, for the reason given in `_offer`.
    """
    return barrier(integers(context[CONTROL]), context[WORKER], context[N_WORKERS])


def addresses(reduce: Entry, reduce_max: Entry, exchange: Entry) -> Addresses:
    """Compile the three functions of a communicator, and say where they are in memory."""
    if INTERPRETED:
        raise RuntimeError(
            "parallel engines run compiled code only; unset NUMBA_DISABLE_JIT or use engine='local'"
        )
    return Addresses(reduce.address, reduce_max.address, exchange.address)


def threads_addresses() -> Addresses:
    """Return where the threads' communication functions are in memory.

    Examples
    --------
    >>> threads_addresses().reduce > 0
    True
    """
    return addresses(threads_reduce, threads_reduce_max, threads_exchange)
