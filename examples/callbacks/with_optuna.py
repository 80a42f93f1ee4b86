"""Optuna looks for settings, and ends runs that do not promise much: pip install optuna."""

import numpy as np
import optuna

import ddol

rng = np.random.default_rng(0)
X = rng.standard_normal((20_000, 8))
y = X @ rng.standard_normal(8) > 0


def objective(trial):
    rate = trial.suggest_float("rate", 1e-3, 10.0, log=True)
    period = trial.suggest_categorical("period", [1, 8, 64])

    def prune(progress):
        trial.report(progress.error, progress.examples)
        if trial.should_prune():
            raise optuna.TrialPruned  # what a callback raises ends the run

    algorithm = ddol.dogd("logistic", rate=rate, l2=0.0).on(4, period=period)
    return ddol.run(algorithm, (X, y), on_progress=prune).error


study = optuna.create_study(direction="minimize")
study.optimize(objective, n_trials=20)
print(study.best_params)
