"""The actors of a job as the driver has them: started, looked after, and ended."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from ddol.engines.errors import EngineError, RankLostError
from ddol.engines.ray.cluster import Cluster, lost_errors
from ddol.engines.ray.host import HostJob, actor_class, modules_in_use
from ddol.engines.ray.watch import Watch
from ddol.engines.state import State
from ddol.engines.workers.partition import split
from ddol.engines.workers.shares import part_of
from ddol.version import __version__

LOOK = 0.25
"""Seconds between two looks at the actors."""

NAMESPACE = "ddol"
"""Of the first actor's name, by which others find a job."""


class ActorsLostError(Exception):
    """Some actors do not answer any more; without ranks, somebody who was asked has lost one."""

    def __init__(self, ranks: Sequence[int] = ()) -> None:
        super().__init__()
        self.ranks = list(ranks)


class Crew:
    """As many actors as are wished for, or one a core of the cluster.

    Parameters
    ----------
    job : HostJob
        What all actors are told.
    state : State or None
        Of all agents, where they know something already: every actor gets its own part.
    """

    def __init__(self, job: HostJob, state: State | None = None) -> None:
        began, setup = time.perf_counter(), job.setup
        self.n_agents, self._on_lost = job.algorithm.n_agents, setup.on_lost
        self.cluster = Cluster(setup.address, setup.workers)
        self.ray = self.cluster.ray
        self.cluster_seconds = time.perf_counter() - began
        self.name = f"ddol-{secrets.token_hex(3)}"
        self.actors: list[Any] = []
        self.newcomers: list[tuple[Any, Any]] = []
        self._nodes: dict[int, str] = {}
        self._kind = actor_class(self.ray)
        try:
            self.resize(min(setup.workers or self.cluster.cores, self.n_agents))
            parts = [] if state is None else [part_of(state, *share) for share in self.shares]
            known = tuple(self.ray.put(part) for part in parts)
            self.job = self.ray.put(replace(job, parts=known))
        except BaseException:
            self.close()
            raise
        self.actors_seconds = time.perf_counter() - began - self.cluster_seconds

    @property
    def size(self) -> int:
        """Number of actors."""
        return len(self.actors)

    @property
    def address(self) -> str:
        """The job as others find it: its name, and that of the cluster."""
        return f"{self.name}@{self.ray.get_runtime_context().gcs_address}"

    def hire(self, workers: int) -> None:
        """Start actors beyond those there are; they are newcomers until they are taken on."""
        for rank in range(self.size + len(self.newcomers), workers):
            named = {"name": self.name, "namespace": NAMESPACE} if rank == 0 else {}
            actor = self._kind.options(**named).remote(rank, __version__, modules_in_use())
            self.newcomers.append((actor, actor.where.remote()))

    def newcomers_answer(self) -> bool:
        """Whether all newcomers are there."""
        asked = [future for _, future in self.newcomers]
        ready, _ = self.ray.wait(asked, num_returns=len(asked), timeout=0) if asked else ([], [])
        return len(ready) == len(asked) and all(map(self._node, ready))

    def send_newcomers_away(self) -> None:
        """End those who are not needed after all."""
        for actor, _ in self.newcomers:
            self.ray.kill(actor)
        self.newcomers = []

    def resize(self, workers: int) -> None:
        """Take newcomers on, or end actors, until there are so many; agents are shared out among them."""
        self.hire(workers)
        self.actors += [actor for actor, _ in self.newcomers]
        self.newcomers = []
        for actor in self.actors[workers:]:
            self.ray.kill(actor)
        del self.actors[workers:]
        self.shares = split(self.n_agents, workers)
        self.watch = Watch(self.shares)
        self.wait_for(range(workers))

    def wait_for(self, ranks: Sequence[int]) -> None:
        """Return when some actors answer, and say for whom it waits if that takes long.

        Raises
        ------
        EngineError
            One of them will never answer.
        """
        missing, since = list(ranks), time.monotonic()
        while missing:
            asked = {self.actors[rank].where.remote(): rank for rank in missing}
            ready, _ = self.ray.wait(list(asked), num_returns=len(asked), timeout=1.0)
            for each in ready:
                node = self._node(each)
                if node is not None:
                    self._nodes[asked[each]] = node
                    missing.remove(asked[each])
            if missing:
                self.watch.waits_for_start(missing, time.monotonic() - since)
                time.sleep(LOOK if ready else 0.0)

    def _node(self, future: Any) -> str | None:
        """The node of an actor that is there; None where it may be started again."""
        try:
            node, _ = self.ray.get(future)
        except self.ray.exceptions.RayTaskError as error:
            raise _not_started(str(error)) from error
        except self.lost as error:
            if getattr(error, "_actor_init_failed", False):
                raise _not_started(str(error)) from error
            return None
        return str(node)

    @cached_property
    def lost(self) -> tuple[type[Exception], ...]:
        """What calls of an actor that is no more raise."""
        return lost_errors(self.ray)

    def asked(self, method: str, *arguments: Any, ranks: Sequence[int] | None = None) -> list[Any]:
        """What actors answer to a question, all of them or some; see `answer`."""
        chosen = range(self.size) if ranks is None else ranks
        asked = [(getattr(self.actors[rank], method).remote(*arguments), rank) for rank in chosen]
        return [self.answer(future, rank) for future, rank in asked]

    def answer(self, future: Any, rank: int) -> Any:
        """What an actor has answered.

        Raises
        ------
        ActorsLostError
            It is lost, or has lost another one.
        Exception
            It is well, and its work was not.
        """
        try:
            return self.ray.get(future)
        except self.ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, (RankLostError, *self.lost)):
                raise ActorsLostError from None
            raise error.cause from None
        except self.lost:
            raise ActorsLostError([rank]) from None

    def give_up(self, silent: Sequence[int]) -> None:
        """End actors that do not answer any more, as ``--on-lost`` wishes: then they are lost like others."""
        for rank in silent if self._on_lost != "wait" else ():
            self.watch.say(f"{self.watch.named(rank)} does not answer, and is taken for lost")
            self.ray.kill(self.actors[rank], no_restart=False)

    def say_start(self, seconds: float) -> None:
        """Say how long it took before anybody learned: the rest of a run's time is learning."""
        own = f"{self.cluster_seconds:.1f} s for the cluster, " if self.cluster.started else ""
        self.watch.say(
            f"Ray took {own}{self.actors_seconds:.1f} s for {self.size} actors, {seconds:.1f} s to the "
            "first example"
        )

    def close(self) -> None:
        """End the actors, and the cluster if it is ours."""
        self.send_newcomers_away()
        for actor in self.actors:
            self.ray.kill(actor)
        self.actors = []
        self.cluster.close()


def _not_started(text: str) -> EngineError:
    """One line about an actor whose start failed, from the many that Ray has to say.

    Examples
    --------
    >>> _not_started("…\\nModuleNotFoundError: No module named 'ddol'")
    EngineError("an actor has no ddol (No module named 'ddol'); install ddol 0.1.0 on every node ...
    """
    lines = [re.sub(r"\x1b\[\d+m", "", line).strip() for line in text.splitlines()]
    last = next((line for line in reversed(lines) if line), "no message")
    kind, _, reason = last.partition(": ")
    if kind.endswith("ModuleNotFoundError") or kind.endswith("ImportError"):
        return EngineError(
            f"an actor has no ddol ({reason}); install ddol {__version__} on every node of the "
            "cluster, in the environment in which Ray was started"
        )
    return EngineError(f"an actor could not be started: {reason or last}")
