"""Streams over text of any format that has one example on a line.

A format says how the lines of a chunk become a block; files, chunks, positions, parts and bad lines are
the same for all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from ddol.streams.bad_lines import BadLines
from ddol.streams.errors import DataError
from ddol.streams.files import check_first_reading, describe_paths, read_once
from ddol.streams.parallel import in_order
from ddol.streams.raw import Raw
from ddol.streams.rows import no_rows
from ddol.streams.stream import Parsed, Piece, Position
from ddol.streams.text import (
    BEGINNING,
    CHUNK_BYTES,
    Chunk,
    Load,
    advanced,
    byte_range,
    cut,
    progress_in,
    share_of_chunks,
)


@dataclass(frozen=True, slots=True)
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
        """What the beginning of a file tells about the rest, such as the names of its columns.

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
class LineStream:
    """A stream over one or more files of text, read one after the other.

    Parameters
    ----------
    paths
        File names, plain or compressed; ``-`` is standard input.
    format
        How lines are read.
    on_bad_line
        ``"error"`` raises `DataError` at the first bad line; ``"skip"`` leaves such lines out and
        counts them in `bad_lines`.
    n_examples
        Number of rows when it is known.
    part
        Only lines that begin between these bytes of all files together.
    chunk_bytes
        Text that is read at a time.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from ddol.streams.csv_text import CsvFormat
    >>> path = pathlib.Path(tempfile.mkdtemp(), "two.csv")
    >>> _ = path.write_text("height,town\\n1.5,Rome\\n?,Bern\\n")
    >>> [(table, position)] = LineStream((str(path),), CsvFormat()).read()
    >>> table.columns["height"], table.columns["town"].values
    (array([1.5, nan]), ('Rome', 'Bern'))
    """

    paths: tuple[str, ...]
    format: LineFormat
    on_bad_line: Literal["error", "skip"] = "error"
    n_examples: int | None = None
    part: tuple[int, int] | None = None
    chunk_bytes: int = CHUNK_BYTES
    bad_lines: BadLines = field(default_factory=BadLines, compare=False, repr=False)

    @property
    def n_features(self) -> None:
        """Names of features are found while reading."""

    @property
    def restartable(self) -> bool:
        """Whether the text can be read again; a pipe cannot."""
        return not any(map(read_once, self.paths))

    def read(
        self, position: Position | None = None, pass_number: int = 0
    ) -> Iterator[tuple[Raw, Position]]:
        """Yield the rows of one chunk after the other, and where the next begins."""
        return in_order((piece() for piece in self.pieces(position, pass_number)), position)

    def pieces(self, position: Position | None = None, pass_number: int = 0) -> Iterator[Piece]:
        """Yield chunks that have yet to be read; see `Stream`."""
        check_first_reading(self.paths, position or pass_number)
        at = position or BEGINNING
        self.bad_lines.count = at["skipped"]
        layouts: dict[int, Any] = {}
        for number, load in cut(self.paths, at, self.chunk_bytes, self.part):
            if number not in layouts:
                layouts[number] = self._layout(number, load, layouts)
            yield partial(self._piece, load, layouts[number])
        yield self._last_piece

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

    def part_of(self, number: int, parts: int) -> LineStream:
        """The lines of one of `parts` contiguous parts, about equal in bytes."""
        part, chunk_bytes = (
            byte_range(self.paths, number, parts),
            share_of_chunks(self.chunk_bytes, parts),
        )
        return replace(self, part=part, chunk_bytes=chunk_bytes)

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
        raise self._found_nothing(0)

    def _piece(self, load: Load, layout: Any) -> Parsed:
        chunk = load()
        skip = self.on_bad_line == "skip"
        lines = self.format.parse(chunk, layout, skip)
        if lines.n_bad and not skip:
            raise DataError(lines.messages[0])

        def after(position: Position | None) -> Position:
            self.bad_lines.add(lines.n_bad, list(lines.messages))
            return advanced(position or BEGINNING, chunk, len(lines.block), lines.n_bad)

        return Parsed(lines.block, after, lambda row: chunk.place(int(lines.starts[row])))

    def _last_piece(self) -> Parsed:
        def after(position: Position | None) -> Position:
            position = position or BEGINNING
            if not position["row"] and self.part is None:
                raise self._found_nothing(position["skipped"])
            return position

        return Parsed(no_rows(), after, lambda row: self.describe())

    def _found_nothing(self, skipped: int) -> DataError:
        found = f"{skipped} bad lines" if skipped else "no examples"
        return DataError(
            f"{self.describe()}: found {found}, expected {self.format.expected}; "
            "check the format of the file"
        )
