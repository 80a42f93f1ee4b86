"""What a run leaves for later: weights, labels and figures in one file that can predict."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ddol.storage import check_shapes, damaged, read_arrays, write_arrays
from ddol.streams.errors import DataError
from ddol.streams.hashing import hash_rows
from ddol.streams.rows import Rows
from ddol.streams.stumps import Stumps
from ddol.trace import Trace
from ddol.update.losses import Loss, loss_named
from ddol.update.majority import TIE

KIND = "model"
_FIGURES = (
    "engine",
    "workers",
    "mixing",
    "examples",
    "rounds",
    "seconds",
    "bytes_sent",
    "consensus",
    "seed",
)


@dataclass(frozen=True)
class Reading:
    """How the columns of the data became the features of the model.

    Parameters
    ----------
    n_features : int
        Columns of the data.
    intercept : bool
        Whether weight 0 is that of a constant 1, before those of the columns.
    bits : int or None
        Logarithm of the number of hashed columns.
    """

    n_features: int
    intercept: bool = False
    bits: int | None = None

    @property
    def width(self) -> int:
        """Number of weights per output, experts aside."""
        return (1 << self.bits if self.bits else self.n_features) + self.intercept


@dataclass(frozen=True)
class Model:
    """The agents' average after a run, with what is needed to predict.

    Parameters
    ----------
    weights : (outputs, width)
        Mean over agents of the primal weights; of experts' weights, which sum to 1.
    classes : tuple of float or None
        Labels in rising order; None for regression.
    reading : Reading
    loss : str
        Name of the loss; logistic has probabilities.
    algorithm : dict
        Name and settings, for people to read.
    training : dict
        Figures of the run.
    stumps : Stumps or None
        The experts of weighted majority.

    Examples
    --------
    >>> model = Model(np.array([[0.5, 1.0, -1.0]]), (0.0, 1.0), Reading(2, intercept=True))
    >>> model.predict([[1.0, 0.0], [0.0, 2.0]])
    array([1, 0])
    """

    weights: np.ndarray
    classes: tuple[float, ...] | None
    reading: Reading
    loss: str = "hinge"
    algorithm: dict[str, Any] = field(default_factory=dict)
    training: dict[str, Any] = field(default_factory=dict)
    stumps: Stumps | None = None
    version: str = ""

    @property
    def n_features(self) -> int:
        """Columns of the data."""
        return self.reading.n_features

    @property
    def labels(self) -> np.ndarray:
        """Labels of the classes, whole numbers where all are."""
        if self.classes is None:
            raise ValueError("a regression model has no classes")
        values = np.array(self.classes)
        return values.astype(np.int64) if np.all(values == np.rint(values)) else values

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores: (n,) for two classes and regression, (n, classes) for more.

        Parameters
        ----------
        X : array, scipy sparse matrix, data frame or Rows
        """
        rows = self._checked(as_rows(X))
        if self.reading.bits:
            rows = hash_rows(rows, self.reading.bits)
        if self.stumps is not None:
            rows = self.stumps.advice(rows)
        bias = self.weights[:, 0] if self.reading.intercept else 0.0
        scores = _products(rows, self.weights[:, int(self.reading.intercept) :]) + bias
        if self.stumps is not None:
            scores[np.abs(scores) <= TIE] = 0.0
        return scores[:, 0] if len(self.weights) == 1 else scores

    def predict(self, X: Any) -> np.ndarray:
        """Labels; numbers for a regression model. Score 0 is the positive class.

        Parameters
        ----------
        X : see `decision_function`
        """
        scores = self.decision_function(X)
        if self.classes is None:
            return scores
        return self.labels[(scores >= 0).astype(int) if scores.ndim == 1 else scores.argmax(1)]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Chance of every class (n, classes), for models whose loss has it.

        Several classes have one chance each (one against all), scaled to sum to 1.
        """
        chance = self.probability()
        scores = np.asarray(self.decision_function(X))
        each = np.vectorize(chance, otypes=[float])(scores) if scores.size else scores
        if each.ndim == 1:
            return np.column_stack([1.0 - each, each])
        return each / each.sum(axis=1, keepdims=True)

    def save(self, path: str | Path) -> None:
        """Write the model beside ``path`` and rename it."""
        arrays = {"weights": self.weights}
        if self.stumps is not None:
            arrays |= {f"stumps.{name}": array for name, array in vars(self.stumps).items()}
        header = {
            "version": self.version,
            "classes": None if self.classes is None else list(self.classes),
            "reading": asdict(self.reading),
            "loss": self.loss,
            "outputs": len(self.weights),
            "experts": 0 if self.stumps is None else len(self.stumps),
            "algorithm": self.algorithm,
            "training": self.training,
        }
        write_arrays(path, KIND, arrays, header)

    def probability(self) -> Any:
        """The function from score to chance, or an error where the loss has none."""
        loss: Loss = loss_named(self.loss)
        if self.classes is None or loss.probability is None:
            what = "a regression model" if self.classes is None else f"the loss {self.loss}"
            raise DataError(f"{what} gives no probabilities; train with the loss logistic")
        return loss.probability

    def _checked(self, rows: Rows) -> Rows:
        """Rows in the model's space, or an error if they have other columns."""
        expected = self.reading.n_features
        if self.reading.bits:
            return rows
        if rows.n_features > expected or (rows.dense and rows.n_features < expected):
            raise DataError(
                f"found {rows.n_features} columns, expected the model's {expected}; "
                "give the columns that the model was trained on"
            )
        return rows if rows.dense else rows.widen(expected)


