"""Progressive error of the algorithms that need no tuning, at their defaults.

``python -m benchmarks.accuracy`` prints Markdown tables: the paper's data sets on one agent, on networks,
with rare exchanges and late answers, beside Vowpal Wabbit, scikit-learn and river on one agent; the same
with every feature in a random unit and at a random offset; data of scikit-learn; what delayed answers
cost. One pass, one seeded shuffle, a constant feature as intercept, no option but the loss.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn import datasets, linear_model, preprocessing

import ddol
from benchmarks.data import Arrays, arrays, standardised
from benchmarks.peers.sklearn import progressive_error
from ddol.algorithm import Algorithm
from ddol.measure.regret import regret

CONDITIONS: dict[str, tuple[Any, dict[str, int]]] = {
    "1": (1, {}),
    "1, delay 100": (1, {"delay": 100}),
    "4, delay 100": (4, {"delay": 100}),
    "16": (16, {}),
    "ring 16": (ddol.ring(16), {}),
    "torus 16": (ddol.torus(4, 4), {}),
    "16, period 16": (16, {"period": 16}),
    "16, period 256": (16, {"period": 256}),
    "64": (64, {}),
}
VW_OPTIONS = ("", "--coin", "--sgd")
RIVER_MOST = 60_000
"""Examples that river is asked to learn: it takes some 20 µs for each of their values."""
ALGORITHMS: dict[str, Callable[..., Algorithm]] = {
    "adaptive": ddol.adaptive,
    "coin": ddol.coin,
    "newton": ddol.newton,
    "newton, rank 10": lambda loss: ddol.newton(loss, rank=10),
    "dual_averaging": ddol.dual_averaging,
    "dogd": lambda loss: ddol.dogd(loss, l2=0.0),
}
OTHERS = ("adaptive", "coin", "newton", "dual_averaging")
LOSSES = ("hinge", "logistic")
SETS = ("svmguide1", "cod-rna", "covtype")
DELAYS = (0, 1, 10, 100)


def scikit_learn_sets() -> Iterator[Arrays]:
    """Small data of scikit-learn, as two classes each."""
    breast = datasets.load_breast_cancer()
    digits = datasets.load_digits()
    wine = datasets.load_wine()
    yield shuffled("breast cancer", breast.data, breast.target)
    for digit in (0, 3, 8):
        yield shuffled(f"digit {digit} or not", digits.data, digits.target == digit)
    yield shuffled("wine 1 or not", wine.data, wine.target == 1)
    X, y = datasets.make_classification(20_000, 100, n_informative=20, flip_y=0.05, random_state=0)
    yield shuffled("make_classification, D = 100", X, y)
    X, y = datasets.make_hastie_10_2(20_000, random_state=0)
    yield shuffled("squares of hastie_10_2", X**2, y > 0)


def shuffled(name: str, X: np.ndarray, labels: np.ndarray) -> Arrays:
    """Examples in the order of one seed, with a constant feature."""
    order = np.random.default_rng(0).permutation(len(X))
    X = np.hstack([np.ones((len(X), 1)), X])[order]
    return Arrays(name, np.ascontiguousarray(X), np.where(labels, 1.0, -1.0)[order])


def in_random_units(data: Arrays) -> Arrays:
    """Every dense feature at an offset of some deviations, and all times 10 to the power of −6 … 6."""
    rng = np.random.default_rng(1)
    factors = 10.0 ** rng.uniform(-6, 6, data.X.shape[1])
    offsets = rng.normal(size=data.X.shape[1]) * 5.0 * data.X.std(axis=0)
    dense = np.mean(data.X != 0.0, axis=0) > 0.99
    return Arrays(data.name, np.ascontiguousarray((data.X + dense * offsets) * factors), data.y)


def percent(algorithm: Algorithm, data: Arrays, network: object = 1, **places: int) -> str:
    """Progressive error, or a dash where it left the range of numbers."""
    try:
        error = ddol.run(algorithm, (data.X, data.y), network, **places).error
    except FloatingPointError:
        return "–"
    return f"{100 * error:.2f}"


def table(head: list[str], rows: Iterator[list[str]]) -> None:
    """Print Markdown."""
    print("|", " | ".join(head), "|")
    print("|", " | ".join("---" for _ in head), "|")
    for row in rows:
        print("|", " | ".join(row), "|", flush=True)
    print()


def networks(data: list[Arrays]) -> Iterator[list[str]]:
    """Rows: algorithm, loss and data against conditions; peers have the first of them."""
    for one in data:
        for name, preset in ALGORITHMS.items():
            for loss in LOSSES:
                yield [
                    one.name,
                    name,
                    loss,
                    *(percent(preset(loss), one, net, **k) for net, k in CONDITIONS.values()),
                ]
        rest = ["–"] * (len(CONDITIONS) - 1)
        for option in VW_OPTIONS:
            for loss in LOSSES:
                yield [one.name, f"VW {option}".strip(), loss, vw_percent(one, option, loss), *rest]
        for name, scaled in (("scikit-learn SGD", False), ("… standardised", True)):
            for loss in LOSSES:
                yield [one.name, name, loss, sklearn_percent(one, loss, scaled), *rest]
        if len(one.y) <= RIVER_MOST:
            yield [one.name, "river, standardised", "logistic", river_percent(one), *rest]


def vw_percent(data: Arrays, option: str, loss: str) -> str:
    """Vowpal Wabbit's progressive error, which has an intercept of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.vw"
        X = sp.csr_matrix(data.X)
        with path.open("w") as out:
            for y, lo, hi in zip(data.y, X.indptr, X.indptr[1:], strict=False):
                found = zip(X.indices[lo:hi].tolist(), X.data[lo:hi].tolist(), strict=True)
                out.write(f"{int(y)} | {' '.join(f'{d}:{x:.9g}' for d, x in found)}\n")
        command = [sys.executable, "-m", "vowpalwabbit", "-d", str(path), "--loss_function", loss]
        command += ["--binary", "--no_stdin", *option.split()]
        said = subprocess.run(command, capture_output=True, text=True, check=False)
    found = re.search(r"average loss = (\S+)", said.stderr + said.stdout)
    return f"{100 * float(found.group(1)):.2f}" if found else "–"


