"""Neighbours exchange what they average, and average it.

Within one worker messages are made of some features of all agents at a time, as many as stay in the
cache, and only of features that some agent has met; where all are exchanged at once, an agent averages as
soon as all that it hears have written. Between workers they are of all features.
"""

from __future__ import annotations

import math

from ddol.compiled import call_int, call_void, floats, inner, integers
from ddol.engines.kernels.layout import (
    FINISH,
    LINEAR,
    ROBUST,
    WEIGHTS_ALL,
    in_lines,
    own_rate,
    part,
    vector_at,
)
from ddol.engines.kernels.mixing import (
    alike,
    copy_numbers,
    left_out,
    mix_message,
    mix_numbers,
    sent_scalars,
    take_rows,
    take_scalars,
    unit_from,
    unit_of,
    write_vector,
)
from ddol.engines.kernels.update import finish, finish_copy
from ddol.update.trust import BOXES, SCALARS, THERE, WANTS, passes

# --- within one worker ---------------------------------------------------------------------------


@inner
def _mean_here(worker, stride, n, row, scalar):
    """Complete graph, equal weights: the mean, or maximum, of all copies in `mixed`."""
    mixed, i, place = floats(worker.scratch.mixed), row, 0
    copies, kinds = worker.shape.copies, worker.shape.message_rows + sent_scalars(worker)
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
    return 8 * in_lines(rows + sent_scalars(worker) - scalar)


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
    write_vector(worker, w, s, 0, D, row, scalar, out)


@inner
def _average_features(worker, copy, k, r, index, lo, n, row, scalar):
    """Average n features of one copy's k-th weight vector, once all that it hears have written theirs."""
    (w, s), links, mixed = vector_at(worker, copy, k), worker.links, worker.scratch.mixed
    if not links.complete:
        agents, stride = worker.shape.agents, _stride_of(worker, n, row, scalar)
        starts = integers(links.starts + 8 * (r if links.matrices > 1 else 0) * (agents + 1))
        first, count = starts[copy], starts[copy + 1] - starts[copy]
        columns, weights = links.columns + 8 * first, links.weights + 8 * first
        mix_message(worker, links.packed, stride, columns, weights, count, n, row, scalar)
    take_scalars(worker, s, n, row, scalar, mixed)
    take_rows(worker, w + (0 if index != 0 else 8 * lo), s, index, n, row, mixed)


@inner(inlined=True)
def averages_early(worker):
    """Whether an agent averages as soon as all that it hears have written, while its weights are near."""
    return writes_early(worker) and not worker.links.complete


@inner
def average_early(worker, examples, r, eta, done, written):
    """Let agents average, and end the round, that hear none behind the first `written` agents.

    `done` have done so before; returns how many have now.
    """
    agents, (row, scalar) = worker.shape.agents, left_out(worker, examples.t + r)
    order = worker.links.order + 16 * (r if worker.links.matrices > 1 else 0) * agents
    ready = integers(order + 8 * agents)[written - 1]
    for place in range(done, ready):
        copy = integers(order)[place]
        _average_features(worker, copy, 0, r, 0, 0, worker.shape.D, row, scalar)
        if part(worker, FINISH) != 0:
            finish_copy(worker, copy, examples.t + r, own_rate(worker, copy, eta))
    return ready


@inner
def _exchange_features(worker, k, r, index, lo, n, row, scalar):
    """Average n features of every copy's k-th weight vector: those listed at `index`, or from lo on.

    Scalars from one on are averaged with them.
    """
    shape, links = worker.shape, worker.links
    shift, stride = 0 if index != 0 else 8 * lo, _stride_of(worker, n, row, scalar)
    if not writes_early(worker):
        for copy in range(shape.copies):
            w, s = vector_at(worker, copy, k)
            write_vector(worker, w + shift, s, index, n, row, scalar, links.packed + copy * stride)
    if links.complete:
        _mean_here(worker, stride, n, row, scalar)
    for copy in range(shape.copies):
        _average_features(worker, copy, k, r, index, lo, n, row, scalar)


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
            lo, scalar = lo + max(n, 1), sent_scalars(worker)


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
        place = out + 8 * k * unit_from(worker, row, scalar)
        write_vector(worker, w, s, 0, shape.D, row, scalar, place)


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
                copy_numbers(averaged + 8 * (i * D + lo), room + 8 * i * n, n)
        take_rows(worker, w + 8 * lo, s, 0, n, row, rows)
        lo += n


@inner
def adopt_message(worker, copy, row, scalar, averaged, whole):
    """Take what was averaged, from some row and scalar on, as the state of one copy.

    A `whole` message has those before them, too.
    """
    shape = worker.shape
    unit = unit_of(worker) if whole else unit_from(worker, row, scalar)
    for k in range(shape.states):
        w, s = vector_at(worker, copy, k)
        rows = averaged + 8 * (k * unit + (row * shape.D if whole else 0))
        scalars = rows + 8 * ((shape.message_rows - row) * shape.D + (scalar if whole else 0))
        copy_numbers(scalars, s + 8 * scalar, sent_scalars(worker) - scalar)
        _adopt_rows(worker, w, s, row, rows)


