"""How good predictions are: accuracy, log loss, AUC, confusion; R², MAE, RMSE; held-out examples."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ddol.model import model_of
from ddol.streams.coding.labels import Label, class_numbers, shown_labels

if TYPE_CHECKING:
    from ddol.engines.learner import Learner
    from ddol.job.pipeline import Prepared

_MOST_KEPT = 1 << 22
"""Scores up to which the area under the curve is exact; beyond it they are counted in narrow bins."""
_BINS = 1 << 20
_LEAST_CHANCE = 1e-15


class ClassEvaluation:
    """Figures of predicted classes, from blocks of any size.

    Parameters
    ----------
    classes
        All labels, in rising order.

    Examples
    --------
    >>> found = ClassEvaluation(("no", "yes"))
    >>> found.add(np.array([-1.0, 1.0, 1.0]), np.array([-0.5, 2.0, -1.0]))
    >>> figures = found.figures()
    >>> round(figures["accuracy"], 3), figures["auc"], figures["confusion"]
    (0.667, 0.5, [[1, 0], [1, 1]])
    """

    def __init__(self, classes: tuple[Label, ...]) -> None:
        self.classes = classes
        n = len(classes)
        self.confusion = np.zeros((n, n), np.int64)
        self.log_loss: float | None = 0.0
        self._curves = [_Curve() for _ in range(1 if n == 2 else n)]

    @property
    def examples(self) -> int:
        """Examples so far."""
        return int(self.confusion.sum())

    @property
    def error(self) -> float:
        """Share of wrong predictions."""
        return 1.0 - float(np.trace(self.confusion)) / max(self.examples, 1)

    def add(self, y: np.ndarray, scores: np.ndarray, chances: np.ndarray | None = None) -> None:
        """Count more examples.

        Parameters
        ----------
        y : (n,)
            Answers: −1 and +1, or class numbers.
        scores : (n,) or (n, classes)
        chances : (n, classes), optional
            For the log loss, and the AUC of several classes; without them the first is None, and the
            second that of the scores.
        """
        two = scores.ndim == 1
        true = (y > 0.0).astype(np.intp) if two else y.astype(np.intp)
        said = class_numbers(scores)
        n = len(self.classes)
        self.confusion += np.bincount(true * n + said, minlength=n * n).reshape(n, n)
        # Scores of several classes mean something beside each other only; chances can be ranked.
        ranked = scores if two or chances is None else chances
        for k, curve in enumerate(self._curves):
            curve.add(true == (1 if two else k), ranked if two else ranked[:, k])
        if chances is None or self.log_loss is None:
            self.log_loss = None
        else:
            right = chances[np.arange(len(true)), true]
            self.log_loss -= float(np.log(np.maximum(right, _LEAST_CHANCE)).sum())

    def figures(self) -> dict[str, Any]:
        """Plain values: examples, accuracy, error, log_loss, auc, confusion (rows are the true classes)."""
        areas = [curve.area() for curve in self._curves]
        known = [area for area in areas if area is not None]
        return {
            "examples": self.examples,
            "accuracy": 1.0 - self.error,
            "error": self.error,
            "log_loss": None if self.log_loss is None else self.log_loss / max(self.examples, 1),
            "auc": float(np.mean(known)) if known else None,
            "classes": shown_labels(self.classes).tolist(),
            "confusion": self.confusion.tolist(),
        }


class NumberEvaluation:
    """Figures of predicted numbers, from blocks of any size.

    Examples
    --------
    >>> found = NumberEvaluation()
    >>> found.add(np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 4.0]))
    >>> figures = found.figures()
    >>> figures["r2"], round(figures["mae"], 3), round(figures["rmse"], 3)
    (0.5, 0.333, 0.577)
    """

    def __init__(self) -> None:
        self.examples = 0
        self._shift = 0.0  # sums of squares are exact only around numbers of their own size
        self._sums = np.zeros(4)

    def add(self, y: np.ndarray, scores: np.ndarray, chances: np.ndarray | None = None) -> None:
        """Count more examples."""
        if not self.examples and len(y):
            self._shift = float(y.mean())
        gaps, centred = scores - y, y - self._shift
        self._sums += [centred.sum(), centred @ centred, gaps @ gaps, np.abs(gaps).sum()]
        self.examples += len(y)

    def figures(self) -> dict[str, Any]:
        """Plain values: examples, r2, mae, rmse."""
        n = max(self.examples, 1)
        total, squares, wrong, gap = self._sums.tolist()
        spread = squares - total * total / n
        return {
            "examples": self.examples,
            "r2": 1.0 - wrong / spread if spread > 0.0 else None,
            "mae": gap / n,
            "rmse": math.sqrt(wrong / n),
        }


class _Curve:
    """Area under the receiver operating characteristic: exact, or in bins where there is too much."""

    def __init__(self) -> None:
        self.kept: list[tuple[np.ndarray, np.ndarray]] = []
        self.size = 0
        self.bins: np.ndarray | None = None

    def add(self, positive: np.ndarray, scores: np.ndarray) -> None:
        self.kept.append((positive.copy(), scores.copy()))
        self.size += len(scores)
        if self.size > _MOST_KEPT:
            self._count()

    def _count(self) -> None:
        """Count what is kept in bins that are as narrow as the numbers in them."""
        if self.bins is None:
            self.bins = np.zeros((2, _BINS), np.int64)
        for positive, scores in self.kept:
            word = scores.astype(np.float32).view(np.int32).astype(np.int64)
            order = np.where(word < 0, -(word & 0x7FFFFFFF), word) + (1 << 31)
            place = order * _BINS >> 32
            for side in (0, 1):
                self.bins[side] += np.bincount(place[positive == side], minlength=_BINS)
        self.kept, self.size = [], 0

    def area(self) -> float | None:
        if self.bins is None:
            positive = np.concatenate([p for p, _ in self.kept]) if self.kept else np.empty(0, bool)
            scores = np.concatenate([s for _, s in self.kept]) if self.kept else np.empty(0)
            _, place = np.unique(scores, return_inverse=True)
            width = int(place.max(initial=0)) + 1
            below = np.bincount(place[~positive], minlength=width)
            above = np.bincount(place[positive], minlength=width)
        else:
            self._count()
            below, above = self.bins
        if not below.sum() or not above.sum():
            return None
        # A positive beats the negatives below it, and half of those that are its equals.
        beaten = np.cumsum(below) - below / 2
        return float(above @ beaten / (below.sum() * above.sum()))


def evaluation_of(classes: tuple[Label, ...] | None) -> ClassEvaluation | NumberEvaluation:
    """What counts predictions of classes, or of numbers where there are none.

    Examples
    --------
    >>> type(evaluation_of(None)).__name__
    'NumberEvaluation'
    """
    return NumberEvaluation() if classes is None else ClassEvaluation(classes)


@dataclass(frozen=True)
class HeldOutFigures:
    """How well held-out examples are predicted.

    Parameters
    ----------
    examples : int
    error : float
        Share of wrong classes, or root mean squared error of numbers.
    """

    examples: int
    error: float


@dataclass(frozen=True)
class Holdout:
    """Predicts the held-out examples when a figure is shown.

    Parameters
    ----------
    prepared : Prepared
    gather : function that joins the lists of all processes
    """

    prepared: Prepared
    gather: Callable[[list[Any]], list[Any]] = list

    def measured(self, learner: Learner, at_end: bool = False) -> HeldOutFigures | None:
        """Figures with the present weights; None where nothing is held out yet.

        Parameters
        ----------
        learner : Learner
        at_end : bool
            Look for the examples now, if this process has read none of them.
        """
        model = model_of(learner.trace(), self.prepared.encoding)
        held = self.prepared.held
        elsewhere = at_end and not any(stream.held.reached for stream in held)
        counted = []
        for stream in held:
            if elsewhere:
                stream.look_through()
            if len(stream.held):
                rows = stream.held.rows()
                found = evaluation_of(model.classes)
                found.add(rows.y, model.scores(rows))
                counted.append((found.examples, _error(found.figures())))
        if len(held) > 1:  # each process has seen those of its own agents
            counted = self.gather(counted)
        examples = sum(n for n, _ in counted)
        if not examples:
            return None
        if model.classes is not None:
            return HeldOutFigures(examples, sum(n * error for n, error in counted) / examples)
        squares = sum(n * error * error for n, error in counted)
        return HeldOutFigures(examples, float((squares / examples) ** 0.5))


def _error(figures: dict[str, Any]) -> float:
    return float(figures["error"] if "error" in figures else figures["rmse"])
