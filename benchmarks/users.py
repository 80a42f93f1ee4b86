"""What users run, beside what they would run instead: ``python -m benchmarks.users``.

Estimators with `fit`, `partial_fit` and `predict`, whole commands on one core and on two, the first command
after an install, river's `learn_one`. The two sides of every comparison take turns, and the best of several
turns counts; peers do the same work in their fastest documented way, which stands beside it.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import data
from benchmarks.contest import Outcome, timed
from benchmarks.programs import call

Run = Callable[[], Any]


@dataclass(frozen=True)
class Comparison:
    """Seconds of ddol and of somebody else at the same work.

    Parameters
    ----------
    what, against : str
        What ddol does, and what the other does, with the settings.
    ours, theirs : float
        Seconds.
    goal : float or None
        What `ratio` is to reach.
    faster : bool
        The ratio is how many times faster ddol is; else the share of the other's time that it takes.
    """

    what: str
    against: str
    ours: float
    theirs: float
    goal: float | None = None
    faster: bool = True

    @property
    def ratio(self) -> float:
        return self.theirs / self.ours if self.faster else self.ours / self.theirs

    @property
    def reached(self) -> bool | None:
        if self.goal is None:
            return None
        return self.ratio >= self.goal if self.faster else self.ratio <= self.goal


def compared(
    what: str, against: str, ours: Run, theirs: Run, turns: int, goal: float | None, faster: bool
) -> Comparison:
    """Let both run in turns; a first turn compiles, fills caches and is not counted."""
    took: list[tuple[float, float]] = []
    for turn in range(turns + 1):
        both = [(0, ours), (1, theirs)]
        pair = [0.0, 0.0]
        for place, run in both if turn % 2 else reversed(both):
            pair[place] = timed(lambda run=run: (run(), Outcome())[1])[0]
        if turn:
            took.append((pair[0], pair[1]))
    return Comparison(what, against, *map(min, zip(*took, strict=True)), goal, faster)


def comparisons(quick: bool = False) -> Iterator[Comparison]:
    """All of them, one after the other."""
    turns = 2 if quick else 5
    yield from estimators(turns, 50_000 if quick else None)
    yield from river(turns, 300 if quick else 2_000)
    yield from commands(1 if quick else 3, 50_000 if quick else None)
    if not quick:
        yield from first_command()


def estimators(turns: int, examples: int | None) -> Iterator[Comparison]:
    """`fit`, `partial_fit` and `predict` on covtype beside scikit-learn's SGD."""
    from sklearn.linear_model import SGDClassifier

    from ddol import DDOLClassifier

    for kind in ("dense", "CSR"):
        found = data.arrays("covtype", examples, kind == "dense")
        X, y, classes = found.X, found.y, found.classes
        for passes in (1, 5):
            for algorithm, goal in (("dogd", 2.0), ("adaptive", 1.5)):
                ours = DDOLClassifier(algorithm, passes=passes, random_state=0)
                theirs = SGDClassifier(max_iter=passes, tol=None, random_state=0)
                yield compared(
                    f"DDOLClassifier({algorithm!r}, passes={passes}).fit, covtype {kind}",
                    f"SGDClassifier(max_iter={passes}, tol=None).fit",
                    lambda m=ours, X=X, y=y: m.fit(X, y),
                    lambda m=theirs, X=X, y=y: m.fit(X, y),
                    turns,
                    goal,
                    True,
                )
        for algorithm, goal in (("dogd", 2.0), ("adaptive", None)):
            yield compared(
                f"DDOLClassifier({algorithm!r}).partial_fit, covtype {kind}",
                "SGDClassifier(shuffle=False).partial_fit",
                lambda a=algorithm, X=X, y=y, c=classes: DDOLClassifier(a).partial_fit(X, y, c),
                lambda X=X, y=y, c=classes: SGDClassifier(shuffle=False).partial_fit(X, y, c),
                turns,
                goal,
                True,
            )
        other = SGDClassifier(max_iter=1, tol=None).fit(X, y)
        for algorithm in ("dogd", "adaptive"):
            fitted = DDOLClassifier(algorithm, passes=1).fit(X, y)
            yield compared(
                f"DDOLClassifier({algorithm!r}).predict, covtype {kind}",
                "SGDClassifier.predict",
                lambda m=fitted, X=X: m.predict(X),
                lambda m=other, X=X: m.predict(X),
                turns,
                0.9,
                True,
            )
    yield from _threads(turns, examples)


def _threads(turns: int, examples: int | None) -> Iterator[Comparison]:
    from ddol import DDOLClassifier

    found = data.arrays("covtype", examples)
    for period, goal in ((1, 1.0), (16, 1.3)):
        options: dict[str, Any] = {"n_agents": 16, "period": period, "random_state": 0}
        threads = DDOLClassifier("dogd", engine="threads", **options)
        local = DDOLClassifier("dogd", **options)
        yield compared(
            f"fit, 16 agents, period {period}, 5 passes, engine='threads'",
            "engine='local'",
            lambda m=threads: m.fit(found.X, found.y),
            lambda m=local: m.fit(found.X, found.y),
            turns,
            goal,
            True,
        )


