import numpy as np
import pytest

from ddol.streams.arrays import array_stream
from ddol.streams.errors import DataError
from ddol.streams.labels import Labels, binary_labels, class_labels, labelled
from ddol.streams.libsvm import LibsvmStream
from ddol.streams.summary import scan


@pytest.mark.parametrize("pair", [(-1, 1), (0, 1), (1, 2), (-3.5, 1e300)])
def test_two_labels_become_signs_in_sorted_order(pair):
    labels = binary_labels(pair[::-1])
    assert labels.encode([pair[1], pair[0]]).tolist() == [1, -1]
    assert labels.decode([0.3, -2.0]).tolist() == [pair[1], pair[0]]


def test_more_labels_become_class_numbers():
    labels = class_labels((7.0, 2.0, 5.0))
    y = np.array([5.0, 7.0, 2.0])
    assert labels.encode(y).tolist() == [1, 2, 0]
    assert np.array_equal(labels.decode(labels.encode(y)), y)


@pytest.mark.parametrize("make", [binary_labels, class_labels])
def test_one_class_and_quantities_are_refused(make):
    with pytest.raises(DataError, match=r"a.libsvm: found one class only \(label 4\)"):
        make((4.0,), "a.libsvm")
    with pytest.raises(DataError, match=r"more than 1,024 labels.*regression loss"):
        make(None)


def test_three_classes_for_a_binary_algorithm():
    with pytest.raises(DataError, match=r"found 3 labels \(0, 1, 2\), expected two classes"):
        binary_labels((0.0, 1.0, 2.0))


def test_labels_must_ascend():
    with pytest.raises(DataError, match="ascending"):
        Labels((1.0, 0.0))


def test_a_label_that_was_not_known_is_named_with_its_line(tmp_path):
    path = tmp_path / "late.libsvm"
    path.write_text("# head\n" + "1 1:1\n0 1:2\n" * 500 + "\n2 1:3\n")
    stream = LibsvmStream((str(path),), chunk_bytes=1000)
    with pytest.raises(DataError, match=r"late.libsvm:1003:1: found label 2, expected one of 0, 1"):
        list(labelled(stream, Labels((0.0, 1.0))).read())
    assert scan(stream).labels == (0.0, 1.0, 2.0)


def test_arrays_are_mapped_at_once():
    stream = array_stream(np.ones((3, 1)), [2, 4, 2])
    [(rows, _)] = labelled(stream, Labels((2.0, 4.0))).read()
    assert rows.y.tolist() == [-1, 1, -1]
    with pytest.raises(DataError, match="X: row 1: found label 4"):
        labelled(stream, Labels((2.0, 3.0)))
