"""Every agent learns from its answers: on its own copy of the weights, or on one that all share.

Answers that arrive in round t belong to round t − delay, which has the same slot as t + 1."""

from __future__ import annotations

import math

import numpy as np

from ddol.compiled import bytes_at, call_int, call_void, floats, indices, inner, integers
from ddol.engines.kernels.layout import (
    ABSORB,
    BEGIN,
    COMMIT,
    COMMIT_ALL,
    FINISH,
    GROUP,
    HEAR,
    JUDGE,
    LISTED,
    NOTICE,
    SHARED_COLLECT,
    STEP,
    answer_of,
    batch_size,
    kept_of,
    own_rate,
    part,
    remind,
    rows_of,
    slopes_of,
    turn_of,
    vector_at,
)
from ddol.engines.kernels.reading import row_at
from ddol.update.asking import UNBIASED
from ddol.update.turns import SHORT


@inner
def _merge(worker, examples, r, a, k, size):
    """Add the gradients of a batch up, as one row: (x, index, n)."""
    D, n, scratch = worker.shape.D, 0, worker.scratch
    values, sums = floats(scratch.merged), floats(scratch.merged + 8 * D)
    listed = indices(scratch.merged_index)
    rows = rows_of(worker, examples, examples.learned, r, a)
    for b in range(worker.shape.batch):
        weight = floats(slopes_of(worker, turn_of(worker, examples.t + r + 1), a, b))[k] / size
        if rows[b] < 0 or weight == 0.0:
            continue
        x, index, length = row_at(worker, examples, rows[b])
        if examples.indptr == 0:
            n = D
            for d in range(D):
                sums[d] += weight * floats(x)[d]
            continue
        for j in range(length):
            d = np.int64(indices(index)[j])
            if sums[d] == 0.0:
                listed[n] = indices(index)[j]
                n += 1
            sums[d] += weight * floats(x)[j]
            if sums[d] == 0.0:
                sums[d] = LISTED
    for j in range(n):
        d = j if examples.indptr == 0 else np.int64(listed[j])
        values[j] = sums[d] if sums[d] != LISTED else 0.0
        sums[d] = 0.0
    return scratch.merged, scratch.merged_index, n


@inner
def touch(worker, index, n):
    """List the features of a sparse row that no agent has met before."""
    scratch = worker.scratch
    known, listed, count = (
        bytes_at(scratch.is_touched),
        indices(scratch.touched),
        integers(scratch.n_touched),
    )
    for j in range(n):
        d = np.int64(indices(index)[j])
        if known[d] == 0:
            known[d] = 1
            listed[count[0]] = indices(index)[j]
            count[0] += 1


@inner(inlined=True)
def _steps(worker, n, slope):
    """Whether a row is stepped along: where that needs no branch, even if it changes nothing."""
    rules = worker.rules
    return (rules.branchless_step and n < SHORT) or rules.experts or slope != 0.0


@inner(inlined=True)
def begin_vector(worker, w, s, eta):
    """Do what is done once, before the steps of a round."""
    if part(worker, BEGIN) != 0:
        call_void(part(worker, BEGIN), (w, s, worker.rules.p, worker.shape.D, eta, 1.0))


@inner
def begin_copy(worker, copy, eta):
    """The same for all weight vectors of a copy, whose agent takes no step."""
    for k in range(worker.shape.states):
        w, s = vector_at(worker, copy, k)
        begin_vector(worker, w, s, eta)


@inner(inlined=True)
def hear_example(worker, examples, w, s, i):
    """Tell one weight vector an answer."""
    if part(worker, HEAR) != 0:
        x, index, n = row_at(worker, examples, i)
        y = floats(examples.y)[i]
        call_void(part(worker, HEAR), (w, s, worker.rules.p, x, index, n, worker.shape.D, y))


@inner(inlined=True)
def step_example(worker, examples, w, s, i, g, eta, weight):
    """Let one weight vector step along an example's gradient."""
    x, index, n = row_at(worker, examples, i)
    if _steps(worker, n, g):
        arguments = (w, s, worker.rules.p, x, index, n, worker.shape.D, g, eta, weight)
        call_void(part(worker, STEP), arguments)


