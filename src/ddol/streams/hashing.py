"""Hashed columns, for feature spaces whose size is unknown or unbounded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
from numba import njit
from numpy.typing import ArrayLike

from ddol.streams.errors import DataError
from ddol.streams.mapped import mapped
from ddol.streams.rows import Rows
from ddol.streams.stream import Stream

_SHORT = 32


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
    indices, data = np.empty_like(rows.indices), np.empty_like(rows.data)
    indptr = np.empty_like(rows.indptr)
    nnz = _hash_columns(rows.indices, rows.data, rows.indptr, bits, indices, data, indptr)
    return Rows(data[:nnz], indices[:nnz], indptr, 1 << bits, rows.y, rows.weight)


def hash_dicts(
    examples: Sequence[Mapping[str, float | str]],
    y: ArrayLike,
    bits: int,
    weight: ArrayLike | None = None,
) -> Rows:
    """Rows of examples given as dictionaries from feature name to number or text.

    Names are hashed by scikit-learn's `FeatureHasher`; a text value counts as the feature
    ``name=text`` with value 1.

    Examples
    --------
    >>> rows = hash_dicts([{"age": 30.0, "town": "Rome"}], [1], bits=10)
    >>> len(rows.data), rows.n_features
    (2, 1024)
    """
    from sklearn.feature_extraction import FeatureHasher

    _check_bits(bits)
    hasher = FeatureHasher(n_features=1 << bits if bits < 31 else (1 << 31) - 1)
    rows = Rows.from_csr(hasher.transform(examples), y, weight)
    return rows.widen(1 << bits).check_finite("examples")


def _hash_block(bits: int, rows: Rows, where: Callable[[int], str]) -> Rows:
    return hash_rows(rows, bits)


def _check_bits(bits: int) -> None:
    if not 1 <= bits <= 31:
        raise DataError(f"`bits` must be from 1 to 31, found {bits}")


@njit(nogil=True, cache=True, error_model="numpy")
def _mix(key):  # type: ignore[no-untyped-def]
    """Finalizer of splitmix64: every bit of the key changes every bit of the hash."""
    h = np.uint64(key) + np.uint64(0x9E3779B97F4A7C15)
    h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return h ^ (h >> np.uint64(31))


@njit(nogil=True, cache=True, error_model="numpy")
def _sort(indices, data):  # type: ignore[no-untyped-def]
    """Sort both arrays by the first, in place, keeping the order of equal ones."""
    if len(indices) > _SHORT:
        order = np.argsort(indices, kind="mergesort")
        indices[:] = indices[order]
        data[:] = data[order]
        return
    for k in range(1, len(indices)):
        index, value = indices[k], data[k]
        j = k
        while j > 0 and indices[j - 1] > index:
            indices[j], data[j] = indices[j - 1], data[j - 1]
            j -= 1
        indices[j], data[j] = index, value


@njit(nogil=True, cache=True, error_model="numpy")
def _hash_columns(indices, data, indptr, bits, new_indices, new_data, new_indptr):  # type: ignore[no-untyped-def]
    """Hash every row, sort it and sum equal columns; returns the number of values."""
    shift = np.uint64(64 - bits)
    nnz = 0
    new_indptr[0] = 0
    for row in range(len(indptr) - 1):
        first = nnz
        for k in range(indptr[row], indptr[row + 1]):
            h = _mix(indices[k])
            new_indices[nnz] = h >> shift
            new_data[nnz] = data[k] if h & np.uint64(1) else -data[k]
            nnz += 1
        _sort(new_indices[first:nnz], new_data[first:nnz])
        last = first
        for k in range(first + 1, nnz):
            if new_indices[k] == new_indices[last]:
                new_data[last] += new_data[k]
            else:
                last += 1
                new_indices[last], new_data[last] = new_indices[k], new_data[k]
        nnz = min(nnz, last + 1)
        new_indptr[row + 1] = nnz
    return nnz
