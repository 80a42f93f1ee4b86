"""The physical limit: nobody can learn from an array without reading it once."""

from __future__ import annotations

import numpy as np
from numba import njit, prange

from benchmarks.contest import Contestant, Outcome
from benchmarks.data import Arrays, Text
from benchmarks.workloads import Data, Workload

VERSION = "1 thread"


def contestants(workload: Workload, data: Data) -> list[Contestant]:
    """Add up all stored numbers (and columns, where rows are sparse), or read all bytes."""
    if workload.network != "alone":
        return []
    if isinstance(data, Text):
        return [Contestant("limit: read the file", "read in pieces of 1 MB", lambda: _read(data))]
    if isinstance(data, Arrays) and not data.dense:
        X = data.X
        return [Contestant("limit: read the array", "sum", lambda: _sums(X.data, X.indices))]
    X = data.X if isinstance(data, Arrays) else data.said
    return [Contestant("limit: read the array", "sum", lambda: _sums(X.reshape(-1)))]


@njit(fastmath=True)
def _sum(values):  # type: ignore[no-untyped-def]
    total = values[0] - values[0]
    for i in range(len(values)):
        total += values[i]
    return total


def _sums(*arrays: np.ndarray) -> Outcome:
    for array in arrays:
        _sum(array)
    return Outcome()


def _read(data: Text) -> Outcome:
    with data.path.open("rb", buffering=0) as file:
        while file.read(1 << 20):
            pass
    return Outcome()


@njit(fastmath=True, parallel=True)
def _triad(a, b, c, s):  # type: ignore[no-untyped-def]
    for i in prange(len(a)):
        a[i] = b[i] + s * c[i]


@njit(fastmath=True)
def _triad_alone(a, b, c, s):  # type: ignore[no-untyped-def]
    for i in range(len(a)):
        a[i] = b[i] + s * c[i]


def bandwidth(parallel: bool, n: int = 1 << 24) -> float:
    """Bytes per second of a[i] = b[i] + s·c[i] on arrays of 128 MB: STREAM's triad."""
    from benchmarks.contest import timed

    a, b, c = np.zeros(n), np.ones(n), np.ones(n)
    triad = _triad if parallel else _triad_alone
    triad(a, b, c, 2.0)

    def run() -> Outcome:
        triad(a, b, c, 2.0)
        return Outcome()

    return 24 * n / min(timed(run)[0] for _ in range(5))
