import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import ddol
from ddol.streams.errors import DataError
from ddol.streams.rows import Rows, concatenate


def example(sparse, n=7, weight=False):
    rng = np.random.default_rng(n)
    X = np.where(rng.random((n, 4)) < 0.5, rng.normal(size=(n, 4)), 0.0)
    made = Rows.from_csr if sparse else Rows.from_dense
    X_in = sp.csr_matrix(X) if sparse else X
    return made(X_in, np.arange(n), np.arange(1, n + 1) if weight else None), X


def test_arrays_are_used_where_they_lie():
    X = sp.random(20, 5, density=0.4, format="csr", random_state=0)
    rows = Rows.from_csr(X, np.zeros(20))
    assert np.shares_memory(rows.data, X.data) and np.shares_memory(rows.indices, X.indices)
    y = np.zeros(20)
    assert Rows.from_csr(X, y).y is y


def test_repeated_and_unsorted_entries_are_put_in_order_in_a_copy():
    X = sp.csr_matrix((np.array([1.0, 2.0, 4.0]), np.array([2, 0, 2]), np.array([0, 3])), (1, 3))
    rows = Rows.from_csr(X, [1])
    assert rows.indices.tolist() == [0, 2] and rows.data.tolist() == [2, 5]
    assert X.nnz == 3


@pytest.mark.parametrize(
    "part, at, value", [("indices", 5, 99), ("indices", 5, -3), ("indptr", 5, 10**6)]
)
def test_parts_that_lead_outside_of_a_matrix_are_refused(part, at, value):
    X = sp.random(20, 5, density=0.4, format="csr", random_state=0)
    getattr(X, part)[at] = value  # SciPy looks at neither
    for used in (
        lambda: ddol.run(ddol.dogd(), (X, np.zeros(20))),
        lambda: Rows.from_csr(X, np.zeros(20)),
    ):
        with pytest.raises(DataError, match="not a whole CSR matrix"):
            used()


@pytest.mark.parametrize(
    "X", [np.ones((2, 2), order="F"), np.ones((2, 2), dtype=np.int8), [[1, 1]] * 2]
)
def test_other_layouts_and_types_are_converted(X):
    rows = Rows.from_dense(X, [0, 1])
    assert rows.data.dtype == np.float64 and rows.data.flags.c_contiguous
    assert rows.data.tolist() == [1, 1, 1, 1]


@given(st.integers(0, 7), st.integers(0, 7), st.booleans(), st.booleans())
def test_slices(lo, hi, sparse, weight):
    rows, X = example(sparse, weight=weight)
    part = rows.slice(lo, hi)
    assert np.array_equal(part.to_scipy().toarray().reshape(-1, 4), X[lo:hi])
    assert np.array_equal(part.y, rows.y[lo:hi]) and np.array_equal(part.weight, rows.weight[lo:hi])
    assert part.data.base is not None or len(part) == 7


@given(st.lists(st.integers(0, 6), max_size=12), st.booleans(), st.booleans())
def test_take(order, sparse, weight):
    rows, X = example(sparse, weight=weight)
    part = rows.take(order)
    assert np.array_equal(part.to_scipy().toarray().reshape(-1, 4), X[order])
    assert part.y.tolist() == order
    assert part.weight.tolist() == [k + 1 for k in order if weight]


@pytest.mark.parametrize("sparse", [False, True])
def test_concatenate_undoes_slicing(sparse):
    rows, X = example(sparse, weight=True)
    joined = concatenate([rows.slice(0, 3), rows.slice(3, 3), rows.slice(3, 7)])
    assert np.array_equal(joined.to_scipy().toarray(), X)
    assert np.array_equal(joined.weight, rows.weight)


def test_concatenate_widens_sparse_rows_only():
    narrow = Rows.from_csr(sp.csr_matrix(np.ones((1, 2))), [0])
    wide = Rows.from_csr(sp.csr_matrix(np.ones((1, 5))), [0], [3])
    joined = concatenate([narrow, wide])
    assert joined.n_features == 5 and joined.weight.tolist() == [1, 3]
    with pytest.raises(DataError, match="found rows of 2 columns, expected 5"):
        concatenate([Rows.from_dense(np.ones((1, d)), [0]) for d in (2, 5)])
    with pytest.raises(DataError, match="dense and sparse rows together"):
        concatenate([narrow, Rows.from_dense(np.ones((1, 2)), [0])])


@pytest.mark.parametrize("sparse", [False, True])
def test_intercept_is_the_first_column(sparse):
    rows, X = example(sparse)
    more = rows.with_intercept()
    assert np.array_equal(more.to_scipy().toarray(), np.column_stack([np.ones(7), X]))
    assert more.dense == rows.dense


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("sparse", [False, True])
def test_values_that_are_not_finite_are_named(value, sparse):
    X = np.arange(12.0).reshape(4, 3)
    X[2, 1] = value
    rows = (
        Rows.from_csr(sp.csr_matrix(X), np.zeros(4)) if sparse else Rows.from_dense(X, np.zeros(4))
    )
    with pytest.raises(DataError, match=f"X: found {value} in row 2, column 1"):
        rows.check_finite()


def test_labels_must_be_finite_and_large_sums_are_fine():
    huge = Rows.from_dense(np.full((3, 3), 1e308), np.zeros(3))
    assert huge.check_finite() is huge
    with pytest.raises(DataError, match="found y nan in row 1"):
        Rows.from_dense(np.ones((2, 1)), [0, np.nan]).check_finite()


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (np.ones(3), np.ones(3), "`X` must have 2 dimensions, it has 1"),
        (np.ones((3, 1)), np.ones(2), r"`y` must have shape \(3,\) for 3 rows, it has \(2,\)"),
        (np.ones((2, 1)), ["yes", "no"], "`y` must be numbers"),
    ],
)
def test_wrong_shapes(X, y, message):
    with pytest.raises(DataError, match=message):
        Rows.from_dense(X, y)
