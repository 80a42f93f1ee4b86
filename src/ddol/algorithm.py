"""Algorithm 1 of the paper, as a value and as a reference implementation.

In every round each agent predicts on its own example, updates with the answer, communicates with its
neighbours and averages. An `Algorithm` names the parts; `play_round` plays one round with them in plain
NumPy, to be read beside the paper and compared with every engine.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ddol.communicate import average
from ddol.communicate.consensus import spectral_gap
from ddol.communicate.graph import Topology, check_count
from ddol.communicate.mixing import Changing, Mixing, metropolis, mixing_for, uniform
from ddol.communicate.topologies import complete
from ddol.update.losses import REGRESSION, Loss, hinge
from ddol.update.majority import TIE, Majority
from ddol.update.rates import Rate, evaluate, inverse_sqrt
from ddol.update.rule import DUAL, LINEAR, LOG, PRIMAL, Network, Update


@dataclass(frozen=True)
class Algorithm:
    """update × communicate × average: everything that decides what a round does.

    Parameters
    ----------
    name : str
    update : Update
        What an agent does alone, such as ``MirrorDescent(euclidean)``.
    loss : Loss
    rate : callable of the round t = 1, 2, …
    C : float
        Weight of the loss in the objective C·loss + λ‖w‖²/2.
    average : "dual" or "primal"
        The space in which neighbours average.
    mixing : Mixing or Changing
        The matrix A: set by `on`.
    batch, period, delay : int
        Examples per agent and round; rounds between two communications; rounds between a prediction
        and its answer.
    outputs : int
        1, or the number of classes (one-vs-all).
    """

    name: str
    update: Update
    loss: Loss = hinge
    rate: Rate = field(default_factory=inverse_sqrt)
    C: float = 1.0
    average: str = DUAL
    mixing: Mixing | Changing = field(default_factory=lambda: uniform(complete(1)))
    batch: int = 1
    period: int = 1
    delay: int = 0
    outputs: int = 1
    average_iterates: bool = False

    def __post_init__(self) -> None:
        if not 0.0 < self.C < math.inf:
            raise ValueError(f"`C` must be a positive number, it is {self.C}")
        if self.average not in (DUAL, PRIMAL):
            raise ValueError(f"`average` must be 'dual' or 'primal', it is {self.average!r}")
        for name, least in (("batch", 1), ("period", 1), ("delay", 0), ("outputs", 1)):
            value = getattr(self, name)
            if not isinstance(value, int | np.integer) or value < least:
                raise ValueError(f"`{name}` must be a whole number ≥ {least}, it is {value!r}")
        if not callable(self.rate):
            raise TypeError(f"`rate` must be a function of the round, it is {self.rate!r}")
        if self.outputs > 1 and self.loss.task == REGRESSION:
            raise ValueError(f"the loss {self.loss.name} is for regression, which has one output")

    @property
    def n_agents(self) -> int:
        """Number of agents N."""
        return self.mixing.n_agents

    @property
    def classification(self) -> bool:
        """Whether predictions are classes, which can be wrong."""
        return self.loss.task != REGRESSION

    def on(self, topology: Topology | int, mixing: Any = None, **changes: Any) -> Algorithm:
        """Place the algorithm on a network.

        Parameters
        ----------
        topology : Topology, or the number of agents of a complete graph
        mixing : None, "uniform", "metropolis", a matrix, a Mixing or a callable of t
            None is uniform on the complete graph and Metropolis elsewhere.

        Examples
        --------
        >>> from ddol.communicate.topologies import ring
        >>> from ddol.presets import dogd
        >>> dogd().on(ring(8), period=4).n_agents
        8
        """
        graph = topology
        if not isinstance(graph, Topology):
            graph = complete(check_count(graph, "topology"))
        if mixing is None:
            mixing = uniform(graph) if graph.is_complete else metropolis(graph)
        matrix = mixing_for(mixing, graph)
        update = self.update.with_network(lambda: _network(matrix))
        return replace(self, mixing=matrix, update=update, **changes)


def _network(mixing: Mixing | Changing) -> Network:
    """Facts of the mixing matrix that updates may ask for; a changing one is taken at round 1."""
    first = mixing.at(1)
    if first.n_agents == 1:
        return Network()
    if first.is_uniform_complete:
        return Network(first.n_agents, 1.0, 1.0 / first.n_agents)
    _, _, weights = first.csr()
    # Where nobody listens to two agents their gradients cannot be told apart, and count as equal.
    spread = min(float(np.sum(weights**2)) / first.n_agents, 0.999)
    return Network(first.n_agents, spectral_gap(first), spread)


Example = tuple[np.ndarray, np.ndarray]
"""One agent's examples of a round: rows (n, D), n ≤ batch, and their answers (n,)."""


