"""Recipes for trackers and tuners run, with stand-ins that check how they are called."""

from __future__ import annotations

import runpy
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


def test_optuna(recipe, capsys):
    class TrialPruned(Exception):  # noqa: N818, what Optuna calls it
        pass

    class Trial:
        def __init__(self, number):
            self.number, self.reported = number, []

        def suggest_float(self, name, low, high, log):
            return (0.1, 1e-3, 1.0)[self.number]

        def suggest_categorical(self, name, values):
            return values[0]

        def report(self, value, step):
            self.reported.append(step)

        def should_prune(self):
            return self.number == 1 and len(self.reported) > 3

    class Study:
        best_params = "the best"

        def optimize(self, objective, n_trials):
            self.found = []
            for trial in map(Trial, range(3)):
                try:
                    self.found.append(objective(trial))
                except TrialPruned:
                    self.found.append(None)
                    assert trial.reported[-1] < 20_000  # it was ended early

    found = recipe(
        "with_optuna.py", "optuna", TrialPruned=TrialPruned, create_study=lambda direction: Study()
    )
    one, pruned, other = found["study"].found
    assert pruned is None and 0.0 < one < 0.5 and 0.0 < other < 0.5
    assert "the best" in capsys.readouterr().out
