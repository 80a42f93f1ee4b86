"""Neighbours exchange what they average, and average it.

Within one worker messages are made of some features of all agents at a time, as many as stay in the
cache, and only of features that some agent has met. Between workers they are of all features. The statistics
of features, the first rows and scalars of a message, are left out of exchanges that are not sampled.
"""

from __future__ import annotations

import math

import numpy as np

from ddol.compiled import call_int, call_void, floats, inner, integers
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
    WEIGHTS_ALL,
    in_lines,
    part,
    vector_at,
)
from ddol.engines.kernels.update import finish
from ddol.update.sampling import samples
from ddol.update.trust import BOXES, SCALARS, THERE, WANTS, passes


@inner(inlined=True)
def unit_of(worker):
    """Numbers that one weight vector sends: rows of D, then scalars."""
    return _unit_from(worker, 0, 0)


@inner(inlined=True)
def _unit_from(worker, row, scalar):
    """The same, where the first rows and scalars are left out."""
    shape = worker.shape
    scalars = shape.linear_scalars + shape.largest_scalars - scalar
    return (shape.message_rows - row) * shape.D + scalars


@inner(inlined=True)
def _sent_scalars(worker):
    return worker.shape.linear_scalars + worker.shape.largest_scalars


@inner(inlined=True)
def left_out(worker, exchange):
    """First rows and first scalars that an exchange leaves out."""
    shape = worker.shape
    if not shape.sampled or samples(np.float64(exchange)):
        return 0, 0
    return shape.statistics, shape.counts


@inner
def _copy_numbers(source, target, n):
    for i in range(n):
        floats(target)[i] = floats(source)[i]


@inner
def _write_vector(worker, w, s, index, n, row, scalar, out):
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
    _copy_numbers(s + 8 * scalar, out, _sent_scalars(worker) - scalar)


@inner
def _take_rows(worker, w, s, index, n, row, averaged):
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
def _take_scalars(worker, s, n, row, scalar, averaged):
    """Take averaged scalars, which stand behind rows of n features."""
    place = averaged + 8 * (worker.shape.message_rows - row) * n
    _copy_numbers(place, s + 8 * scalar, _sent_scalars(worker) - scalar)


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
    mode, kinds = modes[i], rows + _sent_scalars(worker)
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
        size = (shape.message_rows - row) * n + _sent_scalars(worker) - scalar
        mix_numbers(first, stride, columns, weights, count, LINEAR, size, worker.scratch.mixed)
        return
    while i < shape.message_rows + _sent_scalars(worker):
        mode = integers(worker.links.modes)[i]
        size, i = alike(worker, i, n, scalar)
        out = worker.scratch.mixed + 8 * place
        mix_numbers(first + 8 * place, stride, columns, weights, count, mode, size, out)
        place += size


# --- within one worker ---------------------------------------------------------------------------


@inner
def _mean_here(worker, stride, n, row, scalar):
    """Complete graph, equal weights: the mean, or maximum, of all copies in `mixed`."""
    mixed, i, place = floats(worker.scratch.mixed), row, 0
    copies, kinds = worker.shape.copies, worker.shape.message_rows + _sent_scalars(worker)
    weight = 1.0 / copies
    while i < kinds:
        linear = integers(worker.links.modes)[i] == LINEAR
        size, i = alike(worker, i, n, scalar)
        for d in range(place, place + size):
            mixed[d] = 0.0 if linear else -math.inf
        for copy in range(copies):
            sent = floats(worker.links.packed + copy * stride)
            if linear:
                for d in range(place, place + size):
                    mixed[d] += weight * sent[d]
            else:
                for d in range(place, place + size):
                    mixed[d] = max(mixed[d], sent[d])
        place += size


@inner(inlined=True)
def _stride_of(worker, n, row, scalar):
    """Bytes from one message of n features, from a row and a scalar on, to the next."""
    rows = (worker.shape.message_rows - row) * n
    return 8 * in_lines(rows + _sent_scalars(worker) - scalar)