def load(path: str | Path) -> Model:
    """Read a model that ``ddol train --model`` or `Model.save` wrote.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "tiny.ddol")
    >>> Model(np.array([[1.0]]), (-1.0, 1.0), Reading(1)).save(path)
    >>> load(path).predict([[3.0], [-3.0]])
    array([ 1, -1])
    """
    arrays, header = read_arrays(path, KIND)
    with damaged(path, KIND):
        reading = Reading(**header["reading"])
        outputs, experts = int(header["outputs"]), int(header["experts"])
        width = experts or reading.width
        expected: dict[str, tuple[int, ...]] = {"weights": (outputs, width)}
        if experts:
            expected |= {f"stumps.{f}": (experts,) for f in Stumps.__dataclass_fields__}
        check_shapes(path, arrays, expected)
        classes = header["classes"]
        stumps = {name.removeprefix("stumps."): arrays[name] for name in expected}
        stumps.pop("weights")
        return Model(
            weights=_finite(path, arrays["weights"]),
            classes=None if classes is None else tuple(float(c) for c in classes),
            reading=reading,
            loss=str(header["loss"]),
            algorithm=dict(header["algorithm"]),
            training=dict(header["training"]),
            stumps=Stumps(**stumps) if experts else None,
            version=str(header["version"]),
        )


def model_of(
    trace: Trace,
    classes: tuple[float, ...] | None,
    reading: Reading,
    stumps: Stumps | None = None,
    settings: dict[str, Any] | None = None,
) -> Model:
    """The model that a run leaves: the mean over agents of their weights.

    Parameters
    ----------
    trace : Trace
    classes, reading, stumps
        See `Model`.
    settings : dict, optional
        What else to keep about the algorithm.
    """
    # A stream may end before it has shown every column that it was said to have, or show more.
    weights = trace.weights.mean(axis=0)
    if stumps is None and not reading.bits:
        reading = Reading(weights.shape[1] - reading.intercept, reading.intercept)
    figures = {k: v for k, v in trace.to_dict().items() if k in _FIGURES}
    figures["mean_loss"] = trace.mean_loss
    if trace.classification:
        figures |= {"mistakes": int(trace.mistakes.sum()), "error": trace.error}
    return Model(
        weights=weights,
        classes=classes,
        reading=reading,
        loss=trace.algorithm.loss.name,
        algorithm={"name": trace.name, **(settings or {})},
        training=figures,
        stumps=stumps,
        version=trace.version,
    )


def as_rows(X: Any) -> Rows:
    """Rows of what users predict on: an array, a sparse matrix, a data frame, or Rows.

    Examples
    --------
    >>> len(as_rows([[1.0, 2.0]]))
    1
    """
    if isinstance(X, Rows):
        return X
    from ddol.streams.arrays import array_stream

    n = X.shape[0] if hasattr(X, "shape") else len(X)
    return array_stream(X, np.zeros(n)).rows


def _products(rows: Rows, weights: np.ndarray) -> np.ndarray:
    if rows.dense:
        return rows.data.reshape(len(rows), rows.n_features) @ weights.T
    return np.asarray(rows.to_scipy() @ weights.T)


def _finite(path: str | Path, weights: np.ndarray) -> np.ndarray:
    if weights.dtype != np.float64 or not math.isfinite(float(np.abs(weights).sum())):
        raise DataError(f"{path}: found weights that are not finite numbers; train the model again")
    return weights
