"""An attack on what leaves a site: rows reconstructed from the messages that a neighbour gets.

The attack knows the algorithm and every message, and looks for rows which, learned from the state that the
victim began with, give the message that it sent: first by the sums in the message, then by least squares
through the algorithm's own loops. Where not all of the victim's neighbours are in league, what the others
sent to the victim is not known, and taken to be what the victim itself sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import least_squares

from ddol.algorithm import Algorithm
from ddol.reference import Outcome, averaged_messages, learn_answers, predict_examples, start
from ddol.update.contract import Interpreted, Vector
from ddol.update.private import INVERSE, OFFSET, Z0, Z
from ddol.update.rates import agent_rate, evaluate
from ddol.update.sampling import samples

CLOSE = 0.01
"""A value counts as known within so many standard deviations of its feature."""
_MOST_UNKNOWN, _MOST_LABELS, _MOST_EXCHANGES, _MOST_TURNS = 40, 8, 100, 6_000
"""Unknown numbers, combinations of labels, exchanges, and turns of all agents, up to which it is tried."""
_STARTS, _COST = 2, 100
"""Searches for one combination of labels; what an exchange may cost to be attacked whenever it comes."""
_FIRST = 8
"""Exchanges at the beginning that are left out where there are more: scales are not known yet, and clip."""

Example = tuple[np.ndarray, np.ndarray]
Sent = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Reconstruction:
    """What an attack found.

    Parameters
    ----------
    examples : int
        Examples that a victim learns from between two messages.
    attackers : str
        "one neighbour", or "all neighbours together".
    rows, rows_found : int
        Rows that were attacked, and those of which every value is known within a hundredth of its feature's
        standard deviation.
    values, values_found : int
        The same for single values.
    distance, blind : float
        Root mean square error of the best guess in standard deviations, and that of a guess from the
        attacker's own rows alone: where they are the same, messages revealed nothing about single rows.
    """

    examples: int
    attackers: str
    rows: int
    rows_found: int
    values: int
    values_found: int
    distance: float
    blind: float


class Overheard(NamedTuple):
    """What happens between two exchanges, and what is sent then."""

    number: int
    examples: list[list[Example]]
    before: list[list[Vector]]
    """Every agent's states behind the last exchange."""
    sent: list[list[Sent]]


def check_attack(algorithm: Algorithm) -> None:
    """Refuse what the attack cannot replay."""
    if algorithm.update.experts:
        raise ValueError(
            f"{algorithm.name} sends logarithms of experts' weights: with one example between two messages "
            "they say which experts were wrong about it, and no row; the attack is for linear algorithms"
        )
    rules = (
        algorithm.query,
        algorithm.talk,
        algorithm.compress,
        algorithm.talk_to,
        algorithm.teach,
    )
    if algorithm.delay or any(rule is not None for rule in rules):
        raise ValueError(
            "the attack goes with synchronous rounds; leave out delay, query, talk, compress, talk_to "
            "and teach"
        )
    if algorithm.n_agents < 2:
        raise ValueError("a single agent sends no messages; use --agents 2 or more")


def reconstruct(
    algorithm: Algorithm, X: np.ndarray, y: np.ndarray, together: bool = True, seed: int = 0
) -> Reconstruction:
    """Attack the neighbours of agent 0, who learn from these rows, dealt in turn.

    Parameters
    ----------
    algorithm : Algorithm
    X, y : arrays (n, D) and (n,)
        Answers as the algorithm has them: −1 and 1, numbers of classes, or numbers.
    together : bool
        Whether all neighbours of the victim are in league, or agent 0 is alone.
    seed : int
        Of the attack's starts.

    Examples
    --------
    >>> import ddol
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((80, 3))
    >>> found = reconstruct(ddol.adaptive().on(2), X, np.sign(X[:, 0]))
    >>> found.rows_found == found.rows
    True
    """
    check_attack(algorithm)
    if algorithm.privacy is not None:
        return _reconstruct_private(algorithm, X, y)
    if algorithm.has_mixture:  # what a safe agent sends is of its shared learner
        algorithm = replace(algorithm, safe=False, trust=None)
    varies = X.std(axis=0) > 0.0
    spread = np.where(varies, X.std(axis=0), 1.0)
    n, per = algorithm.n_agents, algorithm.batch * algorithm.period
    rng = np.random.default_rng(seed)
    own = X[0::n] if n <= len(X) else X
    attack = _Attack(algorithm, own, y[0::n], varies, spread, rng)
    victims = [int(i) for i in algorithm.graph.neighbours(0)][:3]
    found: list[tuple[np.ndarray, np.ndarray]] = []
    believed: list[list[Vector]] | None = None
    skipped = _FIRST if len(X) >= 4 * _FIRST * n * per else 0
    for exchange in _exchanges(algorithm, X, y):
        for victim in victims if exchange.number > skipped else ():
            true = np.concatenate([X_b for X_b, _ in exchange.examples[victim]])
            if len(true) == per and attack.is_worth(per, exchange.number):
                first = exchange.before[victim] if believed is None else believed[victim]
                found.append((true, attack.guess(exchange, victim, first)))
        believed = None if together else _believed(algorithm, exchange)
    if not found:
        raise ValueError(
            f"{len(X)} rows are too few for one exchange of {n} agents after {per} each"
        )
    return _measured(found, per, together, varies, spread, own.mean(axis=0))


