"""What a node predicts."""

from __future__ import annotations

from collections.abc import Callable

from ddol.node.labels import LiveLabel


class Prediction:
    """What a node predicts.

    Parameters
    ----------
    identifier : str or None
        To answer it by.
    label : text, number or truth value
        None before a label has been seen.
    scores : list of float
        By class; one for two known classes and for a regression; empty before a label has been seen.
    """

    __slots__ = ("_chances", "id", "label", "scores")

    def __init__(
        self, identifier: str | None, label: LiveLabel, scores: list[float], chances: Callable
    ) -> None:
        self.id, self.label, self.scores, self._chances = identifier, label, scores, chances

    @property
    def proba(self) -> list[float]:
        """The chance of every class, in the order of the node's `classes`; empty where there is none."""
        found: list[float] = self._chances(self.scores)
        return found

    def __repr__(self) -> str:
        return f"Prediction(id={self.id!r}, label={self.label!r}, proba={self.proba})"


def no_chances(scores: list[float]) -> list[float]:
    """Of what has no probabilities."""
    return []
