"""Hosts on one machine: network namespaces with a switch between them, whose cables can be pulled."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

import pytest


class Hosts:
    """``n`` hosts, each with a number, a name and a network of its own, and a switch between them.

    Parameters
    ----------
    folder : Path
        For the few files that programs need to find them.
    n : int
    """

    def __init__(self, folder: Path, n: int = 2) -> None:
        mark = secrets.token_hex(3)
        self.folder, self.n = folder, n
        self.names = [f"ddol{mark}{k}" for k in range(n)]
        self.switch = f"ddol{mark}s"
        self.subnet = f"10.{200 + secrets.randbelow(50)}.{secrets.randbelow(250)}"
        self._cables = [f"c{mark}{k}" for k in range(n)]
        try:
            self._connect()
        except BaseException:
            self.remove()
            raise

    def _connect(self) -> None:
        _ip("netns", "add", self.switch)
        _ip("-n", self.switch, "link", "add", "bridge", "type", "bridge")
        _ip("-n", self.switch, "link", "set", "bridge", "up")
        for k, (name, cable) in enumerate(zip(self.names, self._cables, strict=True)):
            _ip("netns", "add", name)
            _ip("link", "add", cable, "netns", self.switch, "type", "veth",
                "peer", "name", "eth", "netns", name)  # fmt: skip
            _ip("-n", self.switch, "link", "set", cable, "master", "bridge", "up")
            _ip("-n", name, "addr", "add", f"{self.address(k)}/24", "dev", "eth")
            _ip("-n", name, "link", "set", "eth", "up")
            _ip("-n", name, "link", "set", "lo", "up")

    def address(self, k: int) -> str:
        """The number of a host, which is its name too."""
        return f"{self.subnet}.{k + 1}"

    def on(self, k: int, command: Sequence[str]) -> list[str]:
        """A command as it is run on a host."""
        named = f'hostname {self.address(k)} && exec "$@"'
        return ["ip", "netns", "exec", self.names[k], "unshare", "-u", "sh", "-c", named, "-",
                *command]  # fmt: skip

    def mpi(self, slots: int) -> tuple[Path, Mapping[str, str]]:
        """A host file for Open MPI, and the variables with which it finds its way."""
        agent, listed = self.folder / "agent", self.folder / "hosts"
        # As ssh does, it stays here, notices the end of a host that it can reach, and no other.
        agent.write_text(
            f"""#!/bin/sh
host=$1; shift
for k in {" ".join(map(str, range(self.n)))}; do [ "$host" = "{self.subnet}.$((k + 1))" ] && break; done
ip netns exec "{self.names[0][:-1]}$k" unshare -u sh -c "hostname $host && $*"
code=$?
while [ -e "{self.folder}/cut$k" ]; do sleep 0.2; done
exit $code
"""
        )
        agent.chmod(0o755)
        listed.write_text("".join(f"{self.address(k)} slots={slots}\n" for k in range(self.n)))
        subnet = f"{self.subnet}.0/24"
        return listed, {
            "PRTE_MCA_plm_ssh_agent": str(agent),
            "PRTE_MCA_prte_if_include": subnet,
            "OMPI_MCA_btl_tcp_if_include": subnet,
            "TMPDIR": str(self.folder),
        }

    def cut(self, k: int) -> None:
        """Pull a host's cable."""
        (self.folder / f"cut{k}").touch()
        _ip("-n", self.switch, "link", "set", self._cables[k], "down")

    def mend(self, k: int) -> None:
        """Put it back."""
        (self.folder / f"cut{k}").unlink()
        _ip("-n", self.switch, "link", "set", self._cables[k], "up")

    def processes(self, k: int) -> list[int]:
        """Numbers of the processes on a host."""
        told = subprocess.run(
            ["ip", "netns", "pids", self.names[k]], capture_output=True, text=True, check=False
        )
        return [int(pid) for pid in told.stdout.split()]

    def switch_off(self, k: int) -> None:
        """End whatever runs on a host, at once."""
        for pid in self.processes(k):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def remove(self) -> None:
        """Leave nothing behind."""
        for k in range(self.n):
            self.switch_off(k)
            (self.folder / f"cut{k}").unlink(missing_ok=True)
        for name in (*self.names, self.switch):
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


@contextmanager
def network(folder: Path, n: int = 2) -> Iterator[Hosts]:
    """Hosts for as long as they are needed."""
    made = Hosts(folder, n)
    try:
        yield made
    finally:
        made.remove()


@cache
def can_make_hosts() -> bool:
    """Whether this machine lets us: that takes root's rights and iproute2."""
    if os.name != "posix" or os.getuid() != 0 or not all(map(shutil.which, ("ip", "unshare"))):
        return False
    with suppress(subprocess.CalledProcessError), network(Path(), 2):
        return True
    return False


needs_hosts = pytest.mark.skipif(not can_make_hosts(), reason="needs root and iproute2")
