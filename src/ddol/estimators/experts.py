"""One expert: a function that gives labels, a classifier that learns, or a model of river."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone


class Expert:
    """An expert that does not learn: a fitted classifier, or a function of X.

    Parameters
    ----------
    name : str
    advise : function
        Labels (n,) of rows.
    model : object
        What was given.
    """

    learns = False

    def __init__(self, name: str, advise: Callable[[Any], Any], model: Any) -> None:
        self.name, self.advise, self.model = name, advise, model

    def own(self, classes: np.ndarray) -> Expert:
        """The expert, free to learn without changing what was given."""
        return self

    def fit(self, X: Any, y: np.ndarray) -> None:
        """Learn from all rows at once; this one does not."""

    def learn(self, X: Any, y: np.ndarray, first: tuple[Any, np.ndarray] | None) -> None:
        """Learn from the next rows of a stream; this one does not.

        Parameters
        ----------
        X, y
            The rows since the last time.
        first : (X, y) or None
            All rows so far, while they are few enough to be kept.
        """


class LearningExpert(Expert):
    """A classifier of scikit-learn that learns: by `partial_fit`, or anew from the first rows.

    Before it has met two classes it says the last one.

    Parameters
    ----------
    name : str
    model : classifier
        Unfitted, and its own.
    classes : all labels
    """

    learns = True

    def __init__(self, name: str, model: Any, classes: np.ndarray) -> None:
        super().__init__(name, self._labels, model)
        self.classes = classes
        self.goes_on = hasattr(model, "partial_fit")
        self._begun, self._fitted, self._met = False, False, set[Any]()

    def fit(self, X: Any, y: np.ndarray) -> None:
        """Fit it on all rows."""
        self.model.fit(X, y)
        self._met.update(y.tolist())
        self._fitted = True

    def learn(self, X: Any, y: np.ndarray, first: tuple[Any, np.ndarray] | None) -> None:
        """Go on learning, or begin anew with all rows so far while they are few."""
        if self.goes_on and self._fitted:
            # A model that was fitted at once knows only the classes that it met then.
            kept = np.flatnonzero(np.isin(y, list(self._met)))
            if len(kept):
                self.model.partial_fit(taken(X, kept), y[kept])
        elif self.goes_on:
            known = {} if self._begun else {"classes": self.classes}
            self.model.partial_fit(X, y, **known)
            self._begun = True
            self._met.update(y.tolist())
        elif first is not None and len(np.unique(first[1])) > 1:
            self.model = clone(self.model)
            self.fit(*first)

    def _labels(self, X: Any) -> np.ndarray:
        if len(self._met) < 2:
            return np.repeat(self.classes[-1:], X.shape[0])
        with np.errstate(all="ignore"):  # a class not met yet has the logarithm of 0
            return np.asarray(self.model.predict(X))


class RiverExpert(Expert):
    """A model of river, which sees every row as a dictionary by the names or numbers of its columns.

    Where it says nothing, it is heard as saying the last class. One that knows two classes only learns and
    says true for the second of them.
    """

    learns = True

    def __init__(self, name: str, model: Any, classes: np.ndarray | None = None) -> None:
        super().__init__(name, self._labels, model)
        self.classes = np.empty(0) if classes is None else classes
        self._several = bool(getattr(model, "_multiclass", True))
        if not self._several and len(self.classes) > 2:
            raise ValueError(
                f"expert {name} knows two classes only, there are {len(self.classes)}; wrap it in "
                "river.multiclass.OneVsRestClassifier"
            )

    def own(self, classes: np.ndarray) -> RiverExpert:
        """A copy."""
        return RiverExpert(self.name, copy.deepcopy(self.model), classes)

    def fit(self, X: Any, y: np.ndarray) -> None:
        """Learn from rows, one after the other."""
        self.learn(X, y, None)

    def learn(self, X: Any, y: np.ndarray, first: tuple[Any, np.ndarray] | None) -> None:
        """Learn from rows, one after the other."""
        labels = y.tolist() if self._several else (y == self.classes[-1]).tolist()
        for x, label in zip(_dictionaries(X), labels, strict=True):
            self.model.learn_one(x, label)

    def _labels(self, X: Any) -> np.ndarray:
        said = [self.model.predict_one(x) for x in _dictionaries(X)]
        if not self._several:
            said = [None if label is None else self.classes[int(label)] for label in said]
        return np.array([self.classes[-1] if label is None else label for label in said])


def expert_of(name: str, model: Any) -> Expert:
    """An expert from a classifier with `predict`, a model of river, or a function of X."""
    if hasattr(model, "predict"):
        return Expert(name, model.predict, model)
    if hasattr(model, "predict_one") and hasattr(model, "learn_one"):
        return RiverExpert(name, model)
    if callable(model):
        return Expert(name, model, model)
    raise ValueError(
        f"expert {name} is {model!r}, expected a classifier with `predict`, a model of river or a "
        "function of X"
    )


def taken(X: Any, rows: Any) -> Any:
    """Some rows of an array, a sparse matrix or a data frame."""
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]


def stacked(parts: Sequence[tuple[Any, np.ndarray]]) -> tuple[Any, np.ndarray]:
    """Rows and labels of all parts, as one."""
    if len(parts) == 1:
        return parts[0]
    pieces = [X for X, _ in parts]
    y = np.concatenate([labels for _, labels in parts])
    if sp.issparse(pieces[0]):
        return sp.vstack(pieces, format="csr"), y
    if hasattr(pieces[0], "iloc"):
        import pandas as pd

        return pd.concat(pieces), y
    if hasattr(pieces[0], "vstack"):  # a frame of polars
        first, *rest = pieces
        for piece in rest:
            first = first.vstack(piece)
        return first, y
    return np.concatenate(pieces), y


def _dictionaries(X: Any) -> list[dict[Any, Any]]:
    """Rows as river wants them."""
    if hasattr(X, "to_dicts"):
        return list(X.to_dicts())
    if hasattr(X, "to_dict"):
        return list(X.to_dict("records"))
    dense = X.toarray() if sp.issparse(X) else np.asarray(X)
    return [dict(enumerate(row)) for row in dense.tolist()]
