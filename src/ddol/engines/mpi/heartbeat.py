"""UDP heartbeat between MPI ranks: which are alive, and which others wait for. MPI reports neither.

Every rank tells all others twice a second how many common calls it has begun. A rank that waits for long then
knows for which one: one that is behind, or one of which nothing is heard any more because it was stopped, its
host is gone, or the network is cut.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import secrets
import signal
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ddol.compiled import entry, nap
from ddol.engines.news import tell

PERIOD = 0.5
"""Seconds between two heartbeats."""

SILENT = 2.5
"""Seconds without a heartbeat after which a process counts as silent."""

_FIRST, _LONGEST = 1.0, 5.0
_PATIENCE = 4.0
"""Deadlines that a silent process has."""

_NAP = 0.02
_TOKEN = 16
_FORMAT = struct.Struct("<iq")
_SIOCGIFADDR = 0x8915  # of Linux's sockios.h


class Address(NamedTuple):
    """Where a process receives heartbeats: its host's name and addresses, and a port."""

    host: str
    ips: tuple[str, ...]
    port: int


@dataclass
class Peer:
    """Another process: its address, its last heartbeat, and the calls it has begun."""

    rank: int
    address: Address
    heard: float | None = None
    begun: int = 0

    def silent_for(self, now: float) -> float:
        """Seconds since its last heartbeat; 0 as long as there was none, as a firewall may be between."""
        return 0.0 if self.heard is None else now - self.heard