@dataclass(frozen=True)
class Agents:
    """State of the reference: every agent's states per output, and the answers under way."""

    t: int
    states: list[list[np.ndarray]]
    pending: tuple[list[Answer], ...] = ()


@dataclass(frozen=True)
class Answer:
    """What an agent learns when the answers to its predictions arrive."""

    example: Example
    gradients: list[np.ndarray] | None
    """One per weight vector: the mean over the examples; None without an example."""


@dataclass(frozen=True)
class Outcome:
    """What one round cost, per agent."""

    mistakes: np.ndarray
    loss: np.ndarray
    expected: np.ndarray


def start(algorithm: Algorithm, n_features: int) -> Agents:
    """Agents before round 1.

    Examples
    --------
    >>> from ddol.presets import dogd
    >>> agents = start(dogd().on(2), 3)
    >>> agents.t, len(agents.states)
    (1, 2)
    """
    states = 1 if algorithm.update.experts else algorithm.outputs
    agents = range(algorithm.n_agents)
    update = algorithm.update
    nothing = Answer((np.empty((0, n_features)), np.empty(0)), None)
    pending = ([nothing for _ in agents],) * algorithm.delay
    return Agents(1, [[update.start(n_features) for _ in range(states)] for _ in agents], pending)


def play_round(
    algorithm: Algorithm,
    agents: Agents,
    examples: Sequence[Example],
    chances: np.ndarray | None = None,
) -> tuple[Agents, Outcome]:
    """Play one round of Algorithm 1 in plain NumPy.

    Parameters
    ----------
    algorithm : Algorithm
    agents : Agents
    examples : one (X, y) per agent
        An agent without an example in this round has an X with no rows.
    chances : array (agents, batch), optional
        Uniform numbers in [0, 1) with which a randomised algorithm follows an expert.

    Examples
    --------
    >>> from ddol.presets import dogd
    >>> algorithm = dogd(l2=0.0).on(2)
    >>> both = [(np.array([[1.0, 0.0]]), np.array([1.0])), (np.array([[0.0, 2.0]]), np.array([-1.0]))]
    >>> agents, outcome = play_round(algorithm, start(algorithm, 2), both)
    >>> outcome.mistakes
    array([0, 1])
    >>> algorithm.update.weights(agents.states[1][0])
    array([ 0.5, -1. ])
    """
    update = algorithm.update
    rate = float(evaluate(algorithm.rate, agents.t, 1)[0])

    # Every agent makes local predictions on its examples ...
    outcome, predicted = _predict(algorithm, agents, examples, chances)
    *_, answered = (answers := (predicted, *agents.pending))

    # ... updates with the answers that arrive in this round ...
    updated = [
        _learn(update, states, answer, rate)
        for states, answer in zip(agents.states, answered, strict=True)
    ]

    # ... communicates with its neighbours, and averages.
    if agents.t % algorithm.period == 0:
        if algorithm.period > 1:
            updated = _each(updated, lambda s: update.project(s, agents.t, rate))
        updated = _average(algorithm, updated, agents.t)
    else:
        updated = _each(updated, lambda s: update.settle(s, rate))
    projected = _each(updated, lambda s: update.project(s, agents.t, rate))
    return Agents(agents.t + 1, projected, answers[:-1]), outcome


def _each(states: list[list[np.ndarray]], function: Any) -> list[list[np.ndarray]]:
    return [[function(state) for state in outputs] for outputs in states]


def _learn(
    update: Update, states: list[np.ndarray], answer: Answer, rate: float
) -> list[np.ndarray]:
    """One agent's states after its own answers; without any they stay as they are."""
    if answer.gradients is None:
        return states
    learned = []
    for state, gradient in zip(states, answer.gradients, strict=True):
        if update.l2 > 0.0:
            gradient = gradient + update.l2 * update.weights(state)
        learned.append(update.learn(update.observe(state, *answer.example), gradient, rate))
    return learned