class _Standardised:
    """scikit-learn's SGD behind its scaler: both learn from a block, one after the other."""

    def __init__(self, loss: str) -> None:
        self.scaler = preprocessing.StandardScaler()
        self.model = linear_model.SGDClassifier(loss=loss, shuffle=False)

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.model.predict(self.scaler.transform(X))

    def partial_fit(self, X: np.ndarray, y: np.ndarray, classes: np.ndarray) -> None:
        scaled = self.scaler.partial_fit(X).transform(X)
        self.model.partial_fit(scaled, y, classes=classes)


def sklearn_percent(data: Arrays, loss: str, scaled: bool) -> str:
    """Progressive error of scikit-learn's SGD at its defaults, behind its standard scaler if asked for."""
    name = {"logistic": "log_loss"}.get(loss, loss)
    plain = partial(linear_model.SGDClassifier, loss=name, shuffle=False)
    new = partial(_Standardised, name) if scaled else plain
    return f"{100 * progressive_error(new, data):.2f}"


def river_percent(data: Arrays) -> str:
    """Progressive error of river's logistic regression behind its standard scaler."""
    from river import linear_model as linear
    from river.preprocessing import StandardScaler

    model = StandardScaler() | linear.LogisticRegression()
    wrong = 0
    for x, y in zip(data.X.tolist(), data.y > 0, strict=True):
        features = dict(enumerate(x))
        wrong += model.predict_one(features) != bool(y)
        model.learn_one(features, bool(y))
    return f"{100 * wrong / len(data.y):.2f}"


def units(data: list[Arrays]) -> Iterator[list[str]]:
    """Rows: errors in the given units and in random ones, on one agent and on a ring."""
    for one in data:
        scaled = in_random_units(one)
        for name, preset in ALGORITHMS.items():
            pairs = [
                f"{percent(preset('hinge'), one, n)} → {percent(preset('hinge'), scaled, n)}"
                for n in (1, ddol.ring(16))
            ]
            yield [one.name, name, *pairs]


def others() -> Iterator[list[str]]:
    """Rows: data of scikit-learn, one agent and four."""
    for one in scikit_learn_sets():
        majority = 100 * min(np.mean(one.y > 0), np.mean(one.y < 0))
        errors = [
            percent(ALGORITHMS[name]("logistic"), one, network)
            for name in OTHERS
            for network in (1, 4)
        ]
        yield [one.name, f"{majority:.1f}", *errors]


def delays(data: list[Arrays]) -> Iterator[list[str]]:
    """Rows: what answers that come later cost, in mistakes more than without a delay."""
    for one in data:
        for name, preset in ALGORITHMS.items():
            for network in (1, ddol.ring(4)):
                errors = [percent(preset("hinge"), one, network, delay=delay) for delay in DELAYS]
                yield [one.name, name, str(getattr(network, "name", network)), *errors]


def regrets() -> Iterator[list[str]]:
    """Rows: the social regret against the best weights in hindsight, for every delay."""
    data = standardised("cod-rna", 20_000)
    examples = data.X, data.y
    choices = {
        "dogd(l2=0.01, rate=0.1)": ddol.dogd(l2=0.01, rate=0.1),
        "doeg(radius=10, rate=0.1)": ddol.doeg(radius=10.0, rate=0.1),
        "adaptive()": ddol.adaptive(),
    }
    for name, algorithm in choices.items():
        for n_agents in (1, 4):
            traces = [ddol.run(algorithm, examples, n_agents, delay=delay) for delay in DELAYS]
            social = [regret(trace, examples, bound=False).social for trace in traces]
            yield [name, str(n_agents), *(f"{value:,.0f}" for value in social)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--examples", type=int, help="at most so many of each data set")
    parser.add_argument("--only", choices=["networks", "units", "others", "delays", "regrets"])
    options = parser.parse_args()
    whole = options.only in (None, "networks", "units")
    data = [arrays(name, options.examples) for name in SETS if whole]
    wanted = options.only or "networks units others delays regrets"
    if "networks" in wanted:
        table(["data", "algorithm", "loss", *CONDITIONS], networks(data))
    if "units" in wanted:
        table(["data", "algorithm", "1 agent", "ring of 16"], units(data))
    if "others" in wanted:
        names = [f"{name}, {n}" for name in OTHERS for n in (1, 4)]
        table(["data", "majority", *names], others())
    if "delays" in wanted:
        table(
            ["data", "algorithm", "agents", *(f"delay {d}" for d in DELAYS)],
            delays([arrays(name, 50_000) for name in SETS]),
        )
    if "regrets" in wanted:
        table(["algorithm", "agents", *(f"delay {d}" for d in DELAYS)], regrets())


if __name__ == "__main__":
    main()
