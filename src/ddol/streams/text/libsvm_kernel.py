"""Compiled reading of LIBSVM text: bytes to rows.

Every buffer ends with a newline, so that the inner loops need no check for its end.
"""

# Numba infers the types here.
# mypy: disable-error-code=no-untyped-def

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ddol.compiled import (
    address_of,
    bytes_at,
    entry,
    first_of,
    floats,
    indices,
    inner,
    integers,
    packed,
    unpacked,
)
from ddol.streams.text.number_kernel import (
    NO_NUMBER,
    TOO_BIG,
    UNDECIDED,
    read_digits,
    read_number,
)

# Kinds of errors; 0 is none.
BAD_LABEL, BAD_INDEX, NO_COLON, BAD_VALUE, BELOW_BASE, NOT_ASCENDING, TOO_LARGE, OVERFLOW = range(
    1, 9
)
NEVER, ALWAYS, PERHAPS = range(3)
"""Whether lines begin with a label."""
_NEWLINE, _CR, _SPACE, _TAB, _HASH, _COLON = 10, 13, 32, 9, 35, 58


@inner
def _ends_token(byte):
    return byte in (_SPACE, _NEWLINE, _TAB, _CR, _HASH)


@inner
def _skip_blanks(text, p):
    while text[p] == _SPACE or text[p] == _TAB or text[p] == _CR:
        p += 1
    return p


@inner
def _skip_token(text, p):
    while not _ends_token(text[p]):
        p += 1
    return p


@inner
def _find(text, p, end, byte, other):
    """Place of the first of two bytes from `p` on; one of them must be before `end`."""
    while p + 64 <= end:
        here = address_of(text, p)
        found = min(first_of(here, byte), first_of(here, other))
        if found < 64:
            return p + found
        p += 64
    while text[p] != byte and text[p] != other:
        p += 1
    return p


@inner
def _skip_line(text, p, end):
    return _find(text, p, end, _NEWLINE, _NEWLINE) + 1


@inner
def _skip_query(text, p):
    """Past `qid:...` when that is what begins at `p`."""
    if text[p] == 113 and text[p + 1] == 105 and text[p + 2] == 100 and text[p + 3] == _COLON:
        return _skip_blanks(text, _skip_token(text, p))
    return p


@inner(inlined=True)
def _read_index(text, p, previous, base, limit):
    """Feature index at `p` as a column from 0, where its value begins, and the kind of error."""
    first, index = p, np.int64(text[p]) - 48
    if 1 <= index <= 9 and text[p + 1] == _COLON:
        p += 1
    else:
        index, p, error = _read_long_index(text, p)
        if error:
            return index, first, error
    index -= base
    if previous < index < limit:
        return index, p + 1, 0
    if index < 0:
        return index, first, BELOW_BASE
    return index, first, NOT_ASCENDING if index <= previous else TOO_LARGE


@inner
def _read_long_index(text, p):
    """The whole number before the colon, where that is, and the kind of error."""
    first = p
    while text[p] == 48:
        p += 1
    counted = p
    w, p = read_digits(text, p, np.uint64(0))
    if p - counted > 10:
        return 0, p, TOO_LARGE
    if text[p] != _COLON and p > first and _ends_token(text[p]):
        return np.int64(w), p, NO_COLON
    return np.int64(w), p, BAD_INDEX if text[p] != _COLON or p == first else 0


class LinesToParse(NamedTuple):
    """Text and the arrays for its rows, by address."""

    text: int
    """uint8 (size,): bytes that end with a newline."""
    size: int
    most_rows: int
    """Rows that there is room for."""
    first_row: int
    """Number of the first row in the stream, which decides whose it is."""
    mine: int
    end_mine: int
    n_agents: int
    """Rows of agents outside mine … end_mine − 1 become empty. No agents: all rows are kept."""
    base: int
    """Index of the first feature."""
    limit: int
    """Limit of columns."""
    lenient: bool
    """Whether to go on after a bad line."""
    labelled: int
    """Whether lines begin with a label: NEVER, ALWAYS or PERHAPS."""
    y: int
    """float64: labels"""
    starts: int
    """int64: where each row begins in the text"""
    indptr: int
    indices: int
    data: int
    """The rows, as in `Rows`."""
    slow_at: int
    slow_slot: int
    """int64: where numbers begin that are left to the caller, and their places in `data`, or
    ``-1 - row`` for a label."""
    bad: int
    """int64 (most_bad, 2): place and kind of the first errors."""
    most_bad: int
    counts: int
    """int64 (6,): rows, values, numbers left to the caller, bad lines, whether there were more, columns."""


@inner(inlined=True)
def _read_features(job, p, nnz, n_slow):
    """Read pairs up to the end of the line.

    Returns the place of the newline (or of the error), the new counts of values and of
    numbers left to the caller, and the kind of error.
    """
    text, previous = bytes_at(job.text), -1
    while True:
        p = _skip_blanks(text, p)
        if text[p] == _NEWLINE or text[p] == _HASH:
            return p, nnz, n_slow, 0
        index, p, error = _read_index(text, p, previous, job.base, job.limit)
        if error:
            return p, nnz, n_slow, error
        value, end, how = read_number(text, p)
        if how == NO_NUMBER or not _ends_token(text[end]):
            return p, nnz, n_slow, BAD_VALUE
        if how == TOO_BIG:
            return p, nnz, n_slow, OVERFLOW
        if how == UNDECIDED:
            integers(job.slow_at)[n_slow], integers(job.slow_slot)[n_slow] = p, nnz
            n_slow += 1
        indices(job.indices)[nnz] = index
        floats(job.data)[nnz] = value
        nnz += 1
        previous = index
        p = end


