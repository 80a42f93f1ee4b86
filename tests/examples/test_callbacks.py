"""Recipes for trackers and tuners run: the real package where it is quick, else a stand-in."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

import ddol

HERE = Path(__file__).parents[2] / "examples" / "callbacks"


@pytest.fixture
def recipe(tmp_path, monkeypatch):
    """Runs a recipe with a module in the place of the one that it imports."""
    monkeypatch.chdir(tmp_path)

    def run(name, module, **members):
        stand_in = ModuleType(module)
        vars(stand_in).update(members)
        monkeypatch.setitem(sys.modules, module, stand_in)
        return runpy.run_path(str(HERE / name))

    return run


def rising(steps):
    assert steps == sorted(steps) and steps[-1] == 20_000 and len(steps) > 5


def test_mlflow(recipe, tmp_path):
    steps, kept = [], {}

    @contextmanager
    def start_run():
        yield

    def log_metrics(metrics, step):
        assert {"error", "mean_loss", "consensus"} == set(metrics)
        assert all(isinstance(value, float) for value in metrics.values())
        steps.append(step)

    def log_artifact(path):
        kept["model"] = ddol.load(path)

    recipe(
        "to_mlflow.py", "mlflow", start_run=start_run, log_metrics=log_metrics, log_params=kept.update,
        log_metric=lambda name, value: kept.update({name: value}), log_artifact=log_artifact,
    )  # fmt: skip
    rising(steps)
    assert 0.0 < kept["final error"] < 0.2 and kept["agents"] == 4
    assert kept["model"].has_chances


def test_tensorboard(recipe):
    seen: dict[str, list] = {}

    class SummaryWriter:
        def __init__(self, folder):
            self.folder = folder

        def add_scalar(self, name, value, step):
            assert 0.0 <= value < 10.0
            seen.setdefault(name, []).append(step)

        def close(self):
            seen["closed"] = [1]

    recipe("to_tensorboard.py", "tensorboardX", SummaryWriter=SummaryWriter)
    rising(seen["error"])
    assert {"mean loss", "error/agent 3", "closed"} <= set(seen)


def test_wandb(recipe):
    steps = []

    def log(figures, step):
        assert {"error", "mean_loss", "bytes_sent"} == set(figures)
        steps.append(step)

    run = SimpleNamespace(log=log, summary={})

    @contextmanager
    def init(project, config):
        assert config["agents"] == 4
        yield run

    recipe("to_wandb.py", "wandb", init=init)
    rising(steps)
    assert 0.0 < run.summary["error"] < 0.2


def test_optuna(monkeypatch, tmp_path):
    optuna = pytest.importorskip("optuna")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    monkeypatch.chdir(tmp_path)
    study = runpy.run_path(str(HERE / "with_optuna.py"))["study"]
    ended = [trial.state.name for trial in study.trials]
    assert len(ended) == 20 and set(ended) <= {"COMPLETE", "PRUNED"}
    assert 0.0 < study.best_value < 0.1 and set(study.best_params) == {"rate", "period"}
    pruned = [t for t in study.trials if t.state.name == "PRUNED"]
    assert all(max(t.intermediate_values) < 20_000 for t in pruned)


def test_opentelemetry(monkeypatch, tmp_path, capsys):
    pytest.importorskip("opentelemetry.sdk")
    monkeypatch.chdir(tmp_path)
    found = runpy.run_path(str(HERE / "to_opentelemetry.py"))
    said, read = capsys.readouterr().out, json.JSONDecoder()
    metrics, end = read.raw_decode(said)
    span, _ = read.raw_decode(said[end:].lstrip())
    measured = metrics["resource_metrics"][0]["scope_metrics"][0]["metrics"]
    last = {each["name"]: each["data"]["data_points"][0]["value"] for each in measured}
    assert last["ddol.examples"] == 20_000
    assert last["ddol.error"] == found["trace"].error
    assert span["name"] == "ddol.run" and span["attributes"]["ddol.agents"] == 4


def test_ray_tune(recipe, monkeypatch):
    """Tune itself takes half a minute: `test_ray_tune_itself`, by ``make hostile``."""
    reported = []

    class Tuner:
        def __init__(self, trainable, param_space, tune_config):
            self.trainable, self.names = trainable, set(param_space)

        def fit(self):
            self.trainable({"rate": 0.1, "period": 8})
            return SimpleNamespace(get_best_result=lambda *_: SimpleNamespace(config=self.names))

    tune = SimpleNamespace(
        Tuner=Tuner, report=reported.append, loguniform=max, choice=max, TuneConfig=dict
    )
    schedulers = ModuleType("ray.tune.schedulers")
    schedulers.ASHAScheduler = lambda *given, **more: (given, more)
    monkeypatch.setitem(sys.modules, "ray.tune.schedulers", schedulers)
    found = recipe("with_ray_tune.py", "ray", tune=tune)
    rising([each["examples"] for each in reported])
    assert reported[-1]["error"] < 0.2
    assert found["scheduler"] == (
        ("examples", "error", "min"), {"grace_period": 1_000, "max_t": 20_000},
    )  # fmt: skip


@pytest.mark.hostile
def test_ray_tune_itself(tmp_path):
    pytest.importorskip("ray.tune")
    done = subprocess.run(
        [sys.executable, str(HERE / "with_ray_tune.py")],
        cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "'rate': " in done.stdout.splitlines()[-1]
