"""A network of slow and lossy lines between network namespaces of this machine; needs root and TUN devices.

Packets of the kernel's own TCP are carried by a thread, which delays and drops them: what a queue of
`tc netem` does where the kernel has one.
"""

from __future__ import annotations

import ctypes
import fcntl
import heapq
import os
import random
import select
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

_SET_NAME, _PLAIN_PACKETS = 0x400454CA, 0x0001 | 0x1000
_NEW_NETWORK = 0x40000000


class WideArea:
    """Namespaces, each with a host of the address 10.77.0.k.

    Parameters
    ----------
    names : of hosts
    delay : float
        Seconds a packet takes.
    loss : float
        Share of packets that are lost.
    """

    def __init__(self, names: Sequence[str], delay: float, loss: float, seed: int = 0) -> None:
        self.delay, self.loss = delay, loss
        self.cut: set[str] = set()
        """Hosts that no packet reaches or leaves."""
        self.lost = self.carried = 0
        self.address = {name: f"10.77.0.{k}" for k, name in enumerate(names, 1)}
        self._space = {name: f"ddol-{os.getpid()}-{name}" for name in names}
        self._device: dict[str, int] = {}
        self._random, self._ended = random.Random(seed), threading.Event()
        try:
            for k, name in enumerate(names):
                self._device[name] = self._host(name, f"ddt{os.getpid()}-{k}"[-15:])
        except BaseException:
            self._remove()
            raise
        self._thread = threading.Thread(target=self._carry, daemon=True)
        self._thread.start()

    def _host(self, name: str, device: str) -> int:
        space = self._space[name]
        place = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(place, _SET_NAME, struct.pack("16sH", device.encode(), _PLAIN_PACKETS))
        for words in (
            f"netns add {space}",
            f"link set {device} netns {space}",
            f"-n {space} link set lo up",
            f"-n {space} addr add {self.address[name]}/24 dev {device}",
            f"-n {space} link set {device} up",
        ):
            subprocess.run(["ip", *words.split()], check=True, capture_output=True)
        return place

    def command(self, name: str, words: Sequence[str]) -> list[str]:
        """A command as a host runs it."""
        return ["ip", "netns", "exec", self._space[name], *words]

    def run(self, name: str, work: Callable[[], None]) -> threading.Thread:
        """A thread of this process whose sockets are a host's."""

        def inside() -> None:
            with Path("/run/netns", self._space[name]).open() as space:
                if ctypes.CDLL(None, use_errno=True).setns(space.fileno(), _NEW_NETWORK):
                    raise OSError(ctypes.get_errno(), "cannot enter a network namespace")
            work()

        thread = threading.Thread(target=inside)
        thread.start()
        return thread

    def _carry(self) -> None:
        """Packets from device to device, each after its delay."""
        names = {place: name for name, place in self._device.items()}
        place_of = {bytes(map(int, a.split("."))): self._device[n] for n, a in self.address.items()}
        waiting: list[tuple[float, int, int, bytes]] = []
        while not self._ended.is_set():
            now = time.monotonic()
            pause = min(waiting[0][0] - now, 0.05) if waiting else 0.05
            for place in select.select(list(names), [], [], max(pause, 0.0))[0]:
                packet = os.read(place, 1 << 16)
                to = place_of.get(packet[16:20])
                if to is None or packet[0] >> 4 != 4:
                    continue
                self.carried += 1
                if self.cut & {names[place], names[to]} or self._random.random() < self.loss:
                    self.lost += 1
                    continue
                due = time.monotonic() + self.delay
                heapq.heappush(waiting, (due, self.carried, to, packet))
            while waiting and waiting[0][0] <= time.monotonic():
                _, _, to, packet = heapq.heappop(waiting)
                try:
                    os.write(to, packet)
                except OSError:
                    self.lost += 1

    def _remove(self) -> None:
        for place in self._device.values():
            os.close(place)
        for space in self._space.values():
            subprocess.run(["ip", "netns", "del", space], capture_output=True, check=False)

    def close(self) -> None:
        """Remove the hosts."""
        self._ended.set()
        self._thread.join()
        self._remove()
