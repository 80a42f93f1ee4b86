import bz2
import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from ddol.streams.arrays import RowsStream, array_stream
from ddol.streams.coding.summary import scan
from ddol.streams.errors import DataError
from ddol.streams.formats import ReadOptions
from ddol.streams.open import open_stream, open_streams
from ddol.streams.rows import concatenate
from ddol.streams.tables.numpy_files import NpyStream, read_npz
from ddol.streams.tables.parquet import ParquetStream
from ddol.streams.text.libsvm import LibsvmStream
from ddol.streams.text.lines import LineStream


def read(stream):
    return concatenate([rows for rows, _ in stream.read()])


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a", LibsvmStream),
        ("a.svm", LibsvmStream),
        ("a.txt", LibsvmStream),
        ("a.dat.gz", LibsvmStream),
        ("covtype.libsvm.binary.scale.bz2", LibsvmStream),
        ("a.CSV", LineStream),
        ("a.tsv.zst", LineStream),
        ("a.parquet", ParquetStream),
        ("a.npy", NpyStream),
    ],
)
def test_the_ending_decides(tmp_path, name, kind):
    pack = {".gz": gzip.compress, ".bz2": bz2.compress}.get(Path(name).suffix, bytes)
    (tmp_path / name).write_bytes(pack(b"x"))
    stream = open_stream(tmp_path / name)
    assert type(stream) is kind
    if kind is LineStream:
        assert stream.format.delimiter == ("\t" if "tsv" in name else None)


def test_the_format_can_be_stated(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("1,2\n")
    [(table, _)] = open_stream(path, ReadOptions(format="csv")).read()
    assert [cells.tolist() for cells in table.columns.values()] == [[1], [2]]
    with pytest.raises(DataError, match="found the format 'xml', expected one of libsvm, named"):
        open_stream(path, ReadOptions(format="xml"))


def test_files_and_agents(tmp_path):
    for number in range(3):
        (tmp_path / f"part-{number}.libsvm").write_text(f"{number} 1:1\n")
    pattern = str(tmp_path / "part-*.libsvm")
    one_each = open_streams(pattern, n_agents=3)
    assert [read(stream).y.tolist() for stream in one_each] == [[0], [1], [2]]
    [chained] = open_streams(pattern, n_agents=2)
    assert read(chained).y.tolist() == [0, 1, 2]
    [single] = open_streams(tmp_path / "part-1.libsvm", n_agents=1)
    assert read(single).y.tolist() == [1]


def test_arrays_and_streams_pass_through():
    X, y = np.eye(2), np.array([0, 1])
    stream = array_stream(X, y)
    assert open_streams(stream) == [stream]
    assert [s.n_examples for s in open_streams([(X, y), (X, y)], n_agents=2)] == [2, 2]
    assert open_streams([stream, stream], n_agents=2) == [stream, stream]
    assert np.shares_memory(open_streams((X, y))[0].rows.data, X)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda folder: folder / "none.csv", "no such file"),
        (lambda folder: folder / "none-*.csv", "no such file"),
        (lambda folder: folder, "found a directory"),
        (lambda folder: [], "found no files"),
    ],
)
def test_files_that_are_not_there(tmp_path, make, message):
    with pytest.raises(DataError, match=message):
        open_stream(make(tmp_path))


def test_mixed_formats_and_empty_files(tmp_path):
    paths = [tmp_path / "a.csv", tmp_path / "b.libsvm"]
    paths[0].write_text("1,2\n")
    paths[1].write_text("")
    with pytest.raises(DataError, match=r"several formats \(csv, libsvm\)"):
        open_stream(paths)
    with pytest.raises(DataError, match="found an empty file"):
        open_stream(paths[1])


# Arrays and NumPy files


def test_data_frames_and_sparse_formats():
    frame = pd.DataFrame({"a": [1, 2], "b": [0.5, 0.25]})
    assert read(array_stream(frame, pd.Series([0, 1]))).data.tolist() == [1, 0.5, 2, 0.25]
    with pytest.raises(DataError, match=r"X: found column 'c' of type .*, expected numbers"):
        array_stream(frame.assign(c=["x", "y"]), [0, 1])
    X = sp.csc_matrix(np.array([[0, 1.0], [2.0, 0]]))
    assert array_stream(X, [0, 1]).rows.indices.tolist() == [1, 0]
    with pytest.raises(DataError, match="found nan in row 1, column 0"):
        array_stream([[1.0], [np.nan]], [0, 1])


def test_npz_dense_and_sparse(tmp_path):
    X = sp.random(30, 6, density=0.3, format="csr", random_state=0)
    y, weight = np.arange(30), np.ones(30)
    np.savez(tmp_path / "dense.npz", X=X.toarray(), y=y, weight=weight)
    parts = {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": X.shape}
    np.savez_compressed(tmp_path / "sparse.npz", **parts, y=y)
    dense, sparse = (read_npz(str(tmp_path / f"{kind}.npz")) for kind in ("dense", "sparse"))
    assert (
        dense.rows.dense and not sparse.rows.dense and dense.rows.weight.tolist() == weight.tolist()
    )
    assert np.array_equal(dense.rows.to_scipy().toarray(), sparse.rows.to_scipy().toarray())
    assert isinstance(open_stream(tmp_path / "dense.npz"), RowsStream)
    both = open_stream([tmp_path / "dense.npz", tmp_path / "dense.npz"])
    positions = [position for _, position in both.read()]
    assert both.n_examples == 60 and both.progress(positions[0]) == (30, 60)
    assert [len(rows) for rows, _ in both.read(positions[0])] == [30]
    assert both.locate(positions[0], 4).endswith("dense.npz: row 4")


def test_npy_is_mapped_and_read_in_blocks(tmp_path):
    table = np.random.default_rng(0).normal(size=(100, 3))
    np.save(tmp_path / "a.npy", table)
    stream = NpyStream(str(tmp_path / "a.npy"), label=-1, block_rows=30)
    assert isinstance(stream._table, np.memmap)
    whole = list(stream.read())
    assert [len(rows) for rows, _ in whole] == [30, 30, 30, 10]
    rows = read(stream)
    assert np.array_equal(rows.y, table[:, 2]) and np.array_equal(rows.data, table[:, :2].ravel())
    assert [len(rows) for rows, _ in stream.read(whole[1][1])] == [30, 10]
    assert scan(stream).n_features == 2


def test_bad_numpy_files(tmp_path):
    path = str(tmp_path / "a.npz")
    np.savez(path, X=np.eye(2))
    with pytest.raises(DataError, match="found the arrays X, expected X"):
        read_npz(path)
    np.savez(path, X=np.array([{}, []], dtype=object), y=[0, 1])
    with pytest.raises(DataError, match="array X cannot be read"):
        read_npz(path)
    np.save(tmp_path / "a.npy", np.array([{"a": 1}], dtype=object))
    for name, text in (("a.npy", None), ("b.npy", b"junk"), ("b.npz", bz2.compress(b"junk"))):
        if text:
            (tmp_path / name).write_bytes(text)
        with pytest.raises(DataError, match="cannot be read as a NumPy file"):
            read(open_stream(tmp_path / name))
    np.save(tmp_path / "c.npy", np.ones(3))
    with pytest.raises(DataError, match="expected a table of numbers with 2 dimensions"):
        read(open_stream(tmp_path / "c.npy"))
    np.save(tmp_path / "d.npy", np.array([[1.0, np.nan]]))
    with pytest.raises(DataError, match="found nan in row 0, column 0"):
        read(open_stream(tmp_path / "d.npy"))
