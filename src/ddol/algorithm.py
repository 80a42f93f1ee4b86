"""Algorithm 1 of the paper, as a value and as a reference implementation.

In every round each agent predicts on its own example, updates with the answer, communicates with its
neighbours and averages. An `Algorithm` names the parts; `play_round` plays one round with them in plain
Python, to be read beside the paper and compared with every engine: it calls the very loops of the update
that engines compile.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ddol.communicate import average
from ddol.communicate.graph import Topology, check_count
from ddol.communicate.mixing import Changing, Mixing, metropolis, mixing_for, uniform
from ddol.communicate.talking import (
    Compression,
    Partners,
    Talking,
    Teaching,
    compression_of,
    partners_of,
    talking_of,
    teaching_of,
)
from ddol.communicate.topologies import complete
from ddol.update.asking import (
    HEARD,
    NUMBERS,
    QUESTIONS,
    SHOWN,
    Asking,
    asking_of,
    buy,
    is_sure,
    second_chance,
    wish,
)
from ddol.update.contract import DUAL, LINEAR, LOG, PRIMAL, Interpreted, Update, Vector
from ddol.update.losses import REGRESSION, Loss, hinge
from ddol.update.rates import PerAgent, Rate, agent_rate, evaluate, inverse_sqrt


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
    query : Asking, float, str or None
        When agents ask for answers; see `ddol.update.asking`. All of them if it is None.
    talk, compress, talk_to, teach
        When agents send, how messages are written, to whom they go, and what is taught; see
        `ddol.communicate.talking`. Everything, to all neighbours and after every period, if they are None.
    recipe : dict or None
        How a preset made it, in plain values: what a saved model needs to score again.
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
    query: Asking | float | str | None = None
    talk: Talking | str | None = None
    compress: Compression | str | None = None
    talk_to: Partners | int | str | None = None
    teach: Teaching | int | str | None = None
    recipe: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)

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
        if isinstance(self.rate, PerAgent) and self.n_agents not in (1, len(self.rate.factors)):
            raise ValueError(
                f"`rate` is given for {len(self.rate.factors)} agents, expected {self.n_agents}"
            )
        if self.outputs > 1 and self.loss.task == REGRESSION:
            raise ValueError(f"the loss {self.loss.name} is for regression, which has one output")
        object.__setattr__(self, "query", asking_of(self.query))
        if self.asking is not None:
            self._check_asking(self.asking)
        for name, made in _TALKING.items():
            object.__setattr__(self, name, made(getattr(self, name)))

    def _check_asking(self, asking: Asking) -> None:
        """Refuse rules that this algorithm cannot follow."""
        if not self.classification:
            raise ValueError(f"`query` is for classes; the loss {self.loss.name} is for regression")
        if self.batch > 1:
            raise ValueError(f"`query` needs one example a round, `batch` is {self.batch}")
        if asking.kind == "experts" and not self.update.experts:
            raise ValueError(
                "`query` is experts, expected an algorithm with experts, such as dwm_i"
            )
        if self.update.experts and self.outputs > 1:
            raise ValueError("`query` is for experts' advice in two classes")

    @property
    def asking(self) -> Asking | None:
        """When agents ask for answers; None where they ask for all."""
        assert self.query is None or isinstance(self.query, Asking)
        return self.query

    @property
    def chooses_messages(self) -> bool:
        """Whether it is decided on the way who sends what to whom: such runs play events."""
        return any(getattr(self, name) is not None for name in _TALKING)

    @property
    def draws(self) -> bool:
        """Whether anything is drawn at random: predictions, or which answers to ask for."""
        return self.update.randomized or self.asking is not None

    @property
    def n_agents(self) -> int:
        """Number of agents N."""
        return self.mixing.n_agents

    @property
    def graph(self) -> Topology:
        """Who talks to whom; that of the first round where a changing matrix says no more."""
        return self.mixing.topology or self.mixing.at(1).topology

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
        update = self.update.with_network(matrix.n_agents)
        return replace(self, mixing=matrix, update=update, **changes)


_TALKING = {
    "talk": talking_of,
    "compress": compression_of,
    "talk_to": partners_of,
    "teach": teaching_of,
}

Example = tuple[np.ndarray, np.ndarray]
"""One agent's examples of a round: rows (n, D), n ≤ batch, and their answers (n,)."""


