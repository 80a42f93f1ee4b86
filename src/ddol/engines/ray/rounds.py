"""Rounds on Ray, as the driver sees them: it starts, watches and gathers.

Rows and weights go from actor to actor (`ddol.engines.ray.group`); only data in the driver's memory come from
here. Where an actor is lost, Ray starts another one in its place, on another node if need be. It takes its
agents from the copy that the next actor holds, and all go on from that moment.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ddol.algorithm import Algorithm
from ddol.engines.errors import EngineError
from ddol.engines.feed import Feed, Past
from ddol.engines.groups.grouped import joined_parts
from ddol.engines.groups.processes import SingleProcess
from ddol.engines.kernels import COPIES
from ddol.engines.learner import Learner
from ddol.engines.progress import Progress
from ddol.engines.ray.crew import LOOK, Crew
from ddol.engines.ray.host import HostJob, HostMoment, Status
from ddol.engines.ray.turns import AsyncRay
from ddol.engines.setup import Setup
from ddol.engines.state import State, sharing
from ddol.engines.workers.worker import Snapshots
from ddol.streams.rows import Block
from ddol.streams.stream import Position


class ActorsLostError(Exception):
    """Some actors do not answer any more, and the others have stopped."""

    def __init__(self, ranks: Sequence[int] = ()) -> None:
        super().__init__()
        self.ranks = list(ranks)


class Ray:
    """Rounds of all agents, each actor playing those of its own; see `ddol.engines.registry.Engine`.

    Parameters
    ----------
    algorithm : Algorithm
    state : State or None
        Of all agents; None where the actors find out how many features there are.
    setup : Setup
    """

    name = "ray"

    def __init__(self, algorithm: Algorithm, state: State | None, setup: Setup) -> None:
        if setup.on_lost == "without":
            raise EngineError(
                "found --on-lost without in rounds, where everybody waits for everybody, expected "
                "end or wait; to go on without agents use --schedule async"
            )
        self.algorithm, self.setup = algorithm, setup
        self._epoch, self._version = 0, 0
        self._blocks: list[tuple[int, Any, list[int]]] = []
        self.told: int | None = None
        self.shown = 0
        self._failure: EngineError | None = None
        self.crew = Crew(HostJob(algorithm, state, setup))
        self.ray, self.actors, self.watch = self.crew.ray, self.crew.actors, self.crew.watch
        self.workers = self.crew.size
        self._ready, self._told_start = time.perf_counter(), False
        try:
            self._surviving(lambda: self._begin(0), lambda *moment: None)
        except BaseException:
            self.close()
            raise

    @classmethod
    def open(cls, algorithm: Algorithm, state: State, setup: Setup) -> Ray:
        """As many actors as are wished for, or one a core of the cluster."""
        return cls(algorithm, state, setup)

    # The engine.

    def play(self, block: Block, after: Sequence[int] = ()) -> Snapshots:
        """Play the rounds of a block that is in the driver's memory."""
        self._blocks.append((self._version, self.ray.put(block), list(after)))
        snapshots = self._surviving(self._play_last, self._play_again)
        # A lost actor takes all back to one of the last two versions.
        self._blocks = [each for each in self._blocks if each[0] >= self._version - 1]
        return snapshots

    def _play_last(self) -> Snapshots:
        _, block, after = self._blocks[-1]
        played = self._together(partial(_play, block=block, after=after))
        self._version = min(version for _, version in played)
        snapshots: Snapshots = played[0][0]
        return snapshots

    def _play_again(self, version: int, position: Position | None) -> None:
        """Play the blocks that came after a version, but for the last."""
        for before, block, after in self._blocks[:-1]:
            if before >= version:
                self._together(partial(_play, block=block, after=after))

    def follow(self, feed: Feed, position: Position | None, look: Callable[[], None]) -> None:
        """Let the actors read streams and play them to their end.

        Parameters
        ----------
        feed : Feed
        position : Position or None
            Of the streams.
        look : function
            Called a few times a second meanwhile.
        """
        shared = self.ray.put(feed)
        before = time.perf_counter() - self._ready

        def look_and_tell() -> None:
            self._tell_start(before)
            self._answer_wishes()
            look()

        def go_on() -> None:
            self._together(lambda actor: actor.follow.remote(shared, position), look_and_tell)

        def go_back(version: int, then: Position | None) -> None:
            nonlocal position
            position = then if version else position

        self._surviving(go_on, go_back)
        self.watch.look(self._statuses())
        self._tell_start(before)

    def _tell_start(self, before: float) -> None:
        """Say once how long it took until everybody had examples, of which so long before they were asked."""
        first = [status.first for status in self.watch.statuses if status.first is not None]
        if not self._told_start and len(first) == self.workers:
            self.crew.say_start(before + max(first))
            self._told_start = True

    def _answer_wishes(self) -> None:
        """Whoever wants another number of actors is told that rounds keep theirs."""
        for status in self.watch.statuses:
            if status.wished is not None:
                self.actors[status.rank].answer.remote(
                    f"{self.crew.name} plays rounds, whose actors stay; stop it, and go on with --resume and "
                    f"--workers {status.wished}, or use --schedule async"
                )

    def state(self) -> State:
        """The state of all agents, in memory of its own; while actors play, at the moment told last."""
        if self.told is not None:
            return self._joined([moment.part for moment in self._asked("kept", self.told)])
        return self._joined(self._asked("part"))

    def counters(self) -> State:
        """Counters of all agents; the weights are those of the first actor."""
        counters: State = self.ray.get(self.actors[0].counters.remote())
        return counters

    def weights(self) -> np.ndarray:
        """Primal weights of the copies: (copies, outputs, D)."""
        parts = self._asked("weights")
        return parts[0] if self._shared else np.concatenate(parts)

    def close(self) -> None:
        """End the actors, and the cluster if it is ours."""
        self.crew.close()

    # The run as it stands.

    def _statuses(self) -> list[Status]:
        """What every actor tells, of those that answer at once."""
        asked = [actor.status.remote() for actor in self.actors]
        ready, _ = self.ray.wait(asked, num_returns=len(asked), timeout=LOOK)
        found = []
        for each in ready:
            try:
                found.append(self.ray.get(each))
            except self.crew.lost:
                continue
        return found

    def moment(self, version: int) -> HostMoment:
        """What the first actor has kept of a version."""
        found: HostMoment = self.ray.get(self.actors[0].kept.remote(version))
        return found

    def past(self) -> Past:
        """Position of the streams and curves, as the actors have them."""
        found: Past = self.ray.get(self.actors[0].past.remote())
        return found

    def progress(self) -> Progress:
        """Where the run stands, as the first actor has told it last."""
        status: Status = self.ray.get(self.actors[0].status.remote())
        assert status.progress is not None
        return status.progress

    @property
    def _shared(self) -> bool:
        return sharing(self.algorithm) != COPIES

    def _joined(self, parts: list[State]) -> State:
        return joined_parts(parts, self.crew.shares, self._shared)

    def _asked(self, method: str, *arguments: Any) -> list[Any]:
        if self._failure is not None:
            raise self._failure
        return list(
            self.ray.get([getattr(actor, method).remote(*arguments) for actor in self.actors])
        )

    # Losing actors.

    def _surviving(self, work: Callable[[], Any], go_back: Callable[..., None]) -> Any:
        """Do some work, from a common moment again if an actor is lost meanwhile."""
        while True:
            try:
                return work()
            except ActorsLostError as error:
                lost: list[int] | None = error.ranks
            while lost is not None:
                try:
                    go_back(*self._recovered(lost))
                    lost = None
                except ActorsLostError as error:  # one more
                    lost = error.ranks

    def _together(self, call: Callable[[Any], Any], look: Callable[[], None] | None = None) -> list:
        """Call all actors and wait for their answers, looking after them meanwhile.

        Raises
        ------
        ActorsLostError
            One is lost; the others have stopped.
        """
        pending = {call(actor): rank for rank, actor in enumerate(self.actors)}
        answers: dict[int, Any] = {}
        failure: BaseException | None = None
        while pending:
            try:
                ready, _ = self.ray.wait(list(pending), num_returns=len(pending), timeout=LOOK)
                for each in ready:
                    rank = pending.pop(each)
                    answers[rank] = self._answer(each, rank)
                    if isinstance(answers[rank], BaseException):
                        failure = _graver(failure, answers[rank])
                if failure is None and pending:
                    self.watch.look(self._statuses())
                    if look is not None:
                        look()
            except BaseException as error:  # Ctrl-C, or whoever looks has had enough
                failure = _graver(failure, error)
            if failure is not None:
                for rank in pending.values():
                    self.actors[rank].end_epoch.remote()
        if failure is not None:
            if not isinstance(failure, ActorsLostError):
                self._begin_again()  # what follows reads a common moment
            raise failure
        return [answers[rank] for rank in sorted(answers)]

    def _answer(self, future: Any, rank: int) -> Any:
        """What an actor has answered, or the error in its place."""
        try:
            found = self.ray.get(future)
        except self.ray.exceptions.RayTaskError as error:
            # It is well, and its work was not; or somebody it asked was lost.
            lost = isinstance(error.cause, self.crew.lost)
            return ActorsLostError() if lost else error.cause
        except self.crew.lost:
            return ActorsLostError([rank])
        return ActorsLostError() if found is None else found  # it stopped for another's sake

    def _recovered(self, lost: Sequence[int]) -> tuple[int, Position | None]:
        """Bring all actors to the newest moment that all of them know: its version and position."""
        who = " and ".join(self.watch.named(rank) for rank in lost) or "an actor"
        if self.setup.on_lost == "end":
            self._failure = EngineError(
                f"{who} was lost; start again, with --resume if there is a checkpoint, or let the run "
                "wait for another one with --on-lost wait"
            )
            raise self._failure
        self.watch.say(f"{who} was lost; Ray starts another one, and all go back to the last copy")
        return self._begin_again()

    def _begin_again(self) -> tuple[int, Position | None]:
        version = max(set.intersection(*self._versions()), default=0)
        return version, self._begin(version)

    def _versions(self) -> list[set[int]]:
        """Versions that there are of every actor's agents, when all of them answer again."""
        n = self.workers
        found: dict[int, tuple[set[int], set[int]]] = {}
        while len(found) < n:
            self.crew.wait_for([rank for rank in range(n) if rank not in found])
            asked = {
                actor.versions.remote(): rank
                for rank, actor in enumerate(self.actors)
                if rank not in found
            }
            for each, rank in asked.items():
                answer = self._answer(each, rank)
                if isinstance(answer, tuple):
                    found[rank] = answer
        return [found[rank][0] or found[(rank + 1) % n][1] for rank in range(n)]

    def _begin(self, version: int) -> Position | None:
        self._epoch, self._version = self._epoch + 1, version
        handles = self.actors
        positions = self._together(
            lambda a: a.begin.remote(self.crew.job, self._epoch, handles, version)
        )
        return positions[0][0]


