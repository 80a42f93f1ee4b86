"""Data frames as estimators take them: whole, and with the answers apart or among the columns."""

from __future__ import annotations

from typing import Any

from ddol.streams.tables.frames import with_answers


class TakesFrames:
    """A `score` that takes what `fit` does; before scikit-learn's own among the bases."""

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy of classes, R² of numbers: see scikit-learn."""
        X, y = with_answers(X, y)
        found: float = super().score(X, y, sample_weight)  # type: ignore[misc]
        return found
