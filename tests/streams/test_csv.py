import bz2
import gzip
import io
import json
import sys

import numpy as np
import pytest

from ddol.streams.coding.columns import choose_columns
from ddol.streams.errors import DataError
from ddol.streams.over.parallel import ParallelStream, ParsingPool
from ddol.streams.raw import Text
from ddol.streams.text.csv import CsvFormat, split_cells
from ddol.streams.text.lines import LineStream


def csv_of(folder, text, name="a.csv", chunk_bytes=1 << 20, on_bad_line="stop", **options):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    layout = CsvFormat(**options)
    return LineStream((str(path),), layout, on_bad_line=on_bad_line, chunk_bytes=chunk_bytes)


def columns(stream):
    """All cells by column, as plain values; None is missing."""
    found = {}
    for table, _ in stream.read():
        for name, cells in table.columns.items():
            if isinstance(cells, Text):
                plain = [cells.cell(row) for row in range(len(cells))]
            else:
                plain = [None if np.isnan(value) else value for value in cells.tolist()]
            found.setdefault(name, []).extend(plain)
    return found


def numbers_in(table):
    return np.column_stack(list(table.columns.values()))


@pytest.fixture(scope="module")
def numbers():
    rng = np.random.default_rng(0)
    return np.column_stack([rng.integers(0, 2, 5000), rng.normal(size=(5000, 4))])


@pytest.fixture(scope="module")
def text(numbers):
    lines = [",".join(map(repr, row.tolist())) for row in numbers]
    return "label,a,b,c,d\n" + "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("name", "pack"), [("a.csv", bytes), ("a.csv.gz", gzip.compress), ("a.csv.bz2", bz2.compress)]
)
def test_values_are_exact_and_reading_restarts_anywhere(tmp_path, numbers, text, name, pack):
    stream = csv_of(tmp_path, pack(text.encode()), name, chunk_bytes=90_000)
    whole = list(stream.read())
    assert len(whole) > 2
    assert np.array_equal(np.concatenate([numbers_in(table) for table, _ in whole]), numbers)
    for number, (_, position) in enumerate(whole):
        rest = [numbers_in(table) for table, _ in stream.read(json.loads(json.dumps(position)))]
        assert all(
            map(np.array_equal, rest, [numbers_in(table) for table, _ in whole[number + 1 :]])
        )
    done, total = stream.progress(whole[-1][1])
    assert done == total


def test_threads_and_parts_give_the_same(tmp_path, numbers, text):
    stream = csv_of(tmp_path, text, chunk_bytes=20_000)
    parallel = ParallelStream(stream, ParsingPool(3))
    assert np.array_equal(np.concatenate([numbers_in(t) for t, _ in parallel.read()]), numbers)
    parts = [numbers_in(table) for k in range(3) for table, _ in stream.part_of(k, 3).read()]
    assert np.array_equal(np.concatenate(parts), numbers)


def test_every_file_has_its_own_order_of_columns(tmp_path):
    csv_of(tmp_path, "y,a\n1,2\n", "1.csv")
    csv_of(tmp_path, "a,y\n4,3\n", "2.csv")
    paths = (str(tmp_path / "1.csv"), str(tmp_path / "2.csv"))
    assert columns(LineStream(paths, CsvFormat())) == {"y": [1, 3], "a": [2, 4]}


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        ("1,2\n4,5", {}, {"column 1": [1, 4], "column 2": [2, 5]}),
        ("a,b\n1,2\n", {}, {"a": [1], "b": [2]}),
        ("y;a\n1;2\n3;4\n", {}, {"y": [1, 3], "a": [2, 4]}),
        ("1|2\n3|4\n", {}, {"column 1": [1, 3], "column 2": [2, 4]}),
        ("1\t2\n3\t4\n", {"delimiter": "\t"}, {"column 1": [1, 3], "column 2": [2, 4]}),
        ("1,2\n3,4\n", {"header": True}, {"1": [3], "2": [4]}),
        ("y,2019,2020\n" + "no,1,2\nyes,3,4\n" * 10, {},
         {"y": ["no", "yes"] * 10, "2019": [1, 3] * 10, "2020": [2, 4] * 10}),
        ("2018,2019\n" + "no,1\n" * 10, {}, {"2018": ["no"] * 10, "2019": [1] * 10}),
        ("maybe,5\n" + "no,1\nmaybe,2\n" * 10, {},
         {"column 1": ["maybe", *["no", "maybe"] * 10], "column 2": [5, *[1, 2] * 10]}),
        ("x,2\ny,4\n", {"header": False}, {"column 1": ["x", "y"], "column 2": [2, 4]}),
        ("1, 2\r\n\r\n 3 ,4 \r\n", {}, {"column 1": [1, 3], "column 2": [2, 4]}),
        ('"y","a"\n"1","2.5"\n', {}, {"y": [1], "a": [2.5]}),
        ("y,a\n+1,-1e-3\n", {}, {"y": [1], "a": [-0.001]}),
        ("5.1,x\n4.9,y\n", {}, {"column 1": [5.1, 4.9], "column 2": ["x", "y"]}),
        ("1,NA\n2,3\n", {}, {"column 1": [1, 2], "column 2": [None, 3]}),
        ("a,b\n1,x\n2,NA\n?,\nnull,n/a\nNaN,None\n", {},
         {"a": [1, 2, None, None, None], "b": ["x", None, None, None, None]}),
        ("a,b\nTRUE,x\nfalse,x\n", {}, {"a": [1, 0], "b": ["x", "x"]}),
        ("label,b\nTRUE,x\nfalse,x\n", {}, {"label": ["TRUE", "false"], "b": ["x", "x"]}),
        ("a,b\ntrue,x\n", {"label": "a"}, {"a": ["true"], "b": ["x"]}),
        ("a,b\n007,1\n", {"kinds": {"a": "text"}}, {"a": ["007"], "b": [1]}),
        ('a,b\n"x, ""y""",1\n', {}, {"a": ['x, "y"'], "b": [1]}),
        ("a\n1e999\n-inf\n", {}, {"a": [np.inf, -np.inf]}),
        ("\ufeff1,2\n3,4\n", {}, {"column 1": [1, 3], "column 2": [2, 4]}),
        ("a,b\n1,2.00000000000000000000000000000001\n", {}, {"a": [1], "b": [2.0]}),
    ],
)  # fmt: skip
def test_cells_headers_and_delimiters(tmp_path, text, options, expected):
    assert columns(csv_of(tmp_path, text, **options)) == expected


