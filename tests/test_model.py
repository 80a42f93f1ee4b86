"""Model files: what comes back, and what is refused."""

from __future__ import annotations

import json
import pickle
import struct
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

import ddol
from ddol.knowledge import Knowledge
from ddol.model import Model, load, model_of
from ddol.presets import PRESETS, made_again
from ddol.reference import said_by
from ddol.storage import read_arrays, write_arrays
from ddol.streams import Column, DataError, Encoding, Rows
from ddol.streams.coding.stumps import Stumps
from ddol.streams.rows import Block
from ddol.update.losses import logistic


@pytest.fixture
def model() -> Model:
    weights = np.array([[0.5, 1.0, -2.0, 0.25]])
    encoding = Encoding(n_features=3, classes=(1.0, 2.0), intercept=True)
    return Model(weights, encoding, "logistic", version="0.1.0")


X = np.array([[1.0, 0.0, 3.0], [0.0, 2.0, 0.0], [0.0, 0.0, -2.0]])


def test_what_is_saved_comes_back(model, tmp_path):
    model.save(tmp_path / "m.ddol")
    again = load(tmp_path / "m.ddol")
    assert np.array_equal(again.weights, model.weights)
    assert replace(again, weights=model.weights) == model
    assert [p.name for p in tmp_path.iterdir()] == ["m.ddol"]


def test_the_safetensors_package_reads_it(model, tmp_path):
    from safetensors.numpy import load_file

    model.save(tmp_path / "m.ddol")
    assert np.array_equal(load_file(tmp_path / "m.ddol")["weights"], model.weights)


def test_all_kinds_of_features_give_the_same_scores(model):
    expected = X @ [1.0, -2.0, 0.25] + 0.5
    narrow = sp.csr_matrix(X[:, :3])
    for features in (X, X.tolist(), sp.csr_matrix(X), narrow, Rows.from_dense(X, np.zeros(3))):
        assert np.allclose(model.decision_function(features), expected)
    assert model.predict(X).tolist() == [2, 1, 2]  # score 0 is the positive class


def test_sparse_rows_may_be_narrower_and_none_may_be_wider(model):
    assert model.predict(sp.csr_matrix(X[:, :2])).shape == (3,)
    with pytest.raises(DataError, match="found 4 columns, expected the model's 3"):
        model.predict(sp.csr_matrix((1, 4)))
    with pytest.raises(DataError, match="found 2 columns"):
        model.predict(X[:, :2])


def test_probabilities_need_a_loss_that_has_them(model):
    chances = model.predict_proba(X)
    z = model.decision_function(X)
    assert np.allclose(chances[:, 1], 1 / (1 + np.exp(-z)))
    assert np.allclose(chances.sum(axis=1), 1.0)
    with pytest.raises(DataError, match="hinge gives no probabilities"):
        replace(model, loss="hinge").predict_proba(X)
    with pytest.raises(DataError, match="regression"):
        replace(model, encoding=Encoding(n_features=3, intercept=True)).predict_proba(X)


def test_several_classes_take_the_largest_score():
    model = Model(np.eye(3), Encoding(n_features=3, classes=(4.0, 5.0, 9.0)), loss="logistic")
    assert model.predict(np.eye(3)[[2, 0, 1]]).tolist() == [9, 4, 5]
    assert np.allclose(model.predict_proba(np.eye(3)).sum(axis=1), 1.0)


