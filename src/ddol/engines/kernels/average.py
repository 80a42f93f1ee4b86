"""Neighbours exchange what they average, and average it.

Within one worker messages are made of some features of all agents at a time, as many as stay in the
cache, and only of features that some agent has met. Between workers they are whole.
"""

from __future__ import annotations

import math

from ddol.compiled import call_int, call_void, floats, inner, integers
from ddol.engines.kernels.layout import (
    FROM_MESSAGE,
    FROM_MESSAGE_ALL,
    LINEAR,
    LOG,
    TO_MESSAGE,
    TO_MESSAGE_ALL,
    WEIGHTS_ALL,
    part,
    vector_at,
)
from ddol.engines.kernels.update import finish


@inner(inlined=True)
def unit_of(worker):
    """Numbers that one weight vector sends: rows of D, then scalars."""
    shape = worker.shape
    return shape.message_rows * shape.D + shape.linear_scalars + shape.largest_scalars


@inner(inlined=True)
def _sent_scalars(worker):
    return worker.shape.linear_scalars + worker.shape.largest_scalars


@inner
def _copy_numbers(source, target, n):
    for i in range(n):
        floats(target)[i] = floats(source)[i]


@inner
def _add_weighted(first, stride, columns, weights, count, n, out):
    """Add rows, each times its weight: three at a time where there are, so that sums wait in registers."""
    mixed, j = floats(out), 0
    while j < count:
        a, sent = floats(weights)[j], floats(first + integers(columns)[j] * stride)
        if j + 2 < count and a != 0.0 and floats(weights)[j + 1] * floats(weights)[j + 2] != 0.0:
            b, second = floats(weights)[j + 1], floats(first + integers(columns)[j + 1] * stride)
            c, third = floats(weights)[j + 2], floats(first + integers(columns)[j + 2] * stride)
            for d in range(n):
                mixed[d] = mixed[d] + a * sent[d] + b * second[d] + c * third[d]
            j += 3
            continue
        if a != 0.0:
            for d in range(n):
                mixed[d] += a * sent[d]
        j += 1


@inner
def mix_numbers(first, stride, columns, weights, count, mode, n, out):
    """The average of n numbers over `count` senders: row columns[j] stands at first + columns[j]·stride."""
    mixed = floats(out)
    for d in range(n):
        mixed[d] = 0.0 if mode == LINEAR else -math.inf
    if mode == LINEAR:
        _add_weighted(first, stride, columns, weights, count, n, out)
        return
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


@inner
def mix_message(worker, first, stride, columns, weights, count, n):
    """Rows of a message, n numbers each, averaged over senders into `mixed`."""
    modes, i, place = integers(worker.links.modes), 0, 0
    while i < worker.shape.message_rows:
        # Neighbouring rows that are averaged in the same way are one longer row.
        mode, size = modes[i], 0
        while i < worker.shape.message_rows and modes[i] == mode:
            size += n
            i += 1
        out = worker.scratch.mixed + 8 * place
        mix_numbers(first + 8 * place, stride, columns, weights, count, mode, size, out)
        place += size


@inner
def mix_scalars(worker, first, stride, columns, weights, count, out):
    """Scalars of a message, averaged over senders."""
    modes = integers(worker.links.modes)
    for i in range(_sent_scalars(worker)):
        mode = modes[worker.shape.message_rows + i]
        mix_numbers(first + 8 * i, stride, columns, weights, count, mode, 1, out + 8 * i)


# --- within one worker ---------------------------------------------------------------------------


@inner
def _mean_here(worker, copies, size, n):
    """Complete graph, equal weights: the mean, or maximum, of all copies in `mixed`."""
    mixed, modes = floats(worker.scratch.mixed), integers(worker.links.modes)
    weight = 1.0 / copies
    for i in range(worker.shape.message_rows):
        linear = modes[i] == LINEAR
        for d in range(i * n, (i + 1) * n):
            mixed[d] = 0.0 if linear else -math.inf
        for copy in range(copies):
            sent = floats(worker.links.packed + 8 * copy * size)
            if linear:
                for d in range(i * n, (i + 1) * n):
                    mixed[d] += weight * sent[d]
            else:
                for d in range(i * n, (i + 1) * n):
                    mixed[d] = max(mixed[d], sent[d])


