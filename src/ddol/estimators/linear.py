"""What the linear estimators share: parameters, passes, early stopping, going on from a state."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import KW_ONLY, dataclass, replace
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import assert_all_finite
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import (
    _check_feature_names,
    _check_n_features,
    _check_sample_weight,
    check_is_fitted,
    check_X_y,
    validate_data,
)

from ddol.algorithm import Algorithm
from ddol.engines.faults import out_of_range
from ddol.estimators.agents import COUNT, AgentsEstimator, LearningAgents
from ddol.estimators.frames import FrameColumns, without_label
from ddol.estimators.placing import (
    LINEAR_PRESETS,
    exchanges_of,
    given_parameters,
    linear_algorithm,
    loss_of,
    losses_for,
    old_penalty,
)
from ddol.estimators.training_rows import TrainingRows, rows_of
from ddol.job.algorithm import algorithm_named
from ddol.job.job import declared_in
from ddol.streams.coding.encoding import Encoding
from ddol.streams.coding.order import LabelOrder
from ddol.streams.over.filling import RunningMeans
from ddol.streams.raw import Text
from ddol.streams.rows import LARGEST, Rows
from ddol.streams.tables.frames import has_text, with_answers
from ddol.trace import Trace
from ddol.update.budget import Budget, budget_of
from ddol.update.losses import BINARY, Loss

_MANY = 1 << 18
"""Values that take longer to look at before than what was known takes to remember."""


@dataclass(eq=False, repr=False)
class LinearAgents(AgentsEstimator):
    """N agents that learn one linear model together."""

    algorithm: Any = "adaptive"
    _: KW_ONLY
    loss: Any = None
    penalty: str | None = None
    alpha: float | None = None
    l1_ratio: float = 0.15
    passes: int = 5
    max_iter: int | None = None
    fit_intercept: bool = True
    missing: str = "error"
    average_iterates: bool = False
    warm_start: bool = False
    safe: bool = False
    privacy: Any = None
    early_stopping: bool = False
    validation_fraction: float = 0.1
    n_iter_no_change: int = 5
    tol: float | None = 1e-3

    _task: ClassVar[str]
    _default_loss: ClassVar[str | None] = None
    """Loss where none is named; None is that of the preset."""
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **AgentsEstimator._parameter_constraints,
        "algorithm": [StrOptions(LINEAR_PRESETS), Algorithm],
        "alpha": [Interval(Real, 0, None, closed="left"), None],
        "penalty": [StrOptions({"l1", "l2", "elasticnet"}), None],
        "l1_ratio": [Interval(Real, 0, 1, closed="both")],
        "passes": [COUNT],
        "max_iter": [COUNT, None],
        "fit_intercept": ["boolean"],
        "missing": [StrOptions(set(declared_in("data")["missing"].words))],
        "average_iterates": ["boolean"],
        "warm_start": ["boolean"],
        "safe": ["boolean"],
        "privacy": [str, Budget, None],
        "early_stopping": ["boolean"],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "n_iter_no_change": [COUNT],
        "tol": [Interval(Real, 0, None, closed="left"), None],
    }

    # What a subclass defines for its labels.

    @abstractmethod
    def _answers(self, y: np.ndarray) -> np.ndarray:
        """Labels as the algorithms take them."""

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
    def feature_names_(self) -> list[str]:
        """Names of the features that `coef_` has weights of: a text column has one for each value."""
        check_is_fitted(self, "coef_")
        columns = getattr(self, "_columns", None)
        if columns is not None:
            return list(columns.names)
        given = getattr(self, "feature_names_in_", None)
        return [f"x{k}" for k in range(self.n_features_in_)] if given is None else list(given)

    @property
    def trace_(self) -> Trace:
        """Mistakes, losses, curves and weights of the agents, from the first example to the last."""
        check_is_fitted(self, "coef_")
        return self._agents.trace

    @property
    def agents_(self) -> list[Any]:
        """Ids of the agents, in their order: those that rows named, or 0, 1, …"""
        check_is_fitted(self, "coef_")
        return self._agents.known

    def _scores(self, X: Any, agents: Any = None) -> np.ndarray:
        """Scores (n, outputs), of all agents together or of the agent that each row names.

        Where scores show values that are not finite, these are not searched for beforehand.
        """
        check_is_fitted(self, "coef_")
        after = self._agents.tells_of_nan
        X = self._features(X, finite=not after)
        found = self._scores_of(X) if agents is None else self._scores_by(X, agents)
        if after and not np.isfinite(found).all():
            self._check_finite(X)
        return found

    def _scores_by(self, X: Any, agents: Any) -> np.ndarray:
        """Scores (n, outputs) of the agent that each row names."""
        numbers = self._agents.ids.known_numbers(agents, self._agents.algorithm.n_agents)
        if numbers.shape != (X.shape[0],):
            raise ValueError(
                f"`agents` must name one agent for each of the {X.shape[0]} rows, it has the shape "
                f"{numbers.shape}"
            )
        rows, model = self._rows(X), self._model
        found = np.empty((X.shape[0], len(model.weights)))
        for agent in np.unique(numbers):
            own = np.flatnonzero(numbers == agent)
            if model.known is None:
                copy = agent if len(self._own_weights) > 1 else 0
                model = replace(model, weights=self._own_weights[copy])
            found[own] = _column(model.scores(rows.take(own), int(agent)))
        return found

    def _scores_of(self, X: Any) -> np.ndarray:
        return _column(self._model.scores(self._rows(X)))

    def _rows(self, X: Any) -> Rows:
        return rows_of(X, np.zeros(X.shape[0]), None, self.fit_intercept)

    def _split(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Weights (outputs, D) and intercepts (outputs,), from those that agents learn."""
        if self.fit_intercept:
            return weights[:, 1:], weights[:, 0]
        return weights, np.zeros(len(weights))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self.missing != "error"
        return tags

    # Learning.

    def _checked(self, X: Any, y: Any, reset: bool, **options: Any) -> tuple[Any, np.ndarray]:
        if reset or isinstance(y, str):
            self._label: str | None = y if isinstance(y, str) else None
        X, y = with_answers(without_label(X, None if isinstance(y, str) else self._label), y)
        if reset:
            self._columns: FrameColumns | None = (
                FrameColumns(X, self.missing) if has_text(X) else None
            )
            self._means: RunningMeans | None = None
        if self._columns is not None:
            return self._encoded_pair(X, y, reset, **options)
        X, y = validate_data(
            self,
            X,
            y,
            accept_sparse="csr",
            dtype=np.float64,
            order="C",
            reset=reset,
            ensure_all_finite=False,  # see `_refusing`
            **options,
        )
        return self._filled(X, learning=True), y

    def _encoded_pair(self, X: Any, y: Any, reset: bool, **options: Any) -> tuple[Any, np.ndarray]:
        """A frame with columns of text as a matrix, and its labels."""
        columns = self._columns
        assert columns is not None
        _check_feature_names(self, X, reset=reset)
        _check_n_features(self, X, reset=reset)
        matrix = columns.matrix(X, learning=True)
        checked: tuple[Any, np.ndarray] = check_X_y(
            matrix, y, accept_sparse="csr", dtype=np.float64, order="C", ensure_all_finite=False,
            **options,
        )  # fmt: skip
        return checked

    def _features(self, X: Any, finite: bool | str) -> Any:
        """Rows to predict as a matrix; columns of text are encoded as `fit` has learned them."""
        X = without_label(X, getattr(self, "_label", None))
        columns = getattr(self, "_columns", None)
        if columns is not None and hasattr(X, "columns"):
            return columns.matrix(X)
        finite = finite if self.missing == "error" else "allow-nan"
        X = validate_data(self, X, accept_sparse="csr", reset=False, ensure_all_finite=finite)
        return self._filled(X, learning=False)

    def _filled(self, X: Any, learning: bool) -> Any:
        """An array whose missing values are 0, or the mean of their column so far."""
        if self.missing == "error" or issparse(X):
            return X
        if self.missing == "zero":
            return np.where(np.isnan(X), 0.0, X)
        if self._means is None:
            self._means = RunningMeans.of(None, X.shape[1])
        if not learning:
            return np.where(np.isnan(X), self._means.means, X)
        return np.column_stack([self._means.fill(k, values) for k, values in enumerate(X.T)])

    @contextmanager
    def _refusing(self, X: Any, found: LearningAgents) -> Iterator[None]:
        """Refuse values that are not finite, and forget what was learned with them.

        Many values are not looked at before where the loss tells of such ones afterwards.
        """
        many = X.nnz if issparse(X) else X.size
        after = many > _MANY and found.tells_of_nan and not self.early_stopping
        if not after:
            self._check_finite(X)
        before = found.learner.moment() if after else None
        yield
        if before is None or found.is_finite:
            return
        try:
            self._check_finite(X)
        except ValueError:
            found.learner.go_back(*before)
            raise

    def _check_finite(self, X: Any) -> None:
        assert_all_finite(X, estimator_name=type(self).__name__, input_name="X")
        values = X.data if issparse(X) else X
        largest = max(values.max(initial=0.0), -values.min(initial=0.0))
        if largest >= LARGEST:
            raise ValueError(
                f"Input X contains {largest:.3g}, expected numbers below {LARGEST:.0g} in size, which have "
                "squares; scale the features"
            )

    def _that_count(
        self, X: Any, y: np.ndarray, sample_weight: Any, agents: Any
    ) -> tuple[Any, np.ndarray, np.ndarray | None, Any]:
        """Rows, labels, weights and agents without the rows of weight 0."""
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
        given = given_parameters(self) | {"loss": loss}
        penalty = old_penalty(self.penalty, self.alpha, self.l1_ratio)
        for name in penalty.keys() & given.keys():
            raise ValueError(f"`alpha` and `{name}` are both given; leave one out")
        places = exchanges_of(self) | {"outputs": self._n_outputs()}
        algorithm = linear_algorithm(self.algorithm, given | penalty, places)
        if algorithm.update.experts or algorithm.loss.task != self._task:
            raise ValueError(
                f"the algorithm {algorithm.name!r} with the loss {algorithm.loss.name!r} is not for a "
                f"{type(self).__name__}; use one of the losses {', '.join(losses_for(self._task))}"
            )
        return algorithm

    def _new_agents(self, n_features: int, agents: Any, stream: bool) -> LearningAgents:
        """Agents that know nothing yet."""
        n_seen = n_features + self.fit_intercept
        return LearningAgents.of(self, self._learns_with(), n_seen, agents, stream)

    def _fit(self, X: Any, y: np.ndarray, weight: np.ndarray | None, agents: Any) -> Any:
        """Make the passes."""
        found = self._agents if self._goes_on() else self._new_agents(X.shape[1], agents, False)
        numbers = found.numbers(agents, len(y))
        rows = TrainingRows.of(X, self._answers(y), weight, numbers, self.fit_intercept)
        if self.shuffle:
            rows = rows.canonical()
        elif agents is None:
            self._warn_of_order(y)
        patience = None
        if self.early_stopping:
            rows, held_out = rows.split(self.validation_fraction, found.rng)
            patience = EarlyStop(self.n_iter_no_change, self.tol)
        passes = self.passes if self.max_iter is None else self.max_iter
        budget = budget_of(found.algorithm.privacy)
        if budget is not None:
            budget.check_passes(passes)
            if getattr(self, "class_weight", None) == "balanced":
                raise ValueError(
                    "class_weight='balanced' does not go with privacy: labels are counted; give weights"
                )
        for number in range(1, passes + 1):
            with self._refusing(X, found) if number == 1 else nullcontext():
                found.play(rows, self.shuffle)
            self._publish(found)
            self.n_iter_ = number
            self._say(f"pass {number} of {passes}")
            if patience and patience.ends(self._quality(X[held_out], y[held_out])):
                break
        found.rest()
        return self

    def _warn_of_order(self, y: np.ndarray) -> None:
        """Warn of rows that are learned from in the order of their labels."""
        cells = y if y.dtype.kind in "fiub" else Text.of(y)  # labels may be text
        order = LabelOrder(self._task == BINARY).with_labels(cells)
        if doubt := order.doubt("y", "shuffle the rows, or use shuffle=True"):
            warnings.warn(doubt, stacklevel=4)

    def _partial_fit(self, X: Any, y: np.ndarray, weight: np.ndarray | None, agents: Any) -> Any:
        """Go on with the next rows of the stream."""
        if self.early_stopping:
            raise ValueError("early_stopping should be False with partial_fit")
        begun = hasattr(self, "_agents")
        found = self._agents if begun else self._new_agents(X.shape[1], agents, True)
        numbers = found.numbers(agents, len(y))
        with self._refusing(X, found):
            found.learn(TrainingRows.of(X, self._answers(y), weight, numbers, self.fit_intercept))
        self._publish(found)
        self.n_iter_ = 1
        self._say(f"{len(y):,} rows")
        return self

    def _publish(self, agents: LearningAgents) -> None:
        """Show the mean of the agents' weights."""
        own = agents.learner.weights()
        weights = own.mean(axis=0)
        if not np.all(np.isfinite(weights)):
            raise ValueError(out_of_range(agents.algorithm))
        self._agents, self._own_weights = agents, own
        width = len(weights[0]) - self.fit_intercept
        encoding = Encoding(n_features=width, intercept=self.fit_intercept)
        self._model = agents.model(own, encoding)
        self._set_weights(*self._split(weights))

    def _say(self, what: str) -> None:
        if self.verbose:
            counters = self._agents.learner.counters()
            mean = counters.loss.sum() / max(counters.examples.sum(), 1)
            print(f"-- {what}: mean loss so far {mean:.6g}")

    def _goes_on(self) -> bool:
        """Whether `fit` continues from the present state."""
        return bool(self.warm_start) and hasattr(self, "_agents")

    def _loss(self) -> Loss:
        """The loss that is learned with."""
        loss = self._default_loss if self.loss is None else self.loss
        if loss is not None:
            return loss_of(loss)
        own = isinstance(self.algorithm, Algorithm)
        return (self.algorithm if own else algorithm_named(self.algorithm)).loss


def _column(scores: np.ndarray) -> np.ndarray:
    return scores[:, None] if scores.ndim == 1 else scores


class EarlyStop:
    """Whether scores have stopped getting better.

    Examples
    --------
    >>> patience = EarlyStop(n_iter_no_change=2, tol=0.01)
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
