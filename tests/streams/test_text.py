import bz2
import gzip
import lzma
import os
import subprocess
import sys
import threading
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
import zstandard

from ddol.streams.errors import DataError
from ddol.streams.open import open_stream
from ddol.streams.over.parallel import ParallelStream, ParsingPool
from ddol.streams.store.chunks import BEGINNING, cut
from ddol.streams.text.libsvm import LibsvmStream

LINES = [f"{k} 1:{k}\n" for k in range(4000)]
TEXT = "".join(LINES).encode()


def labels(stream, position=None):
    return [label for rows, _ in stream.read(position) for label in rows.y.tolist()]


@pytest.mark.parametrize("chunk_bytes", [1, 7, 64, 1000, 1 << 20])
def test_chunks_are_all_lines_once(tmp_path, chunk_bytes):
    text = b"a\n\nbcd\n" + b"e" * 300 + b"\nf\n" * 20 + b"no newline"
    path = tmp_path / "text"
    path.write_bytes(text)
    chunks = [load() for _, load in cut([str(path)], BEGINNING, chunk_bytes)]
    assert b"".join(chunk.text.tobytes() for chunk in chunks) == text + b"\n"
    for chunk in chunks:
        if len(chunk.text):
            assert chunk.offset == 0 or text[chunk.offset - 1 : chunk.offset] == b"\n"
            assert chunk.first_line() == 1 + text[: chunk.offset].count(b"\n")


@pytest.mark.parametrize("chunk_bytes", [200, 999])
def test_reading_goes_on_at_any_chunk(tmp_path, chunk_bytes):
    path = tmp_path / "a.libsvm"
    path.write_bytes(TEXT)
    stream = LibsvmStream((str(path), str(path)), chunk_bytes=chunk_bytes)
    pairs = [(rows.y.tolist(), position) for rows, position in stream.read()]
    for number in range(0, len(pairs), 1 + len(pairs) // 7):
        rest = [(rows.y.tolist(), after) for rows, after in stream.read(pairs[number][1])]
        assert rest == pairs[number + 1 :]


@pytest.mark.parametrize("parts", [1, 2, 7])
def test_parts_are_the_whole(tmp_path, parts):
    path = tmp_path / "a.libsvm"
    path.write_bytes(TEXT)
    whole = LibsvmStream((str(path), str(path)), chunk_bytes=500)
    found = [label for k in range(parts) for label in labels(whole.part_of(k, parts))]
    assert found == labels(whole)


def test_a_compressed_file_has_no_parts(tmp_path):
    path = tmp_path / "a.libsvm.gz"
    path.write_bytes(gzip.compress(TEXT))
    with pytest.raises(DataError, match=r"decompress it, or deal it round-robin"):
        labels(LibsvmStream((str(path),)).part_of(1, 2))


def test_a_byte_order_mark_is_no_text(tmp_path):
    path = tmp_path / "a.libsvm"
    path.write_bytes(b"\xef\xbb\xbf" + TEXT)
    assert labels(LibsvmStream((str(path),))) == list(range(4000))
    path.write_bytes("1 1:1\n".encode("utf-16"))
    with pytest.raises(DataError, match="found text in UTF-16"):
        labels(LibsvmStream((str(path),)))


@pytest.mark.parametrize("workers", [1, 3])
def test_a_named_pipe_is_read_once(tmp_path, workers):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    stream = LibsvmStream((str(pipe),), chunk_bytes=1000)
    assert not stream.restartable and stream.progress(None) is None
    writer = threading.Thread(target=pipe.write_bytes, args=(TEXT,))
    writer.start()
    assert labels(ParallelStream(stream, ParsingPool(workers))) == list(range(4000))
    writer.join()
    with pytest.raises(DataError, match="cannot be read twice"):
        next(stream.read(pass_number=1))


def test_lines_of_a_pipe_do_not_wait_for_more(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    blocks = LibsvmStream((str(pipe),)).read()
    opened = threading.Event()
    files = []

    def write():
        file = pipe.open("wb", buffering=0)
        file.write(b"1 1:1\n2 1:")
        files.append(file)
        opened.set()

    threading.Thread(target=write).start()
    assert next(blocks)[0].y.tolist() == [1.0]
    opened.wait()
    files[0].write(b"2\n")
    files[0].close()
    assert next(blocks)[0].y.tolist() == [2.0]


PACK = [gzip.compress, bz2.compress, lzma.compress, zstandard.compress]


@pytest.mark.parametrize("pack", PACK)
def test_compression_is_known_by_its_beginning(tmp_path, pack):
    code = (
        "from ddol.streams.text.libsvm import LibsvmStream\n"
        "print(sum(len(rows) for rows, _ in LibsvmStream(('-',)).read()))"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], input=pack(TEXT), capture_output=True, check=True
    )
    assert found.stdout.strip() == b"4000"
    path = tmp_path / "no-ending"
    path.write_bytes(pack(TEXT))
    assert labels(LibsvmStream((str(path),))) == list(range(4000))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.0000000000000000000e400", 0.0),
        ("0.00000000000000000000000e99999999999999999999", 0.0),
        ("1.79769313486231580750e308", 1.7976931348623157e308),
        ("1797693134862315807" + "0" * 290, 1.7976931348623157e308),
        ("1" + "0" * 100_005 + "e-100005", 1.0),
        ("0." + "0" * 100_005 + "1e100006", 1.0),
        ("1" * 30 + "e-29", float("1" * 30 + "e-29")),
    ],
)
def test_long_numbers_are_read_as_python_reads_them(tmp_path, text, value):
    path = tmp_path / "a.libsvm"
    path.write_text(f"{text} 1:{text} 2:-{text}\n")
    [(rows, _)] = LibsvmStream((str(path),)).read()
    assert value == float(text)
    assert rows.y.tolist() == [value] and rows.data.tolist() == [value, -value]


