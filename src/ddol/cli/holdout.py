"""The held-out examples of a run, predicted with the weights as they are."""

from __future__ import annotations

from dataclasses import dataclass

from ddol.cli.pipeline import Prepared
from ddol.engines.learner import Learner
from ddol.measure.evaluation import evaluation_of
from ddol.model import model_of
from ddol.streams.rows import concatenate


@dataclass(frozen=True)
class HeldOutFigures:
    """How well examples are predicted that nobody learns from.

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
    """Predicts the held-out examples whenever somebody looks.

    Parameters
    ----------
    prepared : Prepared
    """

    prepared: Prepared

    def measured(self, learner: Learner) -> HeldOutFigures | None:
        """Figures with the present weights; None where nothing is held out yet."""
        pieces = [held.rows() for held in self.prepared.held if len(held)]
        if not pieces:
            return None
        model = model_of(learner.trace(), self.prepared.encoding)
        rows = concatenate(pieces)
        found = evaluation_of(model.classes)
        found.add(rows.y, model.scores(rows))
        figures = found.figures()
        error = figures["rmse"] if model.classes is None else figures["error"]
        return HeldOutFigures(found.examples, float(error))
