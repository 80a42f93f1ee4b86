"""Schedules, conditions and recordings from the command line."""

from __future__ import annotations

import json

import numpy as np
import pytest

NETWORK = ("--agents", 6, "--topology", "ring", "--algorithm", "dogd", "--quiet")
ROUGH = (
    "--latency", "exponential:2", "--drop-messages", 0.2, "--churn", "20:5", "--speed", "1..3",
    "--delay", "0..4",
)  # fmt: skip


def figures(result):
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


@pytest.mark.parametrize("schedule", ["rounds", "async", "gossip", "walk", "push-sum"])
def test_a_recording_plays_again_to_the_bit(ddol, examples, tmp_path, schedule):
    options = ("train", examples, *NETWORK, "--schedule", schedule, "--json", "-")
    first = figures(ddol(*options, *ROUGH, "--record", tmp_path / "run.npz"))
    again = figures(ddol(*options, "--replay", tmp_path / "run.npz"))
    for name in ("mistakes", "loss", "final_weights_norm", "consensus", "examples", "certificate"):
        assert first[name] == again[name], name
    assert first["examples"] == 300
    assert first["dropped"] > 0
    with np.load(tmp_path / "run.npz") as recorded:
        assert set(recorded.files) == {"kind", "agent", "peer", "row", "time"}


def test_recording_of_threads_plays_again_to_the_bit(ddol, examples, tmp_path):
    options = ("train", examples, *NETWORK, "--json", "-")
    threads = ("--engine", "threads", "--workers", 2, "--schedule", "async", "--staleness", 3)
    first = figures(ddol(*options, *threads, "--record", tmp_path / "run.npz"))
    again = figures(ddol(*options, "--replay", tmp_path / "run.npz"))
    assert first["mistakes"] == again["mistakes"] and first["loss"] == again["loss"]


def test_certificate_is_in_the_figures(ddol, examples):
    found = figures(
        ddol("train", examples, *NETWORK, "--radius", 3, "--l2", 0, "--certificate", "--json", "-")
    )
    made = found["certificate"]
    assert made["total"] == pytest.approx(made["serial"] + made["drift"])
    assert made["comparator"] == "every u with ‖u‖₂ ≤ 3"


def test_report_of_a_schedule_has_its_certificate(ddol, examples, tmp_path):
    page = tmp_path / "run.html"
    result = ddol("train", examples, *NETWORK, "--schedule", "async", *ROUGH, "--report", page)
    assert result.exit_code == 0, result.stderr
    assert "drift" in page.read_text()


BAD = {
    "`latency` must be": ("--latency", "-1"),
    "`latency` must be a number": ("--latency", "inf"),
    "--drop-messages: found '2'": ("--drop-messages", "2"),
    "unknown schedule 'chaos'": ("--schedule", "chaos"),
    "`churn` must be UP:DOWN": ("--churn", "5"),
    "`delay` must be": ("--delay", "soon"),
    "`speed` must be positive": ("--speed", "0"),
    "no-such.npz": ("--replay", "no-such.npz"),
    "one example a turn, --batch is 2": ("--schedule", "async", "--batch", 2),
    "gives every pass another order": ("--record", "run.npz", "--shuffle", "--passes", 2),
    "runs rounds and async, not gossip": ("--schedule", "gossip", "--engine", "threads"),
    "--patient needs the engine local": (
        "--schedule", "async", "--patient", "--engine", "threads",
    ),
    "`speed` is given for 2 agents": ("--schedule", "async", "--speed", "1,2"),
    "runs schedules on a virtual clock": (
        "--schedule", "async", "--engine", "threads", "--checkpoint", "folder",
    ),
}  # fmt: skip


@pytest.mark.parametrize("why", BAD)
def test_bad_input_is_one_line(ddol, examples, tmp_path, monkeypatch, why):
    monkeypatch.chdir(tmp_path)
    result = ddol("train", examples, *NETWORK, *BAD[why])
    assert result.exit_code == 2
    assert why in result.stderr
    assert result.stderr.count("\n") == 1


def test_links_have_latencies_of_their_own(ddol, examples, tmp_path):
    links = tmp_path / "links.csv"
    np.savetxt(links, np.full((6, 6), 3.0), delimiter=",")
    options = ("train", examples, *NETWORK, "--schedule", "async", "--json", "-", "--latency")
    same = figures(ddol(*options, 3))["mistakes"]
    assert figures(ddol(*options, links))["mistakes"] == same
    np.savetxt(links, np.arange(36).reshape(6, 6))
    assert figures(ddol(*options, links))["mistakes"] != same
    for text, said in (("1,2\n3,4\n", "given for 2 × 2 agents"), ("1,2\n3\n", "columns")):
        links.write_text(text)
        refused = ddol(*options, links)
        assert refused.exit_code == 2 and said in refused.stderr
        assert refused.stderr.count("\n") == 1


