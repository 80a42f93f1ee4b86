"""The same job through every interface gives the same weights."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner
from sklearn.datasets import load_iris

import ddol
from ddol.cli.app import app

KINDS = ("iris", "table", "libsvm", "vw", "parquet")
N = 3


def iris():
    X, y = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
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


@pytest.mark.parametrize("data", [iris, numbers])
def test_run_estimator_and_river(data):
    X, y = data()
    called = {"n_agents": N, "topology": "ring", "rate": 0.5, "batch": 2}
    model = ddol.DDOLClassifier("dogd", passes=1, shuffle=False, **called).fit(X, y)
    trace = ddol.run("dogd", (X, y), "ring", agents=N, rate=0.5, batch=2, intercept=True)
    weights = np.atleast_2d(trace.model().weights)
    np.testing.assert_array_equal(weights[:, 1:], model.coef_)
    np.testing.assert_array_equal(weights[:, 0], model.intercept_)
    streamed = ddol.DDOLClassifier("dogd", **called)
    for lo in range(0, len(y), 30):
        streamed.partial_fit(X[lo : lo + 30], y[lo : lo + 30], classes=np.unique(y))
    np.testing.assert_array_equal(streamed.coef_, model.coef_)

    river = pytest.importorskip("ddol.river")
    if len(np.unique(y)) > 2:
        return
    # river learns both classes one against the rest: the second is the classifier's own.
    one = river.Classifier("dogd", loss="hinge", **called)
    for row, label in zip(X.tolist(), y.tolist(), strict=True):
        one.learn_one({f"{k}": value for k, value in enumerate(row)}, label)
    own = one.weights[1]
    np.testing.assert_allclose([own[f"{k}"] for k in range(X.shape[1])], model.coef_[0], rtol=1e-12)


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
