"""CSV text as tables: numbers are numbers, everything else is text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddol.streams.coding.columns import LABEL_NAMES
from ddol.streams.errors import DataError
from ddol.streams.formats import ReadOptions
from ddol.streams.raw import MISSING_WORDS, Cells, Table, Text, unnamed
from ddol.streams.store.chunks import Bytes, Chunk, count_lines, not_utf8
from ddol.streams.text import csv_kernel as kernel
from ddol.streams.text.lines import Lines, LineStream
from ddol.streams.text.number_kernel import exact_number
from ddol.streams.text.word_kernel import WordRoom, WordTable

_MOST_MESSAGES = 5
_TRUTHS = {"true", "false"}
_DELIMITERS = ",;\t|"
_LOOKED_AT = 100
"""Lines that tell whether the first of them has the names of the columns."""


@dataclass(frozen=True)
class CsvColumns:
    """Columns of a file: names, kinds (`NUMBER` or `TEXT`), whether it has these names, what parts them."""

    names: tuple[str, ...]
    kinds: tuple[int, ...]
    named: bool
    delimiter: str = ","
    room: WordRoom = field(default_factory=WordRoom, compare=False)


@dataclass(frozen=True)
class CsvFormat:
    """Lines of cells; a cell of a number column is a number, true or false, or missing.

    Which columns are numbers is decided by the beginning of the first file. Lines may not be broken
    inside quotes.

    Parameters
    ----------
    delimiter
        What separates the cells. By default a comma; or a semicolon, a tabulator or a bar, where the
        first line of a file has one and no comma.
    header
        Whether the first line of every file names the columns. By default it does when none of its
        cells is a number and none comes again further down in its column, or one that is no number
        stands above one, or above a few words that come again and again.
    label
        The label's column, if it was named: true and false are text there.
    kinds
        Columns that are known to be ``"number"`` or ``"text"``, by name.
    """

    delimiter: str | None = None
    header: bool | None = None
    label: str | int | None = None
    kinds: Mapping[str, str] | None = None

    @property
    def expected(self) -> str:
        """A line of a table."""
        between = repr(self.delimiter or ",")
        return f"lines of cells separated by {between} below the names of the columns"

    def layout(self, first: Chunk, before: CsvColumns | None) -> CsvColumns:
        """Names and kinds of the columns."""
        texts = list(_first_lines(first, _LOOKED_AT))
        if not texts:
            raise DataError(f"{first.path}: found blank lines only, expected {self.expected}")
        delimiter = self.delimiter or _delimiter_of(texts[0])
        lines = [split_cells(text, delimiter) for text in texts]
        named = self._is_header(lines) if self.header is None else self.header
        width = len(lines[0])
        names = tuple(lines[0]) if named else unnamed(width)
        if len(set(names)) < width:
            twice = next(name for name in names if names.count(name) > 1)
            raise DataError(
                f"{first.path}: found the column {twice!r} twice, expected names that differ; rename one"
            )
        known = {} if before is None else dict(zip(before.names, before.kinds, strict=True))
        known |= {name: int(kind != "number") for name, kind in (self.kinds or {}).items()}
        if all(name in known for name in names):
            return CsvColumns(names, tuple(known[name] for name in names), named, delimiter)
        found = self._found_kinds(first, names, named, delimiter)
        return CsvColumns(names, tuple(map(known.get, names, found)), named, delimiter)

    def parse(self, chunk: Chunk, layout: CsvColumns, lenient: bool) -> Lines:
        """Read the cells of a chunk."""
        cells = self._cells(chunk, layout)
        while not cells.parse(lenient):
            layout.room.grow()
            cells = self._cells(chunk, layout)
        messages = [self._message(chunk, layout, *bad) for bad in cells.bad]
        return Lines(cells.table(layout), cells.starts, cells.n_bad, messages)

    def _cells(self, chunk: Chunk, layout: CsvColumns) -> _Cells:
        start = self._start(chunk, layout)
        return _Cells(chunk.text, layout, start)

    def _start(self, chunk: Chunk, layout: CsvColumns) -> int:
        """Where the rows of a chunk begin: below the names, if they are in it."""
        if chunk.offset or not layout.named:
            return 0
        start = 0
        for line in chunk.text.tobytes().splitlines(keepends=True):
            start += len(line)
            if line.strip():
                break
        return start

    def _is_header(self, lines: list[list[str]]) -> bool:
        numbers = [_is_number(cell) for cell in lines[0]]
        below = lines[1] if len(lines) > 1 else []
        if not any(numbers) and not any(map(_is_number, below)):
            # All cells are text: a header's names are distinct and do not occur again below it.
            again = any(cell and cell in column for cell, *column in zip(*lines, strict=False))
            return not again and len(set(lines[0])) == len(lines[0])
        if not any(numbers):
            return True
        pairs = zip(lines[0], numbers, below, strict=False)
        if any(not number and not _is_missing(cell) and _is_number(under)
               for cell, number, under in pairs):  # fmt: skip
            return True
        # Numbers, such as years, may be names: where one cell stands above few words over and over.
        words = [
            (cell, column)
            for cell, *column in zip(*lines, strict=False)
            if column and not any(map(_is_number, column))
        ]
        few = all(cell not in col and 10 * len(set(col)) <= len(col) for cell, col in words)
        return few and bool(words) and len(set(lines[0])) == len(lines[0])

    def _found_kinds(
        self, first: Chunk, names: tuple[str, ...], named: bool, delimiter: str
    ) -> list[int]:
        """Kinds that the cells of a chunk suggest."""
        layout = CsvColumns(names, (kernel.NUMBER,) * len(names), named, delimiter)
        cells = self._cells(first, layout)
        cells.parse(lenient=True, looking=True)
        numbers = np.count_nonzero(~np.isnan(cells.numbers), axis=0)
        found = [
            int(is_text(*pair)) for pair in zip(cells.odd.tolist(), numbers.tolist(), strict=True)
        ]
        for number, name in enumerate(names):
            if self._is_label(name, number, len(names)) and not found[number]:
                found[number] = int(cells.are_truths(number))
        return found

    def _is_label(self, name: str, number: int, width: int) -> bool:
        if self.label is None:
            return name.lower() in LABEL_NAMES
        return self.label in (name, number, number - width, str(number), str(number - width))

    def _message(self, chunk: Chunk, layout: CsvColumns, at: int, kind: int, column: int) -> str:
        where, expected = chunk.place(at), len(layout.names)
        if kind == kernel.TOO_FEW:
            return (
                f"{where}: found {column} cells, expected {expected}; "
                "correct the line or the delimiter"
            )
        if kind == kernel.TOO_MANY:
            return (
                f"{where}: found more than the {expected} cells that were expected; "
                "correct the line or the delimiter"
            )
        if kind == kernel.OPEN_QUOTE:
            return (
                f"{where}: column {layout.names[column]!r}: found a quote that does not end with its "
                "cell, expected it on the same line; write line breaks in cells as spaces"
            )
        cell = bytes(chunk.text[at : at + 400]).split(b"\n")[0].decode("utf-8", "replace")
        shown = split_cells(cell, layout.delimiter)[0][:40]
        return (
            f"{where}: column {layout.names[column]!r}: found the text {shown!r}, expected a number as in "
            "most lines; correct the line, or leave it out with --on-bad-line skip"
        )


class _Cells:
    """Cells of a chunk: room for them, and what they are."""

    def __init__(self, text: Bytes, columns: CsvColumns, start: int) -> None:
        self.text, self.kinds = text, np.array(columns.kinds, dtype=np.int64)
        self.delimiter, self.start = columns.delimiter, start
        # A row has a byte for every cell at least; a bad line is begun like a good one.
        rows = 1 + min(count_lines(text), len(text) // len(self.kinds))
        self.n_texts = int(np.count_nonzero(self.kinds == kernel.TEXT))
        n_numbers = len(self.kinds) - self.n_texts
        self.places = np.where(
            self.kinds == kernel.TEXT,
            np.cumsum(self.kinds == kernel.TEXT) - 1,
            np.cumsum(self.kinds == kernel.NUMBER) - 1,
        )
        self.numbers = np.empty((rows, n_numbers))
        self.codes = np.empty((rows, self.n_texts), dtype=np.int64)
        self.starts = np.empty(rows, dtype=np.int64)
        self.words = WordTable(text, columns.room.words if self.n_texts else 0)
        self.odd = np.zeros(len(self.kinds), dtype=np.int64)
        self.n_bad = 0
        self.bad: list[tuple[int, int, int]] = []

    def parse(self, lenient: bool, looking: bool = False) -> bool:
        """Read all cells; False where there are more words than room for them.

        Who only looks finds out how many cells of each column are no numbers.
        """
        # A number of more than 19 digits takes more than that many bytes.
        slow_at, slow_slot = np.empty((2, 1 + len(self.text) // 19), dtype=np.int64)
        bad, counts = np.empty((_MOST_MESSAGES, 3), np.int64), np.zeros(4, np.int64)
        arrays: dict[str, NDArray[Any]] = {
            "kinds": self.kinds, "places": self.places, "numbers": self.numbers,
            "codes": self.codes, "starts": self.starts, "slow_at": slow_at,
            "slow_slot": slow_slot, "bad": bad, "counts": counts,
        }  # fmt: skip
        job = kernel.CsvJob(
            size=len(self.text), start=self.start, delimiter=ord(self.delimiter),
            n_columns=len(self.kinds), n_numbers=self.numbers.shape[1], n_texts=self.n_texts,
            odd=self.odd.ctypes.data if looking else 0, lenient=lenient, most_bad=len(bad),
            text=self.text.ctypes.data, words=self.words.places,
            **{name: array.ctypes.data for name, array in arrays.items()},
        )  # fmt: skip
        kernel.parse_csv(job)
        n, n_slow, self.n_bad, full = counts.tolist()
        flat = self.numbers.reshape(-1)
        for at, slot in zip(slow_at[:n_slow].tolist(), slow_slot[:n_slow].tolist(), strict=True):
            flat[slot] = exact_number(self.text, at)
        self.numbers, self.codes, self.starts = self.numbers[:n], self.codes[:n], self.starts[:n]
        self.bad = [tuple(each) for each in bad[: min(self.n_bad, len(bad))].tolist()]
        return not full

    def table(self, layout: CsvColumns) -> Table:
        """The columns, by name."""
        columns: dict[str, Cells] = {}
        for number, (name, kind) in enumerate(zip(layout.names, layout.kinds, strict=True)):
            place = int(self.places[number])
            numeric = kind == kernel.NUMBER
            columns[name] = self.numbers[:, place] if numeric else self._text(number, place)
        return Table(columns, layout.named)

    def _text(self, column: int, place: int) -> Text:
        """A column of text, from the numbers of words in all of them."""
        codes = self.codes[:, place]
        used = np.zeros(len(self.words), dtype=bool)
        used[codes[codes >= 0]] = True
        chosen = np.flatnonzero(used)
        values = [self.words.word(k).replace('""', '"') for k in chosen.tolist()]
        distinct = {value: k for k, value in enumerate(dict.fromkeys(values))}
        renumbered = np.full(len(self.words) + 1, -1, dtype=np.int64)
        renumbered[chosen] = [distinct[value] for value in values]
        return Text(renumbered[codes], tuple(distinct))

    def are_truths(self, column: int) -> bool:
        """Whether a column of numbers was read from the words true and false."""
        found = False
        for start in self.starts.tolist():
            word = self._cell(start, column).lower()
            if word not in MISSING_WORDS and word not in _TRUTHS:
                return False
            found = found or word in _TRUTHS
        return found

    def _cell(self, start: int, column: int) -> str:
        end = start + int(np.argmax(self.text[start:] == 10))
        line = self.text[start:end].tobytes().decode("utf-8", "replace")
        return split_cells(line, self.delimiter)[column]


def _first_lines(chunk: Chunk, count: int) -> Iterator[str]:
    """Lines of the beginning that are not blank; the first, which may have the names, must be text."""
    data, start, left = chunk.text.tobytes(), 0, count
    while start < len(data) and left:
        end = data.index(b"\n", start)
        line = data[start:end]
        if line.strip():
            try:
                yield line.decode("utf-8", "strict" if left == count else "replace")
            except UnicodeDecodeError as error:
                place = chunk.place(start + error.start)
                raise DataError(f"{place}: {not_utf8(line[error.start])}") from None
            left -= 1
        start = end + 1


def _delimiter_of(line: str) -> str:
    """Delimiter of a file's first line: a comma, if there is one."""
    widths = {delimiter: len(split_cells(line, delimiter)) for delimiter in _DELIMITERS}
    return "," if widths[","] > 1 else max(_DELIMITERS, key=lambda delimiter: widths[delimiter])


