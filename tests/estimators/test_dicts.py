import numpy as np
import pytest

from ddol.estimators.dicts import FeatureColumns


def test_columns_stay_when_features_come():
    columns = FeatureColumns()
    columns.rows([{"a": 1.0}], [0.0])
    rows = columns.rows([{"b": 2.0, "a": 3.0}], [0.0])
    assert rows.indices.tolist() == [0, 1, 2]
    assert rows.data.tolist() == [1.0, 3.0, 2.0]


def test_unknown_features_are_left_out_of_predictions():
    columns = FeatureColumns()
    columns.rows([{"a": 1.0}], [0.0])
    rows = columns.rows([{"b": 2.0}], [0.0], learn=False)
    assert (rows.indices.tolist(), columns.n_columns) == ([0], 2)


def test_text_is_a_feature_of_its_own():
    columns = FeatureColumns()
    columns.rows([{"colour": "red"}, {"colour": "blue"}], [0.0, 0.0])
    assert list(columns.known) == ["colour=red", "colour=blue"]


def test_hashed_features_that_fall_together_add_up():
    rows = FeatureColumns(bits=1).rows([{f"f{k}": 1.0 for k in range(10)}], [0.0])
    assert rows.n_features == 3
    assert rows.data.sum() == 11.0
    assert np.all(np.diff(rows.indices.astype(int)) > 0)


def test_what_is_not_a_number_is_refused():
    with pytest.raises(ValueError, match="feature 'a' is nan"):
        FeatureColumns().rows([{"a": np.nan}], [0.0])
