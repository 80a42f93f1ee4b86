"""Rows that threads show each other without waiting: versions say whether a row that was read is whole."""

# Signatures say the types of compiled functions.
# mypy: disable-error-code=no-untyped-def

from __future__ import annotations

from ddol.compiled import (
    atomic_add,
    atomic_load,
    atomic_store,
    entry,
    floats,
    inner,
    integers,
    pause,
    yield_core,
)

STRIDE = 16
"""Words between two versions: threads that write to one line of memory wait for each other."""
_SPINS = 50


@inner
def publish(versions, i, source, target, size):
    """Write a row for others to read; its version is odd meanwhile, and 2 higher afterwards."""
    # Adding is a barrier in both directions: no number is written before or after its time.
    atomic_add(versions, STRIDE * i, 1)
    for d in range(size):
        floats(target)[d] = floats(source)[d]
    return (atomic_add(versions, STRIDE * i, 1) + 1) // 2


@inner
def read_newest(versions, i, source, target, size, known):
    """Copy a row that another thread may be writing, whole; how often it was written, 0 for never.

    Nothing is copied where that is `known` already.
    """
    spins = 0
    while True:
        before = atomic_load(versions, STRIDE * i)
        if before == 2 * known:
            return known
        if before % 2 == 0:
            for d in range(size):
                floats(target)[d] = floats(source)[d]
            if atomic_add(versions, STRIDE * i, 0) == before:
                return before // 2
        spins += 1
        if spins < _SPINS:
            pause()
        else:
            yield_core()


@entry("int64(int64, int64, int64, int64, int64)")
def publish_row(versions, i, source, target, size):
    """`publish`, for Python."""
    return publish(integers(versions), i, source, target, size)


@entry("void(int64, int64, int64, int64, int64, int64)")
def publish_as(versions, i, source, target, size, times):
    """Write a row that its agent has published `times` times elsewhere, unless a newer one is there."""
    words = integers(versions)
    if atomic_load(words, STRIDE * i) >= 2 * times:
        return
    atomic_store(words, STRIDE * i, 2 * times - 1)
    for d in range(size):
        floats(target)[d] = floats(source)[d]
    atomic_add(words, STRIDE * i, 1)


@entry("int64(int64, int64, int64, int64, int64)")
def read_row(versions, i, source, target, size):
    """`read_newest`, for Python."""
    return read_newest(integers(versions), i, source, target, size, -1)
