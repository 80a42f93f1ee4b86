"""Losses: what a wrong prediction costs, and the slope that the update follows.

A loss is two scalar functions of the score z = ⟨w, x⟩, the answer y and the loss's parameters.
Labels of classification are −1 and +1. Rules that hold for all of them:

- score 0 predicts +1;
- where the loss has a kink the (sub)derivative is that of the flat side, so hinge has slope 0
  at margin 1 and absolute loss has slope 0 at z = y.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ddol.compiled import (
    Signature,
    call_float,
    check_arguments,
    compile_part,
    entry,
    floats,
    inner,
    scalar,
)

BINARY, REGRESSION = "binary", "regression"
_VALUE, _DERIVATIVE = "value(z, y, p)", "derivative(z, y, p)"
_TOGETHER = "together(z, n, y, p, slopes)"
_BOTH = Signature("double", ("double", "double", "double*", "double*"))

Pieces = list[tuple[np.ndarray, np.ndarray]]
"""Slopes and offsets, one of each for every answer."""


@dataclass(frozen=True)
class Loss:
    """A convex function of the score, with its derivative.

    Parameters
    ----------
    name : str
    value, derivative : functions ``f(z, y, p)`` of score, answer and ``parameters``
        Plain Python on numbers (``math`` is allowed); compiled when first used.
    parameters : tuple of float
        Passed as the third argument.
    task : "binary" or "regression"
    probability : function ``f(z)`` or None
        Chance of the positive class at score z, where the loss has one: where its expectation over
        the classes is least at z.
    pieces : function of answers and ``parameters``, or None
        Of a piecewise linear loss: slopes and offsets of which it is the largest slope · z + offset,
        or 0. Solvers that look for the best weights in hindsight make use of it.
    together : function ``f(z, n, y, p, slopes)`` or None
        Loss of the scores z of n > 2 classes where y is the right one; writes its derivatives by the
        scores to ``slopes``. It gives probabilities by softmax. None sums one binary loss for each class
        (one against all).

    Examples
    --------
    >>> hinge.value(0.25, 1.0, ())
    0.75
    >>> hinge.derivative(0.25, 1.0, ())
    -1.0
    >>> hinge.values([0.25, 3.0], 1.0)
    array([0.75, 0.  ])
    """

    name: str
    value: Callable[[Any, Any, Any], float]
    derivative: Callable[[Any, Any, Any], float]
    parameters: tuple[float, ...] = ()
    task: str = BINARY
    probability: Callable[[float], float] | None = None
    pieces: Callable[[np.ndarray, tuple], Pieces] | None = None
    together: Callable[[Any, int, float, Any, Any], float] | None = None

    def __post_init__(self) -> None:
        if self.task not in (BINARY, REGRESSION):
            raise ValueError(
                f"`task` of loss {self.name} is {self.task!r}, use binary or regression"
            )
        check_arguments(self.value, _VALUE)
        check_arguments(self.derivative, _DERIVATIVE)
        if self.together is not None:
            check_arguments(self.together, _TOGETHER)

    def addresses(self) -> tuple[int, int]:
        """Compiled value and derivative, by address."""
        return scalar(self.value, _VALUE), scalar(self.derivative, _DERIVATIVE)

    def address_of_both(self) -> int:
        """Compiled value that writes down the derivative: an exponential in both is taken once."""
        return compile_part(_both(self.value, self.derivative), _BOTH, "both(z, y, p, slope)")

    def address_together(self, outputs: int) -> int:
        """Compiled `together`, by address; 0 where so many outputs are learned one by one, as two are."""
        if self.together is None or outputs <= 2:
            return 0
        kinds = "double*", "int64", "double", "double*", "double*"
        return compile_part(self.together, Signature("double", kinds), _TOGETHER)

    def compare(self, scores: Sequence[float], answer: float) -> tuple[float, np.ndarray]:
        """What one example costs at its scores, and the slope for each of them.

        Examples
        --------
        >>> logistic.compare([0.0], 1.0), hinge.compare([0.0, 0.5, -2.0], 1.0)[1].tolist()
        ((0.6931471805599453, array([-0.5])), [1.0, -1.0, 0.0])
        """
        n, p = len(scores), self.parameters
        slopes = np.zeros(n)
        if n > 2 and self.together is not None:
            given = np.array(scores, float)
            return float(self.together(given, n, answer, p, slopes)), slopes
        cost = 0.0
        for k, score in enumerate(scores):
            said = answer if n == 1 else (1.0 if k == answer else -1.0)
            cost += self.value(score, said, p)
            slopes[k] = self.derivative(score, said, p)
        return cost, slopes

    def values(self, scores: ArrayLike, answers: ArrayLike) -> np.ndarray:
        """The loss of every score and answer, compiled."""
        return self._each(self.addresses()[0], scores, answers)

    def slopes(self, scores: ArrayLike, answers: ArrayLike) -> np.ndarray:
        """The derivative at every score and answer, compiled."""
        return self._each(self.addresses()[1], scores, answers)

    def chances(self, scores: np.ndarray) -> np.ndarray:
        """Chance of every class, (n, classes), at scores of shape (n,) or (n, 1) for two, or (n, classes).

        Several classes that are learned one against all have one chance each, scaled to sum to 1.

        Examples
        --------
        >>> logistic.chances(np.array([0.0])), squared_hinge.chances(np.array([0.5]))
        (array([[0.5, 0.5]]), array([[0.25, 0.75]]))
        """
        if self.probability is None:
            raise ValueError(f"the loss {self.name} gives no probabilities; use logistic")
        if self.together is not None and scores.ndim > 1 and scores.shape[1] > 2:
            grown = np.exp(scores - scores.max(axis=1, keepdims=True))
            return np.asarray(grown / grown.sum(axis=1, keepdims=True))
        if self.probability is _sigmoid:
            each = np.exp(-np.logaddexp(0.0, -scores))
        else:
            each = np.vectorize(self.probability, otypes=[float])(scores)
        if each.ndim == 1 or each.shape[1] == 1:
            return np.column_stack([1.0 - each, each])
        total = each.sum(axis=1, keepdims=True)
        if total.all():
            return each / total
        return np.where(total > 0.0, each / np.maximum(total, 1e-300), 1.0 / each.shape[1])

    def _each(self, function: int, scores: ArrayLike, answers: ArrayLike) -> np.ndarray:
        pairs = np.broadcast_arrays(np.asarray(scores, float), np.asarray(answers, float))
        z, y = (np.ascontiguousarray(array) for array in pairs)
        p, found = np.array((*self.parameters, 0.0)), np.empty(z.shape)
        places = (array.ctypes.data for array in (p, z, y, found))
        _evaluate(function, z.size, *places)
        return found


@entry("void(int64, int64, int64, int64, int64, int64)")
def _evaluate(function, n, parameters, scores, answers, found):
    z, y, out = floats(scores), floats(answers), floats(found)
    for k in range(n):
        out[k] = call_float(function, (z[k], y[k], floats(parameters)))


def _hinge_value(z, y, p):
    return max(0.0, 1.0 - y * z)


def _hinge_derivative(z, y, p):
    return -y if y * z < 1.0 else 0.0


def _squared_hinge_value(z, y, p):
    gap = max(0.0, 1.0 - y * z)
    return gap * gap


def _squared_hinge_derivative(z, y, p):
    return -2.0 * y * max(0.0, 1.0 - y * z)


def _modified_huber_value(z, y, p):
    margin = y * z
    return -4.0 * margin if margin < -1.0 else max(0.0, 1.0 - margin) ** 2


def _modified_huber_derivative(z, y, p):
    margin = y * z
    return -4.0 * y if margin < -1.0 else -2.0 * y * max(0.0, 1.0 - margin)


def _clipped(z):
    """Chance of the positive class where the loss is least at twice the chance minus one."""
    return (min(max(z, -1.0), 1.0) + 1.0) / 2.0


def _perceptron_value(z, y, p):
    return max(0.0, -y * z)


def _perceptron_derivative(z, y, p):
    # Score 0 predicts +1, so it is a mistake on −1 and must move the weights.
    wrong = z >= 0.0 if y < 0.0 else z < 0.0
    return -y if wrong else 0.0


def _logistic_value(z, y, p):
    margin = y * z
    if margin > 0.0:
        return math.log1p(math.exp(-margin))
    return math.log1p(math.exp(margin)) - margin


def _logistic_derivative(z, y, p):
    margin = y * z
    if margin > 0.0:
        decay = math.exp(-margin)
        return -y * decay / (1.0 + decay)
    return -y / (1.0 + math.exp(margin))


def _softmax_together(z, n, y, p, slopes):
    most, total, right = z[0], 0.0, int(y)
    for k in range(1, n):
        most = max(most, z[k])
    for k in range(n):
        slopes[k] = math.exp(z[k] - most)
        total += slopes[k]
    for k in range(n):
        slopes[k] /= total
    slopes[right] -= 1.0
    return math.log(total) + (most - z[right])


def _sigmoid(z: float) -> float:
    if z >= 0.0:
        return 1.0 / (1.0 + math.exp(-z))
    growth = math.exp(z)
    return growth / (1.0 + growth)


def _squared_value(z, y, p):
    return 0.5 * (z - y) * (z - y)


def _squared_derivative(z, y, p):
    return z - y


def _absolute_value(z, y, p):
    return abs(z - y)


def _absolute_derivative(z, y, p):
    return 1.0 if z > y else (-1.0 if z < y else 0.0)


def _huber_value(z, y, p):
    error = abs(z - y)
    return 0.5 * error * error if error <= p[0] else p[0] * (error - 0.5 * p[0])


def _huber_derivative(z, y, p):
    return min(p[0], max(-p[0], z - y))


def _insensitive_value(z, y, p):
    return max(0.0, abs(z - y) - p[0])


def _insensitive_derivative(z, y, p):
    return 1.0 if z - y > p[0] else (-1.0 if y - z > p[0] else 0.0)


def _quantile_value(z, y, p):
    return p[0] * (y - z) if y > z else (1.0 - p[0]) * (z - y)


def _quantile_derivative(z, y, p):
    return -p[0] if z < y else (1.0 - p[0] if z > y else 0.0)


def _zero_one_value(z, y, p):
    return 1.0 if (z >= 0.0) != (y > 0.0) else 0.0


def _label(z, y, p):
    return y


def _hinge_pieces(y, p):
    return [(-y, np.ones_like(y))]


def _perceptron_pieces(y, p):
    return [(-y, np.zeros_like(y))]


def _insensitive_pieces(y, p):
    width = p[0] if p else 0.0
    return [(np.ones_like(y), -y - width), (-np.ones_like(y), y - width)]


def _quantile_pieces(y, p):
    return [
        (np.full_like(y, -p[0]), p[0] * y),
        (np.full_like(y, 1.0 - p[0]), (p[0] - 1.0) * y),
    ]


hinge = Loss("hinge", _hinge_value, _hinge_derivative, pieces=_hinge_pieces)
squared_hinge = Loss(
    "squared_hinge", _squared_hinge_value, _squared_hinge_derivative, probability=_clipped
)
modified_huber = Loss(
    "modified_huber", _modified_huber_value, _modified_huber_derivative, probability=_clipped
)
perceptron = Loss(
    "perceptron", _perceptron_value, _perceptron_derivative, pieces=_perceptron_pieces
)
logistic = Loss(
    "logistic",
    _logistic_value,
    _logistic_derivative,
    probability=_sigmoid,
    together=_softmax_together,
)
"""Of several classes the softmax loss, −log of the right one's probability."""
logistic_one_vs_all = replace(logistic, name="logistic_one_vs_all", together=None)
squared = Loss("squared", _squared_value, _squared_derivative, task=REGRESSION)
absolute = Loss(
    "absolute",
    _absolute_value,
    _absolute_derivative,
    task=REGRESSION,
    pieces=_insensitive_pieces,
)

