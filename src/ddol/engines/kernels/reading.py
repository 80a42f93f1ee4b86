"""Where a row is, and asking for it before it is needed: steps wait for each other, memory need not."""

from __future__ import annotations

import numpy as np

from ddol.compiled import copy_words, floats, indices, inner, integers, prefetch, prefetch_far
from ddol.engines.kernels.layout import COPIES, FAR, MOST_FETCHED, SLOTS, rows_of


@inner(inlined=True)
def stored_at(worker, examples, i):
    """Addresses and length of a row as it is stored."""
    if examples.indptr == 0:
        n = worker.shape.D - examples.ones
        start = i * n
    else:
        start = integers(examples.indptr)[i]
        n = integers(examples.indptr)[i + 1] - start
    return examples.x + 8 * start, examples.features + 4 * start, n


@inner(inlined=True)
def row_at(worker, examples, i):
    """Addresses and length of a row, which may be looked at until another one is asked for."""
    if examples.ones == 0:
        return stored_at(worker, examples, i)
    return _begun(worker, examples, i)


@inner
def _copy_sparse(x, index, n, out, out_index):
    """Copy a sparse row, four numbers at a time, of which the last four may have been copied before."""
    values, columns = floats(x), indices(index)
    copy, moved, one = floats(out), indices(out_index), np.uint32(1)
    if n < 4:
        for j in range(n):
            copy[j], moved[j] = values[j], columns[j] + one
        return
    for j in range(0, n, 4):
        k = min(j, n - 4)
        a, b, c, d = values[k], values[k + 1], values[k + 2], values[k + 3]
        copy[k], copy[k + 1], copy[k + 2], copy[k + 3] = a, b, c, d
        e, f, g, h = columns[k], columns[k + 1], columns[k + 2], columns[k + 3]
        moved[k], moved[k + 1], moved[k + 2], moved[k + 3] = e + one, f + one, g + one, h + one


@inner
def _begun(worker, examples, i):
    """A row behind its 1: copied to where the last few are, unless it is one of them."""
    scratch, slot = worker.scratch, i & (SLOTS - 1)
    x, index, n = stored_at(worker, examples, i)
    out = scratch.begun + 8 * slot * scratch.begun_size
    out_index = scratch.begun_index + 4 * slot * scratch.begun_size
    if integers(scratch.begun_rows)[slot] != i:
        integers(scratch.begun_rows)[slot] = i
        if examples.indptr == 0:
            copy_words(x, out + 8, n)
        else:
            _copy_sparse(x, index, n, out + 8, out_index + 4)
    return out, out_index, 1 + n


@inner(inlined=True)
def forget_rows(worker, examples):
    """Rows of another block have the same numbers."""
    if examples.ones != 0:
        for slot in range(SLOTS):
            integers(worker.scratch.begun_rows)[slot] = -1


@inner(inlined=True)
def begin_next(worker, examples, i, following):
    """Copy the row behind row i while that is learned from, unless it would take its place."""
    if examples.ones != 0 and following >= 0 and (following ^ i) & (SLOTS - 1) != 0:
        _begun(worker, examples, following)


@inner(inlined=True)
def _ask(address, near):
    """Ask for a line of memory: into the nearest cache, or, as one of many, into the second."""
    if near:
        prefetch(address)
    else:
        prefetch_far(address)


@inner(inlined=True)
def fetch(worker, examples, i, near):
    """Ask for a row that is to be read soon."""
    if i < 0:
        return
    x, index, n = stored_at(worker, examples, i)
    for line in range(0, min(8 * n, MOST_FETCHED), 64):
        _ask(x + line, near)
    if examples.indptr != 0:
        for line in range(0, min(4 * n, MOST_FETCHED), 64):
            _ask(index + line, near)


@inner(inlined=True)
def fetch_place(examples, i):
    """Ask for what says where a row is, and for its answer."""
    if i >= 0:
        prefetch(examples.y + 8 * i)
        if examples.indptr != 0:
            prefetch(examples.indptr + 8 * i)


@inner(inlined=True)
def fetch_ahead(worker, examples, r, place):
    """Ask for the row that comes some agents later, in this round or the next one."""
    size, place = worker.shape.agents * worker.shape.batch, place + FAR
    if place >= size:
        r, place = r + 1, min(place - size, size - 1)
    if r < examples.rounds:
        i = rows_of(worker, examples, examples.predicted, r, 0)[place]
        fetch(worker, examples, i, False)


@inner(inlined=True)
def jumps(worker, examples):
    """Whether a processor cannot guess which row comes next: other rows or weights lie between."""
    copies = worker.rules.sharing == COPIES and worker.rules.n_agents > 1
    return worker.links.workers > 1 or (copies and examples.indptr == 0)
