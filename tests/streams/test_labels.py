import numpy as np
import pytest

from ddol.streams.arrays import array_stream
from ddol.streams.coding.encoder import Encoder
from ddol.streams.coding.encoding import Encoding
from ddol.streams.coding.labels import (
    answers,
    checked_classes,
    class_numbers,
    shown_labels,
    targets,
)
from ddol.streams.coding.summary import scan
from ddol.streams.errors import DataError
from ddol.streams.raw import Text
from ddol.streams.text.libsvm import LibsvmStream


@pytest.mark.parametrize("classes", [("False", "True"), ("FALSE", "TRUE"), ("false", "true")])
def test_truth_values_may_be_numbers_in_one_file_and_words_in_another(classes):
    for labels in ([True, False], [1.0, 0.0], [1, 0], classes[::-1]):
        assert answers(classes, np.array(labels)).tolist() == [1.0, -1.0]
    assert np.isnan(answers(classes, np.array([np.nan, 1.0]))[0])


@pytest.mark.parametrize("pair", [(-1, 1), (0, 1), (1, 2), (-3.5, 1e300), ("no", "yes")])
def test_two_labels_become_signs_in_sorted_order(pair):
    classes = checked_classes(pair[::-1])
    assert answers(classes, [pair[1], pair[0]]).tolist() == [1, -1]
    said = shown_labels(classes)[class_numbers(np.array([0.3, -2.0]))]
    assert said.tolist() == [pair[1], pair[0]]


def test_more_labels_become_class_numbers():
    classes = checked_classes((7.0, 2.0, 5.0))
    y = np.array([5.0, 7.0, 2.0])
    assert answers(classes, y).tolist() == [1, 2, 0]
    assert np.array_equal(shown_labels(classes)[answers(classes, y).astype(int)], y)
    scores = np.array([[0.1, 0.3, 0.3], [-2.0, -3.0, -1.0], [0.0, -1.0, 0.0]])
    assert class_numbers(scores).tolist() == [1, 2, 0]
    assert class_numbers(scores, tie=0.3).tolist() == [0, 2, 0]
    assert class_numbers(scores[:, :1]).tolist() == [1, 0, 1]
    assert answers(("a", "b"), Text.of(["b", "a", None]), numbered=True)[:2].tolist() == [1, 0]


def test_text_and_numbers_of_the_same_label_meet():
    assert answers((1.0, 2.0), Text.of(["2", "1.0"])).tolist() == [1, -1]
    assert answers(("1", "2"), [2.0, 1.0]).tolist() == [1, -1]
    assert checked_classes([1.0, "x"]) == ("1", "x")


def test_one_class_and_quantities_are_refused():
    with pytest.raises(DataError, match=r"a.libsvm: found one class only \(label 4\)"):
        checked_classes((4.0,), "a.libsvm")
    with pytest.raises(DataError, match=r"more than 1,024 labels.*regression loss"):
        checked_classes(None)


def test_labels_beyond_whole_numbers_stay_what_they_are():
    assert shown_labels((-1e300, 1e300)).tolist() == [-1e300, 1e300]
    assert shown_labels((1.0, 2.0**53)).dtype == np.int64
    with pytest.raises(DataError, match="an infinite label"):
        checked_classes((1.0, np.inf), "a.csv")


def test_labels_that_floats_do_not_tell_apart_are_refused_in_files_and_kept_in_arrays():
    with pytest.raises(DataError, match="at most 15 digits"):
        checked_classes((2.0**60, 2.0**60 + 512, 1.0), "a.csv")
    identifiers = np.array([2**60 + 1, 2**60, 2**60 + 1])
    assert answers((2**60, 2**60 + 1), identifiers).tolist() == [1.0, -1.0, 1.0]
    days = np.array(["2020-01-02", "2020-01-01"], "datetime64[D]")
    assert answers(np.unique(days).tolist(), days).tolist() == [1.0, -1.0]


def test_a_text_is_no_target():
    assert np.isnan(targets(Text.of(["1.5", None])))[1]
    with pytest.raises(DataError, match="row 1: found the label 'red', expected a number"):
        targets(Text.of(["1.5", "red"]))


def test_a_label_that_was_not_known_is_named_with_its_line(tmp_path):
    path = tmp_path / "late.libsvm"
    path.write_text("# head\n" + "1 1:1\n0 1:2\n" * 500 + "\n2 1:3\n")
    stream = LibsvmStream((str(path),), chunk_bytes=1000)
    with pytest.raises(DataError, match=r"late.libsvm:1003:1: found label 2, expected one of 0, 1"):
        list(Encoder(Encoding(classes=(0.0, 1.0))).stream(stream).read())
    assert scan(stream).labels == (0.0, 1.0, 2.0)


def test_arrays_are_encoded_at_once():
    stream = array_stream(np.ones((3, 1)), [2, 4, 2])
    [(rows, _)] = Encoder(Encoding(classes=(2.0, 4.0))).stream(stream).read()
    assert rows.y.tolist() == [-1, 1, -1]
    with pytest.raises(DataError, match="X: row 1: found label 4"):
        Encoder(Encoding(classes=(2.0, 3.0))).stream(stream)