# The loss of weighted majority: an expert needs the answer itself, not a slope.
zero_one = Loss("zero_one", _zero_one_value, _label)


@functools.cache
def _both(value: Callable, derivative: Callable) -> Callable:
    """Function ``both(z, y, p, slope)`` that returns the value and writes down the derivative."""
    valued, derived = inner(value), inner(derivative)

    def both(z, y, p, slope):
        slope[0] = derived(z, y, p)
        return valued(z, y, p)

    return both


def one_against_all(loss: Loss) -> Loss:
    """The loss that learns several classes by a binary loss for each.

    Examples
    --------
    >>> one_against_all(logistic).name, one_against_all(hinge).name
    ('logistic_one_vs_all', 'hinge')
    """
    if loss.together is None:
        return loss
    return logistic_one_vs_all if loss is logistic else replace(loss, together=None)


def huber(delta: float = 1.0) -> Loss:
    """Squared up to ``delta``, absolute beyond it.

    Examples
    --------
    >>> huber(1.0).value(3.0, 0.0, (1.0,))
    2.5
    """
    return Loss("huber", _huber_value, _huber_derivative, (_positive("delta", delta),), REGRESSION)


def epsilon_insensitive(epsilon: float = 0.1) -> Loss:
    """Absolute error beyond ``epsilon``, nothing within it."""
    if not 0.0 <= epsilon < math.inf:
        raise ValueError(f"`epsilon` must be at least 0, it is {epsilon}")
    return Loss(
        "epsilon_insensitive",
        _insensitive_value,
        _insensitive_derivative,
        (float(epsilon),),
        REGRESSION,
        pieces=_insensitive_pieces,
    )


