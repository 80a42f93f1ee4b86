"""Changing the number of actors of a running job: requests by `ddol scale`, and carrying them out."""

from __future__ import annotations

import time
from typing import Any

from ddol.engines.errors import EngineError
from ddol.engines.ray.cluster import join, load
from ddol.engines.ray.pool import NAMESPACE, ActorPool, ActorsLostError

_EVERY = 2.0
"""Seconds between two checks of how many cores the cluster has."""

_POLL = 0.1
_PATIENCE = 60.0
"""Seconds that an answer may take: actors start within a few."""


def scale(job: str, workers: int) -> str:
    """Ask a running job for another number of actors, and return its answer.

    Parameters
    ----------
    job : str
        ``name@host:port``, as the job reported at its start.
    workers : int
    """
    name, _, address = job.rpartition("@")
    if not name:
        raise EngineError(
            f"found {job!r}, expected name@host:port, as the job reports at its start"
        )
    ray = load(joins=True)
    connected = ray.is_initialized()
    if not connected:
        join(ray, address)
    try:
        try:
            actor = ray.get_actor(name, namespace=NAMESPACE)
        except ValueError:
            raise EngineError(
                f"found no job {name} at {address}, expected one that runs; it may have ended"
            ) from None
        return _answer(ray, actor, name, workers)
    finally:
        if not connected:
            ray.shutdown()


def _answer(ray: Any, actor: Any, name: str, workers: int) -> str:
    began = time.monotonic()
    try:
        ray.get(actor.request_workers.remote(workers))
        while time.monotonic() - began < _PATIENCE:
            found: str | None = ray.get(actor.request_answer.remote())
            if found is not None:
                return found
            time.sleep(_POLL)
    except ray.exceptions.RayError:
        raise EngineError(f"{name} ended, or lost its first actor, before it answered") from None
    return f"{name} got the request and has not answered for {_PATIENCE:.0f} s; it goes on running"


class Scaler:
    """Decides how many actors a job should have, and starts those that are missing.

    A job that was started without a number of actors has one per core, also on nodes that join later.

    Parameters
    ----------
    pool : ActorPool
    workers : int or None
        What the job was started with.
    """

    def __init__(self, pool: ActorPool, workers: int | None) -> None:
        self.pool, self._requested = pool, workers
        self._asked = False
        """Whether a request waits for its answer."""
        self._looked, self._cores = time.monotonic(), pool.cluster.cores

    def new_size(self, some_ended: bool) -> int | None:
        """Number of actors to go on with, as soon as all of them have started; None for no change.

        Parameters
        ----------
        some_ended : bool
            Whether some agents have reached the end of their streams: then it is too late.
        """
        self._read_request()
        target = self._target()
        if target == self.pool.size:
            if self.pool.starting:
                self.pool.cancel_start()
            if self._asked and (self._requested or 0) <= target:
                self.done()
            return None
        if some_ended:
            self._refuse("some agents are through with their streams already")
            return None
        try:
            self.pool.start(target)
            return target if self.pool.all_started() else None
        except EngineError as error:
            self._refuse(str(error))
            return None

    def places_to_leave(self, common: bool) -> list[int] | None:
        """Rounds after which every actor leaves, the same for all if `common`; None where it cannot be.

        All actors pause dealing meanwhile; where they cannot leave, they go on as before.
        """
        try:
            paused: list[Any] = self.pool.asked("pause")
        except ActorsLostError:
            paused = [None]
        if None not in paused:
            return [max(paused)] * len(paused) if common else paused
        for actor in self.pool.actors:
            actor.leave_at.remote(None)
        return None

    def done(self) -> None:
        """Report the new number of actors."""
        self.pool.watch.say(f"the job goes on with {self._actors}")
        self._answer(f"{self.pool.name} has {self._actors} now")

    @property
    def _actors(self) -> str:
        return "1 actor" if self.pool.size == 1 else f"{self.pool.size} actors"

    def _read_request(self) -> None:
        """Take up a new request, which the first actor has received."""
        found = [status.requested for status in self.pool.statuses if status.rank == 0]
        requested = found[0] if found else None
        if requested is None or (self._asked and requested == self._requested):
            return
        self._requested, self._asked = requested, True
        self.pool.cancel_start()
        if requested > self.pool.n_agents:
            self._refuse(f"there are {self.pool.n_agents} agents, and no actor has less than one")
        elif requested > self._now_cores():
            self.pool.ray.autoscaler.sdk.request_resources(num_cpus=requested)
            self._answer(
                f"the cluster has {self._cores} cores for {requested} actors; its autoscaler was asked for "
                "more, and actors are added as nodes come"
            )

    def _target(self) -> int:
        """Number of actors that the job should have, as far as the cluster has cores.

        It falls only on request.
        """
        possible = min(self._now_cores(), self.pool.n_agents)
        if self._requested is None:
            return max(possible, self.pool.size)
        if self._requested <= self.pool.size:
            return self._requested
        return max(self.pool.size, min(self._requested, possible))

    def _now_cores(self) -> int:
        if time.monotonic() - self._looked > _EVERY:
            self._cores, self._looked = self.pool.cluster.cores_now(), time.monotonic()
        return self._cores

    def _refuse(self, reason: str) -> None:
        self.pool.cancel_start()
        self._answer(f"{self.pool.name} goes on with {self._actors}: {reason}")
        self._requested = self.pool.size

    def _answer(self, text: str) -> None:
        if self._asked:
            self.pool.actors[0].answer_request.remote(text)
        self._asked = False
