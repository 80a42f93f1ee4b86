"""Compiled reading of CSV text: bytes to columns of numbers and of numbered words.

Every text ends with a newline, so that the inner loops need no check for its end.
"""

# Numba infers the types here.
# mypy: disable-error-code=no-untyped-def

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ddol.compiled import bytes_at, entry, floats, inner, integers, packed, unpacked
from ddol.streams.coding.hashing import name_hash
from ddol.streams.text.number_kernel import DONE, NO_NUMBER, TOO_BIG, UNDECIDED, read_number
from ddol.streams.text.word_kernel import Words, is_missing, word_number, word_value

# Kinds of columns.
NUMBER, TEXT = range(2)
# Kinds of errors; 0 is none.
NOT_A_NUMBER, OPEN_QUOTE, TOO_FEW, TOO_MANY, FULL = range(1, 6)
_NEWLINE, _CR, _SPACE, _TAB, _QUOTE = 10, 13, 32, 9, 34


class CsvJob(NamedTuple):
    """Text and the arrays for its cells, by address."""

    text: int
    size: int
    start: int
    """Where the first row begins."""
    delimiter: int
    n_columns: int
    kinds: int
    places: int
    """int64 (n_columns,): NUMBER or TEXT, and which of the numbers or texts of a row."""
    n_numbers: int
    n_texts: int
    numbers: int
    """float64 (rows, n_numbers)"""
    codes: int
    """int64 (rows, n_texts): words, or −1 for none"""
    starts: int
    """int64 (rows,): where each row begins"""
    odd: int
    """int64 (n_columns,): cells of number columns that are no numbers; 0: they are errors"""
    slow_at: int
    slow_slot: int
    """int64: where numbers begin that are left to the caller, and their places in `numbers`."""
    lenient: bool
    """Whether to go on after a bad line."""
    bad: int
    """int64 (most_bad, 3): place, kind and column of the first errors."""
    most_bad: int
    counts: int
    """int64 (4,): rows, numbers left to the caller, bad lines, whether there was no room for a word."""
    words: Words


@inner
def _is_blank(byte, delimiter):
    return byte in (_SPACE, _CR) or (byte == _TAB and delimiter != _TAB)


@inner
def _cell(text, p, delimiter):
    """Where the content of the cell at `p` begins and ends, where the cell ends, and the error."""
    while _is_blank(text[p], delimiter):
        p += 1
    first = p
    if text[p] == _QUOTE:
        first = p = p + 1
        while text[p] != _NEWLINE and not (text[p] == _QUOTE and text[p + 1] != _QUOTE):
            p += 2 if text[p] == _QUOTE else 1
        last = p
        if text[p] == _NEWLINE:
            return first, last, p, OPEN_QUOTE
        p += 1
        while _is_blank(text[p], delimiter):
            p += 1
        error = 0 if text[p] == delimiter or text[p] == _NEWLINE else OPEN_QUOTE
        return first, last, p, error
    while text[p] != delimiter and text[p] != _NEWLINE:
        p += 1
    last = p
    while last > first and _is_blank(text[last - 1], delimiter):
        last -= 1
    return first, last, p, 0


@inner
def _odd_number(job, p, slot, n_slow, column):
    """Read the cell at `p` that does not simply consist of a number; returns as `_read_cell`."""
    text = bytes_at(job.text)
    first, last, end, error = _cell(text, p, job.delimiter)
    if error:
        return p, n_slow, error
    value = np.nan
    if not is_missing(text, first, last):
        value, after, how = read_number(text, first)
        if how == NO_NUMBER or after != last:
            value = word_value(text, first, last)
            if value != value:
                if job.odd == 0:
                    return first, n_slow, NOT_A_NUMBER
                integers(job.odd)[column] += 1
        elif how == UNDECIDED:
            integers(job.slow_at)[n_slow], integers(job.slow_slot)[n_slow] = first, slot
            n_slow += 1
        elif how == TOO_BIG and text[first] == 45:
            value = -np.inf
    floats(job.numbers)[slot] = value
    return end, n_slow, 0


@inner(inlined=True)
def _read_cell(job, p, row, column, n_slow):
    """Read the cell at `p`; its end (or the place of the error), the numbers left, the error."""
    text, place = bytes_at(job.text), integers(job.places)[column]
    if integers(job.kinds)[column] == NUMBER:
        slot = row * job.n_numbers + place
        value, end, how = read_number(text, p)
        if how == DONE and (text[end] == job.delimiter or text[end] == _NEWLINE):
            floats(job.numbers)[slot] = value
            return end, n_slow, 0
        return _odd_number(job, p, slot, n_slow, column)
    first, last, end, error = _cell(text, p, job.delimiter)
    if error:
        return p, n_slow, error
    code = -1
    if not is_missing(text, first, last):
        code = word_number(job.words, name_hash(text, first, last), column, first, last)
        if code < 0:
            return p, n_slow, FULL
    integers(job.codes)[row * job.n_texts + place] = code
    return end, n_slow, 0


@inner
def _read_row(job, p, row, n_slow):
    """Read all cells of a line; returns as `_read_cell`, and the column of an error."""
    text = bytes_at(job.text)
    for column in range(job.n_columns):
        end, n_slow, error = _read_cell(job, p, row, column, n_slow)
        if error:
            return end, n_slow, error, column
        if column < job.n_columns - 1:
            if text[end] != job.delimiter:
                return end, n_slow, TOO_FEW, column + 1
            p = end + 1
    if text[end] != _NEWLINE:
        return end, n_slow, TOO_MANY, job.n_columns
    return end, n_slow, 0, 0


@entry("void(struct*)")
def _parse_csv(job):
    job = unpacked(CsvJob, job)
    text, counts = bytes_at(job.text), integers(job.counts)
    p, row, n_slow, n_bad = job.start, 0, 0, 0
    while p < job.size:
        begin = p
        while text[p] == _SPACE or text[p] == _CR:
            p += 1
        if text[p] == _NEWLINE:
            p += 1
            continue
        integers(job.starts)[row] = begin
        p, new_slow, error, column = _read_row(job, begin, row, n_slow)
        if error:
            if n_bad < job.most_bad:
                bad = integers(job.bad)
                bad[3 * n_bad], bad[3 * n_bad + 1], bad[3 * n_bad + 2] = p, error, column
            n_bad += 1
            if error == FULL or not job.lenient:
                counts[3] = error == FULL
                break
            while text[p] != _NEWLINE:
                p += 1
        else:
            n_slow = new_slow
            row += 1
        p += 1
    counts[0], counts[1], counts[2] = row, n_slow, n_bad


def parse_csv(job: CsvJob) -> None:
    """Read all rows of a text into arrays."""
    _parse_csv(packed(job))
