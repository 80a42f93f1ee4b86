"""Every agent learns from its answers: on its own copy of the weights, or on one that all share.

Answers that arrive in round t belong to round t − delay, which has the same slot as t + 1."""

from __future__ import annotations

import numpy as np

from ddol.compiled import call_int, call_void, floats, indices, inner, integers
from ddol.engines.kernels.layout import (
    ABSORB,
    BEGIN,
    COMMIT,
    COMMIT_DENSE,
    FINISH,
    GROUP,
    LISTED,
    NOTICE,
    OBSERVE,
    SHARED_ABSORB,
    SHORT,
    STEP,
    _batch_size,
    _part,
    _row,
    _rows_of,
    _slopes_of,
    _state,
    _turn,
)


@inner
def _merge(worker, examples, r, a, k, size):
    """Add the gradients of a batch up, as one row: (x, index, n)."""
    D, n = worker.D, 0
    values, sums = floats(worker.merged), floats(worker.merged + 8 * D)
    x, index, touched = floats(examples.x), indices(examples.features), indices(worker.touched)
    rows = _rows_of(worker, examples, examples.learned, r, a)
    for b in range(worker.batch):
        weight = _slopes_of(worker, _turn(worker, examples.t + r + 1), a, b)[k] / size
        if rows[b] < 0 or weight == 0.0:
            continue
        if examples.indptr == 0:
            n = D
            for d in range(D):
                sums[d] += weight * x[rows[b] * D + d]
            continue
        for j in range(integers(examples.indptr)[rows[b]], integers(examples.indptr)[rows[b] + 1]):
            d = np.int64(index[j])
            if sums[d] == 0.0:
                touched[n] = index[j]
                n += 1
            sums[d] += weight * x[j]
            if sums[d] == 0.0:
                sums[d] = LISTED
    for j in range(n):
        d = j if examples.indptr == 0 else np.int64(touched[j])
        values[j] = sums[d] if sums[d] != LISTED else 0.0
        sums[d] = 0.0
    return worker.merged, worker.touched, n


@inner(inlined=True)
def _observe(worker, examples, rows, w, s):
    """Show one weight vector the examples that its answers belong to."""
    if worker.batch == 1:
        if rows[0] >= 0:
            x, index, n = _row(worker, examples, rows[0])
            y = floats(examples.y)[rows[0]]
            call_void(_part(worker, OBSERVE), (w, s, worker.p, x, index, n, worker.D, y, 2.0))
        return
    for grow in (0.0, 1.0):
        for b in range(worker.batch):
            if rows[b] >= 0:
                x, index, n = _row(worker, examples, rows[b])
                y = floats(examples.y)[rows[b]]
                call_void(_part(worker, OBSERVE), (w, s, worker.p, x, index, n, worker.D, y, grow))


@inner(inlined=True)
def _steps(worker, n, slope):
    """Whether a row is stepped along: where that needs no branch, even if it changes nothing."""
    return (worker.branchless_step and n < SHORT) or worker.experts or slope != 0.0


@inner(inlined=True)
def _update_copy(worker, examples, r, a, eta):
    """One agent steps along its own gradient, on its own copy."""
    rows = _rows_of(worker, examples, examples.learned, r, a)
    size = _batch_size(worker, rows)
    if size == 0:
        return
    p, D = worker.p, worker.D
    exchanging = 1.0 if (examples.t + r) % worker.period == 0 else 0.0
    for k in range(worker.states):
        w, s = _state(worker, a, k)
        if _part(worker, BEGIN) != 0:
            call_void(_part(worker, BEGIN), (w, s, p, D, eta, 1.0, exchanging))
        if _part(worker, OBSERVE) != 0:
            _observe(worker, examples, rows, w, s)
        if not worker.additive and size > 1:
            x, index, n = _merge(worker, examples, r, a, k, size)
            if n > 0:
                call_void(_part(worker, STEP), (w, s, p, x, index, n, D, 1.0, eta, 1.0))
            continue
        for b in range(worker.batch):
            if rows[b] < 0:
                continue
            g = _slopes_of(worker, _turn(worker, examples.t + r + 1), a, b)[k]
            x, index, n = _row(worker, examples, rows[b])
            if _steps(worker, n, g):
                call_void(_part(worker, STEP), (w, s, p, x, index, n, D, g, eta, 1.0 / size))


@inner(inlined=True)
def _begin_shared(worker, eta, active):
    if _part(worker, BEGIN) == 0:
        return
    for k in range(worker.states):
        w, s = _state(worker, 0, k)
        call_void(_part(worker, BEGIN), (w, s, worker.p, worker.D, eta, active, 0.0))


@inner(inlined=True)
def _add_to_shared(worker, examples, r, eta):
    """All agents step on the one copy: their steps add up."""
    for a in range(worker.agents):
        rows = _rows_of(worker, examples, examples.learned, r, a)
        share = 1.0 / (worker.n_agents * max(_batch_size(worker, rows), 1))
        if _part(worker, OBSERVE) != 0:
            for k in range(worker.states):
                w, s = _state(worker, 0, k)
                _observe(worker, examples, rows, w, s)
        for b in range(worker.batch):
            if rows[b] < 0:
                continue
            x, index, n = _row(worker, examples, rows[b])
            slopes = _slopes_of(worker, _turn(worker, examples.t + r + 1), a, b)
            for k in range(worker.states):
                if _steps(worker, n, slopes[k]):
                    w, s = _state(worker, 0, k)
                    arguments = (w, s, worker.p, x, index, n, worker.D, slopes[k], eta, share)
                    call_void(_part(worker, STEP), arguments)


