import bz2
import gzip
import io
import json
import sys

import numpy as np
import polars as pl
import pytest

from ddol.streams.columns import choose_columns
from ddol.streams.errors import DataError
from ddol.streams.parquet import ParquetStream
from ddol.streams.rows import concatenate
from ddol.streams.summary import scan
from ddol.streams.tables import CsvStream


def read(stream):
    return concatenate([rows for rows, _ in stream.read()])


def csv_of(folder, text, name="a.csv", **options):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return CsvStream((str(path),), **options)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    return np.column_stack([rng.integers(0, 2, 5000), rng.normal(size=(5000, 4))])


@pytest.fixture(scope="module")
def text(table):
    lines = [",".join(map(repr, row.tolist())) for row in table]
    return "label,a,b,c,d\n" + "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("name", "pack"), [("a.csv", bytes), ("a.csv.gz", gzip.compress), ("a.csv.bz2", bz2.compress)]
)
def test_values_are_exact_and_reading_restarts_anywhere(tmp_path, table, text, name, pack):
    stream = csv_of(tmp_path, pack(text.encode()), name, chunk_bytes=90_000)
    rows = read(stream)
    assert np.array_equal(rows.y, table[:, 0])
    assert np.array_equal(rows.data.reshape(-1, 4), table[:, 1:])
    whole = list(stream.read())
    assert len(whole) > 2
    for number, (_, position) in enumerate(whole):
        rest = [rows.data for rows, _ in stream.read(json.loads(json.dumps(position)))]
        assert all(map(np.array_equal, rest, [rows.data for rows, _ in whole[number + 1 :]]))
    done, total = stream.progress(whole[-1][1])
    assert done == total and scan(stream).labels == (0.0, 1.0)


def test_files_are_read_one_after_the_other(tmp_path, table, text):
    path = csv_of(tmp_path, text).paths[0]
    rows = read(CsvStream((path, path)))
    assert np.array_equal(rows.y, np.concatenate([table[:, 0]] * 2))


@pytest.mark.parametrize(
    ("text", "options", "y", "data"),
    [
        ("1,2,3\n4,5,6", {}, [1, 4], [2, 3, 5, 6]),
        ("a,b,Y\n1,2,3\n", {}, [3], [1, 2]),
        ("a,b,c\n1,2,3\n", {"label": "b"}, [2], [1, 3]),
        ("a,b,c\n1,2,3\n", {"label": -1}, [3], [1, 2]),
        ("a,b,c\n1,2,3\n", {"label": "2", "weight": "a"}, [3], [2]),
        ("1\t2\n3\t4\n", {"delimiter": "\t"}, [1, 3], [2, 4]),
        ("1,2\n3,4\n", {"header": True}, [3], [4]),
        ("1, 2\r\n\r\n 3 ,4 \r\n", {}, [1, 3], [2, 4]),
        ('"y","a"\n"1","2.5"\n', {}, [1], [2.5]),
        ("y,a\n+1,-1e-3\n", {}, [1], [-0.001]),
    ],
)
def test_columns_headers_and_delimiters(tmp_path, text, options, y, data):
    stream = csv_of(tmp_path, text, **options)
    rows = read(stream)
    assert rows.y.tolist() == y and rows.data.tolist() == data
    assert rows.n_features == stream.n_features


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("y,a\n1,2\n1,red\n", {}, "a.csv:3: column 'a': found the text 'red', expected a number"),
        ("y,a\n1,2\n,3\n", {}, "a.csv:3: column 'y': found a missing label"),
        ("y,a\n1,2\n1,\n", {}, "a.csv:3: column 'a': found a missing cell"),
        ("y,a\n1,2\n1,nan\n", {}, "a.csv:3: column 'a': found 'nan', expected a finite number"),
        ("y,a\n1,2\n1\n", {}, "a.csv:3: found 1 cells, expected 2"),
        ("y,a\n1,2\n1,2,3\n", {}, "a.csv:3: found 3 cells, expected 2"),
        ("y,a\n", {}, "found no rows below the header"),
        ("y\n1\n", {}, "found 1 column(s), expected a label and at least one feature"),
        ("y;a\n1;2\n", {}, "check the delimiter"),
        ("y,a\n1,2\n", {"label": "z"}, "found no label column 'z', expected one of y, a"),
        ("y,a\n1,2\n", {"weight": 7}, "found no weight column 7"),
        ("", {}, "found an empty file"),
    ],
)
def test_bad_tables(tmp_path, text, options, message):
    with pytest.raises(DataError) as error:
        read(csv_of(tmp_path, text, **options))
    assert message in str(error.value) and "\n" not in str(error.value)


def test_standard_input(monkeypatch):
    class Stdin:
        buffer = io.BytesIO(b"a,label\n1,2\n")

    monkeypatch.setattr(sys, "stdin", Stdin)
    stream = CsvStream(("-",))
    assert stream.n_features is None and not stream.restartable
    [(rows, position)] = stream.read()
    assert rows.y.tolist() == [2]
    with pytest.raises(DataError, match="cannot be read twice"):
        next(stream.read(position))


def test_a_missing_package_is_named_with_its_extra(tmp_path, monkeypatch):
    stream = csv_of(tmp_path, "y,a\n1,2\n")
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(DataError, match=r"pip install ddol\[tables\]"):
        read(stream)


def test_a_row_is_located_by_its_line(tmp_path):
    stream = csv_of(tmp_path, "y,a\n" + "1,2\n\n" * 3)
    assert stream.locate(None, 1).endswith("a.csv:4")


def test_label_by_name_wins_over_position():
    assert choose_columns(["x", "TARGET", "y"]).label == 2


# Parquet


def parquet_of(folder, frame, **options):
    path = folder / "a.parquet"
    frame.write_parquet(path)
    return ParquetStream((str(path),), **options)


def test_parquet_equals_the_table_and_restarts_anywhere(tmp_path, table):
    frame = pl.DataFrame({name: table[:, k] for k, name in enumerate("abcd")})
    frame = frame.with_columns(pl.col("a").cast(pl.Int8).alias("y"), flag=pl.lit(True)).drop("a")
    stream = parquet_of(tmp_path, frame, slice_rows=1700)
    assert (stream.n_examples, stream.n_features) == (5000, 4)
    whole = list(stream.read())
    assert [len(rows) for rows, _ in whole] == [1700, 1700, 1600]
    rows = read(stream)
    assert np.array_equal(rows.y, table[:, 0])
    assert np.array_equal(rows.data.reshape(-1, 4)[:, :3], table[:, 1:4])
    again = [rows.data for rows, _ in stream.read(whole[0][1])]
    assert all(map(np.array_equal, again, [rows.data for rows, _ in whole[1:]]))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"y": [1.0, None], "a": [1.0, 2.0]},
            "row 1: column 'y': found a missing or infinite label",
        ),
        ({"y": [1.0, 2.0], "a": [1.0, np.inf]}, "column 'a': found a missing or infinite value"),
        ({"y": [1.0], "a": ["red"]}, "column 'a': found the type String, expected numbers"),
        ({"y": [], "a": []}, "found"),
    ],
)
def test_bad_parquet(tmp_path, columns, message):
    with pytest.raises(DataError, match=message):
        read(parquet_of(tmp_path, pl.DataFrame(columns)))


def test_not_parquet(tmp_path):
    path = tmp_path / "a.parquet"
    path.write_text("this is text")
    with pytest.raises(DataError, match="not a Parquet file"):
        read(ParquetStream((str(path),)))
