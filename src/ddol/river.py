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

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from ddol.estimators.dicts import Asker, DictLearner, Example, KeptExamples
from ddol.estimators.placing import (
    exchanges_of,
    given_parameters,
    later_names,
    linear_algorithm,
    loss_of,
    network_of,
    takes_presets,
)
from ddol.job.algorithm import on_network
from ddol.trace import Trace

try:
    from river import base
except ImportError as error:
    raise ImportError("ddol.river needs river; install it with: pip install river") from error

if TYPE_CHECKING:
    import pandas as pd


def _content(x: Example) -> frozenset:
    """An example as the key of what is known of it."""
    return frozenset(x.items())


@dataclass(eq=False, repr=False)
class DictModel:
    """What both models share: agents that begin with the first example, and examples that wait for labels."""

    algorithm: str = "adaptive"
    loss: str = "logistic"
    n_agents: int = 1
    topology: str = "complete"
    mixing: str | None = None
    batch: int = 1
    period: int = 1
    delay: int = 0
    safe: bool = False
    privacy: str | None = None
    gradient: str | None = None
    hash_bits: int | None = None
    seed: int = 0
    waiting: int = 1024
    kept: KeptExamples = field(init=False)
    _agents: DictLearner | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.kept = KeptExamples(self.waiting)

    def _get_params(self) -> dict[str, Any]:
        later = {name: getattr(self, name, None) for name in later_names(type(self))}
        return {**super()._get_params(), **later}  # type: ignore[misc]

    @property
    def trace(self) -> Trace:
        """Mistakes, losses and curves of the agents so far.

        A classifier has an output for every class, over which losses are summed: with two classes and one
        against the rest they are twice those of `ddol.run`.
        """
        return self._begun().learner.trace()

    def learn_one(
        self,
        x: Example | None,
        y: Any,
        w: float = 1.0,
        agent: Any = None,
        identifier: Any = None,
    ) -> None:
        """Learn from one example.

        The answer to a prediction that was made with an identifier goes to the agent that made it.

        Parameters
        ----------
        x : features by name
            Numbers, truth values and text, which is a feature ``name=text`` of value 1.
        y : label or number
        w : float
            Importance of the example.
        agent : any id, optional
            Whose example it is, in all calls or in none; by default agents take turns. The answer to a
            prediction is learned by the agent that was asked, if it is not said.
        identifier : optional
            Of the prediction that this is the answer to; x may be None then. It goes on waiting if the
            answer is refused, and a KeyError says that no prediction waits: it was never made, is answered,
            or was dropped because more than `waiting` predictions were made after it.
        """
        kept = self.kept.of(identifier, x, agent)
        turns = agent is None and self._agents is not None and not self._agents.ids.known
        self._learn([kept.example], [y], None if turns else kept.agent, w)
        self.kept.remove(identifier)

    def learn_many(self, X: pd.DataFrame, y: pd.Series) -> None:
        """Learn from the rows of a data frame, one after the other."""
        self._learn(X.to_dict("records"), y.tolist(), None, 1.0)

    def _learn(
        self, examples: Sequence[Example], answers: Sequence[Any], agent: Any, weight: float
    ) -> None:
        raise NotImplementedError

    def _begun(self) -> DictLearner:
        if self._agents is None:
            raise AttributeError("there is no trace before the first example")
        return self._agents

    def _start(self, outputs: int) -> DictLearner:
        """Agents by the parameters."""
        given = given_parameters(self) | {"loss": self.loss}
        places = exchanges_of(self) | {"outputs": outputs}
        places.pop("query", None)  # that of `ask`: what is learned here has its label already
        algorithm = linear_algorithm(self.algorithm, given, places)
        placed = on_network(algorithm, network_of(self, self.seed))
        return DictLearner(placed, self.hash_bits, self.seed)


