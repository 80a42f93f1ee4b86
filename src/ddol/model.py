"""What a run leaves for later: weights, labels and figures in one file that can predict."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ddol.storage import Expected, check_arrays, damaged, read_arrays, write_arrays
from ddol.streams.encoder import Encoder
from ddol.streams.encoding import Encoding
from ddol.streams.errors import DataError
from ddol.streams.labels import Label, listed
from ddol.streams.raw import Named, Raw, Table, table_of_frame
from ddol.streams.rows import Rows
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
class Model:
    """The agents' average after a run, with what is needed to predict.

    Parameters
    ----------
    weights : (outputs, width)
        Mean over agents of the primal weights; of experts' weights, which sum to 1.
    encoding : Encoding
        What columns, labels and sites are called, and how they become features.
    loss : str
        Name of the loss; logistic has probabilities.
    algorithm : dict
        Name and settings, for people to read.
    training : dict
        Figures of the run.
    agents : (agents, outputs, width)
        Weights of every agent, where they differ; empty where all share the mean.

    Examples
    --------
    >>> model = Model(np.array([[0.5, 1.0, -1.0]]), Encoding(classes=(0.0, 1.0), intercept=True))
    >>> model.predict([[1.0, 0.0], [0.0, 2.0]])
    array([1, 0])
    """

    weights: np.ndarray
    encoding: Encoding
    loss: str = "hinge"
    algorithm: dict[str, Any] = field(default_factory=dict)
    training: dict[str, Any] = field(default_factory=dict)
    version: str = ""
    agents: np.ndarray = field(default_factory=lambda: np.empty((0, 0, 0)))

    @property
    def classes(self) -> tuple[Label, ...] | None:
        """Labels in rising order; None for regression."""
        return self.encoding.classes

    @property
    def labels(self) -> np.ndarray:
        """Labels of the classes, whole numbers where all are."""
        return self.encoding.labels()

    def encoder(self, **options: Any) -> Encoder:
        """What turns raw blocks into the model's rows; no labels are needed.

        Parameters
        ----------
        **options
            See `Encoder`.
        """
        return Encoder(self.encoding, **{"learning": False, "labelled": False, **options})

    def agent_number(self, name: str | int) -> int:
        """Number of an agent, given by its name or its number from 0."""
        sites = self.encoding.sites
        if name in sites:
            return sites.index(str(name))
        count = max(len(self.agents), int(self.training.get("agents", 1)), len(sites))
        if str(name).isdigit() and int(name) < count:
            return int(name)
        known = f"one of {listed(sites)}" if sites else f"a number from 0 to {count - 1}"
        raise DataError(f"found no agent {name!r}, expected {known}")

    def decision_function(self, X: Any, agent: str | int | None = None) -> np.ndarray:
        """Scores: (n,) for two classes and regression, (n, classes) for more.

        Parameters
        ----------
        X : array, scipy sparse matrix, data frame, or a raw block
            Columns of a data frame are found by their names.
        agent : name or number, optional
            Whose weights are used; the mean of all by default.
        """
        return self.scores(self.encoder().rows(as_raw(X)), agent)

    def scores(self, rows: Rows, agent: str | int | None = None) -> np.ndarray:
        """Scores of rows that are encoded already; see `decision_function`."""
        weights = self.weights
        if agent is not None:
            number = self.agent_number(agent)
            weights = self.agents[number] if len(self.agents) else weights
        scores = _products(rows, weights)
        if self.encoding.stumps is not None:
            scores[np.abs(scores) <= TIE] = 0.0
        return scores[:, 0] if len(self.weights) == 1 else scores

    def predict(self, X: Any, agent: str | int | None = None) -> np.ndarray:
        """Labels; numbers for a regression model. Score 0 is the positive class.

        Parameters
        ----------
        X, agent : see `decision_function`
        """
        return self.labels_of(self.decision_function(X, agent))

    def labels_of(self, scores: np.ndarray) -> np.ndarray:
        """Labels that scores stand for; of a regression model, the scores."""
        if self.classes is None:
            return scores
        return self.labels[(scores >= 0).astype(int) if scores.ndim == 1 else scores.argmax(1)]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Chance of every class (n, classes), for models whose loss has it.

        Several classes have one chance each (one against all), scaled to sum to 1.
        """
        return self.chances_of(np.asarray(self.decision_function(X)))

    def chances_of(self, scores: np.ndarray) -> np.ndarray:
        """Chances that scores stand for; see `predict_proba`."""
        chance = self.probability()
        each = np.vectorize(chance, otypes=[float])(scores) if scores.size else scores
        if each.ndim == 1:
            return np.column_stack([1.0 - each, each])
        return each / each.sum(axis=1, keepdims=True)

    def save(self, path: str | Path) -> None:
        """Write the model beside ``path`` and rename it."""
        plain, arrays = self.encoding.to_plain()
        header = {
            "version": self.version,
            "encoding": plain,
            "loss": self.loss,
            "outputs": len(self.weights),
            "width": self.weights.shape[1],
            "agents": len(self.agents),
            "algorithm": self.algorithm,
            "training": self.training,
        }
        kept = {
            "weights": self.weights,
            "agents": self.agents,
            **{f"encoding.{k}": v for k, v in arrays.items()},
        }
        write_arrays(path, KIND, kept, header)

    @property
    def has_chances(self) -> bool:
        """Whether there are chances of the classes."""
        return self.classes is not None and loss_named(self.loss).probability is not None

    def probability(self) -> Any:
        """The function from score to chance, or an error where the loss has none."""
        loss: Loss = loss_named(self.loss)
        if self.classes is None or loss.probability is None:
            what = "a regression model" if self.classes is None else f"the loss {self.loss}"
            raise DataError(f"{what} gives no probabilities; train with the loss logistic")
        return loss.probability


