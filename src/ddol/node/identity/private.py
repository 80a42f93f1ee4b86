"""Files that only their owner may read: private keys, and what an authority keeps."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from ddol.streams.errors import DataError

_OTHERS = 0o077
"""Permissions of the group and of everyone else."""

_MOST = 1 << 24
"""Bytes of the largest such file."""


def private_folder(path: Path) -> Path:
    """Make a folder that only its owner can enter, or check that an existing one is such.

    Examples
    --------
    >>> import tempfile
    >>> made = private_folder(Path(tempfile.mkdtemp()) / "keys")
    >>> oct(made.stat().st_mode & 0o777)
    '0o700'
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError as error:
        raise DataError(
            f"{path}: cannot be made ({error.strerror}); choose another folder"
        ) from None
    if mode & _OTHERS:
        raise DataError(
            f"{path}: others may enter this folder (mode {mode:04o}), expected 0700; "
            f"run: chmod 700 {path}"
        )
    return path


def read_private(path: Path) -> bytes:
    """Read a file, and refuse one that others than its owner can read or change."""
    try:
        with path.open("rb") as file:
            found = os.fstat(file.fileno())
            mode = stat.S_IMODE(found.st_mode)
            if not stat.S_ISREG(found.st_mode) or found.st_size > _MOST:
                raise DataError(f"{path}: expected a file of at most {_MOST >> 20} MB")
            if mode & _OTHERS:
                raise DataError(
                    f"{path}: others may read or change this file (mode {mode:04o}), expected 0600; "
                    f"run: chmod 600 {path}, and make a new key if it may have been read"
                )
            if found.st_uid not in (os.geteuid(), 0):
                raise DataError(f"{path}: this file belongs to another user; expected your own")
            return file.read()
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None


def write_private(path: Path, data: bytes) -> None:
    """Write a file whole or not at all, readable by its owner only from the first byte on."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)
    except OSError as error:
        raise OSError(f"{path}: cannot be written ({error.strerror})") from None


@contextlib.contextmanager
def held(folder: Path) -> Iterator[None]:
    """Hold a folder's lock, so that two processes do not write to it at once."""
    handle = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
