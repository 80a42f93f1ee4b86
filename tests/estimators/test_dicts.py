import warnings

import numpy as np
import pytest

from ddol.estimators.dicts import INTERCEPT, DictColumns


def test_names_get_columns_as_they_come():
    columns = DictColumns()
    first = columns.rows([{"a": 2.0}], [1.0])
    second = columns.rows([{"b": 3, "a": True}, {("c", 1): 4.0}], [1.0, -1.0])
    assert first.indices.tolist() == [INTERCEPT, 1] and first.data.tolist() == [1.0, 2.0]
    assert second.to_scipy().toarray()[:, :4].tolist() == [[1, 1, 3, 0], [1, 0, 0, 4]]
    assert {name: column for name, (column, _) in columns.known.items()} == {
        "a": 1, "b": 2, "('c', 1)": 3,
    }  # fmt: skip


def test_unknown_names_are_left_out_where_nothing_is_learned():
    columns = DictColumns()
    columns.rows([{"a": 2.0}], [1.0])
    rows = columns.rows([{"b": 5.0, "a": 1.0}], [0.0], learn=False)
    assert rows.indices.tolist() == [INTERCEPT, 1]
    assert columns.rows([{"b": 5.0, "a": 1.0}], [0.0]).indices.tolist() == [INTERCEPT, 1, 2]


def test_columns_double_and_never_shrink():
    columns, seen = DictColumns(), set()
    for k in range(100):
        seen.add(columns.rows([{f"x{k}": 1.0}], [1.0]).n_features)
    assert seen == {32, 64, 128}


def test_hashed_names_keep_to_their_columns_and_add_up():
    columns = DictColumns(bits=1)
    rows = columns.rows([{f"x{k}": 1.0 for k in range(10)}], [1.0])
    assert rows.n_features == 3 and set(rows.indices.tolist()) <= {0, 1, 2}
    assert np.abs(rows.data[1:]).sum() <= 10
    same = DictColumns(bits=1).rows([{f"x{k}": 1.0 for k in reversed(range(10))}], [1.0])
    assert dict(zip(rows.indices, rows.data, strict=True)) == dict(
        zip(same.indices, same.data, strict=True)
    )


def test_an_example_that_changed_is_another_example():
    columns, example = DictColumns(), {"a": 1.0}
    columns.rows([example], [1.0])
    example["a"] = 7.0
    assert columns.rows([example], [1.0]).data.tolist() == [1.0, 7.0]


def test_numbers_of_single_precision_are_numbers():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rows = DictColumns().rows([{"a": np.float32(0.5), "b": np.float32(2)}], [1.0])
    assert rows.data.tolist() == [1.0, 0.5, 2.0]


@pytest.mark.parametrize("value", [None, float("nan"), float("inf"), [1], -1e200])
def test_what_is_no_number_is_refused_by_its_name(value):
    for learn in (True, False):
        with pytest.raises(ValueError, match=r"feature 'age' is .*, expected a finite number"):
            DictColumns().rows([{"age": value}], [1.0], learn=learn)


@pytest.mark.parametrize("bits", [None, 12])
def test_names_are_known_once_they_are_learned_from(bits):
    columns = DictColumns(bits)
    for learn, known in ((False, set()), (True, {"a", "b=x"})):
        columns.rows([{"a": 1.0, "b": "x"}], [1.0], learn)
        assert set(columns.known) == known


def test_names_beyond_the_last_column_are_told_of(monkeypatch):
    monkeypatch.setattr("ddol.estimators.dicts.MOST_NAMES", 2)
    columns = DictColumns()
    with pytest.warns(UserWarning, match="more than 2 names of features"):
        rows = columns.rows([{"a": 1.0, "b": 2.0, "c": 3.0}], [1.0])
    assert rows.data.tolist() == [1.0, 1.0, 2.0]


@pytest.mark.parametrize("bits", [None, 18])
def test_names_that_were_forgotten_are_found_again(monkeypatch, bits):
    rng = np.random.default_rng(0)
    examples = [{f"w{k}": 1.0 for k in rng.integers(0, 60, 8).tolist()} for _ in range(40)]
    rows = []
    for most in (1 << 20, 20):
        monkeypatch.setattr("ddol.estimators.dicts._REMEMBERED", most)
        columns = DictColumns(bits)
        rows.append([])
        for example in examples:
            for learn in (False, True):
                row = columns.rows([example], [1.0], learn)
                rows[-1].append((row.indices.tolist(), row.data.tolist()))
    assert rows[0] == rows[1]