class Heartbeat(threading.Thread):
    """Sends and receives heartbeats while the main thread works, and reports ranks that it waits for.

    Parameters
    ----------
    rank : int
    on_lost : "end", "wait" or "without"
        Whether to give up on a process that is silent for long: `give_up` is called if it is "end".
    give_up : function of one line
    """

    def __init__(self, rank: int, on_lost: str, give_up: Callable[[str], None]) -> None:
        super().__init__(daemon=True, name="heartbeat")
        self.rank, self.on_lost, self.give_up = rank, on_lost, give_up
        self.peers: dict[int, Peer] = {}
        self.longest = 0.0
        self._calls, self._entered = 0, 0.0
        self._kernel = np.zeros(1, np.int64)
        self._token = b""
        self._told = 0.0
        self._waiting = threading.get_ident()
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("", 0))

    @property
    def address(self) -> Address:
        """Where this process receives heartbeats."""
        return Address(socket.gethostname(), _ips(), self._socket.getsockname()[1])

    def begin(self, addresses: Sequence[Address], token: bytes) -> None:
        """Exchange heartbeats from now on; ``token`` is known to this job only."""
        self._token = token
        found = {rank: Peer(rank, address) for rank, address in enumerate(addresses)}
        del found[self.rank]
        self.peers = found
        _install_nap()
        self.start()

    def keep(self, ranks: set[int]) -> None:
        """Forget ranks that are lost."""
        self.peers = {rank: peer for rank, peer in self.peers.items() if rank in ranks}

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """A call that all processes make together; it may be a part of another one."""
        whole, self._entered = self._entered, time.monotonic()
        self._calls += 1
        try:
            yield
        finally:
            self._ended(self._entered)
            self._entered = whole

    def follow(self, calls: NDArray[np.int64]) -> None:
        """Look at the calls of a kernel: a number that is odd in a call, and even else."""
        self._calls += self._kernel_calls
        self._kernel = calls

    @property
    def _kernel_calls(self) -> int:
        return (int(self._kernel[0]) + 1) // 2

    def _ended(self, began: float) -> None:
        if not self._told:  # a wait that was reported is not a usual one
            self.longest = max(self.longest, time.monotonic() - began)
        self._told = 0.0

    @property
    def deadline(self) -> float:
        """Seconds after which a wait is unusual: more than ever before, a few at most."""
        return min(max(_FIRST, 8.0 * self.longest), _LONGEST)

    def run(self) -> None:
        """Send, receive and watch until the process ends."""
        sent, call, began = 0.0, 0, 0.0
        while True:
            now = time.monotonic()
            if now - sent >= PERIOD:
                self._send()
                sent = now
            if int(self._kernel[0]) != call:
                self._ended(began or now)
                call = int(self._kernel[0])
                began = now if call % 2 else 0.0
            waits = self._entered or began
            spins = bool(waits) and now - waits > _FIRST
            self._receive(1.1 * _NAP if spins else PERIOD)
            if spins:
                # The main thread looks for messages again and again, which takes a core.
                with contextlib.suppress(ProcessLookupError):
                    signal.pthread_kill(self._waiting, _SIGNAL)
            waits = self._entered or began  # it may have ended meanwhile
            if waits:
                self._watch(time.monotonic(), waits)

    def _send(self) -> None:
        begun = self._calls + self._kernel_calls
        heartbeat = self._token + _FORMAT.pack(self.rank, begun)
        for peer in list(self.peers.values()):
            for ip in peer.address.ips:
                with contextlib.suppress(OSError):  # no way there, for now
                    self._socket.sendto(heartbeat, (ip, peer.address.port))

    def _receive(self, seconds: float) -> None:
        self._socket.settimeout(seconds)
        try:
            while True:
                found = self._socket.recv(64)
                if len(found) == _TOKEN + _FORMAT.size and found.startswith(self._token):
                    rank, begun = _FORMAT.unpack(found[_TOKEN:])
                    if rank in self.peers:
                        peer = self.peers[rank]
                        peer.heard, peer.begun = time.monotonic(), begun
                self._socket.settimeout(0.0)
        except (TimeoutError, BlockingIOError):
            return

    def _watch(self, now: float, since: float) -> None:
        """Report the ranks that this one waits for, again after twice as long, and give up at last."""
        waited = now - since
        if waited < max(self.deadline, 2.0 * self._told):
            return
        silent = [p for p in self.peers.values() if p.silent_for(now) > SILENT]
        begun = self._calls + self._kernel_calls
        behind = silent or [p for p in self.peers.values() if p.begun < begun]
        alive = [p.rank for p in self.peers.values() if p not in behind]
        first = not any(rank < self.rank for rank in alive)
        if behind and first:
            how = "of which nothing is heard" if silent else "which is alive and busy"
            tell(f"waiting for {_named(behind)}, {how}, since {waited:.0f} s")
        self._told = waited
        patience = _PATIENCE * self.deadline
        gone = [p for p in silent if min(p.silent_for(now), waited) > patience]
        if gone and self.on_lost == "end":
            reason = f"nothing was heard of {_named(gone)} for {gone[0].silent_for(now):.0f} s"
            self.give_up(reason if first else "")


def _named(peers: Sequence[Peer]) -> str:
    shown = [f"rank {p.rank} on {p.address.host}" for p in peers[:4]]
    return " and ".join(shown) + (f" and {len(peers) - 4} more" if len(peers) > 4 else "")


def new_token() -> bytes:
    """A random mark by which a job knows its own heartbeats."""
    return secrets.token_bytes(_TOKEN)


def _ips() -> tuple[str, ...]:
    """IPv4 addresses of this host; 127.0.0.1 comes last, for jobs on one host."""
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):  # no address
                asked = struct.pack("256s", name.encode()[:15])
                answer = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, asked)
                found.append(socket.inet_ntoa(answer[20:24]))
    return tuple(sorted(set(found) | {"127.0.0.1"}, key=lambda ip: ip.startswith("127.")))


_SIGNAL = signal.SIGRTMIN + 7


@entry("void(int64)")
def _nap(number):  # type: ignore[no-untyped-def]
    nap(20_000)


def _install_nap() -> None:
    """Install a signal handler, in C, that lets the thread which gets the signal sleep for a moment."""
    libc = ctypes.CDLL(None)
    libc.signal.argtypes, libc.signal.restype = [ctypes.c_int, ctypes.c_void_p], ctypes.c_void_p
    libc.signal(int(_SIGNAL), _nap.address)
