"""Asynchronous turns on Ray: no actor waits for another, and the others go on where one is lost.

Every actor plays its own agents (`ddol.engines.ray.actor_turns`). The driver starts them, restarts an actor
that was lost, moves agents when the number of actors changes, and puts the results together.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from ddol.algorithm import Algorithm
from ddol.engines.errors import EngineError, EngineFailedError
from ddol.engines.events.live_turns import Merger
from ddol.engines.feed import Feed
from ddol.engines.ray.pool import LOOK, ActorPool, ActorsLostError
from ddol.engines.ray.scaling import Scaler
from ddol.engines.ray.turn_state import PublishedRows, TurnsCopy, TurnsResult, TurnsStart
from ddol.engines.registry import MessageCounts, Turns, seen_between
from ddol.engines.setup import Setup
from ddol.engines.state import State
from ddol.engines.threads.turns import RELEASED
from ddol.engines.workers.partition import Partition, Snapshots
from ddol.engines.workers.shares import each_its_own, joined, part_of
from ddol.engines.workers.worker import KernelWorker
from ddol.recording import Moment
from ddol.schedules.events import ANSWER, Events
from ddol.schedules.wiring import Wiring
from ddol.streams.rows import Block, no_rows


class DriverTurns(Turns):
    """Asynchronous turns of all agents.

    Parameters
    ----------
    pool : ActorPool
    algorithm : Algorithm
    state : State
    setup : Setup
    """

    def __init__(self, pool: ActorPool, algorithm: Algorithm, state: State, setup: Setup) -> None:
        self.algorithm, self.setup, self._state = algorithm, setup, state
        self.pool, self.ray = pool, pool.ray
        self.scaler = Scaler(self.pool, setup.workers)
        self._start = TurnsStart(0, self.pool.shares)
        self._results: dict[int, TurnsResult] = {}
        self._left: list[list[TurnsResult]] = []
        """Results of the actors before every change of their number."""
        self._counters = np.zeros((algorithm.n_agents, 4))
        self._moments: list[Moment] = []
        self._lost: set[int] = set()
        self._began = time.perf_counter()

    # The run.

    def follow(self, feed: Feed, look: Callable[[], None]) -> None:
        """Let the actors read streams and play them to their end.

        Parameters
        ----------
        feed : Feed
        look : function
            Called a few times a second meanwhile.
        """
        shared = self.ray.put(feed)
        self.pool.watch.say(f"ddol scale {self.pool.address} n gives this job n actors")
        pending = {self._started(rank, shared): rank for rank in range(self.pool.size)}
        try:
            while pending:
                self._wait(pending, shared)
                self._look()
                look()
                workers = self.scaler.new_size(bool(self._results))
                if workers is not None and pending:
                    pending = self._moved(pending, shared, workers)
        except Exception:
            self._stop(pending)
            raise
        except BaseException:  # a signal: what was learned so far may be wanted
            self._leave_early(pending, shared)
            raise

    def _wait(self, pending: dict[Any, int], feed: Any) -> None:
        """Take the results of actors that have ended, and replace or leave out those that were lost."""
        ready, _ = self.ray.wait(list(pending), num_returns=len(pending), timeout=LOOK)
        for each in ready:
            rank = pending.pop(each)
            if not self._ended_well(rank, each):
                pending |= self._without_or_again(rank, feed)

    def _started(self, rank: int, feed: Any) -> Any:
        ended = tuple(result.published for result in self._results.values())
        start = replace(self._start, ended=ended)
        return self.pool.actors[rank].take_turns.remote(
            self.pool.job, feed, self.pool.actors, start
        )

    def _ended_well(self, rank: int, future: Any) -> bool:
        try:
            result: TurnsResult = self.pool.answer(future, rank)
        except ActorsLostError:
            self._lost.add(rank)
            return False
        self._results[rank], (first, agents) = result, self._start.shares[rank]
        self._counters[first : first + agents] = result.counters
        return True

    def _without_or_again(self, rank: int, feed: Any) -> dict[Any, int]:
        """The calls to wait for instead of that of a lost actor."""
        watch = self.pool.watch
        who = watch.named(rank)
        if self.setup.on_lost == "end":
            raise EngineFailedError(
                f"{who} was lost; start again, or let the run go on with --on-lost wait or without"
            )
        if self.setup.on_lost == "without" and self._start.leave_at is None:
            watch.say(f"{who} was lost; the others go on without it")
            self._results[rank] = given_up = self._last_copy(rank)
            for other, actor in enumerate(self.pool.actors):
                if other != rank:
                    actor.receive.remote(given_up.published)
            return {}
        watch.say(f"{who} was lost; Ray starts another one, and the others go on meanwhile")
        self.pool.wait_for([rank])
        return {self._started(rank, feed): rank}

    def _last_copy(self, rank: int) -> TurnsResult:
        """The agents of a lost actor, as their last copy has them."""
        start = self._start
        copies: list[TurnsCopy] = []
        with suppress(ActorsLostError):
            after = (rank + 1) % self.pool.size
            [held] = self.pool.asked("held_copy", start.generation, ranks=[after])
            copies = [held] if held is not None else []
        return self._as_left(rank, copies or [self.ray.get(copy) for _, copy in start.copies])

    def _as_left(self, rank: int, copies: Sequence[TurnsCopy]) -> TurnsResult:
        """The result of agents that stopped playing, as copies have them, or as they began."""
        first, agents = self._start.shares[rank]
        part = part_of(each_its_own(self._state, self.algorithm.n_agents), first, agents)
        if copies:
            lo = copies[0].first
            part = part_of(joined([kept.part for kept in copies], False), first - lo, agents)
        counters = part.by_agent
        self._counters[first : first + agents] = counters
        whose, silent = np.arange(first, first + agents), np.zeros(agents, np.int64)
        said = PublishedRows(whose, silent, silent + RELEASED, np.zeros((agents, 0)))
        return TurnsResult(counters, 0, 0, said, part=part)

    def _moved(self, pending: dict[Any, int], feed: Any, workers: int) -> dict[Any, int]:
        """Let all actors leave at a common place, and another number of them go on from there."""
        if not self._all_left(pending, feed):  # one of them is through, or lost: as before
            return pending
        left = [self._results[rank] for rank in range(self.pool.size)]
        # The driver holds them until their new hosts have copies: the old ones, and their nodes, may go.
        copies = [self.ray.put(result.left) for result in left]
        shares = tuple(zip(self._start.shares, copies, strict=True))
        self._left.append([replace(result, left=None) for result in left])
        self._results.clear()
        self.pool.resize(workers)
        self._start = TurnsStart(self._start.generation + 1, self.pool.shares, shares)
        self.scaler.done()
        return {self._started(rank, feed): rank for rank in range(workers)}

    def _all_left(self, pending: dict[Any, int], feed: Any) -> bool:
        """Let all actors leave at a common place, if there is one."""
        common = self.n_streams == 1 or self.setup.schedule.staleness is not None
        rounds = self.scaler.places_to_leave(common)
        if rounds is None:
            return False
        self._start = replace(self._start, leave_at=max(rounds))
        for actor, last in zip(self.pool.actors, rounds, strict=True):
            actor.leave_at.remote(last)
        while pending:
            self._wait(pending, feed)
            self._look()
        return True

    def _stop(self, pending: dict[Any, int]) -> None:
        """Let actors stop where they are."""
        for rank in pending.values():
            self.pool.actors[rank].stop.remote()

    def _leave_early(self, pending: dict[Any, int], feed: Any) -> None:
        """The run ends before its streams: take what all agents have learned, or what copies know of it."""
        if not self._all_left(pending, feed):
            self._stop(pending)
            self._results |= {rank: self._last_copy(rank) for rank in pending.values()}
        for rank, result in self._results.items():
            if result.left is not None:
                self._results[rank] = self._as_left(rank, [result.left])

    def _look(self) -> None:
        """Ask all actors how far they are, and report those that others wait for."""
        answering = set()
        for status in self.pool.look():
            answering.add(status.rank)
            if status.counters is not None and status.rank not in self._results:
                first, agents = self._start.shares[status.rank]
                self._counters[first : first + agents] = status.counters
        self.pool.report_start()
        self._note()
        going = {
            rank: int(self._counters[first : first + agents, 3].sum())
            for rank, (first, agents) in enumerate(self._start.shares)
            if rank not in self._results
        }
        silent = set(range(self.pool.size)) - answering
        self.pool.give_up(self.pool.watch.look_at_turns(going, silent))

    def _note(self) -> None:
        mistakes, loss, _, examples = self._counters.sum(axis=0)
        rounds, seconds = self._rounds, time.perf_counter() - self._began
        if not self._moments or rounds > self._moments[-1].rounds:
            self._moments.append(Moment(rounds, seconds, int(examples), int(mistakes), float(loss)))

    @property
    def _rounds(self) -> int:
        return -(-int(self._counters[:, 3].sum()) // self.algorithm.n_agents)

    # What is known.

    def play(self, block: Block, after: Sequence[int] = ()) -> Snapshots:
        """A snapshot of now; blocks of the driver cannot be played in turns."""
        if block.n_rounds:
            raise EngineError(
                "asynchronous actors read their streams themselves: give the streams to ddol.run, or play "
                "rounds"
            )
        if len(self._results) == self.pool.size:
            return seen_between(0, self._counters, self.weights())
        # Only the end has all weights in one place.
        return Snapshots(np.array([0]), self._counters[None], np.full((1, 2), np.nan))

    def end(self) -> Snapshots:
        """All has happened when the streams are over."""
        return self.play(Block(no_rows(), np.empty((0, self.algorithm.n_agents, 1), np.int64)))

    def state(self) -> State:
        """The state of all agents; of agents that were given up, as it was in their last copy."""
        if len(self._results) < self.pool.size:
            return self._state
        found = [self._results[rank].part for rank in range(self.pool.size)]
        parts = [part for part in found if part is not None]
        return replace(joined(parts, False), t=self._rounds + 1)

    def counters(self) -> State:
        """Counters of all agents."""
        mistakes, loss, expected, examples = self._counters.T
        return replace(
            self._state,
            t=self._rounds + 1,
            pending=None,
            mistakes=mistakes.astype(np.int64),
            loss=loss.copy(),
            expected=expected.copy(),
            examples=examples.astype(np.int64),
        )

    def weights(self) -> np.ndarray:
        """Primal weights of all agents: (N, outputs, D)."""
        found = []
        for rank, (first, agents) in enumerate(self._start.shares):
            part = self._results[rank].part
            if part is not None:
                # The compiled worker writes to no state that it only reads weights from.
                worker = KernelWorker(self.algorithm, part, Partition(first, agents), separate=True)
                found.append(worker.weights())
        return np.concatenate(found)

    def sent(self) -> MessageCounts:
        """Messages between actors so far."""
        results = [*self._results.values(), *chain.from_iterable(self._left)]
        return MessageCounts(sum(r.messages for r in results), sum(r.bytes_sent for r in results))

    def moments(self) -> tuple[Moment, ...]:
        """The run in seconds; the last is now."""
        return tuple(self._moments)

    def events(self) -> Events | None:
        """The recorded events; None also where an actor was lost with its record."""
        if not self.setup.schedule.record:
            return None
        if self._lost:
            self.pool.watch.say(
                "nothing is recorded: what a lost actor had sent cannot be played again"
            )
            return None
        ended = [self._results[rank] for rank in range(self.pool.size)]
        merger = Merger(Wiring.of(self.algorithm.mixing))
        times = np.linspace(0.0, self._moments[-1].time, len(self._left) + 2)
        pieces = []
        for results, start, end in zip([*self._left, ended], times, times[1:], strict=False):
            played = [result.played for result in results if result.played is not None]
            if played:
                pieces.append(merger.merged(played, start, end))
        whole = Events.joined(pieces)
        named = (whole.kind <= ANSWER) & (whole.row >= 0)
        agents, ranks = whole.agent[named], whole.row[named]
        lengths = self._counters[:, 3].astype(np.int64) // self.passes
        ranks = ranks % np.maximum(lengths, 1)[agents]
        n = self.algorithm.n_agents
        offsets = np.cumsum(lengths) - lengths
        whole.row[named] = ranks * n + agents if self.n_streams == 1 else offsets[agents] + ranks
        return whole
