"""Experts that people have: fitted or unfitted classifiers, functions, stumps, or their advice itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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

from ddol.streams.arrays import RowsStream
from ddol.streams.rows import Rows
from ddol.streams.stumps import Stumps, fit_stumps

ADVICE = "advice"


def default_experts(seed: int | None = None) -> list[Any]:
    """Three classifiers of different kinds that need no more than one row."""
    tree = DecisionTreeClassifier(max_depth=5, random_state=seed)
    return [GaussianNB(), tree, KNeighborsClassifier(n_neighbors=1)]


@dataclass(frozen=True)
class Expert:
    """One member: its name, and the function that gives its labels for rows."""

    name: str
    advise: Callable[[Any], Any]
    model: Any


@dataclass(frozen=True)
class Committee:
    """P experts of different kinds.

    Examples
    --------
    >>> committee = Committee.of([("yes", lambda X: np.ones(len(X)))])
    >>> committee.names, committee.labels(np.zeros((2, 3)))
    (['yes'], array([[1.],
           [1.]]))
    """

    experts: tuple[Expert, ...]

    @classmethod
    def of(cls, given: Sequence[Any]) -> Committee:
        """Members from classifiers, functions, and pairs (name, one of these)."""
        named = [pair if _is_pair(pair) else (None, pair) for pair in given]
        kinds = [name or _kind(model) for name, model in named]
        names = [
            f"{kind}-{kinds[: k + 1].count(kind)}" if kinds.count(kind) > 1 else kind
            for k, kind in enumerate(kinds)
        ]
        return cls(
            tuple(_expert(name, model) for name, (_, model) in zip(names, named, strict=True))
        )

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

    def fitted(self, X: Any, y: np.ndarray, seed: int) -> Committee:
        """The committee with copies of its unfitted members fitted on some rows."""
        missing = self.unfitted
        return Committee(
            tuple(
                _expert(e.name, _seeded(clone(e.model), seed + k).fit(X, y)) if k in missing else e
                for k, e in enumerate(self.experts)
            )
        )

    def labels(self, X: Any) -> np.ndarray:
        """What every expert says about every row: (n, P)."""
        said = [np.asarray(expert.advise(X)) for expert in self.experts]
        n = X.shape[0]
        for expert, column in zip(self.experts, said, strict=True):
            if column.shape != (n,):
                raise ValueError(
                    f"expert {expert.name} gave labels of shape {column.shape} for {n} rows, "
                    f"expected ({n},)"
                )
        return np.column_stack(said)


@dataclass(frozen=True)
class StumpCommittee:
    """P decision stumps, for two classes."""

    stumps: Stumps
    classes: np.ndarray

    @classmethod
    def of(cls, n_experts: int, X: Any, answers: np.ndarray, classes: Any, seed: int) -> Any:
        """The best stump on each of P features, on these rows with answers −1 and +1."""
        if len(classes) != 2:
            raise ValueError(
                f"decision stumps tell two classes apart, found {len(classes)} classes; use "
                "experts=[DecisionTreeClassifier(max_depth=1), …] for more"
            )
        if not 1 <= n_experts <= X.shape[1]:
            raise ValueError(
                f"`experts` must be from 1 to {X.shape[1]}, the number of features, it is {n_experts}"
            )
        return cls(fit_stumps(RowsStream(_rows(X, answers)), n_experts, seed), np.asarray(classes))

    @property
    def names(self) -> list[str]:
        """One name for each stump, by its feature."""
        signs = np.where(self.stumps.signs > 0, ">", "≤")
        pairs = zip(self.stumps.features, signs, self.stumps.thresholds, strict=True)
        return [f"x{f} {sign} {h:.4g}" for f, sign, h in pairs]

    def labels(self, X: Any) -> np.ndarray:
        """What every stump says about every row: (n, P)."""
        said = self.stumps.advice(_rows(X, np.zeros(X.shape[0]))).data
        return self.classes[(said.reshape(X.shape[0], -1) > 0).astype(np.intp)]


@dataclass(frozen=True)
class AdviceGiven:
    """Experts that are known by their advice only: a column of X each."""

    names: list[str]

    def labels(self, X: Any) -> np.ndarray:
        """The advice itself."""
        return np.asarray(X)


def _rows(X: Any, y: np.ndarray) -> Rows:
    return Rows.from_csr(X, y) if sp.issparse(X) else Rows.from_dense(X, y)


def _is_pair(given: Any) -> bool:
    return isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], str)


def _kind(model: Any) -> str:
    if hasattr(model, "steps"):
        return _kind(model.steps[-1][1])
    return type(model).__name__ if hasattr(model, "predict") else _function_name(model)


def _function_name(function: Any) -> str:
    name = getattr(function, "__name__", type(function).__name__)
    return "function" if name == "<lambda>" else name


def _expert(name: str, model: Any) -> Expert:
    if hasattr(model, "predict"):
        return Expert(name, model.predict, model)
    if callable(model):
        return Expert(name, model, model)
    raise ValueError(
        f"expert {name} is {model!r}, expected a classifier with `predict` or a function of X"
    )


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
        return False
    try:
        check_is_fitted(model)
    except NotFittedError:
        return True
    except TypeError:  # not an estimator of scikit-learn: it has `predict`, which is enough
        return False
    return False
