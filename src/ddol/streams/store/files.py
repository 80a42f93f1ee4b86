"""Files by name: on disk, in a store, or a pipe that can be read only once."""

from __future__ import annotations

import errno
import io
import os
import select
import stat
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO, cast

from ddol.streams.errors import DataError

STDIN = "-"
CHUNK_BYTES = 4 << 20
"""Text that is read at a time."""
_DEVICES = (stat.S_ISFIFO, stat.S_ISCHR, stat.S_ISSOCK)


def is_remote(path: str) -> bool:
    """Whether a name is an address such as ``s3://bucket/key``, which fsspec opens.

    Examples
    --------
    >>> is_remote("s3://bucket/a.csv"), is_remote("a.csv")
    (True, False)
    """
    return "://" in path


def read_once(path: str) -> bool:
    """Whether what is there can be read only once: standard input, a pipe, a device.

    Examples
    --------
    >>> read_once("-"), read_once("/dev/null"), read_once("there is no such file")
    (True, True, False)
    """
    if path == STDIN:
        return True
    if is_remote(path):
        return False
    try:
        mode = Path(path).stat().st_mode
    except OSError:
        return False
    return any(kind(mode) for kind in _DEVICES)


def describe_paths(paths: Sequence[str]) -> str:
    """Name of the file, or of the first and how many more.

    Examples
    --------
    >>> describe_paths(["a.csv", "b.csv", "c.csv"])
    'a.csv and 2 more'
    """
    first = "standard input" if paths[0] == STDIN else paths[0]
    return first if len(paths) == 1 else f"{first} and {len(paths) - 1} more"


def check_readable(path: str) -> None:
    """Raise `DataError` if a file does not exist or is empty."""
    if path == STDIN:
        return
    if is_remote(path):
        if not size_of(path):
            raise _empty(path)
        return
    place = Path(path)
    if place.is_dir():
        raise DataError(f"{path}: found a directory, expected a file; name the files in it")
    if not place.exists():
        raise DataError(f"{path}: no such file; check the name")
    if place.is_file() and place.stat().st_size == 0:
        raise _empty(path)
    if not os.access(path, os.R_OK):
        raise DataError(f"{path}: no permission to read it; change its mode or owner")


def check_first_reading(paths: Sequence[str], again: Any) -> None:
    """Refuse to go back (`again`) in what can be read only once."""
    for path in paths if again else ():
        if read_once(path):
            name = describe_paths([path])
            raise DataError(f"{name} cannot be read twice; give a file instead")


def size_of(path: str) -> int | None:
    """Bytes as they are stored; None if unknown."""
    if is_remote(path):
        from ddol.streams.store.remote import remote_size

        return remote_size(path)
    if path == STDIN or not Path(path).is_file():
        return None
    return Path(path).stat().st_size


def open_bytes(path: str) -> BinaryIO:
    """Open a file for reading, as it is stored; standard input must not be closed."""
    if path == STDIN:
        return _standard_input()
    if is_remote(path):
        from ddol.streams.store.remote import open_remote

        return open_remote(path)
    if read_once(path):
        # Opening a named pipe would wait for its writer, deaf to signals that only ask to stop.
        number = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        return cast(BinaryIO, _Pipe(number))
    return _opened(path)


def read_range(path: str, first: int, last: int) -> bytes:
    """Bytes `first` to `last` (exclusive) of a file that can be read anywhere; fewer at its end."""
    if is_remote(path):
        from ddol.streams.store.remote import read_remote

        return read_remote(path, first, last)
    with _opened(path, buffering=0) as file:
        file.seek(first)
        return file.read(last - first)


def read_into(path: str, first: int, room: memoryview) -> int:
    """Fill `room` with the bytes of a file from `first` on; how many there were."""
    if is_remote(path):
        found = read_range(path, first, first + len(room))
        room[: len(found)] = found
        return len(found)
    count = 0
    with _opened(path, buffering=0) as file:
        file.seek(first)
        while count < len(room) and (more := cast(Any, file).readinto(room[count:])):
            count += more
    return count


def _opened(path: str, buffering: int = -1) -> BinaryIO:
    """Open a file on disk, and more files than the system lets a process have at first."""
    try:
        return open(path, "rb", buffering=buffering)  # noqa: PTH123
    except OSError as error:
        if error.errno != errno.EMFILE or not _allow_more_files():
            raise
    return open(path, "rb", buffering=buffering)  # noqa: PTH123


def _allow_more_files() -> bool:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        raise DataError(
            f"found more than {soft} files to be read at the same time, expected no more than the system "
            "allows; raise it with ulimit -n, or decompress them"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return True


def _standard_input() -> BinaryIO:
    # Its buffer has a lock, which a thread that waits for input would hold when the interpreter ends.
    try:
        number = sys.stdin.fileno()
    except (AttributeError, OSError, ValueError):
        return sys.stdin.buffer
    return cast(BinaryIO, _Pipe(number, owned=False))


def _empty(path: str) -> DataError:
    return DataError(f"{path}: found an empty file, expected examples; check how it was made")


class _Pipe(io.RawIOBase):
    """Bytes of a descriptor as they come; signals are heard while it waits for them."""

    def __init__(self, number: int, owned: bool = True) -> None:
        self._number, self._owned = number, owned

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._number

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        while True:
            self._wait()
            try:
                data = os.read(self._number, len(view))
            except BlockingIOError:
                continue
            view[: len(data)] = data
            return len(data)

    def _wait(self) -> None:
        poll = select.poll()
        poll.register(self._number, select.POLLIN | select.POLLHUP | select.POLLERR)
        poll.poll()

    def close(self) -> None:
        if self._owned and not self.closed:
            os.close(self._number)
        super().close()
