"""Predictions of a node, and checks of their identifiers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ddol.node.errors import NodeError, check_text
from ddol.node.labels import LiveLabel

MOST_LETTERS = 1000
"""Of the identifier of a prediction."""
MOST_WEIGHT = 1e9
"""Of an example."""


class Prediction:
    """A prediction.

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
        """The probability of every class, in the order of the node's `classes`; empty where there is none."""
        found: list[float] = self._chances(self.scores)
        return found

    def __repr__(self) -> str:
        return f"Prediction(id={self.id!r}, label={self.label!r}, proba={self.proba})"


def no_chances(scores: list[float]) -> list[float]:
    """Probabilities of a loss that has none."""
    return []


def check_ticket(name: Any) -> None:
    """Refuse what cannot be the identifier of a new prediction."""
    if not isinstance(name, str) or not 0 < len(name) <= MOST_LETTERS:
        shown = repr(name) if len(repr(name)) <= 60 else f"{len(str(name)):,} letters"
        raise NodeError(f"`id`: found {shown}, expected a text of up to {MOST_LETTERS:,} letters")
    if not name.isascii():
        check_text(name, "`id`")


def checked_name(name: Any) -> str:
    """The identifier of a prediction that is answered."""
    if not isinstance(name, str) or not name:
        raise NodeError(f"`id`: found {name!r}, expected the text that a prediction was given")
    return name


def check_weight(weight: float) -> None:
    """Refuse what cannot be the weight of an example."""
    if not isinstance(weight, int | float | np.number) or not 0.0 <= weight <= MOST_WEIGHT:
        raise NodeError(f"`weight` must be a number from 0 to {MOST_WEIGHT:g}, found {weight!r}")
