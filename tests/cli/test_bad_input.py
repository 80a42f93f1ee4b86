"""Whatever is wrong with the input: one line that says where, exit code 2, nothing half-written."""

from __future__ import annotations

import bz2
import gzip
import json
import os
import pickle

import numpy as np
import pytest


def binary_junk(path):
    path.write_bytes(bytes(range(256)) * 40)


def truncated_bz2(path):
    path.write_bytes(bz2.compress(b"1 1:1\n-1 1:2\n" * 5000)[:-20])


def truncated_gz(path):
    path.write_bytes(gzip.compress(b"1 1:1\n-1 1:2\n" * 5000)[:-20])


GOOD = "1 1:0.5 2:1\n-1 1:-1\n"

# name of the file, its text (or what writes it), and what the message says
CASES = {
    "empty file": ("e.libsvm", "", "e.libsvm: found an empty file"),
    "only comments": ("c.libsvm", "# a\n\n# b\n", "c.libsvm: found no examples"),
    "binary junk": ("b.libsvm", binary_junk, "b.libsvm:1:1: found"),
    "truncated bz2": ("t.bz2", truncated_bz2, "t.bz2: compressed data end before"),
    "truncated gz": ("t.gz", truncated_gz, "t.gz: compressed data end before"),
    "not bz2 at all": ("n.bz2", GOOD, "n.bz2: found other bytes at its beginning"),
    "cut line": ("cut.libsvm", GOOD + "1 1:0.5 2:", "cut.libsvm:3:"),
    "no number": ("a.libsvm", GOOD + "1 3:abc\n", "a.libsvm:3:"),
    "no index": ("i.libsvm", GOOD + "1 :5\n", "i.libsvm:3:"),
    "index 0": ("z.libsvm", GOOD + "1 0:1\n", "z.libsvm:3:"),
    "descending": ("d.libsvm", GOOD + "1 2:1 1:1\n", "d.libsvm:3:"),
    "repeated": ("r.libsvm", GOOD + "1 2:1 2:1\n", "r.libsvm:3:"),
    "negative index": (
        "n.libsvm",
        "1 -2:1\n-1 2:1\n" * 3,
        "n.libsvm:1:3: found '-2:1', expected index:value",
    ),
    "index with a point": ("p.libsvm", "1 2.0:1\n-1 2:1\n" * 3, "p.libsvm:1:"),
    "two spellings": (
        "s.csv",
        "x,y\n1,no\n2,Yes\n3,yes\n4,no\n",
        "s.csv: found the labels 'Yes' and 'yes', expected one spelling",
    ),
    "the same letters composed in two ways": (
        "u.csv",
        "x,y\n1,no\n2,\u00e9\n3,e\u0301\n4,no\n",
        "u.csv: found the labels 'e\\u0301' and '\\xe9', which look alike",
    ),
    "a blank inside quotes": (
        "q.csv",
        'x,y\n1,no\n2,"yes "\n3,yes\n4,no\n',
        "found the labels 'yes' and 'yes ', which look alike",
    ),
    "no class is called None": (
        "o.csv",
        "x,y\n1,some\n2,None\n3,some\n4,some\n",
        "which are missing labels",
    ),
    "the first long label": (
        "f.csv",
        f"x,y\n1,{2**53}\n2,{2**53 + 1}\n3,1\n4,1\n",
        "found the label 9007199254740992, expected numbers of at most 15 digits",
    ),
    "long labels": (
        "l.csv",
        f"x,y\n1,{2**60}\n2,{2**60 + 999}\n3,1\n4,1\n",
        "found the label 11529",
    ),
    "huge index": ("h.libsvm", GOOD + "1 2147483649:1\n", "h.libsvm:3:"),
    "nan": ("nan.libsvm", GOOD + "1 1:nan\n", "nan.libsvm:3:"),
    "inf": ("inf.libsvm", GOOD + "1 1:inf\n", "inf.libsvm:3:"),
    "nan label": ("nl.libsvm", GOOD + "nan 1:1\n", "nl.libsvm:3:"),
    "one class": ("one.libsvm", "1 1:1\n" * 20, "one.libsvm: found one class only (label 1)"),
    "few examples": ("few.libsvm", GOOD, "found 2 examples for 4 agents"),
    "a day": ("t.csv", "label,x\n1,2024-01-02\n0,2024-01-03\n", "column 'x': found dates such as"),
    "large numbers": (
        "v.csv",
        "label,x\n1,2\n0,1e200\n0,1\n1,2\n",
        "v.csv:3:1: column 'x': found a number beyond 8e+149",
    ),
    "missing label": ("m.csv", "label,x\n1,2\n,3\n0,1\n1,2\n", "m.csv:3:1: found a missing label"),
    "ragged table": (
        "g.csv",
        "label,x\n1,2\n0,3,4\n0,1\n1,2\n",
        "g.csv:3:4: found more than the 2 cells",
    ),
    "returns": (
        "r.csv",
        "label,x\r1,2\r0,3\r",
        "r.csv: found lines that end with a carriage return",
    ),
    "quantities": ("q.libsvm", "0.5 1:1\n1.5 1:2\n2.25 1:1\n3 1:2\n", "use a regression loss"),
}


