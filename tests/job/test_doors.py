"""The same job through every interface gives the same weights."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.sparse import csr_matrix
from sklearn.datasets import load_iris, load_svmlight_file

import ddol
from ddol.cli.app import app

KINDS = ("iris", "table", "libsvm", "vw", "parquet")
N = 3


def iris():
    """Its first rows have all three classes: river learns a class from its first example on."""
    X, y = load_iris(return_X_y=True)
    order = np.random.default_rng(2).permutation(len(y))
    assert set(y[order[:3]]) == {0, 1, 2}
    return X[order], y[order]


def numbers(n=60):
    rng = np.random.default_rng(1)
    X = np.round(rng.standard_normal((n, 4)), 3)
    return X, np.where(X @ [1.0, -2.0, 0.5, 0.0] > 0, 1, -1)


@pytest.fixture
def file(tmp_path):
    def write(kind):
        path = tmp_path / f"data.{ {'table': 'csv', 'iris': 'csv'}.get(kind, kind) }"
        if kind == "iris":
            X, y = iris()
            lines = [
                ",".join([str(k), *map(repr, row)]) for k, row in zip(y, X.tolist(), strict=True)
            ]
            path.write_text("\n".join(["label,a,b,c,d", *lines]) + "\n")
        elif kind == "table":
            X, y = numbers()
            lines = [
                f"{'yes' if k > 0 else 'no'},{a},{'' if i % 7 == 3 else b},{'xyz'[i % 3]}"
                for i, (k, (a, b, *_)) in enumerate(zip(y, X.tolist(), strict=True))
            ]
            path.write_text("\n".join(["label,a,b,town", *lines]) + "\n")
        elif kind == "parquet":
            polars = pytest.importorskip("polars")
            X, y = numbers()
            columns = {"label": y} | dict(zip("abcd", X.T, strict=True))
            polars.DataFrame(columns).write_parquet(path)
        else:
            X, y = numbers()
            start = " | " if kind == "vw" else " "
            first = "abcd" if kind == "vw" else "1234"
            path.write_text(
                "".join(
                    f"{k}{start}{' '.join(f'{n}:{v}' for n, v in zip(first, row, strict=True))}\n"
                    for k, row in zip(y, X.tolist(), strict=True)
                )
            )
        return path

    return write


OPTIONS = {"algorithm": "dogd", "rate": 0.5, "agents": N, "topology": "ring", "batch": 2}


def options(kind):
    return ({"missing": "mean"} if kind == "table" else {}) | OPTIONS


@pytest.mark.parametrize("kind", KINDS)
def test_run_command_job_and_sweep(file, tmp_path, kind):
    path, told = file(kind), options(kind)
    words = [word for name, value in told.items() for word in (f"--{name}", str(value))]
    saved = tmp_path / "job.toml"
    done = CliRunner().invoke(
        app,
        [
            "train",
            str(path),
            *words,
            "-q",
            "--model",
            str(tmp_path / "m"),
            "--save-job",
            str(saved),
        ],
    )
    assert done.exit_code == 0, done.stderr
    expected = ddol.load(tmp_path / "m")

    called = {name: value for name, value in told.items() if name not in ("algorithm", "topology")}
    trace = ddol.run("dogd", path, told["topology"], **called)
    np.testing.assert_array_equal(trace.model().weights, expected.weights)
    assert trace.model().encoding == expected.encoding
    changes = {"batch": 2} | ({"missing": "mean"} if kind == "table" else {})
    own = ddol.run(ddol.dogd(rate=0.5), path, ddol.ring(N), **changes)
    np.testing.assert_array_equal(own.model().weights, expected.weights)

    again = ddol.train(ddol.Job.read(saved).but(model=None))
    np.testing.assert_array_equal(again.model().weights, expected.weights)

    seen = []
    axes = {name: [value] for name, value in told.items()}
    ddol.sweep(axes, str(path), workers=1, shuffle=False, observe=lambda t, _: seen.append(t) or {})
    np.testing.assert_array_equal(seen[0].model().weights, expected.weights)


def ddol_says(*words):
    done = CliRunner().invoke(app, [*map(str, words)])
    assert done.exit_code == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("kind", KINDS)
def test_commands_take_a_whole_job(file, tmp_path, kind):
    path, job, model = file(kind), tmp_path / "job.toml", tmp_path / "m"
    told = [word for pair in options(kind).items() for word in (f"--{pair[0]}", pair[1])]
    ddol_says("train", path, *told, "-q", "--model", model, "--save-job", job)
    for command in ("evaluate", "predict"):
        assert ddol_says(command, job) == ddol_says(command, model, path)
        few = ddol_says(command, job, path, "--limit", 7)
        assert few == ddol_says(command, model, path, "--limit", 7) != ddol_says(command, job)
    ddol.Job.read(job).but(batch=1).write(job)  # the frontier is of one example a round
    few = ("--limit", 40, "--against", "labels", "-q", "--json", "-")
    ran = ddol_says("frontier", job, *few)
    assert ran == ddol_says("frontier", path, *told[:-2], *few)


def test_bound_and_plan_take_what_they_need_from_the_data_of_a_job(tmp_path):
    X, y = numbers(60)
    np.save(tmp_path / "d.npy", np.column_stack([y, X > 0]))
    ddol.Job.of(data=(str(tmp_path / "d.npy"),), algorithm="drwm", agents=2).write(
        tmp_path / "job.toml"
    )
    found = json.loads(ddol_says("bound", tmp_path / "job.toml", "--mistakes", 9, "--json"))
    told = ("--algorithm", "drwm", "--agents", 2, "--experts", 4, "--rounds", 30, "--mistakes", 9)
    assert found["value"] == json.loads(ddol_says("bound", *told, "--json"))["value"]
    network = ("--workers", 2, "--latency", 10, "--bandwidth", 1, "--json")
    planned = json.loads(ddol_says("plan", tmp_path / "job.toml", *network))
    assert [planned[name] for name in ("dim", "nnz", "agents", "batch")] == [4, 4, 2, 1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("evaluate", "job.toml"), "found no model under [output]"),
        (("evaluate", "m"), "Missing argument 'DATA...'"),
        (("bound", "a.csv"), "expected JOB.toml"),
        (("plan", "--workers", "2"), "--dim is needed"),
        (("plan", "--dim", "3"), "--workers is needed"),
        (("frontier", "job.toml", "job.toml"), "found 2 jobs"),
    ],
)
def test_what_a_job_lacks_is_said(tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    ddol.Job.of(algorithm="dogd").write("job.toml")
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2 and message in done.stderr


def in_memory(kind, path):
    """What a file says, as users of estimators and of river have it."""
    if kind in ("iris", "table", "parquet"):
        pandas = pytest.importorskip("pandas")
        frame = (pandas.read_parquet if kind == "parquet" else pandas.read_csv)(path)
        answers = frame.pop("label")
        rows = [
            {name: value for name, value in row.items() if value == value}
            for row in frame.to_dict("records")
        ]
        return frame, answers, rows
    if kind == "libsvm":
        X, y = load_svmlight_file(str(path))
        return X, y, [dict(zip("1234", row, strict=True)) for row in X.toarray().tolist()]
    X, y = numbers()
    return csr_matrix(X), y, [dict(zip("abcd", row, strict=True)) for row in X.tolist()]


@pytest.mark.parametrize(
    ("kind", "more"),
    [(kind, {}) for kind in KINDS if kind != "table"]
    + [("table", {"missing": missing}) for missing in ("mean", "zero")],
)
def test_run_estimator_and_river(file, kind, more):
    path = file(kind)
    expected = ddol.run("dogd", path, "ring", agents=N, rate=0.5, batch=2, **more).model()
    weights = np.atleast_2d(expected.weights)
    X, y, rows = in_memory(kind, path)

    called = {"n_agents": N, "topology": "ring", "rate": 0.5, "batch": 2}
    model = ddol.DDOLClassifier("dogd", passes=1, shuffle=False, **called, **more).fit(X, y)
    np.testing.assert_array_equal(model.coef_, weights[:, 1:])
    np.testing.assert_array_equal(model.intercept_, weights[:, 0])
    streamed = ddol.DDOLClassifier("dogd", **called, **more)
    for lo in range(0, len(y), 30):
        streamed.partial_fit(X[lo : lo + 30], y[lo : lo + 30], classes=np.unique(y))
    np.testing.assert_array_equal(streamed.coef_, model.coef_)

    trace = ddol.run("dogd", (X, y), "ring", agents=N, rate=0.5, batch=2, intercept=True, **more)
    np.testing.assert_array_equal(np.atleast_2d(trace.model().weights), weights)

    river = pytest.importorskip("ddol.river")
    if more.get("missing") == "mean":
        return  # what is missing in a dictionary is 0
    one = river.Classifier("dogd", loss="hinge", **called)
    for row, label in zip(rows, y.tolist(), strict=True):
        one.learn_one(row, label)
    names = [f"{k}" for k in range(1, 5)] if kind == "libsvm" else [*rows[0]]
    if kind == "table":
        names = ["a", "b", "town=x", "town=y", "town=z"]
    classes = model.classes_.tolist()
    for label in classes if len(classes) > 2 else classes[1:]:
        found = [one.weights[label][name] for name in names]
        place = classes.index(label) if len(classes) > 2 else 0
        np.testing.assert_allclose(found, weights[place, 1:], rtol=1e-12, atol=1e-15)


def test_arrays_may_have_labels_of_text_and_gaps():
    X, y = numbers()
    X[3, 1] = np.nan
    labels = np.where(y > 0, "yes", "no")
    told = {"agents": N, "rate": 0.5, "intercept": True, "missing": "mean"}
    model = ddol.run("dogd", (X, labels), **told).model()
    assert model.labels.tolist() == ["no", "yes"]
    assert np.mean(model.predict(X) == labels) > 0.8
    estimator = ddol.DDOLClassifier("dogd", n_agents=N, rate=0.5, passes=1, shuffle=False)
    estimator.set_params(missing="mean").fit(X, labels)
    np.testing.assert_array_equal(estimator.coef_, np.atleast_2d(model.weights)[:, 1:])
    assert (estimator.predict(X) == model.predict(X)).all()
    weighted = ddol.run("dogd", [(X, labels, y * y)] * 2, rate=0.5, missing="mean")
    assert weighted.examples == 2 * len(y)
    for given, missing, message in (
        ((X, y), "error", "found nan in row 3, column 1, expected a finite number"),
        ((X, labels[:-1]), "mean", "found 59 values of `y` for 60 rows"),
        ((X, labels), "error", "row 3: column 'column 2': found a missing value"),
    ):
        with pytest.raises(ValueError, match=message):
            ddol.run("dogd", given, missing=missing)
    with pytest.raises(ValueError, match="'missing' parameter of DDOLClassifier"):
        ddol.DDOLClassifier(missing="median").fit(X, y)


def test_several_classes_are_found_on_every_interface():
    X, y = iris()
    assert ddol.run(ddol.adaptive(), (X, y), 4).weights.shape == (1, 3, 4)
    found = ddol.sweep({"algorithm": ["adaptive", "dogd"], "agents": [1, 4]}, (X, y), workers=1)
    assert all(np.isfinite(row["loss"]) for row in found.rows)
    assert found.rows[0]["error"] < 0.4
    with pytest.raises(ValueError, match="found 3 classes, expected two for the algorithm winnow"):
        ddol.run("winnow", (X, y))
    advice = np.repeat(y[:, None].astype(float), 2, axis=1)
    assert ddol.run("dwm-i", (advice, y)).error == 0.0


def test_a_sweep_shuffles_files(file):
    axes = {"algorithm": "dogd", "seed": [0, 1]}
    found = ddol.sweep(axes, str(file("libsvm")), workers=1)
    assert found.rows[0]["loss"] != found.rows[1]["loss"]


def test_run_keeps_checkpoints_and_resumes(tmp_path, file):
    path = file("libsvm")
    told = {"agents": 2, "checkpoint": str(tmp_path / "kept"), "every": 10}
    whole = ddol.run("dogd", path, **told)
    again = ddol.run("dogd", path, **told, resume=True)
    np.testing.assert_array_equal(again.weights, whole.weights)
    with pytest.raises(ValueError, match="this checkpoint is of another run: --C was not given"):
        ddol.run("dogd", path, **told, C=2.0, resume=True)


def test_old_names_of_options_warn():
    X, y = numbers()
    new = ddol.run("dogd", (X, y), labels=[-1, 1], features=4, live=False, record=True)
    with pytest.warns(DeprecationWarning, match="`classes` is `labels` now"):
        old = ddol.run("dogd", (X, y), classes=[-1, 1], n_features=4)
    np.testing.assert_array_equal(old.weights, new.weights)
    again = ddol.run("dogd", (X, y), features=4, replay=new.events)
    np.testing.assert_array_equal(again.weights, new.weights)


def test_what_python_cannot_do_is_said_in_its_words():
    X, y = numbers()
    with pytest.raises(ValueError, match="`resume` needs `checkpoint`"):
        ddol.run("dogd", (X, y), resume=True)
    with pytest.raises(ValueError, match="radius does not go with the algorithm coin"):
        ddol.run("coin", (X, y), radius=1.0)
    with pytest.raises(
        ValueError, match="colour does not go with the algorithm coin, which has loss"
    ):
        ddol.run("coin", (X, y), colour="red")


def test_held_out_examples_are_measured_in_the_trace_and_an_odd_number_of_agents_is_refused():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 3))
    trace = ddol.run("adaptive", (X, np.sign(X[:, 0])), 2, holdout=0.25)
    assert (trace.examples, trace.held_out.examples) == (150, 50)
    assert trace.held_out.error < 0.2
    with pytest.raises(ValueError, match="`topology` is 2 agents, but `agents` is 3"):
        ddol.run("adaptive", (X, np.sign(X[:, 0])), 2, agents=3)
