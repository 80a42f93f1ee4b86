"""Figures of a run as metrics of MLflow: pip install mlflow."""

import mlflow
import numpy as np

import ddol

rng = np.random.default_rng(0)
X = rng.standard_normal((20_000, 8))
y = X @ rng.standard_normal(8) > 0


def log(progress):
    mlflow.log_metrics(
        {"error": progress.error, "mean_loss": progress.mean_loss, "consensus": progress.consensus},
        step=progress.examples,
    )


with mlflow.start_run():
    mlflow.log_params({"algorithm": "adaptive", "agents": 4})
    trace = ddol.run(ddol.adaptive("logistic"), (X, y), 4, on_progress=log)
    mlflow.log_metric("final error", trace.error)
    trace.model().save("model.ddol")
    mlflow.log_artifact("model.ddol")
