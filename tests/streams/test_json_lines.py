import numpy as np
import pytest

from ddol.streams.errors import DataError
from ddol.streams.formats import ReadOptions
from ddol.streams.open import open_stream
from ddol.streams.raw import Text


def columns(folder, text, **options):
    path = folder / "a.jsonl"
    path.write_text(text)
    stream = open_stream(path, ReadOptions(**options))
    found = {}
    for table, _ in stream.read():
        for name, cells in table.columns.items():
            if isinstance(cells, Text):
                values = [cells.cell(row) for row in range(len(cells))]
            else:
                values = [None if np.isnan(value) else value for value in cells.tolist()]
            found.setdefault(name, []).extend(values)
    return found, stream


def test_objects_become_columns(tmp_path):
    text = (
        '{"label": "yes", "age": 30, "home": {"town": "Rome", "floor": 2}, "ill": true}\n'
        '\n{"label": "no", "age": null, "home": {"town": null}}\n{"label": "NA", "age": 1.5}\n'
    )
    found, _ = columns(tmp_path, text)
    assert found == {
        "label": ["yes", "no", None],
        "age": [30, None, 1.5],
        "home.town": ["Rome", None, None],
        "home.floor": [2, None, None],
        "ill": [1, None, None],
    }


def test_lists_that_nobody_looks_at(tmp_path):
    text = '{"label": 1, "tags": [1, 2], "age": 3}\n{"label": 0, "tags": "x", "age": 4}\n'
    with pytest.raises(DataError, match=r"'tags': found a list, .* or use --drop tags"):
        columns(tmp_path, text)
    for known in ({"drop": ("tags",)}, {"known": {"age": "number"}}):
        found, _ = columns(tmp_path, text, **known)
        assert found["age"] == [3, 4]


def test_known_kinds(tmp_path):
    found, _ = columns(tmp_path, '{"zip": 7}\n{"zip": "007"}\n', known={"zip": "text"})
    assert found == {"zip": ["7", "007"]}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"a": 1', ":2:1: found no JSON"),
        ("[1, 2]", ":2:1: found [1, 2], expected an object"),
        ('{"a": [1]}', ":2:1: 'a': found a list"),
        ('{"a": "x"}', ":2:1: 'a': found the text 'x', expected a number"),
    ],
)
def test_bad_lines(tmp_path, line, message):
    text = f'{{"a": 1}}\n{line}\n{{"a": 2}}\n'
    with pytest.raises(DataError) as error:
        columns(tmp_path, text, chunk_bytes=9)
    assert message in str(error.value)
    found, stream = columns(tmp_path, text, chunk_bytes=9, on_bad_line="skip")
    assert found == {"a": [1, 2]} and stream.bad_lines.count == 1
