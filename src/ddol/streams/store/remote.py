"""Files at addresses such as ``s3://bucket/key``, through fsspec."""

from __future__ import annotations

import re
import secrets
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, cast

from ddol.streams.errors import DataError

_WHOLE = {"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "oss", "r2"}
"""Stores in which an object appears when all of it is there; elsewhere a file is written and then renamed."""

PATIENCE = 10.0
"""Seconds of waiting for a store after which a message says so."""

ANSWER = 60.0
"""Seconds in which a store has to answer for the first time; their packages try for a quarter of an hour."""

_met: set[str] = set()
"""Stores that have responded, by the beginning of their addresses."""


def open_remote(path: str) -> BinaryIO:
    """Open an address for reading."""
    with _naming(path):
        files, key = _store(in_parts(path))
        return cast(BinaryIO, files.open(key, "rb"))


def read_remote(path: str, first: int, last: int) -> bytes:
    """Bytes `first` to `last` (exclusive), in one request."""
    with _naming(path):
        files, key = _store(in_parts(path))
        return bytes(files.cat_file(key, start=first, end=last))


def remote_size(path: str) -> int | None:
    """Size in bytes; None if the store does not report it."""
    with _naming(path):
        files, key = _store(in_parts(path))
        details = files.info(key)
    if details.get("type") == "directory":
        raise DataError(f"{path}: found a directory, expected a file; name the files in it")
    return cast("int | None", details.get("size"))


@cache
def in_parts(path: str) -> str:
    """The address, or the name of a copy on disk where a server gives out files only as a whole."""
    with _naming(path):
        files, key = _store(path)
        if "http" not in _protocols(files):
            return path
        try:
            with files.open(key, "rb", block_size=1, cache_type="none") as file:
                file.seek(1)
                file.read(1)
            return path
        except ValueError:
            copy = Path(_copies().name, secrets.token_hex(8))
            files.get_file(key, str(copy))
            return str(copy)


@cache
def _copies() -> tempfile.TemporaryDirectory[str]:
    """A folder that goes with the process."""
    return tempfile.TemporaryDirectory(prefix="ddol-", ignore_cleanup_errors=True)


def matches(pattern: str) -> list[str]:
    """Addresses that match a pattern, sorted.

    Examples
    --------
    >>> matches("memory://nothing/*.csv")
    []
    """
    with _naming(pattern):
        files, key = _store(pattern)
        folders = pattern.endswith("/")
        found = files.glob(key + "/" if folders and not key.endswith("/") else key)
        names = (files.unstrip_protocol(name).rstrip("/") for name in found)
        return sorted(f"{name}/" if folders else name for name in names)


def files_below(folder: str) -> list[str]:
    """Addresses of all files in a folder and below, sorted."""
    with _naming(folder):
        files, key = _store(folder)
        return sorted(files.unstrip_protocol(name) for name in files.find(key))


def fetch_remote(path: str, to: Path) -> None:
    """Copy what is at an address to a file."""
    with _naming(path):
        files, key = _store(path)
        files.get_file(key, str(to))


def put_remote(path: str, file: Path) -> None:
    """Copy a file to an address, whose old contents stay until the new ones are whole."""
    with _naming(path, "written"):
        files, key = _store(path)
        if _protocols(files) & _WHOLE:
            files.put_file(str(file), key)
            return
        beside = f"{key}.{secrets.token_hex(8)}.tmp"
        try:
            files.put_file(str(file), beside)
            files.mv(beside, key)
        except BaseException:
            if files.exists(beside):
                files.rm_file(beside)
            raise


def put_text(path: str, text: str) -> None:
    """Write a few words to an address, in one request."""
    with _naming(path, "written"):
        files, key = _store(path)
        files.pipe_file(key, text.encode())


def read_text(path: str) -> str | None:
    """Text at an address; None if nothing is there."""
    with _naming(path):
        files, key = _store(path)
        try:
            return bytes(files.cat_file(key)).decode(errors="replace")
        except FileNotFoundError:
            return None


def remove_remote(path: str) -> None:
    """Remove a file, if it is there."""
    with _naming(path, "removed"):
        files, key = _store(path)
        try:
            files.rm_file(key)
        except FileNotFoundError:
            return


def rename_remote(path: str, to: str) -> None:
    """Give a file another address in the same store."""
    with _naming(path, "renamed"):
        files, key = _store(path)
        files.mv(key, _store(to)[1])


def names_in(folder: str) -> list[str]:
    """Names of the files in a folder, not those below it; none where there is no such folder."""
    with _naming(folder):
        files, key = _store(folder)
        files.invalidate_cache()
        try:
            found = files.ls(key, detail=True)
        except FileNotFoundError:
            return []
        return sorted(each["name"].rsplit("/", 1)[-1] for each in found if each["type"] == "file")


def _protocols(files: Any) -> set[str]:
    return {files.protocol} if isinstance(files.protocol, str) else set(files.protocol)


_TALKATIVE = ("adlfs", "aiobotocore", "azure", "botocore", "gcsfs", "google", "s3fs")
"""Packages of stores that note every failed try at length, besides raising what came of it."""


@cache
def _hush() -> None:
    """Send these notes to configured log handlers only, never to standard error by default."""
    import logging  # which fsspec has loaded, and most commands have not

    for name in _TALKATIVE:
        logging.getLogger(name).addHandler(logging.NullHandler())


def _store(path: str) -> tuple[Any, str]:
    try:
        import fsspec

        _hush()
    except ImportError:
        raise DataError(
            f"{path}: addresses need the package fsspec; pip install ddol[cloud]"
        ) from None
    try:
        files, key = fsspec.core.url_to_fs(path)
    except ImportError as error:
        raise DataError(f"{path}: {error}; pip install this store's package") from None
    except ValueError as error:
        raise DataError(f"{path}: {error}; check the beginning of the address") from None
    _meet(path, files, key)
    return files, key


def _meet(path: str, files: Any, key: str) -> None:
    """Send a store one small request, to check that it answers."""
    place = "/".join(path.split("/", 3)[:3])
    if place in _met or not files.async_impl:
        return
    from fsspec.exceptions import FSTimeoutError

    try:
        files.info(re.split(r"[*?[]", key)[0], timeout=ANSWER)
    except FSTimeoutError:
        raise DataError(
            f"{path}: {place} has not answered for {ANSWER:.0f} s; check the address, the network and the "
            "store's endpoint"
        ) from None
    except (FileNotFoundError, PermissionError, ValueError, NotImplementedError):
        pass  # the store responds; the request that follows reports what is wrong
    _met.add(place)


@contextmanager
def waiting_for(path: str) -> Iterator[None]:
    """Print at growing intervals that a store is awaited: some try for minutes to log in.

    Examples
    --------
    >>> with waiting_for("memory://a"):
    ...     pass
    """
    ended, since = threading.Event(), time.monotonic()

    def tell() -> None:
        patience = PATIENCE
        while not ended.wait(patience):
            waited = time.monotonic() - since
            print(f"ddol: waiting for {path} since {waited:.0f} s", file=sys.stderr, flush=True)
            patience = waited

    threading.Thread(target=tell, name="ddol-waits", daemon=True).start()
    try:
        yield
    finally:
        ended.set()


@contextmanager
def _naming(path: str, done: str = "read") -> Iterator[None]:
    """Name the address in what goes wrong: stores have errors of many kinds."""
    try:
        with waiting_for(path):
            yield
    except DataError:
        raise
    except FileNotFoundError as error:
        # Of web servers that refuse, or are not there, fsspec says the same; what happened comes with it.
        why = error.__cause__
        if type(why).__module__.startswith("aiohttp") and getattr(why, "status", 0) != 404:
            raise _unknown(path, done, why) from error
        raise DataError(f"{path}: nothing is there; check the address") from None
    except PermissionError as error:
        raise DataError(f"{path}: cannot be {done}, no permission ({error}); log in") from None
    except Exception as error:
        raise _unknown(path, done, error) from error


def _unknown(path: str, done: str, error: BaseException | None) -> DataError:
    reason = (str(error) or type(error).__name__).splitlines()[0]
    return DataError(f"{path}: cannot be {done} ({reason}); check address and login")
