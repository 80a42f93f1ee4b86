"""The learner of a node: one agent, its columns and its labels. The order of calls determines its state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ddol.algorithm import Algorithm
from ddol.engines.state import start_state
from ddol.engines.workers.single import SinglePlayer
from ddol.node.errors import NodeError
from ddol.node.features import Features, LiveRow
from ddol.node.labels import LiveLabel, LiveLabels
from ddol.update.contract import LINEAR, LOG, Interpreted
from ddol.update.losses import REGRESSION


class Told(NamedTuple):
    """A decoded message: numbers (outputs, rows · columns + scalars) of some columns, or all."""

    numbers: np.ndarray
    columns: np.ndarray | None
    places: Sequence[int]
    """The output at the hearer that each output of the sender is."""
    weight: float


class Learning:
    """One agent that learns single rows and averages with messages of others.

    Parameters
    ----------
    algorithm : Algorithm
        Without a network.
    features : Features
    labels : LiveLabels
    seed : int
        Of what the algorithm draws.

    Examples
    --------
    >>> import ddol
    >>> learning = Learning(ddol.dogd("logistic"), Features(), LiveLabels())
    >>> row = learning.features.row({"x": 2.0})
    >>> learning.scores(row) is None
    True
    >>> _ = learning.learn(row, "hot")
    >>> len(learning.scores(row))
    2
    """

    def __init__(
        self, algorithm: Algorithm, features: Features, labels: LiveLabels, seed: int = 0
    ) -> None:
        if algorithm.n_agents != 1:
            raise NodeError(
                f"found an algorithm of {algorithm.n_agents} agents, expected one without a network: "
                "a node's network is who is there"
            )
        if algorithm.update.experts or algorithm.update.randomized:
            raise NodeError(f"{algorithm.name} weighs experts' advice; a node learns from features")
        if algorithm.batch > 1 or algorithm.delay or algorithm.period > 1:
            raise NodeError("`batch`, `period` and `delay` are for rounds; a node has `exchange`")
        self.algorithm, self.features, self.labels = algorithm, features, labels
        self.player: SinglePlayer | None = None
        self.agents, self.seed = 1, seed

    # --- predicting and learning --------------------------------------------------------------------

    def scores(self, row: LiveRow) -> list[float] | None:
        """Scores of the classes, or the one of two classes or a number; None before a label is known."""
        if self.player is None:
            if not self.labels.known:
                return None
            self.begun()
        player = self.player
        assert player is not None
        if self.features.width > player.state.n_features:
            player.widen(self.features.width)
        return player.score(row.values, row.columns)

    def said(self, scores: Sequence[float] | None) -> float:
        """The number of the predicted label; NaN without scores."""
        if scores is None:
            return float("nan")
        if len(scores) == 1:
            score = scores[0]
            return score if self.labels.regression else (1.0 if score >= 0.0 else -1.0)
        best = 0
        for k in range(1, min(len(scores), len(self.labels.classes))):
            if scores[k] > scores[best]:
                best = k
        return float(best)

    def learn(self, row: LiveRow, label: LiveLabel, weight: float = 1.0) -> float:
        """Learn one example whose label was checked; the number that the label is."""
        y = self.labels.number(label)
        player = self.begun()
        player.learn(row.values, row.columns, y, weight)
        return y

    def begun(self) -> SinglePlayer:
        """The agent, with as many outputs and columns as are known by now."""
        outputs = self.labels.outputs
        if self.player is None:
            self.algorithm = self.with_outputs(outputs)
            state = start_state(self.algorithm, self.features.width, self.seed)
            self.player = SinglePlayer(self.algorithm, state, self.features.dense)
            self.tell_network(self.agents)
        elif outputs != self.algorithm.outputs:
            self.algorithm = self.with_outputs(outputs)
            self.player = self.player.grown(self.algorithm)
            self.tell_network(self.agents)
        if self.features.width > self.player.state.n_features:
            self.player.widen(self.features.width)
        return self.player

    def with_outputs(self, outputs: int) -> Algorithm:
        """The algorithm with so many outputs."""
        regression = self.algorithm.loss.task == REGRESSION
        return self.algorithm if regression else replace(self.algorithm, outputs=outputs)

    # --- others -------------------------------------------------------------------------------------

    def tell_network(self, agents: int) -> None:
        """Set the number of agents in the network, which the learning rate depends on."""
        self.agents = agents
        if self.player is not None:
            parameters = self.algorithm.update.with_network(agents).parameters()
            self.player.parameters[: len(parameters)] = parameters

    def message_rows(self, n_columns: int = 1) -> int:
        """Numbers sent for each column."""
        layout = self.algorithm.update.layout(self.algorithm.average, n_columns)
        return len(layout.message_rows)

    @property
    def listed(self) -> np.ndarray | None:
        """Columns that differ from their initial values; None if all are sent."""
        if self.player is None:
            return None
        layout = self.player.layout
        if self.player.dense or layout.whole:
            return None
        if self.features.fixed:  # do not reveal which of them the node has seen
            return np.arange(1 + len(self.features.names), dtype=np.uint32)
        return np.flatnonzero(self.player.touched).astype(np.uint32)

    def message(self) -> tuple[np.ndarray | None, np.ndarray]:
        """What others average: the columns, and numbers (outputs, rows · columns + scalars)."""
        if self.player is None:
            raise NodeError("a node that has seen no label has nothing to say")
        if self.player.layout.whole and not self.player.dense:
            raise NodeError(
                f"{self.algorithm.name} averages whole matrices; give all nodes arrays, or another algorithm"
            )
        columns = self.listed
        return columns, self.player.told_strangers(columns)

    def mix(self, told: Sequence[Told]) -> bool:
        """Average with what others have said; own numbers take the place of what is missing.

        Returns whether anything changed.
        """
        player = self.begun()
        own = 1.0 - sum(each.weight for each in told)
        columns = self.listed
        if columns is not None:
            columns = np.unique(np.concatenate([columns, *(t.columns for t in told)]))
            columns = columns.astype(np.uint32)
        before = player.message(columns)
        heard = [(own, before), *((t.weight, self._placed(t, before, columns)) for t in told)]
        averaged, robust = np.empty_like(before), self.algorithm.robust is not None
        for lo, hi, mode in self._spans(before.shape[1]):
            parts = [(w, m[:, lo:hi]) for w, m in heard]
            averaged[:, lo:hi] = (
                self._robust(parts) if robust and mode == LINEAR else _average(parts, mode)
            )
        if np.allclose(averaged, before, rtol=1e-9, atol=0.0):
            return False  # nodes that agree have nothing more to tell each other
        return player.take(columns, averaged)

    def _robust(self, heard: Sequence[tuple[float, np.ndarray]]) -> np.ndarray:
        """Average one row of every output, or one scalar, by the algorithm's rule; one's own come first."""
        assert self.algorithm.robust is not None
        rule, weights = self.algorithm.robust.compiled, np.array([w for w, _ in heard[1:]])
        numbers = np.stack([m for _, m in heard])
        return np.stack([rule(each[0], each[1:], weights) for each in numbers.swapaxes(0, 1)])

    def _spans(self, size: int) -> list[tuple[int, int, int]]:
        """Where numbers of one mode begin and end in a message."""
        assert self.player is not None
        layout, (rows, scalars) = self.player.layout, self.player.numbers
        n = (size - scalars) // max(rows, 1)
        ends = np.cumsum([0] + [n] * rows + [1] * scalars).tolist()
        return [(ends[k], ends[k + 1], mode) for k, mode in enumerate(layout.modes)]

    def _placed(self, told: Told, own: np.ndarray, columns: np.ndarray | None) -> np.ndarray:
        """A message with these columns and the outputs of this node."""
        assert self.player is not None
        found, places = own.copy(), list(told.places)
        if columns is None:
            found[places] = told.numbers
            return self._as_own(found, places, columns)
        assert told.columns is not None
        rows, _ = self.player.numbers
        n, theirs = len(columns), len(told.columns)
        at = np.searchsorted(columns, told.columns)
        whole = np.empty((len(places), rows, n))
        whole[:] = self._fresh[:, None]
        whole[:, :, at] = told.numbers[:, : rows * theirs].reshape(-1, rows, theirs)
        found[places] = np.hstack(
            [whole.reshape(len(places), -1), told.numbers[:, rows * theirs :]]
        )
        return self._as_own(found, places, columns)

    def _as_own(
        self, found: np.ndarray, places: Sequence[int], columns: np.ndarray | None
    ) -> np.ndarray:
        """A message of a peer, who has a history of its own; outputs that it lacks stay as they are here."""
        assert self.player is not None
        own = found.copy()
        found = self.player.as_own(found, columns)
        others = [k for k in range(len(found)) if k not in places]
        found[others] = own[others]
        return found

    @property
    def _fresh(self) -> np.ndarray:
        """What an agent says of a column that it has never seen."""
        algorithm = self.algorithm
        alone = Interpreted(algorithm.update, algorithm.average, 1)
        rows: np.ndarray = alone.to_message(algorithm.update.start(1))[0][:, 0]
        return rows


def _average(heard: Sequence[tuple[float, np.ndarray]], mode: int) -> np.ndarray:
    """Weighted means, means of logarithms' exponentials, or maxima."""
    if mode == LINEAR:
        total = heard[0][0] * heard[0][1]
        for weight, numbers in heard[1:]:
            total = total + weight * numbers
        return total
    counted = [(w, m) for w, m in heard if w > 0.0]
    largest = counted[0][1]
    for _, numbers in counted[1:]:
        largest = np.maximum(largest, numbers)
    if mode == LOG:
        return largest + np.log(sum(w * np.exp(m - largest) for w, m in counted))
    return largest
