"""A folder that only its owner can have written to: code from elsewhere must never run.

It is held by a descriptor. It, every folder above it and every file in it are looked at through
descriptors, so that nothing can be exchanged between the look and the use.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

_POSIX = os.open in os.supports_dir_fd and hasattr(os, "getuid")
_NOT_THROUGH_LINKS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_NO_WAITING = getattr(os, "O_NONBLOCK", 0)  # a pipe in the place of a file would never open
_UNFINISHED = ".part"
_ABANDONED = 3600.0
"""Seconds after which an unfinished file counts as abandoned."""

_LONGEST_WAIT = 120.0
"""Seconds after which a process that locked a name counts as stopped."""


class UnsafeFolderError(Exception):
    """Another user could have written there."""


class Folder:
    """An own folder, made where it is missing.

    Parameters
    ----------
    path : Path

    Raises
    ------
    OSError
        It cannot be made or opened.
    UnsafeFolderError
        It, or a folder above it, belongs to another user or can be written to by one.
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(os.path.realpath(path))
        if not _POSIX:
            self.path.mkdir(parents=True, exist_ok=True)
            self._handle: int | None = None
            return
        handle = os.open(self.path.anchor, os.O_RDONLY | os.O_DIRECTORY)
        try:
            for part in self.path.parts[1:]:
                _check(handle, self.path)
                below = _entered(handle, part)
                os.close(handle)
                handle = below
            _check(handle, self.path)
        except BaseException:
            os.close(handle)
            raise
        self._handle = handle

    def __del__(self) -> None:
        handle = getattr(self, "_handle", None)
        if handle is not None:
            with contextlib.suppress(OSError):
                os.close(handle)

    def _place(self, name: str) -> str:
        return name if self._handle is not None else str(self.path / name)

    def holds(self, name: str) -> bool:
        """Whether there is a file of this name."""
        try:
            os.stat(self._place(name), dir_fd=self._handle, follow_symlinks=False)
        except OSError:
            return False
        return True

    def read(self, name: str) -> bytes | None:
        """The content of a file; None if there is none, or if it is another user's."""
        try:
            flags = os.O_RDONLY | _NOT_THROUGH_LINKS | _NO_WAITING
            handle = os.open(self._place(name), flags, dir_fd=self._handle)
        except OSError:
            return None
        with os.fdopen(handle, "rb") as file:
            facts = os.fstat(handle)
            if not stat.S_ISREG(facts.st_mode) or (_POSIX and _others_write(facts)):
                return None
            return file.read()

    def write(self, name: str, data: bytes) -> None:
        """Write a file whole or not at all."""
        beside = f"{name}.{os.getpid()}{_UNFINISHED}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _NOT_THROUGH_LINKS
        handle = os.open(self._place(beside), flags, 0o600, dir_fd=self._handle)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            os.replace(
                self._place(beside),
                self._place(name),
                src_dir_fd=self._handle,
                dst_dir_fd=self._handle,
            )
        except BaseException:
            self.remove(beside)
            raise

    @contextlib.contextmanager
    def alone(self, name: str) -> Iterator[None]:
        """Wait until no other process does what this name says, but not for ever."""
        lock = f"{name}.lock"
        with contextlib.ExitStack() as stack:
            with contextlib.suppress(OSError, ImportError):
                flags = os.O_RDWR | os.O_CREAT | _NOT_THROUGH_LINKS
                handle = os.open(self._place(lock), flags, 0o600, dir_fd=self._handle)
                stack.callback(os.close, handle)
                end = time.monotonic() + _LONGEST_WAIT
                while not _locked(handle) and time.monotonic() < end:
                    time.sleep(0.02)
                stack.callback(self.remove, lock)
            yield

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        with contextlib.suppress(OSError):
            os.unlink(self._place(name), dir_fd=self._handle)

    def names(self) -> list[str]:
        """Files, the oldest first; those that a killed process has left unfinished are removed."""
        found = []
        for name, age in self._ages():
            if not name.endswith(_UNFINISHED):
                found.append((age, name))
            elif age < time.time() - _ABANDONED:
                self.remove(name)
        return [name for _, name in sorted(found)]

    def _ages(self) -> Iterator[tuple[str, float]]:
        for name in os.listdir(self._handle or self.path):  # noqa: PTH208, a descriptor
            with contextlib.suppress(OSError):  # another process removes files, too
                yield name, os.stat(self._place(name), dir_fd=self._handle).st_mtime


def _locked(handle: int) -> bool:
    """Whether a file has become ours alone."""
    import fcntl  # not on every system

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _entered(above: int, name: str) -> int:
    """Descriptor of a folder in another one, made if it is missing."""
    flags = os.O_RDONLY | os.O_DIRECTORY | _NOT_THROUGH_LINKS
    try:
        return os.open(name, flags, dir_fd=above)
    except FileNotFoundError:
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, mode=0o700, dir_fd=above)
        return os.open(name, flags, dir_fd=above)


def _check(handle: int, path: Path) -> None:
    """Refuse a folder in which another user could rename things."""
    facts = os.fstat(handle)
    # In a sticky folder, such as /tmp, no user can rename what belongs to others.
    if _others_write(facts) and not (facts.st_mode & stat.S_ISVTX and _trusted(facts)):
        raise UnsafeFolderError(
            f"other users can write to {path} or to a folder above it; make them your own "
            "(chmod go-w), or set DDOL_CACHE_DIR to a folder of your own"
        )


def _others_write(facts: os.stat_result) -> bool:
    return not _trusted(facts) or bool(facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH))


def _trusted(facts: os.stat_result) -> bool:
    return facts.st_uid in (0, os.getuid())
