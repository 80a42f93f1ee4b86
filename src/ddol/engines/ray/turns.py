"""Asynchronous turns on Ray: nobody waits for anybody, and a lost actor is nobody else's business.

Every actor plays its own agents (`ddol.engines.ray.own_turns`). The driver starts them, starts one again that
was lost, lets the agents move where others are to host them, and puts together what they leave.
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
from ddol.engines.feed import Feed, Past
from ddol.engines.ray.crew import LOOK, ActorsLostError, Crew
from ddol.engines.ray.host import HostJob, TurnsStart
from ddol.engines.ray.moving import Moving
from ddol.engines.ray.own_turns import Letter, TurnsCopy, TurnsResult
from ddol.engines.setup import Setup
from ddol.engines.state import State, is_beginning
from ddol.engines.threads.turns import NOBODY_WAITS
from ddol.engines.workers.partition import Partition, Snapshots
from ddol.engines.workers.shares import each_its_own, joined, part_of
from ddol.engines.workers.worker import KernelWorker
from ddol.recording import Moment
from ddol.schedules.events import ANSWER, Events
from ddol.schedules.wiring import Wiring
from ddol.streams.rows import Block, no_rows


class AsyncRay:
    """Asynchronous turns of all agents; see `ddol.engines.registry.ScheduledEngine`.

    Parameters
    ----------
    algorithm : Algorithm
    state : State
    setup : Setup
    """

    name = "ray"

    def __init__(self, algorithm: Algorithm, state: State, setup: Setup) -> None:
        self.algorithm, self.setup, self._state = algorithm, setup, state
        known = None if is_beginning(algorithm, state) else state
        self.crew = Crew(HostJob(algorithm, setup, state.n_features), known)
        self.ray = self.crew.ray
        self.moving = Moving(self.crew, setup.workers)
        self._start = TurnsStart(0, self.crew.shares)
        self._results: dict[int, TurnsResult] = {}
        self._left: list[list[TurnsResult]] = []
        """What actors have left at every change of their number."""
        self._counters = np.zeros((algorithm.n_agents, 4))
        self._moments: list[Moment] = []
        self._lost: set[int] = set()
        self._began, self.passes, self.n_streams = time.perf_counter(), 1, 1
        self._told_start = False

    @classmethod
    def open(cls, algorithm: Algorithm, state: State, setup: Setup) -> AsyncRay:
        """As many actors as are wished for, or one a core of the cluster."""
        return cls(algorithm, state, setup)

    @property
    def actors(self) -> list[Any]:
        """The actors' handles."""
        return self.crew.actors

    @property
    def workers(self) -> int:
        """Number of actors, at present."""
        return self.crew.size

    def begin(self, passes: int, n_streams: int) -> None:
        """Say how often the streams are read, and how many there are."""
        self.passes, self.n_streams = passes, n_streams

    # The run.

    def follow(self, feed: Feed, began: Past, look: Callable[[], None]) -> None:
        """Let the actors read streams and play them to their end.

        Parameters
        ----------
        feed : Feed
        began : Past
            What belongs to the run now; the position is that of the agents' beginning.
        look : function
            Called a few times a second meanwhile.
        """
        shared = self.ray.put(feed)
        self.crew.watch.say(f"ddol scale {self.crew.address} n gives this job n actors")
        pending = {self._started(rank, shared): rank for rank in range(self.workers)}
        try:
            while pending:
                self._wait(pending, shared)
                self._look()
                look()
                workers = self.moving.wanted(bool(self._results))
                if workers is not None and pending:
                    pending = self._moved(pending, shared, workers)
        except Exception:
            self._stop(pending)
            raise
        except BaseException:  # a signal: what was learned so far may be wanted
            self._leave_early(pending, shared)
            raise

    def _wait(self, pending: dict[Any, int], feed: Any) -> None:
        """Take what actors have ended with, and go on without or with others for those that were lost."""
        ready, _ = self.ray.wait(list(pending), num_returns=len(pending), timeout=LOOK)
        for each in ready:
            rank = pending.pop(each)
            if not self._ended_well(rank, each):
                pending |= self._without_or_again(rank, feed)

    def _started(self, rank: int, feed: Any) -> Any:
        ended = tuple(result.published for result in self._results.values())
        start = replace(self._start, ended=ended)
        return self.actors[rank].take_turns.remote(self.crew.job, feed, self.actors, start)

    def _ended_well(self, rank: int, future: Any) -> bool:
        try:
            result: TurnsResult = self.crew.answer(future, rank)
        except ActorsLostError:
            self._lost.add(rank)
            return False
        self._results[rank], (first, agents) = result, self._start.shares[rank]
        self._counters[first : first + agents] = result.counters
        return True

    def _without_or_again(self, rank: int, feed: Any) -> dict[Any, int]:
        """What is to be waited for instead of a lost actor."""
        watch = self.crew.watch
        who = watch.named(rank)
        if self.setup.on_lost == "end":
            raise EngineFailedError(
                f"{who} was lost; start again, or let the run go on with --on-lost wait or without"
            )
        if self.setup.on_lost == "without" and self._start.leave_at is None:
            watch.say(f"{who} was lost; the others go on without it")
            self._results[rank] = given_up = self._last_copy(rank)
            for other, actor in enumerate(self.actors):
                if other != rank:
                    actor.hear.remote(given_up.published)
            return {}
        watch.say(f"{who} was lost; Ray starts another one, and the others go on meanwhile")
        self.crew.wait_for([rank])
        return {self._started(rank, feed): rank}

    def _last_copy(self, rank: int) -> TurnsResult:
        """What is left of the agents of a lost actor."""
        start = self._start
        copies: list[TurnsCopy] = []
        with suppress(ActorsLostError):
            after = (rank + 1) % self.workers
            [held] = self.crew.asked("held_copy", start.generation, ranks=[after])
            copies = [held] if held is not None else []
        return self._as_left(rank, copies or [self.ray.get(copy) for _, copy in start.copies])

    def _as_left(self, rank: int, copies: Sequence[TurnsCopy]) -> TurnsResult:
        """The result of agents that play no more, as copies have them, or as they began."""
        first, agents = self._start.shares[rank]
        part = part_of(each_its_own(self._state, self.algorithm.n_agents), first, agents)
        if copies:
            lo = copies[0].first
            part = part_of(joined([kept.part for kept in copies], False), first - lo, agents)
        counters = np.column_stack([part.mistakes, part.loss, part.expected, part.examples])
        self._counters[first : first + agents] = counters
        whose, silent = np.arange(first, first + agents), np.zeros(agents, np.int64)
        said = Letter(whose, silent, silent + NOBODY_WAITS, np.zeros((agents, 0)))
        return TurnsResult(counters, 0, 0, said, part=part)

    def _moved(self, pending: dict[Any, int], feed: Any, workers: int) -> dict[Any, int]:
        """Let all actors leave at a common place, and as many as are wished for go on from there."""
        if not self._all_left(pending, feed):  # one of them is through, or lost: as before
            return pending
        left = [self._results[rank] for rank in range(self.workers)]
        # The driver holds them until their new hosts have copies: the old ones, and their nodes, may go.
        copies = [self.ray.put(result.left) for result in left]
        shares = tuple(zip(self._start.shares, copies, strict=True))
        self._left.append([replace(result, left=None) for result in left])
        self._results.clear()
        self.crew.resize(workers)
        self._start = TurnsStart(self._start.generation + 1, self.crew.shares, shares)
        self.moving.done()
        return {self._started(rank, feed): rank for rank in range(workers)}

    def _all_left(self, pending: dict[Any, int], feed: Any) -> bool:
        """Let all actors leave at a common place, if there is one."""
        common = self.n_streams == 1 or self.setup.schedule.staleness is not None
        rounds = self.moving.places_to_leave(common)
        if rounds is None:
            return False
        self._start = replace(self._start, leave_at=max(rounds))
        for actor, last in zip(self.actors, rounds, strict=True):
            actor.leave_at.remote(last)
        while pending:
            self._wait(pending, feed)
            self._look()
        return True

    def _stop(self, pending: dict[Any, int]) -> None:
        """Let actors stop where they are."""
        for rank in pending.values():
            self.actors[rank].stop.remote()

    def _leave_early(self, pending: dict[Any, int], feed: Any) -> None:
        """The run ends before its streams: take what all agents have learned, or what copies know of it."""
        if not self._all_left(pending, feed):
            self._stop(pending)
            self._results |= {rank: self._last_copy(rank) for rank in pending.values()}
        for rank, result in self._results.items():
            if result.left is not None:
                self._results[rank] = self._as_left(rank, [result.left])

    def _look(self) -> None:
        """Ask how far everybody is."""
        asked = {actor.turns_so_far.remote(): rank for rank, actor in enumerate(self.actors)}
        ready, _ = self.ray.wait(list(asked), num_returns=len(asked), timeout=LOOK)
        firsts = []
        for each in ready:
            first, agents = self._start.shares[asked[each]]
            try:
                found = self.ray.get(each)
            except self.ray.exceptions.RayError:
                continue
            if found is not None:
                firsts.append(found[1])
                if asked[each] not in self._results:
                    self._counters[first : first + agents] = found[0]
        if not self._told_start and len(firsts) == self.workers and None not in firsts:
            self.crew.say_start(max(firsts))
            self._told_start = True
        self._note()
        going = {
            rank: int(self._counters[first : first + agents, 3].sum())
            for rank, (first, agents) in enumerate(self._start.shares)
            if rank not in self._results
        }
        silent = {asked[each] for each in asked if each not in ready}
        self.crew.give_up(self.crew.watch.look_at_turns(going, silent))

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
        """What there is to see now; blocks of the driver cannot be played in turns."""
        if block.n_rounds:
            raise EngineError(
                "asynchronous actors read their streams themselves: give the streams to ddol.run, or play "
                "rounds"
            )
        distance = np.nan  # nobody has all weights before the end
        if len(self._results) == self.workers:
            weights = self.weights()
            gaps = weights - weights.mean(axis=0)
            distance = float(np.sqrt(np.mean(np.sum(gaps * gaps, axis=(1, 2)))))
        return Snapshots(np.array([0]), self._counters[None], np.array([[distance, np.nan]]))

    def end(self) -> Snapshots:
        """All has happened when the streams are over."""
        return self.play(Block(no_rows(), np.empty((0, self.algorithm.n_agents, 1), np.int64)))

    def state(self) -> State:
        """The state of all agents; of agents that were given up, as it was in their last copy."""
        if len(self._results) < self.workers:
            return self._state
        found = [self._results[rank].part for rank in range(self.workers)]
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

    def sent(self) -> tuple[int, int, int]:
        """Letters between actors, their bytes, and how many were lost."""
        results = [*self._results.values(), *chain.from_iterable(self._left)]
        return sum(r.letters for r in results), sum(r.bytes_sent for r in results), 0

    def moments(self) -> tuple[Moment, ...]:
        """The run in seconds; the last is now."""
        return tuple(self._moments)

    def events(self) -> Events | None:
        """What happened, if it was recorded; None also where an actor was lost, since its past is too."""
        if not self.setup.schedule.record:
            return None
        if self._lost:
            self.crew.watch.say(
                "nothing is recorded: what a lost actor had sent cannot be played again"
            )
            return None
        ended = [self._results[rank] for rank in range(self.workers)]
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

    def close(self) -> None:
        """End the actors, and the cluster if it is ours."""
        self.crew.close()
