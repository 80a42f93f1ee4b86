"""Columns of a table as the rows of a matrix."""

import numpy as np
import pytest

from ddol.streams.coding.cells import side_by_side
from ddol.streams.rows import LARGEST


@pytest.mark.parametrize("n, m", [(0, 3), (1, 1), (7, 8), (100, 17), (1000, 9)])
def test_columns_of_any_step_come_side_by_side(n, m):
    rng = np.random.default_rng(n + m)
    whole = rng.normal(size=(n, m)) * 10.0 ** rng.integers(-300, 149, (n, m))
    ones = np.broadcast_to(1.0, n)
    for columns in (list(whole.T.copy()), [whole[:, k] for k in range(m)]):
        out = np.empty((n, m + 1))
        assert side_by_side([ones, *columns], out)
        assert np.array_equal(out, np.column_stack([ones, whole]))


@pytest.mark.parametrize("value", [np.nan, -np.nan, np.inf, -np.inf, LARGEST, -1e300])
def test_one_number_whose_square_is_none_is_seen_wherever_it_is(value):
    for row, column in ((0, 0), (63, 8), (64, 9), (99, 16)):
        whole = np.full((100, 17), -np.nextafter(LARGEST, 0.0))
        whole[row, column] = value
        out = np.empty_like(whole)
        assert not side_by_side(list(whole.T.copy()), out)
        assert np.array_equal(out, whole, equal_nan=True)
