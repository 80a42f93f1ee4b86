import datetime
import weakref

import numpy as np
import polars as pl
import pytest

from ddol.streams.coding.summary import scan
from ddol.streams.errors import DataError
from ddol.streams.over.parallel import ParallelStream, ParsingPool
from ddol.streams.raw import Text
from ddol.streams.store import room
from ddol.streams.tables.parquet import ParquetStream


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    return pl.DataFrame({"y": rng.integers(0, 2, 5000), "a": rng.normal(size=5000)})


def parquet_of(folder, frame, name="a.parquet", rows=1700, **options):
    path = folder / name
    frame.write_parquet(path, row_group_size=rows)
    return ParquetStream((str(path),), **options)


def numbers_in(table):
    return np.column_stack(list(table.columns.values()))


def matrix(blocks):
    return np.concatenate([numbers_in(table) for table, _ in blocks])


def test_it_equals_the_frame_and_restarts_anywhere(tmp_path, frame):
    path = parquet_of(tmp_path, frame).paths[0]
    stream = ParquetStream((path, path), piece_rows=600)
    assert stream.n_examples == 10_000
    whole = list(stream.read())
    assert max(len(table) for table, _ in whole) == 600  # groups are as polars cuts them
    assert np.array_equal(matrix(whole), np.tile(frame.to_numpy(), (2, 1)))
    seen = 0
    for number, (table, position) in enumerate(whole):
        rest = [numbers_in(table) for table, _ in stream.read(position)]
        assert all(
            map(np.array_equal, rest, [numbers_in(table) for table, _ in whole[number + 1 :]])
        )
        assert stream.locate(None, 3) == f"{path}: row 4"
        seen += len(table)
        assert stream.progress(position) == (seen, 10_000)
    assert np.array_equal(matrix(ParallelStream(stream, ParsingPool(3)).read()), matrix(whole))


def test_a_name_is_no_pattern(tmp_path, frame):
    stream = parquet_of(tmp_path, frame, name="a[1].parquet")
    parquet_of(tmp_path, frame[:7], name="a1.parquet")
    assert np.array_equal(matrix(stream.read()), frame.to_numpy())


def test_parts_are_the_whole(tmp_path, frame):
    for rows in (700, 9000):  # groups are cut where a part ends in them
        stream = parquet_of(tmp_path, frame, rows=rows)
        parts = [stream.part_of(k, 3) for k in range(3)]
        read = [list(part.read()) for part in parts]
        tables = [numbers_in(table) for each in read for table, _ in each]
        assert np.array_equal(np.concatenate(tables), frame.to_numpy())
        for part, each in zip(parts, read, strict=True):
            assert part.progress(each[-1][1]) == (part.n_examples, part.n_examples)
            rest = [numbers_in(table) for table, _ in part.read(each[0][1])]
            assert all(map(np.array_equal, rest, [numbers_in(table) for table, _ in each[1:]]))
        row = sum(part.n_examples for part in parts[:2])
        assert parts[2].locate(None, 4).endswith(f"row {row + 5}")


def test_only_the_columns_that_are_needed(tmp_path, frame):
    stream = parquet_of(tmp_path, frame, columns=("a",))
    assert all(list(table.columns) == ["a"] for table, _ in stream.read())


def test_kinds_of_columns(tmp_path):
    columns = {
        "flag": [True, False],
        "maybe": [True, None],
        "town": ["Rome", None],
        "kind": pl.Series(["a", "b"], dtype=pl.Categorical),
        "day": [datetime.date(2024, 1, 2), None],
        "count": [1, None],
        "word": ["na", "?"],
    }
    [(table, _)] = parquet_of(tmp_path, pl.DataFrame(columns)).read()
    assert table.columns["flag"].tolist() == [True, False]
    assert np.array_equal(table.columns["maybe"], [1, np.nan], equal_nan=True)
    assert np.array_equal(table.columns["count"], [1, np.nan], equal_nan=True)
    texts = {n: [c.cell(0), c.cell(1)] for n, c in table.columns.items() if isinstance(c, Text)}
    assert texts == {
        "town": ["Rome", None],
        "kind": ["a", "b"],
        "day": ["2024-01-02", None],
        "word": [None, None],
    }


def test_what_is_no_cell_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"column 'a': found the type (large_)?list"):
        list(parquet_of(tmp_path, pl.DataFrame({"a": [[1, 2]]})).read())
    with pytest.raises(DataError, match=r"column 'a': found the type duration.*--drop a"):
        list(parquet_of(tmp_path, pl.DataFrame({"a": [datetime.timedelta(1)]})).read())


