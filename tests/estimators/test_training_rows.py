import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given
from hypothesis import strategies as st

from ddol.estimators.training_rows import MOST_COPIES, TrainingRows, by_content, has_twins
from ddol.streams.rows import Rows

RNG = np.random.default_rng(5)
X = RNG.integers(-2, 3, (40, 3)).astype(float)
Y = np.sign(RNG.standard_normal(40))


def dealt(examples, **options):
    """What agents see, in order: rows with their answers and weights."""
    block = examples.deal(2, 1, **options)
    rows, X = block.rows, block.rows.to_scipy().toarray()
    weight = rows.weight if len(rows.weight) else np.ones(len(rows))
    return [(*X[k], rows.y[k], weight[k]) for k in block.table[block.table >= 0]]


def test_weights_are_copies():
    examples = TrainingRows.of(X[:3], Y[:3], np.array([2.0, 0.0, 2.5]))
    assert examples.listed.tolist() == [0, 0, 2, 2, 2]
    assert examples.rows.weight[2] == pytest.approx(2.5 / 3)


def test_large_weights_are_few_copies_that_weigh_as_much():
    examples = TrainingRows.of(X[:1], Y[:1], np.array([1000.0]))
    assert len(examples.listed) == MOST_COPIES
    assert examples.rows.weight[0] * MOST_COPIES == 1000.0


@given(st.lists(st.integers(0, 3), min_size=40, max_size=40), st.integers(0, 9))
@example([0, 2, 0, 1] + [0] * 36, 0)
def test_the_random_order_knows_neither_arrangement_nor_copies(counts, seed):
    counts = np.array(counts)
    shuffled = np.random.default_rng(seed).permutation(40)
    weighted = TrainingRows.of(X[shuffled], Y[shuffled], counts[shuffled].astype(float))
    repeated = TrainingRows.of(X.repeat(counts, axis=0), Y.repeat(counts))
    if counts.max() > 1:
        first = dealt(weighted.canonical(), rng=np.random.default_rng(1))
        assert first == dealt(repeated.canonical(), rng=np.random.default_rng(1))


def test_rows_that_begin_alike_are_told_apart():
    X = np.hstack([np.ones((60, 20)), RNG.standard_normal((60, 1))])
    shuffled = RNG.permutation(60)
    one = by_content(Rows.from_dense(X, np.zeros(60)))
    other = by_content(Rows.from_dense(X[shuffled], np.zeros(60)))
    np.testing.assert_array_equal(X[one], X[shuffled][other])


def test_negative_zero_is_zero():
    rows = Rows.from_dense([[0.0, 1.0], [-0.0, 1.0], [2.0, 0.0]], [1, 1, 1])
    assert has_twins(rows) and by_content(rows).tolist() in ([0, 1, 2], [2, 0, 1])


@pytest.mark.parametrize("sparse", [False, True])
def test_twins_stand_side_by_side(sparse):
    made = sp.csr_matrix if sparse else np.asarray
    rows = TrainingRows.of(made([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]), np.ones(3)).rows
    assert not has_twins(rows)
    assert has_twins(rows.take([0, 2, 1]))
    other = TrainingRows.of(made([[1.0, 0.0], [1.0, 0.0]]), np.array([1.0, -1.0])).rows
    assert not has_twins(other)


@pytest.mark.parametrize("intercept", [False, True])
def test_dense_and_sparse_are_dealt_alike(intercept):
    dense = TrainingRows.of(X, Y, intercept=intercept).canonical()
    sparse = TrainingRows.of(sp.csr_array(X), Y, intercept=intercept).canonical()
    assert dealt(dense, rng=np.random.default_rng(0)) == dealt(sparse, rng=np.random.default_rng(0))


def test_a_pass_deals_every_row_once_to_its_agent():
    examples = TrainingRows.of(X, Y, agents=RNG.integers(0, 2, 40))
    seen = dealt(examples, rng=np.random.default_rng(0))
    assert sorted(seen) == sorted((*x, y, 1.0) for x, y in zip(X, Y, strict=True))


def test_held_out_rows_are_not_learned_from():
    weight = RNG.integers(0, 3, 40).astype(float)
    examples = TrainingRows.of(X, Y, weight)
    kept, held_out = examples.split(0.25, np.random.default_rng(0))
    assert len(held_out) == np.ceil(0.25 * np.count_nonzero(weight))
    assert not set(kept.listed) & set(held_out)
    assert sorted({*kept.listed, *held_out}) == np.flatnonzero(weight).tolist()


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
def test_rows_in_sequence_are_the_rows(sparse, intercept):
    made, weight = sp.csr_array(X) if sparse else X, np.arange(40.0) % 3
    given = TrainingRows.of(made, Y, weight, np.arange(40) % 2, intercept)
    rows, agents = given.in_sequence()
    expected = (np.hstack([np.ones((40, 1)), X]) if intercept else X)[given.listed]
    np.testing.assert_array_equal(rows.to_scipy().toarray(), expected)
    np.testing.assert_array_equal(rows.y, Y[given.listed])
    np.testing.assert_array_equal(agents, given.listed % 2)