@pytest.mark.parametrize("digits", [str(2**1024 - 2**970), str(2**1024 - 2**970) + ".0", "1" * 310])
def test_what_is_too_large_is_refused(tmp_path, digits):
    path = tmp_path / "a.libsvm"
    path.write_text(f"1 1:1\n1 1:{digits}\n")
    with pytest.raises(DataError, match=r":2:5: found .*, expected a number below 1.8e308"):
        labels(LibsvmStream((str(path),)))
    path.write_text(f"1 1:{2**1024 - 2**970 - 1}\n")
    assert np.isfinite(next(LibsvmStream((str(path),)).read())[0].data).all()


def test_an_index_may_begin_with_zeros(tmp_path):
    path = tmp_path / "a.libsvm"
    path.write_text("1 000000000000001:1 0002:2\n")
    [(rows, _)] = LibsvmStream((str(path),)).read()
    assert rows.indices.tolist() == [0, 1]


@pytest.mark.parametrize(("ending", "pack"), [("", bytes), (".gz", gzip.compress)])
@pytest.mark.parametrize("hard", [60, 300])
def test_more_files_than_may_be_open(tmp_path, ending, pack, hard):
    for k in range(100):
        (tmp_path / f"{k}.libsvm{ending}").write_bytes(pack(b"1 1:1\n" * 300))
    code = (
        "import resource, glob, sys\n"
        f"resource.setrlimit(resource.RLIMIT_NOFILE, (50, {hard}))\n"
        "from ddol.streams.text.libsvm import LibsvmStream\n"
        f"names = glob.glob('{tmp_path}/*.libsvm{ending}')\n"
        "readers = [LibsvmStream((name,), chunk_bytes=64).read() for name in names]\n"
        "try:\n"
        "    print(sum(len(rows) for _ in range(3) for r in readers for rows, _ in [next(r)]) > 2900)\n"
        "except Exception as error:\n"
        "    print(error)\n"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    if ending and hard < 100:
        assert "raise it with ulimit -n" in found.stdout
    else:
        assert found.stdout == "True\n"


@pytest.mark.parametrize("name", ["long.libsvm", "long.csv"])
def test_pieces_that_wait_keep_neither_text_nor_what_was_encoded(tmp_path, name):
    path = tmp_path / name
    lines = [b"1 1:0.25 2:0.5 3:0.75 # a b c d e f\n"] * 20000
    if name.endswith("csv"):
        lines = [b"label,number\n", *([b"1,0.2500000000000000000000000000000000\n"] * 20000)]
    path.write_bytes(b"".join(lines))
    stream = open_stream(str(path))
    next(stream.pieces())()  # what is made once
    tracemalloc.start()
    try:
        waiting = replace(next(stream.pieces())(), block=None)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < path.stat().st_size / 2
    assert waiting.locate(7).endswith(f":{len(lines) - 20000 + 8}:1")
    assert waiting.after(None)["row"] == 20000