def is_text(words: int, numbers: int) -> bool:
    """Whether a column with so many cells of either kind is text.

    A few words among many numbers are bad cells: as text, every number would be a value of its own, and
    nothing could be learned from them.

    Examples
    --------
    >>> is_text(1, 1000), is_text(100, 900), is_text(0, 0)
    (False, True, False)
    """
    return words > 0 and 9 * words >= numbers


def split_cells(line: str, delimiter: str = ",") -> list[str]:
    """Cells of one line, without the quotes and blanks around them.

    Examples
    --------
    >>> split_cells('a, "b, c" ,d')
    ['a', 'b, c', 'd']
    """
    cells, start, quoted = [], 0, False
    for place, character in enumerate(line):
        if character == '"':
            quoted = not quoted
        elif character == delimiter and not quoted:
            cells.append(line[start:place])
            start = place + 1
    cells.append(line[start:])
    return [_plain(cell.strip()) for cell in cells]


def _plain(cell: str) -> str:
    inside = len(cell) > 1 and cell[0] == cell[-1] == '"'
    return cell[1:-1].replace('""', '"') if inside else cell


def _is_missing(cell: str) -> bool:
    return cell.lower() in MISSING_WORDS


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell and not _is_missing(cell)


def open_csv(
    paths: tuple[str, ...], options: ReadOptions, delimiter: str | None = None
) -> LineStream:
    """Stream over text whose cells are separated by commas, or by what the first line shows."""
    layout = CsvFormat(delimiter, options.header, options.label, options.kinds or None)
    return LineStream(
        paths, layout, on_bad_line=options.on_bad_line, chunk_bytes=options.chunk_bytes
    )


def open_tsv(paths: tuple[str, ...], options: ReadOptions) -> LineStream:
    """Stream over text whose cells are separated by tabulators."""
    return open_csv(paths, options, "\t")
