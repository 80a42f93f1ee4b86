"""Hashed columns, for feature spaces whose size is unknown or unbounded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ddol.compiled import bytes_at, entry, floats, indices, inner, integers, packed, unpacked
from ddol.streams.errors import DataError
from ddol.streams.over.wrapped import mapped
from ddol.streams.rows import Rows
from ddol.streams.stream import Stream


def hashed(stream: Stream, bits: int) -> Stream:
    """Stream with its columns hashed to ``2**bits``, as in the hashing trick.

    Column `j` goes to ``h(j)`` with the sign ``s(j)``, both from one 64-bit hash, so that
    inner products are kept in expectation: ``E⟨φ(x), φ(x')⟩ = ⟨x, x'⟩``. Columns of a row
    that meet are summed.

    Parameters
    ----------
    stream
        Rows with any number of columns; the hashed rows are sparse.
    bits
        Logarithm of the number of columns, from 1 to 31.

    Examples
    --------
    >>> from ddol.streams.arrays import array_stream
    >>> [(rows, _)] = hashed(array_stream(np.eye(3), [0, 1, 1]), bits=4).read()
    >>> rows.n_features, np.abs(rows.data)
    (16, array([1., 1., 1.]))
    """
    _check_bits(bits)
    return mapped(stream, partial(_hash_block, bits), 1 << bits)


def hash_rows(rows: Rows, bits: int) -> Rows:
    """The rows with their columns hashed to ``2**bits``; see `hashed`."""
    _check_bits(bits)
    if rows.dense:
        rows = Rows.from_csr(rows.to_scipy(), rows.y, rows.weight if len(rows.weight) else None)
    new_indices, data = np.empty_like(rows.indices), np.empty_like(rows.data)
    indptr = np.empty_like(rows.indptr)
    columns = _Columns(
        rows.indices.ctypes.data,
        rows.data.ctypes.data,
        rows.indptr.ctypes.data,
        len(rows),
        bits,
        new_indices.ctypes.data,
        data.ctypes.data,
        indptr.ctypes.data,
    )
    nnz = _hash_columns(packed(columns))
    return Rows(data[:nnz], new_indices[:nnz], indptr, 1 << bits, rows.y, rows.weight)


def name_keys(names: Sequence[str]) -> NDArray[np.uint64]:
    """The 64-bit hash of every name, from which `slots` makes its column.

    Examples
    --------
    >>> age, town = name_keys(["age", "town=Rome"])
    >>> bool(age == name_keys(["age"])[0]), bool(age == town)
    (True, False)
    """
    encoded = [name.encode() for name in names]
    ends = np.cumsum([len(name) for name in encoded], dtype=np.int64)
    text = np.frombuffer(b"".join(encoded) or b" ", np.uint8)
    keys = np.empty(len(names), np.uint64)
    _hash_names(len(names), text.ctypes.data, ends.ctypes.data, keys.ctypes.data)
    return keys


def slots(keys: NDArray[np.uint64], bits: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Column among ``2**bits`` and sign of every hash.

    Examples
    --------
    >>> slots(np.array([1 << 63, 3], np.uint64), bits=4)
    (array([8, 0]), array([-1.,  1.]))
    """
    _check_bits(bits)
    places = (keys >> np.uint64(64 - bits)).astype(np.int64)
    return places, np.where(keys & np.uint64(1), 1.0, -1.0)


def merge_columns(
    columns: NDArray[np.int64],
    data: NDArray[np.float64],
    indptr: NDArray[np.int64],
    n_features: int,
    intercept: bool = False,
) -> Rows:
    """CSR rows of columns in any order: sorted, equal ones summed, those below 0 left out.

    Parameters
    ----------
    columns, data, indptr
        Column and value of every entry, and where each row begins.
    n_features
        Columns of the rows, intercept included.
    intercept
        Begin every row with a constant 1, and move the others up by one.

    Examples
    --------
    >>> rows = merge_columns(np.array([3, -1, 0, 3]), np.arange(4.0), np.array([0, 4]), 4)
    >>> rows.indices, rows.data
    (array([0, 3], dtype=uint32), array([2., 3.]))
    """
    n = len(indptr) - 1
    size = len(data) + n * intercept
    new_indices, new_data = np.empty(size, np.uint32), np.empty(size)
    new_indptr = np.empty(n + 1, np.int64)
    given = (columns, data, indptr, new_indices, new_data, new_indptr)
    arrays: list[NDArray] = [np.ascontiguousarray(array) for array in given]
    places = (array.ctypes.data for array in arrays)
    nnz = _merge_columns(n, int(intercept), *places)
    y = np.zeros(n)
    return Rows(new_data[:nnz], new_indices[:nnz], new_indptr, n_features, y, np.empty(0))


def _hash_block(bits: int, rows: Rows, where: Callable[[int], str]) -> Rows:
    return hash_rows(rows, bits)


def _check_bits(bits: int) -> None:
    if not 1 <= bits <= 31:
        raise DataError(f"`bits` must be from 1 to 31, found {bits}")


@inner
def _mix(key):  # type: ignore[no-untyped-def]
    """Finalizer of splitmix64: every bit of the key changes every bit of the hash."""
    h = np.uint64(key) + np.uint64(0x9E3779B97F4A7C15)
    h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return h ^ (h >> np.uint64(31))


HASH_START, HASH_PRIME = 0xCBF29CE484222325, 0x100000001B3
"""State of a name's hash before its first byte, and what it is multiplied with after each."""


@inner
def hash_on(h, text, first, end):  # type: ignore[no-untyped-def]
    """Go on from the state `h` of a hash (FNV-1a) with the bytes ``text[first:end]``."""
    for k in range(first, end):
        h = (h ^ np.uint64(text[k])) * np.uint64(HASH_PRIME)
    return h


@inner
def hashed_name(h):  # type: ignore[no-untyped-def]
    """64-bit hash of all bytes that went into a state, mixed once more for its upper bits."""
    return _mix(h)


@inner
def name_hash(text, first, end):  # type: ignore[no-untyped-def]
    """64-bit hash of the bytes ``text[first:end]``: `HASH_START`, `hash_on` and `hashed_name`."""
    return hashed_name(hash_on(np.uint64(HASH_START), text, first, end))


@entry("void(int64, int64, int64, int64)")
def _hash_names(n, text, ends, keys):  # type: ignore[no-untyped-def]
    """Hash names that follow each other in a text."""
    first = 0
    for k in range(n):
        integers(keys)[k] = name_hash(bytes_at(text), first, integers(ends)[k])
        first = integers(ends)[k]


@inner
def _sort(index, data, lo, hi):  # type: ignore[no-untyped-def]
    """Sort lo … hi − 1 of both arrays by the first, in place: Shell's method, with Tokuda's gaps."""
    gap = 1
    while gap < hi - lo:
        gap = (9 * gap) // 4 + 1
    while gap > 0:
        for k in range(lo + gap, hi):
            key, value, j = index[k], data[k], k
            while j >= lo + gap and index[j - gap] > key:
                index[j], data[j] = index[j - gap], data[j - gap]
                j -= gap
            index[j], data[j] = key, value
        gap = 0 if gap == 1 else max(1, (4 * (gap - 1)) // 9)


class _Columns(NamedTuple):
    """Rows and room for the hashed ones, by address."""

    indices: int
    data: int
    indptr: int
    n_rows: int
    bits: int
    new_indices: int
    new_data: int
    new_indptr: int


@inner
def _hash_row(rows, lo, hi, first):  # type: ignore[no-untyped-def]
    """Hash one row, sort it and sum equal columns; returns where it ends."""
    shift, nnz = np.uint64(64 - rows.bits), first
    index, data = indices(rows.new_indices), floats(rows.new_data)
    for k in range(lo, hi):
        h, value = _mix(indices(rows.indices)[k]), floats(rows.data)[k]
        index[nnz] = h >> shift
        data[nnz] = value if h & np.uint64(1) else -value
        nnz += 1
    return _merge(index, data, first, nnz)


@inner
def _merge(index, data, first, end):  # type: ignore[no-untyped-def]
    """Sort first … end − 1 of both arrays by column and sum equal ones; returns where they end."""
    _sort(index, data, first, end)
    last = first
    for k in range(first + 1, end):
        if index[k] == index[last]:
            data[last] += data[k]
        else:
            last += 1
            index[last], data[last] = index[k], data[k]
    return min(end, last + 1)


@entry("int64(struct*)")
def _hash_columns(rows):  # type: ignore[no-untyped-def]
    """Hash every row; returns the number of values."""
    rows = unpacked(_Columns, rows)
    indptr, new_indptr, nnz = integers(rows.indptr), integers(rows.new_indptr), 0
    new_indptr[0] = 0
    for row in range(rows.n_rows):
        nnz = _hash_row(rows, indptr[row], indptr[row + 1], nnz)
        new_indptr[row + 1] = nnz
    return nnz


@entry("int64(int64, int64, int64*, double*, int64*, uint32*, double*, int64*)")
def _merge_columns(n, intercept, columns, data, indptr, new_index, new_data, new_indptr):  # type: ignore[no-untyped-def]
    """Write sorted and merged rows; returns the number of values."""
    nnz = 0
    new_indptr[0] = 0
    for row in range(n):
        if intercept != 0:
            new_index[nnz], new_data[nnz] = 0, 1.0
            nnz += 1
        first = nnz
        for k in range(indptr[row], indptr[row + 1]):
            if columns[k] >= 0:
                new_index[nnz], new_data[nnz] = columns[k] + intercept, data[k]
                nnz += 1
        nnz = _merge(new_index, new_data, first, nnz)
        new_indptr[row + 1] = nnz
    return nnz