@inner(inlined=True)
def _read_row(job, p, row, nnz, n_slow):
    """Read a label and its pairs; returns as `_read_features` does."""
    text = bytes_at(job.text)
    label, end, how = read_number(text, p)
    if job.labelled != ALWAYS and (job.labelled == NEVER or (end > p and text[end] == _COLON)):
        floats(job.y)[row] = np.nan
        return _read_features(job, _skip_query(text, p), nnz, n_slow)
    if how == NO_NUMBER or not _ends_token(text[end]):
        return p, nnz, n_slow, BAD_LABEL
    if how == TOO_BIG:
        return p, nnz, n_slow, OVERFLOW
    if how == UNDECIDED:
        integers(job.slow_at)[n_slow], integers(job.slow_slot)[n_slow] = p, -1 - row
        n_slow += 1
    floats(job.y)[row] = label
    p = _skip_query(text, _skip_blanks(text, end))
    return _read_features(job, p, nnz, n_slow)


@inner
def _parse_lines(job):
    text, indptr, counts = bytes_at(job.text), integers(job.indptr), integers(job.counts)
    p, row, nnz, n_slow, n_bad, width = 0, 0, 0, 0, 0, 0
    agent = job.first_row % job.n_agents if job.n_agents else 0
    indptr[0] = 0
    while p < job.size:
        p = _skip_blanks(text, p)
        if text[p] == _NEWLINE or text[p] == _HASH:
            p = _skip_line(text, p, job.size)
            continue
        if row == job.most_rows:
            counts[4] = 1
            break
        integers(job.starts)[row] = p
        if job.n_agents and not job.mine <= agent < job.end_mine:
            floats(job.y)[row] = np.nan
            row += 1
            agent = agent + 1 if agent + 1 < job.n_agents else 0
            indptr[row] = nnz
            p = _skip_line(text, p, job.size)
            continue
        p, new_nnz, new_slow, error = _read_row(job, p, row, nnz, n_slow)
        if error:
            if n_bad < job.most_bad:
                integers(job.bad)[2 * n_bad], integers(job.bad)[2 * n_bad + 1] = p, error
            n_bad += 1
            if not job.lenient:
                break
        else:
            if new_nnz > nnz:
                width = max(width, np.int64(indices(job.indices)[new_nnz - 1]) + 1)
            nnz, n_slow = new_nnz, new_slow
            row += 1
            agent = agent + 1 if agent + 1 < job.n_agents else 0
            indptr[row] = nnz
        p = p + 1 if text[p] == _NEWLINE else _skip_line(text, p, job.size)
    counts[0], counts[1], counts[2], counts[3], counts[5] = row, nnz, n_slow, n_bad, width


@inner
def _last_index(text, first, end):
    """Largest index of the line whose pairs are between `first` and `end`, -1 for none."""
    p = end - 1
    while p > first and text[p] != _COLON:
        p -= 1
    index, unit = 0, 1
    p -= 1
    if p < first or not 48 <= text[p] <= 57:
        return -1
    while p >= first and 48 <= text[p] <= 57:
        index += unit * (text[p] - 48)
        unit = min(unit * 10, 1 << 40)
        p -= 1
    return index


# --- what Python calls ---------------------------------------------------------------------------


@entry("void(struct*)")
def _parse(job):
    _parse_lines(unpacked(LinesToParse, job))


@entry("void(int64, int64, int64, int64, int64)")
def _scan_lines(text, size, labels, room, counts):
    text, labels, counts = bytes_at(text), floats(labels), integers(counts)
    p, rows, largest, hit, n_labels = 0, 0, -1, 0, counts[2]
    while p < size:
        p = _skip_blanks(text, p)
        if text[p] == _NEWLINE or text[p] == _HASH:
            p = _skip_line(text, p, size)
            continue
        label, end, how = read_number(text, p)
        if how in (NO_NUMBER, TOO_BIG) or not _ends_token(text[end]):
            counts[3] = p
            break
        rows += 1
        if n_labels <= room and (n_labels == 0 or labels[hit] != label):
            hit = 0
            while hit < n_labels and labels[hit] != label:
                hit += 1
            if hit == n_labels:
                if n_labels < room:
                    labels[n_labels] = label
                else:
                    hit = 0
                n_labels += 1
        p = _find(text, end, size, _NEWLINE, _HASH)
        largest = max(largest, _last_index(text, end, p))
        p = p + 1 if text[p] == _NEWLINE else _skip_line(text, p, size)
    counts[0], counts[1], counts[2] = rows, largest, n_labels


@entry("int64(int64, int64)")
def _count_rows(text, size):
    text, p, rows = bytes_at(text), 0, 0
    while p < size:
        p = _skip_blanks(text, p)
        if text[p] != _NEWLINE and text[p] != _HASH:
            rows += 1
        p = _skip_line(text, p, size)
    return rows


def count_rows(text: NDArray[np.uint8]) -> int:
    """Lines that are neither blank nor comments, bad ones included."""
    return int(_count_rows(text.ctypes.data, len(text)))


def parse(job: LinesToParse) -> None:
    """Read all lines of a text into arrays."""
    _parse(packed(job))


def scan_lines(text: NDArray[np.uint8], labels: NDArray[np.float64], n_labels: int) -> tuple:
    """Count rows and find the largest index and the distinct labels, trusting the lines.

    Parameters
    ----------
    text
        Bytes that end with a newline.
    labels, n_labels
        Distinct labels known so far, extended in place, and how many they are; more than
        fit are only counted as one more.

    Returns
    -------
    rows, largest index, number of labels, place of the first bad label or -1
    """
    counts = np.array([0, -1, n_labels, -1])
    addresses = text.ctypes.data, len(text), labels.ctypes.data, len(labels), counts.ctypes.data
    _scan_lines(*addresses)
    return tuple(counts.tolist())
