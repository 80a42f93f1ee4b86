"""Threads without a barrier: every worker plays its own agents, and reads what others have published last."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ddol.algorithm import Algorithm
from ddol.communicate.mixing import Changing
from ddol.compiled import address
from ddol.engines.events.live_turns import Merger, PlayedTurns, TurnPlan
from ddol.engines.events.messaging import Messaging
from ddol.engines.events.player import check_playable
from ddol.engines.events.row_pool import RowPool
from ddol.engines.events.views import no_views
from ddol.engines.kernels import event_memory as words
from ddol.engines.kernels.event_memory import EventMemory
from ddol.engines.kernels.events import Playing
from ddol.engines.kernels.published import STRIDE
from ddol.engines.kernels.shadow import Shadow
from ddol.engines.registry import MessageCounts, Turns, seen_between
from ddol.engines.state import State, grow, numbers_kept, numbers_sent, zeros
from ddol.engines.threads.crew import OthersFailedError, WorkerThreads
from ddol.engines.workers.inputs import drawn_in_turns, rates_of
from ddol.engines.workers.partition import Partition, Snapshots, split
from ddol.engines.workers.shadow import ShadowLearner, moment_of
from ddol.engines.workers.shares import each_its_own, part_of
from ddol.engines.workers.worker import KernelWorker
from ddol.recording import Moment
from ddol.schedules.clock import EventChunk
from ddol.schedules.events import MIX, NONE, PREDICT, Events
from ddol.schedules.schedule import ASYNC, ROUNDS, Schedule
from ddol.schedules.wiring import Wiring
from ddol.streams.rows import Block, Rows

RELEASED = 1 << 62


class LiveTurns(Turns):
    """Asynchronous turns of agents in several threads.

    After each label an agent projects, publishes its weights, and averages with the newest that its
    neighbours have published. What happens depends on how the threads run; a recording of it plays again to
    the bit.

    Parameters
    ----------
    algorithm : Algorithm
    state : State
        Of the agents that are played here.
    crew : WorkerThreads
    schedule : Schedule
        ``async``, under no other conditions than a delay.
    own : (first, agents), optional
        Agents that are played here; rows of the others are published by their receiver. All if it is
        not given.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        state: State,
        crew: WorkerThreads,
        schedule: Schedule,
        own: tuple[int, int] | None = None,
    ) -> None:
        _check(algorithm, state, schedule)
        self.algorithm, self.schedule = algorithm, schedule
        self.together = own is None
        """Whether all agents are here, and are through with a block at the same time."""
        first, agents = own or (0, algorithm.n_agents)
        parts = split(agents, crew.size)
        self._shares = [(first + lo, n) for lo, n in parts]
        self.wires = Wiring.of(algorithm.mixing)
        self.talk = Messaging(algorithm, self.wires, schedule)
        self.plan = TurnPlan(algorithm.n_agents, algorithm.period, algorithm.delay)
        self.pool = RowPool(algorithm.n_agents, keep_numbers=schedule.record)
        self.merger = Merger(self.wires) if schedule.record and own is None else None
        self.shadow: ShadowLearner | None = None
        if self.together and ShadowLearner.covers(algorithm):
            self.shadow = ShadowLearner(algorithm, state.n_features)
        self.played: list[PlayedTurns] = []
        """The turns played last, if they are recorded."""
        self.recorded: list[Events] = []
        self._moments: list[Moment] = []
        self._began, self._crew = time.perf_counter(), crew
        known = replace(each_its_own(state, agents), pending=None, t=1)
        self._seat([part_of(known, *part) for part in parts])

    @property
    def kernel_workers(self) -> list[KernelWorker]:
        """The workers of all threads."""
        return [seat.worker for seat in self.seats]

    def _seat(self, parts: list[State]) -> None:
        """Give every worker its part of the state, and all of them rows to publish in."""
        n, D = self.algorithm.n_agents, parts[0].n_features
        size = numbers_sent(self.algorithm, D)
        self.talk.prepare(D)
        self.published = zeros((n, size))
        self.versions = np.zeros((n, STRIDE), np.int64)
        self.progress = np.zeros((n, STRIDE), np.int64)
        self.control = np.zeros(STRIDE, np.int64)
        self.rounds_begun = 0
        self.seats = [
            Seat(self, part, first, agents)
            for part, (first, agents) in zip(parts, self._shares, strict=True)
        ]

    # --- what the plan calls -------------------------------------------------------------------------

    def play(self, block: Block, after: Sequence[int] = ()) -> Snapshots:
        """Play the turns of a block; it is looked at when all workers are through with it."""
        before = self._rounds
        if block.n_rounds:
            self.play_unseen(block)
        return self._look(before)

    def play_unseen(self, block: Block) -> None:
        """Play the turns of a block without a snapshot."""
        self._widen(block.rows.n_features)
        _, serials = self.pool.add(block, self.plan.under_way())
        table = serials.reshape(-1, self.algorithm.n_agents)
        loss = self._loss()
        self._play([self.plan.chunk(table, seat.first, seat.agents) for seat in self.seats])
        self._follow(table, loss)

    def end(self) -> Snapshots:
        """Let the last labels arrive."""
        before = self._rounds
        self.end_unseen()
        return self._look(before)

    def end_unseen(self) -> None:
        """Let the last labels arrive, without a snapshot."""
        if self.algorithm.delay:
            self._play([self.plan.last(seat.first, seat.agents) for seat in self.seats])
        for seat in self.seats:
            seat.end()

    def sent(self) -> MessageCounts:
        """Messages sent so far, of which none is lost."""
        return self.talk.sent()

    def moments(self) -> tuple[Moment, ...]:
        """The run in seconds; the last is now."""
        return tuple(self._moments)

    def events(self) -> Events | None:
        """The recorded events, with rows numbered as in the whole data; None where they are not recorded."""
        if self.merger is None:
            return None
        numbers = self.pool.numbers.in_the_data(self.passes, self.n_streams)
        return Events.joined(self.recorded).renumbered(numbers)

    # --- playing -------------------------------------------------------------------------------------

    @property
    def _rounds(self) -> int:
        return -(-int(self.plan.turns.sum()) // self.algorithm.n_agents)

    def _widen(self, n_features: int) -> None:
        state = self.seats[0].worker.state
        if n_features <= state.n_features:
            return
        if self.versions.any():
            raise ValueError(
                f"found feature {n_features} when messages of {state.n_features} were sent already; say "
                "the number of features beforehand (n_features, --features)"
            )
        parts = [seat.worker.state for seat in self.seats]
        self._seat([grow(self.algorithm, part, n_features) for part in parts])

    def _play(self, chunks: list[EventChunk]) -> None:
        start = time.perf_counter() - self._began
        rows = self.pool.rows.widen(self.seats[0].worker.state.n_features)
        self._scores = np.empty((len(rows) if self.shadow else 0, self.algorithm.outputs))
        first, last = self._shares[0][0], sum(self._shares[-1])
        # All agents begin a block in the same round, whatever their streams had for them before.
        self.rounds_begun = max(int(seat.turns.max()) for seat in self.seats)
        self.progress[first:last, 0] = self.rounds_begun

        def work(w: int) -> None:
            self.seats[w].play(chunks[w], rows, address(self._scores))

        def stop() -> None:
            self.control[0] = 1

        self._crew.work(work, stop)
        for seat in self.seats:
            seat.worker.state = replace(seat.worker.state, t=self._rounds + 1)
        if self.schedule.record:
            self.played = [
                PlayedTurns(c.without_struck(), s.first, s.log)
                for s, c in zip(self.seats, chunks, strict=True)
            ]
        if self.merger is not None:
            end = time.perf_counter() - self._began
            self.recorded.append(self.merger.merged(self.played, start, end))

    def _follow(self, table: np.ndarray, loss: np.ndarray) -> None:
        """Let the shadow follow what was predicted: in the order of the recording, or turn by turn."""
        if self.shadow is None:
            return
        agents = np.broadcast_to(np.arange(table.shape[1]), table.shape)[table >= 0]
        serials = table[table >= 0]
        if self.merger is not None:
            made = self.recorded[-1]
            predicts = (made.kind == PREDICT) & (made.row >= 0)
            agents, serials = made.agent[predicts], made.row[predicts]
        places, gained = self.pool.where[serials - self.pool.first], self._loss() - loss
        self.shadow.follow(self.pool.rows, agents, places, self._scores, gained)

    def _loss(self) -> np.ndarray:
        """The loss of every agent so far, in memory of its own."""
        return np.concatenate([worker.state.loss for worker in self.kernel_workers])

    def _look(self, before: int) -> Snapshots:
        """A snapshot of now, which is a moment of the run as well."""
        counters = np.concatenate([worker.state.by_agent for worker in self.kernel_workers])
        weights = np.concatenate([worker.weights() for worker in self.kernel_workers])
        seconds = time.perf_counter() - self._began
        shadow = None if self.shadow is None else self.shadow.seen()
        self._moments.append(moment_of(self._rounds, seconds, counters, shadow))
        return seen_between(self._rounds - before, counters, weights)


class Seat:
    """One worker: its agents, their mailboxes, and the log of the versions that they mixed."""

    def __init__(self, engine: LiveTurns, state: State, first: int, agents: int) -> None:
        self.engine, self.first, self.agents = engine, first, agents
        algorithm, wires = engine.algorithm, engine.wires
        self.worker = KernelWorker(algorithm, state, Partition(first, agents), separate=True)
        lo, hi = wires.starts[first], wires.starts[first + agents]
        heard = int(np.diff(wires.starts[first : first + agents + 1]).max(initial=0))
        self.messages = zeros((1 + heard, engine.published.shape[1]))
        self.box, self.version = np.full(hi - lo, -1, np.int64), np.zeros(hi - lo, np.int64)
        self.slopes = np.zeros((agents * (algorithm.delay + 1) + 1, numbers_kept(algorithm)))
        self.turns, self.words = np.zeros(agents, np.int64), np.zeros(words.N_WORDS, np.int64)
        self.absent = np.zeros(algorithm.n_agents, np.int64)
        self.log = np.empty(0, np.int64)
        self.coded = np.zeros(engine.published.shape[1])

    def play(self, chunk: EventChunk, rows: Rows, scores: int = 0) -> None:
        """Play events; after a block no agent waits for those of this process."""
        wires = self.engine.wires
        if self.engine.schedule.record:
            heard = np.diff(wires.starts)[self.first + chunk.agent[chunk.kind == MIX]]
            self.log = np.empty(int(heard.sum()), np.int64)
        worker, examples = self.worker.at_hand(rows, scores)
        memory, kept = self._memory(chunk)
        self.words[words.LOGGED] = 0
        talk, first = self.engine.talk.memory(self.coded, self.first), 0
        for last, through in [*self._ending_early(chunk), (len(chunk.kind), NONE)]:
            piece = memory._replace(n=last)
            Playing(worker, worker, examples, piece, Shadow.none(), talk, no_views()).play(first)
            if self.words[words.STATUS] == words.ABORTED:
                break
            first = last
            if through != NONE:
                self.engine.progress[self.first + through, 0] = RELEASED
        del kept
        if self.engine.together:
            self.release_others()
        if self.words[words.STATUS] == words.ABORTED:
            raise OthersFailedError

    def _ending_early(self, chunk: EventChunk) -> list[tuple[int, int]]:
        """Agents with fewer turns than others, whose streams are over: events by then, and who it is.

        The others would wait for them for ever, in this thread as well.
        """
        turns = np.bincount(chunk.agent[chunk.kind == PREDICT], minlength=self.agents)
        ends = np.zeros(self.agents, np.int64)
        ends[chunk.agent] = np.arange(1, len(chunk.agent) + 1)  # the last of each counts
        early = np.flatnonzero(turns < turns.max())
        return sorted(zip(ends[early].tolist(), early.tolist(), strict=True))

    def release_others(self) -> None:
        """Let no other agent wait for these any more."""
        self.engine.progress[self.first : self.first + self.agents, 0] = RELEASED

    def end(self) -> None:
        """Count the last weights among the averaged iterates."""
        if self.worker.state.sums.size:
            self.worker.state.sums[...] += self.worker.weights()

    def _memory(self, chunk: EventChunk) -> tuple[EventMemory, tuple[np.ndarray, ...]]:
        """The events by address, and what must stay in memory meanwhile."""
        engine, algorithm, wires = self.engine, self.engine.algorithm, self.engine.wires
        counts = np.bincount(chunk.agent[chunk.kind == PREDICT], minlength=self.agents)
        rate, last = algorithm.rate, int((self.turns + counts).max(initial=1))
        rates, scale, exponent = rates_of(rate, 1, max(last, 1))
        seed = self.worker.state.seed
        draws, starts = drawn_in_turns(algorithm, seed, self.first, self.turns, counts)
        missed, staleness = engine.rounds_begun - self.turns, engine.schedule.staleness
        memory = EventMemory(
            n=len(chunk.kind), kind=address(chunk.kind), agent=address(chunk.agent), wire=address(chunk.wire),
            slot=address(chunk.slot), row=address(chunk.row), first_row=engine.pool.first,
            where=address(engine.pool.where), turns=address(self.turns), stop_at=1 << 62,
            rates=address(rates), scale=float(scale), exponent=float(exponent), chances=address(draws),
            chance_starts=address(starts), starts=address(wires.starts) + 8 * self.first,
            sender=address(wires.sender), weight=address(wires.weight),
            own=address(wires.own) + 8 * self.first, matrix_of=0, spoken=0, absent=address(self.absent),
            size=engine.published.shape[1], box=address(self.box), version=address(self.version),
            messages=address(self.messages[0]) + 8 * engine.published.shape[1],
            references=0, free=0, under_way=0, slopes=address(self.slopes),
            n_slots=len(self.slopes) - 1, lies=0, liars=0, room=0, refused=0, push=False, mass=0, sums=0,
            heard=0, words=address(self.words), live=True, published=address(engine.published),
            versions=address(engine.versions), progress=address(engine.progress),
            rounds_missed=address(missed), period=algorithm.period,
            staleness=-1 if staleness is None else staleness, control=address(engine.control),
            first_agent=self.first, log=address(self.log),
        )  # fmt: skip
        return memory, (rates, draws, starts, missed)


def _check(algorithm: Algorithm, state: State, schedule: Schedule) -> None:
    check_playable(algorithm, state.n_features, False)
    for name in ("talk_to", "teach"):
        if getattr(algorithm, name) is not None:
            raise ValueError(f"`{name}` is for the engine local, and for rounds on threads")
    if schedule.patient:
        raise ValueError("--patient needs the engine local; leave out --engine threads")
    if schedule.is_given:
        raise ValueError(
            "a recording, or a schedule of your own, needs the engine local; leave out --engine threads"
        )
    if schedule.name not in (ROUNDS, ASYNC):
        raise ValueError(
            f"the engine threads runs rounds and async, not {schedule.name}; use the engine local"
        )
    if not replace(schedule.conditions, delay=0).is_calm or not schedule.conditions.is_prompt:
        raise ValueError(
            "threads run in real time: speeds, latencies, losses, absences and drawn delays belong to the "
            "virtual clock of the engine local"
        )
    if isinstance(algorithm.mixing, Changing):
        raise ValueError(
            "threads without a barrier need a fixed mixing matrix; use the engine local"
        )