def test_a_few_words_do_not_make_a_column_text(tmp_path):
    text = "y,a\n" + "1,2\n" * 50 + "1,oops\n" + "3,4\n" * 50
    with pytest.raises(
        DataError, match=r":52:3: column 'a': found the text 'oops', expected a number"
    ):
        columns(csv_of(tmp_path, text))
    stream = csv_of(tmp_path, text, on_bad_line="skip")
    assert columns(stream) == {"y": [1] * 50 + [3] * 50, "a": [2] * 50 + [4] * 50}
    text = "y,a\n" + "1,2\n" * 50 + "1,12B\n" * 10
    assert columns(csv_of(tmp_path, text))["a"] == ["2"] * 50 + ["12B"] * 10


def test_a_cell_may_be_long(tmp_path):
    long = "x" * 300_000
    found = columns(csv_of(tmp_path, f"a,b\n{long},1\n{long},2\n", chunk_bytes=1000))
    assert found == {"a": [long, long], "b": [1, 2]}


BAD = [
    ("1,red", ":4:3: column 'a': found the text 'red', expected a number"),
    ("1", ":4:2: found 1 cells, expected 2"),
    ("1,2,3", ":4:4: found more than the 2 cells"),
    ('1,"2', ":4:3: column 'a': found a quote that does not end"),
    ('1,"2"x', ":4:3: column 'a': found a quote that does not end"),
]


@pytest.mark.parametrize(("line", "message"), BAD)
def test_bad_lines(tmp_path, line, message):
    text = f"y,a\n1,2\n3,4\n{line}\n5,6\n"
    # The kinds of the columns are found before the bad line.
    stream = csv_of(tmp_path, text, chunk_bytes=10)
    with pytest.raises(DataError) as error:
        columns(stream)
    assert message in str(error.value) and "\n" not in str(error.value)
    stream = csv_of(tmp_path, text, chunk_bytes=10, on_bad_line="skip")
    assert columns(stream) == {"y": [1, 3, 5], "a": [2, 4, 6]}
    assert stream.bad_lines.count == 1 and message in stream.bad_lines.messages[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("y,a\n", "found no examples, expected lines of cells"),
        ("\n\n", "found blank lines only"),
        ("a,a\n1,2\n", "found the column 'a' twice"),
        ("", "found an empty file"),
    ],
)
def test_bad_files(tmp_path, text, message):
    with pytest.raises(DataError) as error:
        columns(csv_of(tmp_path, text))
    assert message in str(error.value) and "\n" not in str(error.value)


def test_standard_input(monkeypatch):
    class Stdin:
        buffer = io.BytesIO(b"a,label\n1,2\n")

    monkeypatch.setattr(sys, "stdin", Stdin)
    stream = LineStream(("-",), CsvFormat())
    assert stream.n_features is None and not stream.restartable
    [(table, position)] = stream.read()
    assert table.columns["label"].tolist() == [2]
    with pytest.raises(DataError, match="cannot be read twice"):
        next(stream.read(position))


def test_a_row_is_located_by_its_line(tmp_path):
    stream = csv_of(tmp_path, "y,a\n" + "1,2\n\n" * 3)
    assert stream.locate(None, 1).endswith("a.csv:4:1")


def test_label_by_name_wins_over_position():
    assert choose_columns(["x", "TARGET", "y"]).label == 2


def test_cells_of_a_line():
    assert split_cells('a; "b;""c""";') == ['a; "b;""c""";']
    assert split_cells('a; "b;""c""";', ";") == ["a", 'b;"c"', ""]
