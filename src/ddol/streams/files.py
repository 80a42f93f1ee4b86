"""Text files in chunks of whole lines: plain, compressed, or standard input."""

from __future__ import annotations

import bz2
import gzip
import io
import os
import sys
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from ddol.streams.background import prefetch
from ddol.streams.errors import DataError
from ddol.streams.libsvm_kernel import count_bounds

STDIN = "-"
COMPRESSED = (".gz", ".bz2", ".zst")
_LONGEST_LINE = 256 << 20
_NEWLINE = 10


@dataclass(frozen=True, slots=True)
class Chunk:
    """Whole lines of a file.

    Parameters
    ----------
    text
        The bytes, always ending with a newline.
    offset
        Place of the first byte in the (uncompressed) file.
    end
        Place after the last byte.
    raw
        Bytes of the file as it is on disk that had been read when the chunk was complete.
    lines, colons
        Numbers of lines and of colons.
    """

    text: NDArray[np.uint8]
    offset: int
    end: int
    raw: int
    lines: int
    colons: int


def read_chunks(path: str, offset: int, chunk_bytes: int) -> Iterator[Chunk]:
    """Yield the lines of a file from byte `offset` on, about `chunk_bytes` at a time.

    Where a chunk ends depends on its offset alone. Compressed files are read ahead in a
    background thread, so that decompression overlaps with what is done with the chunks.

    Parameters
    ----------
    path
        File name; ``-`` is standard input.
    offset
        Place in the uncompressed text.
    chunk_bytes
        Size of a chunk; a longer line makes a larger one.
    """
    chunks = _chunks(path, offset, chunk_bytes)
    return prefetch(chunks) if path.endswith(COMPRESSED) else chunks


@dataclass(frozen=True, slots=True)
class Place:
    """Where a chunk begins: the file, its number among the files, and the line from 1."""

    path: str
    number: int
    line: int

    def after(self, chunk: Chunk) -> dict[str, int]:
        """Return the position right after `chunk`, as far as bytes and lines go."""
        line = self.line + chunk.lines
        return {"file": self.number, "offset": chunk.end, "line": line, "raw": chunk.raw}


BEGINNING = {"file": 0, "offset": 0, "line": 1, "row": 0, "skipped": 0, "raw": 0}
"""Position of a text stream before its first byte; `raw` only serves to show progress."""


def walk(
    paths: Sequence[str], position: dict[str, int], chunk_bytes: int
) -> Iterator[tuple[Chunk, Place]]:
    """Yield the chunks of one file after the other from `position` on, and their places."""
    for number in range(position["file"], len(paths)):
        here = position if number == position["file"] else BEGINNING
        line = here["line"]
        for chunk in read_chunks(paths[number], here["offset"], chunk_bytes):
            place = Place(paths[number], number, line)
            yield chunk, place
            line += chunk.lines


def progress_in(paths: Sequence[str], position: dict[str, int] | None) -> tuple[int, int] | None:
    """Bytes read and in total, as the files are stored; None where a size is unknown."""
    sizes = [_size_on_disk(path) for path in paths]
    known = [size for size in sizes if size is not None]
    if len(known) < len(sizes):
        return None
    at = position or BEGINNING
    return min(sum(known[: at["file"]]) + at["raw"], sum(known)), sum(known)


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
    """Raise `DataError` if there is no such file, or nothing in it."""
    if path == STDIN:
        return
    place = Path(path)
    if place.is_dir():
        raise DataError(f"{path}: found a directory, expected a file; name the files in it")
    if not place.exists():
        raise DataError(f"{path}: no such file; check the name")
    if place.is_file() and place.stat().st_size == 0:
        raise DataError(f"{path}: found an empty file, expected examples; check how it was made")
    if not os.access(path, os.R_OK):
        raise DataError(f"{path}: no permission to read it; change its mode or owner")


def _size_on_disk(path: str) -> int | None:
    if path == STDIN or not Path(path).is_file():
        return None
    return Path(path).stat().st_size


