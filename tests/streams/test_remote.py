import gzip
import sys
import threading

import numpy as np
import polars as pl
import pytest

from ddol.streams.errors import DataError
from ddol.streams.open import expand, open_stream, open_streams, partition_name
from ddol.streams.over.parallel import ParallelStream, ParsingPool
from ddol.streams.store import remote

fsspec = pytest.importorskip("fsspec")
LINES = "".join(f"{k % 2} 1:{k}\n" for k in range(500))


@pytest.fixture
def store():
    files = fsspec.filesystem("memory")
    yield files
    files.rm("/", recursive=True)


def count(stream):
    return sum(len(block) for block, _ in stream.read())


def frame(k):
    return pl.DataFrame({"y": [0, 1, 0], "a": [k, k + 1, k + 2]})


def test_every_format_is_read_from_a_store(store):
    store.pipe("/data/a.libsvm", LINES.encode())
    store.pipe("/data/b.libsvm.gz", gzip.compress(LINES.encode()))
    store.pipe("/data/c.csv", b"y,a\n" + b"1,2\n" * 40)
    store.pipe("/data/d.vw", b"1 |a x\n" * 30)
    with store.open("/data/e.parquet", "wb") as file:
        frame(0).write_parquet(file)
    with store.open("/data/f.npz", "wb") as file:
        np.savez(file, X=np.eye(3), y=[0, 1, 0])
    with store.open("/data/g.npy", "wb") as file:
        np.save(file, np.eye(4))
    names = expand(["memory://data/*"])
    found = {name.rsplit("/", 1)[1]: count(open_stream(name)) for name in names}
    assert found == {
        "a.libsvm": 500, "b.libsvm.gz": 500, "c.csv": 40, "d.vw": 30, "e.parquet": 3, "f.npz": 3,
        "g.npy": 4,
    }  # fmt: skip


def test_ranges_are_read_by_threads_and_parts(store):
    store.pipe("/data/a.libsvm", LINES.encode())
    from dataclasses import replace

    stream = replace(open_stream("memory://data/a.libsvm"), chunk_bytes=700)
    values = [v for rows, _ in stream.read() for v in rows.data.tolist()]
    assert values == list(range(500))
    parallel = ParallelStream(stream, ParsingPool(3)).read()
    assert [v for rows, _ in parallel for v in rows.data.tolist()] == values
    parts = [v for k in range(3) for rows, _ in stream.part_of(k, 3).read() for v in rows.data]
    assert parts == values


def test_partitions_are_agents(store, tmp_path):
    for k, site in enumerate(("bern", "lyon")):
        for part in range(2):
            with store.open(f"/events/site={site}/part-{part}.parquet", "wb") as file:
                frame(10 * k + part).write_parquet(file)
            folder = tmp_path / f"site={site}"
            folder.mkdir(exist_ok=True)
            frame(10 * k + part).write_parquet(folder / f"part-{part}.parquet")
            (folder / "_SUCCESS").touch()
    for pattern in ("memory://events/site=*/", f"{tmp_path}/site=*/"):
        assert [partition_name(name) for name in expand([pattern])] == ["bern", "lyon"]
        streams = open_streams(pattern, n_agents=2)
        found = [[table.columns["a"][0] for table, _ in s.read()] for s in streams]
        assert found == [[0, 1], [10, 11]]
        [one] = open_streams(pattern, n_agents=3)
        assert count(one) == 12


def test_what_is_wrong_is_said_with_the_address(store, monkeypatch):
    with pytest.raises(DataError, match=r"memory://none/a.csv: nothing is there"):
        open_stream("memory://none/a.csv")
    with pytest.raises(DataError, match=r"nosuch://a/b.csv: .*"):
        open_stream("nosuch://a/b.csv")
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(DataError, match=r"pip install ddol\[cloud\]"):
        open_stream("s3://bucket/a.csv")


def test_a_file_address(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("y,a\n1,2\n")
    assert count(open_stream(f"file://{path}")) == 1


def test_frames_are_streams():
    [one] = open_streams(frame(1), n_agents=4)
    [lazy] = open_streams(frame(1).lazy())
    assert count(one) == count(lazy) == 3
    [(table, position)] = one.read()
    assert table.columns["a"].tolist() == [1, 2, 3]
    assert list(one.read(position)) == [] and one.progress(position) == (1, 1)


def test_partitions_of_dask_are_streams():
    dask = pytest.importorskip("dask.dataframe")
    given = dask.from_pandas(frame(1).to_pandas(), npartitions=3)
    assert [count(stream) for stream in open_streams(given, n_agents=3)] == [1, 1, 1]
    [one] = open_streams(given, n_agents=2)
    assert count(one) == 3


def test_a_run_learns_from_a_frame():
    import ddol

    rng = np.random.default_rng(0)
    a = rng.standard_normal(400)
    given = pl.DataFrame({"a": a, "town": np.where(a > 0, "Rome", "Bern"), "label": a > 0})
    given = given.with_columns(label=pl.col("label").cast(pl.Int8))
    for frame in (given, given.lazy(), given.to_pandas()):
        trace = ddol.run(ddol.dogd(), frame, ddol.ring(4))
        assert trace.examples == 400 and trace.error < 0.1
    for pair in ((given[["a"]].lazy(), given["label"]), (given[["a", "label"]], "label")):
        assert ddol.run(ddol.dogd(), pair, ddol.ring(4)).examples == 400


def test_who_waits_for_a_store_says_so(store, monkeypatch, capfd):
    store.pipe("/data/a.libsvm", LINES.encode())
    said = threading.Event()
    monkeypatch.setattr(remote, "PATIENCE", 0.01)
    monkeypatch.setattr(
        remote, "print", lambda *words, **to: (print(*words, **to), said.set()), False
    )

    def late(*place):
        assert said.wait(60)
        raise PermissionError("no key")

    monkeypatch.setattr(type(store), "info", late)
    with pytest.raises(DataError, match=r"a\.libsvm: cannot be read, no permission \(no key\)"):
        open_stream("memory://data/a.libsvm")
    assert "ddol: waiting for memory://data/a.libsvm since " in capfd.readouterr().err
