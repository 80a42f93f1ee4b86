"""Labels and predictions counted while a run learns: baselines by site, and the confusion of classes.

A report says with them whether the learner is better than guessing, in words that need no theory.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ddol.job.evaluation import ClassEvaluation, NumberEvaluation, evaluation_of
from ddol.streams.coding.labels import Label
from ddol.streams.rows import Block


@dataclass(frozen=True)
class Baseline:
    """What two guessers that learn nothing would have reached on the same examples.

    Parameters
    ----------
    constant : float
        Error of always guessing the most frequent class, or RMSE of always guessing the mean.
    last : float
        The same of guessing the label that the agent saw last.

    Examples
    --------
    >>> Baseline(constant=0.4, last=0.3).best
    0.3
    """

    constant: float
    last: float

    @property
    def best(self) -> float:
        """The smaller of the two."""
        return min(self.constant, self.last)


class Tally:
    """Counts labels and predictions of the blocks that were played.

    Give it to ``Learner.on_predicted``, or call it with every block.

    Parameters
    ----------
    n_agents : int
    classes : labels in rising order, or None where labels are numbers

    Examples
    --------
    >>> from ddol.streams.rows import Rows
    >>> rows = Rows.from_dense(np.ones((4, 1)), [1.0, 1.0, -1.0, 1.0])
    >>> table, scores = np.arange(4).reshape(4, 1, 1), np.array([[0.5], [-1.0], [-1.0], [2.0]])
    >>> tally = Tally(1, ("no", "yes")); tally(Block(rows, table, scores))
    >>> tally.baseline(), tally.evaluation.confusion.tolist()
    (Baseline(constant=0.25, last=0.75), [[1, 0], [1, 2]])
    """

    def __init__(self, n_agents: int, classes: tuple[Label, ...] | None) -> None:
        self.classes = classes
        self.evaluation: ClassEvaluation | NumberEvaluation = evaluation_of(classes)
        size = 3 if classes is None else len(classes)
        self._counts = np.zeros((n_agents, size))
        """Examples of each class; of numbers, their count, mean and summed squares about it."""
        self._last = np.full(n_agents, np.nan)
        self._missed = np.zeros(n_agents)
        """Wrong guesses of the last label, or squared gaps to it."""
        self._examples = np.zeros(n_agents)

    def __call__(self, block: Block) -> None:
        """Count the examples of rounds that were played."""
        for agent in range(block.n_agents):
            places = block.table[:, agent, :]
            places = places[places >= 0]
            if len(places):
                self._count(agent, block.rows.y[places])
        places = block.table[block.table >= 0]
        if block.scores is not None and len(places):
            scores = block.scores[places]
            self.evaluation.add(
                block.rows.y[places], scores[:, 0] if scores.shape[1] == 1 else scores
            )

    def _count(self, agent: int, y: np.ndarray) -> None:
        before = np.concatenate([self._last[agent : agent + 1], y[:-1]])
        self._last[agent] = y[-1]
        self._examples[agent] += len(y)
        if self.classes is None:
            gaps = np.nan_to_num(y - before)  # before the first label there is no guess
            self._missed[agent] += float(gaps @ gaps)
            self._counts[agent] = _pooled(self._counts[agent], y)
            return
        self._missed[agent] += float((y != before).sum())
        numbers = (y > 0.0).astype(np.intp) if len(self.classes) == 2 else y.astype(np.intp)
        self._counts[agent] += np.bincount(numbers, minlength=len(self.classes))

    def baseline(self, agent: int | None = None) -> Baseline:
        """Errors (or RMSE) of the guessers, of one agent's examples or of all."""
        chosen = slice(None) if agent is None else slice(agent, agent + 1)
        counts, examples = self._counts[chosen], max(float(self._examples[chosen].sum()), 1.0)
        missed = float(self._missed[chosen].sum()) / examples
        if self.classes is not None:
            return Baseline(1.0 - float(counts.sum(axis=0).max()) / examples, missed)
        mean = float(counts[:, 0] @ counts[:, 1]) / examples
        squares = float((counts[:, 2] + counts[:, 0] * (counts[:, 1] - mean) ** 2).sum())
        return Baseline(float((squares / examples) ** 0.5), missed**0.5)

    def most_frequent(self) -> Label | None:
        """The class that most examples have."""
        if self.classes is None:
            return None
        return self.classes[int(self._counts.sum(axis=0).argmax())]


def _pooled(known: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Count, mean and summed squares about the mean, with more numbers (Chan's formula: nothing cancels)."""
    n, mean, squares = known
    m, fresh = len(y), float(y.mean())
    gap, total = fresh - mean, n + m
    return np.array(
        [
            total,
            mean + gap * m / total,
            squares + float(((y - fresh) ** 2).sum()) + gap * gap * n * m / total,
        ]
    )