@pytest.mark.parametrize("case", CASES)
def test_bad_data(ddol, tmp_path, case):
    name, content, message = CASES[case]
    path = tmp_path / name
    if callable(content):
        content(path)
    else:
        path.write_text(content)
    if name.endswith(".csv"):
        pytest.importorskip("polars")
    outputs = ("--model", tmp_path / "model", "--json", tmp_path / "figures.json")
    result = ddol("train", path, "--quiet", *outputs)
    check_refused(result, message, exit_code=2)
    assert sorted(p.name for p in tmp_path.iterdir()) == [name]


def check_refused(result, message, exit_code):
    assert result.exit_code == exit_code, (result.stdout, result.stderr, result.exception)
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert "Traceback" not in result.stderr


def test_missing_files_and_directories(ddol, tmp_path):
    check_refused(ddol("train", tmp_path / "none", "-q"), "no such file", 2)
    check_refused(ddol("train", tmp_path, "-q"), "found a directory", 2)
    check_refused(ddol("train", tmp_path / "no-*.libsvm", "-q"), "no such file", 2)


def test_a_bad_line_far_into_the_file(ddol, tmp_path, text_of):
    path = tmp_path / "late.libsvm"
    path.write_text(text_of(60_000, d=8) + "1 1:oops\n")
    check_refused(ddol("train", path, "-q", "--model", tmp_path / "m"), "late.libsvm:60001:5", 2)
    assert not (tmp_path / "m").exists()


def test_three_classes_for_a_binary_algorithm(ddol, tmp_path, text_of):
    path = tmp_path / "three.libsvm"
    path.write_text(text_of(60, labels=(1, 2, 3)))
    for algorithm in ("dwm-i", "dwm-a", "drwm", "winnow"):
        result = ddol("train", path, "-q", "--algorithm", algorithm)
        check_refused(result, "found 3 labels (1, 2, 3), expected two classes", 2)


def test_a_third_label_that_appears_late(ddol, tmp_path, text_of):
    path = tmp_path / "late.libsvm"
    path.write_text(text_of(60_000, d=8, labels=(1, 2)) * 2 + "3 1:1\n")
    check_refused(ddol("train", path, "-q"), "late.libsvm:120001", 2)
    assert ddol("train", path, "-q", "--labels", "1,2,3").exit_code == 0


def test_neither_one_file_nor_one_for_each_agent(ddol, examples):
    result = ddol("train", examples, examples, examples, "--agents", 4, "-q")
    check_refused(result, "found 3 files for 4 agents", 2)
    assert "--agents 3" in result.stderr


def test_outputs_do_not_take_the_place_of_data_or_of_each_other(ddol, tmp_path, examples, model):
    before, twice = examples.read_bytes(), tmp_path / "twice"
    for command in (
        ("train", examples, "--json", examples),
        ("train", examples, "--model", twice, "--json", twice),
        ("predict", model, examples, "--out", examples),
        ("evaluate", model, examples, "--json", model),
    ):
        check_refused(ddol(*command), "is another file of this command already", exit_code=2)
    assert examples.read_bytes() == before
    train = ("train", examples, "-q", "--json", "/dev/null", "--report", "/dev/null")
    assert ddol(*train).exit_code == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--text", "z"), "found no column 'z' for --text or --number, expected one of x"),
        (("--text", "x", "--number", "x"), "--text x and --number x contradict each other"),
        (("--labels-map", "no=0", "--labels-map", "yes=0"), "found '0' for 'no' and for 'yes'"),
    ],
)
def test_options_that_mean_nothing_or_two_things(ddol, tmp_path, options, message):
    table = tmp_path / "t.csv"
    table.write_text("x,y\n1,no\n2,yes\n3,yes\n4,no\n")
    check_refused(ddol("train", table, *options), message, exit_code=2)


