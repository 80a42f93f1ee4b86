"""Random configurations on several engines: the same mistakes, whatever plays them."""

from __future__ import annotations

from typing import Any

import numpy as np

import ddol
from ddol import presets
from ddol.algorithm import Algorithm

ALGORITHMS: tuple[Any, ...] = (
    lambda rng: ddol.dogd(l2=float(rng.choice([0.0, 0.1])), average=_average(rng)),
    lambda rng: ddol.dogd(l2=0.0, radius=1.0, loss=str(rng.choice(["hinge", "logistic"]))),
    lambda rng: ddol.doeg(radius=2.0),
    lambda rng: presets.adaptive(),
    lambda rng: presets.coin(),
    lambda rng: presets.newton(),
)


def _average(rng: np.random.Generator) -> str:
    return str(rng.choice(["dual", "primal"]))


def configuration(number: int) -> tuple[Algorithm, np.ndarray, np.ndarray]:
    """An algorithm on a network, and examples: some are made of few values, where ties are frequent."""
    rng = np.random.default_rng(number)
    n = int(rng.integers(2, 9))
    graph = (ddol.complete, ddol.ring, ddol.star, ddol.path)[int(rng.integers(4))](n)
    algorithm = ALGORITHMS[int(rng.integers(len(ALGORITHMS)))](rng)
    places: dict[str, int] = [{}, {"batch": 2}, {"period": 3}, {"delay": 1}][int(rng.integers(4))]
    shape = int(rng.integers(30, 300)), int(rng.integers(1, 9))
    X = rng.standard_normal(shape)
    if rng.random() < 0.5:
        X = rng.integers(-1, 2, shape) * float(rng.choice([1.0, 0.5, 0.1]))
    y = np.where(
        X @ rng.standard_normal(shape[1]) + 0.3 * rng.standard_normal(shape[0]) > 0, 1.0, -1.0
    )
    return algorithm.on(graph, **places), X, y


def engines_agree(first: int, tries: int) -> dict[str, str]:
    """Local, and two or three threads."""
    wrong = {}
    for number in range(first, first + tries):
        algorithm, X, y = configuration(number)
        alone = ddol.run(algorithm, (X, y))
        for workers in (2, 3):
            if workers > algorithm.n_agents:
                continue
            several = ddol.run(algorithm, (X, y), engine="threads", workers=workers)
            if not np.array_equal(several.mistakes, alone.mistakes):
                name = f"{number} {algorithm.name} {algorithm.mixing.name} {workers}"
                wrong[name] = f"{several.mistakes.tolist()} and {alone.mistakes.tolist()}"
    return wrong