def test_experts_are_kept_and_a_tied_vote_is_positive(tmp_path):
    stumps = Stumps(np.array([0, 2]), np.array([0.5, 0.5]), np.array([1.0, -1.0]))
    encoding = Encoding(n_features=3, classes=(-1.0, 1.0), stumps=stumps)
    model = Model(np.array([[0.5, 0.5]]), encoding, "zero_one")
    model.save(tmp_path / "m.ddol")
    again = load(tmp_path / "m.ddol")
    assert again.predict([[1.0, 0.0, 1.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]).tolist() == [1, -1, 1]
    assert np.array_equal(again.encoding.stumps.features, stumps.features)


def test_hashed_columns_are_hashed_again(tmp_path):
    rng = np.random.default_rng(0)
    model = Model(
        rng.standard_normal((1, 17)), Encoding(classes=(0.0, 1.0), intercept=True, bits=4)
    )
    model.save(tmp_path / "m.ddol")
    wide = sp.csr_matrix(([1.0], ([0], [100_000])), shape=(1, 100_001))
    assert load(tmp_path / "m.ddol").decision_function(wide).shape == (1,)


def test_columns_are_found_by_their_names(tmp_path):
    import pandas as pd

    columns = (Column("age"), Column("town", "text"))
    encoding = Encoding(columns, label="ill", classes=("no", "yes"), names=("town=Rome",))
    model = Model(np.array([[1.0, -3.0]]), encoding)
    model.save(tmp_path / "m.ddol")
    again = load(tmp_path / "m.ddol")
    frame = pd.DataFrame(
        {"more": [0, 0, 0], "town": ["Rome", "Rome", "Bern"], "age": [2.0, 4.0, 0.0]}
    )
    assert again.decision_function(frame).tolist() == [-1.0, 1.0, 0.0]
    assert again.predict(frame).tolist() == ["no", "yes", "yes"]
    with pytest.raises(DataError, match=r"found no column 'age' among more, town, Age.*'Age'"):
        again.predict(frame.rename(columns={"age": "Age"}))


def test_a_run_becomes_a_model_that_predicts_as_the_agents_do():
    rng = np.random.default_rng(1)
    A = rng.standard_normal((400, 3))
    y = np.where(A @ [1.0, -1.0, 0.5] > 0, 1.0, 0.0)
    trace = ddol.run(ddol.dogd(loss=logistic, l2=0.0), (A, y), ddol.ring(4))
    model = model_of(trace, Encoding(classes=(0.0, 1.0)))
    assert np.allclose(model.weights, trace.weights.mean(axis=0))
    assert np.mean(model.predict(A) == y) > 0.9
    assert model.training["examples"] == 400


@pytest.mark.parametrize("name", ["adaptive", "dogd", "coin", "newton", "doeg", "p_norm"])
@pytest.mark.parametrize("topology", [1, 3, ddol.ring(4)])
def test_a_prediction_is_what_the_learner_would_have_said_then(tmp_path, name, topology):
    """The next example of every agent is scored by its model as by the run that goes on."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((204, 5)) * [1, 10, 0.1, 1, 1]
    y = np.where(A @ [1.0, -0.1, 5.0, 0.5, 0.0] > 0, "yes", "no")
    algorithm = PRESETS[name](**({"l2": 0.0} if name == "dogd" else {})).on(topology)
    n = algorithm.n_agents
    seen = 200 // n * n
    trace = ddol.run(algorithm, (A[:seen], y[:seen] == "yes"))
    later = A[seen : seen + n] * 3.0  # beyond what was seen
    trace.model(Encoding(classes=("no", "yes"))).save(tmp_path / "m")
    model = load(tmp_path / "m")
    block = Block(
        Rows.from_dense(later, np.ones(n)), np.arange(n).reshape(1, n, 1), np.empty((n, 1))
    )
    ddol.advance(algorithm, trace.state, block)
    said = [model.decision_function(later[i : i + 1], agent=i)[0] for i in range(n)]
    # Where a score is a product of weights and features, sums may be taken in another order.
    linear = model.known.is_linear
    assert said == (
        pytest.approx(block.scores[:, 0], rel=1e-13) if linear else block.scores[:, 0].tolist()
    )
    if len(trace.state.theta) == 1:
        assert model.decision_function(later) == pytest.approx(said, rel=1e-13)
    assert set(model.predict(A)) == {"no", "yes"}


@pytest.mark.parametrize("name", ["adaptive", "dogd", "coin"])
def test_a_wide_model_is_written_without_the_columns_that_nobody_met(tmp_path, name):
    rng, path = np.random.default_rng(0), tmp_path / "m.ddol"
    rows = sp.random(300, 1 << 17, 2e-5, "csr", random_state=rng)
    algorithm = getattr(ddol, name)()
    trace = ddol.run(algorithm, (rows, rng.choice([-1, 1], 300)), ddol.ring(3))
    model = trace.model()
    model.save(path)
    again = load(path)
    assert np.array_equal(again.known.theta, model.known.theta)
    assert np.array_equal(again.decision_function(rows), model.decision_function(rows))
    arrays, header = read_arrays(path, "model")
    assert arrays["theta"].shape[-1] == len(arrays["places"]) < 1000
    arrays["places"][0] = arrays["places"][1]
    write_arrays(path, "model", arrays, header)
    with pytest.raises(DataError, match="rising numbers below 131072"):
        load(path)


def test_every_preset_is_made_again_from_its_file(tmp_path):
    for name, preset in PRESETS.items():
        recipe = json.loads(json.dumps(preset().recipe))
        assert made_again(recipe).update == preset().update, name


def _header_of(path):
    blob = path.read_bytes()
    (size,) = struct.unpack("<Q", blob[:8])
    return json.loads(blob[8 : 8 + size]), blob[8 + size :]


def _rewrite(path, header, data):
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def _truncated(path):
    path.write_bytes(path.read_bytes()[:-4])


def _pickled(path):
    path.write_bytes(pickle.dumps({"weights": [1, 2, 3]}))


def _absurd(path):
    header, data = _header_of(path)
    header["weights"]["shape"] = [1, 1 << 60]
    header["weights"]["data_offsets"] = [0, 1 << 63]
    _rewrite(path, header, data)


def _crafted(path, arrays=None, **changes):
    """A file whose checksum is right and whose contents are not."""
    found, header = read_arrays(path, "model")
    write_arrays(path, "model", found if arrays is None else arrays(found), {**header, **changes})


def _other_shape(path):
    _crafted(path, lambda arrays: arrays | {"weights": arrays["weights"].reshape(-1, 1)})


def _whole_numbers(path):
    _crafted(path, lambda arrays: arrays | {"weights": arrays["weights"].astype(np.int64)})


def _huge(path):
    plain, _ = Encoding(n_features=1 << 34, classes=(0.0, 1.0)).to_plain()
    _crafted(path, encoding=plain)


def _other_classes(path):
    plain, _ = Encoding(n_features=3, classes=(0.0, 1.0, 2.0), intercept=True).to_plain()
    _crafted(path, encoding=plain)


def _strange_column(path):
    plain, _ = Encoding(n_features=3, classes=(0.0, 1.0)).to_plain()
    _crafted(path, encoding=plain | {"bits": -1})


def _flipped(path):
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(bytes(data))


def _changed(path, **changes):
    header, data = _header_of(path)
    inner = json.loads(header["__metadata__"]["ddol"]) | changes
    header["__metadata__"]["ddol"] = json.dumps(inner)
    _rewrite(path, header, data)


def _newer(path):
    _changed(path, format=99, version="9.0")


def _checkpoint(path):
    _changed(path, kind="checkpoint")


def _no_encoding(path):
    _crafted(path, encoding={"columns": 3})


def _earlier(path):
    _changed(path, format=1, version="0.1")


def _no_header(path):
    header, data = _header_of(path)
    header.pop("__metadata__")
    _rewrite(path, header, data)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_truncated, "not a whole model file"),
        (_pickled, "not a whole model file"),
        (_absurd, "not a whole model file"),
        (_other_shape, "float64 .* for `weights`, expected float64"),
        (_whole_numbers, "int64 .* for `weights`, expected float64"),
        (_huge, "found 17179869184 for `n_features`, expected a number of columns"),
        (_other_classes, "weight vectors for 3 outputs"),
        (_strange_column, "found -1 for `bits`"),
        (_flipped, "changed since it was written"),
        (_newer, "format 99 of ddol 9.0"),
        (_checkpoint, "found a checkpoint, expected a model"),
        (_no_encoding, "header that is not that of a model"),
        (_earlier, "found format 1 of ddol 0.1, expected format 4 to 5; write it again"),
        (_no_header, "header that is not that of a model"),
        (lambda path: path.write_bytes(b""), "not a whole model file"),
    ],
)
def test_damaged_files_are_refused_in_one_line(model, tmp_path, damage, message):
    path = tmp_path / "m.ddol"
    model.save(path)
    damage(path)
    with pytest.raises(DataError, match=message) as caught:
        load(path)
    assert "\n" not in str(caught.value) and str(path) in str(caught.value)


def _more_agents(recipe, training, arrays):
    training["agents"] = 10**9


def _no_agents(recipe, training, arrays):
    training["agents"] = float("nan")


def _wide_copies(recipe, training, arrays):
    arrays["theta"] = arrays["theta"][..., :0]
    arrays["places"] = np.zeros(0, np.int64)


def _more_outputs(recipe, training, arrays):
    recipe["outputs"] = 5
    for name in ("theta", "scalars"):
        arrays[name] = np.repeat(arrays[name], 5, axis=1)


def _no_numbers(recipe, training, arrays):
    arrays["theta"] = np.full_like(arrays["theta"], np.nan)


@pytest.mark.parametrize(
    ("lie", "message"),
    [
        (_more_agents, "states of 4 agents, there are 1000000000"),
        (_no_agents, "agents: found nan, expected a whole number"),
        (_wide_copies, "states of 4 agents, which are too large"),
        (_more_outputs, "5 states for 1 weight vectors"),
        (_no_numbers, "found nan for `filled`"),
    ],
)
def test_states_that_are_not_the_agents_are_refused_before_an_address_is_taken(
    tmp_path, lie, message, monkeypatch
):
    """The number of an agent that has no state would be an address outside of all memory."""
    monkeypatch.setattr("ddol.model._MOST_BYTES", 1000)  # what is not in the file takes memory, too
    path = tmp_path / "m.ddol"
    trace = ddol.run(ddol.adaptive(), (X, [1, -1, 1]), ddol.ring(4))
    replace(
        trace.model(), known=Knowledge(trace.algorithm, trace.state.theta, trace.state.scalars)
    ).save(path)
    arrays, header = read_arrays(path, "model")
    lie(header["recipe"], header["training"], arrays)
    write_arrays(path, "model", arrays, header)
    with pytest.raises(DataError, match=message):
        load(path).predict(X, agent=3)


def test_a_header_in_a_header_without_end_is_refused(model, tmp_path):
    path = tmp_path / "m.ddol"
    model.save(path)
    arrays, header = read_arrays(path, "model")
    nested = json.loads(900 * "[" + 900 * "]")
    for lie in ({"training": nested}, {"outputs": float("inf")}):
        write_arrays(path, "model", arrays, header | lie)
        with pytest.raises(DataError, match="not that of a model"):
            load(path)


def test_agents_with_rates_of_their_own_leave_a_model_that_predicts():
    for make in (ddol.dogd, ddol.adaptive):
        trace = ddol.run(make(rate=[1.0, 2.0, 3.0, 4.0]), (X, [1, -1, 1]), ddol.path(4))
        assert trace.model().predict(X, agent=3).shape == (3,)


def test_a_trace_that_lies_about_its_state_predicts_nothing(tmp_path):
    trace = ddol.run(ddol.adaptive(), (X, [1, -1, 1]), ddol.ring(4))
    theta, scalars = trace.state.theta, trace.state.scalars
    for state in (
        replace(trace.state, theta=theta[:, :, :1]),
        replace(trace.state, scalars=scalars[:, :, :1]),
    ):
        with pytest.raises(ValueError, match="expected those of adaptive"):
            replace(trace, state=state).model().predict(X)


def test_missing_files_are_refused(tmp_path):
    with pytest.raises(DataError, match="no such file"):
        load(tmp_path / "none")
    with pytest.raises(DataError, match="a directory"):
        load(tmp_path)


def test_a_failed_write_leaves_the_old_model(model, tmp_path, monkeypatch):
    path = tmp_path / "m.ddol"
    model.save(path)
    before = path.read_bytes()

    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        replace(model, loss="hinge").save(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["m.ddol"]


def test_votes_that_rounding_parts_are_tied_among_several_classes_too():
    """Three experts of 0.1, 0.2 and 0.3 of the weight: 0.1 + 0.2 is not 0.3, and yet a tie."""
    algorithm = ddol.dwm_i(n_classes=3)
    start = algorithm.update.start(3)
    start.rows[1] = [0.1, 0.2, 0.3]
    known = Knowledge(algorithm, start.rows[None, None], start.scalars[None, None])
    model = Model(
        np.full((3, 3), 1 / 3), Encoding(n_features=3, classes=(0.0, 1.0, 2.0)), known=known
    )
    advice = np.array([[2.0, 2.0, 1.0], [1.0, 1.0, 2.0], [0.0, 1.0, 1.0]])
    shares = model.decision_function(advice)
    assert shares[0, 2] != shares[0, 1]
    assert model.predict(advice).tolist() == [1, 1, 1]
    assert model.predict(advice).tolist() == [said_by(algorithm, row) for row in shares.tolist()]