def _play(actor: Any, block: Any, after: list[int]) -> Any:
    return actor.play.remote(block, after)


def _graver(first: BaseException | None, second: BaseException) -> BaseException:
    """Of two errors the one that is not only a consequence."""
    if isinstance(first, ActorsLostError) and isinstance(second, ActorsLostError):
        return ActorsLostError(sorted({*first.ranks, *second.ranks}))
    return second if first is None or isinstance(first, ActorsLostError) else first


class Actors(SingleProcess):
    """The actors of a Ray job as the driver's learner sees them."""

    def follow(self, learner: Learner) -> None:
        """Let the actors read and play the feed, and tell what happens."""
        if learner.setup.schedule.plays_events:
            _follow_turns(learner)
            return
        engine = learner.engine
        if engine is None:
            engine = learner.engine = Ray(learner.algorithm, learner.start, learner.setup)
        assert isinstance(engine, Ray)
        with learner.timing():
            engine.follow(learner.feed, learner.position, lambda: _tell(learner, engine))
            _take_over(learner, engine.past())
            if learner.history.log is not None:
                learner.history.log.fill(engine.counters().examples, learner.feed.passes)
            if learner.on_progress is not None:
                learner.on_progress(engine.progress())


def _follow_turns(learner: Learner) -> None:
    """The same where nobody waits for anybody."""
    if not (learner.setup.n_features or learner.feed.n_features):
        raise EngineError(
            "found streams that do not say how many features they have, expected to know it before "
            "messages are sent; use --features n (n_features=)"
        )
    engine = learner.opened(0)
    assert isinstance(engine, AsyncRay)
    with learner.timing():
        engine.follow(learner.feed, learner.look)


def _take_over(learner: Learner, past: Past) -> None:
    learner.position = past.position
    learner.history.curves.restore(past.curves)


def _tell(learner: Learner, engine: Ray) -> None:
    """Call the driver's `on_progress`: between two blocks where all actors have a new copy."""
    if learner.on_progress is None or not engine.watch.statuses:
        return
    first, *_ = statuses = engine.watch.statuses
    version = min(status.version for status in statuses)
    if version > engine.shown:
        engine.shown = engine.told = version
        moment = engine.moment(version)
        _take_over(learner, moment.past)
        if moment.progress is not None:
            learner.on_progress(moment.progress)
        engine.told = None
    elif first.progress is not None:
        learner.on_progress(replace(first.progress, position=None))
