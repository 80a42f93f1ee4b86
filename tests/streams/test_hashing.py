import numpy as np
import pytest
import scipy.sparse as sp

from ddol.streams.arrays import array_stream
from ddol.streams.coding.hashing import hash_rows, hashed, name_keys, slots
from ddol.streams.errors import DataError
from ddol.streams.over.wrapped import with_intercept
from ddol.streams.rows import Rows
from ddol.streams.synthetic import sparse


def example(n=300, width=5000, density=0.01):
    X = sp.random(n, width, density=density, format="csr", random_state=1)
    return X, Rows.from_csr(X, np.zeros(n))


@pytest.mark.parametrize("density", [0.001, 0.05])
@pytest.mark.parametrize("bits", [1, 5, 11])
def test_hashing_is_one_signed_matrix(bits, density):
    X, rows = example(density=density)
    # The image of every unit vector gives the matrix that all rows must go through.
    unit = Rows.from_csr(sp.identity(5000, format="csr"), np.zeros(5000))
    matrix = hash_rows(unit, bits).to_scipy()
    found = hash_rows(rows, bits)
    assert np.allclose(found.to_scipy().toarray(), (X @ matrix).toarray(), atol=1e-12)
    assert set(np.abs(matrix.data)) == {1.0}
    inside = np.ones(len(found.indices), dtype=bool)
    inside[found.indptr[:-1][np.diff(found.indptr) > 0]] = False
    assert (np.diff(found.indices.astype(int), prepend=0)[inside] > 0).all()


def test_columns_and_signs_are_spread_evenly():
    unit = hash_rows(Rows.from_csr(sp.identity(64_000, format="csr"), np.zeros(64_000)), 6)
    counts = np.bincount(unit.indices, minlength=64)
    assert counts.min() > 800 and counts.max() < 1200
    assert abs(unit.data.sum()) < 1000


def test_dense_rows_are_hashed_like_sparse_ones():
    X = np.random.default_rng(0).normal(size=(4, 6))
    dense = hash_rows(Rows.from_dense(X, np.zeros(4), np.ones(4)), 4)
    other = hash_rows(Rows.from_csr(sp.csr_matrix(X), np.zeros(4)), 4)
    assert np.array_equal(dense.data, other.data) and np.array_equal(dense.indices, other.indices)
    assert dense.weight.tolist() == [1, 1, 1, 1]


def test_streams_know_their_hashed_width():
    stream = with_intercept(hashed(sparse(100, 10**6, nonzeros=5), bits=10))
    assert stream.n_features == 1025 and stream.n_examples == 100
    for rows, _ in stream.read():
        assert rows.n_features == 1025 and not rows.dense and rows.indices.max() <= 1024
        assert (rows.indices[rows.indptr[:-1]] == 0).all()


def test_names_are_spread_over_columns_and_signs():
    keys = name_keys([f"word {k}" for k in range(20_000)])
    places, signs = slots(keys, 4)
    counts = np.bincount(places, minlength=16)
    assert len(set(keys.tolist())) == 20_000
    assert counts.min() > 1100 and counts.max() < 1400 and abs(signs.sum()) < 600


def test_a_name_s_hash_is_that_of_its_bytes():
    assert name_keys(["", "ä", "a"]).tolist() == [int(name_keys([n])[0]) for n in ("", "ä", "a")]


@pytest.mark.parametrize("bits", [0, 32])
def test_bits_are_checked(bits):
    with pytest.raises(DataError, match="`bits` must be from 1 to 31"):
        hashed(array_stream(np.eye(2), [0, 1]), bits)