@inner
def answer_example(worker, examples, copy, i, slopes, eta):
    """One agent learns from one answer, whose slopes lie at an address, on its own copy."""
    weight = 1.0
    if worker.rules.asks != 0:
        if math.isnan(floats(slopes)[0]):  # not asked for
            if floats(worker.rules.asks)[UNBIASED] > 0.0:  # λw needs no answer, and is not divided
                begin_copy(worker, copy, eta)
            return
        if worker.rules.experts:
            weight = abs(floats(slopes)[0])
    if worker.scratch.touched != 0:
        _, index, n = row_at(worker, examples, i)
        touch(worker, index, n)
    if part(worker, JUDGE) != 0:
        begin_copy(worker, copy, eta)
        for k in range(worker.shape.states):
            w, s = vector_at(worker, copy, k)
            hear_example(worker, examples, w, s, i)
        _step_together(worker, examples, copy, i, slopes, eta, weight)
        return
    for k in range(worker.shape.states):
        w, s = vector_at(worker, copy, k)
        begin_vector(worker, w, s, eta)
        hear_example(worker, examples, w, s, i)
        if worker.shape.kept > 0:
            remind(worker, slopes, s, k, answer_of(worker, floats(examples.y)[i], k))
        g = kept_of(worker, slopes, k)[0] / weight
        step_example(worker, examples, w, s, i, g, eta, weight)


@inner
def _step_together(worker, examples, copy, i, slopes, eta, weight):
    """Step along one example by an update that compares its classes first."""
    shape, y = worker.shape, floats(examples.y)[i]
    for k in range(shape.states):
        remind(worker, slopes, vector_at(worker, copy, k)[1], k, answer_of(worker, y, k))
    w, s = vector_at(worker, copy, 0)
    call_void(part(worker, JUDGE), (w, s, worker.rules.p, shape.states, shape.scalars, y))
    for k in range(shape.states):
        w, s = vector_at(worker, copy, k)
        step_example(worker, examples, w, s, i, kept_of(worker, slopes, k)[0], eta, weight)


@inner
def _answer_batch(worker, examples, r, a, size, eta):
    """One agent learns from the answers of a batch, on its own copy."""
    rows = rows_of(worker, examples, examples.learned, r, a)
    turn, batch = turn_of(worker, examples.t + r + 1), worker.shape.batch
    for b in range(batch):
        if worker.scratch.touched != 0 and rows[b] >= 0:
            _, index, n = row_at(worker, examples, rows[b])
            touch(worker, index, n)
    for k in range(worker.shape.states):
        w, s = vector_at(worker, a, k)
        begin_vector(worker, w, s, eta)
        for b in range(batch):
            if rows[b] >= 0:
                hear_example(worker, examples, w, s, rows[b])
        if not worker.rules.additive and size > 1:
            x, index, n = _merge(worker, examples, r, a, k, size)
            if n > 0:
                arguments = (w, s, worker.rules.p, x, index, n, worker.shape.D, 1.0, eta, 1.0)
                call_void(part(worker, STEP), arguments)
            continue
        if part(worker, JUDGE) != 0:
            continue
        for b in range(batch):
            if rows[b] >= 0:
                slopes = slopes_of(worker, turn, a, b)
                if worker.shape.kept > 0:
                    y = answer_of(worker, floats(examples.y)[rows[b]], k)
                    remind(worker, slopes, s, k, y)
                g = kept_of(worker, slopes, k)[0]
                step_example(worker, examples, w, s, rows[b], g, eta, 1.0 / size)
    for b in range(batch if part(worker, JUDGE) != 0 else 0):
        if rows[b] >= 0:
            slopes = slopes_of(worker, turn, a, b)
            _step_together(worker, examples, a, rows[b], slopes, eta, 1.0 / size)


@inner(inlined=True)
def update_copy(worker, examples, r, a, eta):
    """One agent steps along its own gradient, on its own copy."""
    rows = rows_of(worker, examples, examples.learned, r, a)
    size = batch_size(worker, rows)
    if size == 0:
        return
    if worker.shape.batch == 1:
        slopes = slopes_of(worker, turn_of(worker, examples.t + r + 1), a, 0)
        answer_example(worker, examples, a, rows[0], slopes, own_rate(worker, a, eta))
    else:
        _answer_batch(worker, examples, r, a, size, own_rate(worker, a, eta))


