"""Algorithm 1 of the paper in plain Python: predict, update, communicate, average.

To be read beside the paper, and compared with every engine: `play_round` calls the very loops of the update
that engines compile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ddol.algorithm import Algorithm
from ddol.communicate import average
from ddol.communicate.mixing import Mixing, uniform
from ddol.communicate.robust import Robust
from ddol.communicate.topologies import complete
from ddol.update.asking import (
    HEARD,
    NUMBERS,
    QUESTIONS,
    SHOWN,
    UNBIASED,
    buy,
    is_sure,
    second_chance,
    wish,
)
from ddol.update.contract import LINEAR, LOG, Interpreted, Vector
from ddol.update.rates import agent_rate, evaluate
from ddol.update.sampling import samples
from ddol.update.trust import BOXES, SCALARS, THERE, WANTS, passes

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
    notes: np.ndarray = field(default_factory=lambda: np.zeros((0, 0, 0)))
    """(n, outputs, kept): what updates noted when they scored; see `Layout.kept`."""
    weight: float = 1.0
    """Of experts' answers, which have no slopes that could weigh more."""
    asked: float = 1.0
    """By what slopes weigh more, since not all answers are asked for."""
    shrinks: bool = False
    """Where it was not asked for, whether the agent steps along λw, which needs no answer."""


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
    shape = (algorithm.n_agents, outputs, 1)
    seeded = algorithm.update.seeded(np.tile(first.scalars, shape), 0)
    nothing = (np.empty((0, n_features)), np.empty(0))
    late = [Answer(nothing, np.empty((0, algorithm.outputs))) for _ in agents]
    states = [
        [Vector(first.rows.copy(), seeded[i, k].copy()) for k in range(outputs)] for i in agents
    ]
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
    if algorithm.at_arrival and algorithm.delay > 0 and not loops.layout.kept:
        answered = [
            renewed(algorithm, loops, own, answer)
            for own, answer in zip(states, answered, strict=True)
        ]

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
    slopes, kept = np.zeros((len(y), algorithm.outputs)), loops.layout.kept
    notes = np.zeros((len(y), algorithm.outputs, kept))
    penalty = algorithm.update.l2 / 2 * sum(float(np.sum(loops.weights(v) ** 2)) for v in own)
    for state in own:
        for x in X:
            loops.observe(state, x)
    shown: list[tuple[float, ...]] = []
    for b, (x, answer) in enumerate(zip(X, y, strict=True)):
        scores = loops.scores(own, x, algorithm.outputs)
        chance = None if chances is None else float(chances[i, b])
        wrong, expected = _count(algorithm, scores, answer, chance)
        cost, slopes[b] = _compare(algorithm, scores, answer, wrong)
        if kept:
            slopes[b], notes[b] = algorithm.C, [state.scalars[-kept - 1 : -1] for state in own]
        outcome.mistakes[i] += wrong
        outcome.expected[i] += expected
        outcome.loss[i] += algorithm.C * cost + penalty
        shown.append(tuple(scores))
    return Answer(example, slopes, tuple(shown), notes)


@dataclass(frozen=True)
class _Asked:
    """What agents learn where they ask for some answers only."""

    algorithm: Algorithm
    loops: Interpreted
    states: list[list[Vector]]
    asking: np.ndarray
    seen: np.ndarray

    def answer(self, i: int, answer: Answer, chances: np.ndarray | None) -> Answer:
        """What agent i will learn: slopes are NaN where it asks for no label."""
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
            nothing = np.full_like(answer.slopes, np.nan)
            return replace(answer, slopes=nothing, shrinks=bool(p[UNBIASED]))
        if self.algorithm.update.experts:
            return replace(answer, weight=weight)
        return replace(answer, slopes=weight * answer.slopes, asked=weight)

    def _neighbours_answer(self, i: int, x: np.ndarray, p: np.ndarray) -> float | None:
        """What the first neighbour that is sure says."""
        neighbours = self.algorithm.graph.neighbours(i).tolist()
        for turn in range(len(neighbours)):
            j = neighbours[(int(self.seen[i]) + turn) % len(neighbours)]
            theirs = self.states[j]
            scores = self.loops.scores(theirs, x, self.algorithm.outputs)
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


def renewed(algorithm: Algorithm, loops: Interpreted, own: list[Vector], answer: Answer) -> Answer:
    """The same answer with the gradient at the weights of now."""
    (X, y), slopes = answer.example, answer.slopes
    if not len(y) or np.isnan(slopes).any():
        return answer
    fresh = np.zeros_like(slopes)
    for b, (x, told) in enumerate(zip(X, y, strict=True)):
        scores = loops.scores(own, x, algorithm.outputs)
        _, fresh[b] = _compare(algorithm, scores, told, False)
    return replace(answer, slopes=fresh if answer.asked == 1.0 else answer.asked * fresh)


def learn_answers(loops: Interpreted, own: list[Vector], answer: Answer, rate: float) -> None:
    """One agent learns from its own answers; without any its states stay as they are."""
    (X, y), slopes = answer.example, answer.slopes
    if np.isnan(slopes).any():  # one example, whose answer was not asked for
        for state in own if answer.shrinks else ():
            loops.begin(state, rate)
        return
    for state in own if len(y) else ():
        loops.begin(state, rate)
        for x, y_b in zip(X, y, strict=True):
            loops.hear(state, x, y_b)
    if loops.layout.kept:
        _learn_noted(loops, own, answer, rate)
        return
    for k, state in enumerate(own if len(y) else ()):
        if len(y) == 1 or loops.loops.additive:
            for x, g in zip(X, slopes[:, k].tolist(), strict=True):
                if g != 0.0 or loops.update.experts:
                    loops.step(state, x, g, rate, answer.weight / len(y))
        elif slopes[:, k].any():
            loops.step(state, slopes[:, k] @ X / len(y), 1.0, rate, 1.0)


