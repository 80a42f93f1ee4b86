import numpy as np
import pytest

from ddol.streams.errors import DataError
from ddol.streams.rows import concatenate
from ddol.streams.synthetic import drifting, linear, sparse

STREAMS = [
    linear(9000, 6, seed=2),
    sparse(9000, 10_000, 20),
    drifting(9000, 4),
]


def read(stream):
    return concatenate([rows for rows, _ in stream.read()])


@pytest.mark.parametrize("stream", STREAMS, ids=lambda stream: stream.name)
def test_streams_are_the_same_every_time_and_restart_anywhere(stream):
    first, second = list(stream.read()), list(stream.read())
    assert all(np.array_equal(a.data, b.data) for (a, _), (b, _) in zip(first, second, strict=True))
    assert sum(len(rows) for rows, _ in first) == stream.n_examples == 9000
    assert all(rows.n_features == stream.n_features for rows, _ in first)
    assert all(rows.dense != (stream.name == "sparse") for rows, _ in first)
    for number, (_, position) in enumerate(first):
        rest = [rows.y for rows, _ in stream.read(position)]
        assert all(map(np.array_equal, rest, [rows.y for rows, _ in first[number + 1 :]]))


@pytest.mark.parametrize("make", [linear, lambda *args, **kw: sparse(*args, nonzeros=20, **kw)])
def test_labels_are_linear_up_to_the_noise(make):
    clean, noisy = read(make(8000, 30, noise=0)), read(make(8000, 30, noise=0.2))
    assert np.array_equal(clean.data, noisy.data)
    assert 0.17 < np.mean(clean.y != noisy.y) < 0.23
    X = clean.to_scipy()
    w = np.linalg.lstsq(X.toarray(), clean.y, rcond=None)[0]
    assert np.mean(np.sign(X @ w) == clean.y) > 0.9


def test_sparse_rows_have_ascending_columns():
    rows = read(sparse(500, 1000, nonzeros=30))
    for lo, hi in zip(rows.indptr[:-1], rows.indptr[1:], strict=True):
        assert (np.diff(rows.indices[lo:hi].astype(int)) > 0).all() and hi > lo


def test_half_a_turn_reverses_the_labels():
    rows = read(drifting(20_000, 3, turns=0.5, noise=0))
    X = rows.data.reshape(-1, 3)
    w = np.linalg.lstsq(X[:1000], rows.y[:1000], rcond=None)[0]
    assert np.mean(np.sign(X[:1000] @ w) == rows.y[:1000]) > 0.9
    assert np.mean(np.sign(X[-1000:] @ w) == rows.y[-1000:]) < 0.1


def test_wrong_parameters():
    with pytest.raises(DataError, match=r"`noise` must be from 0 to 0\.5"):
        linear(10, 2, noise=0.7)
    with pytest.raises(DataError, match="at least 2"):
        drifting(10, 1)