def test_outputs_are_tried_before_training(ddol, tmp_path, examples):
    for option in ("--model", "--json", "--report"):
        bad = tmp_path / "no" / "such" / "folder"
        result = ddol("train", examples, option, bad)
        check_refused(result, "there is no folder", 2)
        check_refused(ddol("train", examples, option, tmp_path), "found a directory", 2)


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write anywhere")
def test_a_folder_without_permission(ddol, tmp_path, examples):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    check_refused(ddol("train", examples, "-q", "--model", closed / "m"), "cannot be written", 2)


def test_a_checkpoint_folder_that_is_a_file(ddol, examples):
    result = ddol("train", examples, "-q", "--checkpoint", examples)
    check_refused(result, "--checkpoint", 2)


def test_standard_input_cannot_be_resumed(ddol, tmp_path, examples):
    options = ("--checkpoint", tmp_path / "c", "-q")
    result = ddol("train", "-", *options, stdin=examples.read_text())
    check_refused(result, "save it to a file first", 2)


@pytest.fixture
def model(ddol, tmp_path, examples):
    path = tmp_path / "model"
    assert ddol("train", examples, "-q", "--model", path).exit_code == 0
    return path


def test_more_columns_than_the_model(ddol, tmp_path, model):
    path = tmp_path / "wide.libsvm"
    path.write_text("1 1:1\n1 1:1 9:2\n")
    result = ddol("predict", model, path, "--out", tmp_path / "out")
    check_refused(result, "wide.libsvm:2:1: found column 9, expected at most the model's 4", 2)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", ["predict", "inspect"])
@pytest.mark.parametrize(
    "damage",
    [
        lambda blob: blob[:-8],
        lambda blob: blob[:20],
        lambda blob: b"",
        lambda blob: pickle.dumps(list(range(1000))),
        lambda blob: (1 << 62).to_bytes(8, "little") + blob[8:],
        lambda blob: blob.replace(b'\\"format\\": 5', b'\\"format\\": 7'),
    ],
    ids=["truncated", "stump", "empty", "pickle", "absurd size", "newer version"],
)
def test_damaged_models(ddol, model, examples, command, damage):
    before = model.read_bytes()
    model.write_bytes(damage(before))
    assert model.read_bytes() != before
    result = ddol("predict", model, examples) if command == "predict" else ddol("inspect", model)
    check_refused(result, str(model), 2)


def test_checkpoints_of_another_run_are_refused(ddol, tmp_path, examples, text_of):
    folder = tmp_path / "c"
    options = ("--checkpoint", folder, "--every", 50, "-q")
    assert ddol("train", examples, *options).exit_code == 0
    result = ddol("train", examples, *options, "--resume", "--agents", 2)
    check_refused(result, "--agents was 4, now it is 2", 2)
    examples.write_text(text_of(300, seed=9))
    check_refused(ddol("train", examples, *options, "--resume"), "the data was", 2)


def test_debug_shows_the_traceback(ddol, tmp_path):
    assert "Traceback" in ddol("train", tmp_path / "none", "--debug").stderr


@pytest.mark.parametrize("kind", ["npz", "npy"])
def test_rows_of_arrays_that_are_not_finite_are_skipped_and_counted(ddol, tmp_path, kind):
    X, path = np.random.default_rng(0).standard_normal((40, 3)), tmp_path / f"a.{kind}"
    y, X[5, 1], X[30, 2] = np.arange(40) % 2, np.nan, np.inf
    if kind == "npz":
        np.savez(path, X=X, y=y)
    else:
        np.save(path, np.column_stack([y, X]))
    assert ddol("train", path).exit_code == 2
    result = ddol("train", path, "--on-bad-line", "skip", "--json", "-", "--quiet")
    assert "skipped 2 rows" in result.stderr and "row 5: found nan" in result.stderr
    assert json.loads(result.stdout)["examples"] == 38


def test_a_copy_of_a_pipe_is_called_what_it_is(ddol):
    result = ddol("train", "-", "--passes", 2, stdin="1 2:x\n")
    assert result.exit_code == 2 and result.stderr.startswith("ddol: standard input:1:5: found 'x'")


def test_lines_of_both_kinds_are_counted(ddol, tmp_path):
    """Looking a missing value up, to say where it is, must not forget the lines that were not read."""
    path = tmp_path / "both.csv"
    rows = [f"{i % 2},{i},{i * 7 % 13}" for i in range(200)]
    path.write_text("\n".join(["label,a,b", "0,2,oops", *rows, "1,,5", "0,4,4,9"]) + "\n")
    result = ddol("train", path, "--agents", "2", "--on-bad-line", "skip", "--json", "-", "--quiet")
    assert result.exit_code == 0
    figures = json.loads(result.stdout)
    assert (figures["examples"], figures["skipped_lines"]) == (200, 3)
