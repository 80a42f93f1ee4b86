"""``ddol train`` from the outside: what it computes, prints and leaves."""

from __future__ import annotations

import json
import re
import warnings
from dataclasses import replace

import numpy as np
import pytest

import ddol as library
from ddol.cli.table import SECONDS, ProgressTable
from ddol.engines.feed import Feed
from ddol.job.algorithm import build
from ddol.job.job import Job
from ddol.presets import PRESETS
from ddol.streams import array_stream, open_stream, with_intercept

KEYS = {
    *("algorithm", "engine", "workers", "agents", "topology", "examples", "rounds", "mistakes"),
    *("loss", "seconds", "examples_per_second", "bytes_sent", "consensus", "bounds"),
    *("final_weights_norm", "seed", "version"),
}


def figures(result):
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def test_without_data_a_built_in_set_is_learned(ddol):
    found = figures(ddol("train", "--json", "-"))
    assert set(found) >= KEYS
    assert found["examples"] == 569 and found["agents"] == 4
    assert sum(found["mistakes"]) / 569 < 0.1


def test_a_regression_loss_has_a_built_in_set_too(ddol):
    found = figures(ddol("train", "--loss", "squared", "--json", "-"))
    assert found["examples"] == 442 and found["mistakes"] == [0, 0, 0, 0]


def test_the_figures_are_those_of_the_library(ddol, examples):
    options = (
        "--algorithm",
        "dogd",
        "--agents",
        3,
        "--topology",
        "ring",
        "--C",
        0.5,
        "--json",
        "-",
    )
    found = figures(ddol("train", examples, *options))
    [(rows, _)] = with_intercept(open_stream(examples)).read()
    X = rows.to_scipy()
    trace = library.run(library.dogd(C=0.5), (X, rows.y), library.ring(3))
    assert found["mistakes"] == trace.mistakes.tolist()
    assert np.allclose(found["loss"], trace.loss)
    assert found["topology"] == "ring" and found["rounds"] == 100


def test_memory_is_how_long_examples_count(ddol, examples):
    short, long = (figures(ddol("train", examples, "--memory", m, "--json", "-")) for m in (5, 1e9))
    plain = figures(ddol("train", examples, "--json", "-"))
    assert long["mistakes"] == plain["mistakes"] != short["mistakes"]
    refused = ddol("train", examples, "--memory", 0.5)
    assert (
        refused.exit_code == 2
        and "--memory: found 0.5, expected a number above 1" in refused.stderr
    )


def test_experts_share_as_the_preset_says(ddol, examples):
    some = (
        "train",
        examples,
        "--algorithm",
        "dwm-i",
        "--experts",
        4,
        "--alpha",
        0.3,
        "--agents",
        2,
    )
    none, share, auto = (
        ddol(*some, *more, "--json", "-") for more in ((), ("--share", 0.3), ("--share", "auto"))
    )
    assert figures(none)["loss"] != figures(share)["loss"] != figures(auto)["loss"]
    assert "DWM-I" in figures(none)["bounds"]
    assert all(figures(run)["bounds"]["DWM-I, shares"]["holds"] for run in (share, auto))
    refused = ddol("train", examples, "--algorithm", "dwm-i", "--share", 0.7)
    expected = "--share: found 0.7, expected a number from 0 to 0.5 or 'auto'"
    assert refused.exit_code == 2 and expected in refused.stderr


def test_order_is_kept_unless_asked_for(ddol, examples):
    first = ("train", examples, "--algorithm", "dogd", "--json", "-")
    kept, again = figures(ddol(*first)), figures(ddol(*first, "--no-shuffle"))
    shuffled = [figures(ddol(*first, "--shuffle", "--seed", seed)) for seed in (1, 1, 2)]
    assert kept["loss"] == again["loss"] != shuffled[0]["loss"]
    assert shuffled[0]["loss"] == shuffled[1]["loss"] != shuffled[2]["loss"]


