"""Asking for rows before they are needed: steps wait for each other, memory need not."""

from __future__ import annotations

from ddol.compiled import inner, prefetch, prefetch_far
from ddol.engines.kernels.layout import COPIES, FAR, MOST_FETCHED, row_at, rows_of


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
    x, index, n = row_at(worker, examples, i)
    for line in range(0, min(8 * n, MOST_FETCHED), 64):
        _ask(x + line, near)
    if examples.indptr != 0:
        for line in range(0, min(4 * n, MOST_FETCHED), 64):
            _ask(index + line, near)


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