def load(path: str | Path) -> Model:
    """Read a model that ``ddol train --model`` or `Model.save` wrote.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "tiny.ddol")
    >>> Model(np.array([[1.0]]), Encoding(n_features=1, classes=(-1.0, 1.0))).save(path)
    >>> load(path).predict([[3.0], [-3.0]])
    array([ 1, -1])
    """
    arrays, header = read_arrays(path, KIND)
    with damaged(path, KIND):
        own = [name for name in arrays if name.startswith("encoding.")]
        parts = {name.removeprefix("encoding."): arrays[name] for name in own}
        encoding = Encoding.from_plain(header["encoding"], parts)
        shape = int(header["outputs"]), int(header["width"])
        agents = int(header["agents"])
        each = (agents, *shape) if agents else (0, 0, 0)
        expected = {"weights": Expected("float64", shape), "agents": Expected("float64", each)}
        check_arrays(path, {k: v for k, v in arrays.items() if k in expected}, expected)
        if encoding.width is not None and encoding.width != shape[1]:
            raise ValueError(f"{shape[1]} weights for {encoding.width} features")
        if encoding.n_outputs != shape[0] and encoding.stumps is None:
            raise ValueError(f"{shape[0]} weight vectors for {encoding.n_outputs} outputs")
        return Model(
            weights=_finite(path, arrays["weights"]),
            encoding=encoding,
            loss=str(header["loss"]),
            algorithm=dict(header["algorithm"]),
            training=dict(header["training"]),
            version=str(header["version"]),
            agents=_finite(path, arrays["agents"]),
        )


def model_of(trace: Trace, encoding: Encoding, settings: dict[str, Any] | None = None) -> Model:
    """The model that a run leaves: the mean over agents of their weights.

    Parameters
    ----------
    trace : Trace
    encoding : Encoding
        Of the data that the run learned from.
    settings : dict, optional
        What else to keep about the algorithm.
    """
    agents = trace.weights
    weights = agents.mean(axis=0)
    if encoding.stumps is None and encoding.columns is None and encoding.bits is None:
        # A stream may end before it has shown every column that it was said to have, or show more.
        encoding = replace(encoding, n_features=weights.shape[1] - encoding.intercept)
    missing = (encoding.width or 0) - weights.shape[1]
    if missing > 0:  # names that were read ahead and not learned from
        weights = np.pad(weights, ((0, 0), (0, missing)))
        agents = np.pad(agents, ((0, 0), (0, 0), (0, missing)))
    figures = {k: v for k, v in trace.to_dict().items() if k in _FIGURES}
    figures |= {"mean_loss": trace.mean_loss, "agents": trace.agents}
    if trace.classification:
        figures |= {"mistakes": int(trace.mistakes.sum()), "error": trace.error}
    return Model(
        weights=weights,
        encoding=encoding,
        loss=trace.algorithm.loss.name,
        algorithm={"name": trace.name, **(settings or {})},
        training=figures,
        version=trace.version,
        agents=agents if len(agents) > 1 else np.empty((0, 0, 0)),
    )


def as_raw(X: Any) -> Raw:
    """A raw block of what users predict on: an array, a sparse matrix, a data frame, or a raw block.

    Examples
    --------
    >>> len(as_raw([[1.0, 2.0]]))
    1
    """
    if isinstance(X, Rows | Table | Named):
        return X
    if hasattr(X, "columns"):
        return table_of_frame(X)
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