def _learn_noted(loops: Interpreted, own: list[Vector], answer: Answer, rate: float) -> None:
    """The same by an update that notes what it predicted with, example by example."""
    X, y = answer.example
    for b, x in enumerate(X):
        for k, state in enumerate(own):
            said = y[b] if len(own) == 1 else (1.0 if k == y[b] else -1.0)
            state.scalars[-loops.layout.kept - 1 :] = [*answer.notes[b, k], said]
        loops.judge(own, float(y[b]))
        for k, state in enumerate(own):
            g = float(answer.slopes[b, k])
            if g != 0.0:
                loops.step(state, x, g, rate, answer.weight / len(y))


def _finish(loops: Interpreted, states: list[list[Vector]], t: int, rates: list[float]) -> None:
    for own, rate in zip(states, rates, strict=True):
        for state in own:
            loops.finish(state, t, rate)


def _average(algorithm: Algorithm, loops: Interpreted, states: list[list[Vector]], t: int) -> None:
    """Every agent adopts the weighted average over its neighbourhood: Σ_j A_ij · message_j."""
    statistics = not loops.layout.sampled or samples(t // algorithm.period)
    for k in range(len(states[0])):
        sent = [loops.to_message(own[k]) for own in states]
        matrix = algorithm.mixing.at(t)
        rows, scalars = averaged_messages(matrix, loops.layout.modes, sent, algorithm.robust)
        for i, own in enumerate(states):
            heard = rows[i], scalars[i]
            if loops.layout.boxes.wires:
                heard = _tested(algorithm, loops, own[k], i, sent)
            loops.from_message(own[k], *heard, statistics)


def _tested(
    algorithm: Algorithm,
    loops: Interpreted,
    vector: Vector,
    i: int,
    sent: list[tuple[np.ndarray, np.ndarray]],
) -> tuple[np.ndarray, np.ndarray]:
    """What agent i averages: its own message in the place of those that failed its tests.

    All of them are kept, to be tested on the next examples.
    """
    boxes, D = loops.layout.boxes, vector.rows.shape[1]
    statistics = loops.layout.statistics[0]
    matrix = algorithm.mixing.at(1)
    neighbours, _ = matrix.row(i)
    known, heard = vector.scalars[boxes.scalar :], list(sent)
    for wire, j in enumerate(neighbours.tolist()):
        box = known[BOXES + wire * boxes.scalars :][: boxes.scalars]
        heard[j] = sent[j] if j == i or passes(box) else sent[i]
        if j != i and (known[WANTS] or algorithm.period > 1):
            first = boxes.row + wire * boxes.rows
            told = sent[j][0][statistics:].reshape(-1, D)
            vector.rows[first : first + boxes.rows] = told[: boxes.rows]
            box[SCALARS:] = sent[j][1]
            box[THERE] = 1.0
    rows, scalars = averaged_messages(matrix, loops.layout.modes, heard, algorithm.robust)
    return rows[i], scalars[i]


def averaged_messages(
    mixing: Mixing,
    modes: Sequence[int],
    sent: list[tuple[np.ndarray, np.ndarray]],
    robust: Robust | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """What every agent hears, of what all have sent: rows and scalars, by agent."""
    rows, scalars = (np.array(part) for part in zip(*sent, strict=True))
    for place, mode in enumerate(modes):
        kind = {LINEAR: average.linear, LOG: average.log_mean_exp}.get(mode, average.largest)
        if robust is not None and mode == LINEAR:
            kind = robust.average
        if place < rows.shape[1]:
            rows[:, place] = kind(mixing, rows[:, place])
        else:
            one = slice(place - rows.shape[1], place - rows.shape[1] + 1)
            scalars[:, one] = kind(mixing, scalars[:, one])
    return rows, scalars


def mean_of_copies(
    algorithm: Algorithm, theta: np.ndarray, scalars: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The state of the first of several agents after all of them have averaged with equal weights.

    A mean of what agents keep would be none of what they know: lists, and scales that one of them does not
    know yet.

    Parameters
    ----------
    algorithm : Algorithm
    theta, scalars : arrays (copies, outputs, rows, D) and (copies, outputs, scalars)

    Examples
    --------
    >>> from ddol.presets import dogd
    >>> scalars = np.tile(dogd().update.start(1).scalars, (2, 1, 1))
    >>> mean_of_copies(dogd(), np.array([[[[1.0]]], [[[3.0]]]]), scalars)[0]
    array([[[[2.]]]])
    """
    n_copies, outputs, _, width = theta.shape
    update = algorithm.update
    loops = Interpreted(update, algorithm.average, width)
    met = (theta != update.start(width).rows).any(axis=(0, 1, 2))
    columns = np.flatnonzero(met) if update.grows else None
    mixing, found, notes = uniform(complete(n_copies)), theta[:1].copy(), scalars[:1].copy()
    for k in range(outputs):
        each = [Vector(theta[i, k], scalars[i, k]) for i in range(n_copies)]
        sent = [loops.to_message(vector, columns) for vector in each]
        rows, few = averaged_messages(mixing, loops.layout.modes, sent)
        loops.from_message(Vector(found[0, k], notes[0, k]), rows[0], few[0], columns=columns)
    return found, notes


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
    if algorithm.update.experts:
        slopes = np.zeros(algorithm.outputs)
        slopes[0] = answer
        return float(wrong), slopes
    cost, slopes = algorithm.loss.compare(scores, float(answer))
    return cost, algorithm.C * slopes