def test_no_rows(tmp_path):
    with pytest.raises(DataError, match="found no rows"):
        list(parquet_of(tmp_path, pl.DataFrame({"y": [], "a": []})).read())


def test_not_parquet(tmp_path):
    path = tmp_path / "a.parquet"
    path.write_text("this is text")
    with pytest.raises(DataError, match=r"a\.parquet: cannot be read .*expected a Parquet file"):
        list(ParquetStream((str(path),)).read())


def test_footers_of_another_writer(tmp_path, frame):
    import pyarrow.parquet as pq

    path = tmp_path / "arrow.parquet"
    pq.write_table(frame.to_arrow(), path, row_group_size=999)
    stream = ParquetStream((str(path),))
    assert stream.n_examples == 5000
    assert np.array_equal(matrix(stream.read()), frame.to_numpy())


def test_damage_is_an_error_with_the_name_of_the_file(tmp_path, frame):
    whole = (tmp_path / "a.parquet", parquet_of(tmp_path, frame.head(300)))[0].read_bytes()
    rng = np.random.default_rng(1)
    path = tmp_path / "damaged.parquet"
    for _ in range(150):
        data = bytearray(whole)
        for place in rng.integers(0, len(data), 4):
            data[place] = rng.integers(0, 256)
        path.write_bytes(bytes(data[: rng.integers(1, len(data))] if rng.random() < 0.2 else data))
        try:
            list(ParquetStream((str(path),)).read())
        except DataError as error:
            assert str(error).startswith(str(path)) and "\n" not in str(error)


def test_groups_that_are_read_are_let_go(tmp_path):
    """What is in memory is a group or two, not the file."""
    path = str(tmp_path / "groups.parquet")
    frame = pl.DataFrame({"a": np.arange(4000.0), "y": [0, 1] * 2000})
    frame.write_parquet(path, row_group_size=500)
    alive, seen = [], []
    load = ParquetStream.load

    def watched(self, *group):
        found = load(self, *group)
        alive.append(weakref.ref(found))
        seen.append(sum(each() is not None for each in alive))
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ParquetStream, "load", watched)
        assert sum(len(table) for table, _ in ParquetStream((path,), piece_rows=100).read()) == 4000
    assert max(seen) <= 2


def test_a_group_that_is_more_than_the_memory_is_refused(tmp_path, monkeypatch):
    """A column of one value takes a few bytes, however many rows there are."""
    path = tmp_path / "a.parquet"
    rows = pl.DataFrame({"label": [0, 1] * 50_000, "a": [1.0] * 100_000})
    rows.write_parquet(path, row_group_size=100_000)
    monkeypatch.setattr(room, "bytes_available", lambda: 100_000)
    monkeypatch.setattr(room, "NOTHING", 1)
    with pytest.raises(DataError, match=r"a.parquet: group 0: found 0.0 GB .*smaller row groups"):
        next(ParquetStream((str(path),)).read())


def test_labels_of_three_classes_are_all_found(tmp_path):
    stream = parquet_of(tmp_path, pl.DataFrame({"y": [0, 1, 2, 1] * 50, "a": [0.5] * 200}))
    assert scan(stream, "y").labels == (0.0, 1.0, 2.0)


def test_columns_that_are_never_used_may_hold_anything(tmp_path):
    given = pl.DataFrame({"a": [1.0, 2.0], "b": [[1], [2]]})
    for options in ({"drop": ("b",)}, {"known": ("a",)}):
        [(table, _)] = parquet_of(tmp_path, given, **options).read()
        assert table.columns["b"].tolist() == [0, 0] and table.columns["a"].tolist() == [1, 2]


def test_no_thread_of_arrow_decodes(tmp_path, frame, monkeypatch):
    """Several groups are read at once by our own threads: as many as `--cores` allows."""
    import pyarrow.parquet as pq

    asked, read = [], pq.ParquetFile.read_row_group
    monkeypatch.setattr(
        pq.ParquetFile,
        "read_row_group",
        lambda self, *of, **how: (asked.append(how["use_threads"]), read(self, *of, **how))[1],
    )
    stream = parquet_of(tmp_path, frame)
    list(stream.read())
    groups = pq.ParquetFile(stream.paths[0]).num_row_groups
    assert groups > 1 and asked == [False] * groups