@dataclass(frozen=True)
class Agents:
    """State of the reference: every agent's states per output, and the answers under way."""

    t: int
    states: list[list[Vector]]
    pending: tuple[list[Answer], ...] = ()
    asking: np.ndarray = field(default_factory=lambda: np.zeros((0, NUMBERS)))
    """What every agent remembers of its asking, and its examples so far."""
    seen: np.ndarray = field(default_factory=lambda: np.zeros(0, int))


@dataclass(frozen=True)
class Answer:
    """What an agent learns when the answers to its predictions arrive."""

    example: Example
    slopes: np.ndarray
    """(n, outputs): of the loss at each score, times C; NaN where the answer was not asked for."""
    scores: tuple[tuple[float, ...], ...] = ()
    weight: float = 1.0
    """Of experts' answers, which have no slopes that could weigh more."""


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
    outputs = 1 if algorithm.update.experts else algorithm.outputs
    agents = range(algorithm.n_agents)
    first = algorithm.update.start(n_features)
    nothing = (np.empty((0, n_features)), np.empty(0))
    late = [Answer(nothing, np.empty((0, algorithm.outputs))) for _ in agents]
    states = [[first.copy() for _ in range(outputs)] for _ in agents]
    n = algorithm.n_agents
    return Agents(1, states, (late,) * algorithm.delay, np.zeros((n, NUMBERS)), np.zeros(n, int))


def play_round(
    algorithm: Algorithm,
    agents: Agents,
    examples: Sequence[Example],
    chances: np.ndarray | None = None,
) -> tuple[Agents, Outcome]:
    """Play one round of Algorithm 1 with the update's own loops, interpreted.

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
    t, n = agents.t, algorithm.n_agents
    rate = float(evaluate(algorithm.rate, t, 1)[0])
    rates = [agent_rate(algorithm.rate, i, rate) for i in range(n)]
    exchanging = n > 1 and t % algorithm.period == 0
    loops = Interpreted(algorithm.update, algorithm.average, agents.states[0][0].rows.shape[1])
    states = [[state.copy() for state in own] for own in agents.states]
    outcome = Outcome(np.zeros(n, int), np.zeros(n), np.zeros(n))

    # Every agent makes local predictions on its examples ...
    predicted = [
        predict_examples(algorithm, loops, states[i], examples[i], outcome, i, chances)
        for i in range(n)
    ]
    asking, seen = agents.asking.copy(), agents.seen.copy()
    if algorithm.asking is not None:
        asked = _Asked(algorithm, loops, states, asking, seen)
        predicted = [asked.answer(i, answer, chances) for i, answer in enumerate(predicted)]
    *_, answered = (answers := (predicted, *agents.pending))

    # ... updates with the answers that arrive in this round ...
    for own, answer, own_rate in zip(states, answered, rates, strict=True):
        learn_answers(loops, own, answer, own_rate)

    # ... communicates with its neighbours, and averages.
    if exchanging:
        if algorithm.period > 1:
            _finish(loops, states, t, rates)
        _average(algorithm, loops, states, t)
    _finish(loops, states, t, rates)
    return Agents(t + 1, states, answers[:-1], asking, seen), outcome


def predict_examples(
    algorithm: Algorithm,
    loops: Interpreted,
    own: list[Vector],
    example: Example,
    outcome: Outcome,
    i: int,
    chances: np.ndarray | None,
) -> Answer:
    """Agent i's predictions: what they cost, and what their answers will bring."""
    X, y = example
    slopes = np.zeros((len(y), algorithm.outputs))
    penalty = algorithm.update.l2 / 2 * sum(float(np.sum(loops.weights(v) ** 2)) for v in own)
    for state in own:
        for x in X:
            loops.observe(state, x)
    shown: list[tuple[float, ...]] = []
    for b, (x, answer) in enumerate(zip(X, y, strict=True)):
        outputs = range(algorithm.outputs)
        scores = [loops.score(own[k % len(own)], x, k) for k in outputs]
        chance = None if chances is None else float(chances[i, b])
        wrong, expected = _count(algorithm, scores, answer, chance)
        cost, slopes[b] = _compare(algorithm, scores, answer, wrong)
        outcome.mistakes[i] += wrong
        outcome.expected[i] += expected
        outcome.loss[i] += algorithm.C * cost + penalty
        shown.append(tuple(scores))
    return Answer(example, slopes, tuple(shown))


