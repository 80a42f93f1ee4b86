"""Another number of actors for a job that runs: who wishes for it, and when it can be."""

from __future__ import annotations

import time
from typing import Any

from ddol.engines.errors import EngineError
from ddol.engines.ray.crew import ActorsLostError, Crew

_EVERY = 2.0
"""Seconds between two looks at how many cores the cluster has."""


class Moving:
    """Hears of wishes, starts actors for them, and says when agents may move.

    A job without a wished number of actors has one a core: those of nodes that come later as well.

    Parameters
    ----------
    crew : Crew
    workers : int or None
        What the job was started with.
    """

    def __init__(self, crew: Crew, workers: int | None) -> None:
        self.crew, self._wish = crew, workers
        self._asked = False
        """Whether somebody waits for an answer."""
        self._looked, self._cores = time.monotonic(), crew.cluster.cores

    def wanted(self, some_ended: bool) -> int | None:
        """How many actors are to go on, as soon as they are there; None for no change.

        Parameters
        ----------
        some_ended : bool
            Whether agents are through with their streams: then it is too late.
        """
        self._hear()
        target = self._target()
        if target == self.crew.size:
            if self.crew.newcomers:
                self.crew.send_newcomers_away()
            if self._asked and (self._wish or 0) <= target:
                self.done()
            return None
        if some_ended:
            self._give_up("some agents are through with their streams already")
            return None
        try:
            self.crew.hire(target)
            return target if self.crew.newcomers_answer() else None
        except EngineError as error:
            self._give_up(str(error))
            return None

    def places_to_leave(self, common: bool) -> list[int] | None:
        """Rounds after which every actor leaves, the same for all if `common`; None where it cannot be.

        Nobody deals anything in between; where it cannot be, all go on as before.
        """
        try:
            promised: list[Any] = self.crew.asked("promise")
        except ActorsLostError:
            promised = [None]
        if None not in promised:
            return [max(promised)] * len(promised) if common else promised
        for actor in self.crew.actors:
            actor.leave_at.remote(None)
        return None

    def done(self) -> None:
        """Tell whoever wished for it."""
        self.crew.watch.say(f"the job goes on with {self._actors}")
        self._answer(f"{self.crew.name} has {self._actors} now")

    @property
    def _actors(self) -> str:
        return "1 actor" if self.crew.size == 1 else f"{self.crew.size} actors"

    def _hear(self) -> None:
        """Ask the first actor whether somebody has wished for something."""
        ray = self.crew.ray
        try:
            wish = ray.get(self.crew.actors[0].wished_for.remote(), timeout=1.0)
        except (ray.exceptions.RayError, TimeoutError):
            return
        if wish is None or (self._asked and wish == self._wish):
            return
        self._wish, self._asked = wish, True
        self.crew.send_newcomers_away()
        if wish > self.crew.n_agents:
            self._give_up(f"there are {self.crew.n_agents} agents, and no actor has less than one")
        elif wish > self._now_cores():
            ray.autoscaler.sdk.request_resources(num_cpus=wish)
            self._answer(
                f"the cluster has {self._cores} cores for {wish} actors; its autoscaler was asked for more, "
                "and actors are added as nodes come"
            )

    def _target(self) -> int:
        """Actors that there should be, of those that there can be; nobody is sent away unasked."""
        possible = min(self._now_cores(), self.crew.n_agents)
        if self._wish is None:
            return max(possible, self.crew.size)
        return (
            self._wish
            if self._wish <= self.crew.size
            else max(self.crew.size, min(self._wish, possible))
        )

    def _now_cores(self) -> int:
        if time.monotonic() - self._looked > _EVERY:
            self._cores, self._looked = self.crew.cluster.cores_now(), time.monotonic()
        return self._cores

    def _give_up(self, reason: str) -> None:
        self.crew.send_newcomers_away()
        self._answer(f"{self.crew.name} goes on with {self._actors}: {reason}")
        self._wish = self.crew.size

    def _answer(self, text: str) -> None:
        if self._asked:
            self.crew.actors[0].answer.remote(text)
        self._asked = False