def _reconstruct_private(algorithm: Algorithm, X: np.ndarray, y: np.ndarray) -> Reconstruction:
    """The attack on noisy sums of gradients, each of which is a multiple of (1, its standardised row).

    Their quotients are a weighted mean of the rows between two releases; without noise, and with one row
    between two, they are the row.
    """
    budget: Any = algorithm.privacy
    learners: Any = algorithm.update
    shared = replace(algorithm, update=learners.learners[0], safe=False, trust=None, privacy=None)
    varies = X.std(axis=0) > 0.0
    spread = np.where(varies, X.std(axis=0), 1.0)
    n, found = algorithm.n_agents, []
    for victim in [int(i) for i in algorithm.graph.neighbours(0)][:3]:
        rows, known = X[victim::n], 0
        for exchange in _exchanges(shared, X, y, most=_MOST_TURNS):
            learned = exchange.number * algorithm.batch * algorithm.period
            released = budget.released_after(learned)
            if released > known:
                (z, *_), (z0, *_) = exchange.sent[victim][0]
                before = exchange.before[victim][0]
                moved, along = z - before.rows[Z], z0 - before.scalars[Z0]
                standard = np.clip(moved / (along if along else 1.0), -4.0, 4.0)
                offset, inverse = before.rows[OFFSET], before.rows[INVERSE]
                guess = (standard - offset) / np.where(inverse > 0.0, inverse, 1.0)
                first, last = (budget.public + k * budget.every for k in (known, released))
                found.append((rows[first:last], np.tile(guess, (last - first, 1))))
            known = released
    if not found:
        raise ValueError(
            f"{len(X)} rows are too few for one release of {n} agents after {budget.every} each"
        )
    own = X[0::n].mean(axis=0)
    return _measured(found, budget.every, True, varies, spread, own)