def test_one_file_for_each_agent(ddol, tmp_path, text_of):
    for k, n in enumerate((40, 60, 50)):
        (tmp_path / f"part-{k}.libsvm").write_text(text_of(n, seed=k))
    named = [tmp_path / f"part-{k}.libsvm" for k in range(3)]
    by_name = figures(ddol("train", *named, "--agents", 3, "--json", "-"))
    by_pattern = figures(ddol("train", tmp_path / "part-*.libsvm", "--agents", 3, "--json", "-"))
    assert by_name["examples"] == 150 and by_name["rounds"] == 60
    assert by_name["loss"] == by_pattern["loss"]


def test_passes_limit_batch_and_intercept(ddol, examples):
    found = figures(
        ddol("train", examples, "--passes", 2, "--limit", 100, "--holdout", 0, "--json", "-")
    )
    assert found["examples"] == 200 and found["rounds"] == 50 and found["holdout"] is None
    found = figures(ddol("train", examples, "--batch", 5, "--agents", 2, "--json", "-"))
    assert found["rounds"] == 30
    bare = figures(ddol("train", examples, "--no-intercept", "--json", "-"))
    assert bare["bytes_sent"] < figures(ddol("train", examples, "--json", "-"))["bytes_sent"]


def test_standard_input_gives_the_same_as_the_file(ddol, examples):
    text = examples.read_text()
    for options in ((), ("--passes", 2), ("--algorithm", "doeg"), ("--algorithm", "dwm-a")):
        piped = figures(ddol("train", "-", *options, "--json", "-", stdin=text))
        assert piped["loss"] == figures(ddol("train", examples, *options, "--json", "-"))["loss"]


@pytest.mark.parametrize("schedule", ["rounds", "async"])
def test_the_same_run_leaves_the_same_model_to_the_bit(ddol, examples, tmp_path, schedule):
    options = ("--agents", 4, "--topology", "ring", "--schedule", schedule, "--quiet")
    kept = [tmp_path / "one.ddol", tmp_path / "two.ddol"]
    for path in kept:
        assert ddol("train", examples, *options, "--model", path).exit_code == 0
    assert kept[0].read_bytes() == kept[1].read_bytes()


def test_the_table_has_a_header_and_rows_at_powers_of_two(ddol, examples):
    result = ddol("train", examples, "--agents", 2)
    taken, header, *lines = result.stderr.splitlines()
    assert (
        taken
        == "label: the number in front (2 classes: -1, 1), columns by number, 2 agents in turn"
    )
    assert header.split()[:3] == ["examples", "mean", "loss"]
    rows = [int(line.split()[0].replace(",", "")) for line in lines[: lines.index("")]]
    assert rows == [2, 4, 8, 16, 32, 64, 128, 256, 300]
    assert result.stdout == ""
    assert ddol("train", examples, "--quiet").stderr == ""


def flipped(path, text, at):
    """A file whose labels mean the opposite from a line on."""
    lines = text.splitlines()
    other = [{"1": "-1", "-1": "1"}[line.split()[0]] + line[line.index(" ") :] for line in lines]
    path.write_text("\n".join(lines[:at] + other[at:]) + "\n")
    return path


def test_a_rise_of_the_error_is_told_once_and_is_in_the_figures(ddol, tmp_path, text_of):
    text = text_of(8000)
    path, out = flipped(tmp_path / "flipped.libsvm", text, 4000), tmp_path / "out.json"
    result = ddol("train", path, "--window", 250, "--json", out)
    told = [line for line in result.stderr.splitlines() if line.startswith("drift: ")]
    [rise] = json.loads(out.read_text())["drift"]
    assert len(told) == 1 and told[0].endswith("--memory auto follows changes")
    assert f"(after {rise['examples']:,} examples)" in told[0]
    assert 4000 < rise["examples"] <= 5000
    assert rise["error"] > 2 * rise["before"]
    assert "drift: " not in ddol("train", path, "--window", 250, "--quiet").stderr
    path.write_text(text)
    assert figures(ddol("train", path, "--window", 250, "--json", "-"))["drift"] == []


