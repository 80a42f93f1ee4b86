"""Plays lists of events for all agents of a network, in one thread."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ddol.algorithm import Algorithm
from ddol.communicate.mixing import Changing
from ddol.compiled import address
from ddol.engines.events.lying import Lying
from ddol.engines.events.messaging import Messaging
from ddol.engines.events.views import NeighbourViews
from ddol.engines.kernels import event_memory as words
from ddol.engines.kernels.event_memory import EventMemory
from ddol.engines.kernels.events import Playing
from ddol.engines.kernels.shadow import Shadow
from ddol.engines.state import State, grow, numbers_kept, numbers_sent
from ddol.engines.workers.inputs import drawn_in_turns, rates_of
from ddol.engines.workers.partition import Partition, Snapshots
from ddol.engines.workers.shadow import ShadowLearner
from ddol.engines.workers.shares import each_its_own, part_of
from ddol.engines.workers.worker import KernelWorker
from ddol.recording import ShadowSums
from ddol.schedules.clock import EventChunk
from ddol.schedules.events import GRADIENT, PREDICT, Events
from ddol.schedules.schedule import ASYNC, PUSH_SUM, Schedule
from ddol.schedules.wiring import Wiring
from ddol.streams.rows import Rows, no_rows
from ddol.update.contract import LINEAR
from ddol.update.rates import evaluate

NEVER = 1 << 62


class EventPlayer:
    """All agents, their mailboxes, and what is under way between them.

    Parameters
    ----------
    algorithm : Algorithm
    state : State
        Copied; where all agents share one copy of the weights, each gets its own.
    wires : Wiring
    schedule : Schedule, optional
        Asynchronous if it is not given.
    shadow : ShadowLearner, optional
        Keeps what the certificate is made of.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        state: State,
        wires: Wiring,
        schedule: Schedule | None = None,
        shadow: ShadowLearner | None = None,
    ) -> None:
        schedule = schedule or Schedule(ASYNC)
        self.push_sum = schedule.name == PUSH_SUM
        check_playable(algorithm, state.n_features, self.push_sum)
        self.algorithm, self.wires, self.shadow = algorithm, wires, shadow
        self.talk = Messaging(algorithm, wires, schedule)
        self.near = NeighbourViews(algorithm, wires, schedule.replay is None)
        n = algorithm.n_agents
        own = replace(part_of(each_its_own(state, n), 0, n), pending=None)
        self.worker = KernelWorker(algorithm, own, Partition(0, n), separate=True)
        self.turns = np.full(n, state.rounds, np.int64)
        self.words = np.zeros(words.N_WORDS, np.int64)
        self.words[words.TURNS] = n * state.rounds
        self.absent = np.zeros(n, np.int64)
        self.matrix_of = np.zeros(n, np.int64)
        self.box = np.full(len(wires.sender), -1, np.int64)
        self.version = np.full(len(wires.sender), -1, np.int64)
        self.spoken = np.diff(wires.spoken_starts)
        self.under_way = np.empty(0, np.int64)
        self.references, self.free = np.empty(0, np.int64), np.empty(0, np.int64)
        self.slopes = np.empty((1, numbers_kept(algorithm)))
        liars = schedule.conditions.liars
        self.lying = Lying(algorithm, liars, state.seed)
        if self.lying.about_messages and self.push_sum:
            raise ValueError("the schedule push-sum cannot simulate liars; use async or rounds")
        self._adopt_size()

    def _adopt_size(self) -> None:
        """Memory for messages of the present number of features; none is kept."""
        n, wires = self.algorithm.n_agents, self.wires
        self.size = numbers_sent(self.algorithm, self.worker.state.n_features) + self.push_sum
        self.messages = np.zeros((1 + len(self.references), self.size))
        self.lying.prepare(self.worker.state.n_features)
        self.talk.prepare(self.worker.state.n_features)
        self.near.prepare(self.worker.state.n_features)
        self.mass = np.ones(n if self.push_sum else 0)
        self.sums = np.zeros((n if self.push_sum else 0, self.size))
        self.heard = np.zeros((len(wires.sender) if self.push_sum else 0, self.size))

    @property
    def rounds(self) -> int:
        """Turns that an agent has taken, on average over the agents."""
        return -(-int(self.words[words.TURNS]) // self.algorithm.n_agents)

    def widen(self, n_features: int) -> None:
        """Make room for features that have not been seen before."""
        state = self.worker.state
        if n_features <= state.n_features:
            return
        if len(self.references) > self.words[words.FREE]:
            raise ValueError(
                f"found feature {n_features} while messages of {state.n_features} are under way; say the "
                "number of features beforehand (n_features, --features)"
            )
        self.worker.adopt(grow(self.algorithm, state, n_features))
        if self.shadow is not None:
            self.shadow.widen(n_features)
        self._adopt_size()

    def play(
        self, chunk: EventChunk, rows: Rows, where: np.ndarray, first_row: int, points: list[int]
    ) -> Snapshots:
        """Play events; what is seen after the rounds that ``points`` say.

        Parameters
        ----------
        chunk : EventChunk
        rows : Rows
            All rows that the events name.
        where : int64 array
            Place of each row, from ``first_row`` on.
        points : list of int
            Rounds, as `rounds` counts them, after which a snapshot is taken.
        """
        self.worker.state = replace(self.worker.state, t=self.rounds + 1)
        self._make_slots(chunk)
        rows = rows.widen(self.worker.state.n_features)
        memory, kept = self._memory(chunk, where, first_row)
        worker, examples = self.worker.at_hand(rows)
        views, near = self.near.worker(rows, worker), self.near.memory(chunk)
        n, at, seen, left = self.algorithm.n_agents, 0, [], list(points)
        self.shadows: list[ShadowSums] = []
        while True:
            now = memory._replace(stop_at=n * left[0] if left else NEVER, **self._messages_at())
            shadow = (
                Shadow.none()
                if self.shadow is None
                else self.shadow.memory(len(chunk.kind) - at, rows.dense)
            )
            talk = self.talk.memory()
            at = Playing(worker, views, examples, now, shadow, talk, near).play(at)
            status = self.words[words.STATUS]
            if status == words.STOPPED:
                seen.append(self.look()._replace(rounds=np.array([left.pop(0)])))
                if self.shadow is not None:
                    self.shadows.append(self.shadow.seen())
            elif status == words.CROWDED:
                self._grow_messages()
            elif status == words.OTHER_MATRIX:
                self._load_matrix(int(chunk.agent[at]))
            else:
                break
        del kept
        self.lying.check()
        self.worker.state = replace(self.worker.state, t=self.rounds + 1)
        return Snapshots.joined(seen, n)

    def read(self, events: Events, pairs: bool) -> None:
        """Prepare for the messages and lessons that a given list names, before it is played."""
        self.talk.read(events, pairs or self.algorithm.talk_to is not None)
        self.near.follows = events.count(GRADIENT) > 0
        self.near.prepare(self.worker.state.n_features)

    def look(self) -> Snapshots:
        """A snapshot of now."""
        nothing = np.empty((0, self.algorithm.n_agents, 1), np.int64)
        self.worker.play(no_rows(), nothing, nothing, self.rounds + 1, [0])
        return self.worker.snapshots

    def end(self) -> None:
        """Count the last weights among the averaged iterates."""
        if self.worker.state.sums.size:
            self.worker.state.sums[...] += self.worker.weights()

    # --- memory --------------------------------------------------------------------------------------

    def _make_slots(self, chunk: EventChunk) -> None:
        if chunk.answers >= len(self.slopes):
            grown = np.zeros((2 * chunk.answers + 1, self.slopes.shape[1]))
            grown[: len(self.slopes)] = self.slopes
            self.slopes = grown
        more = chunk.messages - len(self.under_way)
        if more > 0:
            self.under_way = np.append(self.under_way, np.full(more, -1))

    def _grow_messages(self) -> None:
        used = len(self.references)
        more = max(used, 2 * self.algorithm.n_agents)
        self.references = np.append(self.references, np.zeros(more, np.int64))
        self.free = np.append(np.arange(used + more - 1, used - 1, -1), np.zeros(used, np.int64))
        self.words[words.FREE] = more
        grown = np.zeros((1 + used + more, self.size))
        grown[: 1 + used] = self.messages
        self.messages = grown

    def _load_matrix(self, agent: int) -> None:
        """Give the wires of all agents in the same turn the weights of that turn."""
        turn = max(int(self.turns[agent]), 1)
        indptr, indices, weights = self.algorithm.mixing.at(turn).csr()
        for j in np.flatnonzero(np.maximum(self.turns, 1) == turn):
            lo, hi = self.wires.starts[j], self.wires.starts[j + 1]
            self.wires.weight[lo:hi] = 0.0
            part = slice(indptr[j], indptr[j + 1])
            self.wires.weight[lo + indices[part]] = weights[part]
            self.matrix_of[j] = turn

    def _prepared(self, chunk: EventChunk) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rates of all turns, and draws of these ones, where they are not made on the way."""
        algorithm, n = self.algorithm, self.algorithm.n_agents
        counts = np.bincount(chunk.agent[chunk.kind == PREDICT], minlength=n)
        last = int((self.turns + counts).max())
        rates = np.empty(0)
        if rates_of(algorithm.rate, 1, 0)[1] == 0.0:
            rates = evaluate(algorithm.rate, 1, max(last, 1))
        seed = self.worker.state.seed
        return rates, *drawn_in_turns(algorithm, seed, 0, self.turns, counts)

    def _messages_at(self) -> dict[str, Any]:
        """Memory of messages, which moves when it grows."""
        return {
            "messages": address(self.messages) + 8 * self.size,  # the agent's own lies before them
            "references": address(self.references),
            "free": address(self.free),
        }

    def _memory(
        self, chunk: EventChunk, where: np.ndarray, first_row: int
    ) -> tuple[EventMemory, tuple[np.ndarray, ...]]:
        """The events by address, and what must stay in memory meanwhile."""
        rates, draws, draw_starts = self._prepared(chunk)
        rate, wires = self.algorithm.rate, self.wires
        _, scale, exponent = rates_of(rate, 1, 0)
        changing = isinstance(self.algorithm.mixing, Changing)
        memory = EventMemory(
            n=len(chunk.kind), kind=address(chunk.kind), agent=address(chunk.agent), wire=address(chunk.wire),
            slot=address(chunk.slot), row=address(chunk.row), first_row=first_row, where=address(where),
            turns=address(self.turns), stop_at=NEVER, rates=address(rates), scale=float(scale),
            exponent=float(exponent), chances=address(draws), chance_starts=address(draw_starts),
            starts=address(wires.starts), sender=address(wires.sender), weight=address(wires.weight),
            own=address(wires.own),
            matrix_of=address(self.matrix_of) if changing else 0, spoken=address(self.spoken),
            absent=address(self.absent), size=self.size, box=address(self.box), version=address(self.version),
            messages=0, references=0, free=0, under_way=address(self.under_way),
            slopes=address(self.slopes), n_slots=len(self.slopes) - 1,
            push=self.push_sum, mass=address(self.mass), sums=address(self.sums), heard=address(self.heard),
            lies=self.lying.address, liars=address(self.lying.lies), room=address(self.lying.room),
            refused=address(self.lying.refused), words=address(self.words), live=False, published=0,
            versions=0, progress=0,
            rounds_missed=0, period=1, staleness=-1, control=0, first_agent=0, log=0,
        )  # fmt: skip
        return memory, (rates, draws, draw_starts)


def check_playable(algorithm: Algorithm, n_features: int, push_sum: bool) -> None:
    """Refuse what has no list of events."""
    if algorithm.batch > 1:
        raise ValueError(
            f"schedules and recordings are of one example a turn, `batch` is {algorithm.batch}; use 1"
        )
    if push_sum and algorithm.tests:
        raise ValueError(
            "push-sum adds up what all have sent, so that no agent can be left out; use the schedule "
            'async, or trust="all"'
        )
    numbers = algorithm.update.layout(algorithm.average, n_features).modes
    if push_sum and any(mode != LINEAR for mode in numbers):
        raise ValueError(
            f"push-sum adds numbers up, {algorithm.name} with the {algorithm.average} average does not; "
            "use --average dual, or the schedule async"
        )