@inner
def write_columns(worker, copy, index, n, out):
    """Write what one copy sends of n features: those listed at `index`, or all."""
    shape = worker.shape
    unit = shape.message_rows * n + sent_scalars(worker)
    for k in range(shape.states):
        w, s = vector_at(worker, copy, k)
        write_vector(worker, w, s, index, n, 0, 0, out + 8 * k * unit)


@inner
def adopt_columns(worker, copy, index, n, averaged):
    """Take what `write_columns` wrote, averaged, as the state of one copy."""
    shape = worker.shape
    unit = shape.message_rows * n + sent_scalars(worker)
    for k in range(shape.states):
        (w, s), place = vector_at(worker, copy, k), averaged + 8 * k * unit
        take_scalars(worker, s, n, 0, 0, place)
        take_rows(worker, w, s, index, n, 0, place)


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
    shape, sent = worker.shape, sent_scalars(worker)
    status = _gather_all(worker, packed, shape.states * unit_from(worker, row, scalar))
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
def _list_passed(worker, s, columns, count, own):
    """List in `passed` whose messages a weight vector averages; whether all have passed its tests.

    Its own message takes the place of those that fail.
    """
    heard, all_passed = integers(worker.scratch.passed), True
    for j in range(count):
        sender = integers(columns)[j]
        trusted = sender == own or passes(box_of(worker, s, j))
        heard[j] = sender if trusted else own
        all_passed = all_passed and trusted
    return all_passed


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
    copy_numbers(message + 8 * (shape.statistics - row) * shape.D, w + 8 * place * shape.D, size)
    box, numbers = box_of(worker, s, wire), message + 8 * (shape.message_rows - row) * shape.D
    for k in range(scalar, sent_scalars(worker)):
        box[SCALARS + k] = floats(numbers)[k - scalar]
    box[THERE] = 1.0


@inner(inlined=True)
def gather(worker, message, weight, count, n):
    """Put a neighbour's numbers behind those of `count` others, for a robust average; how many there are."""
    copy_numbers(message, worker.scratch.gathered + 8 * count * n, n)
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
    while i < worker.shape.message_rows + sent_scalars(worker):
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
def mix_copy(worker, copy, packed, columns, weights, count, row, scalar, known):
    """One copy becomes the average of messages from some row and scalar on, which are rows of `packed`.

    `known` says that the average of all of them stands in `mixed` already. Returns whether it does now.
    """
    shape, unit = worker.shape, unit_from(worker, row, scalar)
    stride = 8 * shape.states * unit
    for k in range(shape.states):
        w, s = vector_at(worker, copy, k)
        first, heard, trusts = packed + 8 * k * unit, columns, True
        if shape.wires > 0:
            trusts = _list_passed(worker, s, columns, count, worker.links.own + copy)
            heard = worker.scratch.passed
        if part(worker, ROBUST) != 0:
            own = worker.links.own + copy
            _mix_robustly(worker, first, stride, heard, columns, weights, count, own, row, scalar)
        elif not (known and trusts):
            mix_message(worker, first, stride, heard, weights, count, shape.D, row, scalar)
            known = trusts and worker.links.alike and shape.states == 1
        for j in range(count if shape.wires > 0 else 0):
            if integers(columns)[j] != worker.links.own + copy:
                deliver(worker, w, s, j, first + integers(columns)[j] * stride, row, scalar)
        take_scalars(worker, s, shape.D, row, scalar, worker.scratch.mixed)
        _adopt_rows(worker, w, s, row, worker.scratch.mixed)
    return known


@inner
def _exchange_across(worker, exchange, r):
    """Average with agents of other workers; 0, or the communicator's error."""
    shape, links = worker.shape, worker.links
    row, scalar = left_out(worker, exchange)
    size, most = shape.states * unit_from(worker, row, scalar), shape.states * unit_of(worker)
    packed = links.packed + 8 * (exchange % links.buffers) * links.buffer_rows * most
    for copy in range(shape.copies):
        _write_from(worker, copy, row, scalar, packed + 8 * (links.own + copy) * size)
    if links.complete:
        return _average_all(worker, packed, row, scalar)
    status = call_int(links.exchange, (links.context, packed, size)) if links.workers > 1 else 0
    if status != 0:
        return status
    starts = integers(links.starts + 8 * (r if links.matrices > 1 else 0) * (shape.agents + 1))
    known = False
    for copy in range(shape.copies):
        first, count = starts[copy], starts[copy + 1] - starts[copy]
        columns, weights = links.columns + 8 * first, links.weights + 8 * first
        known = mix_copy(worker, copy, packed, columns, weights, count, row, scalar, known)
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
