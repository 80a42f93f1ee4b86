"""Barriers and sums over real threads, from compiled code."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable

import numpy as np
import pytest

from ddol.compiled import INTERPRETED, atomic_add, atomic_load, call_int, entry, floats
from ddol.engines.threads import atomics
from patience import LONG

compiled = pytest.mark.skipif(INTERPRETED, reason="atomics exist in compiled code only")


@entry("int64(int64*, int64, int64, int64*, int64)")
def meet_at(control, worker, n_workers, shared, times):
    wrong = 0
    for t in range(times):
        atomic_add(shared, t % 2, 1)
        if atomics.barrier(control, worker, n_workers) != 0:
            return -1
        # Two sums in turn: the other one is added to before anyone is back at this one.
        if atomic_load(shared, t % 2) != n_workers * (t // 2 + 1):
            wrong += 1
    return wrong


def meet(control, worker, n_workers, shared, times):
    """Add 1 to a sum per generation and count the generations that were not whole."""
    return meet_at(control.ctypes.data, worker, n_workers, shared.ctypes.data, times)


@entry("int64(int64, int64, int64, int64, int64, int64, double)")
def reduce_at(address, context, buffer, n, sums, rows, scale):
    for t in range(rows):
        row = sums + 8 * n * t
        for k in range(n):
            floats(row)[k] = floats(buffer)[k] * (scale * t + 1)
        status = call_int(address, (context, row, n))
        if status != 0:
            return status
    return 0


def reduce_often(address, context, buffer, sums, scale):
    """Reduce `buffer * (t + 1)` for each row t of `sums` and keep the results."""
    places = [array.ctypes.data for array in (context, buffer, sums)]
    return reduce_at(address, places[0], places[1], len(buffer), places[2], len(sums), scale)


@entry("int64(int64, int64, int64, int64, int64, int64)")
def exchange_at(address, context, packed, n, own, times):
    wrong = 0
    for t in range(times):
        now = packed + 8 * n * (t % 2)
        floats(now)[own] = t
        if call_int(address, (context, now, 1)) != 0:
            return -1
        for k in range(n):
            wrong += floats(now)[k] != t
    return wrong


def exchange_often(address, context, packed, own, times):
    """Write a row, exchange, and count rows of others that are not as new as this one."""
    n = packed.shape[1]
    return exchange_at(address, context.ctypes.data, packed.ctypes.data, n, own, times)


def in_threads(n: int, work: Callable[[int], int]) -> list[int]:
    """Run `work(w)` in n threads, and return what each returned."""
    results = [-99] * n

    def keep(w: int) -> None:
        results[w] = work(w)

    threads = [threading.Thread(target=keep, args=(w,), daemon=True) for w in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG)
    assert not any(thread.is_alive() for thread in threads), "a thread never came back"
    return results


@entry("int64(int64*)")
def add_often(words):
    for _ in range(100_000):
        atomic_add(words, 0, 1)
    return 0


@compiled
def test_concurrent_additions_are_not_lost():
    words = np.zeros(1, dtype=np.int64)
    in_threads(2, lambda w: add_often(words.ctypes.data))
    assert words[0] == 200_000


@compiled
@pytest.mark.parametrize("n_workers", [1, 2, 4])
def test_nobody_passes_a_barrier_before_all_are_there(n_workers):
    control, shared = atomics.new_control(n_workers), np.zeros(2, dtype=np.int64)
    wrong = in_threads(n_workers, lambda w: meet(control, w, n_workers, shared, 20_000))
    assert wrong == [0] * n_workers
    assert shared.sum() == n_workers * 20_000


@compiled
def test_abort_wakes_all_who_wait():
    control, shared = atomics.new_control(4), np.zeros(2, dtype=np.int64)
    meet(atomics.new_control(1), 0, 1, shared, 1)  # compiled before the threads start
    timer = threading.Timer(0.05, lambda: atomics.abort(control))
    timer.start()
    # The fourth worker never comes.
    assert in_threads(3, lambda w: meet(control, w, 4, shared, 1)) == [-1] * 3


@compiled
@pytest.mark.parametrize("n_workers", [1, 2, 3, 4])
@pytest.mark.parametrize("count", [1, 54, 1000])
def test_reduce_is_the_same_sum_in_the_order_of_workers_everywhere(n_workers, count):
    parts = np.random.default_rng(1).normal(size=(n_workers, count)) * 10.0 ** np.arange(
        n_workers
    ).reshape(-1, 1)
    memory = atomics.share(n_workers, count)
    sums = np.zeros((n_workers, 300, count))
    address = atomics.threads_addresses().reduce
    status = in_threads(
        n_workers, lambda w: reduce_often(address, memory.contexts[w], parts[w], sums[w], 1.0)
    )
    assert status == [atomics.DONE] * n_workers
    for t in (0, 1, 2, 299):
        expected = parts[0] * (t + 1)
        for w in range(1, n_workers):
            expected = expected + parts[w] * (t + 1)
        for w in range(n_workers):
            np.testing.assert_array_equal(sums[w, t], expected)
    sent = 300 * count if n_workers > 1 else 0
    assert memory.contexts[:, atomics.SENT].tolist() == [sent] * n_workers


@compiled
def test_reduce_max_is_the_maximum():
    parts = np.array([[1.0, -2.0, -np.inf], [0.5, -1.0, -np.inf]])
    memory = atomics.share(2, 3)
    result = np.zeros((2, 4, 3))
    address = atomics.threads_addresses().reduce_max
    in_threads(2, lambda w: reduce_often(address, memory.contexts[w], parts[w], result[w], 0.0))
    np.testing.assert_array_equal(result, np.broadcast_to([1.0, -1.0, -np.inf], (2, 4, 3)))


@compiled
@pytest.mark.parametrize("n_workers", [2, 3])
def test_after_an_exchange_all_rows_are_written(n_workers):
    memory, packed = atomics.share(n_workers, 1), np.zeros((2, n_workers))
    address = atomics.threads_addresses().exchange
    wrong = in_threads(
        n_workers, lambda w: exchange_often(address, memory.contexts[w], packed, w, 20_000)
    )
    assert wrong == [0] * n_workers


@compiled
def test_reduce_stops_when_a_worker_has_aborted():
    memory = atomics.share(2, 3)
    address = atomics.threads_addresses().reduce
    reduce_often(address, atomics.share(1, 3).contexts[0], np.ones(3), np.ones((1, 3)), 1.0)
    timer = threading.Timer(0.05, lambda: atomics.abort(memory.control))
    timer.start()
    alone = in_threads(
        1, lambda w: reduce_often(address, memory.contexts[w], np.ones(3), np.ones((1, 3)), 1.0)
    )
    assert alone == [atomics.ABORTED]


@compiled
def test_reduce_refuses_more_than_the_memory_holds():
    memory = atomics.share(1, 10)
    address = atomics.threads_addresses().reduce
    status = reduce_often(address, memory.contexts[0], np.ones(100), np.ones((1, 100)), 1.0)
    assert status == atomics.TOO_LONG


def test_share_names_what_is_wrong():
    with pytest.raises(ValueError, match="`n_workers` must be at least 1"):
        atomics.share(0, 10)


def run(code: str, **variables: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **variables},
        check=True,
        capture_output=True,
        text=True,
    ).stdout


def test_without_compiler_it_imports_and_says_what_is_missing():
    code = (
        "import ddol.engines.mpi.calls\n"
        "from ddol.engines.threads import atomics\n"
        "try: atomics.threads_addresses()\n"
        "except RuntimeError as error: print(error)"
    )
    assert "unset NUMBA_DISABLE_JIT" in run(code, NUMBA_DISABLE_JIT="1")
