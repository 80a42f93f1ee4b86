"""Tickets: predictions now, their labels later, in any order, some of them never."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ddol.algorithm import Algorithm
from ddol.engines.events.player import EventPlayer
from ddol.engines.learner import Learner
from ddol.engines.local import Local
from ddol.engines.plans import EventList
from ddol.engines.registry import MessageCounts, Turns
from ddol.engines.setup import Setup
from ddol.engines.state import State, numbers_sent
from ddol.engines.state_checks import check_start
from ddol.engines.workers.partition import Snapshots
from ddol.engines.workers.worker import KernelWorker
from ddol.reference import said_by
from ddol.schedules.clock import EventChunk
from ddol.schedules.events import ANSWER, MIX, NONE, PREDICT, PROJECT, RECEIVE, SEND
from ddol.schedules.wiring import Wiring
from ddol.streams.rows import Block, Rows
from ddol.trace import Trace
from ddol.update.contract import ARRIVAL


@dataclass(frozen=True)
class Ticket:
    """A prediction that waits for its label.

    Parameters
    ----------
    number : int
        0, 1, … in the order of the predictions.
    agent : int
    prediction : float
        −1 or +1, the number of a class, or the score of a regression.
    scores : (outputs,)
    """

    number: int
    agent: int
    prediction: float
    scores: np.ndarray


@dataclass
class _KeptPrediction:
    """A prediction that waits for its label: its row, the slot of its slopes, and its penalty."""

    ticket: Ticket
    row: Rows
    slot: int
    penalty: float


class TicketTurns(Turns):
    """All agents in this thread, asynchronous: each learns when a label comes, and then sends and averages.

    Parameters
    ----------
    algorithm : Algorithm
    state : State
    most : int
        Predictions that may be under way; the oldest is dropped, and counted, to make room.
    """

    def __init__(self, algorithm: Algorithm, state: State, most: int) -> None:
        if most < 1:
            raise ValueError(f"`most` must be at least 1, it is {most}")
        if algorithm.update.randomized:
            raise ValueError(
                f"{algorithm.name} draws its predictions at random, tickets cannot; use adaptive or dwm-a"
            )
        check_start(algorithm, state, events=True)
        self.algorithm, self.most = algorithm, most
        self.wires = Wiring.of(algorithm.mixing)
        self.player = EventPlayer(algorithm, state, self.wires)
        self.waiting: OrderedDict[int, _KeptPrediction] = OrderedDict()
        self.count, self.unanswered, self.place = 0, 0, 0
        self._free: list[int] = list(range(most - 1, -1, -1))
        self._answers = np.zeros(algorithm.n_agents, np.int64)
        self._sent = 0

    # --- tickets -------------------------------------------------------------------------------------

    def predict(self, agent: int, row: Rows) -> Ticket:
        """Let an agent predict one example, and keep it until its label comes."""
        if not 0 <= agent < self.algorithm.n_agents:
            raise ValueError(f"found agent {agent}, expected 0 to {self.algorithm.n_agents - 1}")
        self.player.widen(row.n_features)
        if len(self.waiting) >= self.most:
            _, oldest = self.waiting.popitem(last=False)
            self._free.append(oldest.slot)
            self.unanswered += 1
        slot, state = self._free.pop(), self.player.worker.state
        penalty = self._penalty(agent)
        before = [a[agent] for a in (state.mistakes, state.loss, state.expected, state.examples)]
        self._play([(PREDICT, agent, NONE, slot, 0)], row)
        # Whether it was right is not known yet: its loss is counted with its label.
        counters = (state.mistakes, state.loss, state.expected, state.examples)
        for array, value in zip(counters, before, strict=True):
            array[agent] = value
        scores = self.player.worker.workspace.scores.copy()
        ticket = Ticket(self.count, agent, self._prediction(scores), scores)
        self.waiting[self.count] = _KeptPrediction(ticket, row, slot, penalty)
        self.count += 1
        return ticket

    def answer(self, ticket: Ticket | int, y: float) -> None:
        """Learn from the label of a prediction; then send, and average with what neighbours have sent."""
        number = ticket if isinstance(ticket, int) else ticket.number
        known = self._checked_answer(y)
        kept = self.waiting.pop(number, None)
        if kept is None:
            state = (
                "was never given" if number >= self.count else "is answered already, or was dropped"
            )
            raise KeyError(f"ticket {number} {state}; {len(self.waiting)} are waiting")
        slopes = self._count(kept, known)
        noted = self.player.slopes[kept.slot].reshape(len(slopes), -1)
        noted[:, 0] = slopes
        self._free.append(kept.slot)
        agent = kept.ticket.agent
        answered = replace(kept.row, y=np.array([known]))
        self._answers[agent] += 1
        self._play(self._learning(agent, kept.slot), answered)

    def _checked_answer(self, y: float) -> float:
        """The label as a number, if it is allowed; a ticket whose label is refused goes on waiting."""
        known, algorithm = float(y), self.algorithm
        if not algorithm.classification:
            if math.isfinite(known):
                return known
            raise ValueError(f"found the answer {y!r}, expected a finite number")
        classes = max(algorithm.outputs, getattr(algorithm.update, "n_classes", None) or 2)
        if known in ((-1.0, 1.0) if classes == 2 else range(classes)):
            return known
        expected = "-1 or +1" if classes == 2 else f"a class from 0 to {classes - 1}"
        raise ValueError(f"found the answer {y!r}, expected {expected}")

    def _learning(self, agent: int, slot: int) -> list[tuple[int, int, int, int, int]]:
        """The events after a label: learn, project, and, after every period-th one, send and mix."""
        events = [(ANSWER, agent, NONE, slot, 0), (PROJECT, agent, NONE, NONE, NONE)]
        if self._answers[agent] % self.algorithm.period:
            return events
        place = self.place + len(events)
        events.append((SEND, agent, NONE, 0, NONE))
        wires = self.wires
        lo, hi = wires.spoken_starts[agent], wires.spoken_starts[agent + 1]
        for wire in wires.spoken[lo:hi].tolist():
            events.append((RECEIVE, int(wires.listener[wire]), wire, 0, place))
        self._sent += int(hi - lo)
        return [*events, (MIX, agent, NONE, NONE, NONE)]

    def _play(self, events: list[tuple[int, int, int, int, int]], row: Rows) -> None:
        kind, agent, wire, slot, rows = zip(*events, strict=True)
        chunk = EventChunk(
            np.array(kind, np.int8), np.array(agent, np.int32), np.array(wire, np.int32),
            np.array(slot, np.int32), np.array(rows, np.int64), np.zeros(len(events)), self.most, 1,
        )  # fmt: skip
        self.player.play(chunk, row, np.zeros(1, np.int64), 0, [])
        self.place += len(events)

    # --- what a prediction costs ---------------------------------------------------------------------

    def _prediction(self, scores: np.ndarray) -> float:
        if not self.algorithm.classification:
            return float(scores[0])
        return said_by(self.algorithm, scores.tolist())

    def _penalty(self, agent: int) -> float:
        l2 = self.algorithm.update.l2
        if l2 == 0.0:
            return 0.0
        weights = self.player.worker.weights()[agent]
        return 0.5 * l2 * float((weights * weights).sum())

    def _count(self, kept: _KeptPrediction, y: float) -> np.ndarray:
        """Count what the prediction cost, at the weights that made it; the slopes there."""
        algorithm, agent = self.algorithm, kept.ticket.agent
        state, scores = self.player.worker.state, kept.ticket.scores
        weight = float(kept.row.weight[0]) if len(kept.row.weight) else 1.0
        wrong = algorithm.classification and kept.ticket.prediction != y
        state.examples[agent] += 1
        state.mistakes[agent] += wrong
        importance = algorithm.C * weight
        if algorithm.update.experts:
            state.loss[agent] += importance * wrong
            return np.full(algorithm.outputs, y)
        cost, slopes = algorithm.loss.compare(scores.tolist(), y)
        state.loss[agent] += importance * cost + kept.penalty
        if self.player.worker.layout.kept:
            return np.full(algorithm.outputs, importance)
        return importance * slopes

    # --- what the plan calls -------------------------------------------------------------------------

    @property
    def kernel_workers(self) -> list[KernelWorker]:
        """The one worker."""
        return [self.player.worker]

    def play(self, block: Block, after: Sequence[int] = ()) -> Snapshots:
        """Look; blocks do not go with tickets."""
        if block.n_rounds:
            raise ValueError(
                "this learner learns by predict and answer; use another learner for blocks and streams"
            )
        return self.player.look()

    def end(self) -> Snapshots:
        """Nothing is left to happen by itself."""
        return self.player.look()

    def sent(self) -> MessageCounts:
        """Messages sent so far."""
        each = 8 * numbers_sent(self.algorithm, self.player.worker.state.n_features)
        return MessageCounts(self._sent, self._sent * each)


class TicketLearner:
    """Agents that predict now and learn when the labels come: in any order, some of them never.

    The agents are asynchronous: the one that gets a label learns, sends to its neighbours, and averages
    with the newest that they have sent. It learns along the gradient at the weights of then, unless the
    algorithm has ``gradient="kept"``.

    Parameters
    ----------
    algorithm : Algorithm
        On its network.
    setup : Setup, optional
        Its seed and number of features.
    state : State, optional
        Where to go on from, such as ``trace.state``.
    most : int
        Predictions that may be under way; the oldest is dropped to make room, and counted in `unanswered`.

    Examples
    --------
    >>> import ddol
    >>> learner = ddol.TicketLearner(ddol.dogd(l2=0.0).on(2))
    >>> first, second = learner.predict(0, [1.0, 0.0]), learner.predict(1, [0.0, 2.0])
    >>> learner.answer(second, -1.0); learner.answer(first, 1.0)
    >>> second.prediction, learner.trace().mistakes.tolist()
    (1.0, [0, 1])
    """

    def __init__(
        self,
        algorithm: Algorithm,
        setup: Setup | None = None,
        state: State | None = None,
        most: int = 1024,
    ) -> None:
        if algorithm.gradient is None:
            algorithm = replace(algorithm, gradient=ARRIVAL)
        self.algorithm, self.most = algorithm, most
        self._learner = Learner(algorithm, setup, state)
        self._learner.plan = EventList(algorithm, self._learner.setup, ends=False)
        self._turns: TicketTurns | None = None
        if state is not None:  # every agent has a copy of its own: rounds could not go on from it
            self._open(state.n_features)

    def _open(self, n_features: int) -> TicketTurns:
        state = self._learner.first_state(n_features)
        self._turns = TicketTurns(self.algorithm, state, self.most)
        self._learner.engine = Local(self.algorithm, state, self._turns)
        return self._turns

    def predict(self, agent: int, x: Any) -> Ticket:
        """Let an agent predict one example whose label comes later, or never.

        Parameters
        ----------
        agent : int
        x : vector, sparse row, or Rows of one row
        """
        row = _one_row(x)
        return (self._turns or self._open(row.n_features)).predict(agent, row)

    def answer(self, ticket: Ticket | int, y: float) -> None:
        """Learn from the label of an earlier prediction; y is −1 or +1, a class, a number."""
        if self._turns is None:
            raise KeyError("no ticket is waiting; `predict` gives one")
        self._turns.answer(ticket, y)

    @property
    def unanswered(self) -> int:
        """Predictions that were dropped before their labels came."""
        return 0 if self._turns is None else self._turns.unanswered

    def weights(self) -> np.ndarray:
        """Weights (N, outputs, D) with which agents predict now."""
        return self._learner.weights()

    def trace(self) -> Trace:
        """The run so far; predictions without a label are not in it."""
        return self._learner.trace()


def _one_row(x: Any) -> Rows:
    """One example, from a row, a vector or a sparse matrix of one row."""
    if isinstance(x, Rows):
        row = x
    elif hasattr(x, "tocsr"):
        row = Rows.from_csr(x, np.ones(x.shape[0]))
    else:
        dense = np.atleast_2d(np.asarray(x, float))
        row = Rows.from_dense(dense, np.ones(len(dense)))
    if len(row) != 1:
        raise ValueError(f"found {len(row)} rows, expected one; call predict once for each example")
    return row.check_finite("x")
