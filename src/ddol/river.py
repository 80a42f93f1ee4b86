"""Agents as models of river: one dictionary at a time, nothing known beforehand.

river itself is not needed by anything else in ddol.

Examples
--------
>>> from river import datasets, evaluate, metrics
>>> from ddol.river import Classifier
>>> model = Classifier(n_agents=4, topology="ring")
>>> accuracy = evaluate.progressive_val_score(datasets.Phishing(), model, metrics.Accuracy())
>>> accuracy.get() > 0.85
True
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import expit

from ddol.engines.learner import Learner, Setup
from ddol.estimators.dicts import FeatureColumns
from ddol.estimators.placing import Placement, linear_algorithm
from ddol.trace import Trace

try:
    from river import base
except ImportError as error:
    raise ImportError("ddol.river needs river; install it with: pip install river") from error

if TYPE_CHECKING:
    import pandas as pd

Example = Mapping[Any, Any]


class Agents:
    """The agents behind a model of river: columns of named features, and a learner that grows."""

    def __init__(self, algorithm: Any, columns: FeatureColumns, seed: int) -> None:
        self.columns = columns
        self.learner = Learner(algorithm, Setup(seed=seed, n_features=columns.n_columns))
        self._weights: np.ndarray | None = None

    def learn(self, examples: Sequence[Example], answers: Sequence[float]) -> None:
        """Learn from the next examples of the stream."""
        self.learner.learn(self.columns.rows(examples, answers))
        self._weights = None

    def scores(self, examples: Sequence[Example]) -> np.ndarray:
        """Scores (n, outputs), with the mean of the agents' weights."""
        if self._weights is None:
            self._weights = self.learner.weights().mean(axis=0)
        rows = self.columns.rows(examples, np.zeros(len(examples)), learn=False)
        products = self._weights[:, rows.indices] * rows.data
        return np.add.reduceat(products, rows.indptr[:-1], axis=1).T

    def grow(self, outputs: int) -> None:
        """Make room for more classes."""
        self.learner.grow(outputs)
        self._weights = None


class Classifier(base.MiniBatchClassifier):
    """Linear classifier learned by N agents on a graph, for streams of dictionaries.

    Classes are learned one against the rest, each from when it is first seen. Example k goes to agent
    k mod N.

    Parameters
    ----------
    algorithm : str or Algorithm
        A preset of `ddol.presets`, or an `Algorithm` of your own.
    loss : str
        ``"logistic"`` has probabilities; ``"hinge"``, ``"squared_hinge"``, ``"perceptron"`` have none.
    n_agents, topology, mixing
        The network.
    batch, period : int
        Examples per agent and round; rounds between two averages.
    hash_bits : int or None
        None: every new feature has a column of its own. Otherwise features are hashed into 2^bits.
    seed : int

    Examples
    --------
    >>> model = Classifier()
    >>> for _ in range(10):
    ...     model.learn_one({"length": 3.0, "colour": "red"}, "apple")
    ...     model.learn_one({"length": 9.0, "colour": "yellow"}, "banana")
    >>> model.predict_one({"length": 8.0, "colour": "yellow"})
    'banana'
    """

    def __init__(
        self,
        algorithm: str = "adaptive",
        loss: str = "logistic",
        n_agents: int = 1,
        topology: str = "complete",
        mixing: str | None = None,
        batch: int = 1,
        period: int = 1,
        hash_bits: int | None = None,
        seed: int = 0,
    ) -> None:
        self.algorithm = algorithm
        self.loss = loss
        self.n_agents = n_agents
        self.topology = topology
        self.mixing = mixing
        self.batch = batch
        self.period = period
        self.hash_bits = hash_bits
        self.seed = seed
        self.classes: dict[Any, int] = {}
        self._agents: Agents | None = None

    @property
    def _multiclass(self) -> bool:
        return True

    @property
    def trace(self) -> Trace:
        """Mistakes, losses and curves of the agents so far."""
        return _begun(self._agents).learner.trace()

    def learn_one(self, x: Example, y: Any) -> None:
        """Learn from one example."""
        self._learn([x], [y])

    def learn_many(self, X: pd.DataFrame, y: pd.Series) -> None:
        """Learn from the rows of a data frame, one after the other."""
        self._learn(X.to_dict("records"), y.tolist())

    def predict_proba_one(self, x: Example, **kwargs: Any) -> dict[Any, float]:
        """Chance of every class seen so far."""
        chances = self._chances([x])[0].tolist()
        return dict(zip(self.classes, chances, strict=True))

    def predict_proba_many(self, X: pd.DataFrame) -> pd.DataFrame:
        """Chances of every class seen so far, a column each."""
        import pandas as pd

        return pd.DataFrame(self._chances(X.to_dict("records")), X.index, list(self.classes))

    def predict_one(self, x: Example, **kwargs: Any) -> Any:
        """The most likely class, or None before the first example."""
        return self._predict([x])[0]

    def predict_many(self, X: pd.DataFrame) -> pd.Series:
        """The most likely class of every row."""
        import pandas as pd

        return pd.Series(self._predict(X.to_dict("records")), X.index)

    def _learn(self, examples: Sequence[Example], labels: Sequence[Any]) -> None:
        # A class that comes in the middle of a block must not exist before its first example.
        start = 0
        for k, label in enumerate(labels):
            if label not in self.classes:
                self._learn_known(examples[start:k], labels[start:k])
                self.classes[label] = len(self.classes)
                start = k
        self._learn_known(examples[start:], labels[start:])

    def _learn_known(self, examples: Sequence[Example], labels: Sequence[Any]) -> None:
        if not len(examples):
            return
        if self._agents is None:
            self._agents = _start(self, outputs=2)
        self._agents.grow(len(self.classes))
        self._agents.learn(examples, [float(self.classes[label]) for label in labels])

    def _scores(self, examples: Sequence[Example]) -> np.ndarray:
        if self._agents is None:
            return np.empty((len(examples), 0))
        return self._agents.scores(examples)[:, : len(self.classes)]

    def _chances(self, examples: Sequence[Example]) -> np.ndarray:
        if self.loss != "logistic":
            raise NotImplementedError(f"the loss {self.loss} has no probabilities; use logistic")
        chances = np.maximum(expit(self._scores(examples)), 1e-300)
        return chances / chances.sum(axis=1, keepdims=True)

    def _predict(self, examples: Sequence[Example]) -> list[Any]:
        if not self.classes:
            return [None] * len(examples)
        labels = list(self.classes)
        return [labels[k] for k in self._scores(examples).argmax(axis=1)]


