"""Where a row is, and asking for it before it is needed: steps wait for each other, memory need not."""

from __future__ import annotations

import numpy as np

from ddol.compiled import (
    copy_floats,
    copy_raised,
    floats,
    indices,
    inner,
    integers,
    prefetch,
    prefetch_far,
)
from ddol.engines.kernels.layout import FAR, MOST_FETCHED, SLOTS, rows_of


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


@inner(inlined=True)
def row_in(worker, examples, i, slot):
    """Addresses and length of a row that, if it begins with a 1, is in a slot."""
    x, index, n = stored_at(worker, examples, i)
    if examples.ones == 0:
        return x, index, n
    place = slot * worker.scratch.begun_size
    return worker.scratch.begun + 8 * place, worker.scratch.begun_index + 4 * place, 1 + n


@inner
def begin_row(worker, examples, i, slot):
    """Copy a row behind the 1 of a slot: eight values at a time, the last of which may be there already."""
    x, index, n = stored_at(worker, examples, i)
    out, out_index, _ = row_in(worker, examples, i, slot)
    out, out_index, sparse = out + 8, out_index + 4, examples.indptr != 0
    if n < 8:
        for j in range(n):
            floats(out)[j] = floats(x)[j]
            if sparse:
                indices(out_index)[j] = indices(index)[j] + np.uint32(1)
        return
    for j in range(0, n, 8):
        k = min(j, n - 8)
        copy_floats(x + 8 * k, out + 8 * k)
        if sparse:
            copy_raised(index + 4 * k, out_index + 4 * k)


@inner
def _begun(worker, examples, i):
    """A row behind its 1: copied to where the last few are, unless it is one of them."""
    slot, numbers = i & (SLOTS - 1), integers(worker.scratch.begun_rows)
    if numbers[slot] != i:
        numbers[slot] = i
        begin_row(worker, examples, i, slot)
    return row_in(worker, examples, i, slot)


@inner(inlined=True)
def forget_rows(worker, examples):
    """Rows of another block have the same numbers."""
    if examples.ones != 0:
        for slot in range(SLOTS):
            integers(worker.scratch.begun_rows)[slot] = -1


@inner(inlined=True)
def _ask(address, near):
    """Ask for a line of memory: into the nearest cache, or, as one of many, into the second."""
    if near:
        prefetch(address)
    else:
        prefetch_far(address)


@inner(inlined=True)
def _ask_all(address, size, near):
    """Ask for some bytes, which may begin and end anywhere in a line."""
    for begin in range(0, size, 64):
        _ask(address + begin, near)
    _ask(address + size - 1, near)


@inner(inlined=True)
def fetch(worker, examples, i, near):
    """Ask for a row that is to be read soon."""
    if i < 0:
        return
    x, index, n = stored_at(worker, examples, i)
    _ask_all(x, min(8 * n, MOST_FETCHED), near)
    if examples.indptr != 0:
        _ask_all(index, min(4 * n, MOST_FETCHED), near)


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
def wants_fetching(worker, examples):
    """Whether rows are asked for: the processor guesses which sparse row comes next, where no rows of
    other workers lie between, but fetches too little of a dense one."""
    return worker.links.workers > 1 or examples.indptr == 0
