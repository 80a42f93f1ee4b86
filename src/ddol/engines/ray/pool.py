"""The actors of a job, as the driver sees them: started, watched, and ended."""

from __future__ import annotations

import re
import secrets
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import Any

from ddol.engines.errors import EngineError, RankLostError
from ddol.engines.ray.cluster import Cluster, lost_errors
from ddol.engines.ray.host import Host, HostJob, Status
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
    """Some actors do not answer any more; without ranks, an actor reported that it lost another one."""

    def __init__(self, ranks: Sequence[int] = ()) -> None:
        super().__init__()
        self.ranks = list(ranks)


class ActorPool:
    """The actors of a job: as many as the setup asks for, or one per core of the cluster.

    Parameters
    ----------
    job : HostJob
        What all actors play.
    state : State or None
        Of all agents, if they do not begin from scratch: every actor gets its own part.
    """

    def __init__(self, job: HostJob, state: State | None = None) -> None:
        began, setup = time.perf_counter(), job.setup
        self.n_agents, self._on_lost = job.algorithm.n_agents, setup.on_lost
        self.cluster = Cluster(setup.address, setup.workers)
        self.ray = self.cluster.ray
        self.cluster_seconds = time.perf_counter() - began
        self.name = f"ddol-{secrets.token_hex(3)}"
        self.actors: list[Any] = []
        self.starting: list[tuple[Any, Any]] = []
        """Actors that are not used yet, each with the future of its first answer."""
        self.statuses: list[Status] = []
        """Of the actors that answered last."""
        self._told_start = False
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

    def start(self, workers: int) -> None:
        """Start actors until there are so many, with those that are starting already."""
        for rank in range(self.size + len(self.starting), workers):
            named = {"name": self.name, "namespace": NAMESPACE} if rank == 0 else {}
            actor = self._kind.options(**named).remote(rank, __version__, modules_in_use())
            self.starting.append((actor, actor.where.remote()))

    def all_started(self) -> bool:
        """Whether all actors that are starting answer."""
        asked = [future for _, future in self.starting]
        ready, _ = self.ray.wait(asked, num_returns=len(asked), timeout=0) if asked else ([], [])
        return len(ready) == len(asked) and all(map(self._node, ready))

    def cancel_start(self) -> None:
        """End the actors that are starting."""
        for actor, _ in self.starting:
            self.ray.kill(actor)
        self.starting = []

    def resize(self, workers: int) -> None:
        """Start or end actors until there are so many, and share the agents out among them."""
        self.start(workers)
        self.actors += [actor for actor, _ in self.starting]
        self.starting = []
        for actor in self.actors[workers:]:
            self.ray.kill(actor)
        del self.actors[workers:]
        self.shares = split(self.n_agents, workers)
        self.watch = Watch(self.shares)
        self.wait_for(range(workers))

    def wait_for(self, ranks: Sequence[int]) -> None:
        """Wait until some actors answer, and report which do not if that takes long.

        Raises
        ------
        EngineError
            One of them will never answer.
        """
        missing, began = list(ranks), time.monotonic()
        while missing:
            asked = {self.actors[rank].where.remote(): rank for rank in missing}
            ready, _ = self.ray.wait(list(asked), num_returns=len(asked), timeout=1.0)
            for each in ready:
                node = self._node(each)
                if node is not None:
                    self._nodes[asked[each]] = node
                    missing.remove(asked[each])
            if missing:
                self.watch.waits_for_start(missing, time.monotonic() - began)
                time.sleep(LOOK if ready else 0.0)

    def _node(self, future: Any) -> str | None:
        """The node of an actor; None where Ray may still start it again."""
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
        """Errors of calling an actor that has ended."""
        return lost_errors(self.ray)

    def asked(self, method: str, *arguments: Any, ranks: Sequence[int] | None = None) -> list[Any]:
        """Call a method of all actors, or of some, and wait for what they return; see `answer`."""
        chosen = range(self.size) if ranks is None else ranks
        asked = [(getattr(self.actors[rank], method).remote(*arguments), rank) for rank in chosen]
        return [self.answer(future, rank) for future, rank in asked]

    def answer(self, future: Any, rank: int) -> Any:
        """Wait for a call of an actor, and return its result.

        Raises
        ------
        ActorsLostError
            It is lost, or has lost another one.
        Exception
            The call itself failed.
        """
        try:
            return self.ray.get(future)
        except self.ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, (RankLostError, *self.lost)):
                raise ActorsLostError from None
            raise error.cause from None
        except self.lost:
            raise ActorsLostError([rank]) from None

    def look(self) -> list[Status]:
        """Ask every actor how far it is; those that do not answer at once are left out."""
        asked = [actor.status.remote() for actor in self.actors]
        ready, _ = self.ray.wait(asked, num_returns=len(asked), timeout=LOOK)
        self.statuses = []
        for each in ready:
            with suppress(self.ray.exceptions.RayError):
                self.statuses.append(self.ray.get(each))
        return self.statuses

    def give_up(self, silent: Sequence[int]) -> None:
        """End actors that do not answer any more, unless ``--on-lost`` is wait: then they count as lost."""
        for rank in silent if self._on_lost != "wait" else ():
            self.watch.say(f"{self.watch.named(rank)} does not answer, and is taken for lost")
            self.ray.kill(self.actors[rank], no_restart=False)

    def report_start(self, before: float = 0.0) -> None:
        """Report once how long it took until every actor had examples; the rest of a run is learning.

        Parameters
        ----------
        before : float
            Seconds until they were asked to learn.
        """
        firsts = [status.first for status in self.statuses if status.first is not None]
        if self._told_start or len(firsts) < self.size:
            return
        self._told_start = True
        own = f"{self.cluster_seconds:.1f} s for the cluster, " if self.cluster.started else ""
        self.watch.say(
            f"Ray took {own}{self.actors_seconds:.1f} s for {self.size} actors, "
            f"{before + max(firsts):.1f} s to the first example"
        )

    def close(self) -> None:
        """End the actors, and the cluster if it is ours."""
        self.cancel_start()
        for actor in self.actors:
            self.ray.kill(actor)
        self.actors = []
        self.cluster.close()


def _not_started(text: str) -> EngineError:
    """One line about an actor whose start failed, from Ray's long message.

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


def modules_in_use() -> list[str]:
    """Modules that this process has loaded to read and play: actors import them while they start.

    Examples
    --------
    >>> "ddol.streams.rows" in modules_in_use()
    True
    """
    rooms = ("ddol.streams.", "ddol.engines.", "ddol.update.")
    return [name for name in sys.modules if name == "pyarrow" or name.startswith(rooms)]


_ONE_WAY = ("post", "post_open")
"""Calls that return nothing, so that Ray keeps no result."""


def actor_class(ray: Any) -> Any:
    """`Host` as a class of actors, whose messages and questions are answered while it plays."""
    groups = {
        "mail": ("post", "post_open", "receive", "resend"),
        "watch": (
            "where",
            "status",
            "end_epoch",
            "show",
            "shown_part",
            "stop",
            "request_workers",
            "answer_request",
            "request_answer",
        ),
        "copies": ("hold", "held_copy", "pause", "leave_at"),
    }
    members = {
        name: ray.method(concurrency_group=group, num_returns=0 if name in _ONE_WAY else 1)(
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
    """The method of `Host` as a function of its own, to which Ray may add attributes."""
    method = getattr(Host, name)

    def forwarded(self: Host, *arguments: Any, **options: Any) -> Any:
        return method(self, *arguments, **options)

    forwarded.__name__ = name
    return forwarded