class Regressor(base.MiniBatchRegressor):
    """Linear regression learned by N agents on a graph, for streams of dictionaries.

    Parameters
    ----------
    algorithm : str or Algorithm
    loss : str
        ``"squared"``, ``"absolute"``, ``"huber"``, ``"epsilon_insensitive"`` or ``"quantile"``.
    n_agents, topology, mixing, batch, period, hash_bits, seed
        As in `Classifier`.

    Examples
    --------
    >>> model = Regressor()
    >>> for k in range(500):
    ...     model.learn_one({"x": k % 10}, 2.0 * (k % 10) + 1.0)
    >>> abs(model.predict_one({"x": 4}) - 9.0) < 0.5
    True
    """

    def __init__(
        self,
        algorithm: str = "adaptive",
        loss: str = "squared",
        n_agents: int = 1,
        topology: str = "complete",
        mixing: str | None = None,
        batch: int = 1,
        period: int = 1,
        hash_bits: int | None = None,
        seed: int = 0,
    ) -> None:
        self.algorithm = algorithm
        self.loss = loss
        self.n_agents = n_agents
        self.topology = topology
        self.mixing = mixing
        self.batch = batch
        self.period = period
        self.hash_bits = hash_bits
        self.seed = seed
        self._agents: Agents | None = None

    @property
    def trace(self) -> Trace:
        """Losses and curves of the agents so far."""
        return _begun(self._agents).learner.trace()

    def learn_one(self, x: Example, y: float) -> None:
        """Learn from one example."""
        self._learn([x], [y])

    def learn_many(self, X: pd.DataFrame, y: pd.Series) -> None:
        """Learn from the rows of a data frame, one after the other."""
        self._learn(X.to_dict("records"), y.tolist())

    def predict_one(self, x: Example) -> float:
        """The prediction; 0 before the first example."""
        return float(self._scores([x])[0])

    def predict_many(self, X: pd.DataFrame) -> pd.Series:
        """The prediction for every row."""
        import pandas as pd

        return pd.Series(self._scores(X.to_dict("records")), X.index)

    def _learn(self, examples: Sequence[Example], answers: Sequence[float]) -> None:
        if self._agents is None:
            self._agents = _start(self, outputs=1)
        self._agents.learn(examples, [float(answer) for answer in answers])

    def _scores(self, examples: Sequence[Example]) -> np.ndarray:
        if self._agents is None:
            return np.zeros(len(examples))
        return self._agents.scores(examples)[:, 0]


def _start(model: Classifier | Regressor, outputs: int) -> Agents:
    """Agents as the parameters of a model say."""
    algorithm = linear_algorithm(
        model.algorithm, model.loss, batch=model.batch, period=model.period, outputs=outputs
    )
    network = Placement(model.n_agents, model.topology, model.mixing)
    placed = network.place(algorithm, seed=model.seed)
    return Agents(placed, FeatureColumns(model.hash_bits), model.seed)


def _begun(agents: Agents | None) -> Agents:
    if agents is None:
        raise AttributeError("there is no trace before the first example")
    return agents
