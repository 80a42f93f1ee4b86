"""Compiled reading of features by name: Vowpal Wabbit's text, and ``label name:value name=text``.

Every text ends with a newline, so that the inner loops need no check for its end.
"""

# Numba infers the types here.
# mypy: disable-error-code=no-untyped-def

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ddol.compiled import bytes_at, entry, floats, inner, integers, packed, unpacked
from ddol.streams.coding.hashing import HASH_PRIME, HASH_START, hash_on, hashed_name, name_hash
from ddol.streams.text.number_kernel import DONE, NO_NUMBER, TOO_BIG, UNDECIDED, read_number
from ddol.streams.text.word_kernel import Words, is_missing, word_number

# Kinds of errors; 0 is none.
BAD_LABEL, BAD_WEIGHT, BAD_BASE, NO_BAR, BAD_VALUE, TOO_MANY_SPACES, NO_NAME, FULL = range(1, 9)
LABELS = -1
"""Owner of the words that are labels; that of features is their namespace."""
NEVER, ALWAYS, PERHAPS = range(3)
"""Whether a line begins with a label."""
MOST_SPACES = 4096
_NEWLINE, _CR, _SPACE, _TAB, _BAR, _COLON = 10, 13, 32, 9, 124, 58
_HASH, _APOSTROPHE, _CARET, _EQUALS = 35, 39, 94, 61
_IS_COLON, _IS_BAR, _IS_BLANK = 1, 2, 3
_KINDS = np.zeros(256, dtype=np.uint8)
_KINDS[_COLON], _KINDS[_BAR] = _IS_COLON, _IS_BAR
_KINDS[[_SPACE, _TAB, _CR, _NEWLINE]] = _IS_BLANK


class NamedJob(NamedTuple):
    """Text and the arrays for its rows, by address."""

    text: int
    size: int
    bars: bool
    """Whether features stand behind bars, in namespaces, as Vowpal Wabbit has it."""
    stop: int
    """Bytes of this kind and above end a word."""
    labelled: int
    """NEVER, ALWAYS or PERHAPS."""
    worded: bool
    """Whether labels are words."""
    y: int
    """float64 (rows,): labels that are numbers, NaN for none"""
    label: int
    """int64 (rows,): labels that are words, −1 for none"""
    weight: int
    """float64 (rows,)"""
    starts: int
    indptr: int
    codes: int
    data: int
    """int64, int64, int64, float64: where rows begin in the text and among values; the values."""
    space_keys: int
    space_states: int
    space_first: int
    space_end: int
    n_spaces: int
    """int64 (MOST_SPACES,) each, and (1,): namespaces; 0 is the one without a name."""
    slow_at: int
    slow_slot: int
    """int64: numbers that are left to the caller: values, or ``-1 - row`` for a label."""
    lenient: bool
    bad: int
    most_bad: int
    counts: int
    """int64 (5,): rows, values, numbers left to the caller, bad lines, whether there was no room."""
    words: Words


@inner
def _is_blank(byte):
    return byte in (_SPACE, _TAB, _CR)


@inner
def _skip_blanks(text, p):
    while _is_blank(text[p]):
        p += 1
    return p


@inner
def _ends_token(job, byte):
    return _is_blank(byte) or byte == _NEWLINE or (byte == _BAR and job.bars)


@inner
def _read_label(job, first, end, row, n_slow):
    """Read the label ``text[first:end]``; numbers left to the caller, and the error."""
    text = bytes_at(job.text)
    floats(job.y)[row] = np.nan
    if is_missing(text, first, end):
        return n_slow, 0
    if job.worded:
        number = word_number(job.words, name_hash(text, first, end), LABELS, first, end)
        integers(job.label)[row] = number
        return n_slow, 0 if number >= 0 else FULL
    value, after, how = read_number(text, first)
    if how in (NO_NUMBER, TOO_BIG) or after != end:
        return n_slow, BAD_LABEL
    if how == UNDECIDED:
        integers(job.slow_at)[n_slow], integers(job.slow_slot)[n_slow] = first, -1 - row
        n_slow += 1
    floats(job.y)[row] = value
    return n_slow, 0


