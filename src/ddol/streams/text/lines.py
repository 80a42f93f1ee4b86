"""Streams over text of any format that has one example on a line.

A format says how the lines of a chunk become a block; files, chunks, positions, parts and bad lines are
the same for all.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from ddol.streams.errors import DataError
from ddol.streams.over.parallel import in_order
from ddol.streams.raw import Raw
from ddol.streams.rows import no_rows
from ddol.streams.store.chunks import (
    BEGINNING,
    CHUNK_BYTES,
    Chunk,
    Load,
    advanced,
    byte_range,
    cut,
    progress_in,
    share_of_chunks,
    without_strange,
)
from ddol.streams.store.files import check_first_reading, describe_paths, read_once
from ddol.streams.stream import Parsed, Piece, Position


@dataclass
class BadLines:
    """Lines that were skipped in the present pass: their number, and the first messages.

    Parameters
    ----------
    most
        Messages that are kept.
    """

    most: int = 5
    count: int = 0
    messages: list[str] = field(default_factory=list)

    def add(self, count: int, messages: list[str]) -> None:
        """Count bad lines and keep their messages while there is room."""
        self.count += count
        self.messages.extend(messages[: self.most - len(self.messages)])


@dataclass(frozen=True)
class Lines:
    """What the lines of a chunk are.

    Parameters
    ----------
    block
        The rows.
    starts
        Where each row begins in the text.
    n_bad
        Lines that could not be read.
    messages
        Where and what the first of them are.

    Examples
    --------
    >>> from ddol.streams.rows import Rows
    >>> Lines(Rows.from_dense([[0.5], [2.0]], [1.0, -1.0]), np.array([0, 8])).n_bad
    0
    """

    block: Raw
    starts: NDArray[np.int64]
    n_bad: int = 0
    messages: Sequence[str] = ()


class LineFormat(Protocol):
    """How text becomes blocks."""

    @property
    def expected(self) -> str:
        """What a line should look like, for the message that there is none."""

    def layout(self, first: Chunk, before: Any) -> Any:
        """What the first lines determine for the rest, such as the names of the columns.

        Parameters
        ----------
        first
            The first chunk of the file.
        before
            Layout of the first file, which decides what must be the same in all; None for that one.
        """

    def parse(self, chunk: Chunk, layout: Any, lenient: bool) -> Lines:
        """Read the lines of a chunk; stop at the first bad one unless `lenient`."""


@dataclass(frozen=True)
class TextStream:
    """One or more files of text, read one after the other, an example on a line.

    Who reads a format adds ``pieces``, which begins with `begin` and ends with `last_piece`.

    Parameters
    ----------
    paths
        File names, plain or compressed (gzip, bzip2, xz, Zstandard); ``-`` is standard input.
    on_bad_line
        ``"stop"`` raises `DataError` at the first bad line; ``"skip"`` leaves such lines out and
        counts them in `bad_lines`.
    n_examples
        Number of rows when it is known.
    part
        Only lines that begin between these bytes of all files together.
    chunk_bytes
        Text that is read at a time.
    """

    paths: tuple[str, ...]
    on_bad_line: Literal["stop", "skip"] = field(default="stop", kw_only=True)
    n_examples: int | None = field(default=None, kw_only=True)
    part: tuple[int, int] | None = field(default=None, kw_only=True)
    chunk_bytes: int = field(default=CHUNK_BYTES, kw_only=True)
    bad_lines: BadLines = field(default_factory=BadLines, compare=False, repr=False, kw_only=True)

    def __post_init__(self) -> None:
        if self.on_bad_line not in ("stop", "skip"):
            raise DataError(f"`on_bad_line` must be stop or skip, found {self.on_bad_line!r}")

    @property
    @abstractmethod
    def expected(self) -> str:
        """What the lines should look like, for the message that there are none."""

    @abstractmethod
    def pieces(self, position: Position | None = None, pass_number: int = 0) -> Iterator[Piece]:
        """Yield chunks that have yet to be read; see `Stream`."""

    @property
    def restartable(self) -> bool:
        """Whether the text can be read again; a pipe cannot."""
        return not any(map(read_once, self.paths))

    @property
    def skips(self) -> bool:
        """Whether bad lines are left out."""
        return self.on_bad_line == "skip"

    def read(
        self, position: Position | None = None, pass_number: int = 0
    ) -> Iterator[tuple[Any, Position]]:
        """Yield the rows of one chunk after the other, and where the next begins."""
        return in_order((piece() for piece in self.pieces(position, pass_number)), position)

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
        # Reading again must not count bad lines anew.
        for piece in replace(self, bad_lines=BadLines()).pieces(position):
            parsed = piece()
            if len(parsed.block):
                return parsed.locate(row)
        return self.describe()

    def part_of(self, number: int, parts: int) -> Self:
        """The lines of one of `parts` contiguous parts, about equal in bytes."""
        share = share_of_chunks(self.chunk_bytes, parts)
        return replace(self, part=byte_range(self.paths, number, parts), chunk_bytes=share)

    def begin(self, position: Position | None, pass_number: int) -> Position:
        """Where reading begins."""
        check_first_reading(self.paths, position or pass_number)
        at = position or BEGINNING
        self.bad_lines.count = at["skipped"]
        return at

    def finished(self, load: Load, chunk: Chunk, lines: Lines) -> Parsed:
        """What the lines of a chunk are, without its text, and what else is not needed any more.

        Pieces wait for their turn, and the memory is what the next ones are parsed in, while the
        processor still has it at hand.
        """
        end, n_rows = chunk.without_text(), len(lines.block)
        starts, n_bad, messages = lines.starts, lines.n_bad, list(lines.messages)

        def after(position: Position | None) -> Position:
            self.bad_lines.add(n_bad, messages)
            return advanced(position or BEGINNING, end, n_rows, n_bad)

        return Parsed(lines.block, after, lambda row: load().place(int(starts[row])))

    def last_piece(self) -> Parsed:
        """The end, where it turns out whether there was anything."""

        def after(position: Position | None) -> Position:
            position = position or BEGINNING
            if not position["row"] and self.part is None:
                raise self.found_nothing(position["skipped"])
            return position

        return Parsed(no_rows(), after, lambda row: self.describe())

    def found_nothing(self, skipped: int) -> DataError:
        """Error for files without a line that can be read."""
        found = f"{skipped} bad lines" if skipped else "no examples"
        return DataError(
            f"{self.describe()}: found {found}, expected {self.expected}; check the format of the file"
        )


@dataclass(frozen=True)
class LineStream(TextStream):
    """A stream over text of any format that has one example on a line.

    Parameters
    ----------
    paths, on_bad_line, n_examples, part, chunk_bytes
        See `TextStream`.
    format
        How lines are read.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from ddol.streams.text.csv import CsvFormat
    >>> path = pathlib.Path(tempfile.mkdtemp(), "two.csv")
    >>> _ = path.write_text("height,town\\n1.5,Rome\\n?,Bern\\n")
    >>> [(table, position)] = LineStream((str(path),), CsvFormat()).read()
    >>> table.columns["height"], table.columns["town"].values
    (array([1.5, nan]), ('Rome', 'Bern'))
    """

    format: LineFormat

    @property
    def expected(self) -> str:
        """Expected form of a line."""
        return self.format.expected

    @property
    def n_features(self) -> None:
        """Names of features are found while reading."""

    def pieces(self, position: Position | None = None, pass_number: int = 0) -> Iterator[Piece]:
        """Yield chunks that have yet to be read; see `Stream`."""
        at = self.begin(position, pass_number)
        layouts: dict[int, Any] = {}
        for number, load in cut(self.paths, at, self.chunk_bytes, self.part):
            if number not in layouts:
                layouts[number] = self._layout(number, load, layouts)
            yield partial(self._piece, load, layouts[number])
        yield self.last_piece

    def _layout(self, number: int, load: Load, layouts: dict[int, Any]) -> Any:
        if number and 0 not in layouts:
            layouts[0] = self._layout(0, load, layouts)
        path = self.paths[number]
        # What can be read only once is at its beginning here.
        first = load() if read_once(path) else self._first_chunk(path)
        return self.format.layout(first, layouts.get(0))

    def _first_chunk(self, path: str) -> Chunk:
        for _, load in cut([path], BEGINNING, self.chunk_bytes):
            return load()
        raise self.found_nothing(0)

    def _piece(self, load: Load, layout: Any) -> Parsed:
        chunk, strange = without_strange(load())
        if strange and not self.skips:
            raise DataError(strange[0])
        lines = self.format.parse(chunk, layout, self.skips)
        if lines.n_bad and not self.skips:
            raise DataError(lines.messages[0])
        messages = [*strange, *lines.messages]
        lines = replace(lines, n_bad=lines.n_bad + len(strange), messages=messages)
        return self.finished(load, chunk, lines)
