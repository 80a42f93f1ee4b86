"""`DDOLClassifier`: linear classification by N agents."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassifierMixin, _fit_context
from sklearn.utils import compute_class_weight
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import _check_partial_fit_first_call, check_classification_targets

from ddol.estimators.agents import QUERY
from ddol.estimators.frames import TakesFrames
from ddol.estimators.linear import LinearAgents
from ddol.estimators.placing import losses_for, takes_presets
from ddol.streams.coding.labels import answers, class_numbers, distinct
from ddol.streams.errors import DataError
from ddol.update.losses import BINARY, Loss


@takes_presets(experts=False, but=("loss",))
@dataclass(eq=False, repr=False)
class DDOLClassifier(TakesFrames, ClassifierMixin, LinearAgents):
    """Linear classifier learned by N agents on a graph, each from its own examples.

    In every round each agent predicts its own example, learns from the label and averages with its
    neighbours (Algorithm 1). Several classes are learned in the same pass: together with the logistic loss
    (softmax), else one against the rest.

    Parameters
    ----------
    algorithm : str or Algorithm, default="adaptive"
        A preset of `ddol.presets` (``"adaptive"``, ``"dogd"``, ``"doeg"``, …) or an `Algorithm` of your
        own. Parameters left at None use the algorithm's default; one that it does not have is an error.
    loss : {"hinge", "squared_hinge", "logistic", "modified_huber", "perceptron"} or Loss, default=None
        None is the algorithm's own: ``"logistic"`` for ``"adaptive"``, ``"coin"`` and ``"newton"``,
        ``"hinge"`` for the paper's. ``"logistic"``, which scikit-learn calls ``"log_loss"``, and
        ``"modified_huber"`` have `predict_proba`.
    penalty, alpha, l1_ratio
        Deprecated names, as in scikit-learn: alpha times ‖w‖²/2 (``"l2"``), ‖w‖₁ (``"l1"``), or
        l1_ratio·‖w‖₁ + (1 − l1_ratio)·‖w‖²/2 (``"elasticnet"``). Use `l1` and `l2`.
    n_agents : int, default=None
        None is the number of agents of the topology or the algorithm, or that `agents` names in the
        first call, or 1; a topology by name needs it.
    topology : str, Topology, adjacency matrix, list of edges, networkx graph or callable, default=None
        The network, such as ``"ring"`` or ``ddol.torus(4, 4)``; None is the complete graph.
    mixing : {"uniform", "metropolis"}, matrix, Mixing or callable, default=None
        Weights of the averages; see `Algorithm.on`.
    engine : {"local", "threads", "mpi"}, default="local"
        Where rounds run; the result is the same.
    workers : int, default=None
        Threads of ``engine="threads"``; None is one per core.
    batch, period, delay : int, default=None
        Examples per agent and round (1), rounds between two averages (1), and rounds between a
        prediction and its label (0).
    privacy : str, default=None
        Such as ``"epsilon:4"``: what agents send is differentially private; see `ddol.private`. With
        ``passes=1`` only.
    passes : int, default=5
        Passes of `fit` over the rows.
    max_iter : int, default=None
        scikit-learn's name for `passes`, which it takes the place of.
    shuffle : bool, default=True
        Whether `fit` takes the rows in random order, another one in every pass.
    fit_intercept : bool, default=True
    missing : {"error", "zero", "mean"}, default="error"
        Whether missing values are refused, are 0, or are the mean of their column so far.
    class_weight : dict or "balanced", default=None
    random_state : int, RandomState or None, default=None
    verbose : int, default=0
        1 prints a line for every pass, 2 also whenever the examples have doubled.
    warm_start : bool, default=False
        Whether `fit` goes on from the present state.
    early_stopping : bool, default=False
        Whether `fit` holds `validation_fraction` of the rows out, and ends when their score has not
        grown by `tol` in `n_iter_no_change` passes.
    validation_fraction : float, default=0.1
    n_iter_no_change : int, default=5
    tol : float, default=1e-3

    Attributes
    ----------
    coef_ : (1, n_features) or (n_classes, n_features)
        Mean of the agents' weights.
    intercept_ : (1,) or (n_classes,)
    classes_ : (n_classes,)
    agents_ : list
        Ids of the agents in their order.
    n_iter_ : int
        Passes that were made.
    n_features_in_ : int
    feature_names_in_ : (n_features_in_,) of str
        Only where X has names.
    trace_ : Trace
        Mistakes, losses, curves, messages (``bytes_sent``, ``traffic``) and weights of every agent.

    Notes
    -----
    A row of weight w (`sample_weight` times class weight) is learned from ⌈w⌉ times, at most 16, with
    the weight shared among the copies: a row of weight 3 is the same as three rows.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = DDOLClassifier(n_agents=4, topology="ring", random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.9
    True
    >>> model.trace_.agents, model.coef_.shape
    (4, (1, 30))
    """

    _: KW_ONLY
    query: Any = None
    class_weight: Any = None

    _task: ClassVar[str] = BINARY
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **LinearAgents._parameter_constraints,
        "loss": [StrOptions(losses_for(BINARY)), Loss, None],
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "query": QUERY,
    }

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None, agents: Any = None) -> DDOLClassifier:
        """Learn from all rows, in `passes` passes.

        Parameters
        ----------
        X : array, sparse matrix or data frame (n, n_features)
        y : (n,) of labels, or the name of a column of X
        sample_weight : (n,), optional
        agents : (n,) of ids, optional
            The agent that each row belongs to: agents are the distinct ids, in rising order (see
            `agents_`). Rows are dealt to all agents in turn by default.
        """
        X, y = self._checked(X, y, reset=not self._goes_on())
        X, y, weight, agents = self._that_count(X, y, sample_weight, agents)
        found = distinct(y)
        check_classification_targets(found)
        self._set_classes(found)
        return self._fit(X, y, self._with_classes(weight, y), agents)

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None, agents: Any = None
    ) -> DDOLClassifier:
        """Go on learning, in one pass over these rows in their order.

        The cut of a stream into calls changes nothing.

        Parameters
        ----------
        X : array, sparse matrix or data frame (n, n_features)
        y : (n,) of labels
        classes : all labels
            Needed in the first call.
        sample_weight : (n,), optional
        agents : (n,) of ids, optional
            As in `fit`, but numbered as they come. A row joins the present round unless its agent has its
            examples already.
        """
        X, y = self._checked(X, y, reset=not hasattr(self, "_agents"))
        _check_partial_fit_first_call(self, classes)
        if self.class_weight == "balanced":
            raise ValueError(
                "class_weight 'balanced' is not supported for partial_fit: the balance is not known "
                "before the end; use compute_class_weight('balanced', classes=classes, y=y) on a sample"
            )
        X, y, weight, agents = self._that_count(X, y, sample_weight, agents)
        return self._partial_fit(X, y, self._with_classes(weight, y), agents)

    def decision_function(self, X: Any, agents: Any = None) -> np.ndarray:
        """Scores (n,) of the second class, or (n, n_classes) of more classes than two.

        Parameters
        ----------
        X : array, sparse matrix or data frame (n, n_features)
        agents : (n,) of ids, optional
            Score each row with the weights of its agent, and not with their mean.
        """
        scores = self._scores(X, agents)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: Any, agents: Any = None) -> np.ndarray:
        """Labels (n,); score 0 is the second of two classes. For `agents` see `decision_function`."""
        return self._labels(self._scores(X, agents))

    def _knows_chances(self) -> bool:
        try:
            return self._loss().probability is not None
        except (KeyError, ValueError):
            return False

    @available_if(_knows_chances)
    def predict_proba(self, X: Any, agents: Any = None) -> np.ndarray:
        """Probabilities (n, n_classes) by the loss; those of several classes sum to 1."""
        return self._loss().chances(self._scores(X, agents))

    @available_if(_knows_chances)
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of the probabilities."""
        return np.log(self.predict_proba(X))

    def _labels(self, scores: np.ndarray) -> np.ndarray:
        return self.classes_[class_numbers(scores)]

    def _set_classes(self, found: np.ndarray) -> None:
        self.classes_: np.ndarray
        if self._goes_on() and not np.array_equal(found, self.classes_):
            raise ValueError(
                f"found the classes {found.tolist()}, expected {self.classes_.tolist()} as in the "
                "first fit; set warm_start=False to begin anew"
            )
        if len(found) < 2:
            raise ValueError("The number of classes has to be greater than one; got 1 class")
        self.classes_ = found

    def _with_classes(self, weight: np.ndarray | None, y: np.ndarray) -> np.ndarray | None:
        """Row weights times class weights."""
        if self.class_weight is None:
            return weight
        places = answers(self.classes_.tolist(), y, numbered=True).astype(np.intp)
        if self.class_weight == "balanced":
            counts = np.bincount(places, weight, minlength=len(self.classes_))
            of_class = counts.sum() / (len(self.classes_) * np.maximum(counts, 1e-300))
        else:
            of_class = compute_class_weight(self.class_weight, classes=self.classes_, y=y)
        return of_class[places] if weight is None else weight * of_class[places]

    def _answers(self, y: np.ndarray) -> np.ndarray:
        try:
            return answers(self.classes_.tolist(), y)
        except DataError:
            check_classification_targets(
                distinct(y)
            )  # if these are no labels at all, that is the matter
            raise

    def _n_outputs(self) -> int:
        return 1 if len(self.classes_) == 2 else len(self.classes_)

    def _quality(self, X: Any, y: np.ndarray) -> float:
        return float(np.mean(self._labels(self._scores_of(X)) == y))

    def _set_weights(self, coef: np.ndarray, intercept: np.ndarray) -> None:
        self.coef_, self.intercept_ = coef, intercept