def test_the_table_shows_the_error_of_the_window(ddol, tmp_path, text_of):
    path = flipped(tmp_path / "flipped.libsvm", text_of(4096), 2048)
    for options, column in (((), "window %"), (("--loss", "squared"), "window")):
        _, header, *lines = ddol("train", path, "--window", 4096, *options).stderr.splitlines()
        assert f" {column} " in header
        row = next(line for line in lines if line.startswith("       4,096")).split()
        # The window has all examples, so that its error is the error so far.
        assert float(row[4]) == pytest.approx(float(row[1 if options else 3]), rel=1e-3)
    _, _, *lines = ddol("train", path, "--window", 128).stderr.splitlines()
    row = next(line for line in lines if line.startswith("       4,096")).split()
    assert float(row[4]) != float(row[3])


def test_a_row_comes_after_a_time_though_the_examples_have_not_doubled():
    seen = []
    table = ProgressTable(Feed(), None, library.dogd(), None, None)
    library.run(library.dogd(), (np.eye(8), [1, -1] * 4), on_progress=seen.append)
    table.now = lambda: table.silent_since
    table.show(seen[-1], row=True)
    assert not table.due(seen[-1])
    since = table.silent_since
    table.now = lambda: since + SECONDS
    assert table.due(seen[-1])
    table.show(seen[-1], row=True)
    assert not table.due(seen[-1])


@pytest.mark.parametrize("algorithm", ["dwm-i", "dwm-a", "drwm"])
def test_experts_have_a_bound_that_holds(ddol, examples, algorithm):
    found = figures(ddol("train", examples, "--algorithm", algorithm, "--json", "-"))
    [bound] = found["bounds"].values()
    assert bound["holds"] and bound["value"] >= sum(found["mistakes"])
    ring = ("--topology", "ring", "--agents", 5)
    assert (
        figures(ddol("train", examples, "--algorithm", algorithm, *ring, "--json", "-"))["bounds"]
        == {}
    )


def test_the_paper_on_svmguide1(ddol, svmguide1):
    for algorithm, agents in (("dwm-i", 1), ("dwm-i", 4), ("dwm-a", 4)):
        options = ("--algorithm", algorithm, "--agents", agents, "--experts", 4, "--json", "-")
        found = figures(ddol("train", svmguide1, *options))
        assert 200 <= sum(found["mistakes"]) <= 210


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_every_algorithm_runs(ddol, examples, name):
    agents = 1 if name in ("ogd", "oeg", "wma", "rwma") else 2
    found = figures(ddol("train", examples, "--algorithm", name, "--agents", agents, "--json", "-"))
    assert found["algorithm"] == name.replace("_", "-")
    assert found["examples"] == 300


def test_several_classes_are_learned_one_against_all(ddol, tmp_path, text_of):
    path, model = tmp_path / "three.libsvm", tmp_path / "m"
    path.write_text(text_of(600, labels=(3, 5, 9)))
    found = figures(ddol("train", path, "--model", model, "--json", "-"))
    assert sum(found["mistakes"]) < 200
    loaded = library.load(model)
    assert loaded.weights.shape == (3, 5) and loaded.classes == (3.0, 5.0, 9.0)


def test_hashing_bounds_the_features(ddol, examples, tmp_path):
    assert ddol("train", examples, "--bits", 3, "--model", tmp_path / "m").exit_code == 0
    assert library.load(tmp_path / "m").weights.shape == (1, 9)


def test_tables_are_read_by_their_ending(ddol, tmp_path):
    pytest.importorskip("polars")
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 2))
    y = (X[:, 0] > 0).astype(int)
    path = tmp_path / "t.csv"
    lines = [f"{a:.4f},{c},{b:.4f}" for (a, b), c in zip(X, y, strict=True)]
    path.write_text("one,answer,two\n" + "\n".join(lines) + "\n")
    found = figures(ddol("train", path, "--label", "answer", "--json", "-"))
    assert sum(found["mistakes"]) < 30