@inner(inlined=True)
def writes_early(worker):
    """Whether an agent's message is written as soon as it has learned, while all that it says is near."""
    shape, links, rules = worker.shape, worker.links, worker.rules
    if links.workers > 1 or rules.n_agents == 1 or rules.period > 1 or shape.wires > 0:
        return False
    if part(worker, ROBUST) != 0:
        return False
    return shape.states == 1 and links.block == shape.D and worker.scratch.touched == 0


@inner(inlined=True)
def write_early(worker, copy, row, scalar):
    """Write all that one copy sends, from some row and scalar on, to where `_exchange_here` finds it."""
    (w, s), D = vector_at(worker, copy, 0), worker.shape.D
    out = worker.links.packed + copy * _stride_of(worker, D, row, scalar)
    _write_vector(worker, w, s, 0, D, row, scalar, out)


@inner
def _exchange_features(worker, k, r, index, lo, n, row, scalar):
    """Average n features of every copy's k-th weight vector: those listed at `index`, or from lo on.

    Scalars from one on are averaged with them.
    """
    shape, links, mixed = worker.shape, worker.links, worker.scratch.mixed
    shift, stride = 0 if index != 0 else 8 * lo, _stride_of(worker, n, row, scalar)
    if not writes_early(worker):
        for copy in range(shape.copies):
            w, s = vector_at(worker, copy, k)
            _write_vector(worker, w + shift, s, index, n, row, scalar, links.packed + copy * stride)
    if links.complete:
        _mean_here(worker, stride, n, row, scalar)
    starts = integers(links.starts + 8 * (r if links.matrices > 1 else 0) * (shape.agents + 1))
    for copy in range(shape.copies):
        w, s = vector_at(worker, copy, k)
        if not links.complete:
            first, count = starts[copy], starts[copy + 1] - starts[copy]
            columns, weights = links.columns + 8 * first, links.weights + 8 * first
            mix_message(worker, links.packed, stride, columns, weights, count, n, row, scalar)
        _take_scalars(worker, s, n, row, scalar, mixed)
        _take_rows(worker, w + shift, s, index, n, row, mixed)


@inner
def _exchange_here(worker, exchange, r):
    """Average all that agents of one worker send; scalars go with the first features."""
    shape, scratch, block = worker.shape, worker.scratch, worker.links.block
    row, first = left_out(worker, exchange)
    features = integers(scratch.n_touched)[0] if scratch.touched != 0 else shape.D
    for k in range(shape.states):
        lo, scalar = 0, first
        while lo < features or lo == 0:
            n = min(block, features - lo)
            index = scratch.touched + 4 * lo if scratch.touched != 0 else 0
            _exchange_features(worker, k, r, index, lo, n, row, scalar)
            lo, scalar = lo + max(n, 1), _sent_scalars(worker)


# --- between workers -----------------------------------------------------------------------------


@inner
def write_message(worker, copy, out):
    """Write all that one copy sends."""
    _write_from(worker, copy, 0, 0, out)


@inner
def _write_from(worker, copy, row, scalar, out):
    """Write what one copy sends, from some row and scalar on."""
    shape = worker.shape
    for k in range(shape.states):
        w, s = vector_at(worker, copy, k)
        place = out + 8 * k * _unit_from(worker, row, scalar)
        _write_vector(worker, w, s, 0, shape.D, row, scalar, place)


@inner
def _adopt_rows(worker, w, s, row, averaged):
    """Take averaged rows as those of one weight vector, as many features at a time as within one worker.

    Sums over features then come out the same, to the bit, wherever agents are.
    """
    shape, D, block = worker.shape, worker.shape.D, worker.links.block
    room = worker.scratch.mixed + 8 * shape.states * unit_of(worker)
    lo, count = 0, shape.message_rows - row
    while lo < D:
        n, rows = min(block, D - lo), averaged + 8 * lo
        if n < D and count > 1:
            rows = room
            for i in range(count):
                _copy_numbers(averaged + 8 * (i * D + lo), room + 8 * i * n, n)
        _take_rows(worker, w + 8 * lo, s, 0, n, row, rows)
        lo += n


