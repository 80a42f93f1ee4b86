"""Rows in the order in which they are learned from: copied a piece at a time, and told apart by content."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ddol.compiled import bits, entry, floats, indices, inner, integers, prefetch
from ddol.streams.rows import Rows

PIECE = 1 << 19
"""Numbers that are copied at a time: they stay in the cache until they are learned from."""

_AHEAD, _FAR, _MOST_FETCHED = 6, 32, 128  # rows, rows, and values of a row
_FIRST = 8  # non-zeros of a row that tell it from almost any other
_LARGEST = float(np.finfo(np.float64).max)


@inner(inlined=True)
def _place(places, first, k):  # type: ignore[no-untyped-def]
    """Row that comes k-th: as listed, or one after the other where nothing is."""
    return first + k if places == 0 else integers(places)[k]


@inner(inlined=True)
def _fetch(address, n):  # type: ignore[no-untyped-def]
    for line in range(0, 8 * n, 64):
        prefetch(address + line)


@entry("void(int64, int64, int64, int64, int64)")
def _copy_numbers(n, places, first, given, out):  # type: ignore[no-untyped-def]
    """Copy one number of every row."""
    for k in range(n):
        if places != 0 and k + _FAR < n:
            prefetch(given + 8 * _place(places, first, k + _FAR))
        floats(out)[k] = floats(given)[_place(places, first, k)]


@entry("int64(int64, int64, int64, int64, int64, int64, int64)")
def _copy_dense(n, places, first, x, D, ones, out):  # type: ignore[no-untyped-def]
    """Copy rows, after a 1 each if there are ones; how many values are not finite."""
    strange = 0
    for k in range(n):
        if places != 0 and k + _AHEAD < n:
            _fetch(x + 8 * D * _place(places, first, k + _AHEAD), D)
        given, copy = floats(x + 8 * D * _place(places, first, k)), floats(out + 8 * k * (D + ones))
        for d in range(ones):
            copy[d] = 1.0
        for d in range(D):
            value = given[d]
            copy[d + ones] = value
            strange += not abs(value) <= _LARGEST
    return strange


@entry("int64(int64, int64, int64, int64, int64, int64)")
def _count_values(n, places, first, indptr, ones, out):  # type: ignore[no-untyped-def]
    """Write where the rows begin once they are copied; the number of their values."""
    starts, begins = integers(indptr), integers(out)
    begins[0] = 0
    for k in range(n):
        if places != 0 and k + _FAR < n:
            prefetch(indptr + 8 * _place(places, first, k + _FAR))
        row = _place(places, first, k)
        begins[k + 1] = begins[k] + starts[row + 1] - starts[row] + ones
    return begins[n]


@entry("int64(int64, int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def _copy_sparse(n, places, first, x, index, indptr, ones, begins, out, out_index):  # type: ignore[no-untyped-def]
    """The same for sparse rows, whose columns move up by one where there are ones."""
    strange, starts = 0, integers(indptr)
    for k in range(n):
        if places != 0 and k + _AHEAD < n:
            ahead = _place(places, first, k + _AHEAD)
            size = min(starts[ahead + 1] - starts[ahead], _MOST_FETCHED)
            _fetch(x + 8 * starts[ahead], size)
            _fetch(index + 4 * starts[ahead], size // 2)
        row = _place(places, first, k)
        lo, size, place = starts[row], starts[row + 1] - starts[row], integers(begins)[k]
        given, columns = floats(x + 8 * lo), indices(index + 4 * lo)
        copy, moved = floats(out + 8 * place), indices(out_index + 4 * place)
        for j in range(ones):
            copy[j] = 1.0
            moved[j] = np.uint32(0)
        for j in range(size):
            value = given[j]
            copy[j + ones] = value
            moved[j + ones] = columns[j] + np.uint32(ones)
            strange += not abs(value) <= _LARGEST
    return strange


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
        row = _place(rows, 0, k)
        if indptr == 0 and k + _AHEAD < n:
            prefetch(x + 8 * D * _place(rows, 0, k + _AHEAD))
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
    return bool(_find_twin(len(rows), *places, rows.n_features, rows.y.ctypes.data))


class Copies:
    """Rows copied a piece at a time, into memory that is used again.

    Parameters
    ----------
    rows : Rows
    intercept : bool
        Whether a 1 comes before the features of every row.
    size : int
        Most rows of a piece.

    Examples
    --------
    >>> copies = Copies(Rows.from_dense([[5.0], [6.0], [7.0]], [0, 1, 2]), intercept=True, size=2)
    >>> copies.listed(np.array([2, 0])).data
    array([1., 7., 1., 5.])
    """

    def __init__(self, rows: Rows, intercept: bool, size: int) -> None:
        self.rows, self.ones = rows, int(intercept)
        self.strange = 0
        """Values found so far that are not finite."""
        self._width = rows.n_features + self.ones
        self._y = np.empty(size)
        self._weight = np.empty(size if len(rows.weight) else 0)
        self._begins = np.empty(0 if rows.dense else size + 1, np.int64)
        self._data = np.empty(size * self._width if rows.dense else 0)
        self._indices = np.empty(0, np.uint32)
        self._made: Rows | None = None

    def listed(self, places: np.ndarray) -> Rows:
        """The rows of these numbers; they are the last ones given that may be looked at."""
        return self._copied(len(places), places.ctypes.data, 0)

    def between(self, lo: int, hi: int) -> Rows:
        """The rows from one to another, in their order."""
        return self._copied(hi - lo, 0, lo)

    def _copied(self, n: int, places: int, first: int) -> Rows:
        rows = self.rows
        _copy_numbers(n, places, first, rows.y.ctypes.data, self._y.ctypes.data)
        if len(rows.weight):
            _copy_numbers(n, places, first, rows.weight.ctypes.data, self._weight.ctypes.data)
        x, begins, ones = rows.data.ctypes.data, self._begins.ctypes.data, self.ones
        if rows.dense:
            to = self._data.ctypes.data
            self.strange += _copy_dense(n, places, first, x, rows.n_features, ones, to)
        else:
            indptr, index = rows.indptr.ctypes.data, rows.indices.ctypes.data
            self._make_room(_count_values(n, places, first, indptr, ones, begins))
            room = begins, self._data.ctypes.data, self._indices.ctypes.data
            self.strange += _copy_sparse(n, places, first, x, index, indptr, ones, *room)
        return self._seen(n)

    def _make_room(self, size: int) -> None:
        if size > len(self._data):
            self._data, self._indices = (
                np.empty(size + size // 4),
                np.empty(size + size // 4, np.uint32),
            )
            self._made = None

    def _seen(self, n: int) -> Rows:
        """The copies as rows: if as many as before, the same object, whose addresses are known."""
        size = n * self._width if self.rows.dense else int(self._begins[n])
        if self._made is None or (len(self._made), len(self._made.data)) != (n, size):
            self._made = Rows(
                data=self._data[:size],
                indices=self._indices[: 0 if self.rows.dense else size],
                indptr=self.rows.indptr if self.rows.dense else self._begins[: n + 1],
                n_features=self._width,
                y=self._y[:n],
                weight=self._weight[:n],
            )
        return self._made


def pieces(n: int, rows: Rows, unit: int) -> Iterator[tuple[int, int]]:
    """Cut n rows into pieces that stay in the cache, of a multiple of ``unit`` rows but for the last."""
    width = max(1, len(rows.data) // max(len(rows), 1))
    step = max(1, PIECE // (width * unit)) * unit
    return ((lo, min(lo + step, n)) for lo in range(0, n, step))


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
        whole = _keys(rows, among, rows.n_features)
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
        rows.n_features,
        rows.y.ctypes.data,
        most,
        keys.ctypes.data,
    )
    return keys
