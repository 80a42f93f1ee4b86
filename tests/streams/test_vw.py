import numpy as np
import pytest

from ddol.streams.coding.hashing import name_keys
from ddol.streams.errors import DataError
from ddol.streams.formats import ReadOptions
from ddol.streams.open import open_stream
from ddol.streams.over.parallel import ParallelStream, ParsingPool
from ddol.streams.raw import Text
from ddol.streams.text.lines import LineStream
from ddol.streams.text.vw import NamedFormat


def stream_of(folder, text, bars=True, **options):
    path = folder / ("a.vw" if bars else "a.named")
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return LineStream((str(path),), NamedFormat(bars), **options)


def plain(stream):
    """Label, importance and features of every row."""
    found = []
    for named, _ in stream.read():
        names = list(named.names)
        assert np.array_equal(named.keys, name_keys(names))
        for row in range(len(named)):
            label = named.label
            if isinstance(label, Text):
                label = label.cell(row)
            elif label is not None:
                label = None if np.isnan(label[row]) else float(label[row])
            span = slice(*named.indptr[row : row + 2])
            values = [None if np.isnan(value) else value for value in named.data[span]]
            features = [(names[c], v) for c, v in zip(named.codes[span], values, strict=True)]
            found.append((label, named.weight[row] if len(named.weight) else 1.0, features))
    return found


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("1 |a x:0.5 y", (1, 1, [("a^x", 0.5), ("a^y", 1)])),
        ("-1 2.5 |a x", (-1, 2.5, [("a^x", 1)])),
        ("1 2 0 'tag |a x", (1, 2, [("a^x", 1)])),
        ("1 tag|a x", (1, 1, [("a^x", 1)])),
        ("|a x", (None, 1, [("a^x", 1)])),
        ("1 | x |b:2 y:3 | z", (1, 1, [("x", 1), ("b^y", 6), ("z", 1)])),
        ("1 |a", (1, 1, [])),
        ("1 |ä größe:1", (1, 1, [("ä^größe", 1)])),
        ("1 |a x:NA y:? z", (1, 1, [("a^x", None), ("a^y", None), ("a^z", 1)])),
        ("1 |a:2 x:y:nan", (1, 1, [("a^x:y", None)])),
        ("1 |a x:1 x:2", (1, 1, [("a^x", 1), ("a^x", 2)])),
        ("1\t|a\tx  y \r", (1, 1, [("a^x", 1), ("a^y", 1)])),
        ("1 |a http://x:2", (1, 1, [("a^http://x", 2)])),
        ("1 |a x:1.00000000000000000000000000001", (1, 1, [("a^x", 1)])),
    ],
)
def test_lines_of_vw(tmp_path, line, expected):
    assert plain(stream_of(tmp_path, f"3 |f g\n\n{line}\n"))[1] == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("1 price:0.5 colour=red word", (1, 1, [("price", 0.5), ("colour=red", 1), ("word", 1)])),
        ("price:2 a|b", (None, 1, [("price", 2), ("a|b", 1)])),
        ("1 qid:3 x:1 # comment: 2", (1, 1, [("x", 1)])),
        ("? x:1", (None, 1, [("x", 1)])),
        ("1 a:b:2", (1, 1, [("a:b", 2)])),
    ],
)
def test_lines_without_bars(tmp_path, line, expected):
    assert plain(stream_of(tmp_path, f"# first\n3 x:1\n{line}\n", bars=False))[1] == expected


BAD = [
    ("1 x:1", ":2:3: found 'x:1', expected a bar | before the features"),
    ("one |a x", ":2:1: found 'one', expected a number as label"),
    ("1 -2 |a x", ":2:3: found '-2', expected an importance of at least 0"),
    ("1 1 0.5 |a x", ":2:5: found '0.5', expected no initial prediction"),
    ("1 |a x:y", ":2:8: found 'y', expected a finite number"),
    ("1 |a x:1e999", ":2:8: found '1e999', expected a finite number"),
    ("1 |a :NA", ":2:6: found ':NA', expected a name before"),
    ("1 |a :1", ":2:6: found ':1', expected a name before"),
    ("1 |a:b x", ":2:6: found 'b', expected a finite number"),
]


@pytest.mark.parametrize(("line", "message"), BAD)
def test_bad_lines_are_named_or_left_out(tmp_path, line, message):
    text = f"1 |a x\n{line}\n2 |a y\n"
    with pytest.raises(DataError) as error:
        plain(stream_of(tmp_path, text, chunk_bytes=7))
    assert message in str(error.value) and "\n" not in str(error.value)
    stream = stream_of(tmp_path, text, chunk_bytes=7, on_bad_line="skip")
    assert [row[0] for row in plain(stream)] == [1, 2]
    assert stream.bad_lines.count == 1


def test_labels_may_be_words(tmp_path):
    rows = plain(stream_of(tmp_path, "cat |a cat\ndog |a x\n |b y\ncat |a x\n"))
    assert [row[0] for row in rows] == ["cat", "dog", None, "cat"]
    assert [row[2] for row in rows] == [[("a^cat", 1)], [("a^x", 1)], [("b^y", 1)], [("a^x", 1)]]


def test_chunks_and_threads_give_the_same(tmp_path):
    rng = np.random.default_rng(0)
    words = [f"w{k}" for k in range(300)]
    lines = [
        f"{k % 3} |{'abc'[k % 3]} " + " ".join(rng.choice(words, 5)) + f" n:{rng.normal()}\n"
        for k in range(2000)
    ]
    one = stream_of(tmp_path, "".join(lines))
    many = stream_of(tmp_path, "".join(lines), chunk_bytes=3000)
    assert plain(one) == plain(many) == plain(ParallelStream(many, ParsingPool(3)))
    assert plain(one) == [row for k in range(4) for row in plain(many.part_of(k, 4))]


def test_spaces_of_names(tmp_path):
    [(named, _)] = stream_of(tmp_path, "1 |a x |b x | z\n").read()
    assert list(named.spaces) == ["a", "b", ""]


def test_the_ending_or_the_format_says_which(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("1 |a x\n")
    assert plain(open_stream(path, ReadOptions(format="vw"))) == [(1, 1, [("a^x", 1)])]
    assert plain(open_stream(path, ReadOptions(format="named"))) == [(1, 1, [("|a", 1), ("x", 1)])]


def test_mutated_text_never_breaks_the_reader(tmp_path):
    rng = np.random.default_rng(2)
    text = b"1 2 'tag|a:2 x:0.5 y |b z:1e3\n-1 |a y:-1\ncat price:3 colour=red\n"
    for bars in (True, False):
        for _ in range(300):
            data = np.frombuffer(text, np.uint8).copy()
            data[rng.integers(0, len(data), 5)] = rng.choice([0, 10, 32, 58, 124, 39, 48, 255], 5)
            stream = stream_of(tmp_path, data.tobytes(), bars, chunk_bytes=20, on_bad_line="skip")
            try:
                plain(stream)
            except DataError as error:
                assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("cat 1:0.5 2:1\ndog 1:2\n", True),
        ("1 price:0.5 colour=red\n", True),
        ("1 1:0.5\n-1 2:1 # comment\n", False),
        ("1 1:0.5\n1 x\n", False),
        ("a,b,c\n1,2,3\n", False),
        ("1 1:abc\n", False),
        ("nan 1:0.5\n", False),
        ("1 qid:3 1:1\n", False),
    ],
)
def test_words_in_libsvm_text_make_it_named(tmp_path, text, named):
    path = tmp_path / "a.libsvm"
    path.write_text(text)
    assert (type(open_stream(path)) is LineStream) == named
