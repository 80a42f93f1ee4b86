"""Asking a job that runs for another number of actors."""

from __future__ import annotations

import time
from typing import Any

from ddol.engines.errors import EngineError
from ddol.engines.ray.cluster import join, load
from ddol.engines.ray.crew import NAMESPACE

_LOOK = 0.1
_PATIENCE = 60.0
"""Seconds that an answer may take: actors start within a few."""


def scale(job: str, workers: int) -> str:
    """Ask a job for another number of actors, and return what it answers.

    Parameters
    ----------
    job : str
        ``name@host:port``, as the job has said at its start.
    workers : int
    """
    name, _, address = job.rpartition("@")
    if not name:
        raise EngineError(f"found {job!r}, expected name@host:port, as the job says at its start")
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
    since = time.monotonic()
    try:
        ray.get(actor.wish.remote(workers))
        while time.monotonic() - since < _PATIENCE:
            found: str | None = ray.get(actor.answered.remote())
            if found is not None:
                return found
            time.sleep(_LOOK)
    except ray.exceptions.RayError:
        raise EngineError(f"{name} ended, or lost its first actor, before it answered") from None
    return f"{name} has heard it and not answered for {_PATIENCE:.0f} s; it goes on meanwhile"
