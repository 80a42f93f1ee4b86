"""The patient pool: the list of events is made first, and then played by as many copies as it needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ddol.algorithm import Algorithm
from ddol.engines.events.messaging import check_talking
from ddol.engines.events.player import EventPlayer
from ddol.engines.events.row_pool import RowPool
from ddol.engines.events.scheduled import check_same_data, conditions_of, messages_of
from ddol.engines.registry import MessageCounts, Turns, seen_between
from ddol.engines.state import State, numbers_sent, start_state
from ddol.engines.workers.partition import Snapshots
from ddol.engines.workers.worker import KernelWorker
from ddol.recording import Moment, WaitingPool
from ddol.schedules.clock import Clock
from ddol.schedules.events import ANSWER, RECEIVE, Events
from ddol.schedules.linking import linked
from ddol.schedules.patient import in_layers, layered_mixing
from ddol.schedules.schedule import Schedule
from ddol.schedules.wiring import Wiring
from ddol.streams.rows import Block


@dataclass(frozen=True)
class PooledAgents:
    """Agents as one worker hosts them, put together from their copies.

    Parameters
    ----------
    state : State
        Counters summed over the copies, with the weights of each agent's first copy, which predicted most.
    primal : (N, outputs, D)
        Mean of the copies' weights.
    """

    state: State
    primal: np.ndarray

    @classmethod
    def of(cls, worker: KernelWorker, copies: int) -> PooledAgents:
        """The agents of a worker whose agents are copies, layer by layer."""
        state, primal, n = worker.state, worker.weights(), len(worker.state.mistakes) // copies
        names = ("mistakes", "loss", "expected", "examples")
        summed = {name: getattr(state, name).reshape(copies, -1).sum(axis=0) for name in names}
        first = {name: getattr(state, name)[:n] for name in ("theta", "scalars", "sums")}
        mean = primal.reshape(copies, -1, *primal.shape[1:]).mean(axis=0)
        return cls(replace(state, **summed, **first), mean)

    def weights(self) -> np.ndarray:
        """Primal weights of all agents, the mean over their copies: (N, outputs, D)."""
        return self.primal


class PatientTurns(Turns):
    """All agents in this thread, each with a copy of its learner for every label under way.

    Parameters
    ----------
    algorithm : Algorithm
    state : State
        The beginning: what was learned before has no copies.
    schedule : Schedule
    """

    def __init__(self, algorithm: Algorithm, state: State, schedule: Schedule) -> None:
        if schedule.own is not None:
            raise ValueError(
                "patient=True does not go with a schedule of your own; use a schedule by name or a recording"
            )
        check_talking(algorithm, schedule)
        if state.rounds:
            raise ValueError(
                "a run with --patient cannot be continued; start it anew, or leave out --patient"
            )
        self.algorithm, self.schedule, self._began = algorithm, schedule, state
        conditions = conditions_of(algorithm, schedule)
        self.clock = Clock(
            schedule.name, algorithm.mixing, conditions, algorithm.period, state.seed
        )
        self.pool = RowPool(algorithm.n_agents, keep_numbers=True)
        blank = np.zeros((algorithm.n_agents, algorithm.outputs, state.n_features))
        self.agents = PooledAgents(replace(state, pending=None), blank)
        self.copies = 1
        self._fed: list[tuple[np.ndarray, np.ndarray]] = []
        self._list: Events | None = None
        self._messages = 0, 0

    @property
    def kernel_workers(self) -> list[PooledAgents]:
        """The agents, put together from their copies."""
        return [self.agents]

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
        player = EventPlayer(algorithm, state, wires)
        chunk = linked(layered, wires, self.pool.numbers.count)
        player.play(chunk, self.pool.rows, self.pool.where, self.pool.first, [])
        self.agents = PooledAgents.of(player.worker, self.copies)
        return self._look()

    def _made(self) -> Events:
        for agents, serials in self._fed:
            self.clock.feed(agents, serials)
        self.clock.end()
        pieces = []
        while (chunk := self.clock.make()) is not None:
            pieces.append(chunk.events(self.clock.wires).copy())
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

    def sent(self) -> MessageCounts:
        """Messages sent so far."""
        each = 8 * numbers_sent(self.algorithm, self.agents.state.n_features)
        sent, lost = self._messages
        return MessageCounts(sent, sent * each, lost)

    def moments(self) -> tuple[Moment, ...]:
        """The end of the run."""
        state = self.agents.state
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

    def _look(self) -> Snapshots:
        """A snapshot of now."""
        counters = self.agents.state.by_agent
        rounds = int(self.agents.state.examples.sum()) // self.algorithm.n_agents
        return seen_between(rounds, counters, self.agents.weights())
