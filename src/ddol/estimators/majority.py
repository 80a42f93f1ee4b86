"""`WeightedMajorityClassifier`: agents that weigh the advice of experts."""

from __future__ import annotations

import warnings
from dataclasses import KW_ONLY, dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassifierMixin, _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import _check_partial_fit_first_call, check_classification_targets
from sklearn.utils.validation import (
    _check_y,
    check_consistent_length,
    check_is_fitted,
    validate_data,
)

from ddol.algorithm import Algorithm
from ddol.estimators.agents import QUERY, AgentsEstimator, LearningAgents
from ddol.estimators.expert_pool import (
    ADVICE,
    AdviceGiven,
    ExpertPool,
    StumpPool,
    default_experts,
)
from ddol.estimators.experts import taken
from ddol.estimators.frames import TakesFrames
from ddol.estimators.placing import exchanges_of, given_parameters, takes_presets
from ddol.estimators.training_rows import TrainingRows, rows_of
from ddol.job.algorithm import algorithm_named
from ddol.streams.coding.encoding import Encoding
from ddol.streams.coding.labels import answers, class_numbers
from ddol.streams.tables.frames import in_memory, with_answers
from ddol.trace import Trace


@takes_presets(experts=True, but=("n_classes", "average"))
@dataclass(eq=False, repr=False)
class WeightedMajorityClassifier(TakesFrames, ClassifierMixin, AgentsEstimator):
    """Weighted majority of experts, learned by N agents on a graph (the paper's DWM-I and DWM-A).

    Every agent keeps a weight for every expert, follows the weighted majority, multiplies the weights
    of experts that were wrong by `alpha`, and averages its weights with its neighbours.

    Parameters
    ----------
    experts : list, int, "advice" or None, default=None
        A list of classifiers or pipelines of scikit-learn, models of river, functions of X that return
        labels, or pairs (name, one of these). Unfitted classifiers are cloned. `fit` fits them on the
        first part of the rows; with `partial_fit` they learn as the stream goes on, each after it was
        heard. Fitted ones stay as they are. An int P is that many decision stumps, for two classes.
        ``"advice"``: X itself is the experts' advice, one column of labels each. None is a naive
        Bayes classifier, a decision tree and nearest neighbours.
    average : {"dual", "primal"}, default="dual"
        Neighbours' geometric (DWM-I) or arithmetic (DWM-A) mean.
    randomized : bool, default=False
        Follow one expert, drawn with probability w_p/Σw, instead of the majority.
    fit_fraction : float in (0, 1), default=0.3
        First part of the rows of `fit` on which unfitted experts are fitted; the agents learn from the
        rest.
    holdout : float, default=None
        Deprecated name of `fit_fraction`.
    fit_rows : int, default=1000
        With `partial_fit`: first rows of the stream on which stumps and experts that have no
        `partial_fit` themselves are fitted, anew whenever these rows have doubled.
    n_agents, topology, mixing, engine, workers, batch, period, delay, gradient
        As in `DDOLClassifier`.
    query : float or str, default=None
        As in `DDOLClassifier`; ``"experts"`` is the rule for experts.
    shuffle : bool, default=False
        Whether `fit` takes the rows in random order. The order of a stream that drifts matters.
    random_state : int, RandomState or None, default=None
    verbose : int, default=0

    Attributes
    ----------
    classes_ : (n_classes,)
    weights_ : (n_agents, n_experts)
        Weights of the experts at each agent; each row sums to 1.
    expert_mistakes_ : (n_agents, n_experts)
        Wrong advice on each agent's own examples.
    expert_names_ : list of str
    experts_ : the experts, fitted
    n_features_in_ : int
    feature_names_in_ : (n_features_in_,) of str
        Only where X has names.
    trace_ : Trace
        Mistakes and curves of the agents.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> X, y = make_classification(600, random_state=0)
    >>> trees = [DecisionTreeClassifier(max_depth=d, random_state=0) for d in (1, 3, 9)]
    >>> model = WeightedMajorityClassifier(trees, n_agents=2).fit(X, y)
    >>> model.weights_.shape, model.report().heaviest[0] in model.expert_names_
    ((2, 3), True)
    """

    experts: Any = None
    _: KW_ONLY
    average: str = "dual"
    randomized: bool = False
    fit_fraction: float = 0.3
    holdout: float | None = None
    fit_rows: int = 1000
    query: Any = None
    shuffle: bool = False

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **AgentsEstimator._parameter_constraints,
        "experts": [
            list,
            tuple,
            Interval(Integral, 1, None, closed="left"),
            StrOptions({ADVICE}),
            None,
        ],
        "average": [StrOptions({"dual", "primal"})],
        "randomized": ["boolean"],
        "fit_fraction": [Interval(Real, 0, 1, closed="neither")],
        "holdout": [Interval(Real, 0, 1, closed="neither"), None],
        "fit_rows": [Interval(Integral, 1, None, closed="left")],
        "query": QUERY,
    }

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any, agents: Any = None) -> WeightedMajorityClassifier:
        """Fit the experts that are not fitted, and weigh them in one pass over the other rows.

        Parameters
        ----------
        X : array, sparse matrix or data frame (n, n_features)
            Data frames are given to the experts as they are.
        y : (n,) of labels, or the name of a column of X
        agents : (n,) of int or of names, optional
            The agent that each row belongs to; rows are dealt to all agents in turn by default.
        """
        X, y = self._checked(X, y, reset=True)
        self.classes_ = np.unique(y)
        agents = None if agents is None else np.asarray(agents)
        if self.shuffle:
            order = check_random_state(self.random_state).permutation(len(y))
            X, y = taken(X, order), y[order]
            agents = None if agents is None else agents[order]
        examples = self._begin(X, y, agents, stream=False)
        self._agents.play(examples, shuffle=False)
        self._publish(examples)
        self._agents.rest()
        self._dealt = 0  # the last round is played: the next row is the first agent's
        return self

    @_fit_context(prefer_skip_nested_validation=False)
    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, agents: Any = None
    ) -> WeightedMajorityClassifier:
        """Go on weighing, in one pass over these rows; the cut of a stream into calls changes nothing.

        Parameters
        ----------
        X : array, sparse matrix or data frame (n, n_features)
        y : (n,) of labels
        classes : all labels
            Needed in the first call.
        agents : (n,) of int or of names, optional
        """
        first = not hasattr(self, "_agents")
        X, y = self._checked(X, y, reset=first)
        _check_partial_fit_first_call(self, classes)
        if first:
            examples = self._begin(X, y, agents, stream=True)
        else:
            numbers = self._agents.numbers(agents, len(y))
            examples = self._examples(X, y, numbers)
        self._agents.learn(examples)
        return self._publish(examples)

    def predict(self, X: Any) -> np.ndarray:
        """Labels (n,) by the weighted vote of all agents, or of one drawn expert per row."""
        if self.randomized:
            return self._drawn(self._said(X))
        votes = self._votes(X)
        return self.classes_[class_numbers(votes, self._agents.algorithm.update.tie)]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Share of the votes (n, n_classes)."""
        votes = self._votes(X)
        return np.stack([1.0 - votes, 1.0 + votes], axis=1) / 2.0 if votes.ndim == 1 else votes

    def report(self) -> WeightReport:
        """Which expert won at which agent; `print` it for a table."""
        check_is_fitted(self)
        state, names = self.trace_.state, self._agents.ids.known
        return WeightReport(
            experts=self.expert_names_,
            agents=[str(names[i]) if names else str(i) for i in range(len(self.weights_))],
            weights=self.weights_,
            expert_mistakes=self.expert_mistakes_,
            mistakes=state.mistakes,
            examples=state.examples,
        )

    @property
    def trace_(self) -> Trace:
        """Mistakes and curves of the agents, from the first example to the last."""
        check_is_fitted(self)
        return self._agents.trace

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self._takes_sparse()
        tags.non_deterministic = bool(self.randomized)
        return tags

    def _takes_sparse(self) -> bool:
        if isinstance(self.experts, list | tuple):
            return ExpertPool.of(self.experts).takes_sparse
        return isinstance(self.experts, Integral)

    def _checked(self, X: Any, y: Any, reset: bool) -> tuple[Any, np.ndarray]:
        X, y = with_answers(X, y)
        X = self._checked_rows(X, reset)
        y = _check_y(y, estimator=self)
        check_consistent_length(X, y)
        check_classification_targets(y)
        return X, y

    def _checked_rows(self, X: Any, reset: bool = False) -> Any:
        X = in_memory(X)
        if hasattr(X, "columns") and not isinstance(self.experts, str | Integral):
            # Pipelines may choose columns by name: data frames go through as they are.
            validate_data(self, X, skip_check_array=True, reset=reset)
            return X
        accepts = "csr" if self._takes_sparse() else False
        kind = None if isinstance(self.experts, str) else "numeric"
        return validate_data(self, X, accept_sparse=accepts, dtype=kind, reset=reset)

    def _begin(self, X: Any, y: np.ndarray, agents: Any, stream: bool) -> TrainingRows:
        """Make the experts and the agents; the rows that are left to learn from."""
        if len(self.classes_) < 2:
            raise ValueError("The number of classes has to be greater than one; got 1 class")
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        used = self._make_experts(X, y, seed, stream)
        self.expert_names_ = self.experts_.names
        agents = None if agents is None else np.asarray(agents)
        X, y = taken(X, slice(used, None)), y[used:]
        left = None if agents is None else agents[used:]
        n_experts = len(self.expert_names_)
        self._agents = LearningAgents.of(self, self._algorithm(), n_experts, agents, stream)
        self._dealt = 0
        self.expert_mistakes_ = np.zeros((self._agents.algorithm.n_agents, n_experts), np.int64)
        numbers = self._agents.numbers(left, len(y))
        return self._examples(X, y, numbers, stream)

    def _examples(
        self, X: Any, y: np.ndarray, numbers: np.ndarray | None, stream: bool = True
    ) -> TrainingRows:
        """Labels by the experts, each before it learns from a stream, and the true ones."""
        said = self.experts_.progress(X, y) if stream else self.experts_.labels(X)
        return TrainingRows.of(self._answers(said), self._answers(y), agents=numbers)

    def _make_experts(self, X: Any, y: np.ndarray, seed: int, stream: bool) -> int:
        """Set `experts_`; the number of rows that it was fitted on, which are learned from no more."""
        if self.experts == ADVICE:
            numbered = [f"expert {p}" for p in range(X.shape[1])]
            self.experts_: Any = AdviceGiven(list(getattr(self, "feature_names_in_", numbered)))
            return 0
        if isinstance(self.experts, list | tuple) and not self.experts:
            raise ValueError("`experts` is empty, expected at least one expert")
        if isinstance(self.experts, Integral):
            budget = self.fit_rows if stream else 0
            stumps = StumpPool(int(self.experts), self.classes_, X.shape[1], seed, budget)
            if not stream:
                stumps.fit(X, y)
            self.experts_ = stumps
            return 0
        given = default_experts(seed) if self.experts is None else self.experts
        pool = ExpertPool.of(given)
        if stream:
            self.experts_ = pool.learning(self.classes_, seed, self.fit_rows)
            return 0
        self.experts_ = pool
        if not pool.unfitted:
            return 0
        used = int(np.ceil(self._fit_fraction() * len(y)))
        if used >= len(y):
            raise ValueError(
                f"n_samples={len(y)} leaves no row to learn from after the {used} on which experts "
                "are fitted; give more rows, a smaller fit_fraction or fitted experts"
            )
        first = taken(X, slice(0, used)), y[:used]
        self.experts_ = pool.fitted(*first, self.classes_, seed)
        return used

    def _fit_fraction(self) -> float:
        if self.holdout is None:
            return self.fit_fraction
        message = "`holdout` is `fit_fraction` now; the old name goes with the next version"
        warnings.warn(message, DeprecationWarning, stacklevel=6)
        return self.holdout

    def _algorithm(self) -> Algorithm:
        given = given_parameters(self) | {"n_classes": len(self.classes_)}
        if self.randomized:
            name, given = "drwm", given | {"average": self.average}
        else:
            name = "dwm_i" if self.average == "dual" else "dwm_a"
        return replace(algorithm_named(name, given), **exchanges_of(self))

    def _answers(self, labels: np.ndarray) -> np.ndarray:
        return answers(self.classes_.tolist(), labels.ravel()).reshape(labels.shape)

    def _publish(self, examples: TrainingRows) -> WeightedMajorityClassifier:
        """Show weights, and count the experts' mistakes at the agents that saw them."""
        n, own = self._agents.algorithm.n_agents, self._agents.learner.weights()
        self._model, weights = self._agents.model(own, Encoding()), own[:, 0, :]
        self.weights_ = np.tile(weights, (n, 1)) if len(weights) == 1 else weights
        numbers = examples.agents
        if numbers is None:
            numbers = (self._dealt + np.arange(len(examples.rows))) % n
            self._dealt += len(numbers)
        advice = examples.rows.data.reshape(len(examples.rows), -1)
        for expert, said in enumerate(advice.T):
            wrong = numbers[said != examples.rows.y]
            self.expert_mistakes_[:, expert] += np.bincount(wrong, minlength=n)
        if self.verbose:
            print(self.report())
        return self

    def _said(self, X: Any) -> np.ndarray:
        """Labels by every expert for every row."""
        check_is_fitted(self)
        return self.experts_.labels(self._checked_rows(X))

    def _votes(self, X: Any) -> np.ndarray:
        """Votes of all agents: for the second of two classes less those for the first, or for each."""
        said = self._answers(self._said(X))
        return self._model.scores(rows_of(said, np.zeros(len(said)), None, False))

    def _drawn(self, said: np.ndarray) -> np.ndarray:
        rng = np.random.default_rng(self._agents.seed)
        followed = rng.choice(said.shape[1], size=len(said), p=self.weights_.mean(axis=0))
        return said[np.arange(len(said)), followed]


