import io

import numpy as np
import pytest
import scipy.sparse as sp

from ddol.streams.errors import DataError
from ddol.streams.store import room
from ddol.streams.tables.numpy_files import NpyStream, read_npz


def saved(save, *values, **named):
    buffer = io.BytesIO()
    save(buffer, *values, **named)
    return buffer.getvalue()


def csr_parts():
    X = sp.random(30, 7, 0.3, "csr", random_state=0)
    return {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": X.shape}


WHOLE = {
    "npy": saved(np.save, np.random.default_rng(0).normal(size=(40, 5))),
    "npz": saved(np.savez, X=np.eye(9), y=np.arange(9) % 2),
    "compressed": saved(np.savez_compressed, X=np.eye(9), y=np.arange(9) % 2),
    "csr": saved(np.savez, y=np.arange(30) % 2, **csr_parts()),
}


def read(kind, path):
    stream = NpyStream(str(path)) if kind == "npy" else read_npz(str(path))
    return [rows for rows, _ in stream.read()]


@pytest.mark.parametrize("kind", WHOLE)
def test_damage_is_an_error_with_the_name_of_the_file(tmp_path, kind):
    rng = np.random.default_rng(1)
    path = tmp_path / ("a.npy" if kind == "npy" else "a.npz")
    path.write_bytes(WHOLE[kind])
    assert sum(map(len, read(kind, path))) in (9, 30, 40)
    refused = 0
    for trial in range(250):
        data = bytearray(WHOLE[kind])
        for place in rng.integers(0, len(data) if trial % 2 else min(len(data), 130), 3):
            data[place] = rng.integers(0, 256)
        path.write_bytes(bytes(data[: rng.integers(1, len(data))] if trial % 5 == 0 else data))
        try:
            read(kind, path)
        except DataError as error:
            refused += 1
            assert str(error).startswith(str(path)) and "\n" not in str(error)
    assert refused > 50


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"X": np.eye(3), "y": [1, 0]}, "`y` must have shape"),
        ({"X": np.array(["a", "b"]), "y": [1, 0]}, "expected numbers"),
        ({**csr_parts(), "y": np.zeros(30), "indices": np.full(5, 99)}, "make no CSR matrix"),
        ({**csr_parts(), "y": np.zeros(30), "shape": (3,)}, "make no CSR matrix"),
    ],
)
def test_parts_that_do_not_fit(tmp_path, parts, message):
    path = tmp_path / "a.npz"
    np.savez(path, **parts)
    with pytest.raises(DataError) as error:
        read_npz(str(path))
    assert str(error.value).startswith(str(path)) and message in str(error.value)


def test_an_archive_that_is_more_than_the_memory_is_refused(tmp_path, monkeypatch):
    """A few bytes of an archive may be very many numbers."""
    path = tmp_path / "a.npz"
    np.savez_compressed(path, X=np.zeros((5000, 500)), y=np.zeros(5000))
    assert path.stat().st_size < 40_000
    monkeypatch.setattr(room, "bytes_available", lambda: 1 << 20)
    with pytest.raises(DataError, match=r"a.npz: found 0.0 GB of numbers, expected at most"):
        read_npz(str(path))


@pytest.mark.parametrize("kind", ["complex128", "M8[s]"])
def test_numbers_that_are_none_are_refused_by_name(tmp_path, kind):
    path = tmp_path / "a.npz"
    X = np.array([[1, 2], [3, 4]]).astype(kind)
    matrix = {"data": X[0], "indices": [0, 1], "indptr": [0, 1, 2], "shape": [2, 2]}
    for parts in ({"X": X}, matrix):
        np.savez(path, y=[0, 1], **parts)
        with pytest.raises(DataError, match=r"a.npz: found .*"):
            read_npz(str(path))


def test_a_table_that_is_cut_while_it_is_read_does_not_end_the_process(tmp_path):
    path = tmp_path / "a.npy"
    np.save(path, np.ones((4000, 500)))
    stream = NpyStream(str(path), block_rows=1000)
    blocks = stream.read()
    next(blocks)
    with path.open("r+b") as file:
        file.truncate(5000)
    with pytest.raises(DataError, match=r"a.npy: found less than before, expected 4000 rows"):
        next(blocks)
