"""What a run returns: frames, pickles, files that are read without running anything, and plots."""

import pickle

import matplotlib as mpl
import numpy as np
import pytest

import ddol
from ddol.measure.regret import regret
from ddol.storage import read_arrays, write_arrays
from ddol.streams.errors import DataError
from ddol.update.losses import Loss

mpl.use("Agg")
RNG = np.random.default_rng(0)
X = RNG.choice([-1.0, 1.0], (240, 4))
Y = np.where(RNG.random(240) < 0.2, -X[:, 0], X[:, 0])
PRESETS = [
    (ddol.dogd(C=2.0), ddol.ring(5)),
    (ddol.doeg("logistic", radius=3.0), 4),
    (ddol.dwm_a(0.7), 4),
    (ddol.drwm(), ddol.star(4)),
    (ddol.adaptive("quantile"), ddol.torus(2, 3)),
    (ddol.newton("huber"), 1),
]


@pytest.mark.parametrize(("algorithm", "network"), PRESETS, ids=lambda v: getattr(v, "name", v))
def test_it_is_the_same_after_a_file_and_after_a_pickle(algorithm, network, tmp_path):
    trace = ddol.run(algorithm, (X, Y), network, delay=2)
    trace.save(tmp_path / "run.trace")
    for again in (ddol.Trace.load(tmp_path / "run.trace"), pickle.loads(pickle.dumps(trace))):
        assert again.to_dict() == trace.to_dict()
        assert again.table() == trace.table()
        assert np.array_equal(again.weights, trace.weights)
        assert again.curves.loss.tolist() == trace.curves.loss.tolist()
        assert again.bound_curves().keys() == trace.bound_curves().keys()
        assert again.algorithm.on(3).n_agents == 3


@pytest.mark.parametrize("schedule", ["rounds", "async"])
def test_a_recording_is_kept_with_its_trace(schedule, tmp_path):
    trace = ddol.run(ddol.dogd(), (X, Y), ddol.ring(4), schedule=schedule, record=True)
    trace.save(tmp_path / "run.trace")
    again = ddol.Trace.load(tmp_path / "run.trace")
    played = ddol.run(ddol.dogd(), (X, Y), ddol.ring(4), replay=again.events)
    assert np.array_equal(played.weights, trace.weights)


def own_value(z, y, p):
    return (z - y) ** 4


def own_slope(z, y, p):
    return 4 * (z - y) ** 3


def test_a_part_of_ones_own_is_pickled_not_saved(tmp_path):
    own = Loss("quartic", own_value, own_slope, task="regression")
    trace = ddol.run(ddol.dogd(own, rate=0.01), (X, Y), 2)
    with pytest.raises(ValueError, match=r"own_value of .* is not a part of ddol"):
        trace.save(tmp_path / "run.trace")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "name",
    ["os:system", "ddol.trace:import_module", "ddol.storage:write_text", "ddol.nowhere:Trace"],
)
def test_no_name_leads_out_of_ddol(name, tmp_path):
    path = tmp_path / "run.trace"
    ddol.run(ddol.dogd(), (X, Y), 2).save(path)
    arrays, header = read_arrays(path, "trace")
    header["trace"]["with"]["algorithm"] = {"a": name, "with": {}}
    write_arrays(path, "trace", arrays, {"trace": header["trace"], "version": "0"})
    with pytest.raises(DataError, match="expected one that ddol wrote"):
        ddol.Trace.load(path)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames(library):
    pytest.importorskip(library)
    trace = ddol.run(ddol.dwm_i(), (X, Y), 4)
    frame = trace.to_frame(library)
    assert frame.shape[0] == len(trace.curves.rounds)
    assert frame["mistakes"].to_numpy()[-1] == trace.mistakes.sum()
    assert frame["bound DWM-I"].to_numpy()[-1] == pytest.approx(trace.bounds["DWM-I"]["value"])
    with pytest.raises(ValueError, match="use pandas or polars"):
        trace.to_frame("numpy")


def test_plots_share_their_axes():
    one, four = (ddol.run(ddol.dwm_i(), (X, Y), n) for n in (1, 4))
    axes = four.plot(one.plot(against="rounds"), against="rounds")
    assert len(axes.lines) == 2
    assert axes.get_xlabel() == "rounds"
    assert axes.lines[1].get_xdata()[-1] == four.rounds
    assert axes.lines[1].get_ydata()[-1] == pytest.approx(100 * four.error)
    assert len(four.plot(what="bound").lines) == 2
    for what in ("loss", "consensus", "traffic"):
        four.plot(what=what)
    with pytest.raises(ValueError, match="`what` is 'colour'; use one of mistakes, loss"):
        four.plot(what="colour")
    with pytest.raises(ValueError, match="no theorem on mistakes holds for dogd"):
        ddol.run(ddol.dogd(), (X, Y), 2).plot(what="bound")


def test_regret_is_drawn_beside_its_bound():
    trace = ddol.run(ddol.dogd(), (X, Y), 2)
    axes = trace.plot(what="regret", data=(X, Y), against="examples")
    assert len(axes.lines) == 2
    found = regret(trace, (X, Y))
    assert axes.lines[0].get_ydata()[-1] == pytest.approx(found.social)
    with pytest.raises(ValueError, match="need the data of the run"):
        trace.plot(what="regret")
    late = ddol.run(ddol.dogd(), (X, Y), 2, schedule="async")
    with pytest.raises(ValueError, match="known at its end only"):
        late.plot(what="regret", data=(X, Y))


@pytest.mark.parametrize("engine", ["local", "threads"])
def test_weights_over_time(engine):
    trace = ddol.run(ddol.dogd(), (X, Y), ddol.ring(4), record_weights=10, engine=engine)
    history = trace.weight_history
    assert history.rounds.tolist() == list(range(10, 61, 10))
    assert history.weights.shape == (6, 4, 1, 4)
    assert np.array_equal(history.weights[-1], trace.weights)
    half = ddol.run(ddol.dogd(), (X[:120], Y[:120]), ddol.ring(4))
    np.testing.assert_allclose(history.weights[2], half.weights, rtol=1e-12)
    assert len(trace.plot(what="weights").lines) == 4
    assert np.array_equal(pickle.loads(pickle.dumps(trace)).weight_history.rounds, history.rounds)


def test_a_long_history_is_thinned():
    trace = ddol.run(ddol.dogd(), (X, Y), 1, passes=5, record_weights=1)
    assert trace.rounds == 1200
    assert len(trace.weight_history.rounds) < 512
    assert set(np.diff(trace.weight_history.rounds)) == {4}


def test_weights_that_were_not_recorded():
    with pytest.raises(ValueError, match="run with record_weights=k"):
        ddol.run(ddol.dogd(), (X, Y), 2).plot(what="weights")
    with pytest.raises(ValueError, match="`record_weights` must be at least 1"):
        ddol.run(ddol.dogd(), (X, Y), 2, record_weights=0)
