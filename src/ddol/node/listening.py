"""Which peers a safe node averages with: their messages are tested on its own examples first.

For every peer j with its newest message θ_j, on every answered example (theory.md §9)

    D_j ← (1 − 1/200)·D_j + ℓ(θ_j; x, y) − ℓ(u; x, y)

where u is the node's own learner. A node averages with j only while D_j ≤ 1, and after 20 examples.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ddol.algorithm import Algorithm
from ddol.engines.state import start_state
from ddol.engines.workers.single import SinglePlayer
from ddol.node.agent import LiveAgent
from ddol.node.errors import NodeError
from ddol.node.features import LiveRow
from ddol.node.messages import Message
from ddol.update.losses import REGRESSION
from ddol.update.mixtures import CLIP

_MEMORY, _MOST_LOSS, _TESTS = 1.0 - 1.0 / 200.0, 1.0, 20
_AT_ONCE = 4
"""Peers that are tried on every example; of more, each on fewer."""


@dataclass
class Trial:
    """Test of the newest message of a peer."""

    player: SinglePlayer | None = None
    waiting: Message | None = None
    """The newest message, until it is tried for the first time."""
    difference: float = 0.0
    tests: int = 0

    @property
    def passed(self) -> bool:
        """Whether the node averages with the peer."""
        return self.tests >= _TESTS and self.difference <= _MOST_LOSS


class Listening:
    """Trials of all peers of a safe node.

    Parameters
    ----------
    agent : LiveAgent

    Examples
    --------
    >>> import ddol
    >>> nodes = [ddol.Node(name) for name in ("eu", "us", "liar")]
    >>> def teach(k):
    ...     for node in nodes:
    ...         node.learn({"x": k % 2, "one": 1.0}, bool(k % 2) != (node.name == "liar"))
    >>> for k in range(100):
    ...     teach(k)
    >>> for other in nodes[1:]:
    ...     nodes[0].receive(other.message())
    >>> for k in range(100):
    ...     teach(k)
    >>> [peer["trusted"] for peer in nodes[0].state()["peers"]]
    [False, True]
    """

    def __init__(self, agent: LiveAgent) -> None:
        self.agent, self.trials = agent, dict[str, Trial]()
        self._count = 0
        self._own: int | None = None
        """Where the score of the own learner is among the scalars of the state."""

    @property
    def tests(self) -> bool:
        """Whether the algorithm has a learner of its own to compare with."""
        algorithm = self.agent.learning.algorithm
        return algorithm.safe and algorithm.trust != "all"

    def hear(self, message: Message) -> None:
        """Test a message from now on; results of earlier messages of its sender are kept."""
        known = self.agent.labels.classes
        if not self.tests or self.agent.learning.player is None:
            return
        if any(label not in known for label in message.schema.get("classes", ())):
            return  # it knows a label that has not been seen here
        self.trials.setdefault(message.sender, Trial()).waiting = message

    def _ready(self, trial: Trial) -> SinglePlayer | None:
        """An agent with the weights of the newest message; made when first needed."""
        if trial.waiting is not None:
            message, trial.waiting = trial.waiting, None
            try:
                trial.player = self._player(message)
            except NodeError:
                trial.player = None
        return trial.player

    def _player(self, message: Message) -> SinglePlayer:
        """An agent with the weights of a message."""
        agent, learning = self.agent, self.agent.learning
        told = agent.told(message, 1.0)
        plain: Algorithm = replace(learning.algorithm, safe=False, trust=None)
        state = start_state(plain, agent.features.width)
        player = SinglePlayer(plain, state, agent.features.dense)
        numbers = player.message(told.columns)
        if told.numbers.shape[1] != numbers.shape[1]:
            raise NodeError("the peer sends more than one learner")
        numbers[list(told.places)] = told.numbers
        player.t = 1 + message.examples
        player.take(told.columns, player.as_own(numbers, told.columns))
        return player

    def test(self, row: LiveRow, y: float) -> None:
        """Compare peers with the node's own learner on an example that was just learned."""
        if not self.trials:
            return
        self._count += 1
        own, trials = self._own_scores(), list(self.trials.values())
        step = -(-len(trials) // _AT_ONCE)
        width, loss = self.agent.features.width, self._loss(own, y)
        for trial in trials[self._count % step :: step]:
            player = self._ready(trial)
            if player is None:
                continue
            if player.state.n_features < width:
                player.widen(width)
            scores = player.score(row.values, row.columns)
            if len(scores) == len(own):
                trial.difference = _MEMORY * trial.difference + self._loss(scores, y) - loss
                trial.tests += 1

    def _own_scores(self) -> list[float]:
        """Scores of the own learner, as they were before the example was learned."""
        player = self.agent.learning.player
        assert player is not None
        scalars = player.state.scalars[0]
        if self._own is None:
            update: Any = self.agent.learning.algorithm.update
            mixture = scalars.shape[-1] - update.mixture_of(scalars).shape[-1]
            self._own = mixture + update.places.notes + update.names.index("own")
        found: list[float] = scalars[:, self._own].tolist()
        return found

    def _loss(self, scores: list[float], y: float) -> float:
        loss = self.agent.learning.algorithm.loss
        if len(scores) == 1:
            found = float(loss.value(scores[0], y, loss.parameters))
            return found if loss.task == REGRESSION else min(found, CLIP)
        cost, _ = loss.compare(scores, y)
        return min(float(cost), len(scores) * CLIP)

    def trusts(self, name: str) -> bool:
        """Whether the node averages with a peer: all, while it has no examples of its own."""
        if not self.tests or not self.agent.examples:
            return True
        trial = self.trials.get(name)
        return trial is not None and trial.passed
