"""The threads engine: every worker hosts some of the agents, and they meet in shared memory.

In rounds all workers wait for each other (here); in lists of events none does (`turns`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from ddol.algorithm import Algorithm
from ddol.engines.kernels import COPIES
from ddol.engines.news import tell
from ddol.engines.registry import Turns
from ddol.engines.setup import Setup
from ddol.engines.state import State, grow, numbers_sent, sharing
from ddol.engines.state_checks import check_block
from ddol.engines.threads import atomics
from ddol.engines.threads.crew import OthersFailedError, WorkerThreads
from ddol.engines.workers.inputs import scores_at, with_pending
from ddol.engines.workers.partition import (
    Partition,
    Snapshots,
    cut_at_snapshots,
    seen_together,
    split,
)
from ddol.engines.workers.shares import joined, joined_counters, part_of
from ddol.engines.workers.worker import KernelWorker
from ddol.engines.workers.workspace import most_reduced
from ddol.schedules.schedule import ROUNDS, Schedule
from ddol.streams.over.parallel import usable_cores
from ddol.streams.rows import Block


class Threads:
    """All agents in several threads, without the interpreter's lock.

    In rounds, mistakes are those of the local engine; weights differ by the order of summation.

    Parameters
    ----------
    algorithm : Algorithm
    state : State
        Copied; `state()` returns the present one at any time.
    workers : int, optional
        Threads, at most one per agent. By default one per core, or fewer where meeting in every exchange
        would take longer than they save.
    readers : int
        How many of them read meanwhile, and do not learn.
    schedule : Schedule, optional
        What to play in place of rounds.

    Examples
    --------
    >>> from ddol.engines.state import start_state
    >>> from ddol.presets import dogd
    >>> from ddol.streams.rows import Rows
    >>> algorithm = dogd(l2=0.0).on(2)
    >>> engine = Threads(algorithm, start_state(algorithm, 2), workers=2)
    >>> rows = Rows.from_dense([[1.0, 0.0], [0.0, 2.0]], [1.0, -1.0])
    >>> _ = engine.play(Block(rows, np.array([[[0], [1]]])))
    >>> engine.counters().mistakes.tolist(), engine.weights().tolist()
    ([0, 1], [[[0.5, -1.0]]])
    >>> engine.close()
    """

    name = "threads"

    def __init__(
        self,
        algorithm: Algorithm,
        state: State,
        workers: int | None = None,
        readers: int = 0,
        schedule: Schedule | None = None,
    ) -> None:
        self.algorithm = algorithm
        self.turns: Turns | None = None
        if schedule is not None:
            self._play_events(state, checked_workers(workers), schedule)
            return
        most = max(1, checked_workers(workers) - readers)
        asked = worth(algorithm, state.n_features, most) if workers is None else most
        self.workers = min(asked, algorithm.n_agents)
        if workers is None and self.workers < min(most, algorithm.n_agents):
            _say(algorithm, self.workers)
        self._shared = sharing(algorithm) != COPIES
        shares = split(algorithm.n_agents, self.workers)
        self._seat([part_of(state, first, agents) for first, agents in shares])
        self._crew = WorkerThreads(self.workers)
        self._failed = False

    @classmethod
    def open(cls, algorithm: Algorithm, state: State, setup: Setup) -> Threads:
        """Open it with as many threads as the setup asks for, for rounds or for its schedule."""
        events = setup.schedule.needs_events(algorithm)
        schedule = setup.schedule if events else None
        return cls(algorithm, state, setup.workers, setup.readers, schedule)

    def _play_events(self, state: State, workers: int, schedule: Schedule) -> None:
        """Let turns host the agents; rounds in which agents choose what they send take one thread."""
        from ddol.engines.events.scheduled import ScheduledTurns
        from ddol.engines.threads.turns import LiveTurns

        algorithm, self._shared = self.algorithm, False
        in_order = schedule.name == ROUNDS and algorithm.chooses_messages
        self.workers = 1 if in_order else min(workers, algorithm.n_agents)
        self._crew = WorkerThreads(self.workers)
        if in_order:
            self.turns = ScheduledTurns(algorithm, state, schedule)
        else:
            self.turns = LiveTurns(algorithm, state, self._crew, schedule)

    @property
    def kernel_workers(self) -> Sequence[KernelWorker]:
        """The workers that host the agents, in their order."""
        return self._hosts if self.turns is None else self.turns.kernel_workers

    def _seat(self, parts: list[State]) -> None:
        """Give every worker its part of the state, and all of them memory to meet in."""
        algorithm, D = self.algorithm, parts[0].n_features
        self._memory = atomics.share(self.workers, most_reduced(algorithm, D))
        rows = 0 if self._shared else algorithm.n_agents
        packed = np.empty((2, rows, numbers_sent(algorithm, D)))
        calls = atomics.threads_addresses()
        self._hosts = []
        for w, (first, agents) in enumerate(split(algorithm.n_agents, self.workers)):
            context = self._memory.contexts[w].ctypes.data
            partition = Partition(
                first, agents, self.workers, column=first, packed=packed, own=first,
                **calls._asdict(), context=context,
            )  # fmt: skip
            self._hosts.append(KernelWorker(algorithm, parts[w], partition))

    def play(self, block: Block, after: Sequence[int] = ()) -> Snapshots:
        """Play a block; see `ddol.engines.registry.Engine`."""
        if self.turns is not None:
            return self.turns.play(block, after)
        check_block(self.algorithm, block)
        if self._failed:
            raise RuntimeError("this engine was stopped by an earlier error; open another one")
        if block.rows.n_features > self._hosts[0].state.n_features:
            wide = block.rows.n_features
            self._seat([grow(self.algorithm, worker.state, wide) for worker in self._hosts])
        state = self._hosts[0].state
        rows, predicted, learned, pending = with_pending(state, block)
        rows = rows if rows.dense else rows.widen(state.n_features)

        scores, found = scores_at(block, rows), []
        for lo, hi, seen in cut_at_snapshots(len(predicted), after, self._hosts[0].numbers_seen):

            def work(w: int, lo: int = lo, hi: int = hi, seen: list[int] = seen) -> None:
                status = self._hosts[w].play(
                    rows, predicted[lo:hi], learned[lo:hi], state.t + lo, seen, scores
                )
                if status != atomics.DONE:
                    raise OthersFailedError

            self._work(work)
            together = seen_together([worker.snapshots for worker in self._hosts])
            found.append(together._replace(rounds=together.rounds + lo))
        for worker in self._hosts:
            worker.state = replace(worker.state, t=state.t + len(predicted), pending=pending)
        return Snapshots.joined(found)

    def _work(self, work: Callable[[int], None]) -> None:
        try:
            self._crew.work(work, lambda: atomics.abort(self._memory.control))
        except BaseException:
            self._failed = True
            raise

    def state(self) -> State:
        """The state of all agents, in memory of its own."""
        return joined([worker.state for worker in self.kernel_workers], self._shared)

    def counters(self) -> State:
        """Counters of all agents, to be read only; the weights are those of the first worker."""
        parts = [worker.state for worker in self.kernel_workers]
        return replace(parts[0], **joined_counters(parts))

    def weights(self) -> np.ndarray:
        """Primal weights of the copies: (copies, outputs, D)."""
        kernel_workers = self.kernel_workers[:1] if self._shared else self.kernel_workers
        return np.concatenate([worker.weights() for worker in kernel_workers])

    def close(self) -> None:
        """End the threads."""
        self._crew.close()


_A_NUMBER, _A_MEETING = 0.6e-9, 0.8e-6
"""Seconds that a worker takes for one feature of an example, and that workers take to meet."""

_SELDOM = 16
"""Rounds from one exchange to the next with which learning takes about as long as reading."""

_told: set[str] = set()


def worth(algorithm: Algorithm, n_features: int, most: int | None = None) -> int:
    """Number of workers, of at most so many or one per core, with which a run is fastest.

    Between two exchanges every worker plays the rounds of its own agents; in an exchange all wait for the
    last one and add up what they have.

    Examples
    --------
    >>> from ddol.presets import dogd
    >>> worth(dogd().on(2), 54)
    1
    """
    # A copy for each agent is also averaged by each.
    numbers = algorithm.n_agents * algorithm.batch * n_features * algorithm.period
    alone = numbers * _A_NUMBER * (2.5 if sharing(algorithm) == COPIES else 1.0)

    def together(workers: int) -> float:
        meeting = _A_MEETING + 2 * workers * n_features * _A_NUMBER
        return alone / workers + (meeting if workers > 1 else 0.0)

    best = min(range(1, checked_workers(most) + 1), key=together)
    return best if alone > 1.1 * together(best) else 1


def readers_beside(algorithm: Algorithm, workers: int | None = None) -> int:
    """Threads, of so many or one per core, that read while the others learn; 0 where all do both by turns.

    To read a number takes about as long as to learn from it, for one output of agents that share a copy of
    the weights or seldom meet. Then half of the threads read, and no core waits for another. Where learning
    takes longer, all of them read some text, and then learn from it.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from ddol.presets import dogd
    >>> readers_beside(dogd().on(8), 4), readers_beside(replace(dogd().on(8), outputs=7), 4)
    (2, 0)
    """
    seldom = sharing(algorithm) != COPIES or algorithm.period >= _SELDOM
    by_turns = algorithm.n_agents > 1 and (algorithm.outputs > 1 or not seldom)
    return 0 if by_turns else checked_workers(workers) // 2


def _say(algorithm: Algorithm, workers: int) -> None:
    """Tell once, on standard error, why there are fewer workers than cores."""
    many = "1 thread" if workers == 1 else f"{workers} threads"
    text = (
        f"{many}: with {algorithm.n_agents} agents that meet after every "
        f"{'round' if algorithm.period == 1 else f'{algorithm.period} rounds'} more would be slower; "
        "raise the period, or set the number of workers"
    )
    if text not in _told:
        _told.add(text)
        tell(text)


def checked_workers(workers: int | None) -> int:
    """Return the number of workers: as many as cores, unless said otherwise.

    Examples
    --------
    >>> checked_workers(3)
    3
    """
    if workers is None:
        return usable_cores()
    if workers < 1:
        raise ValueError(f"`workers` must be at least 1, it is {workers}")
    return workers