# --- one copy that all agents share --------------------------------------------------------------


@inner
def _begin_shared(worker, eta, active):
    if part(worker, BEGIN) == 0:
        return
    for k in range(worker.shape.states):
        w, s = vector_at(worker, 0, k)
        call_void(part(worker, BEGIN), (w, s, worker.rules.p, worker.shape.D, eta, active))


@inner
def _add_to_shared(worker, examples, r, eta):
    """All agents step on the one copy: their steps add up."""
    for a in range(worker.shape.agents):
        rows = rows_of(worker, examples, examples.learned, r, a)
        weight = 1.0 / (worker.rules.n_agents * max(batch_size(worker, rows), 1))
        for b in range(worker.shape.batch):
            if rows[b] < 0:
                continue
            slopes = floats(slopes_of(worker, turn_of(worker, examples.t + r + 1), a, b))
            for k in range(worker.shape.states):
                w, s = vector_at(worker, 0, k)
                step_example(worker, examples, w, s, rows[b], slopes[k], eta, weight)


@inner(inlined=True)
def _collected(worker, k):
    """Addresses of the sums and maxima that were collected for one weight vector."""
    shape, scratch = worker.shape, worker.scratch
    return scratch.delta + k * shape.delta_bytes, scratch.maxima + k * shape.maxima_bytes


@inner
def _notice(worker, examples, rows, k):
    """Collect what one agent's examples tell one weight vector."""
    w, s = vector_at(worker, 0, k)
    delta, maxima = _collected(worker, k)
    weight = 1.0 / worker.rules.n_agents
    for b in range(worker.shape.batch):
        if rows[b] >= 0:
            x, index, n = row_at(worker, examples, rows[b])
            y, p, D = floats(examples.y)[rows[b]], worker.rules.p, worker.shape.D
            arguments = (w, s, p, delta, maxima, x, index, n, D, y, weight)
            call_void(part(worker, NOTICE), arguments)


@inner
def _absorb_merged(worker, examples, r, a, k, size, eta):
    """Collect the step of one agent along the mean gradient of its batch."""
    x, index, n = _merge(worker, examples, r, a, k, size)
    if n == 0:
        return
    w, s = vector_at(worker, 0, k)
    delta, maxima = _collected(worker, k)
    p, D, weight = worker.rules.p, worker.shape.D, 1.0 / worker.rules.n_agents
    arguments = (w, s, p, delta, maxima, x, index, n, D, 1.0, eta, weight)
    call_void(part(worker, ABSORB), arguments)


@inner(inlined=True)
def absorb_agent(worker, examples, r, a, eta):
    """Collect the step of one agent in `delta`."""
    p, D = worker.rules.p, worker.shape.D
    rows = rows_of(worker, examples, examples.learned, r, a)
    size = batch_size(worker, rows)
    for k in range(worker.shape.states):
        w, s = vector_at(worker, 0, k)
        delta, maxima = _collected(worker, k)
        if part(worker, NOTICE) != 0:
            _notice(worker, examples, rows, k)
        if not worker.rules.additive and size > 1:
            _absorb_merged(worker, examples, r, a, k, size, eta)
            continue
        for b in range(worker.shape.batch):
            if rows[b] < 0:
                continue
            g = floats(slopes_of(worker, turn_of(worker, examples.t + r + 1), a, b))[k]
            x, index, n = row_at(worker, examples, rows[b])
            if _steps(worker, n, g):
                weight = 1.0 / (worker.rules.n_agents * size)
                arguments = (w, s, p, delta, maxima, x, index, n, D, g, eta, weight)
                call_void(part(worker, ABSORB), arguments)


@inner
def _commit_scalars(worker):
    """Add collected scalars to the shared copy's, and clear them."""
    shape = worker.shape
    for k in range(shape.states):
        scalars = floats(vector_at(worker, 0, k)[1])
        delta, maxima = _collected(worker, k)
        sums = floats(delta + 8 * shape.sum_rows * shape.D)
        largest = floats(maxima + 8 * shape.maxima_rows * shape.D)
        for i in range(shape.linear_scalars):
            scalars[i] += sums[i]
            sums[i] = 0.0
        for i in range(shape.largest_scalars):
            place = shape.linear_scalars + i
            scalars[place] = max(scalars[place], largest[i])
            largest[i] = -math.inf


