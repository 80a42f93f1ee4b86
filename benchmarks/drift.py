"""Streams whose concept changes: the default, memory="auto", fixed memories, and river's learners.

``python -m benchmarks.drift`` prints a Markdown table of progressive errors in %: one agent, one pass in
the stream's own order. The best fixed memory, and river's best linear learner, are chosen for every stream
in hindsight. river's tree takes a millisecond for an example; ``--no-tree`` leaves it out.
"""

from __future__ import annotations

import argparse
import lzma
import math
from collections.abc import Callable, Iterator
from itertools import islice

import numpy as np

import ddol
from benchmarks.accuracy import table
from benchmarks.safe import DATA

MEMORIES = (math.inf, 3000.0, 1000.0, 300.0, 100.0, 30.0, 10.0)
RATES = (0.003, 0.01, 0.03, 0.1, 0.3)
"""Learning rates of river's linear learners, of which the best is taken for every stream."""
Data = tuple[np.ndarray, np.ndarray]


def streams(examples: int) -> Iterator[tuple[str, Data]]:
    """Names, and features with class numbers."""
    from river.datasets import synth

    def changing(
        make: Callable[..., object], *versions: int, slow: float = 0.0, **more: float
    ) -> Iterator:
        """A stream of one version after the other, a quarter each; slowly: over a part of all rows."""
        made = [iter(make(version, seed=k, **more)) for k, version in enumerate(versions)]
        rng, width = np.random.default_rng(0), max(slow * examples, 1e-9)
        begins = np.arange(1, len(made)) * examples / len(made)
        for t in range(examples):
            passed = rng.random() < 1.0 / (
                1.0 + np.exp(np.clip(4.0 * (begins - t) / width, -99, 99))
            )
            yield next(made[int(passed.sum())])

    def sea(variant: int, seed: int, noise: float) -> object:
        return synth.SEA(variant=variant, seed=seed, noise=noise)

    def of(kind: type) -> Callable[..., object]:
        return lambda function, seed, **more: kind(
            classification_function=function, seed=seed, **more
        )

    sine, stagger, agrawal = of(synth.Sine), of(synth.STAGGER), of(synth.Agrawal)
    rbf = {"seed_model": 1, "seed_sample": 2, "n_classes": 2}
    made = {
        "SEA": changing(sea, 0, 1, 2, 3, noise=0.0),
        "SEA, 10 % noise": changing(sea, 0, 1, 2, 3, noise=0.1),
        "Sine": changing(sine, 0, 1, 0, 1),
        "Sine, slowly": changing(sine, 0, 1, 0, 1, slow=0.1),
        "Sine 2": changing(sine, 2, 3, 2, 3),
        "STAGGER": changing(stagger, 0, 1, 2, 0),
        "STAGGER, slowly": changing(stagger, 0, 1, 2, 0, slow=0.1),
        "Mixed": changing(of(synth.Mixed), 0, 1, 0, 1),
        "Agrawal": changing(agrawal, 0, 1, 2, 3),
        "Agrawal, 7 to 9": changing(agrawal, 6, 7, 8, 6),
        "LED": synth.LEDDrift(seed=1, noise_percentage=0.1, n_drift_features=5),
        "Hyperplane": synth.Hyperplane(seed=1, n_drift_features=5, mag_change=0.001),
        "Hyperplane, fast": synth.Hyperplane(seed=2, n_drift_features=10, mag_change=0.01),
        "Hyperplane, no drift": synth.Hyperplane(seed=3, n_drift_features=2, mag_change=0.0),
        "RBF": synth.RandomRBFDrift(**rbf, change_speed=0.0001),
        "RBF, fast": synth.RandomRBFDrift(**rbf, change_speed=0.001),
        "Waveform, no drift": synth.Waveform(seed=1),
    }
    for name, stream in made.items():
        yield name, arrays(islice(iter(stream), examples))
    yield "elec", electricity()


def arrays(rows: Iterator[tuple[dict, object]]) -> Data:
    """Features in the order of their names, and class numbers."""
    taken = list(rows)
    names = sorted(taken[0][0], key=str)
    X = np.array([[float(x[name]) for name in names] for x, _ in taken])
    return X, np.unique([float(y) for _, y in taken], return_inverse=True)[1].astype(float)


def electricity() -> Data:
    """45,312 half hours of a market; did the price rise?"""
    with lzma.open(DATA / "elec.csv.xz", "rt") as file:
        cells = np.loadtxt(file, delimiter=",", skiprows=1)
    return cells[:, :-1], cells[:, -1]


def ours(data: Data, memory: float | str) -> float:
    """Error of `adaptive` with a memory."""
    X, y = data
    n_classes = len(np.unique(y))
    labels = y if n_classes > 2 else np.where(y > 0, 1.0, -1.0)
    more = {"outputs": n_classes} if n_classes > 2 else {}
    return 100.0 * ddol.run(ddol.adaptive(memory=memory), (X, labels), **more).error


def theirs(data: Data, model: object) -> float:
    """Error of one of river's models."""
    X, y = data
    wrong = 0
    for row, label in zip(X.tolist(), y.astype(int).tolist(), strict=True):
        x = dict(enumerate(row))
        wrong += model.predict_one(x) != label
        model.learn_one(x, label)
    return 100.0 * wrong / len(y)


def linear_learners(n_classes: int) -> Iterator[object]:
    """river's linear learners, behind its scaler."""
    from river import linear_model, multiclass, optim, preprocessing

    for rate in RATES:
        for optimiser in (optim.SGD(rate), optim.AdaGrad(10 * rate)):
            learner: object = linear_model.LogisticRegression(optimiser)
            if n_classes > 2:
                learner = multiclass.OneVsRestClassifier(learner)
            yield preprocessing.StandardScaler() | learner


def rows(examples: int, tree: bool) -> Iterator[list[str]]:
    """A stream each, then means."""
    found = []
    for name, data in streams(examples):
        fixed = [ours(data, memory) for memory in MEMORIES]
        best = min(theirs(data, learner) for learner in linear_learners(len(np.unique(data[1]))))
        errors = [fixed[0], ours(data, "auto"), min(fixed), best]
        if tree:
            from river.tree import HoeffdingAdaptiveTreeClassifier

            errors.append(theirs(data, HoeffdingAdaptiveTreeClassifier(seed=1)))
        found.append(errors)
        chosen = f"{MEMORIES[int(np.argmin(fixed))]:.0f}"
        yield [name, *(f"{error:.2f}" for error in errors), chosen]
    yield ["mean", *(f"{mean:.2f}" for mean in np.mean(found, axis=0)), ""]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--examples", type=int, default=10_000)
    parser.add_argument("--no-tree", action="store_true")
    options = parser.parse_args()
    names = ["stream", "default", 'memory="auto"', "best fixed memory", "river's best linear"]
    names += [] if options.no_tree else ["its Hoeffding adaptive tree"]
    table([*names, "the memory"], rows(options.examples, not options.no_tree))


if __name__ == "__main__":
    main()
