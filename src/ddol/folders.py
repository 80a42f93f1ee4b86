"""Folders that a run keeps its files in: on a disk, or at an address such as ``s3://bucket/run``."""

from __future__ import annotations

import contextlib
import fcntl
import os
import platform
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

from ddol.storage import on_disk
from ddol.streams.errors import DataError
from ddol.streams.store import remote

_LOCK = ".lock"
_RENEWED = 10.0
"""Seconds between two heartbeats in a store, which has no locks."""

_EXPIRED = 3 * _RENEWED
"""Without a heartbeat for this many seconds the holder of a folder is taken for dead."""


class KeepingPlace(Protocol):
    """Files by name, in one place."""

    def file(self, name: str) -> Path | str:
        """Where a file is, or will be."""

    def names(self) -> list[str]:
        """Names of the files that are there; none where there is no folder."""

    def make(self) -> None:
        """Make the folder, if it is not there."""

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""

    def rename(self, name: str, to: str) -> None:
        """Give a file another name; one of that name is written over."""

    def locked(self) -> AbstractContextManager[None]:
        """Keep the folder for one run; another one is refused until this one ends."""


def folder_at(place: str | Path) -> KeepingPlace:
    """The folder of a name or an address.

    Examples
    --------
    >>> folder_at("s3://bucket/run").file("a"), folder_at("file:///runs").file("a")
    ('s3://bucket/run/a', PosixPath('/runs/a'))
    """
    path = on_disk(place)
    return StoreFolder(str(place)) if path is None else DiskFolder(path)


class DiskFolder:
    """A folder on a disk."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def file(self, name: str) -> Path:
        """Where a file is, or will be."""
        return self.path / name

    def names(self) -> list[str]:
        """Names of what is there."""
        return [each.name for each in self.path.iterdir()] if self.path.is_dir() else []

    def make(self) -> None:
        """Make the folder, and those above it."""
        self.path.mkdir(parents=True, exist_ok=True)

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        self.file(name).unlink(missing_ok=True)

    def rename(self, name: str, to: str) -> None:
        """Give a file another name."""
        self.file(name).replace(self.file(to))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold a lock of the system's, which ends with the process, however that ends."""
        with self.file(_LOCK).open("a+", encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                raise _taken(self.path, file.read(100).strip()) from None
            except OSError:  # a file system without locks
                yield
                return
            file.truncate(0)
            with contextlib.suppress(OSError):  # a full disk: the name is for a message alone
                os.write(file.fileno(), _me().encode())
            yield


class StoreFolder:
    """A folder in a store, which has no locks: its holder writes heartbeats instead."""

    def __init__(self, address: str) -> None:
        self.address = address.rstrip("/")

    def file(self, name: str) -> str:
        """Where a file is, or will be."""
        return f"{self.address}/{name}"

    def names(self) -> list[str]:
        """Names of the files that are there."""
        return remote.names_in(self.address)

    def make(self) -> None:
        """Nothing: a store has no empty folders."""

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        remote.remove_remote(self.file(name))

    def rename(self, name: str, to: str) -> None:
        """Give a file another name."""
        remote.rename_remote(self.file(name), self.file(to))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder by heartbeats; a holder without one for half a minute is taken for dead.

        No clocks are compared: a process that finds a heartbeat waits for the next one.
        """
        self._wait_for_silence()
        token, ended = secrets.token_hex(4), threading.Event()
        place = self.file(_LOCK)
        remote.put_text(place, f"{_me()}\n{token} 0")

        def renew() -> None:
            count = 0
            while not ended.wait(_RENEWED):
                count += 1
                with contextlib.suppress(DataError):  # the next one may arrive
                    remote.put_text(place, f"{_me()}\n{token} {count}")

        if token not in (remote.read_text(place) or ""):  # another one came at the same time
            raise _taken(self.address, (remote.read_text(place) or "").partition("\n")[0])
        thread = threading.Thread(target=renew, name="ddol-lock", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
            remote.remove_remote(place)

    def _wait_for_silence(self) -> None:
        """Return when no process holds the folder.

        Raises
        ------
        DataError
            A process holds it.
        """
        found = remote.read_text(self.file(_LOCK))
        since = time.monotonic()
        while found is not None and not _ended_here(found):
            if time.monotonic() - since > _EXPIRED:
                return
            time.sleep(_RENEWED / 10)
            now = remote.read_text(self.file(_LOCK))
            if now is not None and now != found:
                raise _taken(self.address, now.partition("\n")[0])
            found = now


def _me() -> str:
    return f"process {os.getpid()} on {platform.node()}"


def _ended_here(sign: str) -> bool:
    """Whether a sign is of a process of this machine that is no more."""
    words = sign.partition("\n")[0].split()
    if len(words) != 4 or words[3] != platform.node() or not words[1].isdigit():
        return False
    try:
        os.kill(int(words[1]), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return False


def _taken(folder: Path | str, who: str) -> DataError:
    return DataError(
        f"{folder}: {who or 'another process'} is writing its checkpoints there; wait for its end or use "
        "another folder"
    )
