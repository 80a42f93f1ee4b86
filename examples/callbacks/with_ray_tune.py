"""Ray Tune tries settings in parallel, and stops the poor ones early: pip install 'ray[tune]'."""

import numpy as np
from ray.tune.schedulers import ASHAScheduler

import ddol
from ray import tune


def trainable(config):
    rng = np.random.default_rng(0)  # or ddol.train on files that every node can read
    X = rng.standard_normal((20_000, 8))
    y = X @ rng.standard_normal(8) > 0
    algorithm = ddol.dogd("logistic", rate=config["rate"], l2=0.0).on(4, period=config["period"])

    def report(progress):
        tune.report({"error": progress.error, "examples": progress.examples})

    ddol.run(algorithm, (X, y), on_progress=report)


scheduler = ASHAScheduler("examples", "error", "min", grace_period=1_000, max_t=20_000)
tuner = tune.Tuner(
    trainable,
    param_space={"rate": tune.loguniform(1e-3, 10.0), "period": tune.choice([1, 8, 64])},
    tune_config=tune.TuneConfig(num_samples=4, scheduler=scheduler),
)
results = tuner.fit()
print(results.get_best_result("error", "min").config)