def test_a_sorted_stream_gets_a_warning(ddol, tmp_path, text_of):
    lines = sorted(text_of(3000).splitlines(keepends=True))
    path = tmp_path / "sorted.libsvm"
    path.write_text("".join(lines))
    assert "rows have the label" in ddol("train", path, "-q").stderr
    assert ddol("train", path, "-q", "--shuffle").stderr == ""


def test_bad_lines_can_be_skipped_and_are_counted(ddol, tmp_path, text_of):
    path = tmp_path / "bad.libsvm"
    path.write_text("1 1:0.5\nrubbish\n-1 1:1 2:x\n" + text_of(50))
    result = ddol("train", path, "--on-bad-line", "skip", "--json", "-")
    assert figures(result)["examples"] == 51 and figures(result)["skipped_lines"] == 2
    assert "skipped 2 bad lines" in result.stderr and "bad.libsvm:2" in result.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ("--alpha", 0.5),
            "--alpha does not go with the algorithm adaptive, which has --loss, --rate",
        ),
        (
            ("--algorithm", "dwm-i", "--C", 1),
            "--C does not go with the algorithm dwm-i, which has --alpha",
        ),
        (("--algorithm", "dwm-i", "--average", "primal"), "averages in the dual"),
        (("--algorithm", "dwm-i", "--task", "regression"), "tells classes apart"),
        (("--algorithm", "sgd"), "found 'sgd', expected one of adaptive"),
        (("--loss", "cubic"), "unknown loss 'cubic'"),
        (("--loss", "squared", "--task", "classification"), "is for regression"),
        (("--topology", "moebius"), "`topology` must be one of"),
        (("--algorithm", "dwm-i", "--experts", 9), "4 features for 9 experts"),
        (("--experts", 2), "--experts does not go with --algorithm adaptive"),
        (("--algorithm", "drwm", "--bits", 4), "--bits does not go with --algorithm drwm"),
        (("--engine", "carrier-pigeon"), "expected one of local, threads, mpi"),
        (("--mixing", "none"), "expected one of uniform, metropolis"),
        (("--resume",), "--resume needs --checkpoint"),
        (("--every", 10), "--every needs --checkpoint"),
        (("--labels", "a,b"), "found label -1, expected one of a, b"),
        (("--algorithm", "dogd", "--C", -1), "--C: found -1.0, expected a number above 0"),
        (("--agents", 0), "--agents"),
    ],
)
def test_wrong_options_are_named(ddol, examples, options, message):
    result = ddol("train", examples, *options)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr


def test_weights_that_leave_the_range_of_numbers(ddol, examples, tmp_path):
    options = ("--algorithm", "dogd", "--rate", 1e200, "--model", tmp_path / "m", "-q")
    result = ddol("train", examples, *options)
    assert result.exit_code == 1 and "lower the rate" in result.stderr
    assert not (tmp_path / "m").exists()


def test_the_threads_engine_makes_the_same_mistakes(ddol, examples):
    options = ("train", examples, "--algorithm", "dogd", "--topology", "ring", "--json", "-")
    local = figures(ddol(*options))
    threads = figures(ddol(*options, "--engine", "threads", "--workers", 2))
    assert threads["workers"] == 2 and threads["engine"] == "threads"
    assert threads["mistakes"] == local["mistakes"]
    assert np.allclose(threads["loss"], local["loss"])


@pytest.mark.parametrize("more", [(), ("--algorithm", "rwma"), ("--passes", 2), ("--limit", 90)])
def test_threads_that_read_change_nothing(ddol, tmp_path, text_of, monkeypatch, more):
    from ddol.streams import open as opening

    path = tmp_path / "pieces.libsvm"
    path.write_text(text_of(400))
    whole = opening.opener
    monkeypatch.setattr(
        opening,
        "opener",
        lambda *given: (
            lambda paths, options: whole(*given)(paths, replace(options, chunk_bytes=1 << 10))
        ),
    )
    found = [figures(ddol("train", path, "--workers", n, "--json", "-", *more)) for n in (1, 2, 3)]
    for name in ("mistakes", "loss", "examples", "rounds"):
        assert found[0][name] == found[1][name] == found[2][name]


