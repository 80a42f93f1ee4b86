"""Finding a Ray cluster, or starting one on this machine for as long as a run takes."""

from __future__ import annotations

import logging
import os
import socket
from pathlib import Path
from typing import Any

from ddol.engines.errors import EngineError, EngineFailedError
from ddol.engines.news import tell
from ddol.engines.ray.orphans import Orphans
from ddol.streams.over.parallel import usable_cores

_STORE = 200 << 20
"""Bytes of the local cluster's object store: letters and blocks pass through it, nothing stays."""


_QUIET: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}

_ANSWER = 5.0
"""Seconds that a cluster's head has to answer."""

_SETTINGS = b"\x04"
"""Kind of the frame that both sides of HTTP/2 begin with, after its length."""

_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0" + _SETTINGS + b"\0" * 5


def load(joins: bool = False) -> Any:
    """Import Ray, or say what to install.

    Parameters
    ----------
    joins : bool
        A cluster that runs; those that Ray starts on a machine ask for its token, and joining them does not
        bring it by itself.
    """
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    if joins and (Path.home() / ".ray" / "auth_token").exists():
        os.environ.setdefault("RAY_AUTH_MODE", "token")
    try:
        import ray
    except ImportError as error:
        raise EngineError(f"engine 'ray' needs Ray ({error}); pip install ddol[ray]") from error
    return ray


def lost_errors(ray: Any) -> tuple[type[Exception], ...]:
    """What calls of an actor that is no more raise, or reading what it has left on a node that is gone."""
    errors = ray.exceptions
    return (
        errors.RayActorError, errors.WorkerCrashedError, errors.NodeDiedError, errors.ObjectLostError,
    )  # fmt: skip


class Cluster:
    """A cluster that this process is connected to; one that it has started ends with it.

    Parameters
    ----------
    address : str or None
        Of a cluster that runs, "auto" for the one of this machine; None is what ``RAY_ADDRESS`` says, as
        everywhere in Ray, and without that a local one is started, whatever else runs on the machine. A
        process that is connected already stays so.
    workers : int or None
        Actors that are wanted; None for one a core.
    """

    def __init__(self, address: str | None, workers: int | None) -> None:
        ray = self.ray = load(joins=meant(address) is not None)
        self.started = False
        self._orphans: Orphans | None = None
        if not ray.is_initialized():
            self._connect(meant(address), workers)
        elif address not in (None, "auto"):
            raise EngineError(
                f"found --address {address}, but this process is connected to a cluster already; "
                "call ray.shutdown() first, or leave the address out"
            )
        self.cores = self.cores_now()
        if workers is not None and workers > self.cores:
            cores = self.cores
            self.close()
            raise EngineError(
                f"found {workers} workers for a cluster with {cores} cores, expected at most "
                f"{cores}; use --workers {cores}, or add nodes"
            )

    def _connect(self, address: str | None, workers: int | None) -> None:
        if address is not None:
            tell(f"joined the Ray cluster at {join(self.ray, address)}")
            return
        cores = max(workers or 0, usable_cores())
        start(self.ray, cores)
        self.started, self._orphans = True, Orphans()
        tell(f"started a local Ray cluster with {cores} cores; it ends with the run")
        if cores > usable_cores():
            tell(
                f"found --workers {workers} on a machine with {usable_cores()} cores: they take turns"
            )

    def cores_now(self) -> int:
        """Cores of all nodes; some may have come since the beginning."""
        return int(self.ray.cluster_resources().get("CPU", 0))

    def close(self) -> None:
        """Leave the cluster, and end it where this process has started it."""
        if self.started and self.ray.is_initialized():
            self.ray.shutdown()
        if self._orphans is not None:
            self._orphans.close()
        self.started = False


def join(ray: Any, address: str) -> str:
    """Connect this process to a cluster that runs, and return where it is.

    Raises
    ------
    EngineError
        None answers there.
    """
    try:
        address = _found_here() if address == "auto" else address
        check_address(address)
        ray.init(address=address, **_QUIET)
    except EngineError:
        raise
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        raise _no_cluster(address, error) from None
    return address


def start(ray: Any, cores: int) -> None:
    """Start a cluster of this process's own, with a second try: Ray gives its processes half a minute."""
    for tries_left in (1, 0):
        try:
            own = {"include_dashboard": False, "object_store_memory": _STORE}
            ray.init(address="local", num_cpus=cores, **own, **_QUIET)
            return
        except Exception as error:  # Ray raises no other where its processes are late
            ray.shutdown()
            if not tries_left:
                raise EngineFailedError(
                    f"Ray started no cluster on this machine ({_first_line(error)}); try again when it "
                    "is less busy, or join one that runs with --address"
                ) from error


def meant(address: str | None) -> str | None:
    """The address of the cluster to join, or None for one to be started.

    Examples
    --------
    >>> meant("10.0.0.7:6379"), meant("local")
    ('10.0.0.7:6379', None)
    """
    found = address or os.environ.get("RAY_ADDRESS")
    return found if found and found != "local" else None


def check_address(address: str | None) -> None:
    """Refuse an address where no cluster listens; Ray would try for minutes.

    Examples
    --------
    >>> check_address("127.0.0.1:1")
    Traceback (most recent call last):
    ddol.engines.errors.EngineError: no Ray cluster answers at '127.0.0.1:1' ...
    """
    address = meant(address)
    if address in (None, "auto"):
        return
    host, _, port = str(address).removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        raise EngineError(
            f"found {address!r} as --address, expected auto, local, or host:port of the head"
        )
    try:
        with socket.create_connection((host, int(port)), timeout=_ANSWER) as head:
            if os.environ.get("RAY_USE_TLS") != "1":
                _greet(head)
    except (OSError, OverflowError) as error:
        raise _no_cluster(str(address), error) from None


def _greet(head: socket.socket) -> None:
    """Refuse whoever does not speak HTTP/2, as all of Ray but its dashboard does."""
    head.sendall(_HELLO)
    found = head.recv(9)
    if found[3:4] != _SETTINGS:
        raise OSError("something else listens there; the head's port is 6379 as a rule")


def _found_here() -> str:
    """The cluster of this machine, where Ray knows of one; it may have died without a word."""
    try:
        from ray._private.services import get_ray_address_from_environment as found
    except ImportError:  # no public name leads there
        return "auto"
    return str(found("auto", None))


def _no_cluster(address: str, error: BaseException) -> EngineError:
    return EngineError(
        f"no Ray cluster answers at {address!r} ({_first_line(error)}); start one with "
        "ray start --head, or use --address local for one of the run's own"
    )


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
