"""Text in chunks of whole lines, which may be read and parsed in any order.

A file that can be read anywhere is cut at multiples of the chunk's size: a chunk has the lines that begin
between two of them, so that each can be read without the ones before it. Pipes and compressed files are
read from front to back.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, BinaryIO, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from ddol.streams.errors import DataError
from ddol.streams.store.compression import decompressed, is_compressed, reading, recognised
from ddol.streams.store.files import (
    CHUNK_BYTES,
    STDIN,
    check_readable,
    describe_paths,
    open_bytes,
    read_into,
    read_once,
    read_range,
    size_of,
)

_LEAST_CHUNK = 64 << 10
_MOST_CHUNKS = 4  # together, at the size of one
_LONGEST_LINE = 256 << 20
_TAIL = 4096
_NEWLINE, _RETURN = 10, 13
_MARK = b"\xef\xbb\xbf"
_MOMENT = 0.01  # seconds
MARGIN = 8
"""Bytes behind a text that may be read, whatever they are: parsers look at eight at a time."""
Bytes: TypeAlias = NDArray[np.uint8]


@dataclass(frozen=True)
class Chunk:
    """Whole lines of a file.

    Parameters
    ----------
    text
        The bytes, always ending with a newline, and `MARGIN` more behind it; empty where no line begins.
    path, file
        Name of the file, and its number among the files.
    offset, end
        Place of the first byte in the (uncompressed) file, and after the last.
    raw
        Bytes of the file as it is stored that had been read when the chunk was complete.
    line
        Number of the first line, from 1; None where it must be counted, for a message.
    """

    text: Bytes
    path: str
    file: int
    offset: int
    end: int
    raw: int
    line: int | None = None

    def place(self, at: int) -> str:
        """Say where byte `at` is, as file:line:column, both from 1."""
        before = self.text[:at] == _NEWLINE
        line = self.first_line() + int(np.count_nonzero(before))
        newlines = np.flatnonzero(before[-(1 << 20) :])
        start = max(0, at - (1 << 20)) + int(newlines[-1]) + 1 if len(newlines) else 0
        return f"{describe_paths([self.path])}:{line}:{at - start + 1}"

    def without_text(self) -> Chunk:
        """The chunk without its bytes, to be kept after they are released."""
        return replace(self, text=np.empty(0, dtype=np.uint8))

    def first_line(self) -> int:
        """Number of the first line."""
        if self.line is not None:
            return self.line
        before = range(0, self.offset, CHUNK_BYTES)
        return 1 + sum(
            read_range(self.path, lo, min(lo + CHUNK_BYTES, self.offset)).count(b"\n")
            for lo in before
        )


Load: TypeAlias = Callable[[], Chunk]
"""Reads a chunk, in any thread."""

BEGINNING = {"file": 0, "offset": 0, "row": 0, "skipped": 0, "raw": 0}
"""Position of a text stream before its first byte; `raw` only serves to show progress."""


def advanced(position: dict[str, int], chunk: Chunk, rows: int, bad: int = 0) -> dict[str, int]:
    """The position after `chunk`, in which so many rows and bad lines were found."""
    return {
        "file": chunk.file,
        "offset": chunk.end,
        "row": position["row"] + rows,
        "skipped": position["skipped"] + bad,
        "raw": chunk.raw,
    }


def cut(
    paths: Sequence[str],
    position: dict[str, int],
    chunk_bytes: int,
    part: tuple[int, int] | None = None,
) -> Iterator[tuple[int, Load]]:
    """Yield the number of a file and what reads a chunk of it, one after the other.

    Parameters
    ----------
    paths
        File names; ``-`` is standard input.
    position
        Where to begin; a line must begin there.
    chunk_bytes
        Size of a chunk; a longer line makes a larger one.
    part
        Bytes of all files together between which lines must begin.
    """
    before = 0
    for number, path in enumerate(paths):
        size = size_of(path) if part is not None else None
        low, high = 0, None
        if part is not None:
            if size is None:
                raise not_divisible(path)
            low, high = max(0, part[0] - before), part[1] - before
            before += size
            if high <= 0 or low >= size:
                continue
        if number >= position["file"]:
            start = position["offset"] if number == position["file"] else 0
            loads = _cut_file(path, number, max(start, low), start >= low, high, chunk_bytes)
            for load in loads:
                yield number, load


def byte_range(paths: Sequence[str], number: int, parts: int) -> tuple[int, int]:
    """Bytes of all files together that belong to one of several about equal parts."""
    total = 0
    for path in paths:
        size = None if read_once(path) else size_of(path)
        if size is None:
            raise not_divisible(path)
        total += size
    return total * number // parts, total * (number + 1) // parts


def share_of_chunks(chunk_bytes: int, n_streams: int) -> int:
    """Text that one of several streams reads at a time: all are read together, within one memory.

    Examples
    --------
    >>> share_of_chunks(4 << 20, 2) >> 10, share_of_chunks(4 << 20, 1000) >> 10
    (4096, 64)
    """
    return min(chunk_bytes, max(_LEAST_CHUNK, _MOST_CHUNKS * chunk_bytes // n_streams))


def not_divisible(path: str) -> DataError:
    """Error for a file that cannot be read from its middle."""
    return DataError(
        f"{describe_paths([path])}: found a pipe or compressed text, expected a file that can be read "
        "from its middle; decompress it, or deal it round-robin"
    )


def progress_in(paths: Sequence[str], position: dict[str, int] | None) -> tuple[int, int] | None:
    """Bytes read and in total, as the files are stored; None where a size is unknown."""
    sizes = [size_of(path) for path in paths]
    known = [size for size in sizes if size is not None]
    if len(known) < len(sizes):
        return None
    at = position or BEGINNING
    return min(sum(known[: at["file"]]) + at["raw"], sum(known)), sum(known)


def count_lines(text: Bytes) -> int:
    """Number of newlines, counted by vectors: twice as fast as a loop that LLVM vectorises."""
    return int(np.count_nonzero(text == _NEWLINE))


def _cut_file(
    path: str, number: int, start: int, at_line: bool, high: int | None, chunk_bytes: int
) -> Iterator[Load]:
    check_readable(path)
    with reading(path):
        if not read_once(path) and not is_compressed(path):
            # Nothing stays open between two chunks: there may be more files than may be open.
            yield from _ranges(path, number, start, at_line, high, chunk_bytes)
            return
        stored = open_bytes(path)
        try:
            compression, text = recognised(path, stored)
            if high is not None:
                raise not_divisible(path)
            text = decompressed(path, text, compression)
            line = 1 + _skip(path, text, start)
            more = _waiting(stored) if read_once(path) else None
            for chunk in _in_sequence(path, number, text, start, chunk_bytes, more):
                raw = stored.tell() if stored.seekable() else chunk.end
                chunk = replace(chunk, line=line, raw=raw)
                line += count_lines(chunk.text)
                yield partial(_given, chunk)
        finally:
            if path != STDIN:
                stored.close()


def _given(chunk: Chunk) -> Chunk:
    return chunk


# --- files that can be read anywhere -------------------------------------------------------------


def _ranges(
    path: str, number: int, start: int, at_line: bool, high: int | None, chunk_bytes: int
) -> Iterator[Load]:
    size = size_of(path) or 0
    if start > size:
        raise _changed(path, start)
    end = size if high is None else min(size, high)
    while start < end:
        last = min(end, (start // chunk_bytes + 1) * chunk_bytes)
        yield partial(_load, path, number, start, last, size, at_line)
        start, at_line = last, False


def _load(path: str, number: int, first: int, last: int, size: int, at_line: bool) -> Chunk:
    """Read the lines that begin from `first` on and before `last`."""
    with reading(path):
        low = first if at_line else max(0, first - 1)
        tail = _TAIL
        text = _read(path, low, min(last + tail, size))
        if low + len(text) - 1 < min(last, size):
            raise _changed(path, last)
        begin = 0 if at_line or first == 0 else _after_newline(text[:-1], 0)
        if begin is None or low + begin >= last:
            return Chunk(text[:0], path, number, last, last, last)
        end = _after_newline(text, last - 1 - low)
        while end == len(text) and low + end - 1 < size:  # the line goes on
            if end > _LONGEST_LINE:
                raise _too_long(path, low)
            tail *= 8
            text = _read(path, low, min(last + tail, size))
            end = _after_newline(text, end - 1)
        assert end is not None
        text, place = text[begin:end], min(low + end, size)
        chunk = Chunk(text, path, number, low + begin, place, min(last, size))
        return _without_mark(chunk) if first == 0 else chunk


def _read(path: str, first: int, last: int) -> Bytes:
    """Bytes of a file, and a newline that may not be there."""
    text = np.empty(last - first + 1 + MARGIN, dtype=np.uint8)
    count = read_into(path, first, text.data[: last - first])
    text[count] = _NEWLINE
    return text[: count + 1]


def padded(text: bytes) -> Bytes:
    """A text that ends with a newline, with what parsers may read behind it."""
    return np.frombuffer(text + b"\n" * MARGIN, dtype=np.uint8)[: len(text)]


def _after_newline(text: Bytes, start: int) -> int | None:
    """Place after the first newline from `start` on."""
    # Lines are short beside a chunk: look in growing pieces.
    step = _TAIL
    while start < len(text):
        found = np.flatnonzero(text[start : start + step] == _NEWLINE)
        if len(found):
            return start + int(found[0]) + 1
        start, step = start + step, 8 * step
    return None


# --- pipes and compressed files ------------------------------------------------------------------


def _in_sequence(
    path: str,
    number: int,
    text: BinaryIO,
    offset: int,
    chunk_bytes: int,
    more: Callable[[float], bool] | None,
) -> Iterator[Chunk]:
    rest = np.empty(0, dtype=np.uint8)
    ended = False
    while not ended:
        room = max(chunk_bytes, 2 * len(rest)) + 1
        buffer = np.empty(room + MARGIN, dtype=np.uint8)[:room]
        filled = len(rest)
        buffer[:filled] = rest
        filled, ended = _fill(text, buffer, filled, more)
        if ended and filled and buffer[filled - 1] != _NEWLINE:
            buffer[filled] = _NEWLINE
            chunk = Chunk(buffer[: filled + 1], path, number, offset, offset + filled, 0)
            yield chunk if offset else _without_mark(chunk)
            return
        place = _after_last_newline(buffer[:filled])
        rest = buffer[place:filled]
        if place:
            chunk = Chunk(buffer[:place], path, number, offset, offset + place, 0)
            yield chunk if offset else _without_mark(chunk)
        elif len(rest) > _LONGEST_LINE:
            raise _too_long(path, offset)
        offset += place


def _fill(
    text: BinaryIO, buffer: Bytes, filled: int, more: Callable[[float], bool] | None
) -> tuple[int, bool]:
    """Fill all but the last byte of `buffer`; bytes filled, and whether the file has ended.

    A whole line from a pipe waits a moment for more lines, however steadily they arrive.
    """
    view = buffer.data[: len(buffer) - 1]
    due: float | None = None
    source = cast(Any, text)
    # Decompressors would otherwise read until the buffer is full.
    read = source.readinto if more is None else getattr(source, "readinto1", source.readinto)
    while filled < len(view):
        count = read(view[filled:])
        if not count:
            return filled, True
        fresh = buffer[filled : filled + count]
        filled += count
        if more is None:
            continue
        if due is None and (fresh == _NEWLINE).any():
            due = time.monotonic() + _MOMENT
        if due is not None and not more(due):
            break
    return filled, False


def _waiting(text: BinaryIO) -> Callable[[float], bool] | None:
    """Function that says whether a pipe has more to read before a time; None if the pipe cannot tell."""
    try:
        number = text.fileno()
    except (AttributeError, OSError, ValueError):
        return None
    poll = select.poll()
    poll.register(number, select.POLLIN | select.POLLHUP)

    def more(due: float) -> bool:
        left = due - time.monotonic()
        return left > 0.0 and bool(poll.poll(left * 1000.0))

    return more


def _after_last_newline(text: Bytes) -> int:
    tail = _TAIL
    while True:
        first = max(0, len(text) - tail)
        found = np.flatnonzero(text[first:] == _NEWLINE)
        if len(found):
            return first + int(found[-1]) + 1
        if first == 0:
            return 0
        tail *= 8


def _skip(path: str, text: BinaryIO, offset: int) -> int:
    """Read past `offset` bytes; the lines in them."""
    if offset and read_once(path):
        raise DataError(f"{describe_paths([path])} cannot be read from its middle; give a file")
    left, lines = offset, 0
    while left:
        found = text.read(min(left, 1 << 20))
        if not found:
            raise _changed(path, offset)
        lines += found.count(b"\n")
        left -= len(found)
    return lines


# --- what can be wrong ---------------------------------------------------------------------------


def without_strange(chunk: Chunk) -> tuple[Chunk, list[str]]:
    """A chunk with blanks in the place of lines that are no UTF-8, and where each of them is.

    Read as if they were, different words would become the same.
    """
    if not len(chunk.text) or chunk.text.max() < 128:
        return chunk, []
    data = chunk.text.tobytes()
    if _strange_byte(data) is None:
        return chunk, []
    lines, found, start = data.split(b"\n"), [], 0
    for number, line in enumerate(lines):
        if (at := _strange_byte(line)) is not None:
            found.append(f"{chunk.place(start + at)}: {not_utf8(line[at])}")
            lines[number] = b" " * len(line)
        start += len(line) + 1
    return replace(chunk, text=padded(b"\n".join(lines))), found


def not_utf8(byte: int) -> str:
    """Error for a byte that is no text."""
    return (
        f"found the byte {byte:#x}, expected UTF-8; convert the file with iconv -f LATIN1 -t UTF-8, or "
        "whatever it is in"
    )


def _strange_byte(line: bytes) -> int | None:
    try:
        line.decode()
    except UnicodeDecodeError as error:
        return error.start
    return None


def _without_mark(chunk: Chunk) -> Chunk:
    """The first chunk of a file, without the byte-order mark that some programs begin theirs with."""
    beginning = chunk.text[:3].tobytes()
    if beginning[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise DataError(
            f"{describe_paths([chunk.path])}: found text in UTF-16, expected UTF-8; "
            "convert it with iconv -f UTF-16 -t UTF-8"
        )
    if count_lines(chunk.text) == 1 and np.count_nonzero(chunk.text == _RETURN) > 1:
        raise DataError(
            f"{describe_paths([chunk.path])}: found lines that end with a carriage return alone, expected "
            "a line feed; convert them with tr '\\r' '\\n'"
        )
    return replace(chunk, text=chunk.text[3:]) if beginning == _MARK else chunk


def _changed(path: str, offset: int) -> DataError:
    return DataError(
        f"{path}: ends before byte {offset}, where reading should go on; "
        "it has changed since that position was saved, start anew"
    )


def _too_long(path: str, offset: int) -> DataError:
    return DataError(
        f"{describe_paths([path])}: found a line of more than {_LONGEST_LINE >> 20} MB at byte "
        f"{offset}, expected lines of text; check that this is a text file"
    )