@dataclass(frozen=True)
class WeightReport:
    """Weights and mistakes of P experts at N agents.

    Parameters
    ----------
    experts, agents : names
    weights : (N, P)
        Each agent's weights; they sum to 1.
    expert_mistakes : (N, P)
        Wrong advice on each agent's own examples.
    mistakes, examples : (N,)
        Of the vote, before each answer was known.

    Examples
    --------
    >>> report = WeightReport(["a", "b"], ["0"], np.array([[0.9, 0.1]]), np.array([[1, 9]]),
    ...                       np.array([2]), np.array([20]))
    >>> report.heaviest, report.best
    (['a'], ['a'])
    """

    experts: list[str]
    agents: list[str]
    weights: np.ndarray
    expert_mistakes: np.ndarray
    mistakes: np.ndarray
    examples: np.ndarray

    @property
    def heaviest(self) -> list[str]:
        """The expert with the largest weight at each agent."""
        return [self.experts[k] for k in self.weights.argmax(axis=1)]

    @property
    def best(self) -> list[str]:
        """The expert with the fewest mistakes on each agent's own examples."""
        return [self.experts[k] for k in self.expert_mistakes.argmin(axis=1)]

    def __str__(self) -> str:
        width = max(len(name) for name in (*self.experts, "own best"))
        first = max(len(name) for name in (*self.agents, "agent"))
        lines = [
            f"{'agent':>{first}} {'examples':>9} {'vote wrong':>11}  {'won':<{width}} {'weight':>7}"
            f"  {'own best':<{width}} {'wrong':>6}"
        ]
        for i, agent in enumerate(self.agents):
            won, own = int(self.weights[i].argmax()), int(self.expert_mistakes[i].argmin())
            lines.append(
                f"{agent:>{first}} {self.examples[i]:>9} {self.mistakes[i]:>11}  "
                f"{self.experts[won]:<{width}} {self.weights[i, won]:>7.4f}  "
                f"{self.experts[own]:<{width}} {self.expert_mistakes[i, own]:>6}"
            )
        return "\n".join(lines)