@dataclass(frozen=True)
class _Asked:
    """What agents learn where they ask for some answers only."""

    algorithm: Algorithm
    loops: Interpreted
    states: list[list[Vector]]
    asking: np.ndarray
    seen: np.ndarray

    def answer(self, i: int, answer: Answer, chances: np.ndarray | None) -> Answer:
        """What agent i will learn: slopes are NaN where it asks nobody."""
        assert self.algorithm.asking is not None and chances is not None
        if not len(answer.slopes):
            return answer
        self.seen[i] += 1
        p = self.algorithm.asking.parameters(self.algorithm.update.penalty)
        own, seen, chance = self.asking[i], float(self.seen[i]), float(chances[i, 0])
        drawn = second_chance(chance) if self.algorithm.update.randomized else chance
        weight = wish(p, own, seen, margin_of(answer.scores[0]), drawn)
        said = None
        if weight > 0.0 and self.algorithm.asking.neighbours:
            said = self._neighbours_answer(i, answer.example[0][0], p)
        bought = buy(p, own, seen, weight if said is None else 0.0)
        if said is None:
            weight = bought
        else:
            own[HEARD] += 1
            _, slopes = _compare(self.algorithm, list(answer.scores[0]), said, False)
            answer = replace(
                answer, example=(answer.example[0], np.array([said])), slopes=slopes[None]
            )
        if weight == 0.0:
            return replace(answer, slopes=np.full_like(answer.slopes, np.nan))
        if self.algorithm.update.experts:
            return replace(answer, weight=weight)
        return replace(answer, slopes=weight * answer.slopes)

    def _neighbours_answer(self, i: int, x: np.ndarray, p: np.ndarray) -> float | None:
        """What the first neighbour that is sure says."""
        neighbours = self.algorithm.graph.neighbours(i).tolist()
        for turn in range(len(neighbours)):
            j = neighbours[(int(self.seen[i]) + turn) % len(neighbours)]
            theirs = self.states[j]
            outputs = range(self.algorithm.outputs)
            scores = [self.loops.score(theirs[k % len(theirs)], x, k) for k in outputs]
            self.asking[i, [QUESTIONS, SHOWN]] += 1, 8 * len(x)
            if is_sure(p, self.asking[j], float(self.seen[j]), margin_of(scores)):
                return said_by(self.algorithm, scores)
        return None


def margin_of(scores: Sequence[float]) -> float:
    """How sure a prediction is: |score|, or the lead of the best among several.

    Examples
    --------
    >>> margin_of([-2.0]), margin_of([0.5, 3.0, 1.0])
    (2.0, 2.0)
    """
    if len(scores) == 1:
        return abs(scores[0])
    second, best = sorted(scores)[-2:]
    return best - second