@inner
def _read_before_bar(job, p, row, n_slow):
    """Label, importance, base and tag; where the bar is (or the error), numbers left, error."""
    text, place = bytes_at(job.text), 0
    while True:
        p = _skip_blanks(text, p)
        if text[p] == _BAR:
            return p, n_slow, 0
        if text[p] == _NEWLINE:
            return p, n_slow, NO_BAR
        first = p
        while not _ends_token(job, text[p]):
            p += 1
        if text[first] == _APOSTROPHE or text[p] == _BAR:
            continue  # a tag
        if place == 0:
            n_slow, error = _read_label(job, first, p, row, n_slow)
            if error:
                return first, n_slow, error
        else:
            value, after, how = read_number(text, first)
            if how in (NO_NUMBER, TOO_BIG) or after != p or place > 2:
                return first, n_slow, BAD_WEIGHT
            if place == 1:
                if value < 0.0:
                    return first, n_slow, BAD_WEIGHT
                floats(job.weight)[row] = value
            elif value != 0.0:
                return first, n_slow, BAD_BASE
        place += 1


@inner
def _space_number(job, first, end):
    """Number of the namespace ``text[first:end]``, or −1 where there are too many."""
    key = np.int64(name_hash(bytes_at(job.text), first, end))
    keys, count = integers(job.space_keys), integers(job.n_spaces)[0]
    for number in range(1, count):
        if keys[number] == key:
            return number
    if count == MOST_SPACES:
        return -1
    text = bytes_at(job.text)
    state = hash_on(np.uint64(HASH_START), text, first, end)
    state = (state ^ np.uint64(_CARET)) * np.uint64(HASH_PRIME)
    keys[count], integers(job.space_states)[count] = key, np.int64(state)
    integers(job.space_first)[count], integers(job.space_end)[count] = first, end
    integers(job.n_spaces)[0] = count + 1
    return count


@inner
def _read_space(job, p):
    """The namespace that begins after the bar at `p`: where it ends, its number, weight, error."""
    text, first = bytes_at(job.text), p + 1
    p = first
    while not _ends_token(job, text[p]) and text[p] != _COLON:
        p += 1
    number = 0 if p == first else _space_number(job, first, p)
    if number < 0:
        return first, 0, 1.0, TOO_MANY_SPACES
    weight = 1.0
    if text[p] == _COLON:
        value = p + 1
        weight, p, how = read_number(text, value)
        if how in (NO_NUMBER, TOO_BIG) or not _ends_token(job, text[p]):
            return value, number, 1.0, BAD_VALUE
    return p, number, weight, 0


@inner
def _read_value(job, p):
    """The number after the colon at `p`: its value, where it ends, how; −1 where no token ends."""
    text = bytes_at(job.text)
    value, after, how = read_number(text, p + 1)
    if how == NO_NUMBER or not _ends_token(job, text[after]):
        return value, -1, how
    return value, after, how


@inner(inlined=True)
def _read_feature(job, p, space, weight, nnz, n_slow):
    """Read the feature at `p`: where it ends (or the error), the new counts, the error."""
    text, first, colon = bytes_at(job.text), p, -1
    state = np.uint64(integers(job.space_states)[space])
    value, end, how = 1.0, -1, DONE
    while end < 0:
        kind = _KINDS[text[p]]
        if kind >= job.stop:
            end = p
        elif kind == _IS_COLON:
            colon = p
            value, end, how = _read_value(job, p)
        if end < 0:
            state = (state ^ np.uint64(text[p])) * np.uint64(HASH_PRIME)
            p += 1
    if end == p and colon >= 0:  # what follows the last colon is no number
        if not is_missing(text, colon + 1, p):
            return colon + 1, nnz, n_slow, BAD_VALUE
        value, p = np.nan, colon
        state = hash_on(np.uint64(integers(job.space_states)[space]), text, first, colon)
    if p == first:
        return first, nnz, n_slow, NO_NAME
    if how == TOO_BIG:
        return colon + 1, nnz, n_slow, BAD_VALUE
    if how == UNDECIDED and weight == 1.0:  # a product is rounded once more anyway
        integers(job.slow_at)[n_slow], integers(job.slow_slot)[n_slow] = colon + 1, nnz
        n_slow += 1
    number = word_number(job.words, hashed_name(state), space, first, p)
    if number < 0:
        return first, nnz, n_slow, FULL
    integers(job.codes)[nnz] = number
    floats(job.data)[nnz] = value * weight
    return end, nnz + 1, n_slow, 0