def test_a_file_that_is_not_there_is_told_of_once(ddol):
    result = ddol("train", "there is no such file.libsvm", "--workers", 2)
    assert (
        result.exit_code == 2 and result.stderr.count("no such file") == 2
    )  # its name says so, too


def test_half_of_the_threads_read_text_while_the_others_learn(ddol, examples, monkeypatch):
    from ddol.engines.threads import rounds
    from ddol.streams.over.parallel import ParsingPool

    learners, parsers = [], []
    seat, allow = rounds.Threads._seat, ParsingPool.allow
    monkeypatch.setattr(ParsingPool, "allow", lambda self, n: parsers.append(n) or allow(self, n))
    monkeypatch.setattr(rounds, "usable_cores", lambda: 4)
    monkeypatch.setattr(
        rounds.Threads,
        "_seat",
        lambda self, parts: learners.append(len(parts)) or seat(self, parts),
    )
    options = ("--algorithm", "dogd", "--agents", 16, "--period", 4096, "--json", "-")
    threads = (*options, "--engine", "threads")
    local, half = (figures(ddol("train", examples, *each)) for each in (options, threads))
    assert learners.pop() == 2 and half["workers"] == 4 and half["mistakes"] == local["mistakes"]
    assert parsers.pop() == 3  # one of them learns, and parses while it waits
    assert figures(ddol("train", examples, *threads, "--workers", 3))["workers"] == 3
    assert learners.pop() == 2
    assert figures(ddol("train", *threads))["workers"] == 4  # there is nothing to read
    assert learners.pop() == 4
    in_real_time = figures(ddol("train", examples, *threads, "--schedule", "async"))
    assert in_real_time["workers"] == 4


def test_a_report_is_written(ddol, examples, tmp_path):
    pytest.importorskip("ddol.lab.report")
    assert ddol("train", examples, "-q", "--report", tmp_path / "r.html").exit_code == 0
    assert "<html" in (tmp_path / "r.html").read_text().lower()


def test_parameters_reach_the_algorithm():
    algorithm = build(
        Job.of(algorithm="dogd", agents=8, topology="ring", batch=3, period=2, C=0.25, l2=0.5)
    )
    assert (algorithm.C, algorithm.update.l2, algorithm.batch, algorithm.period) == (
        0.25,
        0.5,
        3,
        2,
    )
    assert algorithm.n_agents == 8 and algorithm.mixing.name == "metropolis"


def test_the_library_and_the_command_agree_on_arrays(ddol, tmp_path):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((100, 3))
    y = np.where(X[:, 0] > 0, 2.0, 1.0)
    np.savez(tmp_path / "a.npz", X=X, y=y)
    found = figures(
        ddol("train", tmp_path / "a.npz", "--algorithm", "dogd", "--no-intercept", "--json", "-")
    )
    trace = library.run(library.dogd(), array_stream(X, np.where(y > 1, 1.0, -1.0)), 4)
    assert found["mistakes"] == trace.mistakes.tolist()


@pytest.mark.parametrize("words", [("--live",), ("--live", "0")])
def test_a_page_is_served_while_it_runs(ddol, examples, words, tmp_path):
    done = ddol("train", *words, examples, "-q", "--checkpoint", tmp_path / "kept")
    assert done.exit_code == 0, done.stderr
    assert re.search(r"^live: http://127\.0\.0\.1:\d+/\?token=\S{20,}$", done.stderr, re.M)


def test_a_port_that_is_none_is_refused(ddol, examples):
    done = ddol("train", examples, "-q", "--live", "70000")
    assert done.exit_code == 2
    assert "70000" in done.stderr