def test_recording_of_other_data_is_refused(ddol, examples, tmp_path):
    assert ddol("train", examples, *NETWORK, "--record", tmp_path / "run.npz").exit_code == 0
    result = ddol("train", examples, *NETWORK, "--limit", 200, "--replay", tmp_path / "run.npz")
    assert result.exit_code == 2
    assert "the recording is of other data" in result.stderr
    for others in (4, 7):
        these = (*NETWORK[2:], "--agents", others)
        result = ddol("train", examples, *these, "--replay", tmp_path / "run.npz")
        assert result.exit_code == 2
        assert f"the recording is of 6 agents, found {others}" in result.stderr


def test_recording_of_liars_is_refused_without_them(ddol, examples, tmp_path):
    """A recording has no messages: without its liars another run would be played."""
    run, lied = tmp_path / "run.npz", ("--safe", "--liars", "2,0:flip")
    assert ddol("train", examples, *NETWORK, *lied, "--record", run).exit_code == 0
    for other in (("--safe",), ("--safe", "--liars", "0:flip")):
        refused = ddol("train", examples, *NETWORK, *other, "--replay", run)
        assert refused.exit_code == 2 and "use --liars '0:flip;2:flip'" in refused.stderr
    again = ("--safe", "--liars", "0:flip;2:flip", "--replay", run)
    assert ddol("train", examples, *NETWORK, *again).exit_code == 0


def test_recording_of_as_many_other_rows_is_refused(ddol, examples, tmp_path, text_of):
    shuffled = (*NETWORK, "--shuffle", "--seed", 1)
    assert ddol("train", examples, *shuffled, "--record", tmp_path / "run.npz").exit_code == 0
    copy, other = tmp_path / "copy.libsvm", tmp_path / "other.libsvm"
    copy.write_text(examples.read_text())
    other.write_text(text_of(seed=1))
    again = ("--replay", tmp_path / "run.npz")
    assert ddol("train", copy, *shuffled, *again).exit_code == 0
    for wrong in ((other, *shuffled), (examples, *shuffled[:-1], 2), (examples, *NETWORK)):
        result = ddol("train", *wrong, *again)
        assert result.exit_code == 2
        assert "the recording is of other data" in result.stderr and result.stderr.count("\n") == 1


def test_a_column_says_how_late_answers_are(ddol, tmp_path, late_table):
    """Delays by row are those of the same number for all where the column says it."""
    for turns in (0, 3):
        path = late_table([turns] * 80)
        column = train(ddol, path, "--delay", "column:late")
        whole = train(ddol, path, "--drop", "late", "--delay", turns)
        assert column["mistakes"] == whole["mistakes"] and column["examples"] == 80
    mixed = train(ddol, late_table([k % 5 for k in range(80)]), "--delay", "column:late")
    assert mixed["mistakes"] != whole["mistakes"]
    for cells, said in (([0.5] * 80, "whole number"), ([-1] * 80, "whole number")):
        refused = ddol("train", late_table(cells), "--delay", "column:late")
        assert refused.exit_code == 2 and said in refused.stderr
    refused = ddol("train", path, "--delay", "column:nope")
    assert refused.exit_code == 2 and "found no column 'nope'" in refused.stderr
    refused = ddol("train", path, "--delay", "column:late", "--shuffle")
    assert refused.exit_code == 2 and "--shuffle" in refused.stderr


def test_answers_in_a_file_of_their_own(ddol, tmp_path, late_table):
    rows = [line.split(",") for line in late_table([0] * 80).read_text().split()[1:]]
    examples, answers = tmp_path / "examples.csv", tmp_path / "answers.csv"
    examples.write_text("id,x,z\n" + "".join(f"e{k},{r[1]},{r[2]}\n" for k, r in enumerate(rows)))

    def joined(order, *more):
        lines = [f"e{k},{rows[k][0]}\n" for k in order]
        answers.write_text("id,y\n" + "".join([*lines, *more]))
        return train(ddol, examples, "--answers", answers, "--id", "id")

    prompt = train(ddol, tmp_path / "late.csv", "--drop", "late")
    assert joined(range(80))["mistakes"] == prompt["mistakes"]
    swapped = [k + 8 if k % 16 < 8 else k - 8 for k in range(80)]  # two of the agent's turns
    late = [2 if k % 16 < 8 else 0 for k in range(80)]
    by_row = train(ddol, late_table(late), "--delay", "column:late")
    assert joined(swapped)["mistakes"] == by_row["mistakes"]
    some = joined([k for k in range(80) if k % 10], "e0815,1\n")
    assert some["examples"] == 72 and some["unanswered"] == 8
    refused = ddol("train", examples, "--answers", answers, "--id", "nope")
    assert refused.exit_code == 2 and "correct --id" in refused.stderr


@pytest.fixture
def late_table(tmp_path):
    """A table of 80 examples with a column of delays."""

    def write(late):
        rng = np.random.default_rng(3)
        X = rng.standard_normal((80, 2)).round(3)
        cells = zip((X[:, 0] > X[:, 1]).astype(int), *X.T, late, strict=True)
        path = tmp_path / "late.csv"
        path.write_text("y,x,z,late\n" + "".join(",".join(map(str, c)) + "\n" for c in cells))
        return path

    return write


def train(ddol, *arguments):
    return figures(ddol("train", *arguments, "--quiet", "--json", "-"))
