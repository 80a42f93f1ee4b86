"""The held-out examples of a run, predicted with the weights as they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ddol.engines.learner import Learner
from ddol.job.evaluation import evaluation_of
from ddol.job.pipeline import Prepared
from ddol.model import model_of


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
