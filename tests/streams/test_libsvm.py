import bz2
import gzip
import io
import json
import lzma
import sys

import numpy as np
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_svmlight_file

from ddol.compiled import entry
from ddol.streams.errors import DataError
from ddol.streams.over.parallel import ParallelStream, ParsingPool
from ddol.streams.rows import concatenate
from ddol.streams.text.libsvm import LibsvmStream
from ddol.streams.text.number_kernel import round_decimal


@entry("double(int64, int64)")
def rounded(mantissa, exponent):
    return round_decimal(np.uint64(mantissa), exponent)


def stream_of(folder, text, name="data.libsvm", **options):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return LibsvmStream((str(path),), **options)


def parallel(stream, workers):
    return ParallelStream(stream, ParsingPool(workers))


def read(stream):
    return concatenate([rows for rows, _ in stream.read()])


def same(rows, others):
    return all(
        np.array_equal(getattr(rows, name), getattr(others, name))
        for name in ("data", "indices", "indptr", "y")
    )


# Numbers


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=0))
def test_every_double_survives_its_shortest_text(value):
    text = repr(value).replace(".", "").lower()
    mantissa, _, exponent = text.partition("e")
    point = repr(value).partition("e")[0].partition(".")[2]
    exponent = int(exponent or 0) - len(point)
    assert rounded(int(mantissa), exponent) == value


@settings(max_examples=500)
@given(st.integers(0, 10**19 - 1), st.integers(-345, 310))
def test_decimals_are_rounded_as_python_rounds_them(mantissa, exponent):
    found = rounded(mantissa, exponent)
    assert found == float(f"{mantissa}e{exponent}")


def test_the_middle_between_two_doubles_goes_to_the_even_one():
    rng = np.random.default_rng(0)
    for bits in rng.integers(1 << 52, 1 << 53, 300):
        # Halves of whole numbers with 54 bits are ties that 19 digits state exactly.
        tie = 2 * int(bits) + 1
        assert rounded(tie * 5, -1) == float(f"{tie * 5}e-1")
        assert rounded(tie, 0) == float(tie)


digits = st.text("0123456789", min_size=1, max_size=40)


@st.composite
def numbers(draw):
    text = draw(st.sampled_from(["", "+", "-"]))
    whole, fraction = draw(digits), draw(st.one_of(st.just(""), digits))
    text += draw(st.sampled_from([whole, f"{whole}.", f"{whole}.{fraction}", f".0{fraction}"]))
    if draw(st.booleans()):
        sign = draw(st.sampled_from(["", "+", "-"]))
        text += draw(st.sampled_from("eE")) + sign + str(draw(st.integers(0, 260)))
    return text


blanks = st.text(" \t", min_size=1, max_size=3)
ends = st.sampled_from(["\n", "\r\n", " \n", "\n\n", " # 3:4 a comment\n", "#x\n", "\n# 1 2:3\n"])


@st.composite
def lines(draw):
    label = draw(numbers())
    indices = sorted(draw(st.sets(st.integers(1, 10**6), max_size=6)))
    values = [draw(numbers()) for _ in indices]
    query = draw(st.sampled_from(["", " qid:7"]))
    pairs = [f"{draw(blanks)}{i}:{v}" for i, v in zip(indices, values, strict=True)]
    return label, indices, values, label + query + "".join(pairs) + draw(ends)


@settings(max_examples=200)
@given(st.lists(lines(), min_size=1, max_size=8), st.booleans(), st.integers(1, 60))
def test_any_formatting_reads_as_python_reads_it(tmp_path_factory, drawn, cut, chunk_bytes):
    drawn = [line for line in drawn if np.isfinite([float(v) for v in (line[0], *line[2])]).all()]
    text = "".join(line for *_, line in drawn)
    if not text:
        return
    folder = tmp_path_factory.mktemp("any")
    text = text.rstrip("\r\n") if cut else text
    rows = read(stream_of(folder, text, chunk_bytes=chunk_bytes))
    assert rows.y.tolist() == [float(label) for label, *_ in drawn]
    assert rows.indices.tolist() == [i - 1 for _, indices, *_ in drawn for i in indices]
    assert rows.data.tolist() == [float(v) for _, _, values, _ in drawn for v in values]
    assert np.diff(rows.indptr).tolist() == [len(indices) for _, indices, *_ in drawn]


