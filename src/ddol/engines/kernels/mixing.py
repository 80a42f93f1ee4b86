"""Messages of agents: what one weight vector sends, how messages are averaged, and how it takes them.

Statistics of features, the first rows and scalars of a message, are left out of exchanges that are not
sampled.
"""

from __future__ import annotations

import math

import numpy as np

from ddol.compiled import call_void, floats, inner, integers
from ddol.engines.kernels.layout import (
    FROM_MESSAGE,
    FROM_MESSAGE_ALL,
    FROM_STATISTICS,
    FROM_STATISTICS_ALL,
    LINEAR,
    LOG,
    ROBUST,
    TO_MESSAGE,
    TO_MESSAGE_ALL,
    TO_STATISTICS,
    TO_STATISTICS_ALL,
    part,
)
from ddol.update.sampling import samples


@inner(inlined=True)
def unit_of(worker):
    """Numbers that one weight vector sends: rows of D, then scalars."""
    return unit_from(worker, 0, 0)


@inner(inlined=True)
def unit_from(worker, row, scalar):
    """The same, where the first rows and scalars are left out."""
    shape = worker.shape
    scalars = shape.linear_scalars + shape.largest_scalars - scalar
    return (shape.message_rows - row) * shape.D + scalars


@inner(inlined=True)
def sent_scalars(worker):
    """Scalars that one weight vector sends."""
    return worker.shape.linear_scalars + worker.shape.largest_scalars


@inner(inlined=True)
def left_out(worker, exchange):
    """First rows and first scalars that an exchange leaves out."""
    shape = worker.shape
    if not shape.sampled or samples(np.float64(exchange)):
        return 0, 0
    return shape.statistics, shape.counts


@inner
def copy_numbers(source, target, n):
    """Copy n numbers from one address to another."""
    for i in range(n):
        floats(target)[i] = floats(source)[i]


@inner
def write_vector(worker, w, s, index, n, row, scalar, out):
    """A message from a row and a scalar on, of n features: those listed at `index`, or the first."""
    shape, p = worker.shape, worker.rules.p
    if row < shape.statistics:
        to = TO_STATISTICS if index != 0 else TO_STATISTICS_ALL
        call_void(part(worker, to), (w, s, p, index, n, shape.D, out))
        out += 8 * shape.statistics * n
        row = shape.statistics
    to = TO_MESSAGE if index != 0 else TO_MESSAGE_ALL
    call_void(part(worker, to), (w, s, p, index, n, shape.D, out))
    out += 8 * (shape.message_rows - row) * n
    copy_numbers(s + 8 * scalar, out, sent_scalars(worker) - scalar)


@inner
def take_rows(worker, w, s, index, n, row, averaged):
    """Take averaged rows from `row` on as those of n features."""
    shape, p, statistics = worker.shape, worker.rules.p, averaged
    if row < shape.statistics:
        averaged += 8 * shape.statistics * n
    back = FROM_MESSAGE if index != 0 else FROM_MESSAGE_ALL
    call_void(part(worker, back), (w, s, p, index, n, shape.D, averaged))
    if row < shape.statistics:
        back = FROM_STATISTICS if index != 0 else FROM_STATISTICS_ALL
        call_void(part(worker, back), (w, s, p, index, n, shape.D, statistics))


@inner
def take_scalars(worker, s, n, row, scalar, averaged):
    """Take averaged scalars, which stand behind rows of n features."""
    place = averaged + 8 * (worker.shape.message_rows - row) * n
    copy_numbers(place, s + 8 * scalar, sent_scalars(worker) - scalar)


@inner
def _sum_weighted(first, stride, columns, weights, count, n, out):
    """The sum of rows, each times its weight: three at a time, so that sums wait in registers."""
    mixed, j = floats(out), 0
    while j < count:
        a, sent = floats(weights)[j], floats(first + integers(columns)[j] * stride)
        if j + 2 < count and a != 0.0 and floats(weights)[j + 1] * floats(weights)[j + 2] != 0.0:
            b, second = floats(weights)[j + 1], floats(first + integers(columns)[j + 1] * stride)
            c, third = floats(weights)[j + 2], floats(first + integers(columns)[j + 2] * stride)
            if j == 0:
                for d in range(n):
                    mixed[d] = 0.0 + a * sent[d] + b * second[d] + c * third[d]
            else:
                for d in range(n):
                    mixed[d] = mixed[d] + a * sent[d] + b * second[d] + c * third[d]
            j += 3
            continue
        if j == 0:
            for d in range(n):
                mixed[d] = 0.0
        if a != 0.0:
            for d in range(n):
                mixed[d] += a * sent[d]
        j += 1


@inner
def mix_numbers(first, stride, columns, weights, count, mode, n, out):
    """The average of n numbers over `count` senders: row columns[j] stands at first + columns[j]·stride."""
    mixed = floats(out)
    if mode == LINEAR:
        _sum_weighted(first, stride, columns, weights, count, n, out)
        return
    for d in range(n):
        mixed[d] = -math.inf
    for j in range(count):
        sent, weight = floats(first + integers(columns)[j] * stride), floats(weights)[j]
        if weight == 0.0:
            continue
        for d in range(n):
            mixed[d] = max(mixed[d], sent[d])
    if mode != LOG:
        return
    for d in range(n):
        total = 0.0
        for j in range(count):
            weight = floats(weights)[j]
            if weight > 0.0:
                sent = floats(first + integers(columns)[j] * stride)
                total += weight * math.exp(sent[d] - mixed[d])
        mixed[d] += math.log(total)


@inner(inlined=True)
def alike(worker, i, n, scalar):
    """Neighbouring rows of n features, then scalars, that are averaged in the same way are one longer row.

    Its first is the i-th of them; returns how many numbers it has, and which comes after it. The first
    scalars are left out.
    """
    modes, rows, size = integers(worker.links.modes), worker.shape.message_rows, 0
    mode, kinds = modes[i], rows + sent_scalars(worker)
    while i < kinds and modes[i] == mode and (size == 0 or part(worker, ROBUST) == 0):
        size += n if i < rows else 1
        i += 1
        if i == rows:
            i += scalar
    return size, i


@inner
def mix_message(worker, first, stride, columns, weights, count, n, row, scalar):
    """A message from a row and a scalar on, n features each, averaged over senders into `mixed`."""
    shape, i, place = worker.shape, row, 0
    if worker.links.linear:
        size = (shape.message_rows - row) * n + sent_scalars(worker) - scalar
        mix_numbers(first, stride, columns, weights, count, LINEAR, size, worker.scratch.mixed)
        return
    while i < shape.message_rows + sent_scalars(worker):
        mode = integers(worker.links.modes)[i]
        size, i = alike(worker, i, n, scalar)
        out = worker.scratch.mixed + 8 * place
        mix_numbers(first + 8 * place, stride, columns, weights, count, mode, size, out)
        place += size
