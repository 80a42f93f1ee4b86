"""Figures of a run for TensorBoard: pip install tensorboardX (or torch, whose SummaryWriter is the same)."""

import numpy as np
from tensorboardX import SummaryWriter

import ddol

rng = np.random.default_rng(0)
X = rng.standard_normal((20_000, 8))
y = X @ rng.standard_normal(8) > 0
writer = SummaryWriter("runs/adaptive")


def log(progress):
    writer.add_scalar("error", progress.error, progress.examples)
    writer.add_scalar("mean loss", progress.mean_loss, progress.examples)
    for agent, mistakes in enumerate(progress.mistakes / np.maximum(progress.agent_examples, 1)):
        writer.add_scalar(f"error/agent {agent}", mistakes, progress.examples)


trace = ddol.run(ddol.adaptive("logistic"), (X, y), 4, on_progress=log)
writer.close()
