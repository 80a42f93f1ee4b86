"""A list of events in plain Python, one after the other: what the kernel is compared with."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ddol.algorithm import Algorithm
from ddol.communicate.talking import Compression, compression_of
from ddol.reference import (
    Agents,
    Answer,
    Outcome,
    learn_answers,
    predict_examples,
    renewed,
    start,
)
from ddol.schedules.events import (
    ADOPT,
    ANSWER,
    GRADIENT,
    JOIN,
    LEAVE,
    MIX,
    NONE,
    PREDICT,
    PROJECT,
    RECEIVE,
    SEND,
    TEACH,
    Event,
    Events,
)
from ddol.update.contract import LINEAR, LOG, Interpreted, Layout, Vector
from ddol.update.rates import agent_rate, evaluate
from ddol.update.sampling import samples

WEIGHTS, STATISTICS = 1, 2

Message = list[tuple[np.ndarray, np.ndarray]]
"""A message: rows and scalars, for each weight vector of an agent."""


@dataclass
class EventReference:
    """All agents, with what is under way between them.

    Parameters
    ----------
    algorithm : Algorithm
        On its network; one example a turn.
    X, y : arrays
        The whole data: events name rows of it.

    Examples
    --------
    >>> from ddol.presets import dogd
    >>> from ddol.schedules.events import answer, predict
    >>> played = EventReference(dogd(l2=0.0).on(2), np.eye(2), np.array([1.0, -1.0]))
    >>> played.play(Events.of([predict(1, 1), answer(1, 1)]))
    >>> played.outcome.mistakes.tolist(), played.weights()[1, 0].tolist()
    ([0, 1], [0.0, -1.0])
    """

    algorithm: Algorithm
    X: np.ndarray
    y: np.ndarray
    outcome: Outcome = field(init=False)
    turns: np.ndarray = field(init=False)
    _agents: Agents = field(init=False)
    _loops: Interpreted = field(init=False)

    def __post_init__(self) -> None:
        n, D = self.algorithm.n_agents, self.X.shape[1]
        self._agents = start(self.algorithm, D)
        self._loops = Interpreted(self.algorithm.update, self.algorithm.average, D)
        self.outcome = Outcome(np.zeros(n, int), np.zeros(n), np.zeros(n))
        self.turns = np.zeros(n, int)
        self._absent = np.zeros(n, bool)
        self._late: dict[tuple[int, int], list[Answer]] = {}
        self._sent: dict[int, Message] = {}
        self._said: dict[int, Message] = {}
        self._views: dict[tuple[int, int], tuple[int, list[Vector]]] = {}
        self._nothing = [self._loops.to_message(vector) for vector in self._agents.states[0]]
        self._mailbox: dict[tuple[int, int], int] = {}

    def play(self, events: Events) -> None:
        """Play a whole list."""
        for place, event in enumerate(events):
            self._play(place, event)

    def weights(self) -> np.ndarray:
        """Primal weights of all agents: (N, outputs, D)."""
        states = self._agents.states
        return np.array([[self._loops.weights(v) for v in own] for own in states])

    def _play(self, place: int, event: Event) -> None:
        i, own = event.agent, self._agents.states[event.agent]
        if event.kind == PREDICT:
            self._predict(i, own, event.row)
        elif event.kind == ANSWER:
            answer = self._late[i, event.row].pop(max(event.peer, 0))
            if self.algorithm.at_arrival and not self._loops.layout.kept:
                answer = renewed(self.algorithm, self._loops, own, answer)
            learn_answers(self._loops, own, answer, self._rate(i))
        elif event.kind == SEND:
            self._sent[place] = self._said[i] = self._coded(i, own, event.row)
        elif event.kind == RECEIVE and not self._absent[i]:
            newest = self._mailbox.get((i, event.peer), NONE)
            self._mailbox[i, event.peer] = max(newest, event.row)
        elif event.kind == MIX:
            self._mix(i, own, event.peer)
        elif event.kind == PROJECT:
            self._project(i, own)
        elif event.kind == ADOPT and (i, event.peer) in self._mailbox:
            self._take(own, self._sent[self._mailbox[i, event.peer]])
        elif event.kind in (TEACH, GRADIENT):
            self._teach(i, own, event)
        elif event.kind in (LEAVE, JOIN):
            self._absent[i] = event.kind == LEAVE

    def pieces_to_say(self, i: int, threshold: float) -> int:
        """The message that agent i would send now in rounds."""
        now = [self._loops.to_message(vector) for vector in self._agents.states[i]]
        limit = threshold / max(int(self.turns[i]), 1) ** 0.5
        before = self._said.get(i, self._nothing)
        moved = pieces_moved(self._loops.layout, now, before, self._nothing, limit)
        exchange = max(int(self.turns[i]), 1) // self.algorithm.period
        seldom = self._loops.layout.sampled and not samples(exchange)
        return moved & WEIGHTS if seldom else moved

    def _coded(self, i: int, own: list[Vector], pieces: int) -> Message:
        now = [self._loops.to_message(vector) for vector in own]
        before, how = self._said.get(i, self._nothing), compression_of(self.algorithm.compress)
        sent = 3 if pieces == NONE else pieces
        return coded(self._loops.layout, now, before, self._nothing, sent, how)

    def _teach(self, i: int, own: list[Vector], event: Event) -> None:
        """Agent i learns from a row; the teacher's view of it learns the same."""
        example = self.X[event.row : event.row + 1], self.y[event.row : event.row + 1]
        unseen = Outcome(*(np.zeros(len(self.turns)) for _ in range(3)))

        def answer_of(states: list[Vector]) -> Answer:
            return predict_examples(self.algorithm, self._loops, states, example, unseen, i, None)

        if event.kind == TEACH:
            answer = answer_of(own)
        else:
            answer = answer_of(view := self._view(event.peer, i))
            learn_answers(self._loops, view, answer, self._rate(i))
        learn_answers(self._loops, own, answer, self._rate(i))
        self._project(i, own)

    def _view(self, i: int, j: int) -> list[Vector]:
        """Agent j's state as i knows it."""
        newest = self._mailbox.get((i, j), NONE)
        known, view = self._views.get((i, j), (-2, []))
        if known != newest:
            view = view or start(self.algorithm, self.X.shape[1]).states[j]
            if newest != NONE:
                self._take(view, self._sent[newest])
            self._views[i, j] = newest, view
        return view

    def _rate(self, i: int) -> float:
        rate = self.algorithm.rate
        return agent_rate(rate, i, float(evaluate(rate, max(int(self.turns[i]), 1), 1)[0]))

    def _predict(self, i: int, own: list[Vector], row: int) -> None:
        self.turns[i] += 1
        if row == NONE:
            return
        example = self.X[row : row + 1], self.y[row : row + 1]
        made = predict_examples(self.algorithm, self._loops, own, example, self.outcome, i, None)
        self._late.setdefault((i, row), []).append(made)

    def _project(self, i: int, own: list[Vector]) -> None:
        for vector in own:
            self._loops.finish(vector, max(int(self.turns[i]), 1), self._rate(i))

    def _mix(self, i: int, own: list[Vector], peer: int) -> None:
        """Σ_j A_ij · (newest message of j); i's own where there is none, or j is absent."""
        if self.algorithm.n_agents > 1:
            mine = [self._loops.to_message(vector) for vector in own]
            heard, weights = self._neighbours(i, peer)
            messages = [mine if j == i else self._newest(i, j, mine) for j in heard]
            places = [j for j, agent in enumerate(heard) if agent != i]
            averaged = [self._averaged(messages, k, weights, mine, places) for k in range(len(own))]
            exchange = int(self.turns[i]) // self.algorithm.period
            self._take(own, averaged, not self._loops.layout.sampled or samples(exchange))
        self._project(i, own)

    def _neighbours(self, i: int, peer: int) -> tuple[list[int], np.ndarray]:
        if peer != NONE:
            return [i, peer], np.array([0.5, 0.5])
        agents, weights = self.algorithm.mixing.at(max(int(self.turns[i]), 1)).row(i)
        used = weights > 0
        return agents[used].tolist(), weights[used]

    def _newest(self, i: int, j: int, mine: Message) -> Message:
        place = self._mailbox.get((i, j), NONE)
        return mine if place == NONE or self._absent[j] else self._sent[place]

    def _averaged(
        self,
        messages: list[Message],
        k: int,
        weights: np.ndarray,
        mine: Message,
        others: list[int],
    ) -> tuple[np.ndarray, np.ndarray]:
        rows, scalars = (np.array(part) for part in zip(*(m[k] for m in messages), strict=True))
        n_rows = rows.shape[1]
        for place, mode in enumerate(self._loops.layout.modes):
            numbers = rows[:, place] if place < n_rows else scalars[:, place - n_rows, None]
            if self.algorithm.robust is not None and mode == LINEAR:
                own = mine[k][0][place] if place < n_rows else mine[k][1][place - n_rows, None]
                mixed = self.algorithm.robust.of(own, numbers[others], weights[others])
            else:
                mixed = _average(numbers, weights, mode)
            if place < n_rows:
                rows[0, place] = mixed
            else:
                scalars[0, place - n_rows] = mixed[0]
        return rows[0], scalars[0]

    def _take(self, own: list[Vector], message: Message, statistics: bool = True) -> None:
        for vector, (rows, scalars) in zip(own, message, strict=True):
            self._loops.from_message(vector, rows.copy(), scalars.copy(), statistics)