@takes_presets(experts=False, but=("loss", "query", "average_iterates"))
@dataclass(eq=False, repr=False)
class Classifier(DictModel, base.MiniBatchClassifier):
    """Linear classifier learned by N agents on a graph, for streams of dictionaries.

    Classes are learned from when they are first seen: three and more together by the logistic loss
    (softmax), else one against the rest. Example k goes to agent k mod N.

    Parameters
    ----------
    algorithm : str or Algorithm
        A preset of `ddol.presets`, or an `Algorithm` of your own.
    loss : str
        ``"logistic"``, ``"squared_hinge"`` and ``"modified_huber"`` have probabilities; ``"hinge"`` and
        ``"perceptron"`` have none.
    n_agents, topology, mixing
        The network.
    batch, period, delay : int
        Examples per agent and round; rounds between two averages; rounds between a prediction and its
        label.
    privacy : str or None
        Such as ``"epsilon:4"``: what agents send is differentially private; see `ddol.private`.
    hash_bits : int or None
        None: every new feature has a column of its own. Otherwise features are hashed into 2^bits.
    seed : int
    waiting : int
        Predictions with an identifier that may wait for their labels; the oldest is dropped to make room.
    query : str, float or None
        Rule by which `ask` decides, such as 0.2 for at most a fifth of the labels.

    Examples
    --------
    >>> model = Classifier()
    >>> for _ in range(10):
    ...     model.learn_one({"length": 3.0, "colour": "red"}, "apple")
    ...     model.learn_one({"length": 9.0, "colour": "yellow"}, "banana")
    >>> model.predict_one({"length": 8.0, "colour": "yellow"})
    'banana'
    """

    query: str | float | None = None
    classes: dict[Any, int] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._asker = Asker(self.query, self.seed)

    @property
    def _multiclass(self) -> bool:
        return True

    @property
    def weights(self) -> dict[Any, dict[str, float]]:
        """Mean of the agents' weights by class and by the name of the feature."""
        by_name, _ = self._begun().weights()
        return {
            label: {name: float(each[k]) for name, each in by_name.items()}
            for label, k in self.classes.items()
        }

    def ask(self, x: Example, agent: Any = None) -> bool:
        """Whether to ask for the label of an example, by the rule `query`; if so, learn from it next.

        Examples
        --------
        >>> model, asked = Classifier(query=0.25), 0
        >>> for k in range(200):
        ...     x = {"x": k % 7 - 3.0}
        ...     if model.ask(x):
        ...         model.learn_one(x, k % 7 > 3)
        ...         asked += 1
        >>> asked == model.labels <= 50
        True

        By ``unbiased:1`` an answer that was asked for weighs 1/probability when the same example is learned.
        """
        example = _content(x) if self._asker.weighs else None
        return self._asker.ask(self._scores([x], agent)[0].tolist(), agent, example)

    @property
    def labels(self) -> int:
        """Labels that `ask` has asked for."""
        return self._asker.labels

    def predict_proba_one(
        self, x: Example, agent: Any = None, identifier: Any = None
    ) -> dict[Any, float]:
        """Probability of every class seen so far, by all agents together or by one; see `predict_one`."""
        self.kept.keep(identifier, x, agent)
        chances = self._chances([x], agent)[0].tolist()
        return dict(zip(self.classes, chances, strict=True))

    def predict_proba_many(self, X: pd.DataFrame) -> pd.DataFrame:
        """Probabilities of every class seen so far, a column each."""
        import pandas as pd

        return pd.DataFrame(self._chances(X.to_dict("records")), X.index, list(self.classes))

    def predict_one(self, x: Example, agent: Any = None, identifier: Any = None) -> Any:
        """The most likely class, by all agents together or by one; None before the first example.

        An agent that has not learned yet predicts as all agents together do. With an identifier the example
        is kept until `learn_one` has its answer; of more than `waiting` the oldest is dropped, and counted
        in ``kept.unanswered``.
        """
        self.kept.keep(identifier, x, agent)
        return self._predict([x], agent)[0]

    def predict_many(self, X: pd.DataFrame) -> pd.Series:
        """The most likely class of every row."""
        import pandas as pd

        return pd.Series(self._predict(X.to_dict("records")), X.index)

    def _learn(
        self, examples: Sequence[Example], labels: Sequence[Any], agent: Any, weight: float
    ) -> None:
        # A class that comes in the middle of a block must not exist before its first example.
        cuts, known = [0], set(self.classes)
        for k, label in enumerate(labels):
            if label is None or label != label:
                raise ValueError(f"`y` is {label!r}, expected a label; leave the example out")
            if label not in known:
                known.add(label)
                cuts.append(k)
        for lo, hi in pairwise([*cuts, len(labels)]):
            if lo < hi:
                self._learn_part(examples[lo:hi], labels[lo:hi], agent, weight)

    def _learn_part(
        self, examples: Sequence[Example], labels: Sequence[Any], agent: Any, weight: float
    ) -> None:
        """Learn from examples of which only the first may be of a new class."""
        if self._agents is None:
            self._agents = self._start(outputs=2)
        if self._asker.weighs and len(examples) == 1:
            weight *= self._asker.weight(_content(examples[0]))
        before = dict(self.classes)
        self.classes.setdefault(labels[0], len(self.classes))
        self._agents.learner.grow(len(self.classes))
        answers = [float(self.classes[label]) for label in labels]
        try:
            self._agents.learn(examples, answers, agent, weight)
        except ValueError:
            self.classes = before  # no example of it was learned
            raise

    def _scores(self, examples: Sequence[Example], agent: Any = None) -> np.ndarray:
        if self._agents is None:
            return np.empty((len(examples), 0))
        return self._agents.scores(examples, agent)[:, : len(self.classes)]

    def _chances(self, examples: Sequence[Example], agent: Any = None) -> np.ndarray:
        loss, scores = loss_of(self.loss), self._scores(examples, agent)
        if loss.probability is None:
            raise NotImplementedError(f"the loss {loss.name} has no probabilities; use logistic")
        return loss.chances(scores) if scores.shape[1] > 1 else np.ones_like(scores)

    def _predict(self, examples: Sequence[Example], agent: Any = None) -> list[Any]:
        if not self.classes:
            return [None] * len(examples)
        labels = list(self.classes)
        return [labels[k] for k in self._scores(examples, agent).argmax(axis=1).tolist()]


