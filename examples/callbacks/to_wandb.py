"""Figures of a run for Weights & Biases: pip install wandb."""

import numpy as np
import wandb

import ddol

rng = np.random.default_rng(0)
X = rng.standard_normal((20_000, 8))
y = X @ rng.standard_normal(8) > 0

with wandb.init(project="ddol", config={"algorithm": "adaptive", "agents": 4}) as run:
    trace = ddol.run(
        ddol.adaptive("logistic"),
        (X, y),
        4,
        on_progress=lambda p: run.log(
            {"error": p.error, "mean_loss": p.mean_loss, "bytes_sent": p.bytes_sent},
            step=p.examples,
        ),
    )
    run.summary["error"] = trace.error