def _chunks(path: str, offset: int, chunk_bytes: int) -> Iterator[Chunk]:
    check_readable(path)
    try:
        stored: BinaryIO = sys.stdin.buffer if path == STDIN else open(path, "rb")  # noqa: SIM115, PTH123
        try:
            text = _decompressed(path, stored)
            _skip(path, text, offset)
            yield from _whole_lines(path, text, stored, offset, chunk_bytes)
        finally:
            if path != STDIN:
                stored.close()
    except EOFError:
        raise DataError(
            f"{path}: compressed data end before their end marker, the file is truncated; "
            "fetch or write it again"
        ) from None
    except (OSError, zlib.error) as error:
        raise DataError(f"{path}: cannot be read ({error}); check the file") from error


def _whole_lines(
    path: str, text: BinaryIO, stored: BinaryIO, offset: int, chunk_bytes: int
) -> Iterator[Chunk]:
    rest = np.empty(0, dtype=np.uint8)
    ended = False
    while not ended:
        buffer = np.empty(max(chunk_bytes, 2 * len(rest)) + 1, dtype=np.uint8)
        filled = len(rest)
        buffer[:filled] = rest
        filled, ended = _fill(text, buffer, filled)
        if ended and filled and buffer[filled - 1] != _NEWLINE:
            buffer[filled] = _NEWLINE
            yield _chunk(buffer[: filled + 1], offset, offset + filled, stored)
            return
        cut = _after_last_newline(buffer[:filled])
        rest = buffer[cut:filled]
        if cut:
            yield _chunk(buffer[:cut], offset, offset + cut, stored)
        elif len(rest) > _LONGEST_LINE:
            raise DataError(
                f"{path}: found a line of more than {_LONGEST_LINE >> 20} MB at byte {offset}, "
                "expected lines of text; check that this is a text file"
            )
        offset += cut


def _fill(text: BinaryIO, buffer: NDArray[np.uint8], filled: int) -> tuple[int, bool]:
    """Fill all but the last byte of `buffer`; bytes filled, and whether the file has ended."""
    view = buffer.data[: len(buffer) - 1]
    while filled < len(view):
        count = cast(Any, text).readinto(view[filled:])
        if not count:
            return filled, True
        filled += count
    return filled, False


def _after_last_newline(text: NDArray[np.uint8]) -> int:
    # Lines are short beside a chunk: look in growing tails.
    tail = 4096
    while True:
        first = max(0, len(text) - tail)
        found = np.flatnonzero(text[first:] == _NEWLINE)
        if len(found):
            return first + int(found[-1]) + 1
        if first == 0:
            return 0
        tail *= 8


def _chunk(text: NDArray[np.uint8], offset: int, end: int, stored: BinaryIO) -> Chunk:
    raw = stored.tell() if stored.seekable() else end
    return Chunk(text, offset, end, raw, *count_bounds(text))


def _skip(path: str, text: BinaryIO, offset: int) -> None:
    if not offset:
        return
    if path == STDIN:
        raise DataError("standard input cannot be read again from the middle; give a file")
    if path.endswith(COMPRESSED):
        left = offset
        while left:
            found = len(text.read(min(left, 1 << 20)))
            if not found:
                break
            left -= found
    else:
        left = max(0, offset - text.seek(0, io.SEEK_END))
        text.seek(offset)
    if left:
        raise DataError(
            f"{path}: ends before byte {offset}, where reading should go on; "
            "it has changed since that position was saved, start anew"
        )


def _decompressed(path: str, stored: BinaryIO) -> BinaryIO:
    if path.endswith(".gz"):
        return cast(BinaryIO, gzip.GzipFile(fileobj=stored, mode="rb"))
    if path.endswith(".bz2"):
        return cast(BinaryIO, bz2.BZ2File(stored, mode="rb"))
    if path.endswith(".zst"):
        return cast(BinaryIO, io.BufferedReader(_ZstdReader(path, stored)))
    return stored


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