@inner
def adopt_message(worker, copy, row, scalar, averaged, whole):
    """Take what was averaged, from some row and scalar on, as the state of one copy.

    A `whole` message has those before them, too.
    """
    shape = worker.shape
    unit = unit_of(worker) if whole else _unit_from(worker, row, scalar)
    for k in range(shape.states):
        w, s = vector_at(worker, copy, k)
        rows = averaged + 8 * (k * unit + (row * shape.D if whole else 0))
        scalars = rows + 8 * ((shape.message_rows - row) * shape.D + (scalar if whole else 0))
        _copy_numbers(scalars, s + 8 * scalar, _sent_scalars(worker) - scalar)
        _adopt_rows(worker, w, s, row, rows)


@inner
def write_columns(worker, copy, index, n, out):
    """Write what one copy sends of n features: those listed at `index`, or all."""
    shape = worker.shape
    unit = shape.message_rows * n + _sent_scalars(worker)
    for k in range(shape.states):
        w, s = vector_at(worker, copy, k)
        _write_vector(worker, w, s, index, n, 0, 0, out + 8 * k * unit)


@inner
def adopt_columns(worker, copy, index, n, averaged):
    """Take what `write_columns` wrote, averaged, as the state of one copy."""
    shape = worker.shape
    unit = shape.message_rows * n + _sent_scalars(worker)
    for k in range(shape.states):
        (w, s), place = vector_at(worker, copy, k), averaged + 8 * k * unit
        _take_scalars(worker, s, n, 0, 0, place)
        _take_rows(worker, w, s, index, n, 0, place)


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
def _average_all(worker, packed, row, scalar):
    """Complete graph, equal weights: one mean, or maximum, for all agents."""
    shape, sent = worker.shape, _sent_scalars(worker)
    status = _gather_all(worker, packed, shape.states * _unit_from(worker, row, scalar))
    if status != 0:
        return status
    mean, largest, place = floats(worker.scratch.mixed), floats(worker.scratch.largest), 0
    for _ in range(shape.states):
        for i in range(row, shape.message_rows + sent):
            if shape.message_rows <= i < shape.message_rows + scalar:
                continue
            end = place + (shape.D if i < shape.message_rows else 1)
            linear = integers(worker.links.modes)[i] == LINEAR
            for d in range(place, end):
                mean[d] = mean[d] / worker.rules.n_agents if linear else largest[d]
            place = end
    for copy in range(shape.copies):
        adopt_message(worker, copy, row, scalar, worker.scratch.mixed, False)
    return 0


@inner
def _passed(worker, s, columns, count, own):
    """Whose messages a weight vector averages, by address: its own in the place of those that fail its
    tests."""
    heard = integers(worker.scratch.passed)
    for j in range(count):
        sender = integers(columns)[j]
        heard[j] = sender if sender == own or passes(box_of(worker, s, j)) else own
    return worker.scratch.passed


@inner(inlined=True)
def box_of(worker, s, wire):
    """What a weight vector knows of a neighbour."""
    shape = worker.shape
    return floats(s + 8 * (shape.box_scalar + BOXES + wire * shape.box_scalars))


@inner
def deliver(worker, w, s, wire, message, row, scalar):
    """Keep a neighbour's message, from some row and scalar on, to be tested on the next examples."""
    shape = worker.shape
    if floats(s + 8 * shape.box_scalar)[WANTS] == 0.0 and worker.rules.period == 1:
        return
    size, place = shape.box_rows * shape.D, shape.box_row + wire * shape.box_rows
    _copy_numbers(message + 8 * (shape.statistics - row) * shape.D, w + 8 * place * shape.D, size)
    box, numbers = box_of(worker, s, wire), message + 8 * (shape.message_rows - row) * shape.D
    for k in range(scalar, _sent_scalars(worker)):
        box[SCALARS + k] = floats(numbers)[k - scalar]
    box[THERE] = 1.0


@inner(inlined=True)
def gather(worker, message, weight, count, n):
    """Put a neighbour's numbers behind those of `count` others, for a robust average; how many there are."""
    _copy_numbers(message, worker.scratch.gathered + 8 * count * n, n)
    floats(worker.scratch.gathered + 8 * worker.shape.most_heard * worker.shape.D)[count] = weight
    return count + 1