def test_digits_beyond_the_nineteenth_can_decide(tmp_path):
    # 2**53 + 1 is a tie; any digit after it breaks the tie upwards.
    texts = ["9007199254740993." + "0" * 30, "9007199254740993." + "0" * 30 + "1"]
    rows = read(stream_of(tmp_path, f"{texts[1]} 1:{texts[0]} 2:{texts[1]}\n"))
    assert rows.data.tolist() == [2.0**53, 2.0**53 + 2] and rows.y[0] == 2.0**53 + 2


def test_zero_can_be_the_first_index_and_stored_zeros_stay(tmp_path):
    rows = read(stream_of(tmp_path, "1 0:0 4:-0.0\n", index_base=0))
    assert rows.indices.tolist() == [0, 4] and rows.data.tolist() == [0.0, 0.0]
    assert np.signbit(rows.data).tolist() == [False, True] and rows.n_features == 5


# Equal to scikit-learn's reader to the bit


def check_equals_sklearn(path, stream):
    X, y = load_svmlight_file(str(path))
    rows = read(stream)
    assert np.array_equal(rows.y, y)
    assert np.array_equal(rows.data.view(np.int64), X.data.view(np.int64))
    assert np.array_equal(rows.indices, X.indices) and np.array_equal(rows.indptr, X.indptr)
    assert rows.n_features == X.shape[1]


@pytest.mark.parametrize("name", ["svmguide1", "cod-rna.bz2"])
def test_equals_sklearn_on_whole_data_sets(data_folder, name):
    path = data_folder / name
    check_equals_sklearn(path, LibsvmStream((str(path),), chunk_bytes=1 << 20))


def test_equals_sklearn_on_a_part_of_covtype(data_folder, tmp_path):
    with bz2.open(data_folder / "covtype.libsvm.binary.scale.bz2") as file:
        text = b"".join(next(file) for _ in range(20_000))
    stream = stream_of(tmp_path, text)
    check_equals_sklearn(stream.paths[0], parallel(stream, 3))


# Chunks, threads, compression, positions


@pytest.fixture(scope="module")
def example_text():
    rng = np.random.default_rng(1)
    made = []
    for row in range(3000):
        if row % 50 == 0:
            made.append("# comment: 1\n\n")
        indices = np.flatnonzero(rng.random(30) < 0.3) + 1
        pairs = " ".join(f"{i}:{rng.normal():.17g}" for i in indices)
        made.append(f"{row % 3} {pairs}\n")
    return "".join(made).encode()


def test_threads_give_the_same_rows(tmp_path, example_text):
    one = stream_of(tmp_path, example_text, chunk_bytes=300_000)
    three = parallel(one, 3)
    pairs = list(zip(one.read(), three.read(), strict=True))
    assert len(pairs) > 1
    assert all(same(a, b) and p == q for (a, p), (b, q) in pairs)


PACK = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zstandard.compress,
}


@pytest.mark.parametrize("ending", PACK)
def test_resuming_at_any_position_gives_the_same_blocks(tmp_path, example_text, ending):
    packed = PACK[ending](example_text)
    stream = stream_of(tmp_path, packed, "a.libsvm" + ending, chunk_bytes=100_000)
    stream = LibsvmStream(stream.paths * 2, chunk_bytes=100_000)
    whole = list(stream.read())
    assert len(whole) > 4 and whole[-1][1]["row"] == 6000
    for number, (_, position) in enumerate(whole):
        rest = list(stream.read(json.loads(json.dumps(position))))
        # How much of an archive has been read may differ a little; it only shows progress.
        assert [{**p, "raw": 0} for _, p in rest] == [
            {**p, "raw": 0} for _, p in whole[number + 1 :]
        ]
        pairs = zip(rest, whole[number + 1 :], strict=True)
        assert all(same(a, b) for (a, _), (b, _) in pairs)
    assert stream.progress(None)[0] == 0
    assert stream.progress(whole[-1][1]) == (2 * len(packed),) * 2


def test_keep_leaves_rows_of_other_agents_empty(tmp_path, example_text):
    whole = read(stream_of(tmp_path, example_text))
    kept = read(stream_of(tmp_path, example_text, keep=(1, 3, 4), chunk_bytes=50_000))
    mine = np.isin(np.arange(len(whole)) % 4, (1, 2))
    assert len(kept) == len(whole)
    assert same(kept.take(np.flatnonzero(mine)), whole.take(np.flatnonzero(mine)))
    assert not np.diff(kept.indptr)[~mine].any()


def test_a_line_longer_than_a_chunk(tmp_path):
    pairs = " ".join(f"{i}:1" for i in range(1, 5000))
    rows = read(stream_of(tmp_path, f"1 {pairs}\n-1 1:2\n", chunk_bytes=100))
    assert np.diff(rows.indptr).tolist() == [4999, 1]


