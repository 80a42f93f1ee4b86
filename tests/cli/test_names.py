"""Tables by name: columns, labels, text, missing values and weights, from the command line."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

import ddol as library

COLUMNS = ("age", "income", "town", "smoker", "outcome")


def cells(n=400, seed=0):
    """Columns of a table whose outcome follows from the others."""
    rng = np.random.default_rng(seed)
    age, income = rng.normal(40, 10, n), rng.normal(3, 1, n)
    town = rng.choice(["Rome", "Bern", "Lyon"], n)
    smoker = rng.random(n) < 0.5
    score = (age - 40) / 10 + (income - 3) / 2 + np.where(town == "Rome", 2, -1) + smoker
    return {
        "age": [f"{a:.3f}" for a in age],
        "income": [f"{i:.3f}" for i in income],
        "town": list(town),
        "smoker": ["true" if s else "false" for s in smoker],
        "outcome": ["yes" if s > 0 else "no" for s in score],
        "score": [f"{s:.4f}" for s in score],
        "weight": [f"{w:.2f}" for w in rng.random(n) * 2],
    }


def write(path, columns=COLUMNS, seed=0, header=True, n=400, **changes):
    table = {**cells(n, seed), **changes}
    with path.open("w", newline="") as file:
        lines = csv.writer(file)
        if header:
            lines.writerow(columns)
        lines.writerows(zip(*(table[name] for name in columns), strict=True))
    return path


@pytest.fixture
def table(tmp_path):
    return write(tmp_path / "people.csv")


@pytest.fixture
def model(ddol, tmp_path, table):
    path = tmp_path / "m.ddol"
    options = ("--label", "outcome", "--loss", "logistic", "--model", path, "--quiet")
    result = ddol("train", table, *options)
    assert result.exit_code == 0, result.stderr
    return path


@pytest.fixture
def predicted(ddol, model):
    def predict(path, *options):
        result = ddol("predict", model, path, *options)
        assert result.exit_code == 0, result.stderr
        return result.stdout

    return predict


def figures(result):
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


# Columns and labels.


def test_columns_in_another_order_are_the_same_table(predicted, tmp_path):
    as_trained = predicted(write(tmp_path / "a.csv", seed=1))
    assert set(as_trained.split()) == {"yes", "no"}
    assert predicted(write(tmp_path / "b.csv", COLUMNS[::-1], seed=1)) == as_trained


def test_the_label_is_neither_needed_nor_read_as_a_feature(predicted, tmp_path):
    with_label = predicted(write(tmp_path / "a.csv", seed=1))
    assert predicted(write(tmp_path / "b.csv", COLUMNS[:-1], seed=1)) == with_label
    other = ["maybe"] * 400
    assert predicted(write(tmp_path / "c.csv", seed=1, outcome=other)) == with_label


def test_extra_columns_are_reported_once_and_left_out(ddol, model, predicted, tmp_path):
    expected = predicted(write(tmp_path / "a.csv", seed=1))
    wide = write(tmp_path / "b.csv", ("weight", *COLUMNS, "score"), seed=1)
    result = ddol("predict", model, wide)
    assert result.stdout == expected
    assert result.stderr.count("left out") == 1 and "'weight', 'score'" in result.stderr


def test_a_missing_or_renamed_column_is_named(ddol, model, tmp_path):
    path = write(tmp_path / "b.csv", ("town", "age", "smoker"))
    result = ddol("predict", model, path)
    assert result.exit_code == 2 and result.stdout == ""
    assert "b.csv:2:1: found no column 'income' among town, age, smoker" in result.stderr
    path.write_text(path.read_text().replace("smoker", "income", 1).replace("age", "Age", 1))
    assert "'age'" in ddol("predict", model, path).stderr


def test_columns_without_names_are_all_there_or_the_features_alone(ddol, tmp_path):
    columns = ("outcome", "age", "income", "score")
    path, model = write(tmp_path / "a.csv", columns, header=False), tmp_path / "m"
    trained = ddol("train", path, "--drop", "column 4", "--model", model, "--quiet")
    assert trained.exit_code == 0, trained.stderr
    expected = ddol("predict", model, path).stdout
    assert set(expected.split()) == {"yes", "no"}
    features = write(tmp_path / "b.csv", columns[1:3], header=False)
    assert ddol("predict", model, features).stdout == expected
    # Nobody can say which of the four is not there.
    without_label = write(tmp_path / "c.csv", columns[1:], header=False)
    result = ddol("predict", model, without_label)
    assert result.exit_code == 2 and "found 3 columns without names" in result.stderr


def test_columns_without_names_for_a_model_with_names_are_told_of(ddol, model, predicted, tmp_path):
    named = predicted(write(tmp_path / "a.csv", seed=1))
    result = ddol("predict", model, write(tmp_path / "b.csv", COLUMNS[:-1], seed=1, header=False))
    assert result.stdout == named and "taken in the order of the model's" in result.stderr


def test_columns_that_were_left_out_are_left_out_without_a_word(ddol, tmp_path, table):
    model = tmp_path / "m"
    options = ("--label", "outcome", "--drop", "town", "--model", model, "--quiet")
    assert ddol("train", table, *options).exit_code == 0
    assert ddol("predict", model, table).stderr == ""


def test_a_table_of_text_alone_needs_no_names(ddol, tmp_path):
    path = tmp_path / "mushrooms.csv"
    rng = np.random.default_rng(0)
    rows = [(("e", "p")[k], "xb"[k], rng.choice(["s", "y"])) for k in rng.integers(0, 2, 100)]
    text = "".join(",".join(row) + "\n" for row in rows)
    path.write_text(text)
    assert figures(ddol("train", path, "--quiet", "--json", "-"))["examples"] == 100
    path.write_text("class,cap,surface\n" + text)
    assert figures(ddol("train", path, "--quiet", "--json", "-"))["examples"] == 100
    every = ("--no-header", "--labels", "class,e,p", "--quiet", "--json", "-")
    assert figures(ddol("train", path, *every))["examples"] == 101


@pytest.mark.parametrize(("name", "line"), [("a.vw", "1 |n {}:NA x\n"), ("a.named", "1 {}:? x\n")])
def test_missing_values_of_named_features(ddol, tmp_path, name, line):
    path, plain = tmp_path / name, tmp_path / f"plain-{name}"
    others = "".join(
        f"{k % 2} {'|n ' * name.endswith('vw')}a:{k % 5} x:{k % 3}\n" for k in range(40)
    )
    path.write_text(others + line.format("a"))
    plain.write_text(others + line.format("a").replace("a:NA", "").replace("a:?", ""))
    result = ddol("train", path)
    assert result.exit_code == 2 and "found a missing value" in result.stderr
    ways = ("--quiet", "--json", "-")
    zero = figures(ddol("train", path, "--missing", "zero", *ways))
    assert zero["loss"] == figures(ddol("train", plain, *ways))["loss"]
    skipped = figures(ddol("train", path, "--on-bad-line", "skip", *ways))
    assert skipped["examples"] == 40 and skipped["skipped_lines"] == 1


def test_text_that_is_no_utf8_is_refused_or_left_out(ddol, tmp_path):
    path = write(tmp_path / "a.csv")
    lines = path.read_bytes().splitlines()
    lines[7] = lines[7].replace(b",", b",\xfc", 1)
    lines[9] = lines[9] + b"\xff"
    path.write_bytes(b"\n".join(lines))
    result = ddol("train", path, "--label", "outcome")
    assert result.exit_code == 2 and "a.csv:8:" in result.stderr and "iconv" in result.stderr
    skip = ("--label", "outcome", "--on-bad-line", "skip", "--quiet", "--json", "-")
    found = figures(ddol("train", path, *skip))
    assert found["examples"] == 398 and found["skipped_lines"] == 2
    path.write_bytes(path.read_bytes().replace(b"age", b"\xe4ge", 1))
    assert "a.csv:1:1: found the byte 0xe4" in ddol("train", path, *skip).stderr


def test_a_label_of_truth_values_is_the_same_wherever_it_is_read(ddol, tmp_path):
    import polars

    path, model, parquet = write(tmp_path / "a.csv"), tmp_path / "m", tmp_path / "a.parquet"
    polars.read_csv(path).write_parquet(parquet)
    options = ("--label", "smoker", "--drop", "town", "--drop", "outcome", "--quiet")
    assert ddol("train", path, *options, "--model", model).exit_code == 0
    found = [figures(ddol("evaluate", model, each, "--json", "-")) for each in (path, parquet)]
    assert found[0]["confusion"] == found[1]["confusion"] and found[0]["classes"] == [
        "false",
        "true",
    ]
    assert ddol("train", path, "--initial", model, "--quiet").exit_code == 0


def test_sites_may_have_their_columns_in_any_order(ddol, tmp_path):
    one = write(tmp_path / "bern.csv", seed=1)
    same = write(tmp_path / "lyon.csv", seed=2)
    other = write(tmp_path / "rome.csv", COLUMNS[::-1], seed=2)
    options = ("--agents", 2, "--label", "outcome", "--json", "-")
    in_order = figures(ddol("train", one, same, *options))
    assert figures(ddol("train", one, other, *options))["loss"] == in_order["loss"]


def test_a_model_keeps_names_and_shows_weights_by_name(ddol, model):
    text = ddol("inspect", model).stdout
    for name in ("age", "income", "town=Rome", "smoker", "intercept", "no, yes", "outcome"):
        assert name in text
    assert library.load(model).encoding.label == "outcome"


@pytest.mark.parametrize(
    ("first", "said"),
    [
        ((), "label: y (2 classes: no, yes), 2 columns, 4 agents in turn"),
        (
            ("--label", "a"),
            "label: a (3 classes: 0, 1, 2), 2 columns (1 of text), 4 agents in turn",
        ),
        (("--label", "-1", "--task", "regression"), "label: b (a number), 2 columns (1 of text)"),
        (("--agents", 1, "--bits", 4, "--drop", "b"), "1 column hashed to 16, 1 agent"),
    ],
)
def test_the_first_line_says_what_was_taken_for_what(ddol, tmp_path, first, said):
    path = tmp_path / "t.csv"
    lines = [f"{k % 3},{'yes' if k % 2 else 'no'},{k}" for k in range(60)]
    path.write_text("\n".join(["a,y,b", *lines]))
    result = ddol("train", path, *first)
    assert result.exit_code == 0 and result.stderr.splitlines()[0].startswith("label: ")
    assert said in result.stderr.splitlines()[0]


def test_a_label_that_stands_last_without_a_header_is_doubted(ddol, tmp_path):
    path = tmp_path / "t.csv"
    lines = [f"{20 + k % 72},{k % 7},{k % 2}" for k in range(400)]
    path.write_text("\n".join(lines))
    result = ddol("train", path)
    assert "found 72 classes" in result.stderr
    assert "--label" in result.stderr and "--loss squared" in result.stderr
    assert "warning" not in ddol("train", path, "--label", "-1").stderr


def test_the_rule_for_the_label_stands_in_the_help(ddol):
    text = " ".join(ddol("train", "--help").stdout.split())
    assert "the one named label, y or target, or else the first" in text


def test_without_a_header_columns_go_by_their_number(ddol, tmp_path):
    path = write(tmp_path / "a.csv", ("outcome", "age", "income"), header=False)
    model = tmp_path / "m.ddol"
    assert ddol("train", path, "--model", model, "--quiet").exit_code == 0
    expected = ddol("predict", model, path).stdout
    bare = write(tmp_path / "b.csv", ("age", "income"), header=False)
    assert ddol("predict", model, bare).stdout == expected != ""
    short = write(tmp_path / "c.csv", ("age",), header=False)
    assert ddol("predict", model, short).exit_code == 2


# Text, truth values, dates.


def test_text_is_one_feature_for_each_value(ddol, table, tmp_path):
    options = ("--label", "outcome", "--passes", 5, "--model", tmp_path / "m", "--json", "-")
    found = figures(ddol("train", table, *options))
    without = figures(ddol("train", table, "--drop", "town", *options))
    assert found["holdout"]["error"] < without["holdout"]["error"]
    assert [c.kind for c in library.load(tmp_path / "m").encoding.columns].count("text") == 0
    ddol("train", table, "--label", "outcome", "--model", tmp_path / "m", "--quiet")
    encoding = library.load(tmp_path / "m").encoding
    assert sorted(encoding.names) == ["town=Bern", "town=Lyon", "town=Rome"]
    assert {c.name: c.kind for c in encoding.columns}["smoker"] == "number"


def test_hashed_names_are_remembered(ddol, table, tmp_path):
    options = ("--label", "outcome", "--bits", 10, "--model", tmp_path / "m", "--quiet")
    assert ddol("train", table, *options).exit_code == 0
    text = ddol("inspect", tmp_path / "m").stdout
    assert "town=Rome" in text and "age" in text
    labels = ddol("predict", tmp_path / "m", table).stdout.split()
    assert np.mean(np.array(labels) == cells()["outcome"]) > 0.7


@pytest.mark.parametrize("more", [(), ("--interactions", "town*age")])
def test_hashed_weights_have_the_sign_of_what_has_the_name(ddol, table, tmp_path, more):
    def shown(*options):
        options = ("--label", "outcome", "--quiet", "--model", tmp_path / "m", *options)
        assert ddol("train", table, *options).exit_code == 0
        [largest] = json.loads(ddol("inspect", tmp_path / "m", "--top", 99, "--json").stdout)[
            "largest"
        ]
        return {
            name: weight for name, weight in largest["weights"] if not name.startswith("hashed")
        }

    plain, hashed = shown(), shown("--bits", 18, *more)
    if more:
        assert {f"town={town}*age" for town in ("Rome", "Bern", "Lyon")} == {*hashed} - {*plain}
    else:
        assert hashed == pytest.approx(plain)
    assert all(hashed[name] * plain[name] > 0 for name in plain)


def test_line_breaks_and_backslashes_in_names_come_back(ddol, tmp_path):
    one = {"label": "a", "text": "one\ntwo", "path": "c:\\new"}
    rows = [one, {"label": "b", "text": "one two", "path": "d"}]
    path, model = tmp_path / "t.jsonl", tmp_path / "m"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows * 3))
    assert ddol("train", path, "--agents", 1, "--quiet", "--model", model).exit_code == 0
    assert {"text=one\ntwo", "path=c:\\new"} <= {*library.load(model).encoding.names}
    assert ddol("predict", model, path).stdout.split() == ["a", "b"] * 3


def test_a_value_never_seen_is_no_feature(predicted, tmp_path):
    towns = ["Oslo"] * 400
    assert len(predicted(write(tmp_path / "a.csv", town=towns)).split()) == 400


DATES = (
    "2024-05-01",
    "2024-05-01 12:30",
    "2024-05-01T12:30:00.5Z",
    "2024/05/01 12:30:00",
    "01.05.2024",
    "05/01/24",
    "1 May 2024",
    "May 1, 2024",
    "01-May-24",
    "12:30:00",
)


@pytest.mark.parametrize("date", DATES)
def test_dates_are_refused_with_advice(ddol, tmp_path, date):
    path = write(tmp_path / "a.csv", ("when", *COLUMNS), when=[date] * 400)
    result = ddol("train", path, "--label", "outcome")
    assert result.exit_code == 2 and "'when'" in result.stderr and "--drop when" in result.stderr
    dropped = ddol("train", path, "--label", "outcome", "--drop", "when", "--quiet")
    assert dropped.exit_code == 0


@pytest.mark.parametrize("word", ["1.2.30", "v1-2-30", "10:30", "3/4", "May", "A 1 May 2024"])
def test_words_that_are_no_dates_are_words(ddol, tmp_path, word):
    path = write(tmp_path / "a.csv", ("code", *COLUMNS), code=[word] * 400)
    assert ddol("train", path, "--label", "outcome", "--quiet").exit_code == 0


def test_numbers_with_commas_are_refused_with_advice(ddol, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("label;a\n" + "".join(f"{k % 2};{k},5\n" for k in range(40)))
    result = ddol("train", path)
    assert result.exit_code == 2 and "column 'a': found numbers such as '0,5'" in result.stderr


def test_products_of_columns_are_features(ddol, tmp_path):
    rng = np.random.default_rng(0)
    left, right = rng.choice(["a", "b"], 4000), rng.choice(["x", "y"], 4000)
    answer = np.where((left == "a") == (right == "x"), "same", "other")
    path = tmp_path / "xor.csv"
    lines = [",".join(row) for row in zip(answer, left, right, strict=True)]
    path.write_text("\n".join(["label,left,right", *lines]))
    options = (path, "--bits", 12, "--json", "-")
    assert figures(ddol("train", *options))["mistakes"] > [200] * 4
    crossed = figures(ddol("train", *options, "--interactions", "left*right"))
    assert max(crossed["mistakes"]) < 50
    refused = ddol("train", path, "--interactions", "left*right")
    assert refused.exit_code == 2 and "--bits" in refused.stderr
    refused = ddol("train", *options, "--interactions", "left*top")
    assert refused.exit_code == 2 and "'top'" in refused.stderr


# Missing values, bad lines, weights.


@pytest.fixture
def gaps(tmp_path):
    """A table in which three ages are missing, each in another way."""
    ages = cells()["age"]
    ages[5], ages[50], ages[100] = "", "NA", "?"
    return write(tmp_path / "gaps.csv", age=ages)


def test_missing_values_are_errors_unless_filled(ddol, gaps, tmp_path):
    options = ("--label", "outcome", "--json", "-")
    refused = ddol("train", gaps, *options)
    assert refused.exit_code == 2
    assert "gaps.csv:7:1: column 'age': found a missing value" in refused.stderr
    assert "--missing" in refused.stderr
    for how in ("zero", "mean"):
        assert figures(ddol("train", gaps, *options, "--missing", how))["examples"] == 400
    skipped = ddol("train", gaps, *options, "--on-bad-line", "skip")
    assert figures(skipped)["examples"] == 397 and figures(skipped)["skipped_lines"] == 3
    assert "skipped 3 rows" in skipped.stderr


def test_the_mean_is_the_running_one(ddol, tmp_path):
    ages = cells()["age"]
    numbers = [float(a) for a in ages]
    filled = list(ages)
    for place in (5, 50, 399):
        ages[place] = ""
        known = [numbers[k] for k in range(place) if k not in (5, 50)]
        filled[place] = repr(float(np.mean(known)))
    options = ("--label", "outcome", "--json", "-")
    gaps = ddol("train", write(tmp_path / "a.csv", age=ages), "--missing", "mean", *options)
    whole = ddol("train", write(tmp_path / "b.csv", age=filled), *options)
    assert np.allclose(figures(gaps)["loss"], figures(whole)["loss"])


def test_a_model_fills_what_it_predicts_as_it_was_trained(ddol, gaps, tmp_path):
    model = tmp_path / "m"
    options = ("--label", "outcome", "--missing", "mean", "--model", model, "--quiet")
    assert ddol("train", gaps, *options).exit_code == 0
    mean = library.load(model).encoding.means[0]
    assert abs(mean - 40) < 2
    ages = cells()["age"]
    ages[5] = ages[50] = ages[100] = repr(mean)
    whole = write(tmp_path / "whole.csv", age=ages)
    assert ddol("predict", model, gaps).stdout == ddol("predict", model, whole).stdout


def test_a_column_of_weights(ddol, tmp_path):
    path = write(tmp_path / "a.csv", ("weight", *COLUMNS))
    options = ("--label", "outcome", "--json", "-")
    weighted = figures(ddol("train", path, *options, "--weight", "weight"))
    plain = figures(ddol("train", path, *options, "--drop", "weight"))
    assert weighted["loss"] != plain["loss"]
    ones = write(tmp_path / "b.csv", ("weight", *COLUMNS), weight=["1"] * 400)
    same = figures(ddol("train", ones, *options, "--weight", "weight"))
    assert same["loss"] == plain["loss"]
    refused = ddol("train", path, *options, "--weight", "height")
    assert refused.exit_code == 2 and "'height'" in refused.stderr


def test_weights_of_libsvm_text_stand_in_a_file(ddol, examples, tmp_path):
    weights = tmp_path / "weights"
    weights.write_text("1\n" * 300)
    plain = figures(ddol("train", examples, "--json", "-"))
    assert figures(ddol("train", examples, "--weight", weights, "--json", "-")) | {
        "seconds": 0, "examples_per_second": 0,
    } == plain | {"seconds": 0, "examples_per_second": 0}  # fmt: skip
    weights.write_text("0.5\n" * 299)
    result = ddol("train", examples, "--weight", weights)
    assert result.exit_code == 2 and "found 299 weights" in result.stderr


@pytest.mark.parametrize("loss", ["hinge", "squared"])
def test_an_infinite_label_is_an_error(ddol, tmp_path, loss):
    path = write(tmp_path / "a.csv", score=["inf", "1"] * 200, columns=("age", "score"))
    options = ("train", path, "--label", "score", "--loss", loss)
    result = ddol(*options)
    assert result.exit_code == 2 and "found an infinite label" in result.stderr


def test_another_kind_of_file_is_refused_where_no_name_is_known(ddol, model, table, tmp_path):
    words, other = tmp_path / "a.vw", tmp_path / "words"
    words.write_text("1 |n years:30 |t Rome\n-1 |n years:20 |t Bern\n" * 4)
    assert ddol("train", words, "--model", other, "--quiet").exit_code == 0
    for given, data, said in ((model, words, "such as 'n^years'"), (other, table, "found a table")):
        result = ddol("predict", given, data)
        assert (result.exit_code, result.stdout) == (2, "") and said in result.stderr


def test_a_column_without_a_name_is_doubted(ddol, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(",label,a\n" + "".join(f"{k},{k % 2},{k % 3}\n" for k in range(20)))
    assert "if it is the number of the row" in ddol("train", path, "--quiet").stderr
    assert ddol("train", path, "--quiet", "--drop", "").stderr == ""


def test_the_label_of_text_has_no_name(ddol, examples):
    result = ddol("train", examples, "--label", "outcome")
    assert result.exit_code == 2 and "--label outcome is for tables" in result.stderr
    assert ddol("train", "--label", "outcome").exit_code == 2


def test_a_name_that_was_mistyped_is_guessed(ddol, table):
    for flag, name, said in (("--label", "outcom", "'outcome'"), ("--drop", "towm", "'town'")):
        result = ddol("train", table, flag, name)
        assert result.exit_code == 2 and f"expected {said}" in result.stderr


def test_columns_that_nobody_looks_at_may_hold_anything(ddol, model, tmp_path, predicted):
    polars = pytest.importorskip("polars")
    path = tmp_path / "people.parquet"
    frame = polars.DataFrame(cells()).select(COLUMNS)
    kinds = {"age": polars.Float64, "income": polars.Float64}
    frame = frame.with_columns(polars.col("smoker") == "true").cast(kinds)
    frame.with_columns(more=polars.Series([[1, 2]] * len(frame))).write_parquet(path)
    result = ddol("train", path, "--label", "outcome")
    assert result.exit_code == 2 and "use --drop more" in result.stderr
    assert ddol("train", path, "--label", "outcome", "--drop", "more").exit_code == 0
    result = ddol("predict", model, path)
    assert result.exit_code == 0 and "column 'more' is not among the model's" in result.stderr


def test_a_column_called_like_a_value_of_another_is_refused(ddol, tmp_path):
    columns = ("town", "town=Rome", "outcome")
    path = write(tmp_path / "a.csv", columns, **{"town=Rome": cells()["age"]})
    result = ddol("train", path, "--label", "outcome")
    assert result.exit_code == 2 and "'town=Rome' beside the text column 'town'" in result.stderr
    assert ddol("train", path, "--label", "outcome", "--drop", "town", "-q").exit_code == 0


def test_values_that_were_not_learned_are_told_of_once(ddol, model, tmp_path, predicted):
    towns = ["Oslo" if k % 2 else "Rome" for k in range(400)]
    path = write(tmp_path / "other.csv", town=towns)
    for command in ("predict", "evaluate"):
        result = ddol(command, model, path)
        assert result.exit_code == 0 and result.stderr.count("not learned") == 1, result.stderr
        assert "town=Oslo" in result.stderr and "town=Rome" not in result.stderr
    assert "not learned" not in ddol("predict", model, write(tmp_path / "same.csv")).stderr


def test_no_name_steers_the_terminal(ddol, tmp_path):
    steer = "\x1b]0;mine\x07"
    label, site = f"no{steer}", f"bern{steer}.csv"
    for name in (site, "rome.csv"):
        rows = "".join(f"{k % 3},{(label, 'yes', chr(0x9B))[k % 3]}\n" for k in range(30))
        (tmp_path / name).write_text(f"a{steer},label\n{rows}")
    files, model = [tmp_path / site, tmp_path / "rome.csv"], tmp_path / "m"
    commands = [
        ("train", *files, "--agents", 2, "--model", model, "--json", "-"),
        ("evaluate", model, *files),
        ("evaluate", model, *files, "--json", "-"),
        ("inspect", model),
        ("predict", model, files[0], "--agent", steer),
        ("train", tmp_path / site, "--drop", steer),
    ]
    for command in commands:
        done = ddol(*command)
        assert done.exit_code in (0, 2), done.stderr
        assert not set(done.output) & set("\x1b\x07\x9b"), command
    assert label in ddol("predict", model, files[1]).stdout, "a program gets labels as they are"


@pytest.mark.parametrize("algorithm", ["adaptive", "coin", "newton", "dogd"])
def test_inspect_ranks_features_in_units_that_can_be_compared(ddol, tmp_path, algorithm):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 3)) * [10.0, 20_000.0, 0.01]
    score = X[:, 0] / 10 + 3 * X[:, 1] / 20_000 + 2 * X[:, 2] / 0.01
    lines = [f"{int(s > 0)},{a:.3f},{b:.1f},{c:.5f}" for s, (a, b, c) in zip(score, X, strict=True)]
    path, model = tmp_path / "people.csv", tmp_path / "m"
    path.write_text("\n".join(["ill,age,income,share", *lines]) + "\n")
    options = ("--algorithm", algorithm, "--label", "ill", "--model", model)
    assert ddol("train", path, *options, "--quiet").exit_code == 0
    found = json.loads(ddol("inspect", model, "--json").stdout)
    [largest] = found["largest"]
    names = [name for name, _ in largest["importance"]]
    text = ddol("inspect", model).stdout
    if algorithm == "dogd":
        assert found["unit"] == "unit of the feature" and "per unit of the feature" in text
        assert largest["importance"] == largest["weights"]
    else:
        assert found["unit"] == "standard deviation of the feature"
        assert "largest weights, per standard deviation" in text
        assert names[:3] == ["income", "share", "age"]
        shares, weights = dict(largest["importance"]), dict(largest["weights"])
        assert shares["income"] / weights["income"] == pytest.approx(20_000, rel=0.2)


def test_a_trace_names_its_sites(tmp_path):
    rng = np.random.default_rng(0)
    for name in ("bern", "st-gallen"):
        rows = [f"{int(x > 0)},{x:.3f},{y:.3f}" for x, y in rng.standard_normal((40, 2))]
        (tmp_path / f"{name}.csv").write_text("\n".join(["label,a,b", *rows]) + "\n")
    files = [str(tmp_path / "bern.csv"), str(tmp_path / "st-gallen.csv")]
    table = library.run(library.adaptive(), files, 2).table().splitlines()
    assert [line.split()[0] for line in table[:4]] == ["agent", "bern", "st-gallen", "all"]
    assert len({len(line) for line in table[:4]}) == 1
