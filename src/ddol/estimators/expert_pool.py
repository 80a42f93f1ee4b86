"""Experts of a majority vote: classifiers, river models, functions, stumps, or given advice."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from ddol.estimators.experts import Expert, LearningExpert, expert_of, stacked, taken
from ddol.streams.arrays import RowsStream
from ddol.streams.coding.stumps import Stumps, fit_stumps
from ddol.streams.rows import Rows

ADVICE = "advice"
MOST_AT_A_TIME = 128
"""Rows that experts predict between two of their own lessons."""


def default_experts(seed: int | None = None) -> list[Any]:
    """Three classifiers of different kinds that need no more than one row."""
    tree = DecisionTreeClassifier(max_depth=5, random_state=seed)
    return [GaussianNB(), tree, KNeighborsClassifier(n_neighbors=1)]


@dataclass
class Lessons:
    """When the experts of a stream learn: after 1, 2, 4, … rows, and at last after every 128.

    The rows of an unfinished lesson wait, so that the cut of a stream into calls changes nothing.

    Parameters
    ----------
    budget : int
        First rows that are kept, for experts that can only be fitted anew.
    """

    budget: int

    def __post_init__(self) -> None:
        self.seen, self.due, self._anew = 0, 1, 1
        self.waiting: list[tuple[Any, np.ndarray]] = []
        self.kept: list[tuple[Any, np.ndarray]] = []

    @property
    def missing(self) -> int:
        """Rows until the next lesson."""
        return self.due - self.seen

    def add(self, X: Any, y: np.ndarray) -> bool:
        """Take rows, no more than are missing; whether the lesson is complete."""
        self.seen += len(y)
        self.waiting.append((X, y))
        return self.seen == self.due

    def lesson(self) -> tuple[Any, np.ndarray]:
        """The rows of the lesson that is complete; the next one is begun."""
        rows = stacked(self.waiting)
        self.waiting = []
        if self.seen <= self.budget:
            self.kept.append(rows)
        self.due += min(self.seen + 1, MOST_AT_A_TIME)
        if self.seen < self.budget:
            self.due = min(self.due, self.budget)
        return rows

    def first_rows(self) -> tuple[Any, np.ndarray] | None:
        """All rows so far, when they have doubled and at the end of the budget; None at other times."""
        if self.seen > self.budget or (self.seen < self._anew and self.seen < self.budget):
            return None
        self._anew = 2 * self.seen
        found = stacked(self.kept)
        if self.seen == self.budget:
            self.kept = []
        return found


class ExpertPool:
    """P experts of different kinds.

    Examples
    --------
    >>> pool = ExpertPool.of([("yes", lambda X: np.ones(len(X)))])
    >>> pool.names, pool.labels(np.zeros((2, 3)))
    (['yes'], array([[1.],
           [1.]]))
    """

    def __init__(self, experts: Sequence[Expert]) -> None:
        self.experts = tuple(experts)
        self._lessons: Lessons | None = None

    @classmethod
    def of(cls, given: Sequence[Any]) -> ExpertPool:
        """Members from classifiers, models of river, functions, and pairs (name, one of these)."""
        named = [pair if _is_pair(pair) else (None, pair) for pair in given]
        kinds = [name or _kind(model) for name, model in named]
        names = [
            f"{kind}-{kinds[: k + 1].count(kind)}" if kinds.count(kind) > 1 else kind
            for k, kind in enumerate(kinds)
        ]
        return cls([expert_of(name, model) for name, (_, model) in zip(names, named, strict=True)])

    @property
    def names(self) -> list[str]:
        """Names of the experts, in their order."""
        return [expert.name for expert in self.experts]

    @property
    def unfitted(self) -> list[int]:
        """Experts that have to be fitted first."""
        return [k for k, expert in enumerate(self.experts) if _is_unfitted(expert.model)]

    @property
    def takes_sparse(self) -> bool:
        """Whether every expert takes sparse matrices."""
        models = [expert.model for expert in self.experts]
        return all(get_tags(m).input_tags.sparse for m in models if hasattr(m, "predict"))

    def fitted(self, X: Any, y: np.ndarray, classes: np.ndarray, seed: int) -> ExpertPool:
        """The pool with copies of its unfitted members fitted on some rows."""
        pool = self.learning(classes, seed, budget=0)
        for expert in pool.experts:
            expert.fit(X, y)
        return pool

    def learning(self, classes: np.ndarray, seed: int, budget: int) -> ExpertPool:
        """The pool with copies of its unfitted members, which learn as a stream goes on.

        Parameters
        ----------
        classes : all labels
        seed : int
            Of experts that draw and leave the seed open.
        budget : int
            First rows on which experts that cannot go on learning are fitted, anew whenever they have
            doubled.
        """
        unfitted = {k for k in self.unfitted if not self.experts[k].learns}
        pool = ExpertPool(
            [
                LearningExpert(e.name, _seeded(clone(e.model), seed + k), classes)
                if k in unfitted
                else e.own(classes)
                for k, e in enumerate(self.experts)
            ]
        )
        pool._lessons = Lessons(budget)
        frozen = [e.name for e in pool.experts if isinstance(e, LearningExpert) and not e.goes_on]
        if frozen and budget:
            warnings.warn(
                f"the experts {', '.join(frozen)} have no partial_fit and learn from the first {budget} "
                "rows only; set fit_rows for more, or use experts that go on learning",
                UserWarning,
                stacklevel=5,
            )
        return pool

    def labels(self, X: Any) -> np.ndarray:
        """Labels by every expert for every row: (n, P)."""
        said = [np.asarray(expert.advise(X)) for expert in self.experts]
        n = X.shape[0]
        for expert, column in zip(self.experts, said, strict=True):
            if column.shape != (n,):
                raise ValueError(
                    f"expert {expert.name} gave labels of shape {column.shape} for {n} rows, "
                    f"expected ({n},)"
                )
        return np.column_stack(said)

    def progress(self, X: Any, y: np.ndarray) -> np.ndarray:
        """Labels by every expert for every row, before it learns from the row: (n, P)."""
        lessons = self._lessons
        if lessons is None or not any(expert.learns for expert in self.experts):
            return self.labels(X)
        said, lo = [], 0
        while lo < len(y):
            hi = min(len(y), lo + lessons.missing)
            part = taken(X, slice(lo, hi))
            said.append(self.labels(part))
            if lessons.add(part, y[lo:hi]):
                self._teach(lessons)
            lo = hi
        return np.concatenate(said)

    def _teach(self, lessons: Lessons) -> None:
        rows, first = lessons.lesson(), lessons.first_rows()
        for expert in self.experts:
            expert.learn(*rows, first)


class StumpPool:
    """P decision stumps, for two classes: the best on each of P features.

    Parameters
    ----------
    n_experts : int
    classes : (2,)
    n_features : int
    seed : int
        Of the choice of the features.
    budget : int
        First rows of a stream on which they are fitted, anew whenever these have doubled; 0 where they
        are fitted at once.
    """

    def __init__(
        self, n_experts: int, classes: np.ndarray, n_features: int, seed: int, budget: int = 0
    ) -> None:
        if len(classes) != 2:
            raise ValueError(
                f"decision stumps tell two classes apart, found {len(classes)} classes; use "
                "experts=[DecisionTreeClassifier(max_depth=1), …] for more"
            )
        if not 1 <= n_experts <= n_features:
            raise ValueError(
                f"`experts` must be from 1 to {n_features}, the number of features, it is {n_experts}"
            )
        self.n_experts, self.classes, self.seed = n_experts, np.asarray(classes), seed
        self.stumps: Stumps | None = None
        self._lessons = Lessons(budget)

    def fit(self, X: Any, y: np.ndarray) -> None:
        """Find the best stumps on these rows."""
        answers = np.where(y == self.classes[1], 1.0, -1.0)
        self.stumps = fit_stumps(RowsStream(_rows(X, answers)), self.n_experts, self.seed)

    @property
    def names(self) -> list[str]:
        """One name for each stump, by its feature."""
        if self.stumps is None:
            return [f"stump {p}" for p in range(self.n_experts)]
        signs = np.where(self.stumps.signs > 0, ">", "≤")
        pairs = zip(self.stumps.features, signs, self.stumps.thresholds, strict=True)
        return [f"x{f} {sign} {h:.4g}" for f, sign, h in pairs]

    def labels(self, X: Any) -> np.ndarray:
        """Labels by every stump for every row: (n, P); the second class before they are fitted."""
        if self.stumps is None:
            return np.full((X.shape[0], self.n_experts), self.classes[1])
        said = self.stumps.advice(_rows(X, np.zeros(X.shape[0]))).data
        return self.classes[(said.reshape(X.shape[0], -1) > 0).astype(np.intp)]

    def progress(self, X: Any, y: np.ndarray) -> np.ndarray:
        """Labels by every stump for every row, before it is fitted on the row: (n, P)."""
        said, lo, lessons = [], 0, self._lessons
        while lo < len(y):
            hi = min(len(y), lo + lessons.missing) if lessons.seen < lessons.budget else len(y)
            part = taken(X, slice(lo, hi))
            said.append(self.labels(part))
            if lessons.seen < lessons.budget and lessons.add(part, y[lo:hi]):
                lessons.lesson()
                first = lessons.first_rows()
                if first is not None and len(np.unique(first[1])) > 1:
                    self.fit(*first)
            lo = hi
        return np.concatenate(said)


@dataclass(frozen=True)
class AdviceGiven:
    """Experts that are known by their advice only: a column of X each."""

    names: list[str]

    def labels(self, X: Any) -> np.ndarray:
        """The advice itself."""
        return np.asarray(X)

    def progress(self, X: Any, y: np.ndarray) -> np.ndarray:
        """The advice itself."""
        return np.asarray(X)


def _rows(X: Any, y: np.ndarray) -> Rows:
    return Rows.from_csr(X, y) if sp.issparse(X) else Rows.from_dense(X, y)


def _is_pair(given: Any) -> bool:
    return isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], str)


def _kind(model: Any) -> str:
    if hasattr(model, "steps"):
        steps = model.steps.values() if hasattr(model.steps, "values") else model.steps
        last = list(steps)[-1]
        return _kind(last[1] if isinstance(last, tuple) else last)
    if hasattr(model, "predict") or hasattr(model, "predict_one"):
        return type(model).__name__
    name = getattr(model, "__name__", type(model).__name__)
    return "function" if name == "<lambda>" else name


def _seeded(model: Any, seed: int) -> Any:
    """The model, drawing the same numbers every time wherever that was left open."""
    open_ones = [
        name
        for name, value in model.get_params().items()
        if value is None and (name == "random_state" or name.endswith("__random_state"))
    ]
    return model.set_params(**dict.fromkeys(open_ones, seed))


def _is_unfitted(model: Any) -> bool:
    if not hasattr(model, "predict"):
        return hasattr(model, "learn_one")
    try:
        check_is_fitted(model)
    except NotFittedError:
        return True
    except TypeError:  # not an estimator of scikit-learn: it has `predict`, which is enough
        return False
    return False