def sorted_votes(n: int, kind: str) -> str:
    """Examples of two classes, all of one before those of the other."""
    rng = np.random.default_rng(0)
    rows = [(("no", "yes")[k >= n // 2], *rng.standard_normal(2).round(3)) for k in range(n)]
    if kind == "jsonl":
        return "".join(f'{{"vote": "{y}", "a": {a}, "b": {b}}}\n' for y, a, b in rows)
    if kind == "vw":
        return "".join(f"{(-1, 1)[y == 'yes']} | a:{a} b:{b}\n" for y, a, b in rows)
    return "vote,a,b\n" + "".join(f"{y},{a},{b}\n" for y, a, b in rows)


@pytest.mark.parametrize("n", [30, 600])
@pytest.mark.parametrize("kind", ["csv", "jsonl", "vw"])
def test_rows_sorted_by_label_are_warned_of_before_and_after(ddol, tmp_path, n, kind):
    path, model = tmp_path / f"sorted.{kind}", tmp_path / "m.ddol"
    path.write_text(sorted_votes(n, kind))
    label = () if kind == "vw" else ("--label", "vote")
    done = ddol("train", path, *label, "--model", model, "--json", tmp_path / "f")
    first, last = (line for line in done.stderr.splitlines() if line.startswith("warning"))
    assert "stand together" in first and "--shuffle" in first
    assert "final model is wrong on" in last and "--shuffle" in last
    evaluated = json.loads(ddol("evaluate", model, path, "--json", "-").stdout)
    assert json.loads((tmp_path / "f").read_text())["final_error"] == pytest.approx(
        evaluated["error"]
    )
    assert "warning" not in ddol("train", path, *label, "--shuffle").stderr


def test_a_model_that_goes_on_is_warned_of_sorted_rows_too(ddol, tmp_path, examples):
    model, path = tmp_path / "m.ddol", tmp_path / "sorted.libsvm"
    assert ddol("train", examples, "--model", model, "--quiet").exit_code == 0
    path.write_text("".join(sorted(examples.read_text().splitlines(keepends=True))))
    done = ddol("train", path, "--initial", model, "--quiet")
    assert done.exit_code == 0 and "stand together" in done.stderr


def test_a_run_in_python_warns_of_rows_sorted_by_label():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 3)), np.repeat([0, 1], 30)
    with pytest.warns(UserWarning, match="stand together"):
        library.run(library.adaptive(), (X, y), 2)
    with pytest.warns(UserWarning, match="stand together"):
        library.DDOLClassifier(shuffle=False).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        library.DDOLClassifier().fit(X, y)
        library.run(library.adaptive(), (X, np.tile([0, 1], 30)), 2)


def test_a_report_of_numbers_says_the_typical_error_beside_a_guess(ddol, tmp_path):
    words = ("--loss", "squared", "--agents", "2", "--quiet", "--json", "-")
    done = ddol("train", *words, "--report", tmp_path / "r.html")
    assert done.exit_code == 0, done.stderr
    text = (tmp_path / "r.html").read_text()
    assert "<h1>Typical error " in text and "Mean loss so far" in text
    assert "root mean squared error" in text and "the same if always the mean" in text


def test_a_report_compares_with_a_guess_and_shows_what_was_confused(ddol, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 3))
    labels = np.where(X @ [1.0, -2.0, 0.5] > 0, "yes", "no")
    path = tmp_path / "t.csv"
    rows = [f"{label},{a:.3f},{b:.3f},{c:.3f}" for label, (a, b, c) in zip(labels, X, strict=True)]
    path.write_text("\n".join(["bought,a,b,c", *rows]) + "\n")
    done = ddol("train", path, "--agents", "2", "--report", tmp_path / "r.html", "--quiet")
    assert done.exit_code == 0, done.output
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    most = max(("no", "yes"), key=lambda name: (labels == name).sum())
    share = 100 - 100 * (labels == most).mean()
    assert f"always guessing “{most}” would have been wrong on {share:.1f} %" in text
    assert "Which classes were confused" in text