def quantile(q: float = 0.5) -> Loss:
    """Pinball loss: its minimiser is the ``q``-quantile of the answers."""
    if not 0.0 < q < 1.0:
        raise ValueError(f"`q` must lie between 0 and 1, it is {q}")
    return Loss(
        "quantile",
        _quantile_value,
        _quantile_derivative,
        (float(q),),
        REGRESSION,
        pieces=_quantile_pieces,
    )


def _positive(name: str, value: float) -> float:
    if not 0.0 < value < math.inf:
        raise ValueError(f"`{name}` must be a positive number, it is {value}")
    return float(value)


_FIXED = (
    hinge, squared_hinge, modified_huber, perceptron, logistic, logistic_one_vs_all, squared, absolute,
    zero_one,
)  # fmt: skip
_OTHER_NAMES = {"softmax": "logistic"}
_MADE: dict[str, Callable[..., Loss]] = {
    "huber": huber,
    "epsilon_insensitive": epsilon_insensitive,
    "quantile": quantile,
}
LOSSES: dict[str, Callable[..., Loss]] = {
    **{fixed.name: (lambda fixed=fixed: fixed) for fixed in _FIXED},
    **_MADE,
}


def loss_named(name: str | Loss, **parameters: float) -> Loss:
    """Look a loss up by name (dashes are as good as underscores).

    Examples
    --------
    >>> loss_named("squared-hinge").name
    'squared_hinge'
    """
    if isinstance(name, Loss):
        return name
    plain = name.replace("-", "_")
    make = LOSSES.get(_OTHER_NAMES.get(plain, plain))
    if make is None:
        raise ValueError(f"unknown loss {name!r}; use one of {', '.join(sorted(LOSSES))}")
    return make(**parameters)
