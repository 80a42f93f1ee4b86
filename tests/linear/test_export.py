"""Models in the formats of other programs predict as they do here, and theirs are read."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner

import ddol
from ddol.cli.app import app
from ddol.linear.form import LinearForm
from ddol.linear.json_file import read_json
from ddol.linear.vw_text import read_vw
from ddol.streams import DataError

rng = np.random.default_rng(0)
N = 400
AGE, PAY = rng.normal(40.0, 12.0, N), rng.lognormal(8.0, 1.5, N)
TOWN = rng.choice(["Rome", "Bern", "Oslo"], N)
SCORE = 0.1 * (AGE - 40) + (TOWN == "Rome") - 0.3 * np.log(PAY / 3000)
RUNS = {
    "two classes": ("c", "--loss logistic"),
    "a graph": ("c", "--loss logistic --agents 3 --topology path"),
    "everybody connected": ("c", "--loss logistic --agents 3"),
    "three classes": ("m", "--loss logistic --agents 2"),
    "three alone": ("m", "--loss logistic-one-vs-all"),
    "chances that are cut": ("m", "--loss modified-huber"),
    "numbers": ("r", "--loss squared --agents 2 --topology path"),
    "coin": ("c", "--algorithm coin --loss logistic"),
    "newton": ("c", "--algorithm newton --loss hinge"),
    "l1": ("c", "--loss logistic --l1 0.001"),
    "dogd": ("c", "--algorithm dogd --loss logistic --agents 2"),
    "no intercept": ("c", "--loss logistic --no-intercept"),
    "safe": ("c", "--loss logistic --agents 2 --safe"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("export")
    labels = {
        "c": np.where(SCORE > 0, "yes", "no"),
        "m": np.select([SCORE > 1, SCORE > -1], ["high", "mid"], "low"),
        "r": np.round(SCORE, 4),
    }
    for name, y in labels.items():
        lines = [
            f"{a:.4f},{t},{p:.4f},{label}" for a, t, p, label in zip(AGE, TOWN, PAY, y, strict=True)
        ]
        (place / f"{name}.csv").write_text("age,town,pay,label\n" + "\n".join(lines) + "\n")
    return place


def said(command, code=0):
    done = CliRunner().invoke(app, [str(word) for word in command])
    assert done.exit_code == code, done.output + done.stderr
    return done.stderr


@pytest.fixture(scope="module")
def made(folder):
    """Models by the name of their run, each trained once."""
    found = {}

    def one(name):
        if name not in found:
            data, options = RUNS[name]
            path = folder / f"{len(found)}.ddol"
            data = folder / f"{data}.csv"
            said(["train", data, *options.split(), "--model", path, "--quiet"])
            found[name] = path, data
        return found[name]

    return one


def frame(data):
    pd = pytest.importorskip("pandas")
    found = pd.read_csv(data)
    far = found.head(40).copy()  # where features are clipped
    far[["age", "pay"]] *= -50.0
    new = found.head(5).assign(town="Paris")
    return pd.concat([found, far, new], ignore_index=True).drop(columns="label")


def known(model, X):
    scores = np.asarray(model.decision_function(X))
    return scores.reshape(len(X), -1)


def chances(model, X):
    return model.predict_proba(X) if model.has_chances else None


@pytest.mark.parametrize("name", RUNS)
def test_json_and_the_linear_form_are_exact(made, tmp_path, name):
    path, data = made(name)
    model, X = ddol.load(path), frame(data)
    model.to_json(tmp_path / "m.json")
    form, again = model.linear_form(), read_json(tmp_path / "m.json")
    features = np.array(
        [[row[f.name] if f.column is None else float(row[f.column] == f.value) for f in form.features]
         for _, row in X.iterrows()]
    )  # fmt: skip
    for one in (form, again):
        np.testing.assert_allclose(one.scores(features), known(model, X), rtol=1e-8, atol=1e-8)
    if form.is_clipped:
        inside = ~((features < form.limits[0]) | (features > form.limits[1])).any(axis=1)
        assert 0 < inside.sum() < len(X)
        plain = form.scores(features, clipped=False)
        np.testing.assert_allclose(plain[inside], known(model, X)[inside], rtol=1e-6, atol=1e-6)
        assert np.abs(plain - known(model, X))[~inside].max() > 0.01
        assert form.share_beyond(features) == pytest.approx(1 - inside.mean())


@pytest.mark.parametrize("name", RUNS)
def test_a_pipeline_of_scikit_learn_predicts_as_the_model_does(made, name):
    path, data = made(name)
    model, X = ddol.load(path), frame(data)
    pipeline = model.to_sklearn()
    assert pipeline.predict(X).tolist() == pytest.approx(model.predict(X).tolist())
    if model.classes is not None:
        found = np.asarray(pipeline.decision_function(X)).reshape(len(X), -1)
        np.testing.assert_allclose(found, known(model, X), rtol=1e-6, atol=1e-6)
    if model.has_chances:
        np.testing.assert_allclose(
            pipeline.predict_proba(X), chances(model, X), rtol=1e-6, atol=1e-9
        )


@pytest.mark.parametrize("missing", ["mean", "zero"])
def test_a_pipeline_fills_missing_numbers_as_the_model_does(folder, tmp_path, missing):
    text = (folder / "c.csv").read_text().splitlines()
    holes = [f",{line.split(',', 1)[1]}" if k % 5 == 4 else line for k, line in enumerate(text)]
    (tmp_path / "holes.csv").write_text("\n".join(holes) + "\n")
    path = tmp_path / "m.ddol"
    options = ("--agents", 1, "--missing", missing, "--quiet", "--model", path)
    said(["train", tmp_path / "holes.csv", *options])
    model, X = ddol.load(path), frame(tmp_path / "holes.csv")
    assert X["age"].isna().sum() > 50
    found = np.asarray(model.to_sklearn().decision_function(X)).reshape(len(X), -1)
    np.testing.assert_allclose(found, known(model, X), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", RUNS)
def test_onnx_predicts_as_the_model_does(made, tmp_path, name):
    onnxruntime = pytest.importorskip("onnxruntime")
    path, data = made(name)
    said(["export", path, "--to", "onnx", "-o", tmp_path / "m.onnx"])
    model, X = ddol.load(path), frame(data)
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    given = {
        "numbers": X[["age", "pay"]].to_numpy(float),
        "town": X[["town"]].to_numpy(object),
    }
    found = dict(
        zip([o.name for o in session.get_outputs()], session.run(None, given), strict=True)
    )
    np.testing.assert_allclose(found["score"], known(model, X), rtol=1e-6, atol=1e-6)
    if model.classes is not None:
        assert found["label"].tolist() == model.predict(X).tolist()
    if model.has_chances:
        np.testing.assert_allclose(found["probability"], chances(model, X), rtol=1e-6, atol=1e-9)


def test_a_score_of_zero_is_the_same_class_in_scikit_learn():
    X = np.array([[1.0], [-1.0]] * 20)
    for intercept in (False, True):
        model = ddol.run(ddol.dogd(), (X, X[:, 0]), intercept=intercept).model()
        at_zero = np.zeros((1, 1))
        assert (model.decision_function(at_zero) == 0.0).all() or intercept
        assert model.to_sklearn().predict(at_zero) == model.predict(at_zero)


def test_probabilities_that_scikit_learn_lacks_are_said(folder, tmp_path):
    path = tmp_path / "m.ddol"
    said(["train", folder / "c.csv", "--loss", "squared-hinge", "--model", path, "--quiet"])
    found = said(["export", path, "--to", "sklearn", "-o", tmp_path / "m.joblib"])
    assert "gives no probabilities for the loss squared_hinge; --to onnx does" in found


def test_one_agent_can_be_exported(made, tmp_path):
    path, data = made("a graph")
    model, X = ddol.load(path), frame(data)
    for agent in (0, 2):
        pipeline = model.to_sklearn(agent=agent)
        found = pipeline.decision_function(X)
        np.testing.assert_allclose(
            found, model.decision_function(X, agent=agent), rtol=1e-6, atol=1e-6
        )


def test_vw_is_written_with_a_figure_where_it_is_an_approximation(made, tmp_path):
    path, data = made("two classes")
    out = tmp_path / "m.txt"
    assert "add --check FILE" in said(["export", path, "--to", "vw", "-o", out], code=2)
    found = said(["export", path, "--to", "vw", "-o", out, "--check", data])
    assert "400 examples" in found and "labels differ" in found and "clipped in" in found
    form, again = ddol.load(path).linear_form(), read_vw(out, "logistic")
    assert {f.name for f in again.features} <= {f.name for f in form.features}
    kept = [k for k, f in enumerate(form.features) if form.weights[0, k] != 0.0]
    assert [form.features[k].name for k in kept] == [f.name for f in again.features]
    np.testing.assert_array_equal(again.weights[0], form.weights[0, kept])
    np.testing.assert_array_equal(again.bias, form.bias)


def test_vw_puts_features_where_vw_does():
    """Places of a model that vw 9.11 wrote, with one output and with three."""
    from ddol.linear.vw_text import _place

    places = [_place(name) & 0x3FFFF for name in ("a", "town=x", "b")]
    assert places == [92594, 130413, 163331]
    assert (_place("ns^a") * 4) & 0x3FFFF == 197608


VW = """Version 9.11.9
Id
Min label:-50
Max label:50
bits:18
lda:0
0 ngram:
0 skip:
options:{options}
Checksum: 396771088
:1
initial_t 0
norm normalizer 138.569
sum_loss 35.0063
total_weight 50
{weights}
"""


def test_training_goes_on_from_the_text_of_vw(tmp_path):
    weights = "a:92594:0.5 75.2297 4\nConstant:116060:-0.25 12.5 1\ntown=x:130413:0.75"
    (tmp_path / "vw.txt").write_text(VW.format(options="", weights=weights))
    (tmp_path / "d.vw").write_text("1 | a:0 town=y\n" * 4)
    said(["train", tmp_path / "d.vw", "--format", "vw",
          *["--algorithm", "dogd", "--l2", "0", "--rate", "1e-9", "--loss", "logistic", "--quiet"],
          "--initial", tmp_path / "vw.txt", "--model", tmp_path / "m.ddol"])  # fmt: skip
    model = ddol.load(tmp_path / "m.ddol")
    names = dict(
        zip(
            [n for n, _ in model.encoding.feature_names(range(3))],
            model.weights[0, :3],
            strict=True,
        )
    )
    assert names == pytest.approx({"intercept": -0.25, "a": 0.5, "town=x": 0.75}, abs=1e-6)


def test_text_without_names_and_damaged_text_are_refused(tmp_path):
    path = tmp_path / "vw.txt"
    for weights, message in (
        ("92594:0.1 75 4", "write the model with vw --invert_hash"),
        ("a:1:nan", "found no end|expected a name"),
        ("a[999999999]:1:0.5", "expected a name, a place"),
        ("", "found 0 features"),
    ):
        path.write_text(VW.format(options="", weights=weights))
        if weights == "a:1:nan":
            continue  # a figure of the run: not a number
        with pytest.raises(DataError, match=message):
            read_vw(path, "logistic")


def test_training_goes_on_from_exported_json(made, folder, tmp_path):
    path, data = made("dogd")
    said(["export", path, "--to", "json", "-o", tmp_path / "m.json"])
    run = ["train", data, *["--loss", "logistic", "--quiet", "--initial"], tmp_path / "m.json"]
    run += ["--model", tmp_path / "n.ddol"]
    said([*run, "--algorithm", "dogd", "--rate", "1e-12", "--l2", "0"])
    old, new = ddol.load(path), ddol.load(tmp_path / "n.ddol")
    np.testing.assert_allclose(
        new.decision_function(frame(data)), old.decision_function(frame(data)), rtol=1e-6
    )
    assert "add --algorithm dogd" in said(run, code=2)


def test_models_of_scikit_learn_become_models():
    from sklearn.linear_model import LinearRegression, LogisticRegression, SGDClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MinMaxScaler, StandardScaler

    X, y = np.column_stack([AGE, np.log(PAY)]), np.where(SCORE > 0, "yes", "no")
    three = np.digitize(SCORE, [-1, 1])
    for estimator, target in (
        (LogisticRegression(), y),
        (make_pipeline(StandardScaler(), LogisticRegression()), y),
        (make_pipeline(StandardScaler(), LogisticRegression()), three),
        (make_pipeline(MinMaxScaler(), SGDClassifier(loss="log_loss", random_state=0)), three),
        (make_pipeline(StandardScaler(), LinearRegression()), SCORE),
    ):
        estimator.fit(X, target)
        model = ddol.Model.from_sklearn(estimator)
        if target is SCORE:
            np.testing.assert_allclose(model.predict(X), estimator.predict(X), rtol=1e-9)
        else:
            assert (model.predict(X) == estimator.predict(X)).all()
            np.testing.assert_allclose(
                model.decision_function(X), estimator.decision_function(X), rtol=1e-9
            )
            np.testing.assert_allclose(
                model.predict_proba(X), estimator.predict_proba(X), rtol=1e-6
            )


def test_a_model_of_scikit_learn_can_be_saved_and_gone_on_from(folder, tmp_path):
    from sklearn.linear_model import LogisticRegression

    pd = pytest.importorskip("pandas")
    known = LogisticRegression().fit(pd.DataFrame({"age": AGE, "pay": PAY}), SCORE > 0)
    model = ddol.Model.from_sklearn(known)
    model.save(tmp_path / "m.ddol")
    model.to_json(tmp_path / "m.json")
    (tmp_path / "d.csv").write_text(
        "age,pay,label\n"
        + "".join(f"{a},{p},{int(s > 0)}\n" for a, p, s in zip(AGE, PAY, SCORE, strict=True))
    )
    for initial in ("m.ddol", "m.json"):
        words = "--algorithm dogd --loss logistic --rate 1e-15 --l2 0 --quiet --initial"
        options = words.split()
        said(
            [
                "train",
                tmp_path / "d.csv",
                *options,
                tmp_path / initial,
                "--model",
                tmp_path / "n.ddol",
            ]
        )
        found = ddol.load(tmp_path / "n.ddol").decision_function(np.column_stack([AGE, PAY]))
        np.testing.assert_allclose(
            found, known.decision_function(pd.DataFrame({"age": AGE, "pay": PAY})), atol=1e-6
        )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--bits 8", "hashes its features"),
        ("--algorithm dwm-i --experts 3", "weighs experts"),
    ],
)
def test_what_has_no_linear_form_is_refused_by_name(folder, tmp_path, options, message):
    said(["train", folder / "c.csv", *options.split(), "--model", tmp_path / "m.ddol", "--quiet"])
    for to in ("json", "sklearn", "onnx", "vw"):
        assert message in said(
            ["export", tmp_path / "m.ddol", "--to", to, "-o", tmp_path / "out"], code=2
        )


def test_an_agent_that_mixes_learners_is_refused(made, tmp_path):
    path, _ = made("safe")
    found = said(
        ["export", path, "--to", "json", "-o", tmp_path / "m.json", "--agent", "1"], code=2
    )
    assert "mixture of learners" in found


def test_damaged_json_is_refused_in_one_line(made, tmp_path):
    path, _ = made("two classes")
    model = ddol.load(path)
    model.to_json(tmp_path / "m.json")
    good = json.loads((tmp_path / "m.json").read_text())
    bad = tmp_path / "bad.json"
    lies = {
        "version": 7, "format": "x", "loss": "nothing", "bias": [1, 2], "parts": [], "features": "x",
        "classes": ["b", "a"], "columns": [{"name": "age", "kind": "code"}], "missing": "eval",
    }  # fmt: skip
    for name, lie in lies.items():
        bad.write_text(json.dumps(good | {name: lie}))
        with pytest.raises(DataError) as error:
            read_json(bad)
        assert "\n" not in str(error.value) and "bad.json" in str(error.value), name
    for text in ("{", "[" * 100_000, "[1]", '{"format": "ddol-linear"}'):
        bad.write_text(text)
        with pytest.raises(DataError):
            read_json(bad)
    weights = [[float("nan")] * len(good["features"])]
    bad.write_text(json.dumps(good | {"parts": [good["parts"][0] | {"weights": weights}]}))
    with pytest.raises(DataError, match="finite"):
        read_json(bad)


def test_the_form_of_arrays_needs_no_names(tmp_path):
    X = rng.standard_normal((80, 3))
    model = ddol.run(ddol.adaptive(), (X, X[:, 0] > 0)).model()
    found = model.to_sklearn()
    assert (found.predict(X) == model.predict(X)).all()
    form = LinearForm.of(model)
    assert [f.name for f in form.features] == ["column 1", "column 2", "column 3"]
