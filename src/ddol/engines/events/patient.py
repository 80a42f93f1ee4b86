"""The engine of the patient pool: the list is made first, and then played by as many copies as it needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ddol.algorithm import Algorithm
from ddol.engines.events.messaging import check_talking
from ddol.engines.events.player import EventPlayer
from ddol.engines.events.row_pool import RowPool
from ddol.engines.events.scheduled import check_same_data, conditions_of, messages_of
from ddol.engines.state import State, numbers_sent, start_state
from ddol.engines.workers.partition import Snapshots
from ddol.recording import Moment, WaitingPool
from ddol.schedules.clock import Clock
from ddol.schedules.events import ANSWER, FIELDS, RECEIVE, Events
from ddol.schedules.linking import linked
from ddol.schedules.patient import in_layers, layered_mixing
from ddol.schedules.schedule import Schedule
from ddol.schedules.wiring import Wiring
from ddol.streams.rows import Block


class PatientEngine:
    """All agents in this thread, each with a copy of its learner for every answer under way.

    Parameters
    ----------
    algorithm : Algorithm
    state : State
        The beginning: what was learned before has no copies.
    schedule : Schedule
    """

    name = "local"
    workers = 1

    def __init__(self, algorithm: Algorithm, state: State, schedule: Schedule) -> None:
        if schedule.own is not None:
            raise ValueError(
                "the patient pool plays a schedule by name, or a recording; leave your own out"
            )
        check_talking(algorithm, schedule)
        if state.rounds:
            raise ValueError(
                "the patient pool begins at the beginning; there is no state to go on from"
            )
        self.algorithm, self.schedule, self._began = algorithm, schedule, state
        conditions = conditions_of(algorithm, schedule)
        self.clock = Clock(
            schedule.name, algorithm.mixing, conditions, algorithm.period, state.seed
        )
        self.pool = RowPool(algorithm.n_agents, keep_numbers=True)
        self.player: EventPlayer | None = None
        self.copies = 1
        self._fed: list[tuple[np.ndarray, np.ndarray]] = []
        self._list: Events | None = None
        self._messages = 0, 0
        self.passes, self.n_streams = 1, 1

    # --- what the learner calls ----------------------------------------------------------------------

    def begin(self, passes: int, n_streams: int) -> None:
        """Say how often the streams are read, and how many there are."""
        self.passes, self.n_streams = passes, n_streams

    def play(self, block: Block, after: Sequence[int] = ()) -> Snapshots:
        """Take in the examples of a block; they are played when all are there."""
        if block.n_rounds:
            agents, serials = self.pool.add(block)
            seen = slice(None) if self.schedule.name == "rounds" else serials >= 0
            self._fed.append((agents[seen], serials[seen]))
        return self._look()

    def end(self) -> Snapshots:
        """Make the list, and play it."""
        self._list = self._made() if self.schedule.replay is None else self._recorded()
        layered, self.copies = in_layers(self._list, self.algorithm.n_agents)
        algorithm = replace(
            self.algorithm, mixing=layered_mixing(self.algorithm.mixing, self.copies), delay=0
        )
        width = max(self._began.n_features, self.pool.rows.n_features)
        state = start_state(algorithm, width, self._began.seed)
        wires = Wiring.of(algorithm.mixing)
        self.player = EventPlayer(algorithm, state, wires)
        chunk = linked(layered, wires, self.pool.numbers.count)
        self.player.play(chunk, self.pool.rows, self.pool.where, self.pool.first, [])
        return self._look()

    def _made(self) -> Events:
        for agents, serials in self._fed:
            self.clock.feed(agents, serials)
        self.clock.end()
        pieces = []
        while (chunk := self.clock.make()) is not None:
            made = chunk.events(self.clock.wires)
            pieces.append(Events.from_arrays(getattr(made, name).copy() for name in FIELDS))
        self._messages = self.clock.sent, self.clock.lost
        return Events.joined(pieces)

    def _recorded(self) -> Events:
        """The recording, with rows by serial number."""
        replay, numbers = self.schedule.replay, self.pool.numbers.in_the_data(1, self.n_streams)
        assert replay is not None
        check_same_data(replay, len(numbers))
        linked(replay, self.clock.wires, len(numbers), "the recording")
        sent = messages_of(replay, self.clock.wires)
        self._messages = sent, sent - replay.count(RECEIVE)
        row, named = replay.row.copy(), (replay.kind <= ANSWER) & (replay.row >= 0)
        row[named] = np.argsort(numbers)[row[named]]
        return replace(replay, row=row)

    def state(self) -> State:
        """Counters of all agents, with the weights of each agent's first copy, which predicted most."""
        state, n = self.counters(), self.algorithm.n_agents
        return replace(
            state, theta=state.theta[:n], scalars=state.scalars[:n], sums=state.sums[:n]
        ).copy()

    def counters(self) -> State:
        """Counters of all agents: those of their copies, summed up."""
        if self.player is None:
            return replace(self._began, pending=None)
        state = self.player.worker.state
        names = ("mistakes", "loss", "expected", "examples")
        summed = {name: getattr(state, name).reshape(self.copies, -1).sum(axis=0) for name in names}
        return replace(state, **summed)

    def weights(self) -> np.ndarray:
        """Primal weights of all agents, the mean over their copies: (N, outputs, D)."""
        if self.player is None:
            return np.zeros(
                (self.algorithm.n_agents, self.algorithm.outputs, self._began.n_features)
            )
        copies = self.player.worker.weights()
        return np.asarray(copies.reshape(self.copies, -1, *copies.shape[1:]).mean(axis=0))

    def sent(self) -> tuple[int, int, int]:
        """Messages sent, their bytes, and how many of them were lost."""
        each = 8 * numbers_sent(self.algorithm, self.counters().n_features)
        sent, lost = self._messages
        return sent, sent * each, lost

    def moments(self) -> tuple[Moment, ...]:
        """The end of the run."""
        state = self.counters()
        examples, mistakes = int(state.examples.sum()), int(state.mistakes.sum())
        patience = WaitingPool(self.copies, self._best_expert())
        loss = float(state.loss.sum())
        return (Moment(state.rounds, self._time, examples, mistakes, loss, patience=patience),)

    @property
    def _time(self) -> float:
        return float(self._list.time[-1]) if self._list is not None and len(self._list) else 0.0

    def _best_expert(self) -> int:
        """Mistakes of the best expert on all examples; 0 where there are no experts."""
        rows = self.pool.rows
        if not self.algorithm.update.experts or not rows.dense:
            return 0
        advice = rows.data.reshape(len(rows), -1)
        return int((advice != rows.y[:, None]).sum(axis=0).min())

    def events(self) -> Events | None:
        """The list, if it was to be recorded, with rows numbered as in the whole data."""
        if not self.schedule.record or self._list is None:
            return None
        return self._list.renumbered(self.pool.numbers.in_the_data(self.passes, self.n_streams))

    def close(self) -> None:
        """Nothing to close."""

    def _look(self) -> Snapshots:
        state, weights = self.counters(), self.weights()
        counters = np.column_stack([state.mistakes, state.loss, state.expected, state.examples])
        gaps = weights - weights.mean(axis=0)
        distance = float(np.sqrt(np.mean(np.sum(gaps * gaps, axis=(1, 2)))))
        rounds = int(state.examples.sum()) // self.algorithm.n_agents
        return Snapshots(np.array([rounds]), counters[None], np.array([[distance, np.nan]]))
