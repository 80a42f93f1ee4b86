"""Compressed files, recognised by their first bytes rather than by their names."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, cast

from ddol.streams.errors import DataError
from ddol.streams.store.files import open_bytes

ENDINGS = (".gz", ".bz2", ".xz", ".zst")
_MOST_BYTES = 10
_SUSPECT = (b"\x1f", b"\xfd", b"\x28", b"B")
"""First bytes of compressed files: a pipe that is typed into is recognised by its first byte."""
_BZ2_BLOCK, _BZ2_END = bytes.fromhex("314159265359"), bytes.fromhex("177245385090")


def compression_of(beginning: bytes) -> str | None:
    """Compression of a file that begins with these bytes, named by its usual ending.

    Examples
    --------
    >>> import gzip
    >>> compression_of(gzip.compress(b"1 1:1")), compression_of(b"BZh1 is a word")
    ('.gz', None)
    """
    if beginning.startswith(b"\x1f\x8b"):
        return ".gz"
    if beginning.startswith(b"\xfd7zXZ\0"):
        return ".xz"
    if beginning.startswith(b"\x28\xb5\x2f\xfd"):
        return ".zst"
    if beginning.startswith(b"BZh") and beginning[4:10] in (_BZ2_BLOCK, _BZ2_END):
        return ".bz2"
    return None


def recognised(path: str, stored: BinaryIO) -> tuple[str | None, BinaryIO]:
    """Compression of an open file, and the file from its beginning.

    A name that promises another one is an error: the file was damaged, or never compressed.
    """
    beginning = more = stored.read(1)
    while more and beginning[:1] in _SUSPECT and len(beginning) < _MOST_BYTES:
        more = stored.read(_MOST_BYTES - len(beginning))
        beginning += more
    if stored.seekable():
        stored.seek(0)
    else:
        stored = cast(BinaryIO, _Resumed(beginning, stored))
    found = compression_of(beginning)
    promised = next((ending for ending in ENDINGS if path.endswith(ending)), None)
    if promised is not None and found != promised:
        what = f"the beginning of a {found} file" if found else "other bytes at its beginning"
        raise DataError(
            f"{path}: found {what}, expected data compressed as {promised}; the file is damaged "
            "or has the wrong name, fetch or rename it"
        )
    return found, stored


def is_compressed(path: str) -> bool:
    """Whether a file that can be read again is compressed."""
    with open_bytes(path) as stored:
        return recognised(path, stored)[0] is not None


def decompressed(path: str, stored: BinaryIO, compression: str | None) -> BinaryIO:
    """The text behind an open file."""
    return stored if compression is None else _READERS[compression](path, stored)


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Turn the errors of damaged files into `DataError`, which names the file."""
    try:
        yield
    except EOFError:
        raise DataError(
            f"{path}: compressed data end before their end marker, the file is truncated; "
            "fetch or write it again"
        ) from None
    except Exception as error:
        if not isinstance(error, OSError) and type(error).__module__ not in _UNPACKERS:
            raise
        raise DataError(f"{path}: cannot be read ({error}); check the file") from error


_UNPACKERS = ("zlib", "_lzma")
"""Modules with errors of their own, imported only when a compressed file is read."""


def _gzip(path: str, stored: BinaryIO) -> BinaryIO:
    import gzip

    return cast(BinaryIO, gzip.GzipFile(fileobj=stored, mode="rb"))


def _bz2(path: str, stored: BinaryIO) -> BinaryIO:
    import bz2

    return cast(BinaryIO, bz2.BZ2File(stored, mode="rb"))


def _xz(path: str, stored: BinaryIO) -> BinaryIO:
    import lzma

    return cast(BinaryIO, lzma.LZMAFile(stored))


def _zstd(path: str, stored: BinaryIO) -> BinaryIO:
    return cast(BinaryIO, io.BufferedReader(_ZstdReader(path, stored)))


_READERS: dict[str, Callable[[str, BinaryIO], BinaryIO]] = {
    ".gz": _gzip,
    ".bz2": _bz2,
    ".xz": _xz,
    ".zst": _zstd,
}


class _Resumed(io.RawIOBase):
    """A pipe of which the beginning was read already."""

    def __init__(self, beginning: bytes, rest: BinaryIO) -> None:
        self._beginning, self._rest = beginning, rest

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._rest.fileno()

    def readinto(self, buffer: Any) -> int:
        if not self._beginning:
            return cast(Any, self._rest).readinto(buffer)
        count = min(len(buffer), len(self._beginning))
        buffer[:count] = self._beginning[:count]
        self._beginning = self._beginning[count:]
        return count


class _ZstdReader(io.RawIOBase):
    """Zstandard frames as a file; unlike the package's own reader it notices truncation."""

    _FEED = 16 << 10

    def __init__(self, path: str, stored: BinaryIO) -> None:
        try:
            import zstandard
        except ImportError:
            raise DataError(
                f"{path}: reading .zst needs the zstandard package; pip install ddol[zstd]"
            ) from None
        self._frame = zstandard.ZstdDecompressor().decompressobj
        self._error = zstandard.ZstdError
        self._stored = stored
        self._decompressor: Any = None
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            data = self._stored.read(self._FEED)
            if not data:
                if self._decompressor is not None:
                    raise EOFError
                return 0
            self._ready = memoryview(self._decompress(data))
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count

    def _decompress(self, data: bytes) -> bytes:
        pieces = []
        while data:
            self._decompressor = self._decompressor or self._frame()
            try:
                pieces.append(self._decompressor.decompress(data))
            except self._error as error:
                raise OSError(f"invalid zstd data, {error}") from None
            data = self._decompressor.unused_data if self._decompressor.eof else b""
            if self._decompressor.eof:
                self._decompressor = None
        return b"".join(pieces)
