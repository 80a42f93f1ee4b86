"""What the linear estimators share: parameters, passes, early stopping, going on from a state."""

from __future__ import annotations

from abc import abstractmethod
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from ddol.algorithm import Algorithm
from ddol.estimators.examples import Examples
from ddol.estimators.setting import LINEAR_PRESETS, linear_algorithm
from ddol.estimators.team import CONSTRAINTS, COUNT, Team
from ddol.presets import PRESETS
from ddol.trace import Trace
from ddol.update.losses import Loss, loss_named

_POSITIVE = Interval(Real, 0, None, closed="neither")


class LinearAgents(BaseEstimator):
    """N agents that learn one linear model together."""

    _losses: ClassVar[tuple[str, ...]]
    _default_loss: ClassVar[str | None] = None
    """Loss where none is named; None is that of the preset."""
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **CONSTRAINTS,
        "algorithm": [StrOptions(set(LINEAR_PRESETS)), Algorithm],
        "C": [_POSITIVE, None],
        "alpha": [Interval(Real, 0, None, closed="left"), None],
        "radius": [_POSITIVE, None],
        "rate": [_POSITIVE, callable, None],
        "passes": [COUNT],
        "fit_intercept": ["boolean"],
        "average_iterates": ["boolean"],
        "warm_start": ["boolean"],
        "early_stopping": ["boolean"],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "n_iter_no_change": [COUNT],
        "tol": [Interval(Real, 0, None, closed="left"), None],
    }

    # What a subclass says about its answers.

    @abstractmethod
    def _answers(self, y: np.ndarray) -> np.ndarray:
        """Answers as the algorithms want them."""

    @abstractmethod
    def _n_outputs(self) -> int:
        """Weight vectors of the model."""

    @abstractmethod
    def _quality(self, X: Any, y: np.ndarray) -> float:
        """Score on rows that are checked already."""

    @abstractmethod
    def _set_weights(self, coef: np.ndarray, intercept: np.ndarray) -> None:
        """Keep the weights (outputs, D) and intercepts (outputs,)."""

    # The model.

    @property
    def trace_(self) -> Trace:
        """Mistakes, losses, curves and weights of the agents, from the first example to the last."""
        check_is_fitted(self)
        return self._team.learner.trace()

    def _scores(self, X: Any) -> np.ndarray:
        """Scores (n, outputs)."""
        check_is_fitted(self)
        return self._scores_of(validate_data(self, X, accept_sparse="csr", reset=False))

    def _scores_of(self, X: Any) -> np.ndarray:
        coef = np.atleast_2d(self.coef_)
        return np.asarray(safe_sparse_dot(X, coef.T, dense_output=True)) + self.intercept_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # Learning.

    def _checked(self, X: Any, y: Any, reset: bool, **options: Any) -> tuple[Any, np.ndarray]:
        return validate_data(
            self, X, y, accept_sparse="csr", dtype=np.float64, order="C", reset=reset, **options
        )

    def _that_count(
        self, X: Any, y: np.ndarray, sample_weight: Any, agents: Any
    ) -> tuple[Any, np.ndarray, np.ndarray | None, Any]:
        """Rows, answers, weights and agents without the rows of weight 0, which are no rows."""
        if sample_weight is None:
            return X, y, None, agents
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        kept = weight > 0.0
        if kept.all():
            return X, y, weight, agents
        if not kept.any():
            raise ValueError("Sample weights must contain at least one non-zero number.")
        left = None if agents is None else np.asarray(agents)[kept]
        return X[kept], y[kept], weight[kept], left

    def _learns_with(self) -> Algorithm:
        """The algorithm, not placed on a network yet."""
        loss = self.loss
        if loss is None and not isinstance(self.algorithm, Algorithm):
            loss = self._default_loss
        algorithm = linear_algorithm(
            self.algorithm,
            loss,
            C=self.C,
            l2=self.alpha,
            radius=self.radius,
            rate=self.rate,
            batch=self.batch,
            period=self.period,
            delay=self.delay,
            outputs=self._n_outputs(),
            average_iterates=self.average_iterates or None,
        )
        if algorithm.update.experts or algorithm.loss.task != loss_named(self._losses[0]).task:
            raise ValueError(
                f"the algorithm {algorithm.name!r} with the loss {algorithm.loss.name!r} is not for a "
                f"{type(self).__name__}; use one of the losses {', '.join(self._losses)}"
            )
        return algorithm

    def _begin(self, n_features: int, agents: Any, stream: bool) -> None:
        """Agents that know nothing yet."""
        n_seen = n_features + self.fit_intercept
        self._team = Team.of(self, self._learns_with(), n_seen, agents, stream)

    def _examples(self, X: Any, y: np.ndarray, weight: np.ndarray | None, agents: Any) -> Examples:
        """Rows with answers, weights and agents."""
        numbers = self._team.numbers(agents, len(y))
        return Examples.of(X, self._answers(y), weight, numbers, self.fit_intercept)

    def _fit(self, X: Any, y: np.ndarray, weight: np.ndarray | None, agents: Any) -> Any:
        """Make the passes."""
        if not self._goes_on():
            self._begin(X.shape[1], agents, stream=False)
        examples = self._examples(X, y, weight, agents)
        if self.shuffle:
            examples = examples.canonical()
        patience = None
        if self.early_stopping:
            examples, held_out = examples.split(self.validation_fraction, self._team.rng)
            patience = Patience(self.n_iter_no_change, self.tol)
        for number in range(1, self.passes + 1):
            self._team.play(examples, self.shuffle)
            self.n_iter_ = number
            self._publish()
            self._say(number)
            if patience and patience.ends(self._quality(X[held_out], y[held_out])):
                break
        return self

    def _partial_fit(self, X: Any, y: np.ndarray, weight: np.ndarray | None, agents: Any) -> Any:
        """Go on with the next rows of the stream."""
        if self.early_stopping:
            raise ValueError("early_stopping should be False with partial_fit")
        if not hasattr(self, "_team"):
            self._begin(X.shape[1], agents, stream=True)
        self._team.learn(self._examples(X, y, weight, agents))
        self.n_iter_ = 1
        self._publish()
        return self

    def _publish(self) -> None:
        """Show the mean of the agents' weights."""
        weights = self._team.learner.weights().mean(axis=0)
        if not np.all(np.isfinite(weights)):
            raise ValueError(
                f"the weights of {self._team.algorithm.name} left the range of numbers; scale the "
                "features, give a radius, lower the rate, or use algorithm='adaptive'"
            )
        if self.fit_intercept:
            self._set_weights(weights[:, 1:], weights[:, 0])
        else:
            self._set_weights(weights, np.zeros(len(weights)))

    def _say(self, number: int) -> None:
        if self.verbose:
            state = self._team.learner.state()
            mean = state.loss.sum() / max(state.examples.sum(), 1)
            print(f"-- pass {number} of {self.passes}: mean loss so far {mean:.6g}")

    def _goes_on(self) -> bool:
        """Whether `fit` goes on from the present state."""
        return bool(self.warm_start) and hasattr(self, "_team")

    def _loss(self) -> Loss:
        """The loss that is learned with."""
        loss = self._default_loss if self.loss is None else self.loss
        if loss is not None:
            return loss_named(loss)
        own = isinstance(self.algorithm, Algorithm)
        return (self.algorithm if own else PRESETS[self.algorithm]()).loss


class Patience:
    """Whether scores have stopped getting better.

    Examples
    --------
    >>> patience = Patience(n_iter_no_change=2, tol=0.01)
    >>> [patience.ends(score) for score in (0.5, 0.7, 0.7, 0.705)]
    [False, False, False, True]
    """

    def __init__(self, n_iter_no_change: int, tol: float | None) -> None:
        self.n_iter_no_change = n_iter_no_change
        self.tol = -np.inf if tol is None else tol
        self.best = -np.inf
        self.waited = 0

    def ends(self, score: float) -> bool:
        """Take the score of one more pass."""
        self.waited = 0 if score > self.best + self.tol else self.waited + 1
        self.best = max(self.best, score)
        return self.waited >= self.n_iter_no_change
