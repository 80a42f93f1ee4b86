"""Threads that meet inside compiled code: atomics, a barrier, and sums over workers.

Numba offers no atomics on the CPU, so they are made here of LLVM's own instructions.
On them stand a barrier of about 0.2 µs between two cores and the two calls by which
workers in one process communicate: :func:`threads_reduce` and :func:`threads_exchange`.

A worker that stops early for any reason must call :func:`abort`; the others then leave
their next or present barrier with `ABORTED` instead of waiting for ever.
All compiled code that calls each other is in this one file, because Numba's disk cache
does not notice edits in other files.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, NamedTuple

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import config
from numba.extending import intrinsic
from numpy.typing import NDArray

#: What a call returns: all well, stopped by another worker, or more than the memory holds.
#: MPI's own error codes are positive.
DONE, ABORTED, TOO_LONG = 0, -1, -2

# Words that several threads write are 128 bytes apart: two lines of x86, one of Apple's.
_LINE = 16
ABORT = 0

# More spins than this only steal time from the thread that is waited for.
_SPINS = 50

_sched_yield = types.ExternalFunction("sched_yield", types.int32())


def _element(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """LLVM pointer to element `args[1]` of the array or C pointer `args[0]`."""
    kind, value = signature.args[0], args[0]
    if isinstance(kind, types.Array):
        value = context.make_array(kind)(context, builder, value).data
    return builder.gep(value, [args[1]])


def _holds_words(kind: Any) -> bool:
    return isinstance(kind, types.Array | types.CPointer) and kind.dtype == types.int64


@intrinsic
def _fetch_add(typing, words, i, value):  # type: ignore[no-untyped-def]
    if not _holds_words(words):
        return None

    def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
        place = _element(context, builder, signature, args)
        return builder.atomic_rmw("add", place, args[2], "acq_rel")

    return types.int64(words, types.int64, types.int64), generate


@intrinsic
def _load(typing, words, i):  # type: ignore[no-untyped-def]
    if not _holds_words(words):
        return None

    def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
        place = _element(context, builder, signature, args)
        return builder.load_atomic(place, "acquire", 8)

    return types.int64(words, types.int64), generate


@intrinsic
def _store(typing, words, i, value):  # type: ignore[no-untyped-def]
    if not _holds_words(words):
        return None

    def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
        place = _element(context, builder, signature, args)
        builder.store_atomic(args[2], place, "release", 8)
        return context.get_dummy_value()

    return types.void(words, types.int64, types.int64), generate


@intrinsic
def _pause(typing):  # type: ignore[no-untyped-def]
    def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
        # Inline assembly would abort the interpreter; elsewhere than on x86 yielding is enough.
        if builder.module.triple.startswith(("x86", "i386", "i686", "amd64")):
            kind = ir.FunctionType(ir.VoidType(), [])
            builder.call(builder.module.declare_intrinsic("llvm.x86.sse2.pause", (), kind), [])
        return context.get_dummy_value()

    return types.void(), generate


def pointer_to(dtype: Any) -> Any:
    """Make the intrinsic that reads an address as a C pointer to `dtype`."""

    @intrinsic
    def pointer(typing, address):  # type: ignore[no-untyped-def]
        def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
            return builder.inttoptr(args[0], context.get_value_type(signature.return_type))

        return types.CPointer(dtype)(types.int64), generate

    return pointer


_words_at = pointer_to(types.int64)
_floats_at = pointer_to(types.float64)


@numba.njit(nogil=True, cache=True)
def atomic_add(words, i, value):  # type: ignore[no-untyped-def]
    """Add `value` to `words[i]` in one step and return what was there before.

    Parameters
    ----------
    words : int64 array or C pointer
        Memory that several threads share.
    i, value : int
        Which element, and what to add.

    Examples
    --------
    >>> words = np.array([5, 7])
    >>> atomic_add(words, 1, 3), words
    (7, array([ 5, 10]))
    """
    return _fetch_add(words, i, value)


@numba.njit(nogil=True, cache=True)
def atomic_load(words, i):  # type: ignore[no-untyped-def]
    """Read `words[i]`, and see all that its writer wrote before it (acquire).

    Examples
    --------
    >>> atomic_load(np.array([5, 7]), 1)
    7
    """
    return _load(words, i)


@numba.njit(nogil=True, cache=True)
def atomic_store(words, i, value):  # type: ignore[no-untyped-def]
    """Write `words[i]` after everything written before it (release).

    Examples
    --------
    >>> words = np.array([5, 7])
    >>> atomic_store(words, 1, 3)
    >>> words
    array([5, 3])
    """
    _store(words, i, value)


@numba.njit(nogil=True, cache=True)
def pause():  # type: ignore[no-untyped-def]
    """Tell the processor that this is a spin loop; does nothing but on x86."""
    _pause()


def new_control(n_workers: int) -> NDArray[np.int64]:
    """Return the words of a barrier: an abort flag and a count per worker, on lines of their own.

    Examples
    --------
    >>> barrier(new_control(1), 0, 1)
    0
    """
    return np.zeros((1 + n_workers) * _LINE, dtype=np.int64)


@numba.njit(nogil=True, cache=True)
def abort(control):  # type: ignore[no-untyped-def]
    """Make every present and later :func:`barrier` on `control` return `ABORTED`.

    Examples
    --------
    >>> control = new_control(2)
    >>> abort(control)
    >>> barrier(control, 0, 2) == ABORTED
    True
    """
    _store(control, ABORT, 1)


@numba.njit(nogil=True, cache=True)
def barrier(control, worker, n_workers):  # type: ignore[no-untyped-def]
    """Wait until `n_workers` threads are here: spin shortly, then yield the core.

    Every worker counts its own arrivals and waits until the others have counted as many: a line
    of memory travels once, where a common count would travel there and back.

    Parameters
    ----------
    control : int64 array or C pointer
        The words of :func:`new_control`, shared by the threads.
    worker : int
        Which of them this thread is.
    n_workers : int
        How many threads meet.

    Returns
    -------
    int
        `DONE`, or `ABORTED` as soon as a thread has called :func:`abort`. After an abort the
        counts are stale: the next run needs new words.

    Examples
    --------
    >>> barrier(new_control(1), 0, 1) == DONE
    True
    """
    mine = (1 + worker) * _LINE
    arrivals = _load(control, mine) + 1
    _store(control, mine, arrivals)
    for other in range(n_workers):
        spins = 0
        while _load(control, (1 + other) * _LINE) < arrivals:
            if _load(control, ABORT) != 0:
                return ABORTED
            if spins < _SPINS:
                spins += 1
                _pause()
            else:
                _sched_yield()
    return ABORTED if _load(control, ABORT) != 0 else DONE


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


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _offer(context, values, count):  # type: ignore[no-untyped-def]
    """Show `values` to the other workers and wait for theirs; return (status, slots).

    Two copies used in turn make one barrier enough: who writes a copy again has passed the
    barrier of the other copy, which each worker enters only when it has done reading this one.
    """
    n_workers, stride = context[N_WORKERS], context[STRIDE]
    slots = context[SLOTS] + 8 * n_workers * stride * context[PARITY]
    if count > stride:
        return TOO_LONG, slots
    mine = _floats_at(slots + 8 * stride * context[WORKER])
    for k in range(count):
        mine[k] = values[k]
    context[PARITY] = 1 - context[PARITY]
    if n_workers > 1:
        context[SENT] += count
    return barrier(_words_at(context[CONTROL]), context[WORKER], n_workers), slots


def threads_reduce(context, buffer, count):  # type: ignore[no-untyped-def]
    """Replace `buffer` by its sum over the workers, x_k ← Σ_w x_k^w.

    The sum runs in the order of the workers on every worker, so all hold the same bits.
    """
    status, slots = _offer(context, buffer, count)
    if status != DONE:
        return status
    first = _floats_at(slots)
    for k in range(count):
        buffer[k] = first[k]
    for w in range(1, context[N_WORKERS]):
        other = _floats_at(slots + 8 * context[STRIDE] * w)
        for k in range(count):
            buffer[k] += other[k]
    return DONE


def threads_reduce_max(context, buffer, count):  # type: ignore[no-untyped-def]
    """Replace `buffer` by its maximum over the workers, x_k ← max_w x_k^w."""
    status, slots = _offer(context, buffer, count)
    if status != DONE:
        return status
    for w in range(context[N_WORKERS]):
        other = _floats_at(slots + 8 * context[STRIDE] * w)
        for k in range(count):
            buffer[k] = max(buffer[k], other[k])
    return DONE


def threads_exchange(context, packed, count):  # type: ignore[no-untyped-def]
    """Wait until every worker has written its rows of `packed`, which all of them read.

    `packed` has two copies used in turn, for the reason given in `_offer`.
    """
    return barrier(_words_at(context[CONTROL]), context[WORKER], context[N_WORKERS])


_WORDS, _FLOATS = types.CPointer(types.int64), types.CPointer(types.float64)
_CALL = types.int64(_WORDS, _FLOATS, types.int64)


def compile_calls(reduce: Any, reduce_max: Any, exchange: Any) -> tuple[Any, Any, Any]:
    """Compile the three functions of a communicator to C functions, cached on disk."""
    if config.DISABLE_JIT:
        raise RuntimeError(
            "parallel engines run compiled code only; unset NUMBA_DISABLE_JIT or use engine='local'"
        )

    def compiled(function: Any) -> Any:
        return numba.cfunc(_CALL, cache=True, error_model="numpy")(function)

    return compiled(reduce), compiled(reduce_max), compiled(exchange)


@functools.cache
def threads_functions() -> tuple[Any, Any, Any]:
    """Compile the threads' reduce, reduce_max and exchange once per process."""
    return compile_calls(threads_reduce, threads_reduce_max, threads_exchange)


def threads_addresses() -> Addresses:
    """Return where the threads' communication functions are in memory.

    Examples
    --------
    >>> threads_addresses().reduce > 0
    True
    """
    return Addresses(*(function.address for function in threads_functions()))