def _exchanges(
    algorithm: Algorithm, X: np.ndarray, y: np.ndarray, most: int = _MOST_EXCHANGES
) -> Iterator[Overheard]:
    """Play synchronous rounds by the reference, and show what is sent."""
    n, batch, period = algorithm.n_agents, algorithm.batch, algorithm.period
    loops = Interpreted(algorithm.update, algorithm.average, X.shape[1])
    states = start(algorithm, X.shape[1]).states
    most = min(most * period, max(_MOST_TURNS // (n * batch), 2 * period))
    rounds = min(len(X) // (n * batch), most)
    examples: list[list[Example]] = [[] for _ in range(n)]
    before = _copies(states)
    for t in range(1, rounds + 1):
        size = n * batch
        for i in range(n):
            places = slice((t - 1) * size + i, t * size, n)
            examples[i].append((X[places], y[places]))
            _learn(algorithm, loops, states[i], examples[i][-1:], t, i)
        if t % period:
            continue
        sent = [[loops.to_message(vector) for vector in own] for own in states]
        yield Overheard(t // period, examples, before, sent)
        _adopt(algorithm, loops, states, sent, t)
        examples, before = [[] for _ in range(n)], _copies(states)


def _learn(
    algorithm: Algorithm,
    loops: Interpreted,
    own: list[Vector],
    rounds: list[Example],
    t: int,
    i: int,
) -> None:
    """Let one agent learn from the examples of some rounds, the last of which is round t."""
    n = algorithm.n_agents
    for number, example in enumerate(rounds, t - len(rounds) + 1):
        rate = agent_rate(algorithm.rate, i, float(evaluate(algorithm.rate, number, 1)[0]))
        counted = Outcome(np.zeros(n, int), np.zeros(n), np.zeros(n))
        answer = predict_examples(algorithm, loops, own, example, counted, i, None)
        learn_answers(loops, own, answer, rate)
        if algorithm.period > 1:
            for vector in own:
                loops.finish(vector, number, rate)


def _adopt(
    algorithm: Algorithm,
    loops: Interpreted,
    states: list[list[Vector]],
    sent: list[list[Sent]],
    t: int,
) -> None:
    rate = float(evaluate(algorithm.rate, t, 1)[0])
    for k in range(len(states[0])):
        one = [own[k] for own in sent]
        rows, scalars = averaged_messages(algorithm.mixing.at(t), loops.layout.modes, one)
        for i, own in enumerate(states):
            statistics = _with_statistics(loops, t // algorithm.period)
            loops.from_message(own[k], rows[i], scalars[i], statistics)
            loops.finish(own[k], t, agent_rate(algorithm.rate, i, rate))


def _with_statistics(loops: Interpreted, number: int) -> bool:
    """Whether an exchange has the statistics of the features; those left out are not sent."""
    return not loops.layout.sampled or samples(number)


def _believed(algorithm: Algorithm, exchange: Overheard) -> list[list[Vector]]:
    """States after an exchange as agent 0 takes them to be, who gets its neighbours' messages only."""
    loops = Interpreted(algorithm.update, algorithm.average, exchange.before[0][0].rows.shape[1])
    known = {0, *algorithm.graph.neighbours(0).tolist()}
    believed = []
    for victim in range(algorithm.n_agents):
        heard = [m if j in known else exchange.sent[victim] for j, m in enumerate(exchange.sent)]
        states = _copies(exchange.before)
        t = exchange.number * algorithm.period
        _learn(algorithm, loops, states[victim], exchange.examples[victim], t, victim)
        _adopt(algorithm, loops, states, heard, t)
        believed.append(states[victim])
    return believed


def _copies(states: list[list[Vector]]) -> list[list[Vector]]:
    return [[vector.copy() for vector in own] for own in states]


@dataclass(frozen=True)
class _Attack:
    """Finds rows that explain a message."""

    algorithm: Algorithm
    own: np.ndarray
    answers: np.ndarray
    varies: np.ndarray
    spread: np.ndarray
    rng: np.random.Generator

    def is_worth(self, count: int, number: int) -> bool:
        """Whether to attack an exchange: of those that take long, one in so many."""
        loops = Interpreted(self.algorithm.update, self.algorithm.average, self.own.shape[1])
        if count == 1 and loops.layout.statistics[0] and _with_statistics(loops, number):
            return True  # it costs nothing
        if not self.searches(count):
            return True
        unknown = count * int(self.varies.sum())
        cost = _STARTS * len(np.unique(self.answers)) ** count * unknown**2
        return number % max(cost // _COST, 1) == 0

    def searches(self, count: int) -> bool:
        """Whether so many rows can be searched for by least squares."""
        few = count * int(self.varies.sum()) <= _MOST_UNKNOWN
        return few and len(np.unique(self.answers)) ** count <= _MOST_LABELS

    def guess(self, exchange: Overheard, victim: int, first: list[Vector]) -> np.ndarray:
        """The rows between the last exchange and this one, as well as they can be known."""
        sizes = [len(y) for _, y in exchange.examples[victim]]
        count, D = sum(sizes), self.own.shape[1]
        loops = Interpreted(self.algorithm.update, self.algorithm.average, D)
        mean, counted = self._mean(loops, exchange, victim, first)
        free = int(self.varies.sum())
        classes = np.unique(self.answers)
        if not self.searches(count):
            guessed = np.tile(self.own.mean(axis=0), (count, 1))
            guessed[:counted] = mean
            return guessed
        statistics = _with_statistics(loops, exchange.number)
        if count == counted == 1:
            return mean[
                None
            ]  # the sums are the row, but for values so far out that the algorithm cuts them
        t = exchange.number * self.algorithm.period
        observed = _numbers(loops, exchange.sent[victim], statistics)
        start = _numbers(loops, [loops.to_message(v) for v in first], statistics)
        scale = np.maximum(np.abs(observed - start), 1e-6 * np.abs(observed).max() + 1e-12)

        def missing(z: np.ndarray, labels: Sequence[float]) -> np.ndarray:
            rows = np.tile(mean, (count, 1))
            rows[:, self.varies] += z.reshape(count, free) * self.spread[self.varies]
            states = [vector.copy() for vector in first]
            cut = np.cumsum(sizes)[:-1]
            rounds = zip(np.split(rows, cut), np.split(np.array(labels), cut), strict=True)
            _learn(self.algorithm, loops, states, list(rounds), t, victim)
            made = _numbers(loops, [loops.to_message(v) for v in states], statistics)
            return np.clip((made - observed) / scale, -1e6, 1e6)

        best, least = np.zeros(count * free), np.inf
        for labels in product(classes.tolist(), repeat=count):
            for attempt in range(_STARTS):
                z = self.rng.standard_normal(count * free) * (attempt > 0 or count > 1)
                if attempt == 0 and count == 1:
                    z = self._along_gradient(exchange, victim, first, labels[0], t) - mean
                    z = np.clip(z[self.varies] / self.spread[self.varies], -10.0, 10.0)
                found = least_squares(lambda z, y=labels: missing(z, y), z, max_nfev=25)
                if found.cost < least:
                    best, least = found.x, found.cost
                if least < 1e-12:
                    break
        rows = np.tile(mean, (count, 1))
        rows[:, self.varies] += best.reshape(count, free) * self.spread[self.varies]
        return rows

    def _along_gradient(
        self, exchange: Overheard, victim: int, first: list[Vector], label: float, t: int
    ) -> np.ndarray:
        """The row if the message's first numbers moved by −η·C·x for a label of 1, as a linear rule's do."""
        loops = Interpreted(self.algorithm.update, self.algorithm.average, self.own.shape[1])
        place = loops.layout.statistics[0]
        moved = exchange.sent[victim][0][0][place] - loops.to_message(first[0])[0][place]
        rate = agent_rate(
            self.algorithm.rate, victim, float(evaluate(self.algorithm.rate, t, 1)[0])
        )
        return moved * (1.0 if label > 0 else -1.0) / (rate * self.algorithm.C)

    def _mean(
        self, loops: Interpreted, exchange: Overheard, victim: int, first: list[Vector]
    ) -> tuple[np.ndarray, int]:
        """The mean of the rows that the message's sums have grown by, and how many these are.

        Without sums it is the mean of the attacker's own rows, of none. Sums may be of some rows only.
        """
        own = self.own.mean(axis=0)
        if not loops.layout.statistics[0] or not _with_statistics(loops, exchange.number):
            return own, 0
        (_, before, *_), seen = loops.to_message(first[0])
        (_, after, *_), now = exchange.sent[victim][0]
        counted = round(float(now[0] - seen[0]))
        if counted < 1:
            return own, 0
        return np.where(self.varies, (after - before) / counted, own), counted


def _numbers(loops: Interpreted, sent: list[Sent], statistics: bool) -> np.ndarray:
    """All that a message has, without statistics where it has none."""
    rows, scalars = (0, 0) if statistics else loops.layout.statistics
    return np.concatenate([np.concatenate([m[rows:].ravel(), s[scalars:]]) for m, s in sent])


def _measured(
    found: list[tuple[np.ndarray, np.ndarray]],
    count: int,
    together: bool,
    varies: np.ndarray,
    spread: np.ndarray,
    own: np.ndarray,
) -> Reconstruction:
    from scipy.optimize import linear_sum_assignment

    rows = values = rows_found = values_found = 0
    squares = blind = 0.0
    for true, guessed in found:
        off = np.abs(true[:, None] - guessed[None])[:, :, varies] / spread[varies]
        one, other = linear_sum_assignment(np.minimum(off, 10.0).sum(axis=2))
        off = off[one, other]
        rows, values = rows + len(off), values + off.size
        rows_found += int((off < CLOSE).all(axis=1).sum())
        values_found += int((off < CLOSE).sum())
        squares += float((np.minimum(off, 10.0) ** 2).sum())
        blind += float((((true - own)[:, varies] / spread[varies]) ** 2).sum())
    who = "all neighbours together" if together else "one neighbour"
    distance, nothing = (float(np.sqrt(total / max(values, 1))) for total in (squares, blind))
    return Reconstruction(count, who, rows, rows_found, values, values_found, distance, nothing)
