"""LIBSVM text, ``label index:value ...``, read in chunks by a compiled byte parser."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddol.streams.coding.summary import MOST_LABELS, Summary, scan_by_reading
from ddol.streams.errors import DataError
from ddol.streams.formats import ReadOptions
from ddol.streams.rows import Rows
from ddol.streams.store.chunks import BEGINNING, Bytes, Chunk, Load, count_lines, cut
from ddol.streams.store.files import read_once, size_of
from ddol.streams.stream import Parsed, Piece, Position, Stream
from ddol.streams.text import libsvm_kernel as kernel
from ddol.streams.text.lines import Lines, TextStream
from ddol.streams.text.number_kernel import exact_number

_MOST_INDEX = 1 << 31
_FIRST_BYTES, _FIRST_LINES = 1 << 16, 50
_SAMPLE = 1 << 15
_FEATURE = re.compile(rb"[^:=\x00-\x1f]+=[^\x00-\x1f]+|[^=\x00-\x1f]+:[-+.0-9eE]+")
_WORD = re.compile(rb"(?!(?i:nan|inf|infinity)$)[A-Za-z_\x80-\xff][-\w\x80-\xff]*")
_NUMBER = re.compile(rb"[-+]?[0-9.]+([eE][-+]?[0-9]+)?")
_NOT_FINITE = r"(?i)[+-]?(nan|inf|infinity)$"
_LABELLED = {None: kernel.PERHAPS, True: kernel.ALWAYS, False: kernel.NEVER}


@dataclass(frozen=True)
class LibsvmStream(TextStream):
    """A stream over one or more files of LIBSVM text, read one after the other.

    Numbers are correctly rounded, explicit zeros are kept, ``qid:`` and comments are left
    out, and labels are given as they stand. Memory is bounded by a few chunks.

    Parameters
    ----------
    paths, on_bad_line, n_examples, part, chunk_bytes
        See `TextStream`.
    index_base
        Index of the first feature, 1 or 0.
    n_features
        Number of columns when it is known; larger indices are then an error.
    labelled
        Whether lines begin with a label. By default those do that do not begin with ``index:``; the
        label of the others is NaN.
    keep
        ``(first, last, n_agents)``: only rows of agents `first` to `last` (exclusive) under
        round-robin dealing are needed, so that the text of the others is passed over. They
        stay as empty rows labelled NaN, which keeps blocks and positions as they are without `keep`.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "two.libsvm")
    >>> _ = path.write_text("+1 1:0.5 3:2 # comment\\n-1 2:25e-2\\n")
    >>> [(rows, position)] = LibsvmStream((str(path),)).read()
    >>> rows.y, rows.data, rows.indices
    (array([ 1., -1.]), array([0.5 , 2.  , 0.25]), array([0, 2, 1], dtype=uint32))
    """

    index_base: int = 1
    n_features: int | None = None
    labelled: bool | None = None
    keep: tuple[int, int, int] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.index_base not in (0, 1):
            raise DataError(f"`index_base` must be 0 or 1, found {self.index_base}")

    @property
    def expected(self) -> str:
        """A label and pairs."""
        return "lines 'label index:value ...'"

    def pieces(self, position: Position | None = None, pass_number: int = 0) -> Iterator[Piece]:
        """Yield chunks that have yet to be read; see `Stream`."""
        at = self.begin(position, pass_number)
        tally = _Tally(at["row"])
        for _, load in cut(self.paths, at, self.chunk_bytes, self.part):
            yield self._kept_piece(load, tally) if self._keeps else partial(self._piece, load)
        yield self.last_piece

    def scan(self) -> Summary:
        """Count rows and columns and collect the labels in one fast pass.

        The lines are trusted: only their labels and last indices are looked at. Where bad
        lines are to be skipped, all is read to find out which they are.
        """
        if self.skips:
            return scan_by_reading(self)
        labels = np.empty(MOST_LABELS)
        n_rows, largest, n_labels = 0, -1, 0
        for _, load in cut(self.paths, BEGINNING, self.chunk_bytes, self.part):
            chunk = load()
            rows, index, n_labels, bad = kernel.scan_lines(chunk.text, labels, n_labels)
            if bad >= 0:
                raise DataError(self._message(chunk, bad, kernel.BAD_LABEL))
            n_rows += rows
            largest = max(largest, index)
        if not n_rows:
            raise self.found_nothing(0)
        return Summary(
            n_examples=n_rows,
            n_features=self.n_features or max(0, largest - self.index_base + 1),
            labels=tuple(np.sort(labels[:n_labels]).tolist()) if n_labels <= MOST_LABELS else None,
        )

    @property
    def _limit(self) -> int:
        return _MOST_INDEX if self.n_features is None else self.n_features

    @property
    def _keeps(self) -> bool:
        # Which lines are rows is known only after reading them when bad ones are skipped, so
        # `keep` can save nothing there.
        return self.keep is not None and not self.skips

    def _kept_piece(self, load: Load, tally: _Tally) -> Piece:
        """A piece of which only some rows are read: the number of the first must be known."""
        chunk = load()
        first_row = tally.before(chunk)

        def piece() -> Parsed:
            lines = self._parse(chunk, first_row)
            tally.found(chunk, len(lines.block))
            return self.finished(load, chunk, lines)

        return piece

    def _piece(self, load: Load) -> Parsed:
        chunk = load()
        return self.finished(load, chunk, self._parse(chunk))

    def _parse(self, chunk: Chunk, row: int = 0) -> Lines:
        keep = self.keep if self._keeps and self.keep is not None else (0, 0, 0)
        rules = (self.index_base, self._limit, self.skips, _LABELLED[self.labelled])
        found = parse_text(chunk.text, rules, row, keep)
        messages = [self._message(chunk, *bad) for bad in found.bad]
        if messages and not self.skips:
            raise DataError(messages[0])
        width = self.n_features
        rows = found.rows if width is None else found.rows.widen(width)
        return Lines(rows, found.starts, found.n_bad, messages)

    def _message(self, chunk: Chunk, at: int, kind: int) -> str:
        where = chunk.place(at)
        return f"{where}: {describe_error(chunk.text, at, kind, self.index_base, self._limit)}"


class _Tally:
    """Number of the next row while those before it may still be unread: then they are counted."""

    def __init__(self, row: int) -> None:
        self._row = row
        self._last: Chunk | None = None
        self._lock = threading.Lock()

    def before(self, chunk: Chunk) -> int:
        """Rows before a chunk, which comes next."""
        with self._lock:
            if self._last is not None:
                self._row += kernel.count_rows(self._last.text)
            self._last = chunk
            return self._row

    def found(self, chunk: Chunk, rows: int) -> None:
        """Record the number of rows of a chunk, unless it is known already."""
        with self._lock:
            if self._last is chunk:
                self._row += rows
                self._last = None


@dataclass(frozen=True)
class _Lines:
    """Rows of some text, where each begins in it, and the (place, kind) of bad lines."""

    rows: Rows
    starts: NDArray[np.int64]
    n_bad: int
    bad: list[tuple[int, int]]


def parse_text(
    text: Bytes,
    rules: tuple[int, int, bool, int],
    first_row: int = 0,
    keep: tuple[int, int, int] = (0, 0, 0),
) -> _Lines:
    """Read lines of LIBSVM text that are in memory.

    Parameters
    ----------
    text
        Bytes that end with a newline.
    rules
        Index of the first feature, limit of columns, whether to go on after a bad line, and
        whether lines begin with labels.
    first_row, keep
        Number of the first row, and whose rows are needed; see `LibsvmStream`.
    """
    found = _parse_into(text, rules, first_row, keep, _likely_lines(text))
    if found is None:
        found = _parse_into(text, rules, first_row, keep, count_lines(text))
    assert found is not None
    return found


def _likely_lines(text: Bytes) -> int:
    """A good guess of the number of lines: counting all of them takes as long as parsing some."""
    sample = text[:_SAMPLE]
    return 64 + count_lines(sample) * len(text) // max(1, len(sample)) * 5 // 4


def _parse_into(
    text: Bytes,
    rules: tuple[int, int, bool, int],
    first_row: int,
    keep: tuple[int, int, int],
    lines: int,
) -> _Lines | None:
    """Rows of a text, where there is room for so many lines; None where there are more."""
    # Room for all pairs there can be; what is not written to takes no memory.
    pairs = len(text) // len("1:1 ")
    y, starts = np.empty(lines), np.empty(lines, dtype=np.int64)
    indptr = np.empty(lines + 1, dtype=np.int64)
    indices, data = np.empty(pairs, dtype=np.uint32), np.empty(pairs)
    # A number that needs it has more than 19 digits.
    slow_at, slow_slot = np.empty((2, 1 + len(text) // 19), dtype=np.int64)
    bad, counts = np.empty((5, 2), dtype=np.int64), np.zeros(6, dtype=np.int64)
    arrays: dict[str, NDArray[Any]] = {
        "text": text, "y": y, "starts": starts, "indptr": indptr, "indices": indices, "data": data,
        "slow_at": slow_at, "slow_slot": slow_slot, "bad": bad, "counts": counts,
    }  # fmt: skip
    mine, end_mine, n_agents = keep
    base, limit, lenient, labelled = rules
    job = kernel.LinesToParse(
        size=len(text), most_rows=lines, first_row=first_row, mine=mine, end_mine=end_mine, n_agents=n_agents,
        base=base, limit=limit, lenient=lenient, labelled=labelled, most_bad=len(bad),
        **{name: array.ctypes.data for name, array in arrays.items()},
    )  # fmt: skip
    kernel.parse(job)
    n, nnz, n_slow, n_bad, more, width = counts.tolist()
    if more:
        return None
    for at, slot in zip(slow_at[:n_slow].tolist(), slow_slot[:n_slow].tolist(), strict=True):
        value = exact_number(text, at)
        if slot < 0:
            y[-1 - slot] = value
        else:
            data[slot] = value
    rows = Rows(data[:nnz], indices[:nnz], indptr[: n + 1], width, y[:n], np.empty(0))
    found = [(int(at), int(kind)) for at, kind in bad[: min(n_bad, len(bad))]]
    return _Lines(rows, starts[:n], n_bad, found)


def open_libsvm(paths: tuple[str, ...], options: ReadOptions) -> Stream:
    """Stream over LIBSVM text, or over named text where labels or features are words."""
    if options.format is None and looks_named(paths[0]):
        from ddol.streams.text.vw import open_named

        return open_named(paths, options)
    return LibsvmStream(
        paths,
        index_base=0 if options.zero_based else 1,
        n_features=options.features,
        on_bad_line=options.on_bad_line,
        labelled=options.labelled,
        chunk_bytes=options.chunk_bytes,
    )


def looks_named(path: str) -> bool:
    """Whether the first lines of a file are ``label name:value name=text`` and have words in them."""
    if read_once(path) or not size_of(path):
        return False
    words = False
    for _, load in cut([path], BEGINNING, _FIRST_BYTES):
        for line in load().text[:_FIRST_BYTES].tobytes().splitlines()[:_FIRST_LINES]:
            label, *features = line.split(b"#")[0].split() or [b"0"]
            if not all(map(_FEATURE.fullmatch, features)):
                return False
            names = (feature.partition(b":")[0] for feature in features)
            numbered = all(_NUMBER.fullmatch(name) or name == b"qid" for name in names)
            words = words or not numbered or bool(features and _WORD.fullmatch(label))
        break
    return words


def describe_error(text: NDArray[np.uint8], at: int, kind: int, base: int, limit: int) -> str:
    """Say what was found at byte `at`, what was expected, and what to do."""
    token = _word_at(text, at)
    if any(not character.isprintable() for character in token):
        return (
            f"found binary data {token!r}, expected lines 'label index:value ...'; "
            "check that the file is LIBSVM text and that its ending names its compression"
        )
    finite = re.match(_NOT_FINITE, token)
    if kind in (kernel.BAD_LABEL, kernel.BAD_VALUE) and finite:
        return f"found {token!r}, expected a finite number; remove or impute missing values"
    if kind == kernel.BAD_LABEL:
        advice = (
            "name the file .csv, or use --format csv, if its columns are separated by commas"
            if "," in token
            else "begin every line with one label"
        )
        return f"found {token!r}, expected a number as label; {advice}"
    if kind in (kernel.BAD_INDEX, kernel.NO_COLON):
        return f"found {token!r}, expected index:value; correct the line, it may have been cut"
    if kind == kernel.BAD_VALUE:
        found = repr(token) if token else "nothing after ':'"
        return f"found {found}, expected a number; correct the line, it may have been cut"
    if kind == kernel.OVERFLOW:
        return f"found {token!r}, expected a number below 1.8e308; scale the column"
    return _describe_index(token.split(":")[0], kind, base, limit)


def _describe_index(index: str, kind: int, base: int, limit: int) -> str:
    if kind == kernel.BELOW_BASE:
        return f"found index {index}, expected indices from {base}; use --zero-based"
    if kind == kernel.NOT_ASCENDING:
        return (
            f"found index {index} at or below the one before it, expected ascending indices; "
            "sort the line and join repeated features"
        )
    if limit < 1 << 31:
        return (
            f"found index {index}, expected at most {limit + base - 1} because there are "
            f"{limit} columns; use the columns of the model, or hash them"
        )
    return f"found index {index}, expected at most 2**31; number the features from {base}, or hash"


def _word_at(text: NDArray[np.uint8], at: int) -> str:
    found = re.match(rb"[^ \t\r\n#]*", text[at : at + 60].tobytes())
    token = found.group().decode("latin-1") if found else ""
    return token if len(token) <= 40 else token[:40] + "…"