def test_standard_input_is_read_once(monkeypatch):
    class Stdin:
        buffer = io.BytesIO(b"1 1:2\n-1 3:4")

    monkeypatch.setattr(sys, "stdin", Stdin)
    stream = LibsvmStream(("-",))
    [(rows, position)] = stream.read()
    assert rows.y.tolist() == [1, -1] and not stream.restartable
    assert stream.progress(position) is None
    for options in ({"position": position}, {"pass_number": 1}):
        with pytest.raises(DataError, match="cannot be read twice"):
            next(stream.read(**options))


def test_scan_and_locate(tmp_path, example_text):
    stream = stream_of(tmp_path, example_text, chunk_bytes=100_000)
    rows = read(stream)
    found = stream.scan()
    assert (found.n_examples, found.n_features) == (3000, rows.n_features)
    assert found.labels == (0.0, 1.0, 2.0)
    (_, position), (second, _), *_ = stream.read()
    line = int(stream.locate(position, 7).split(":")[-2])
    text = example_text.decode().splitlines()[line - 1]
    assert float(text.split()[0]) == second.y[7]
    assert len(text.split()) - 1 == second.indptr[8] - second.indptr[7]


def test_scan_of_odd_lines(tmp_path):
    text = "1\n2 qid:9\n3 4:1 # 99:1\n-1 7:1\t \r\n"
    found = stream_of(tmp_path, text).scan()
    assert (found.n_examples, found.n_features, found.labels) == (4, 7, (-1.0, 1.0, 2.0, 3.0))
    many = "".join(f"{k}.5 1:1\n" for k in range(2000))
    assert stream_of(tmp_path, many).scan().labels is None


# Bad input

BAD = [
    ("1 3:abc", ":2:5: found 'abc', expected a number"),
    ("1 :5", ":2:3: found ':5', expected index:value"),
    ("1 0:1", ":2:3: found index 0, expected indices from 1; use --zero-based"),
    ("1 4:1 2:1", ":2:7: found index 2 at or below the one before"),
    ("1 4:1 4:2", ":2:7: found index 4 at or below the one before"),
    ("1 2147483649:1", ":2:3: found index 2147483649, expected at most 2**31"),
    ("1 99999999999999999999:1", "expected at most 2**31"),
    ("1 2:nan", ":2:5: found 'nan', expected a finite number"),
    ("1 2:-Inf", ":2:5: found '-Inf', expected a finite number"),
    ("nan 2:1", ":2:1: found 'nan', expected a finite number"),
    ("1 2:1e999", ":2:5: found '1e999', expected a number below 1.8e308"),
    ("1 2:" + "9" * 310, "expected a number below 1.8e308"),
    ("spam 2:1", ":2:1: found 'spam', expected a number as label"),
    ("1,2,3", "name the file .csv"),
    ("1 2:3 7", ":2:7: found '7', expected index:value; correct the line, it may have been cut"),
    ("1 2:3 7:", ":2:9: found nothing after ':', expected a number"),
    ("1 2:1:3", ":2:5: found '1:3', expected a number"),
    ("1 2:1e", ":2:5: found '1e', expected a number"),
    ("1 2:.", ":2:5: found '.', expected a number"),
    ("1 -2:1", ":2:3: found '-2:1', expected index:value"),
    ("1 2: 3", ":2:5: found nothing after ':'"),
    ("\0\x01\x7f\xff", ":2:1: found binary data"),
]


@pytest.mark.parametrize(("line", "message"), BAD)
@pytest.mark.parametrize("threads", [1, 4])
def test_bad_lines_are_named_with_their_place(tmp_path, line, message, threads):
    text = b"1 1:1\n" + line.encode("latin-1")
    stream = parallel(stream_of(tmp_path, text), threads)
    with pytest.raises(DataError) as error:
        read(stream)
    assert message in str(error.value) and "\n" not in str(error.value)
    assert str(error.value).startswith(str(tmp_path))


@pytest.mark.parametrize("threads", [1, 2])
def test_bad_lines_can_be_skipped_and_are_counted(tmp_path, threads):
    good = [f"{k} 1:1 3:{k}\n".encode() for k in range(20_000)]
    bad = [line.encode("latin-1") + b"\n" for line, _ in BAD]
    text = b"".join(good[:10_000] + bad + good[10_000:])
    stream = stream_of(tmp_path, text, on_bad_line="skip", keep=(0, 1, 2), chunk_bytes=30_000)
    rows = read(parallel(stream, threads))
    assert rows.y.tolist() == list(range(20_000))
    assert stream.bad_lines.count == len(BAD) and len(stream.bad_lines.messages) == 5
    assert ":10001:5: found 'abc'" in stream.bad_lines.messages[0]
    assert stream.scan().n_examples == 20_000


