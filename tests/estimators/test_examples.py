import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given
from hypothesis import strategies as st

from ddol.estimators.examples import MOST_COPIES, Examples, fingerprints
from ddol.streams.rows import Rows

RNG = np.random.default_rng(5)
X = RNG.integers(-2, 3, (40, 3)).astype(float)
Y = np.sign(RNG.standard_normal(40))


def dealt(examples, **options):
    """What agents see, in order: rows with their answers and weights."""
    seen = []
    for block in examples.deal(2, 1, **options):
        rows = block.rows
        X = rows.to_scipy().toarray()
        weight = rows.weight if len(rows.weight) else np.ones(len(rows))
        order = block.table[block.table >= 0]
        seen += [(*X[k], rows.y[k], weight[k]) for k in order]
    return seen


def test_weights_are_copies():
    examples = Examples.of(X[:3], Y[:3], np.array([2.0, 0.0, 2.5]))
    assert examples.listed.tolist() == [0, 0, 2, 2, 2]
    assert examples.rows.weight[2] == pytest.approx(2.5 / 3)


def test_large_weights_are_few_copies_that_weigh_as_much():
    examples = Examples.of(X[:1], Y[:1], np.array([1000.0]))
    assert len(examples.listed) == MOST_COPIES
    assert examples.rows.weight[0] * MOST_COPIES == 1000.0


@given(st.lists(st.integers(0, 3), min_size=40, max_size=40), st.integers(0, 9))
@example([0, 1, 0, 1] + [0] * 36, 0)
def test_the_random_order_knows_neither_arrangement_nor_copies(counts, seed):
    counts = np.array(counts)
    shuffled = np.random.default_rng(seed).permutation(40)
    weighted = Examples.of(X[shuffled], Y[shuffled], counts[shuffled].astype(float))
    repeated = Examples.of(X.repeat(counts, axis=0), Y.repeat(counts))
    if counts.sum():
        first = dealt(weighted.canonical(), rng=np.random.default_rng(1))
        assert first == dealt(repeated.canonical(), rng=np.random.default_rng(1))


def test_fingerprints_tell_rows_apart():
    grid = np.stack(np.meshgrid(*[[-1.0, 0.0, 1.0]] * 8), -1).reshape(-1, 8)
    prints = fingerprints(Rows.from_dense(grid, np.zeros(len(grid))))
    assert len(np.unique(prints)) == len(grid)


def test_units_leave_fingerprints_as_they_are():
    values = RNG.standard_normal((500, 4))
    units = np.array([1e-6, 0.0254, 3.0, 1e6])
    one = fingerprints(Rows.from_dense(values, values[:, 0]))
    other = fingerprints(Rows.from_dense(values * units, values[:, 0] / 7.0))
    np.testing.assert_array_equal(one, other)


def test_negative_zero_is_zero():
    rows = Rows.from_dense([[0.0, 1.0], [-0.0, 1.0]], [1, 1])
    first, second = fingerprints(rows)
    assert first == second


@pytest.mark.parametrize("intercept", [False, True])
def test_dense_and_sparse_are_dealt_alike(intercept):
    dense = Examples.of(X, Y, intercept=intercept).canonical()
    sparse = Examples.of(sp.csr_array(X), Y, intercept=intercept).canonical()
    assert dealt(dense, rng=np.random.default_rng(0)) == dealt(sparse, rng=np.random.default_rng(0))


def test_a_pass_in_pieces_deals_every_row_once(monkeypatch):
    monkeypatch.setattr("ddol.estimators.examples._PIECE", 7)
    examples = Examples.of(X, Y, agents=RNG.integers(0, 2, 40))
    seen = dealt(examples, rng=np.random.default_rng(0))
    assert sorted(seen) == sorted((*x, y, 1.0) for x, y in zip(X, Y, strict=True))


def test_held_out_rows_are_not_learned_from():
    weight = RNG.integers(0, 3, 40).astype(float)
    examples = Examples.of(X, Y, weight)
    kept, held_out = examples.split(0.25, np.random.default_rng(0))
    assert len(held_out) == np.ceil(0.25 * np.count_nonzero(weight))
    assert not set(kept.listed) & set(held_out)
    assert sorted({*kept.listed, *held_out}) == np.flatnonzero(weight).tolist()
