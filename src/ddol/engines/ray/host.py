"""What one actor of a Ray job does: it hosts a share of the agents and plays them together with the others.

All actors run the same program on their own agents, as the ranks of an MPI job do. The driver starts and
watches them; rows and weights go from actor to actor. At the end of a block an actor gives a copy of its
agents to the next one from time to time: whoever takes the place of a lost actor gets them back from there.
"""

from __future__ import annotations

import os
import pickle
import socket
import sys
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
from ddol.engines.groups.dealing import Together
from ddol.engines.groups.grouped import Grouped
from ddol.engines.groups.recovery import Copy, Recovery
from ddol.engines.kinds import Capabilities, EngineKind
from ddol.engines.learner import Learner
from ddol.engines.processes import Dealt
from ddol.engines.progress import Progress
from ddol.engines.ray.cluster import lost_errors
from ddol.engines.ray.group import RayGroup
from ddol.engines.ray.mailbox import Mailbox
from ddol.engines.ray.own_turns import Letter, Poster, Turns, TurnsCopy, TurnsResult
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
    """What all actors are told when they start.

    Parameters
    ----------
    algorithm : Algorithm
        On its network.
    setup : Setup
    n_features : int
        Where it is known beforehand; else 0.
    parts : references to states
        Of every actor's agents, where they know something already; an actor takes its own.
    """

    algorithm: Algorithm
    setup: Setup
    n_features: int = 0
    parts: tuple[Any, ...] = ()


@dataclass(frozen=True)
class TurnsStart:
    """How asynchronous actors begin, at first or after their number has changed.

    ``generation`` counts the changes, ``shares`` are (first, agents) of every actor, ``copies`` the same of
    those before with what each has left, and ``leave_at`` the rounds after which another change is waiting.
    ``ended`` is what those have published last who are through with their streams.
    """

    generation: int
    shares: list[tuple[int, int]]
    copies: tuple[tuple[tuple[int, int], Any], ...] = ()
    leave_at: int | None = None
    ended: tuple[Letter, ...] = ()


@dataclass(frozen=True)
class Status:
    """What an actor tells whoever looks.

    ``waits_for`` is the rank of another actor, and ``waited`` the seconds so far; ``longest`` is the
    longest wait that ended well. ``version`` is that of the newest copy, ``first`` the seconds until the
    first examples were there, and ``wished`` the actors that somebody wants.
    """

    rank: int
    progress: Progress | None
    version: int
    waits_for: int | None
    waited: float
    longest: float
    first: float | None = None
    wished: int | None = None

    @property
    def rounds(self) -> int:
        """Rounds played, as far as is known."""
        return 0 if self.progress is None else self.progress.rounds