@inner
def average_robustly(worker, own, count, n, out):
    """An agent's own n numbers and those that were gathered, averaged by a rule."""
    heard = worker.scratch.gathered
    weights = heard + 8 * worker.shape.most_heard * worker.shape.D
    room = weights + 8 * worker.shape.most_heard
    call_void(part(worker, ROBUST), (own, heard, weights, count, n, room, out))


@inner
def _mix_robustly(worker, first, stride, heard, columns, weights, count, own, row, scalar):
    """What `mix_message` does, where an agent has a rule of its own for sums."""
    i, place, D, mixed = row, 0, worker.shape.D, worker.scratch.mixed
    while i < worker.shape.message_rows + _sent_scalars(worker):
        mode = integers(worker.links.modes)[i]
        size, i = alike(worker, i, D, scalar)
        if mode != LINEAR:
            out = mixed + 8 * place
            mix_numbers(first + 8 * place, stride, heard, weights, count, mode, size, out)
        else:
            gathered = 0
            for j in range(count):
                if integers(columns)[j] != own:
                    message = first + integers(heard)[j] * stride + 8 * place
                    weight = floats(weights)[j]
                    gathered = gather(worker, message, weight, gathered, size)
            mine = first + own * stride + 8 * place
            average_robustly(worker, mine, gathered, size, mixed + 8 * place)
        place += size


@inner
def mix_copy(worker, copy, packed, columns, weights, count, row, scalar):
    """One copy becomes the average of messages from some row and scalar on, which are rows of `packed`."""
    shape, unit = worker.shape, _unit_from(worker, row, scalar)
    stride = 8 * shape.states * unit
    for k in range(shape.states):
        w, s = vector_at(worker, copy, k)
        first, heard = packed + 8 * k * unit, columns
        if shape.wires > 0:
            heard = _passed(worker, s, columns, count, worker.links.own + copy)
        if part(worker, ROBUST) == 0:
            mix_message(worker, first, stride, heard, weights, count, shape.D, row, scalar)
        else:
            own = worker.links.own + copy
            _mix_robustly(worker, first, stride, heard, columns, weights, count, own, row, scalar)
        for j in range(count if shape.wires > 0 else 0):
            if integers(columns)[j] != worker.links.own + copy:
                deliver(worker, w, s, j, first + integers(columns)[j] * stride, row, scalar)
        _take_scalars(worker, s, shape.D, row, scalar, worker.scratch.mixed)
        _adopt_rows(worker, w, s, row, worker.scratch.mixed)


@inner
def _exchange_across(worker, exchange, r):
    """Average with agents of other workers; 0, or the communicator's error."""
    shape, links = worker.shape, worker.links
    row, scalar = left_out(worker, exchange)
    size, most = shape.states * _unit_from(worker, row, scalar), shape.states * unit_of(worker)
    packed = links.packed + 8 * (exchange % links.buffers) * links.buffer_rows * most
    for copy in range(shape.copies):
        _write_from(worker, copy, row, scalar, packed + 8 * (links.own + copy) * size)
    if links.complete:
        return _average_all(worker, packed, row, scalar)
    status = call_int(links.exchange, (links.context, packed, size)) if links.workers > 1 else 0
    if status != 0:
        return status
    starts = integers(links.starts + 8 * (r if links.matrices > 1 else 0) * (shape.agents + 1))
    for copy in range(shape.copies):
        first, count = starts[copy], starts[copy + 1] - starts[copy]
        columns, weights = links.columns + 8 * first, links.weights + 8 * first
        mix_copy(worker, copy, packed, columns, weights, count, row, scalar)
    return 0


@inner
def average_copies(worker, examples, r, eta):
    """Let neighbours average where the period says so."""
    t, period = examples.t + r, worker.rules.period
    if worker.rules.n_agents == 1 or t % period != 0:
        return 0
    if period > 1:
        finish(worker, t, eta)
    if worker.links.workers > 1 or worker.shape.wires > 0 or part(worker, ROBUST) != 0:
        return _exchange_across(worker, t // period, r)
    _exchange_here(worker, t // period, r)
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
