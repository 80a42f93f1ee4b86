"""Files at addresses such as ``s3://bucket/key``, through fsspec."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, cast

from ddol.streams.errors import DataError


def open_remote(path: str) -> BinaryIO:
    """Open an address for reading."""
    with _naming(path):
        files, key = _store(path)
        return cast(BinaryIO, files.open(key, "rb"))


def read_remote(path: str, first: int, last: int) -> bytes:
    """Bytes `first` to `last` (exclusive), in one request."""
    with _naming(path):
        files, key = _store(path)
        return bytes(files.cat_file(key, start=first, end=last))


def remote_size(path: str) -> int | None:
    """Bytes that are there; None where the store does not tell."""
    with _naming(path):
        files, key = _store(path)
        details = files.info(key)
    if details.get("type") == "directory":
        raise DataError(f"{path}: found a directory, expected a file; name the files in it")
    return cast("int | None", details.get("size"))


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


def _store(path: str) -> tuple[Any, str]:
    try:
        import fsspec
    except ImportError:
        raise DataError(
            f"{path}: reading addresses needs the package fsspec; pip install ddol[cloud]"
        ) from None
    try:
        return fsspec.core.url_to_fs(path)
    except ImportError as error:
        raise DataError(f"{path}: {error}; pip install what it names, or ddol[cloud]") from None
    except ValueError as error:
        raise DataError(f"{path}: {error}; check the beginning of the address") from None


@contextmanager
def _naming(path: str) -> Iterator[None]:
    """Name the address in what goes wrong: stores have errors of many kinds."""
    try:
        yield
    except DataError:
        raise
    except FileNotFoundError:
        raise DataError(f"{path}: nothing is there; check the address") from None
    except PermissionError as error:
        raise DataError(f"{path}: no permission to read it ({error}); log in") from None
    except Exception as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise DataError(f"{path}: cannot be read ({reason}); check address and login") from error
