"""`DDOLRegressor`: linear regression by N agents."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.base import RegressorMixin, _fit_context
from sklearn.metrics import r2_score
from sklearn.utils._param_validation import StrOptions

from ddol.estimators.frames import TakesFrames
from ddol.estimators.linear import LinearAgents
from ddol.estimators.placing import losses_for, takes_presets
from ddol.update.losses import REGRESSION, Loss


@takes_presets(experts=False, but=("loss",))
class DDOLRegressor(TakesFrames, RegressorMixin, LinearAgents):
    """Linear regression learned by N agents on a graph, each from its own examples.

    Parameters
    ----------
    algorithm : str or Algorithm, default="adaptive"
        A preset of `ddol.presets`, or an `Algorithm` of your own.
    loss : {"squared", "absolute", "huber", "epsilon_insensitive", "quantile"} or Loss, default=None
        ``"squared_error"`` is ``"squared"``. None is ``"squared"``, or the loss of your own algorithm.
        A loss with another parameter is given by itself: ``ddol.update.losses.quantile(0.9)``.
    penalty, alpha, l1_ratio, n_agents, topology, mixing, engine, workers, batch, period, delay
        As in `DDOLClassifier`.
    passes, max_iter, missing, privacy, shuffle, fit_intercept, random_state, verbose, warm_start
        As in `DDOLClassifier`.
    early_stopping, validation_fraction, n_iter_no_change, tol
        As in `DDOLClassifier`; the score is R².

    Attributes
    ----------
    coef_ : (n_features,)
        Mean of the agents' weights.
    intercept_ : (1,)
    n_iter_ : int
        Passes that were made.
    n_features_in_ : int
    feature_names_in_ : (n_features_in_,) of str
        Only where X has names.
    trace_ : Trace
        Losses, curves and weights of every agent.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> DDOLRegressor(n_agents=4, random_state=0).fit(X, y).score(X, y) > 0.4
    True
    """

    _default_loss: ClassVar[str | None] = "squared"
    _task: ClassVar[str] = REGRESSION
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **LinearAgents._parameter_constraints,
        "loss": [StrOptions(losses_for(REGRESSION)), Loss, None],
    }

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None, agents: Any = None) -> DDOLRegressor:
        """Learn from all rows, in `passes` passes; see `DDOLClassifier.fit`."""
        X, y = self._checked(X, y, reset=not self._goes_on(), y_numeric=True)
        return self._fit(*self._that_count(X, y, sample_weight, agents))

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(
        self, X: Any, y: Any, sample_weight: Any = None, agents: Any = None
    ) -> DDOLRegressor:
        """Go on learning, in one pass over these rows; see `DDOLClassifier.partial_fit`."""
        X, y = self._checked(X, y, reset=not hasattr(self, "_agents"), y_numeric=True)
        return self._partial_fit(*self._that_count(X, y, sample_weight, agents))

    def predict(self, X: Any, agents: Any = None) -> np.ndarray:
        """Predictions (n,); each by the weights of the agent that its row names, if they do."""
        return self._scores(X, agents)[:, 0]

    def _answers(self, y: np.ndarray) -> np.ndarray:
        return y.astype(np.float64)

    def _n_outputs(self) -> int:
        return 1

    def _quality(self, X: Any, y: np.ndarray) -> float:
        return float(r2_score(y, self._scores_of(X)[:, 0]))

    def _set_weights(self, coef: np.ndarray, intercept: np.ndarray) -> None:
        self.coef_, self.intercept_ = coef[0], intercept