@inner
def _exchange_features(worker, k, r, index, lo, n):
    """Average n features of every copy's k-th weight vector: those listed at `index`, or from lo on."""
    shape, links, p = worker.shape, worker.links, worker.rules.p
    listed = index != 0
    to, back = (TO_MESSAGE, FROM_MESSAGE) if listed else (TO_MESSAGE_ALL, FROM_MESSAGE_ALL)
    shift, size = 0 if listed else 8 * lo, shape.message_rows * n
    for copy in range(shape.copies):
        w, s = vector_at(worker, copy, k)
        out = links.packed + 8 * copy * size
        call_void(part(worker, to), (w + shift, s, p, index, n, shape.D, out))
    if links.complete:
        _mean_here(worker, shape.copies, size, n)
    starts = integers(links.starts + 8 * (r if links.matrices > 1 else 0) * (shape.agents + 1))
    for copy in range(shape.copies):
        w, s = vector_at(worker, copy, k)
        if not links.complete:
            first, count = starts[copy], starts[copy + 1] - starts[copy]
            columns, weights = links.columns + 8 * first, links.weights + 8 * first
            mix_message(worker, links.packed, 8 * size, columns, weights, count, n)
        arguments = (w + shift, s, p, index, n, shape.D, worker.scratch.mixed)
        call_void(part(worker, back), arguments)


@inner
def _mean_scalars(worker, k, count):
    """Complete graph, equal weights: the mean, or maximum, of all copies' scalars."""
    modes, copies = integers(worker.links.modes), worker.shape.copies
    weight = 1.0 / copies
    for i in range(count):
        linear = modes[worker.shape.message_rows + i] == LINEAR
        total = 0.0 if linear else -math.inf
        for copy in range(copies):
            sent = floats(worker.links.sent_scalars)[copy * count + i]
            total = total + weight * sent if linear else max(total, sent)
        for copy in range(copies):
            floats(vector_at(worker, copy, k)[1])[i] = total


@inner
def _exchange_scalars(worker, k, r):
    """Average the scalars of every copy's k-th weight vector."""
    shape, links, count = worker.shape, worker.links, _sent_scalars(worker)
    if count == 0:
        return
    for copy in range(shape.copies):
        _copy_numbers(vector_at(worker, copy, k)[1], links.sent_scalars + 8 * copy * count, count)
    if links.complete:
        _mean_scalars(worker, k, count)
        return
    starts = integers(links.starts + 8 * (r if links.matrices > 1 else 0) * (shape.agents + 1))
    for copy in range(shape.copies):
        first, out = starts[copy], vector_at(worker, copy, k)[1]
        columns, weights = links.columns + 8 * first, links.weights + 8 * first
        among = starts[copy + 1] - first
        mix_scalars(worker, links.sent_scalars, 8 * count, columns, weights, among, out)


@inner
def _exchange_here(worker, r):
    """Average all that agents of one worker send."""
    shape, scratch, block = worker.shape, worker.scratch, worker.links.block
    features = integers(scratch.n_touched)[0] if scratch.touched != 0 else shape.D
    for k in range(shape.states):
        _exchange_scalars(worker, k, r)
        lo = 0
        while lo < features:
            n = min(block, features - lo)
            index = scratch.touched + 4 * lo if scratch.touched != 0 else 0
            _exchange_features(worker, k, r, index, lo, n)
            lo += n


# --- between workers -----------------------------------------------------------------------------


@inner
def write_message(worker, copy, out):
    """Write all that one copy sends."""
    shape = worker.shape
    for k in range(shape.states):
        w, s = vector_at(worker, copy, k)
        place = out + 8 * k * unit_of(worker)
        arguments = (w, s, worker.rules.p, 0, shape.D, shape.D, place)
        call_void(part(worker, TO_MESSAGE_ALL), arguments)
        _copy_numbers(s, place + 8 * shape.message_rows * shape.D, _sent_scalars(worker))


@inner
def _adopt_rows(worker, w, s, averaged):
    """Take averaged rows as those of one weight vector, as many features at a time as within one worker.

    Sums over features then come out the same, to the bit, wherever agents are.
    """
    shape, D, block = worker.shape, worker.shape.D, worker.links.block
    room = worker.scratch.mixed + 8 * shape.states * unit_of(worker)
    lo = 0
    while lo < D:
        n, rows = min(block, D - lo), averaged + 8 * lo
        if n < D and shape.message_rows > 1:
            rows = room
            for i in range(shape.message_rows):
                _copy_numbers(averaged + 8 * (i * D + lo), room + 8 * i * n, n)
        call_void(part(worker, FROM_MESSAGE_ALL), (w + 8 * lo, s, worker.rules.p, 0, n, D, rows))
        lo += n