@inner(inlined=True)
def _collected(worker, k):
    """Addresses of the sums and maxima that were collected for one weight vector."""
    delta = worker.delta + 8 * k * (worker.delta_rows * worker.D + worker.n_sums)
    return delta, worker.maxima + 8 * k * (worker.maxima_rows * worker.D + worker.n_maxima)


@inner
def _notice(worker, examples, rows, k):
    """Collect what one agent's examples tell one weight vector."""
    w, s = _state(worker, 0, k)
    delta, maxima = _collected(worker, k)
    share = 1.0 / worker.n_agents
    for b in range(worker.batch):
        if rows[b] >= 0:
            x, index, n = _row(worker, examples, rows[b])
            y = floats(examples.y)[rows[b]]
            arguments = (w, s, worker.p, delta, maxima, x, index, n, worker.D, y, share)
            call_void(_part(worker, NOTICE), arguments)


@inner(inlined=True)
def _absorb_agent(worker, examples, r, a, eta):
    """Collect the step of one agent in `delta`."""
    p, D = worker.p, worker.D
    rows = _rows_of(worker, examples, examples.learned, r, a)
    size = _batch_size(worker, rows)
    for k in range(worker.states):
        w, s = _state(worker, 0, k)
        delta, _ = _collected(worker, k)
        if _part(worker, NOTICE) != 0:
            _notice(worker, examples, rows, k)
        if not worker.additive and size > 1:
            x, index, n = _merge(worker, examples, r, a, k, size)
            share = 1.0 / worker.n_agents
            if n > 0:
                arguments = (w, s, p, delta, x, index, n, D, 1.0, eta, share)
                call_void(_part(worker, ABSORB), arguments)
            continue
        for b in range(worker.batch):
            if rows[b] < 0:
                continue
            g = _slopes_of(worker, _turn(worker, examples.t + r + 1), a, b)[k]
            x, index, n = _row(worker, examples, rows[b])
            if _steps(worker, n, g):
                share = 1.0 / (worker.n_agents * size)
                call_void(_part(worker, ABSORB), (w, s, p, delta, x, index, n, D, g, eta, share))


@inner
def _commit_scalars(worker):
    """Add collected scalars to the shared copy's, and clear them."""
    for k in range(worker.states):
        scalars = floats(_state(worker, 0, k)[1])
        delta, maxima = _collected(worker, k)
        sums = floats(delta + 8 * worker.delta_rows * worker.D)
        maxima_scalars = floats(maxima + 8 * worker.maxima_rows * worker.D)
        for i in range(worker.n_sums):
            scalars[i] += sums[i]
            sums[i] = 0.0
        for i in range(worker.n_maxima):
            scalars[worker.n_sums + i] = max(scalars[worker.n_sums + i], maxima_scalars[i])
            maxima_scalars[i] = 0.0


@inner
def _commit_rows(worker, examples, r, eta):
    """Apply what was collected, touching only the features of this round's rows."""
    for a in range(worker.agents):
        rows = _rows_of(worker, examples, examples.learned, r, a)
        for b in range(worker.batch):
            if rows[b] < 0:
                continue
            _, index, n = _row(worker, examples, rows[b])
            for k in range(worker.states):
                w, s = _state(worker, 0, k)
                delta, maxima = _collected(worker, k)
                arguments = (w, s, worker.p, delta, maxima, index, n, worker.D, eta)
                call_void(_part(worker, COMMIT), arguments)


@inner
def _commit_whole(worker, eta):
    """Apply what all workers collected, to every feature."""
    for k in range(worker.states):
        w, s = _state(worker, 0, k)
        delta, maxima = _collected(worker, k)
        arguments = (w, s, worker.p, delta, maxima, 0, worker.D, worker.D, eta)
        call_void(_part(worker, COMMIT_DENSE), arguments)


@inner
def _reduce_collected(worker, active):
    """Sum what the workers collected, and the agents that were active: (status, active)."""
    size = worker.states * (worker.delta_rows * worker.D + worker.n_sums)
    floats(worker.delta)[size] = active
    status = call_int(worker.reduce, (worker.context, worker.delta, size + 1))
    maxima_scalars = worker.states * (worker.maxima_rows * worker.D + worker.n_maxima)
    if status == 0 and maxima_scalars > 0:
        status = call_int(worker.reduce_max, (worker.context, worker.maxima, maxima_scalars))
    return status, floats(worker.delta)[size]


@inner(inlined=True)
def _collects(worker, examples):
    """Whether steps on the shared copy are collected first, so that a row is gone through once.

    Sparse rows would be gone through again to apply what was collected.
    """
    several = worker.workers > 1 or worker.sharing == SHARED_ABSORB
    return several or (examples.indptr == 0 and worker.agents * worker.batch >= GROUP)


@inner(inlined=True)
def _update_shared(worker, examples, r, eta, active):
    """Update and average on one shared copy: every agent's step, weighted by 1/N."""
    if worker.workers > 1:
        status, active = _reduce_collected(worker, active)
        if status != 0:
            return status
    _begin_shared(worker, eta, active / worker.n_agents)
    if not _collects(worker, examples):
        _add_to_shared(worker, examples, r, eta)
        return 0
    _commit_scalars(worker)
    if worker.workers > 1 or examples.indptr == 0:
        _commit_whole(worker, eta)
    else:
        _commit_rows(worker, examples, r, eta)
    return 0


@inner(inlined=True)
def _finish(worker, t, eta):
    """Project every copy."""
    if _part(worker, FINISH) == 0:
        return
    for copy in range(worker.copies):
        for k in range(worker.states):
            w, s = _state(worker, copy, k)
            call_void(_part(worker, FINISH), (w, s, worker.p, worker.D, np.float64(t), eta))