@inner
def _unite(worker, examples, r):
    """List the features of all rows of a round, each once; how many there are.

    There is no branch on whether a feature is new: rows have many in common, and it could not be predicted.
    """
    listed, known = indices(worker.scratch.union), bytes_at(worker.scratch.in_union)
    count = 0
    for a in range(worker.shape.agents):
        rows = rows_of(worker, examples, examples.learned, r, a)
        for b in range(worker.shape.batch):
            if rows[b] < 0:
                continue
            _, index, n = row_at(worker, examples, rows[b])
            for j in range(n):
                d = np.int64(indices(index)[j])
                listed[count] = indices(index)[j]
                count += known[d] == 0
                known[d] = 1
    for j in range(count):
        known[np.int64(listed[j])] = 0
    return count


@inner
def _commit_rows(worker, examples, r, eta):
    """Apply what was collected, touching only the features of this round's rows."""
    index, n = worker.scratch.union, _unite(worker, examples, r)
    for k in range(worker.shape.states):
        w, s = vector_at(worker, 0, k)
        delta, maxima = _collected(worker, k)
        arguments = (w, s, worker.rules.p, delta, maxima, index, n, worker.shape.D, eta)
        call_void(part(worker, COMMIT), arguments)


@inner
def _commit_whole(worker, eta):
    """Apply what all workers collected, to every feature."""
    D = worker.shape.D
    for k in range(worker.shape.states):
        w, s = vector_at(worker, 0, k)
        delta, maxima = _collected(worker, k)
        arguments = (w, s, worker.rules.p, delta, maxima, 0, D, D, eta)
        call_void(part(worker, COMMIT_ALL), arguments)


@inner
def _reduce_collected(worker, active):
    """Sum what the workers collected, and the agents that were active: (status, active)."""
    shape, scratch, links = worker.shape, worker.scratch, worker.links
    size = shape.states * (shape.sum_rows * shape.D + shape.linear_scalars)
    floats(scratch.delta)[size] = active
    status = call_int(links.reduce, (links.context, scratch.delta, size + 1))
    maxima = shape.states * (shape.maxima_rows * shape.D + shape.largest_scalars)
    if status == 0 and maxima > 0:
        status = call_int(links.reduce_max, (links.context, scratch.maxima, maxima))
    return status, floats(scratch.delta)[size]


@inner(inlined=True)
def collects(worker, examples):
    """Whether steps on the shared copy are collected first, so that a row is gone through once.

    Sparse rows would be gone through again to apply what was collected, and what was collected of
    experts costs each of them an exponential.
    """
    rules, shape = worker.rules, worker.shape
    if worker.links.workers > 1 or rules.sharing == SHARED_COLLECT:
        return True
    return examples.indptr == 0 and not rules.experts and shape.agents * shape.batch >= GROUP


@inner
def update_shared(worker, examples, r, eta, active):
    """Update and average on one shared copy: every agent's step, weighted by 1/N."""
    if worker.links.workers > 1:
        status, active = _reduce_collected(worker, active)
        if status != 0:
            return status
    _begin_shared(worker, eta, active / worker.rules.n_agents)
    if not collects(worker, examples):
        _add_to_shared(worker, examples, r, eta)
        return 0
    _commit_scalars(worker)
    if worker.links.workers > 1 or examples.indptr == 0:
        _commit_whole(worker, eta)
    else:
        _commit_rows(worker, examples, r, eta)
    return 0


@inner
def finish_copy(worker, copy, t, eta):
    """Project one copy."""
    for k in range(worker.shape.states):
        w, s = vector_at(worker, copy, k)
        call_void(part(worker, FINISH), (w, s, worker.rules.p, worker.shape.D, np.float64(t), eta))


@inner(inlined=True)
def finish(worker, t, eta):
    """Project every copy."""
    if part(worker, FINISH) != 0:
        for copy in range(worker.shape.copies):
            finish_copy(worker, copy, t, own_rate(worker, copy, eta))
