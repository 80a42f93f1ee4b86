"""Sweeps: every combination once, pairs on the same examples, runs that are kept, tables and charts."""

import sys

import numpy as np
import pytest
from scipy.stats import ttest_rel

import ddol
from ddol.streams import open_stream, synthetic
from ddol.study.kept import fingerprint
from ddol.study.sweep import Axis

RNG = np.random.default_rng(0)
ANSWERS = RNG.choice([-1.0, 1.0], 400)
ADVICE = np.where(RNG.random((400, 5)) < 0.3, -ANSWERS[:, None], ANSWERS[:, None])
DATA = ADVICE, ANSWERS


def test_every_combination_is_a_row():
    axes = {"algorithm": ["dogd", "doeg"], "agents": [1, 4], "period": [1, 3], "seed": range(2)}
    found = ddol.sweep(axes, DATA, workers=1)
    assert len(found.rows) == 16
    assert len({tuple(row[a] for a in axes) for row in found.rows}) == 16
    assert found.varied == ("algorithm", "agents", "period")


def test_a_row_is_that_run():
    found = ddol.sweep(
        {"algorithm": "dwm-i", "alpha": 0.7, "agents": 4, "seed": [3]}, DATA, workers=1
    )
    order = np.random.default_rng(3).permutation(400)
    trace = ddol.run(ddol.dwm_i(0.7), (ADVICE[order], ANSWERS[order]), 4, seed=3)
    row = found.rows[0]
    assert row["mistakes"] == trace.mistakes.sum()
    assert row["bound"] == trace.bounds["DWM-I"]["value"]
    assert found.curves[0].rounds.tolist() == trace.curves.rounds.tolist()


@pytest.mark.parametrize("system", sorted({sys.platform, "darwin"}))
def test_processes_and_threads_find_the_same(system, monkeypatch):
    monkeypatch.setattr("ddol.study.sweep.sys.platform", system)
    axes = {
        "algorithm": ["dwm-a", "dwm-i"],
        "topology": ["complete", "ring"],
        "agents": 4,
        "seed": range(6),
    }
    alone, together = (ddol.sweep(axes, DATA, workers=n) for n in (1, 2))
    for one, two in zip(alone.rows, together.rows, strict=True):
        assert {k: v for k, v in one.items() if k != "seconds"} == {
            k: v for k, v in two.items() if k != "seconds"
        }


def test_thirty_seeds_are_compared_in_pairs():
    axes = {"algorithm": ["dwm-a", "dwm-i"], "agents": 4, "seed": range(30)}
    found = ddol.sweep(axes, DATA, workers=1)
    (one,) = found.compare("algorithm", "mistakes")
    frame = found.to_frame()
    a, i = (frame[frame.algorithm == name].mistakes.to_numpy() for name in ("dwm-a", "dwm-i"))
    interval = ttest_rel(a, i).confidence_interval(0.95)
    assert one.pairs == 30
    assert (one.low, one.high) == pytest.approx((interval.low, interval.high))
    assert one.difference == pytest.approx(np.mean(a - i))
    assert one.wins == np.count_nonzero(a < i)
    assert "over 30 pairs" in str(one)


def test_finished_runs_are_kept(tmp_path):
    played = []
    axes = {"algorithm": "dogd", "agents": [1, 2], "seed": range(2)}

    def watch(done, total):
        played.append(done)

    first = ddol.sweep(axes, DATA, workers=1, folder=tmp_path, progress=watch)
    assert played == [0, 1, 2, 3, 4]
    assert len(list(tmp_path.iterdir())) == 4
    next(tmp_path.iterdir()).unlink()
    played.clear()
    again = ddol.sweep(axes, DATA, workers=1, folder=tmp_path, progress=watch)
    assert played == [3, 4]
    assert [r["mistakes"] for r in again.rows] == [r["mistakes"] for r in first.rows]
    assert again.curves[0].loss.tolist() == first.curves[0].loss.tolist()
    played.clear()
    ddol.sweep({**axes, "C": 2.0}, DATA, workers=1, folder=tmp_path, progress=watch)
    assert played[0] == 0
    half = next(tmp_path.iterdir())
    half.write_bytes(half.read_bytes()[:50])
    played.clear()
    ddol.sweep(axes, (ADVICE, ANSWERS), workers=1, folder=tmp_path, progress=watch)
    assert played[0] >= 3


def test_parquet_is_swept_after_it_was_read(tmp_path):
    """A forked process has none of polars' threads, and would wait for them for ever."""
    polars = pytest.importorskip("polars")
    table = {"label": ANSWERS, **{f"x{k}": ADVICE[:, k] for k in range(5)}}
    polars.DataFrame(table).write_parquet(tmp_path / "points.parquet", row_group_size=150)
    stream = open_stream(tmp_path / "points.parquet")
    once = ddol.run(ddol.dogd(), stream, 2)
    axes = {"algorithm": "dogd", "agents": 2, "seed": range(4)}
    found = ddol.sweep(axes, stream, workers=2)
    assert {row["examples"] for row in found.rows} == {once.examples} == {400}
    assert len({row["loss"] for row in found.rows}) == 4  # every seed is an order
    alone = ddol.sweep(axes, stream, workers=1)
    assert [row["loss"] for row in found.rows] == [row["loss"] for row in alone.rows]


