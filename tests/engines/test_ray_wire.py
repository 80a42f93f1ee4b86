"""Letters between actors of one machine go past Ray, and by Ray wherever they cannot."""

from __future__ import annotations

import os
import queue
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest

from ddol.engines.ray.group import RayGroup
from ddol.engines.ray.host import Host
from ddol.engines.ray.wire import Wire
from ddol.version import __version__

pytestmark = pytest.mark.skipif(
    not hasattr(socket, "SO_PASSCRED"), reason="only Linux has such sockets"
)


class Calls:
    """The actors of a job, in this process, and the letters that went to each of them by Ray."""

    def __init__(self, actors: int) -> None:
        self.hosts = [Host(rank, __version__) for rank in range(actors)]
        self.by_ray = [0] * actors
        self.groups = [self.group(rank) for rank in range(actors)]

    def group(self, rank: int) -> RayGroup:
        host = self.hosts[rank]
        handles = [SimpleNamespace(post=SimpleNamespace(remote=self.to(r))) for r in range(2)]
        return RayGroup(rank, handles, host.mailbox, host.wire)

    def to(self, rank: int):
        def post(sealed: bytes) -> None:
            self.by_ray[rank] += 1
            self.hosts[rank].post(sealed)

        return post

    def gather(self, *values):
        with ThreadPoolExecutor(len(values)) as pool:
            return list(pool.map(lambda group, value: group.gather(value), self.groups, values))


def test_only_the_first_letters_go_by_ray():
    calls = Calls(2)
    for number in range(5):
        one, other = calls.gather(np.full(3, number), np.full(3, -number))
        for found in (one, other):
            np.testing.assert_array_equal(found, [[number] * 3, [-number] * 3])
    # Whoever heard from the other before its own first letter knows a door already.
    assert 1 <= sum(calls.by_ray) <= 2


@pytest.mark.parametrize("size", [1 << 15, 1 << 20], ids=["too long here", "too long anywhere"])
def test_long_letters_go_by_ray(size):
    calls = Calls(2)
    calls.gather(0, 0)
    before = sum(calls.by_ray)
    found, _ = calls.gather(np.arange(float(size)), 1)
    np.testing.assert_array_equal(found[0], np.arange(float(size)))
    assert found[1] == 1
    assert sum(calls.by_ray) == before + 1


def test_an_actor_in_the_place_of_another_is_found_by_ray():
    calls = Calls(2)
    calls.gather(0, 0)
    calls.hosts[0].mailbox.doors[1] = b"\0ddol-gone"
    calls.hosts[1] = Host(1, __version__)
    calls.groups[1] = calls.group(1)
    for group in calls.groups:
        group.begin(1)
    before = calls.by_ray[1]
    assert calls.gather("a", "b") == [["a", "b"]] * 2
    assert calls.gather("c", "d") == [["c", "d"]] * 2
    assert calls.by_ray[1] == before + 1


def test_a_door_that_is_full_does_not_stop_the_sender():
    came, opened = queue.Queue(), queue.Queue()

    def slowly(letter: memoryview) -> None:
        came.put(bytes(letter))
        opened.get()

    here, there = Wire(print), Wire(slowly)
    sent = 0
    while here.send(there.door, b"%d" % sent):
        sent += 1
    for number in range(sent):
        opened.put(None)
        assert came.get() == b"%d" % number


@pytest.mark.skipif(os.name != "posix" or os.getuid() != 0, reason="only root may be somebody else")
def test_letters_of_other_users_are_dropped():
    letters = queue.Queue()
    wire = Wire(lambda letter: letters.put(bytes(letter)))
    code = (
        "import os, socket, sys; os.setuid(65534); "
        "s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); "
        "s.sendto(b'theirs', b'\\0' + sys.argv[1].encode())"
    )
    subprocess.run([sys.executable, "-c", code, wire.door[1:].decode()], check=True)
    assert Wire(print).send(wire.door, b"ours")
    assert letters.get() == b"ours"