def river(turns: int, documents: int) -> Iterator[Comparison]:
    """Predicting and learning documents of 60 words out of 18,500, one at a time."""
    from river import linear_model

    from ddol.river import Classifier

    rng = random.Random(0)
    docs = [
        ({f"w{int(18_500 * rng.random() ** 3)}": 1.0 for _ in range(60)}, rng.random() < 0.5)
        for _ in range(documents)
    ]

    def pass_over(model: Any) -> Run:
        def run() -> None:
            for x, y in docs:
                model.predict_one(x)
                model.learn_one(x, y)

        return run

    for algorithm in ("adaptive", "dogd"):
        yield compared(
            f"ddol.river.Classifier({algorithm!r}), 18,500 words: predict_one, learn_one",
            "river.linear_model.LogisticRegression",
            pass_over(Classifier(algorithm)),
            pass_over(linear_model.LogisticRegression()),
            turns,
            5.0,
            False,
        )


def commands(turns: int, examples: int | None) -> Iterator[Comparison]:
    """From text to model, on two cores and on one (taskset), and beside Vowpal Wabbit."""
    model = data.KEPT / "users.model"
    small = data.files("covtype", examples)
    large = data.files("covtype", examples, times=10)

    def train(path: Any, *options: str, cores: str | None = None) -> Run:
        words = [sys.executable, "-m", "ddol", "train", path, "--quiet", "--model", model, *options]
        return lambda: call([*_bound(cores), *words])[0]

    if shutil.which("taskset") and (os.cpu_count() or 1) > 1:
        threads = ("--engine", "threads", "--agents", "16", "--period", "16")
        for name, options, goal in (
            ("the default engine", (), 1.7),
            ("--engine threads --agents 16 --period 16", threads, 1.8),
        ):
            yield compared(
                f"ddol train, covtype ten times over as text, {name}, 2 cores (taskset)",
                "the same on 1 core",
                train(large.path, *options, cores="0,1"),
                train(large.path, *options, cores="0"),
                turns,
                goal,
                True,
            )
    for name, text, goal in (("covtype", small, 0.5), ("covtype ten times over", large, 0.2)):
        wabbit = [sys.executable, "-m", "vowpalwabbit", "-d", text.vw_path, "-f", model]
        wabbit += ["--loss_function", "hinge", "--binary", "--quiet"]
        yield compared(
            f"ddol train, {name} as LIBSVM text, to a model",
            "vw -d FILE -f MODEL --loss_function hinge --binary, VW text",
            train(text.path),
            lambda words=wabbit: call(words)[0],
            turns,
            goal,
            False,
        )


def first_command() -> Iterator[Comparison]:
    """The first command of a fresh install, and a later one, beside importing scikit-learn.

    The install is a copy of the package with what its build compiles; the user's cache is empty.
    """
    path = data.text("svmguide1")
    sklearn = [sys.executable, "-c", "import sklearn.linear_model"]
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(data.ROOT / "src" / "ddol", Path(folder, "ddol"))
        python = ["env", "-u", "PYTHONDONTWRITEBYTECODE", f"PYTHONPATH={folder}", sys.executable]
        shipped = Path(folder, "ddol", "compiled", "shipped")
        call([*python, "-m", "ddol.precompile", "--ship", shipped])
        train = [*python, "-m", "ddol", "train", path, "--quiet"]

        def first() -> None:
            with tempfile.TemporaryDirectory() as empty:
                call(["env", f"DDOL_CACHE_DIR={empty}", *train])

        for name, ours, goal in (
            ("the first ddol train after an install", first, 3.0),
            ("ddol train on a small file, later", lambda: call(train)[0], 0.5),
        ):
            against, theirs = "import sklearn.linear_model", lambda: call(sklearn)[0]
            yield compared(name, against, ours, theirs, 5, goal, False)


def _bound(cores: str | None) -> list[str]:
    return [] if cores is None else ["taskset", "-c", cores]


def table(found: Sequence[Comparison]) -> Iterator[tuple[str, ...]]:
    """Cells of one row for each comparison."""
    words = {True: "reached", False: "missed", None: ""}
    for one in found:
        sign = "≥" if one.faster else "≤"
        yield (
            one.what,
            one.against,
            _seconds(one.ours),
            _seconds(one.theirs),
            f"{one.ratio:.2f} {'× faster' if one.faster else 'of its time'}",
            "" if one.goal is None else f"{sign} {one.goal:g}",
            words[one.reached],
        )


HEAD = ("what", "against", "ddol", "the other", "ratio", "goal", "")


def _seconds(value: float) -> str:
    return f"{value:.2f} s" if value >= 1 else f"{1e3 * value:.0f} ms"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print, one row at a time."""
    parser = argparse.ArgumentParser("python -m benchmarks.users", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="less data and fewer turns")
    asked = parser.parse_args(arguments)
    np.seterr(all="ignore")
    print("| " + " | ".join(HEAD) + " |\n" + "|---" * len(HEAD) + "|")
    for one in comparisons(asked.quick):
        print("| " + " | ".join(next(table([one]))) + " |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