def learn_answers(loops: Interpreted, own: list[Vector], answer: Answer, rate: float) -> None:
    """One agent learns from its own answers; without any its states stay as they are."""
    (X, y), slopes = answer.example, answer.slopes
    if np.isnan(slopes).any():  # one example, whose answer was not asked for
        return
    for k, state in enumerate(own if len(y) else ()):
        loops.begin(state, rate)
        for x, y_b in zip(X, y, strict=True):
            loops.hear(state, x, y_b)
        if len(y) == 1 or loops.loops.additive:
            for x, g in zip(X, slopes[:, k].tolist(), strict=True):
                if g != 0.0 or loops.update.experts:
                    loops.step(state, x, g, rate, answer.weight / len(y))
        elif slopes[:, k].any():
            loops.step(state, slopes[:, k] @ X / len(y), 1.0, rate, 1.0)


def _finish(loops: Interpreted, states: list[list[Vector]], t: int, rates: list[float]) -> None:
    for own, rate in zip(states, rates, strict=True):
        for state in own:
            loops.finish(state, t, rate)


def _average(algorithm: Algorithm, loops: Interpreted, states: list[list[Vector]], t: int) -> None:
    """Every agent adopts the weighted average over its neighbourhood: Σ_j A_ij · message_j."""
    mixing, modes = algorithm.mixing.at(t), loops.layout.modes
    for k in range(len(states[0])):
        sent = [loops.to_message(own[k]) for own in states]
        rows, scalars = (np.array(part) for part in zip(*sent, strict=True))
        for place, mode in enumerate(modes):
            kind = {LINEAR: average.linear, LOG: average.log_mean_exp}.get(mode, average.largest)
            if place < rows.shape[1]:
                rows[:, place] = kind(mixing, rows[:, place])
            else:
                one = slice(place - rows.shape[1], place - rows.shape[1] + 1)
                scalars[:, one] = kind(mixing, scalars[:, one])
        for i, own in enumerate(states):
            loops.from_message(own[k], rows[i], scalars[i])


def _count(
    algorithm: Algorithm, scores: list[float], answer: float, chance: float | None
) -> tuple[bool, float]:
    """Whether the prediction is wrong, and the chance of it where predictions are drawn."""
    if not algorithm.classification:
        return False, 0.0
    if algorithm.update.randomized:
        return _draw(scores, answer, chance)
    said = said_by(algorithm, scores)
    true = answer if len(scores) > 1 else (1.0 if answer > 0.0 else -1.0)
    return said != true, 0.0


def said_by(algorithm: Algorithm, scores: Sequence[float]) -> float:
    """The class that scores predict: −1 or +1, which 0 is too, or a number; the lowest wins a tie."""
    if len(scores) == 1:
        return 1.0 if scores[0] >= 0.0 else -1.0
    best = 0
    for k, score in enumerate(scores):
        if score > scores[best] + algorithm.update.tie:
            best = k
    return float(best)


def _draw(scores: list[float], answer: float, chance: float | None) -> tuple[bool, float]:
    """Follow an expert; votes are shares, and +1 comes first between two classes."""
    if chance is None:
        raise ValueError("a randomised algorithm needs `chances`, one for each prediction")
    if len(scores) == 1:
        positive = 0.5 * (1.0 + scores[0])
        expected = 1.0 - positive if answer > 0.0 else positive
        return (chance < positive) != (answer > 0.0), expected
    drawn = int(np.searchsorted(np.cumsum(scores), chance, side="right"))
    return min(drawn, len(scores) - 1) != answer, 1.0 - scores[int(answer)]


def _compare(
    algorithm: Algorithm, scores: list[float], answer: float, wrong: bool
) -> tuple[float, np.ndarray]:
    """The loss of one example, and its slope for each output; experts are told the answer instead."""
    loss, slopes = algorithm.loss, np.zeros(algorithm.outputs)
    if algorithm.update.experts:
        slopes[0] = answer
        return float(wrong), slopes
    many, cost = algorithm.outputs > 1, 0.0
    for k, score in enumerate(scores):
        said = (1.0 if k == answer else -1.0) if many else float(answer)
        cost += loss.value(score, said, loss.parameters)
        slopes[k] = algorithm.C * loss.derivative(score, said, loss.parameters)
    return cost, slopes
