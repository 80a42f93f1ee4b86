"""Asynchronous turns on Ray: nobody waits for anybody, and a lost actor is nobody else's business.

Every actor plays its own agents (`ddol.engines.ray_turns`). The driver starts them, starts one again that was
lost, and puts together what they leave.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ddol.algorithm import Algorithm
from ddol.engines.errors import EngineError
from ddol.engines.feed import Feed
from ddol.engines.live_turns import Merger
from ddol.engines.ray_cluster import Cluster
from ddol.engines.ray_host import HostJob, actor_class
from ddol.engines.ray_turns import TurnsResult
from ddol.engines.ray_watch import Watch
from ddol.engines.setup import Setup
from ddol.engines.shares import each_its_own, joined, part_of
from ddol.engines.state import State
from ddol.engines.worker import KernelWorker, Partition, Snapshots, split
from ddol.recording import Moment
from ddol.schedules.events import ANSWER, Events
from ddol.schedules.wiring import Wiring
from ddol.streams.rows import Block, no_rows
from ddol.version import __version__

_LOOK = 0.25


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
        self.cluster = Cluster(setup.address, setup.workers)
        self.ray = self.cluster.ray
        self.workers = min(setup.workers or self.cluster.cores, algorithm.n_agents)
        self._shares = split(algorithm.n_agents, self.workers)
        self.watch = Watch(self._shares)
        self._job = self.ray.put(HostJob(algorithm, state, setup))
        kind = actor_class(self.ray)
        self.actors = [kind.remote(rank, self.workers, __version__) for rank in range(self.workers)]
        self._results: dict[int, TurnsResult] = {}
        self._counters = np.zeros((algorithm.n_agents, 4))
        self._moments: list[Moment] = []
        self._lost: set[int] = set()
        self._began, self.passes, self.n_streams = time.perf_counter(), 1, 1

    @classmethod
    def open(cls, algorithm: Algorithm, state: State, setup: Setup) -> AsyncRay:
        """As many actors as are wished for, or one a core of the cluster."""
        return cls(algorithm, state, setup)

    def begin(self, passes: int, n_streams: int) -> None:
        """Say how often the streams are read, and how many there are."""
        self.passes, self.n_streams = passes, n_streams

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
        pending = {self._started(rank, shared): rank for rank in range(self.workers)}
        try:
            while pending:
                ready, _ = self.ray.wait(list(pending), num_returns=len(pending), timeout=_LOOK)
                for each in ready:
                    rank = pending.pop(each)
                    if not self._ended_well(rank, each):
                        pending |= self._without_or_again(rank, shared)
                self._look()
                look()
        except BaseException:
            for rank in pending.values():
                self.actors[rank].stop.remote()
            raise

    def _started(self, rank: int, feed: Any) -> Any:
        return self.actors[rank].take_turns.remote(self._job, feed, self.actors)

    def _ended_well(self, rank: int, future: Any) -> bool:
        errors = self.ray.exceptions
        try:
            result: TurnsResult = self.ray.get(future)
            self._results[rank], (first, agents) = result, self._shares[rank]
            part = result.part
            self._counters[first : first + agents] = np.column_stack(
                [part.mistakes, part.loss, part.expected, part.examples]
            )
            return True
        except errors.RayTaskError as error:  # it is well, and its work was not
            raise error.cause from None
        except (errors.RayActorError, errors.WorkerCrashedError, errors.OwnerDiedError):
            self._lost.add(rank)
            return False

    def _without_or_again(self, rank: int, feed: Any) -> dict[Any, int]:
        """What is to be waited for instead of a lost actor."""
        who = self.watch.named(rank)
        if self.setup.on_lost == "end":
            raise EngineError(
                f"{who} was lost; start again, or let the run go on with --on-lost wait or without"
            )
        if self.setup.on_lost == "without":
            self.watch.say(f"{who} was lost; the others go on without it")
            self._results[rank] = self._last_copy(rank)
            return {}
        self.watch.say(f"{who} was lost; Ray starts another one, and the others go on meanwhile")
        since, errors = time.monotonic(), self.ray.exceptions
        while True:
            try:
                self.ray.get(self.actors[rank].where.remote(), timeout=1.0)
                break
            except (errors.RayActorError, errors.GetTimeoutError):
                self.watch.waits_for_start([rank], time.monotonic() - since)
                time.sleep(_LOOK)
        for other, actor in enumerate(self.actors):
            if other != rank:
                actor.tell_again.remote(rank)
        return {self._started(rank, feed): rank}

    def _last_copy(self, rank: int) -> TurnsResult:
        """What is left of the agents of a lost actor."""
        first, agents = self._shares[rank]
        kept, after = None, (rank + 1) % self.workers
        if after not in self._lost:
            kept = self.ray.get(self.actors[after].held_copy.remote())
        whole = each_its_own(self._state, self.algorithm.n_agents)
        part = part_of(whole, first, agents) if kept is None else kept.part
        worker = KernelWorker(self.algorithm, part, Partition(first, agents), separate=True)
        counters = [part.mistakes, part.loss, part.expected, part.examples]
        self._counters[first : first + agents] = np.column_stack(counters)
        return TurnsResult(part, worker.weights(), 0, 0)

    def _look(self) -> None:
        """Ask how far everybody is."""
        asked = {actor.turns_so_far.remote(): rank for rank, actor in enumerate(self.actors)}
        ready, _ = self.ray.wait(list(asked), num_returns=len(asked), timeout=_LOOK)
        for each in ready:
            first, agents = self._shares[asked[each]]
            if asked[each] in self._results:
                continue
            try:
                found = self.ray.get(each)
            except self.ray.exceptions.RayError:
                continue
            if found is not None:
                self._counters[first : first + agents] = found
        self._note()
        self.watch.name_stragglers(
            {
                rank: int(self._counters[first : first + agents, 3].sum())
                for rank, (first, agents) in enumerate(self._shares)
                if rank not in self._results
            }
        )

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
            gaps = self.weights() - self.weights().mean(axis=0)
            distance = float(np.sqrt(np.mean(np.sum(gaps * gaps, axis=(1, 2)))))
        return Snapshots(np.array([0]), self._counters[None], np.array([[distance, np.nan]]))

    def end(self) -> Snapshots:
        """All has happened when the streams are over."""
        return self.play(Block(no_rows(), np.empty((0, self.algorithm.n_agents, 1), np.int64)))

    def state(self) -> State:
        """The state of all agents; of agents that were given up, as it was in their last copy."""
        if len(self._results) < self.workers:
            return self._state
        parts = [self._results[rank].part for rank in range(self.workers)]
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
        return np.concatenate([self._results[rank].weights for rank in range(self.workers)])

    def sent(self) -> tuple[int, int, int]:
        """Letters between actors, their bytes, and how many were lost."""
        results = self._results.values()
        return sum(r.letters for r in results), sum(r.bytes_sent for r in results), 0

    def moments(self) -> tuple[Moment, ...]:
        """The run in seconds; the last is now."""
        return tuple(self._moments)

    def events(self) -> Events | None:
        """What happened, if it was recorded; None also where an actor was lost, since its past is too."""
        if not self.setup.schedule.record:
            return None
        if self._lost:
            self.watch.say("nothing is recorded: what a lost actor had sent cannot be played again")
            return None
        played = [self._results[rank].played for rank in range(self.workers)]
        merger = Merger(Wiring.of(self.algorithm.mixing))
        whole = merger.merged([p for p in played if p is not None], 0.0, self._moments[-1].time)
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
        for actor in self.actors:
            self.ray.kill(actor)
        self.actors = []
        self.cluster.close()