def test_threads_name_the_first_bad_line(tmp_path):
    lines = [f"{k} 1:1 3:{k}\n" for k in range(20_000)]
    lines[15_000], lines[15_100] = "1 x\n", "1 y\n"
    with pytest.raises(DataError, match=":15001:3: found 'x'"):
        read(parallel(stream_of(tmp_path, "".join(lines), chunk_bytes=9_000), 3))


def test_columns_beyond_the_known_number(tmp_path):
    stream = stream_of(tmp_path, "1 3:1\n1 4:1\n", n_features=3)
    with pytest.raises(DataError, match=":2:3: found index 4, expected at most 3"):
        read(stream)
    assert read(stream_of(tmp_path, "1 2:1\n", n_features=9)).n_features == 9


@pytest.mark.parametrize("text", ["# only\n#comments", "\n\n \r\n"])
@pytest.mark.parametrize("action", [read, LibsvmStream.scan])
def test_nothing_but_comments(tmp_path, text, action):
    with pytest.raises(DataError, match="found no examples"):
        action(stream_of(tmp_path, text))


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(DataError, match="no such file"):
        read(LibsvmStream((str(tmp_path / "none"),)))
    with pytest.raises(DataError, match="found a directory"):
        read(LibsvmStream((str(tmp_path),)))
    with pytest.raises(DataError, match="found an empty file"):
        read(stream_of(tmp_path, ""))


@pytest.mark.parametrize("ending", [".gz", ".bz2", ".xz", ".zst"])
def test_truncated_and_damaged_archives(tmp_path, example_text, ending):
    packed = PACK[ending](example_text)
    stream = stream_of(tmp_path, packed[: len(packed) // 2], "cut" + ending)
    with pytest.raises(DataError, match="truncated"):
        read(stream)
    with pytest.raises(DataError, match="found other bytes at its beginning"):
        read(stream_of(tmp_path, example_text, "not" + ending))


def test_a_missing_package_is_named_with_its_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(DataError, match=r"pip install ddol\[zstd\]"):
        read(stream_of(tmp_path, zstandard.compress(b"x"), "a.zst"))


def test_a_position_beyond_the_end_is_refused(tmp_path, example_text):
    stream = stream_of(tmp_path, example_text, chunk_bytes=100_000)
    *_, (_, position) = stream.read()
    for ending in ("", ".gz"):
        shorter = stream_of(tmp_path, PACK[ending](b"1 1:1\n"), "short" + ending)
        with pytest.raises(DataError, match="it has changed since"):
            list(shorter.read(position))


def test_random_bytes_never_crash(tmp_path):
    rng = np.random.default_rng(3)
    alphabet = np.frombuffer(b"0123456789:.:+-eE  \t\r\n#qid\0\xff", dtype=np.uint8)
    for trial in range(200):
        text = rng.choice(alphabet, 200).tobytes()
        stream = stream_of(
            tmp_path, text, on_bad_line="skip", chunk_bytes=64, labelled=trial % 2 == 0 or None
        )
        try:
            rows = read(stream)
        except DataError:
            continue
        labels = rows.y if stream.labelled else rows.y[~np.isnan(rows.y)]
        assert np.isfinite(rows.data).all() and np.isfinite(labels).all(), trial


def test_lines_may_have_no_label(tmp_path):
    text = "1:0.5 2:1\n3 1:1\n\n2:2\n"
    rows = read(stream_of(tmp_path, text))
    assert np.array_equal(rows.y, [np.nan, 3, np.nan], equal_nan=True)
    assert rows.data.tolist() == [0.5, 1, 1, 2]
    with pytest.raises(DataError, match=r":1:1: found '1:0.5', expected a number as label"):
        read(stream_of(tmp_path, text, labelled=True))
    rows = read(stream_of(tmp_path, "1:0.5\n2:1\n", labelled=False))
    assert np.isnan(rows.y).all() and rows.indices.tolist() == [0, 1]


def test_lines_may_become_shorter(tmp_path):
    long, short = "1 " + " ".join(f"{k}:1" for k in range(1, 5000)) + "\n", "2 1:1\n"
    rows = read(stream_of(tmp_path, 3 * long + 50_000 * short))
    assert rows.y.tolist() == [1.0] * 3 + [2.0] * 50_000
