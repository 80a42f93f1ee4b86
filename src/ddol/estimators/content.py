"""Rows identified by their contents, whatever their order."""

from __future__ import annotations

import numpy as np

from ddol.compiled import bits, entry, floats, indices, inner, integers, prefetch
from ddol.streams.rows import Rows

_AHEAD = 6  # rows
_FIRST = 8  # non-zeros of a row that tell it from almost any other


@inner(inlined=True)
def _stirred(key, number):  # type: ignore[no-untyped-def]
    """A key with one more number in it (after Stafford's mixer of 64 bits)."""
    key = (key ^ number) * np.uint64(0xBF58476D1CE4E5B9)
    key = (key ^ (key >> np.uint64(29))) * np.uint64(0x94D049BB133111EB)
    return key ^ (key >> np.uint64(32))


@entry("void(int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def _key_rows(n, rows, x, index, indptr, D, y, most, out):  # type: ignore[no-untyped-def]
    """Write a key of every row: of its answer and its first non-zeros."""
    for k in range(n):
        row = k if rows == 0 else integers(rows)[k]
        if indptr == 0 and k + _AHEAD < n:
            prefetch(x + 8 * D * (k + _AHEAD if rows == 0 else integers(rows)[k + _AHEAD]))
        lo, size = row * D, D
        if indptr != 0:
            lo = integers(indptr)[row]
            size = integers(indptr)[row + 1] - lo
        key, found, j = _stirred(np.uint64(0), np.uint64(bits(floats(y)[row] + 0.0))), 0, 0
        while j < size and found < most:
            value = floats(x)[lo + j]
            if value != 0.0:
                column = j if indptr == 0 else np.int64(indices(index)[lo + j])
                key = _stirred(_stirred(key, np.uint64(bits(value))), np.uint64(column))
                found += 1
            j += 1
        integers(out)[k] = np.int64(key >> np.uint64(1))


@entry("int64(int64, int64, int64, int64, int64, int64)")
def _find_twin(n, x, index, indptr, D, y):  # type: ignore[no-untyped-def]
    """First row that is the same as the one before it, or 0."""
    for row in range(1, n):
        if floats(y)[row] != floats(y)[row - 1]:
            continue
        lo, before, size = row * D, (row - 1) * D, D
        if indptr != 0:
            lo, before = integers(indptr)[row], integers(indptr)[row - 1]
            size = integers(indptr)[row + 1] - lo
            if lo - before != size:
                continue
        j = 0
        while j < size and floats(x)[lo + j] == floats(x)[before + j]:
            if indptr != 0 and indices(index)[lo + j] != indices(index)[before + j]:
                break
            j += 1
        if j == size:
            return row
    return 0


def has_twins(rows: Rows) -> bool:
    """Whether a row is the same as the one before it, as where rows are repeated.

    Examples
    --------
    >>> has_twins(Rows.from_dense([[1.0], [2.0], [2.0]], [1, 0, 0]))
    True
    """
    if rows.dense:
        places = rows.data.ctypes.data, 0, 0
    else:
        places = rows.data.ctypes.data, rows.indices.ctypes.data, rows.indptr.ctypes.data
    return bool(_find_twin(len(rows), *places, rows.n_stored, rows.y.ctypes.data))


def by_content(rows: Rows, agents: np.ndarray | None = None) -> np.ndarray:
    """Numbers of the rows in an order that knows nothing of how they are arranged.

    It is that of keys of 64 bits, each of a row's answer, agent and first non-zeros; only rows that these
    do not tell apart are looked at whole. Dense and sparse rows have the same keys.

    Examples
    --------
    >>> rows = Rows.from_dense([[1.0], [2.0], [3.0]], [1, 0, 1])
    >>> by_content(rows).tolist() == (2 - by_content(rows.take([2, 1, 0]))).tolist()
    True
    """
    keys = _keys(rows, None, _FIRST)
    if agents is not None:
        keys ^= agents.astype(np.int64) << 40
    order = np.argsort(keys)
    ranked = keys[order]
    same = np.zeros(len(order) + 1, bool)
    same[1:-1] = ranked[1:] == ranked[:-1]
    tied = np.flatnonzero(same[1:] | same[:-1])
    if tied.size:
        among = np.ascontiguousarray(order[tied])
        whole = _keys(rows, among, rows.n_stored)
        order[tied] = among[np.lexsort((among, whole, keys[among]))]
    return order


def _keys(rows: Rows, among: np.ndarray | None, most: int) -> np.ndarray:
    """Keys of all rows or of some, by their first non-zeros."""
    n = len(rows) if among is None else len(among)
    keys = np.empty(n, np.int64)
    _key_rows(
        n,
        0 if among is None else among.ctypes.data,
        rows.data.ctypes.data,
        rows.indices.ctypes.data,
        0 if rows.dense else rows.indptr.ctypes.data,
        rows.n_stored,
        rows.y.ctypes.data,
        most,
        keys.ctypes.data,
    )
    return keys