@inner
def _read_features(job, p, nnz, n_slow):
    """Read namespaces and features up to the end of the line; returns as `_read_feature`."""
    text, space, weight = bytes_at(job.text), 0, 1.0
    while True:
        p = _skip_blanks(text, p)
        if text[p] == _NEWLINE:
            return p, nnz, n_slow, 0
        if job.bars and text[p] == _BAR:
            p, space, weight, error = _read_space(job, p)
        elif not job.bars and text[p] == _HASH:
            while text[p] != _NEWLINE:
                p += 1
            error = 0
        else:
            p, nnz, n_slow, error = _read_feature(job, p, space, weight, nnz, n_slow)
        if error:
            return p, nnz, n_slow, error


@inner
def _read_first(job, p, row, n_slow):
    """The label of a line without bars, if it has one; returns as `_read_before_bar`."""
    text, first, plain = bytes_at(job.text), p, True
    while not _ends_token(job, text[p]):
        plain = plain and text[p] != _COLON and text[p] != _EQUALS
        p += 1
    if job.labelled == NEVER or (job.labelled == PERHAPS and not plain):
        return first, n_slow, 0
    n_slow, error = _read_label(job, first, p, row, n_slow)
    if error:
        return first, n_slow, error
    p = _skip_blanks(text, p)
    if text[p] == 113 and text[p + 1] == 105 and text[p + 2] == 100 and text[p + 3] == _COLON:
        while not _ends_token(job, text[p]):
            p += 1
    return p, n_slow, 0


@inner
def _has_bar(job, p):
    text = bytes_at(job.text)
    while text[p] != _NEWLINE and text[p] != _BAR:
        p += 1
    return text[p] == _BAR


@inner
def _read_row(job, p, row, nnz, n_slow):
    floats(job.y)[row], integers(job.label)[row], floats(job.weight)[row] = np.nan, -1, 1.0
    if job.bars:
        p, n_slow, error = _read_before_bar(job, p, row, n_slow)
        if error and error != FULL and not _has_bar(job, p):
            return p, nnz, n_slow, NO_BAR
    else:
        p, n_slow, error = _read_first(job, p, row, n_slow)
    if error:
        return p, nnz, n_slow, error
    return _read_features(job, p, nnz, n_slow)


@entry("void(struct*)")
def _parse_named(job):
    job = unpacked(NamedJob, job)
    text, indptr, counts = bytes_at(job.text), integers(job.indptr), integers(job.counts)
    p, row, nnz, n_slow, n_bad = 0, 0, 0, 0, 0
    indptr[0] = 0
    while p < job.size:
        p = _skip_blanks(text, p)
        if text[p] == _NEWLINE:
            p += 1
            continue
        if text[p] == _HASH and not job.bars:
            while text[p] != _NEWLINE:
                p += 1
            p += 1
            continue
        integers(job.starts)[row] = p
        p, new_nnz, new_slow, error = _read_row(job, p, row, nnz, n_slow)
        if error:
            if n_bad < job.most_bad:
                integers(job.bad)[2 * n_bad], integers(job.bad)[2 * n_bad + 1] = p, error
            n_bad += 1
            if error == FULL or not job.lenient:
                counts[4] = error == FULL
                break
            while text[p] != _NEWLINE:
                p += 1
        else:
            nnz, n_slow = new_nnz, new_slow
            row += 1
            indptr[row] = nnz
        p += 1
    counts[0], counts[1], counts[2], counts[3] = row, nnz, n_slow, n_bad


def parse_named(job: NamedJob) -> None:
    """Read all lines of a text into arrays."""
    _parse_named(packed(job))
