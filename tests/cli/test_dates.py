"""Columns of dates: `--dates`, and what models, frames and nodes make of them afterwards."""

import datetime
import json

import numpy as np
import polars as pl
import pytest

import ddol as library
from ddol.streams.coding.dates import date_parts
from ddol.streams.errors import DataError


@pytest.fixture(scope="module")
def days():
    rng = np.random.default_rng(0)
    first = datetime.datetime(2023, 1, 1)
    found = [first + datetime.timedelta(hours=int(h)) for h in rng.integers(0, 9000, 900)]
    busy = [day.weekday() < 5 and 8 <= day.hour < 18 for day in found]
    return {"when": found, "price": rng.random(900).tolist(), "label": busy}


@pytest.fixture(scope="module")
def files(days, tmp_path_factory):
    """The same examples as CSV with ISO dates, as CSV with seconds, as JSON lines and as Parquet."""
    folder = tmp_path_factory.mktemp("dates")
    iso = pl.DataFrame(days).with_columns(pl.col("when").dt.to_string("%Y-%m-%d %H:%M:%S+02:00"))
    iso.write_csv(folder / "iso.csv")
    seconds = pl.DataFrame(days).with_columns(pl.col("when").dt.epoch("s"))
    seconds.write_csv(folder / "seconds.csv")
    seconds.write_ndjson(folder / "seconds.jsonl")
    pl.DataFrame(days).write_parquet(folder / "days.parquet")
    return sorted(folder.iterdir())


@pytest.fixture
def model(ddol, files, tmp_path):
    def train(*options):
        model = tmp_path / "m.ddol"
        asked = ("--label", "label", "--dates", "when", "--model", model, "--quiet")
        assert ddol("train", files[1], *asked, *options).exit_code == 0
        return model

    return train


@pytest.mark.parametrize(
    "options", [(), ("--bits", 10, "--interactions", "when.weekday*when.hour"), ("--safe",)]
)
def test_formats_agree_and_dates_teach_something(ddol, files, days, model, options):
    model = model(*options)
    found = [ddol("predict", model, path, "--proba").stdout for path in files]
    assert found[1:] == found[:-1] and len(found[0].splitlines()) == 900
    said = [line.split()[-1] for line in found[0].splitlines()]
    assert np.mean((np.array(said, float) > 0.5) == days["label"]) > 0.8
    assert json.loads(ddol("evaluate", model, files[0], "--json", "-").stdout)["error"] < 0.2


def test_frames_and_estimators_match(days, files, model):
    frame = pl.DataFrame(days)
    known = library.load(model())
    assert {"when.years", "when.weekday=Sat", "when.month=Jan"} < {*known.encoding.names}
    expected = known.predict_proba(frame[["price", "when"]])
    assert np.array_equal(known.predict_proba(frame.to_pandas()[["price", "when"]]), expected)
    run = library.run("adaptive", frame, 4, dates=["when"])
    assert run.mistakes.sum() < 0.25 * len(frame)
    assert library.run("adaptive", (frame, "label"), 4, dates=["when"]).error == run.error
    with pytest.raises(DataError, match="column 'when': found dates such as"):
        library.run("adaptive", (frame, "label"), 4)
    X = frame.to_pandas()[["price", "when"]]
    assert library.DDOLClassifier().fit(X, days["label"]).score(X, days["label"]) > 0.85


@pytest.mark.parametrize(
    "cell, found", [("31.3.2024", "'31.3.2024'"), ("2024-02-30", "2024-02-30")]
)
def test_what_is_no_date_is_a_bad_line(ddol, tmp_path, cell, found):
    path = tmp_path / "a.csv"
    path.write_text("label,when\n" + "a,2024-01-02\nb,2024-01-03\n" * 20 + f"a,{cell}\n")
    result = ddol("train", path, "--dates", "when")
    assert result.exit_code == 2 and "a.csv:42:1: column 'when'" in result.stderr
    assert found in result.stderr and "such as 2024-03-31" in result.stderr
    skipping = ddol("train", path, "--dates", "when", "--on-bad-line", "skip", "--agents", 1)
    assert skipping.exit_code == 0 and "skipped 1 row" in skipping.stderr


def test_a_missing_date_is_an_error_or_no_feature(ddol, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("label,when\n" + "a,2024-01-02\nb,\n" * 20)
    result = ddol("train", path, "--dates", "when")
    assert result.exit_code == 2 and "a.csv:3:1: column 'when': found a missing" in result.stderr
    model = tmp_path / "m"
    options = ("--dates", "when", "--missing", "mean", "--agents", 1, "--model", model, "--quiet")
    assert ddol("train", path, *options).exit_code == 0
    assert ddol("predict", model, path).stdout.split() == ["a", "b"] * 20


def test_where_there_are_no_dates_one_line_says_so(ddol, files, model, tmp_path):
    for name in ("wen", "label"):
        result = ddol("train", files[2], "--label", "label", "--dates", name)
        assert result.exit_code == 2 and f"found no column {name!r} of dates" in result.stderr
    lines = tmp_path / "a.libsvm"
    lines.write_text("1 1:2\n-1 1:3\n" * 4)
    assert "--dates is for tables" in ddol("train", lines, "--dates", "when").stderr
    told = ddol("export", model(), "--to", "json", "-o", tmp_path / "m.json")
    assert told.exit_code == 2 and "dates in column 'when'" in told.stderr


def test_a_schema_keeps_the_kind(ddol, files, tmp_path):
    schema = tmp_path / "s.json"
    options = ("--label", "label", "--quiet", "--json", "-", "--schema", schema)
    first = json.loads(ddol("train", files[1], "--dates", "when", *options).stdout)
    assert json.loads(schema.read_text())["columns"]["when"] == "date"
    assert json.loads(ddol("train", files[1], *options).stdout)["mistakes"] == first["mistakes"]


def test_a_node_that_begins_with_a_model_takes_dates_apart(days, model, tmp_path):
    from ddol.node.errors import NodeError
    from ddol.node.exporting import begin_with

    path = model()
    node = library.Node("eu", library.adaptive("logistic"))
    begin_with(node, str(path))
    known = library.load(path)
    for row in range(5):
        x = {"price": days["price"][row], "when": days["when"][row].isoformat()}
        expected = known.predict_proba(pl.DataFrame({name: [value] for name, value in x.items()}))
        assert node.predict(x, id=str(row)).proba == pytest.approx(expected[0].tolist())
    with pytest.raises(NodeError, match="'when': found 'soon', expected a date"):
        node.predict({"price": 1.0, "when": "soon"})


@pytest.mark.parametrize(
    "text", ["1709251200", "1709251200000", "2024-03-01", "20240301", "2024-03-01T00:00:00.5Z"]
)
def test_every_spelling_is_the_first_of_march(text):
    years, month, weekday, hour = date_parts(text)
    assert (month, weekday) == (2, 4) and abs(years - 24.1648) < 0.001
    assert hour == (-1 if text in ("2024-03-01", "20240301") else 0)