def _average(numbers: np.ndarray, weights: np.ndarray, mode: int) -> np.ndarray:
    """Numbers (neighbours, D) averaged in one of three ways."""
    if mode == LINEAR:
        return _weighted_sum(weights, numbers)
    largest = np.asarray(numbers.max(axis=0))
    if mode != LOG:
        return largest
    return np.asarray(largest + np.log(_weighted_sum(weights, np.exp(numbers - largest))))


def _weighted_sum(weights: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """In the order of the neighbours: what is equal in two places stays equal, to the bit."""
    total = np.zeros(numbers.shape[1])
    for weight, row in zip(weights, numbers, strict=True):
        total += weight * row
    return total


# --- what an agent says: the reference of `engines.kernels.talking` ---------------------------------


def pieces_moved(
    layout: Layout, now: Message, before: Message, start: Message, limit: float
) -> int:
    """Pieces of which a row has moved by more than a share of its squared way from the start.

    Examples
    --------
    >>> message = lambda *row: [(np.array([row]), np.empty(0))]
    >>> pieces_moved(Layout(("w",)), message(3.0, 4.0), message(3.0, 3.0), message(0.0, 0.0), 0.03)
    3
    """
    found = 0
    for r, piece in enumerate(_pieces_of_rows(layout)):
        if 0 < r < layout.statistics[0]:
            continue  # of statistics the counts tell how much is new
        apart = sum(
            float(np.sum((m[0][r] - b[0][r]) ** 2)) for m, b in zip(now, before, strict=True)
        )
        way = sum(float(np.sum((m[0][r] - s[0][r]) ** 2)) for m, s in zip(now, start, strict=True))
        moved = apart / way if way > 0.0 else (np.inf if apart > 0.0 else 0.0)
        if moved > limit:
            found |= piece
    return 3 if found and not layout.statistics[0] else found


def coded(
    layout: Layout,
    now: Message,
    before: Message,
    start: Message,
    pieces: int,
    how: Compression | None,
) -> Message:
    """The message as its receivers will know it; before the first one, ``before`` is the start itself."""
    first = before is start
    rounded = how if how is not None and how.kind != "top" else None
    if first and rounded is not None and rounded.has_memory:
        rounded = None  # there is nothing that it could be a difference to
    out = [(rows.copy(), scalars.copy()) for rows, scalars in before]
    chosen = np.ones(now[0][0].shape[1], bool)
    if how is not None and how.kind == "top" and not first:
        chosen = _changed_most(layout, now, before, start, pieces, how.features(len(chosen)))
    for (rows, scalars), (had_rows, had_scalars), (to_rows, to_scalars) in zip(
        now, before, out, strict=True
    ):
        for r, piece in enumerate(_pieces_of_rows(layout)):
            if pieces & piece:
                alone = piece == STATISTICS
                new = rows[r] if rounded is None else _rounded(rounded, rows[r], had_rows[r], alone)
                to_rows[r, chosen] = new[chosen]
        for k in range(len(scalars)):
            if pieces & (STATISTICS if k < layout.statistics[1] else WEIGHTS):
                one = slice(k, k + 1)
                new = scalars[one]
                if rounded is not None:
                    new = _rounded(rounded, new, had_scalars[one], True)
                to_scalars[one] = new
    return out


def _pieces_of_rows(layout: Layout) -> list[int]:
    rows, first = len(layout.message_rows), layout.statistics[0]
    return [STATISTICS] * first + [WEIGHTS] * (rows - first)


def _rounded(how: Compression, new: np.ndarray, had: np.ndarray, alone: bool) -> np.ndarray:
    """Single precision; or differences cut towards 0, with 3 bits behind the leading one, and nothing left of
    what is below 2^−14 of the largest; 7 bits where each number stands alone."""
    if how.kind == "float32":
        info = np.finfo(np.float32)
        size = np.clip(np.abs(new), info.tiny, info.max).astype(np.float32).astype(float)
        return np.where(new == 0.0, new, np.copysign(size, new))
    apart, places = new - had, 7 if alone else 3
    part, exponent = np.frexp(apart)
    short = np.ldexp(np.trunc(part * 2 ** (places + 1)), exponent - places - 1)
    largest = exponent[apart != 0.0].max(initial=-10_000)
    small = exponent < largest - 14
    lost = (small & (not alone)) | (np.abs(apart) < np.finfo(float).tiny)
    return np.asarray(had + np.where(lost, 0.0, short))


def _changed_most(
    layout: Layout, now: Message, before: Message, start: Message, pieces: int, most: int
) -> np.ndarray:
    """The features that have changed most; of those that tie, the first ones."""
    sizes = np.zeros(now[0][0].shape[1])
    for r, piece in enumerate(_pieces_of_rows(layout)):
        if pieces & piece:
            way = sum(
                float(np.sum((m[0][r] - s[0][r]) ** 2)) for m, s in zip(now, start, strict=True)
            )
            for m, b in zip(now, before, strict=True):
                sizes += (m[0][r] - b[0][r]) ** 2 / (way if way > 0.0 else 1.0)
    chosen = np.zeros(len(sizes), bool)
    chosen[np.argsort(-sizes, kind="stable")[:most]] = True
    return chosen & (sizes > 0.0)
