"""Finding a Ray cluster, or starting one on this machine for as long as a run takes."""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

from ddol.engines.errors import EngineError, EngineFailedError
from ddol.engines.news import tell
from ddol.streams.over.parallel import usable_cores

_STORE = 200 << 20
"""Bytes of the local cluster's object store: messages and blocks pass through it, nothing stays."""


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
        Whether a running cluster is joined. A cluster that ``ray start`` started expects a token, which is
        read from the user's home.
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
    """Errors of calling an actor that has ended, or of reading an object of a node that is gone."""
    errors = ray.exceptions
    return (
        errors.RayActorError, errors.WorkerCrashedError, errors.NodeDiedError, errors.ObjectLostError,
    )  # fmt: skip


class Cluster:
    """A cluster that this process is connected to; one that it has started ends with it.

    Parameters
    ----------
    address : str or None
        Of a running cluster, "auto" for the one of this machine; None for that in ``RAY_ADDRESS``, and if it
        is not set a local one is started. A process that is connected already stays connected.
    workers : int or None
        Number of actors; None for one per core.
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
        """Cores of all nodes, with those that joined later."""
        return int(self.ray.cluster_resources().get("CPU", 0))

    def close(self) -> None:
        """Leave the cluster, and end it where this process has started it."""
        if self.started and self.ray.is_initialized():
            self.ray.shutdown()
        if self._orphans is not None:
            self._orphans.close()
        self.started = False


def join(ray: Any, address: str) -> str:
    """Connect this process to a running cluster, and return its address.

    Raises
    ------
    EngineError
        No cluster answers there.
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
    """Start a local cluster, with a second try: Ray allows its processes half a minute."""
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
    """Refuse a server that does not speak HTTP/2, as all of Ray but its dashboard does."""
    head.sendall(_HELLO)
    found = head.recv(9)
    if found[3:4] != _SETTINGS:
        raise OSError("something else listens there; the head's port is 6379 as a rule")


def _found_here() -> str:
    """The cluster of this machine, as far as Ray knows; it may have ended since."""
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


_WATCHER = """
import os, signal, sys
try:
    sys.stdin.read()
except KeyboardInterrupt:
    sys.stdin.read()
for pid in map(int, sys.argv[1:]):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            if b"ray" in file.read():
                os.kill(pid, signal.SIGKILL)
    except OSError:
        pass
"""


class Orphans:
    """A process that outlives this one, and ends what a local cluster leaves behind if this one is killed.

    Ray's servers end with the process that started them, but the agents that they start wait for a minute to
    reach a server that has ended. Nothing is done where the system has no ``/proc``.
    """

    def __init__(self) -> None:
        agents = _grandchildren() if sys.platform == "linux" else []
        self._watcher: subprocess.Popen[bytes] | None = None
        if agents:
            command = [sys.executable, "-S", "-c", _WATCHER, *map(str, agents)]
            self._watcher = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True
            )

    def close(self) -> None:
        """End the watcher, and agents that are left."""
        if self._watcher is not None and self._watcher.stdin is not None:
            self._watcher.stdin.close()
            self._watcher.wait()
            self._watcher = None


def _grandchildren() -> list[int]:
    """Processes that this process's children have started."""
    import psutil  # which Ray brings

    own = psutil.Process()
    return [each.pid for each in own.children(recursive=True) if each.ppid() != own.pid]