def _fails_every_second_time(trace, data):
    if trace.seed % 2:
        raise OSError("the disk is full")
    return {"seen": np.int64(trace.examples)}


def test_processes_keep_every_run_at_once(tmp_path):
    """Runs are handed to processes in pairs here; the first of a pair is kept when the second fails."""
    axes = {"algorithm": "dogd", "seed": range(32)}
    options = {"folder": tmp_path, "observe": _fails_every_second_time, "workers": 2}
    with pytest.raises(OSError, match="the disk is full"):
        ddol.sweep(axes, DATA, **options)
    kept = len(list(tmp_path.iterdir()))
    assert kept > 0
    played = []
    even = {**axes, "seed": range(0, 32, 2)}
    found = ddol.sweep(even, DATA, **options, progress=lambda done, total: played.append(done))
    assert played[0] == kept
    assert {row["seen"] for row in found.rows} == {400}


def test_another_version_plays_anew(tmp_path, monkeypatch):
    axes = {"algorithm": "dogd", "seed": range(2)}
    ddol.sweep(axes, DATA, workers=1, folder=tmp_path)
    monkeypatch.setattr("ddol.study.kept.__version__", "another")
    played = []
    ddol.sweep(axes, DATA, workers=1, folder=tmp_path, progress=lambda done, _: played.append(done))
    assert played[0] == 0


def test_other_data_are_other_runs():
    changed = ADVICE.copy()
    changed[7, 1] *= -1
    same = fingerprint((ADVICE.copy(), ANSWERS))
    assert same == fingerprint(DATA)
    assert same != fingerprint((changed, ANSWERS))
    assert fingerprint(ddol.dogd("huber")) != fingerprint(ddol.dogd("hinge"))
    with pytest.raises(ValueError, match="give no folder"):
        fingerprint(object())


def test_data_of_a_seed_and_further_columns():
    def made(seed):
        return synthetic.linear(n_examples=64, n_features=3, seed=seed)

    def also(trace, data):
        return {"features": trace.weights.shape[-1], "of": data.seed}

    found = ddol.sweep({"seed": range(3)}, made, workers=1, observe=also)
    assert [row["of"] for row in found.rows] == [0, 1, 2]
    assert {row["features"] for row in found.rows} == {3}


def test_values_may_have_names():
    rates = {"slow": lambda t: 0.01, "fast": lambda t: 1.0}
    found = ddol.sweep({"algorithm": ddol.dogd(), "rate": rates}, DATA, workers=1)
    assert [row["rate"] for row in found.rows] == ["slow", "fast"]
    assert found.rows[0]["loss"] != found.rows[1]["loss"]
    with pytest.raises(ValueError, match="two values of the axis `algorithm` have the same name"):
        Axis.of("algorithm", [ddol.dogd(), ddol.dogd(C=2)])


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ({"algorithm": "dogdd"}, "algorithm: found 'dogdd', expected one of"),
        (
            {"algorithm": "dogd", "alfa": 1},
            "alfa does not go with the algorithm dogd, which has .*l2",
        ),
        ({"seed": []}, "the axis `seed` has no value"),
    ],
)
def test_what_is_not_understood_is_named(axes, message):
    with pytest.raises(ValueError, match=message):
        ddol.sweep(axes, DATA, workers=1)


def test_a_run_that_fails_is_a_row_and_a_warning():
    data = 1e150 * ADVICE, ANSWERS
    with pytest.warns(
        UserWarning, match="1 of 2 runs failed, the first of them: the weights of dogd left"
    ):
        found = ddol.sweep(
            {"algorithm": "dogd", "loss": "squared", "rate": {"a": 1e3, "b": 1e-300}},
            data,
            workers=1,
        )
    assert found.curves[0] is None
    assert "problem" in found.columns
    assert found.chart("loss").lines[0].y == []


def test_tables_and_charts(tmp_path):
    found = ddol.sweep({"agents": [1, 4], "seed": range(4)}, DATA, workers=1)
    for name in ("runs.csv", "runs.parquet"):
        found.write(tmp_path / name)
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    assert (
        pandas.read_csv(tmp_path / "runs.csv").mistakes.tolist()
        == found.to_frame().mistakes.tolist()
    )
    assert polars.read_parquet(tmp_path / "runs.parquet").height == 8
    chart = found.chart("mistakes", "rounds")
    assert [line.name for line in chart.lines] == ["1", "4"]
    line = chart.lines[1]
    ends = [100 * c.mistakes[-1] / c.examples[-1] for c in found.curves[1::2]]
    assert line.y[-1] == pytest.approx(np.mean(ends))
    assert line.low[-1] < line.y[-1] < line.high[-1]
    assert found.summary(["error"])[0]["runs"] == 4
    with pytest.raises(ValueError, match="no chart of 'colour'"):
        found.chart("colour")
