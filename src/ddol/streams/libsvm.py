"""LIBSVM text, ``label index:value ...``, read in chunks by a compiled byte parser."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ddol.streams import libsvm_kernel as kernel
from ddol.streams.errors import DataError
from ddol.streams.files import (
    BEGINNING,
    STDIN,
    Chunk,
    Place,
    describe_paths,
    progress_in,
    walk,
)
from ddol.streams.libsvm_messages import BadLines, describe_error, place_of
from ddol.streams.rows import Rows, concatenate
from ddol.streams.stream import Position
from ddol.streams.summary import MOST_LABELS, Summary, scan_by_reading

_LEAST_PART = 64 << 10
_MOST_INDEX = 1 << 31


@dataclass(frozen=True)
class LibsvmStream:
    """A stream over one or more files of LIBSVM text, read one after the other.

    Numbers are correctly rounded, explicit zeros are kept, ``qid:`` and comments are left
    out, and labels are given as they stand. Memory is bounded by a few chunks.

    Parameters
    ----------
    paths
        File names, plain or ending in ``.gz``, ``.bz2`` or ``.zst``; ``-`` is standard input.
    index_base
        Index of the first feature, 1 or 0.
    n_features
        Number of columns when it is known; larger indices are then an error.
    n_examples
        Number of rows when it is known.
    on_bad_line
        ``"error"`` raises `DataError` at the first bad line; ``"skip"`` leaves such lines
        out and counts them in `bad_lines`.
    threads
        Threads that parse a chunk together; the rows are the same for any number.
    keep
        ``(first, last, n_agents)``: only rows of agents `first` to `last` (exclusive) under
        round-robin dealing are needed, so that the text of the others is passed over. They
        stay as empty rows labelled NaN, which keeps blocks and positions as they are without `keep`.
    chunk_bytes
        Text that is read at a time.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "two.libsvm")
    >>> _ = path.write_text("+1 1:0.5 3:2 # comment\\n-1 2:25e-2\\n")
    >>> [(rows, position)] = LibsvmStream((str(path),)).read()
    >>> rows.y, rows.data, rows.indices
    (array([ 1., -1.]), array([0.5 , 2.  , 0.25]), array([0, 2, 1], dtype=uint32))
    """

    paths: tuple[str, ...]
    index_base: int = 1
    n_features: int | None = None
    n_examples: int | None = None
    on_bad_line: Literal["error", "skip"] = "error"
    threads: int = 1
    keep: tuple[int, int, int] | None = None
    chunk_bytes: int = 2 << 20
    bad_lines: BadLines = field(default_factory=BadLines, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.index_base not in (0, 1):
            raise DataError(f"`index_base` must be 0 or 1, found {self.index_base}")
        if self.on_bad_line not in ("error", "skip"):
            raise DataError(f"`on_bad_line` must be error or skip, found {self.on_bad_line!r}")

    @property
    def restartable(self) -> bool:
        """Whether the text can be read again; standard input cannot."""
        return STDIN not in self.paths

    def read(
        self, position: Position | None = None, pass_number: int = 0
    ) -> Iterator[tuple[Rows, Position]]:
        """Yield the rows of one chunk after the other, and where the next begins."""
        if not self.restartable and (position or pass_number):
            raise DataError("standard input cannot be read twice; give a file instead")
        at = position or BEGINNING
        row, skipped = at["row"], at["skipped"]
        self.bad_lines.count = skipped
        for chunk, place in walk(self.paths, at, self.chunk_bytes):
            parsed = self._parse(chunk, place, row)
            row += len(parsed.rows)
            skipped += parsed.n_bad
            if len(parsed.rows):
                yield parsed.rows, {**place.after(chunk), "row": row, "skipped": skipped}
        if not row:
            raise self._found_nothing(skipped)

    def scan(self) -> Summary:
        """Count rows and columns and collect the labels in one fast pass.

        The lines are trusted: only their labels and last indices are looked at. Where bad
        lines are to be skipped, all is read to find out which they are.
        """
        if self.on_bad_line == "skip":
            return scan_by_reading(self)
        labels = np.empty(MOST_LABELS)
        n_rows, largest, n_labels = 0, -1, 0
        for chunk, place in walk(self.paths, BEGINNING, self.chunk_bytes):
            rows, index, n_labels, bad = kernel.scan_lines(chunk.text, labels, n_labels)
            if bad >= 0:
                raise DataError(self._message(chunk, place, bad, kernel.BAD_LABEL))
            n_rows += rows
            largest = max(largest, index)
        if not n_rows:
            raise self._found_nothing(0)
        return Summary(
            n_examples=n_rows,
            n_features=self.n_features or max(0, largest - self.index_base + 1),
            labels=tuple(np.sort(labels[:n_labels]).tolist()) if n_labels <= MOST_LABELS else None,
        )

    def describe(self) -> str:
        """Name of the file, or of the first and how many more."""
        return describe_paths(self.paths)

    def progress(self, position: Position | None) -> tuple[int, int] | None:
        """Bytes read and in total, as the files are stored."""
        return progress_in(self.paths, position)

    def locate(self, position: Position | None, row: int) -> str:
        """File, line and column where row `row` of the block after `position` begins."""
        if not self.restartable:
            return f"{self.describe()}: row {(position or BEGINNING)['row'] + row + 1}"
        at = position or BEGINNING
        for chunk, place in walk(self.paths, at, self.chunk_bytes):
            parsed = self._parse(chunk, place, at["row"])
            if len(parsed.rows):
                return place_of(place.path, chunk.text, int(parsed.starts[row]), place.line)
        return self.describe()

    @property
    def _limit(self) -> int:
        return _MOST_INDEX if self.n_features is None else self.n_features

    def _parse(self, chunk: Chunk, place: Place, row: int) -> _Parsed:
        # Which lines are rows is known only after reading them when bad ones are skipped, so
        # `keep` can save nothing there.
        skip = self.on_bad_line == "skip"
        keep = (0, 0, 0) if skip or self.keep is None else self.keep
        rules = (self.index_base, self._limit, skip)
        threads = 1 if keep[2] else self.threads
        parsed = parse_text(chunk, rules, row, keep, threads)
        if parsed.n_bad:
            messages = [self._message(chunk, place, at, kind) for at, kind in parsed.bad]
            if not skip:
                raise DataError(messages[0])
            self.bad_lines.add(parsed.n_bad, messages)
        if self.n_features is not None:
            parsed = replace(parsed, rows=parsed.rows.widen(self.n_features))
        return parsed

    def _message(self, chunk: Chunk, place: Place, at: int, kind: int) -> str:
        where = place_of(place.path, chunk.text, at, place.line)
        return f"{where}: {describe_error(chunk.text, at, kind, self.index_base, self._limit)}"

    def _found_nothing(self, skipped: int) -> DataError:
        found = f"{skipped} bad lines" if skipped else "only comments and blank lines"
        return DataError(
            f"{self.describe()}: found {found}, expected lines 'label index:value ...'; "
            "check the format of the file"
        )


@dataclass(frozen=True, slots=True)
class _Parsed:
    """Rows of some text, where each begins in it, and the (place, kind) of bad lines."""

    rows: Rows
    starts: NDArray[np.int64]
    n_bad: int
    bad: list[tuple[int, int]]


def parse_text(
    chunk: Chunk,
    rules: tuple[int, int, bool],
    first_row: int = 0,
    keep: tuple[int, int, int] = (0, 0, 0),
    threads: int = 1,
) -> _Parsed:
    """Read lines of LIBSVM text that are in memory.

    Parameters
    ----------
    chunk
        Whole lines.
    rules
        Index of the first feature, limit of columns, and whether to go on after a bad line.
    first_row, keep
        Number of the first row, and whose rows are needed; see `LibsvmStream`.
    threads
        Number of parts that are read at the same time.
    """
    text = chunk.text
    cuts = _line_starts_near(text, threads)
    if len(cuts) == 2:
        return _parse_part(text, (chunk.lines, chunk.colons), rules, first_row, keep)
    parts = [text[lo:hi] for lo, hi in pairwise(cuts)]
    with ThreadPoolExecutor(len(parts)) as pool:
        parsed = list(
            pool.map(
                lambda part: _parse_part(part, kernel.count_bounds(part), rules, 0, keep), parts
            )
        )
    if not rules[2]:
        # What follows the first bad line counts for nothing, as with one thread.
        bad = [number for number, part in enumerate(parsed) if part.n_bad]
        parsed = parsed[: bad[0] + 1] if bad else parsed
    offsets = cuts[: len(parsed)]
    places = zip(parsed, offsets, strict=True)
    return _Parsed(
        rows=concatenate([part.rows for part in parsed]),
        starts=np.concatenate([part.starts + offset for part, offset in places]),
        n_bad=sum(part.n_bad for part in parsed),
        bad=[
            (at + offset, kind)
            for part, offset in zip(parsed, offsets, strict=True)
            for at, kind in part.bad
        ],
    )


def _line_starts_near(text: NDArray[np.uint8], parts: int) -> list[int]:
    """Where to cut `text` in about equal parts of whole lines."""
    parts = max(1, min(parts, len(text) // _LEAST_PART))
    cuts = [0]
    for number in range(1, parts):
        at = max(cuts[-1], number * len(text) // parts)
        step = int(np.argmax(text[at:] == 10)) + 1
        if at + step < len(text):
            cuts.append(at + step)
    return [*cuts, len(text)]


def _parse_part(
    text: NDArray[np.uint8],
    bounds: tuple[int, int],
    rules: tuple[int, int, bool],
    first_row: int,
    keep: tuple[int, int, int],
) -> _Parsed:
    """Read lines of which the numbers of newlines and colons are known."""
    lines, colons = bounds
    y, starts = np.empty(lines), np.empty(lines, dtype=np.int64)
    indptr = np.empty(lines + 1, dtype=np.int64)
    indices, data = np.empty(colons, dtype=np.uint32), np.empty(colons)
    slow_at, slow_slot = np.empty((2, lines + colons), dtype=np.int64)
    bad, counts = np.empty((5, 2), dtype=np.int64), np.zeros(4, dtype=np.int64)
    arrays: dict[str, NDArray[Any]] = {
        "text": text, "y": y, "starts": starts, "indptr": indptr, "indices": indices, "data": data,
        "slow_at": slow_at, "slow_slot": slow_slot, "bad": bad, "counts": counts,
    }  # fmt: skip
    mine, end_mine, n_agents = keep
    base, limit, lenient = rules
    job = kernel.Job(
        size=len(text), first_row=first_row, mine=mine, end_mine=end_mine, n_agents=n_agents,
        base=base, limit=limit, lenient=lenient, most_bad=len(bad),
        **{name: array.ctypes.data for name, array in arrays.items()},
    )  # fmt: skip
    kernel.parse(job)
    n, nnz, n_slow, n_bad = counts.tolist()
    for at, slot in zip(slow_at[:n_slow].tolist(), slow_slot[:n_slow].tolist(), strict=True):
        value = _exact(text, at)
        if slot < 0:
            y[-1 - slot] = value
        else:
            data[slot] = value
    used = indices[:nnz]
    rows = Rows(
        data=data[:nnz],
        indices=used,
        indptr=indptr[: n + 1],
        n_features=int(used.max()) + 1 if nnz else 0,
        y=y[:n],
        weight=np.empty(0),
    )
    found = [(int(at), int(kind)) for at, kind in bad[: min(n_bad, len(bad))]]
    return _Parsed(rows, starts[:n], n_bad, found)


def _exact(text: NDArray[np.uint8], at: int) -> float:
    """Value of a number whose rounding depends on more than 19 digits."""
    end = at
    while end < len(text) and chr(text[end]) in "+-.0123456789eE":
        end += 1
    return float(text[at:end].tobytes())
