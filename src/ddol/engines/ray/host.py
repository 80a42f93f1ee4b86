"""What one actor of a Ray job does: it hosts a share of the agents and plays them together with the others.

All actors run the same program on their own agents, as the ranks of an MPI job do. The driver starts and
watches them; rows and weights go from actor to actor. From time to time an actor sends a copy of its agents
to the next one, which has them if it is lost (`ddol.engines.groups.recovery`).
"""

from __future__ import annotations

import os
import pickle
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import numpy as np

from ddol.algorithm import Algorithm
from ddol.engines.errors import RankLostError
from ddol.engines.feed import Feed, Past
from ddol.engines.groups.dealing import GroupProcesses
from ddol.engines.groups.grouped import Grouped
from ddol.engines.groups.recovery import Copy, Recovery
from ddol.engines.kinds import Capabilities, EngineKind
from ddol.engines.learner import Learner
from ddol.engines.processes import Dealt
from ddol.engines.progress import Progress
from ddol.engines.ray.actor_turns import ActorTurns, RowSender
from ddol.engines.ray.group import RayGroup
from ddol.engines.ray.mailbox import Mailbox
from ddol.engines.ray.turn_state import PublishedRows, TurnsCopy, TurnsResult, TurnsStart
from ddol.engines.setup import Setup
from ddol.engines.state import State, start_state
from ddol.engines.workers.partition import Snapshots
from ddol.streams.errors import DataError
from ddol.streams.rows import Block
from ddol.streams.store.room import keep_memory
from ddol.streams.stream import Position
from ddol.version import __version__


@dataclass(frozen=True)
class HostJob:
    """The job, as all actors get it.

    Parameters
    ----------
    algorithm : Algorithm
        On its network.
    setup : Setup
    n_features : int
        0 where it is not known beforehand.
    parts : references to states
        Of every actor's agents, where they do not begin from scratch; an actor takes its own.
    """

    algorithm: Algorithm
    setup: Setup
    n_features: int = 0
    parts: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Status:
    """How far an actor is.

    Parameters
    ----------
    rank : int
    progress : Progress or None
        Of rounds, as it was reported last.
    version : int
        Of the newest copy of its agents.
    waits_for : int or None
        Rank of the actor whose message it waits for.
    waited : float
        Seconds of this wait.
    longest : float
        The longest wait that ended well.
    first : float or None
        Seconds until the first examples were read.
    requested : int or None
        Number of actors that was requested from outside (`ddol scale`), until it is answered.
    counters : (agents, 4) or None
        Of asynchronous turns: mistakes, loss, expected mistakes and examples of the own agents.
    """

    rank: int
    progress: Progress | None
    version: int
    waits_for: int | None
    waited: float
    longest: float
    first: float | None = None
    requested: int | None = None
    counters: np.ndarray | None = None

    @property
    def rounds(self) -> int:
        """Rounds played, as far as is known."""
        return 0 if self.progress is None else self.progress.rounds


