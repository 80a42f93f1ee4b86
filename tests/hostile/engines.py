"""Random configurations: the same, whatever engine plays them, and in whatever unit features are."""

from __future__ import annotations

from typing import Any

import numpy as np

import ddol
from ddol import presets
from ddol.algorithm import Algorithm
from ddol.engines.learner import Learner
from ddol.streams.rows import Block, Rows

ALGORITHMS: tuple[Any, ...] = (
    lambda rng: ddol.dogd(l2=float(rng.choice([0.0, 0.1])), average=_average(rng)),
    lambda rng: ddol.dogd(l2=0.0, radius=1.0, loss=str(rng.choice(["hinge", "logistic"]))),
    lambda rng: ddol.doeg(radius=2.0),
    lambda rng: presets.adaptive(),
    lambda rng: presets.coin(),
    lambda rng: presets.newton(),
    lambda rng: presets.newton(rank=int(rng.integers(1, 9))),
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
    """Local, and two or three threads: the same bits, or on complete graphs the same mistakes unless tied."""
    wrong = {}
    for number in range(first, first + tries):
        algorithm, X, y = configuration(number)
        alone, tied = _alone(algorithm, X, y)
        for workers in (2, 3):
            if workers > algorithm.n_agents:
                continue
            several = ddol.run(algorithm, (X, y), engine="threads", workers=workers)
            same = np.array_equal(several.mistakes, alone.mistakes) or tied
            if not algorithm.mixing.is_uniform_complete:
                same = np.array_equal(several.weights, alone.weights)
            if not same:
                name = f"{number} {algorithm.name} on {algorithm.mixing.topology.name}, {workers} threads"
                wrong[name] = f"{several.mistakes.tolist()} and {alone.mistakes.tolist()}"
    return wrong


def _alone(algorithm: Algorithm, X: np.ndarray, y: np.ndarray) -> tuple[ddol.Trace, bool]:
    """A run by one worker, and whether rounding may have decided about a sign or a margin in it."""
    learner, seen = Learner(algorithm), []

    def look(block: Block) -> None:
        used = block.table[block.table >= 0]
        seen.append(block.scores[used, 0] * block.rows.y[used])

    learner.on_predicted = look
    learner.learn(Rows.from_dense(X, y))
    trace, margins = learner.trace(), np.concatenate(seen)
    # Before anything is learned a score is 0 in whatever order it is summed.
    margins = margins[algorithm.n_agents * algorithm.batch * (1 + algorithm.delay) :]
    nearest = np.minimum(np.abs(margins), np.abs(margins - 1.0))
    return trace, bool(np.min(nearest) < 1e-9 * np.max(np.abs(margins)))


def same_at_any_scale(first: int, tries: int) -> dict[str, str]:
    """Algorithms without units: features 10¹⁵⁰ times as large or as small, and the same mistakes.

    Each in a unit of its own where all are dense; where some are rare, all in one.
    """
    wrong = {}
    for number in range(first, first + tries):
        rng = np.random.default_rng(number)
        make = (presets.adaptive, presets.coin, presets.newton)[number % 3]
        _, X, y = configuration(number)
        algorithm = make().on((ddol.complete, ddol.ring)[int(rng.integers(2))](3))
        # A power of two changes no digit; 2⁴⁹⁸ is 8·10¹⁴⁹.
        dense = rng.random() < 0.5
        X = np.where(X == 0.0, 0.25, X) if dense else X
        scales = np.ldexp(1.0, rng.integers(-498, 499, X.shape[1] if dense else 1))
        found = [ddol.run(algorithm, (X * each, y)).mistakes.tolist() for each in (1.0, scales)]
        if found[0] != found[1]:
            wrong[f"{number} {algorithm.name}"] = f"{found[0]} and {found[1]}"
    return wrong