def _average(
    algorithm: Algorithm, states: list[list[np.ndarray]], t: int
) -> list[list[np.ndarray]]:
    """Every agent adopts the weighted average over its neighbourhood: Σ_j A_ij · share_j."""
    update, space = algorithm.update, algorithm.average
    mixing = algorithm.mixing.at(t)
    shared = np.array([[update.share(state, space) for state in outputs] for outputs in states])
    averaged = np.empty_like(shared)
    for row, mode in enumerate(update.layout(space, shared.shape[-1]).numbers):
        kind = {LINEAR: average.linear, LOG: average.log_mean_exp}.get(mode, average.largest)
        averaged[:, :, row] = kind(mixing, shared[:, :, row])
    return [[update.adopt(own, space) for own in outputs] for outputs in averaged]


def _predict(
    algorithm: Algorithm, agents: Agents, examples: Sequence[Example], chances: np.ndarray | None
) -> tuple[Outcome, list[Answer]]:
    """Predictions of all agents: what they cost, and what the answers will bring."""
    n = algorithm.n_agents
    outcome = Outcome(np.zeros(n, int), np.zeros(n), np.zeros(n))
    answers: list[Answer] = []
    for i, (X, y) in enumerate(examples):
        weights = [algorithm.update.weights(state) for state in agents.states[i]]
        penalty = algorithm.update.l2 / 2 * sum(float(w @ w) for w in weights)
        sums = [np.zeros_like(w) for w in weights]
        for b, (x, answer) in enumerate(zip(X, y, strict=True)):
            if isinstance(algorithm.update, Majority):
                chance = None if chances is None else float(chances[i, b])
                wrong, expected = _vote(algorithm.update, weights[0], x, answer, chance)
                cost, slopes = float(wrong), [(x != answer).astype(float)]
                outcome.expected[i] += expected
            else:
                scores = [algorithm.update.score(state, x) for state in agents.states[i]]
                wrong, cost, derivatives = _compare(algorithm, np.array(scores), answer)
                slopes = [derivative * x for derivative in derivatives]
            outcome.mistakes[i] += wrong
            outcome.loss[i] += algorithm.C * cost + penalty
            sums = [s + algorithm.C * g / len(y) for s, g in zip(sums, slopes, strict=True)]
        answers.append(Answer((X, y), sums if len(y) else None))
    return outcome, answers


def _compare(
    algorithm: Algorithm, scores: np.ndarray, answer: float
) -> tuple[bool, float, list[float]]:
    """Whether the prediction is wrong, its loss, and the loss's slope per output."""
    loss = algorithm.loss
    if algorithm.outputs == 1:
        answers = [answer]
        wrong = algorithm.classification and (scores[0] >= 0) != (answer > 0)
    else:
        answers = [1.0 if k == answer else -1.0 for k in range(len(scores))]
        wrong = int(np.argmax(scores)) != answer
    pairs = list(zip(scores.tolist(), answers, strict=True))
    cost = sum(loss.value(z, a, loss.parameters) for z, a in pairs)
    return bool(wrong), cost, [loss.derivative(z, a, loss.parameters) for z, a in pairs]


def _vote(
    update: Majority, weights: np.ndarray, advice: np.ndarray, answer: float, chance: float | None
) -> tuple[bool, float]:
    """Whether the vote is wrong, and the weight of the experts that are."""
    classes = [-1.0, 1.0] if update.n_classes == 2 else [float(k) for k in range(update.n_classes)]
    votes = np.array([weights[advice == c].sum() for c in classes])
    expected = float(1.0 - votes[classes.index(answer)])
    if update.randomized:
        assert chance is not None
        # +1 comes first between two classes, as everywhere else.
        order = [1, 0] if update.n_classes == 2 else list(range(update.n_classes))
        drawn = int(np.searchsorted(np.cumsum(votes[order]), chance, side="right"))
        predicted = classes[order[min(drawn, len(order) - 1)]]
        return predicted != answer, expected
    if update.n_classes == 2:
        return (1.0 if votes[1] - votes[0] >= -TIE else -1.0) != answer, 0.0
    return int(np.argmax(votes > votes.max() - TIE)) != answer, 0.0