class Host:
    """The class behind the actors.

    `post`, `status` and other methods that read or wake may be called while it plays.

    Parameters
    ----------
    rank : int
        Which actor this is.
    version : str
        Of the driver's package.
    modules : names
        What the driver has loaded; see `ddol.engines.ray.pool.modules_in_use`.
    """

    def __init__(self, rank: int, version: str, modules: Sequence[str] = ()) -> None:
        if version != __version__:
            raise RuntimeError(
                f"found ddol {__version__} on {socket.gethostname()} and {version} at the driver, "
                "expected one version; install the same everywhere"
            )
        keep_memory()
        for name in modules:
            with suppress(ImportError):
                import_module(name)
        self.rank = rank
        self.mailbox = Mailbox()
        self.recovery = Recovery()
        self.shown: Copy | None = None
        self.learner: Learner | None = None
        self.turns: ActorTurns | None = None
        self.sender: RowSender | None = None
        self.requested: int | None = None
        self.reply: str | None = None
        self._progress: Progress | None = None
        self.first: float | None = None

    # At any time.

    def where(self) -> tuple[str, int]:
        """The cluster's node, and the number of the process."""
        import ray

        return ray.get_runtime_context().get_node_id(), os.getpid()

    def post(self, sealed: bytes) -> None:
        """Receive a message of another actor: epoch, call, sender and content, pickled."""
        self.mailbox.post(*pickle.loads(sealed))

    def status(self) -> Status:
        """How far it is, and which actor it waits for."""
        waits_for, waited = self.mailbox.waiting()
        return Status(
            self.rank,
            self._progress,
            self.recovery.version,
            waits_for=waits_for,
            waited=waited,
            longest=self.mailbox.longest,
            first=self.first,
            requested=self.requested,
            counters=None if self.turns is None else self.turns.counters(),
        )

    def timing_the_first(self, blocks: Iterator[Any]) -> Iterator[Any]:
        """The same blocks; `first` is set to the seconds until the first of them."""
        began = time.perf_counter()
        for block in blocks:
            if self.first is None:
                self.first = time.perf_counter() - began
            yield block

    def end_epoch(self, epoch: int) -> None:
        """Stop waiting: an actor was lost."""
        self.mailbox.end_epoch(epoch)

    def show(self, version: int) -> tuple[Past, Progress | None] | None:
        """The run at the moment of a copy, which is kept until another is shown; None if it was replaced."""
        share = self._engine.share
        self.shown = next(
            (c for c in self.recovery.copies if (c.version, c.share) == (version, share)), None
        )
        return None if self.shown is None else self.shown.past

    def shown_part(self) -> State:
        """The own agents at the moment that was shown last."""
        if self.shown is None:
            raise RankLostError("an actor was lost")
        part: State = self.shown.part
        return part

    def receive(self, rows: PublishedRows) -> None:
        """Take the newest rows of another actor's agents."""
        if self.turns is not None:
            self.turns.receive(rows)

    def resend(self, other: int) -> None:
        """Send everything again to an actor that has just begun."""
        if self.sender is not None:
            self.sender.resend(other)

    def hold(self, generation: int, kept: TurnsCopy) -> None:
        """Keep a copy of the agents of the actor before."""
        self.recovery.hold(Copy(generation, (kept.first, len(kept.agents)), kept))

    def held_copy(self, generation: int) -> TurnsCopy | None:
        """The copy of the agents of the actor before, for the one that was started in its place."""
        found = self.recovery.held(generation)
        return None if found is None else found.part

    def stop(self) -> None:
        """Leave asynchronous turns early."""
        if self.turns is not None:
            self.turns.stop()

    # Another number of actors.

    def request_workers(self, workers: int) -> None:
        """Request another number of actors for the job; the driver sees it in the next status."""
        self.requested, self.reply = workers, None

    def answer_request(self, text: str) -> None:
        """Take the driver's answer to the pending request."""
        self.requested, self.reply = None, text

    def request_answer(self) -> str | None:
        """The answer to the last request; None as long as it is pending."""
        return self.reply

    def pause(self) -> int | None:
        """Deal nothing more before `leave_at`: the rounds dealt so far; None where all are."""
        return None if self.turns is None else self.turns.gate.pause()

    def leave_at(self, rounds: int | None) -> None:
        """Leave the agents to other actors after so many rounds; None to go on."""
        if self.turns is not None:
            self.turns.gate.leave_at(rounds)

    def post_open(self, epoch: int, call: int, sender: int, message: Any) -> None:
        """Take a large message, which is not pickled once more."""
        self.mailbox.post(epoch, call, sender, message)

    def _known(self, job: HostJob) -> State | None:
        """The state of the own agents at the beginning, if it is not a fresh one."""
        if not job.parts:
            return None
        import ray

        found: State = ray.get(job.parts[self.rank])
        return found

    # Asynchronous turns, each actor for itself.

    def take_turns(
        self, job: HostJob, feed: Feed, actors: Sequence[Any], start: TurnsStart
    ) -> TurnsResult:
        """Play streams to their end, or to where they are to be left, from a copy where there is one."""
        self.turns = self.sender = None
        first, agents = start.shares[self.rank]
        state = None if start.generation else self._known(job)
        if state is None:
            state = start_state(job.algorithm, job.n_features, job.setup.seed, agents, first)
        turns = ActorTurns(job.algorithm, state, job.setup, feed, start.shares, self.rank)
        after = actors[(self.rank + 1) % len(actors)] if len(actors) > 1 else None
        turns.take_up(after, start)
        self.turns, self.sender = turns, RowSender(turns, actors)
        for other in turns.rows_from:  # what they have sent before this actor was ready
            actors[other].resend.remote(self.rank)

        def keep_copy() -> None:
            if after is not None and self.recovery.due():
                after.hold.remote(start.generation, turns.present())  # Ray writes it down at once
                self.recovery.done()

        try:
            with _naming_the_node():
                ended = turns.play(self.timing_the_first, keep_copy)
        finally:
            self.sender.end()
        return turns.result(ended)

    def time_exchanges(self, actors: Sequence[Any], sizes: Sequence[int]) -> list[float]:
        """Seconds in which all actors exchange so many numbers, for each of some sizes."""
        group, found = RayGroup(self.rank, actors, self.mailbox), []
        for numbers in sizes:
            values, times = np.zeros(numbers), max(16, min(256, (1 << 20) // numbers))
            group.gather(values)  # so that all of them are there
            began = time.perf_counter()
            for _ in range(times):
                group.gather(values)
            found.append((time.perf_counter() - began) / times)
        return found

    # Rounds, by all actors together.

    def begin(self, job: HostJob, epoch: int, actors: Sequence[Any]) -> tuple[int, Position | None]:
        """Take up the newest moment of which all agents are known; 0 is the beginning.

        Returns
        -------
        tuple
            The moment, and the position of the streams then.
        """
        self.group = group = RayGroup(self.rank, actors, self.mailbox)
        group.begin(epoch)
        known = self.recovery.restore(group, job.algorithm)
        opener = SimpleNamespace(
            name="ray", open=lambda algorithm, state, setup: Grouped(algorithm, state, group)
        )
        _, agents = group.shares(job.algorithm.n_agents)[self.rank]
        # The driver records.
        unrecorded = replace(job.setup.schedule, record=False)
        kind = EngineKind(opener, partial(ActorProcesses, self, agents), can=_CAN)
        setup = replace(job.setup, engine=kind, schedule=unrecorded)
        state = None if known else self._known(job)
        learner = self.learner = Learner(job.algorithm, setup, state, self._tell)
        if known is None:
            if state is not None or job.n_features:
                learner.opened(job.n_features)
            return 0, None
        past, self._progress = known.past
        learner.go_back(known.part, past)
        return known.version, learner.position

    def follow(self, feed: Feed, position: Position | None) -> tuple[None, int]:
        """Play streams to their end; what `play` returns."""
        with _naming_the_node():
            self._begun.follow(feed, position)
        return None, self.recovery.version

    def play(self, block: Block, after: Sequence[int]) -> tuple[Snapshots, int]:
        """Play the rounds of a block that the driver has dealt.

        Returns
        -------
        tuple
            Snapshots, and the version of the newest copy.
        """
        seen = self._begun.opened(block.rows.n_features).play(block, after)
        self.recovery.keep(self.group, self._engine.share, self.part(), self.kept_past)
        return seen, self.recovery.version

    def part(self) -> State:
        """The state of the own agents."""
        return self._engine.worker.state

    def weights(self) -> np.ndarray:
        """Primal weights of the own copies."""
        return self._engine.worker.weights()

    def counters(self) -> tuple[State, tuple[int, ...]]:
        """Counters of all agents, and the shape of the own weights, which stay here."""
        found = self._engine.counters()
        return replace(found, theta=found.theta[:0]), found.theta.shape

    @property
    def _begun(self) -> Learner:
        """The learner; an actor that Ray has started in the place of a lost one has none before `begin`."""
        if self.learner is None:
            raise RankLostError("an actor was lost")
        return self.learner

    @property
    def _engine(self) -> Grouped:
        engine = self._begun.engine
        assert isinstance(engine, Grouped)
        return engine

    def past(self) -> Past:
        """Position of the streams, and curves of the run, the same on all actors."""
        return self._begun.past()

    def kept_past(self) -> tuple[Past, Progress | None]:
        """The run at this moment, and the progress that was reported last."""
        return self.past(), self._progress

    def _tell(self, progress: Progress) -> None:
        self._progress = progress


_CAN = Capabilities(in_process=False, parallel=True, replicated=True)
"""Capabilities of the engine within an actor: all actors run the whole program."""


class ActorProcesses(GroupProcesses):
    """The actors of a job, as the learner of each sees them; see `ddol.engines.processes.Processes`.

    Parameters
    ----------
    host : Host
    agents : int
    """

    def __init__(self, host: Host, agents: int) -> None:
        super().__init__(host.group, agents, host.recovery)
        self.host = host

    def blocks(
        self, dealt: Dealt, position: Position | None
    ) -> Iterator[tuple[Block, Position | None]]:
        """Deal the examples of this actor's agents."""
        return self.host.timing_the_first(super().blocks(dealt, position))

    def keep(self, engine: Grouped, past: Callable[[], Any]) -> None:
        """Copy the own agents to the next actor, with the progress that was reported last."""
        super().keep(engine, self.host.kept_past)


@contextmanager
def _naming_the_node() -> Iterator[None]:
    """Add the node to the message about a missing package, which the driver may well have."""
    try:
        yield
    except DataError as error:
        if not isinstance(error.__context__, ImportError):
            raise
        raise DataError(f"{error} on every node; {socket.gethostname()} does not have it") from None