class Host:
    """The class behind the actors.

    `post`, `status` and what else reads or wakes may be called while it plays.

    Parameters
    ----------
    rank : int
        Which actor this is.
    version : str
        Of the driver's package.
    modules : names
        What the driver has loaded; see `modules_in_use`.
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
        self.turns: Turns | None = None
        self.poster: Poster | None = None
        self.wished: int | None = None
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
        """How far it is, and for whom it waits."""
        wait = self.mailbox.wait
        who, waited = (None, 0.0) if wait is None else (wait.sender, wait.seconds)
        longest = self.mailbox.longest
        return Status(
            self.rank,
            self._progress,
            self.recovery.version,
            who,
            waited,
            longest,
            self.first,
            self.wished,
        )

    def noting_the_first(self, blocks: Iterator[Any]) -> Iterator[Any]:
        """The same blocks; how long the first took to come is told."""
        began = time.perf_counter()
        for block in blocks:
            if self.first is None:
                self.first = time.perf_counter() - began
            yield block

    def end_epoch(self, epoch: int) -> None:
        """Stop waiting: somebody was lost."""
        self.mailbox.end_epoch(epoch)

    def show(self, version: int) -> tuple[Past, Progress | None] | None:
        """What belongs to the run at a moment, which is kept until another is shown; None if it is over."""
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

    def hear(self, letter: Letter) -> None:
        """Take the newest rows of another actor's agents."""
        if self.turns is not None:
            self.turns.hear(letter)

    def tell_again(self, other: int) -> None:
        """Another actor has begun, and knows nothing of the agents here."""
        if self.poster is not None:
            self.poster.tell_again(other)

    def hold(self, generation: int, kept: TurnsCopy) -> None:
        """Keep a copy of the agents of the actor before."""
        self.recovery.hold(Copy(generation, (kept.first, len(kept.agents)), kept))

    def held_copy(self, generation: int) -> TurnsCopy | None:
        """The copy of the agents of the actor before, for the one that has taken its place."""
        found = self.recovery.held(generation)
        return None if found is None else found.part

    def turns_so_far(self) -> tuple[np.ndarray, float | None] | None:
        """Counters of the own agents, and the seconds until the first examples were there."""
        return None if self.turns is None else (self.turns.counters(), self.first)

    def stop(self) -> None:
        """Leave asynchronous turns early."""
        if self.turns is not None:
            self.turns.stop()

    # Another number of actors.

    def wish(self, workers: int) -> None:
        """Somebody wants the job to have so many actors; the driver will hear of it."""
        self.wished, self.reply = workers, None

    def wished_for(self) -> int | None:
        """How many actors somebody wants and nobody has answered yet."""
        return self.wished

    def answer(self, text: str) -> None:
        """What the driver says to the wish."""
        self.wished, self.reply = None, text

    def answered(self) -> str | None:
        """The answer to the last wish, if there is one."""
        return self.reply

    def promise(self) -> int | None:
        """Rounds beyond which this actor deals nothing before `leave_at`; None where it has dealt all."""
        return None if self.turns is None else self.turns.gate.promise()

    def leave_at(self, rounds: int | None) -> None:
        """Leave the agents to others after so many rounds; None to go on."""
        if self.turns is not None:
            self.turns.gate.leave_at(rounds)

    def post_open(self, epoch: int, call: int, sender: int, letter: Any) -> None:
        """Take a letter that is large, as it is."""
        self.mailbox.post(epoch, call, sender, letter)

    def _known(self, job: HostJob) -> State | None:
        """What the own agents know at the beginning."""
        if not job.parts:
            return None
        import ray

        found: State = ray.get(job.parts[self.rank])
        return found

    # Asynchronous turns, each actor for itself.

    def take_turns(
        self, job: HostJob, feed: Feed, actors: Sequence[Any], start: TurnsStart
    ) -> TurnsResult:
        """Play streams to their end, or to where it is to be left, from a copy where there is one."""
        self.turns = self.poster = None
        first, agents = start.shares[self.rank]
        state = None if start.generation else self._known(job)
        if state is None:
            state = start_state(job.algorithm, job.n_features, job.setup.seed, agents, first)
        turns = Turns(job.algorithm, state, job.setup, feed, start.shares, self.rank)
        after = actors[(self.rank + 1) % len(actors)] if len(actors) > 1 else None
        copies = self._copies(turns, after, start)
        if copies:
            turns.go_back(copies)
        for letter in start.ended:
            turns.hear(letter)
        turns.gate.leave_at(start.leave_at)
        self.turns = turns
        self.poster = Poster(turns, actors)
        for other in turns.rows_from:  # what they have said before nobody was here to hear
            actors[other].tell_again.remote(self.rank)
        try:
            with _naming_the_node():
                ended = turns.play(self.noting_the_first, lambda: self._keep_turns(after, start))
        finally:
            self.poster.end()
        return turns.result(ended)

    def _copies(self, turns: Turns, after: Any, start: TurnsStart) -> list[TurnsCopy]:
        """What there is of the own agents: at the next actor, or where they were left to this one."""
        import ray

        while after is not None:
            try:
                kept = ray.get(after.held_copy.remote(start.generation))
            except lost_errors(ray):  # it may itself be about to start
                time.sleep(0.2)
                continue
            if kept is not None:
                return [kept]
            break
        return [ray.get(copy) for share, copy in start.copies if turns.knows(*share)]

    def _keep_turns(self, after: Any, start: TurnsStart) -> None:
        """Give a copy of the own agents to the next actor, if the last one is old enough."""
        if after is not None and self.turns and self.recovery.due():
            after.hold.remote(start.generation, self.turns.present())  # Ray writes it down at once
            self.recovery.done()

    def time_exchanges(self, actors: Sequence[Any], sizes: Sequence[int]) -> list[float]:
        """Seconds in which all actors give each other so many numbers, of some sizes."""
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
        # The driver knows all that there is to be recorded.
        unrecorded = replace(job.setup.schedule, record=False)
        kind = EngineKind(opener, partial(HostTogether, self, agents), can=_CAN)
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
            What was seen, and the version of the newest copy.
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
        """What belongs to the run at this moment, and how far it was said to be."""
        return self.past(), self._progress

    def _tell(self, progress: Progress) -> None:
        self._progress = progress


_CAN = Capabilities(in_process=False, parallel=True, replicated=True)
"""Of the engine in every actor: all of them run the whole program."""


class HostTogether(Together):
    """The actors of a job as the learner of one of them sees them.

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
        return self.host.noting_the_first(super().blocks(dealt, position))

    def keep(self, engine: Grouped, past: Callable[[], Any]) -> None:
        """Copy the own agents to the next actor, with the progress that was told last."""
        super().keep(engine, self.host.kept_past)


def modules_in_use() -> list[str]:
    """What this process has loaded to read and play: actors load it while they start, not while they learn.

    Examples
    --------
    >>> "ddol.streams.rows" in modules_in_use()
    True
    """
    rooms = ("ddol.streams.", "ddol.engines.", "ddol.update.")
    return [name for name in sys.modules if name == "pyarrow" or name.startswith(rooms)]


@contextmanager
def _naming_the_node() -> Iterator[None]:
    """Say where a package is missing: the driver has it as a rule."""
    try:
        yield
    except DataError as error:
        if not isinstance(error.__context__, ImportError):
            raise
        raise DataError(f"{error} on every node: {socket.gethostname()} has it not") from None


_LETTERS = ("post", "post_open")
"""What is sent without anybody waiting for its arrival."""


def actor_class(ray: Any) -> Any:
    """`Host` as a class of actors: letters and questions are heard while it plays."""
    groups = {
        "mail": ("post", "post_open", "hear", "tell_again"),
        "watch": (
            "where",
            "status",
            "end_epoch",
            "show",
            "shown_part",
            "turns_so_far",
            "stop",
            "wish",
            "wished_for",
            "answer",
            "answered",
        ),
        "copies": ("hold", "held_copy", "promise", "leave_at"),
    }
    members = {
        name: ray.method(concurrency_group=group, num_returns=0 if name in _LETTERS else 1)(
            _forwarded(name)
        )
        for group, names in groups.items()
        for name in names
    }
    kind = type("Host", (Host,), members)
    remote = ray.remote(
        num_cpus=1,
        max_restarts=-1,
        enable_task_events=False,  # a fifth of what a call costs
        scheduling_strategy="SPREAD",
        concurrency_groups=dict.fromkeys(groups, 1),
    )
    return remote(kind)


def _forwarded(name: str) -> Any:
    """The method of `Host` in a function of its own, on which Ray may write its wishes."""
    method = getattr(Host, name)

    def forwarded(self: Host, *arguments: Any, **options: Any) -> Any:
        return method(self, *arguments, **options)

    forwarded.__name__ = name
    return forwarded
