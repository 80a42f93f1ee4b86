"""What agents know, and the algorithm that predicts with it: the part of a model that scores."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ddol.algorithm import Algorithm
from ddol.streams.rows import Rows

if TYPE_CHECKING:
    from ddol.engines.workers.scoring import Scorer


@dataclass(frozen=True)
class Knowledge:
    """What agents know, and the algorithm that predicts with it.

    Parameters
    ----------
    algorithm : Algorithm
        Its update reads the state.
    theta : (copies, outputs, rows, D)
        As in `ddol.engines.state.State`: one copy where all agents share it.
    scalars : (copies, outputs, scalars)
    """

    algorithm: Algorithm
    theta: np.ndarray
    scalars: np.ndarray

    def scores(self, rows: Rows, copy: int | None = None) -> np.ndarray:
        """Scores (n, outputs) as the learner would have given them: of one copy, or the mean of all.

        A safe agent predicts with its mixture; without one, the learner that agents share predicts.
        """
        if copy is None and self.algorithm.safe:
            return self.of_all.scores(rows)
        found = self._scorer(rows, copy)
        found = found[0] if len(found) == 1 else found.mean(axis=0)
        if self.algorithm.update.experts:
            found[np.abs(found) <= self.algorithm.update.tie] = 0.0
        return found

    @property
    def is_linear(self) -> bool:
        """Whether a score is a product of weights and features, so that weights can be averaged first."""
        update = self.algorithm.update
        if self.algorithm.has_mixture:
            return False
        return not update.experts and update.loops(self.algorithm.average).observe is None

    @cached_property
    def of_all(self) -> Knowledge:
        """What predicts for no agent in particular: of safe agents what they share, else all."""
        if not self.algorithm.safe:
            return self
        update: Any = self.algorithm.update
        parts = update.part_of(self.theta, self.scalars, 0)
        return Knowledge(
            replace(
                self.algorithm,
                update=update.learner,
                safe=False,
                memories=(),
                privacy=None,
                trust=None,
            ),
            *parts,
        )

    @cached_property
    def _scorer(self) -> Scorer:
        from ddol.engines.workers.scoring import Scorer

        return Scorer(self.algorithm, self.theta, self.scalars)

    def __getstate__(self) -> dict[str, Any]:
        # Addresses of this process mean nothing to another.
        return {
            name: value for name, value in vars(self).items() if name not in ("_scorer", "of_all")
        }