@inner
def adopt_message(worker, copy, averaged):
    """Take what was averaged as the state of one copy."""
    shape = worker.shape
    for k in range(shape.states):
        w, s = vector_at(worker, copy, k)
        place = averaged + 8 * k * unit_of(worker)
        _copy_numbers(place + 8 * shape.message_rows * shape.D, s, _sent_scalars(worker))
        _adopt_rows(worker, w, s, place)


@inner
def _gather_all(worker, packed, size):
    """Sums over all agents in `mixed` and, where an update asks for them, maxima in `largest`."""
    scratch, links = worker.scratch, worker.links
    sums, largest = floats(scratch.mixed), floats(scratch.largest)
    for d in range(size):
        sums[d] = 0.0
        if scratch.largest != 0:
            largest[d] = -math.inf
    for copy in range(worker.shape.copies):
        sent = floats(packed + 8 * (links.own + copy) * size)
        for d in range(size):
            sums[d] += sent[d]
        if scratch.largest != 0:
            for d in range(size):
                largest[d] = max(largest[d], sent[d])
    status = call_int(links.reduce, (links.context, scratch.mixed, size))
    if status == 0 and scratch.largest != 0:
        status = call_int(links.reduce_max, (links.context, scratch.largest, size))
    return status


@inner
def _average_all(worker, packed):
    """Complete graph, equal weights: one mean, or maximum, for everybody."""
    shape = worker.shape
    status = _gather_all(worker, packed, shape.states * unit_of(worker))
    if status != 0:
        return status
    mean, largest, place = floats(worker.scratch.mixed), floats(worker.scratch.largest), 0
    for _ in range(shape.states):
        for i in range(shape.message_rows + _sent_scalars(worker)):
            end = place + (shape.D if i < shape.message_rows else 1)
            linear = integers(worker.links.modes)[i] == LINEAR
            for d in range(place, end):
                mean[d] = mean[d] / worker.rules.n_agents if linear else largest[d]
            place = end
    for copy in range(shape.copies):
        adopt_message(worker, copy, worker.scratch.mixed)
    return 0


@inner
def mix_copy(worker, copy, packed, columns, weights, count):
    """One copy becomes the average of whole messages, which are rows of `packed`."""
    shape, stride = worker.shape, 8 * worker.shape.states * unit_of(worker)
    for k in range(shape.states):
        w, s = vector_at(worker, copy, k)
        first = packed + 8 * k * unit_of(worker)
        mix_message(worker, first, stride, columns, weights, count, shape.D)
        there = first + 8 * shape.message_rows * shape.D
        mix_scalars(worker, there, stride, columns, weights, count, s)
        _adopt_rows(worker, w, s, worker.scratch.mixed)


@inner
def _exchange_across(worker, turn, r):
    """Average with agents of other workers; 0, or the communicator's error."""
    shape, links = worker.shape, worker.links
    size = shape.states * unit_of(worker)
    packed = links.packed + 8 * (turn % links.buffers) * links.buffer_rows * size
    for copy in range(shape.copies):
        write_message(worker, copy, packed + 8 * (links.own + copy) * size)
    if links.complete:
        return _average_all(worker, packed)
    status = call_int(links.exchange, (links.context, packed, size))
    if status != 0:
        return status
    starts = integers(links.starts + 8 * (r if links.matrices > 1 else 0) * (shape.agents + 1))
    for copy in range(shape.copies):
        first, count = starts[copy], starts[copy + 1] - starts[copy]
        columns, weights = links.columns + 8 * first, links.weights + 8 * first
        mix_copy(worker, copy, packed, columns, weights, count)
    return 0


@inner
def average_copies(worker, examples, r, eta):
    """Let neighbours average where the period says so."""
    t, period = examples.t + r, worker.rules.period
    if worker.rules.n_agents == 1 or t % period != 0:
        return 0
    if period > 1:
        finish(worker, t, eta)
    if worker.links.workers > 1:
        return _exchange_across(worker, t // period, r)
    _exchange_here(worker, r)
    return 0


@inner
def keep_sum(worker):
    """Add the weights of every copy to their sum over the rounds."""
    D, mixed = worker.shape.D, worker.scratch.mixed
    for copy in range(worker.shape.copies):
        for k in range(worker.shape.states):
            w, s = vector_at(worker, copy, k)
            call_void(part(worker, WEIGHTS_ALL), (w, s, worker.rules.p, 0, D, D, mixed))
            sums = floats(worker.memory.sums + 8 * (copy * worker.shape.states + k) * D)
            for d in range(D):
                sums[d] += floats(mixed)[d]