@takes_presets(experts=False, but=("loss", "query", "average_iterates"))
@dataclass(eq=False, repr=False)
class Regressor(DictModel, base.MiniBatchRegressor):
    """Linear regression learned by N agents on a graph, for streams of dictionaries.

    Parameters
    ----------
    algorithm : str or Algorithm
    loss : str
        ``"squared"``, ``"absolute"``, ``"huber"``, ``"epsilon_insensitive"`` or ``"quantile"``.
    n_agents, topology, mixing, batch, period, delay, hash_bits, seed, waiting
        As in `Classifier`.

    Examples
    --------
    >>> model = Regressor()
    >>> for k in range(500):
    ...     model.learn_one({"x": k % 10}, 2.0 * (k % 10) + 1.0)
    >>> abs(model.predict_one({"x": 4}) - 9.0) < 0.5
    True
    """

    loss: str = "squared"

    @property
    def weights(self) -> dict[str, float]:
        """Mean of the agents' weights by the name of the feature."""
        by_name, _ = self._begun().weights()
        return {name: float(each[0]) for name, each in by_name.items()}

    @property
    def intercept(self) -> float:
        """Mean of the agents' intercepts."""
        return float(self._begun().weights()[1][0])

    def predict_one(self, x: Example, agent: Any = None, identifier: Any = None) -> float:
        """The prediction, by all agents together or by one; 0 before the first example."""
        self.kept.keep(identifier, x, agent)
        return float(self._scores([x], agent)[0])

    def predict_many(self, X: pd.DataFrame) -> pd.Series:
        """The prediction for every row."""
        import pandas as pd

        return pd.Series(self._scores(X.to_dict("records")), X.index)

    def _learn(
        self, examples: Sequence[Example], answers: Sequence[float], agent: Any, weight: float
    ) -> None:
        numbers = [_number(answer) for answer in answers]
        if self._agents is None:
            self._agents = self._start(outputs=1)
        self._agents.learn(examples, numbers, agent, weight)

    def _scores(self, examples: Sequence[Example], agent: Any = None) -> np.ndarray:
        if self._agents is None:
            return np.zeros(len(examples))
        return self._agents.scores(examples, agent)[:, 0]


def _number(answer: Any) -> float:
    """A label of a regression, which must be a finite number."""
    try:
        number = float(answer)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"`y` is {answer!r}, expected a finite number; leave the example out")
    return number
