"""The Ray engine, as the driver sees it: it starts, watches and gathers.

In rounds all actors wait for each other (here); in lists of events none does (`turns`). Rows and weights go
from actor to actor (`ddol.engines.ray.group`); only data in the driver's memory come from here. Where an
actor is lost, Ray starts another one in its place, on another node if need be. It takes its agents from the
copy that the next actor holds, and in rounds all go on from that moment.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ddol.algorithm import Algorithm
from ddol.engines.errors import EngineError, EngineFailedError
from ddol.engines.feed import Feed, Past
from ddol.engines.groups.grouped import joined_parts
from ddol.engines.kernels import COPIES
from ddol.engines.local import Local
from ddol.engines.progress import Progress
from ddol.engines.ray.host import HostJob, Status
from ddol.engines.ray.pool import LOOK, ActorPool, ActorsLostError
from ddol.engines.ray.turns import DriverTurns
from ddol.engines.setup import Setup
from ddol.engines.state import State, is_beginning, sharing
from ddol.engines.workers.partition import Snapshots
from ddol.streams.rows import Block
from ddol.streams.stream import Position


@dataclass
class Work:
    """A piece of work of all actors, and the copies from which it must be played again after a loss.

    Parameters
    ----------
    call : function of an actor and of a position
        Asks the actor to do it, from the beginning or from where a copy stands.
    start : Position or None
        Of the streams, at the beginning.
    streams : bool
        Whether copies are made while it is played, not only after it.
    """

    call: Callable[[Any, Position | None], Any]
    start: Position | None = None
    streams: bool = False
    before: float = math.inf
    """Version of the newest copy when it began."""
    last: float = math.inf
    """Version of the newest copy that does not hold all of it."""

    def __post_init__(self) -> None:
        self.position = self.start

    def go_back(self, version: int, position: Position | None) -> None:
        """Begin anew, or where the copy of this version stands."""
        if version <= self.before:
            self.before, position = math.inf, self.start
        self.position, self.last = position, math.inf


class Ray:
    """All agents in actors of a Ray cluster, each playing those of its own.

    Parameters
    ----------
    algorithm : Algorithm
    state : State or None
        Of all agents; None where the actors of rounds find out how many features there are.
    setup : Setup
    """

    name = "ray"

    def __init__(self, algorithm: Algorithm, state: State | None, setup: Setup) -> None:
        events = setup.schedule.needs_events(algorithm)
        if setup.on_lost == "without" and not events:
            raise EngineError(
                "found --on-lost without in rounds, where all agents wait for each other, expected "
                "end or wait; to go on without agents use --schedule async"
            )
        self.algorithm, self.setup = algorithm, setup
        self.turns: DriverTurns | None = None
        self._epoch, self.version = 0, 0
        self._works: list[Work] = []
        """Works that the last two copies of every actor may not contain yet."""
        self._forgotten = -1.0
        """The newest version from which there is no way to the present."""
        self._looking = False
        self.shown = 0
        self.failure: EngineError | None = None
        width = 0 if state is None else state.n_features
        known = None if state is None or is_beginning(algorithm, state) else state
        self.pool = ActorPool(HostJob(algorithm, setup, width), known)
        self.ray, self._ready = self.pool.ray, time.perf_counter()
        if events and state is not None:
            self.turns = DriverTurns(self.pool, algorithm, state, setup)
            return
        try:
            self._with_recovery(self._begin)
        except BaseException:
            self.close()
            raise

    @classmethod
    def open(cls, algorithm: Algorithm, state: State, setup: Setup) -> Ray:
        """As many actors as the setup asks for, or one per core of the cluster."""
        return cls(algorithm, state, setup)

    @property
    def actors(self) -> list[Any]:
        """The actors' handles."""
        return self.pool.actors

    @property
    def workers(self) -> int:
        """Number of actors, at present."""
        return self.pool.size

    # The engine.

    def play(self, block: Block, after: Sequence[int] = ()) -> Snapshots:
        """Play the rounds of a block that is in the driver's memory."""
        if self.turns is not None:
            return self.turns.play(block, after)
        if self._looking:
            return self._shown().play(block, after)
        given, after = self.ray.put(block), list(after)
        played = self._carried_out(Work(lambda actor, position: actor.play.remote(given, after)))
        snapshots: Snapshots = played[0][0]
        return snapshots

    def follow(self, feed: Feed, began: Past, look: Callable[..., None]) -> Progress | None:
        """Let the actors read streams and play them to their end; where the run stands then.

        Parameters
        ----------
        feed : Feed
        began : Past
            What belongs to the run now.
        look : function of Past or None, and of Progress or None
            Called a few times a second with what is new.
        """
        if self.turns is not None:
            self.turns.follow(feed, look)
            return None
        shared = self.ray.put(feed)
        before = time.perf_counter() - self._ready

        def look_and_tell() -> None:
            self.pool.report_start(before)
            self._refuse_requests()
            self._tell(look)

        work = Work(
            lambda actor, place: actor.follow.remote(shared, place), began.position, streams=True
        )
        try:
            self._carried_out(work, look_and_tell)
            self.pool.watch.look(self.pool.look())
            self.pool.report_start(before)
        except BaseException:
            if self.failure is None:  # the actors have gone back to a common moment
                look(self.past() if self.version else began)
            raise
        look(self.past())
        return self.progress()

    def _tell(self, look: Callable[..., None]) -> None:
        """Tell of a moment between two blocks where all actors have a new copy, and else of the progress."""
        moment = self.show()
        if moment is not None:
            look(*moment)
        elif self.shown and self.pool.statuses:  # before, the state could not be asked for
            progress = self.pool.statuses[0].progress
            if progress is not None:
                look(None, replace(progress, position=None))

    def _refuse_requests(self) -> None:
        """Answer requests of another number of actors: rounds keep theirs."""
        for status in self.pool.statuses:
            if status.requested is not None:
                self.actors[status.rank].answer_request.remote(
                    f"{self.pool.name} plays rounds, whose actors stay; stop it, and go on with --resume and "
                    f"--workers {status.requested}, or use --schedule async"
                )

    def state(self) -> State:
        """The state of all agents, in memory of its own; while actors play, at the moment shown last."""
        if self.turns is not None:
            return self.turns.state()
        parts = self._asked("shown_part" if self._looking else "part")
        return joined_parts(parts, self.pool.shares, self._shared)

    def counters(self) -> State:
        """Counters of all agents; in place of weights there are as many zeros as the first actor has."""
        if self.turns is not None:
            return self.turns.counters()
        if self._looking:
            return self.state()
        counters, shape = self._asked("counters", ranks=[0])[0]
        return replace(counters, theta=np.broadcast_to(0.0, shape))

    def weights(self) -> np.ndarray:
        """Primal weights of the copies: (copies, outputs, D)."""
        if self.turns is not None:
            return self.turns.weights()
        if self._looking:
            return self._shown().weights()
        parts = self._asked("weights")
        return parts[0] if self._shared else np.concatenate(parts)

    def _shown(self) -> Local:
        """The moment shown last, in this process: actors that play do nothing else."""
        return Local(self.algorithm, self.state())

    def close(self) -> None:
        """End the actors, and the cluster if it is ours."""
        self.pool.close()

    # The run as it stands.

    def show(self) -> tuple[Past, Progress | None] | None:
        """The run at a later moment than the one shown last, if all actors have a copy of it."""
        versions = [status.version for status in self.pool.statuses]
        if len(versions) < self.workers or min(versions) <= self.shown:
            return None
        version = min(versions)
        found = self._asked("show", version)
        if None in found:  # some have had two later ones since
            return None
        self.shown = version
        moment: tuple[Past, Progress | None] = found[0]
        return moment

    def past(self) -> Past:
        """Position of the streams and curves, as the actors have them."""
        found: Past = self._asked("past", ranks=[0])[0]
        return found

    def progress(self) -> Progress | None:
        """The progress that the first actor reported last."""
        status: Status = self._asked("status", ranks=[0])[0]
        return status.progress

    @property
    def _shared(self) -> bool:
        return sharing(self.algorithm) != COPIES

    def _asked(self, method: str, *arguments: Any, ranks: Sequence[int] | None = None) -> list[Any]:
        """Ask actors; where one is lost they come to this moment again, and are asked again."""
        if self.failure is not None:
            raise self.failure
        ask = partial(self.pool.asked, method, *arguments, ranks=ranks)
        return ask() if self._looking else self._with_recovery(ask)

    # Losing actors.

    def _carried_out(self, work: Work, look: Callable[[], None] | None = None) -> list[Any]:
        """Have some work done: what every actor returns."""
        self._works.append(work)
        played = self._with_recovery(lambda: self._play(work, look), unfinished=1)
        self._forget(
            self.version - 1
        )  # a lost actor takes all back to one of the last two versions
        return played

    def _forget(self, version: int) -> None:
        """Drop the works that copies of this version hold."""
        over = [work.last for work in self._works if work.last < version]
        self._works = self._works[len(over) :]
        self._forgotten = max([self._forgotten, *over])

    def _play(self, work: Work, look: Callable[[], None] | None = None) -> list[Any]:
        work.before = min(work.before, self.version)
        played = self._call_all(lambda actor: work.call(actor, work.position), look)
        self.version = min(version for _, version in played)
        work.last = self.version if work.streams else work.before
        return played

    def _with_recovery(self, ask: Callable[[], Any], unfinished: int = 0) -> Any:
        """Ask for something, again if an actor is lost meanwhile and all have come to this moment anew."""
        while True:
            try:
                return ask()
            except ActorsLostError as error:
                lost: list[int] | None = error.ranks
            while lost is not None:
                try:
                    self._recover(lost, unfinished)
                    lost = None
                except ActorsLostError as error:  # one more
                    lost = error.ranks

    def _recover(self, lost: Sequence[int], unfinished: int) -> None:
        """Take all to a common moment, and from there to where the finished works have led."""
        version, position = self._newest_moment(lost)
        if version <= self._forgotten:
            self.failure = EngineFailedError(
                "an actor was lost together with the copy of its agents; start again, with --resume if "
                "there is a checkpoint"
            )
            raise self.failure
        self._forget(version)
        for work in self._works:
            work.go_back(version, position)
        for work in self._works[: len(self._works) - unfinished]:
            self._play(work)

    def _call_all(self, call: Callable[[Any], Any], look: Callable[[], None] | None = None) -> list:
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
                    try:
                        answers[rank] = self.pool.answer(each, rank)
                    except Exception as error:
                        failure = _graver(failure, error)
                if failure is None and pending:
                    self._look(look)
            except BaseException as error:  # Ctrl-C, or an error of on_progress
                failure = _graver(failure, error)
            if failure is not None:
                for rank in pending.values():
                    self.actors[rank].end_epoch.remote(self._epoch)
        if failure is not None:
            if not isinstance(failure, ActorsLostError):
                self._stop_together()
            raise failure
        return [answers[rank] for rank in sorted(answers)]

    def _look(self, look: Callable[[], None] | None) -> None:
        self.pool.give_up(self.pool.watch.look(self.pool.look()))
        if look is not None:
            self._looking = True
            try:
                look()
            finally:
                self._looking = False

    def _stop_together(self) -> None:
        """Take all to a common moment, which is the present one from now on."""
        while True:
            try:
                version, _ = self._begin_again()
                break
            except ActorsLostError:
                continue
        self._works, self._forgotten = [], version - 1

    def _newest_moment(self, lost: Sequence[int]) -> tuple[int, Position | None]:
        """Bring all actors to the newest moment that all of them know: its version and position."""
        who = " and ".join(self.pool.watch.named(rank) for rank in lost) or "an actor"
        if self.setup.on_lost == "end":
            self.failure = EngineFailedError(
                f"{who} was lost; start again, with --resume if there is a checkpoint, or let the run "
                "wait for another one with --on-lost wait"
            )
            raise self.failure
        self.pool.watch.say(
            f"{who} was lost; Ray starts another one, and all go back to the last copy"
        )
        return self._begin_again()

    def _begin_again(self) -> tuple[int, Position | None]:
        self.pool.wait_for(range(self.workers))
        return self._begin()

    def _begin(self) -> tuple[int, Position | None]:
        self._epoch += 1
        handles = self.actors
        begun = self._call_all(lambda a: a.begin.remote(self.pool.job, self._epoch, handles))
        self.version = begun[0][0]
        self.shown = min(self.shown, self.version)
        found: tuple[int, Position | None] = begun[0]
        return found


def _graver(first: BaseException | None, second: BaseException) -> BaseException:
    """Of two errors the one that is not only a consequence."""
    if isinstance(first, ActorsLostError) and isinstance(second, ActorsLostError):
        return ActorsLostError(sorted({*first.ranks, *second.ranks}))
    return second if first is None or isinstance(first, ActorsLostError) else first
