"""Neighbours exchange what they average, and average it."""

from __future__ import annotations

import math

from ddol.compiled import call_int, call_void, floats, inner, integers
from ddol.engines.kernels.layout import (
    LINEAR,
    LOG,
    PACK,
    UNPACK,
    _part,
    _read_vector,
    _state,
)
from ddol.engines.kernels.update import _finish


@inner(inlined=True)
def _unit(worker):
    """Numbers that one weight vector sends: rows of D, then scalars."""
    return worker.packed_rows * worker.D + worker.n_sums + worker.n_maxima


@inner
def _pack_all(worker, packed):
    """Write what every copy sends into its row of `packed`."""
    size = 8 * _unit(worker)
    for copy in range(worker.copies):
        for k in range(worker.states):
            w, s = _state(worker, copy, k)
            place = packed + ((worker.own + copy) * worker.states + k) * size
            call_void(_part(worker, PACK), (w, s, worker.p, worker.D, place))
            scalars = floats(place + 8 * worker.packed_rows * worker.D)
            for i in range(worker.n_sums + worker.n_maxima):
                scalars[i] = floats(s)[i]


@inner
def _unpack(worker, copy):
    """Take the rows in `mixed` as the state of one copy."""
    for k in range(worker.states):
        w, s = _state(worker, copy, k)
        place = worker.mixed + 8 * k * _unit(worker)
        scalars = floats(place + 8 * worker.packed_rows * worker.D)
        for i in range(worker.n_sums + worker.n_maxima):
            floats(s)[i] = scalars[i]
        call_void(_part(worker, UNPACK), (w, s, worker.p, worker.D, place))


@inner
def _gather_all(worker, packed, size):
    """Sums over all agents in `mixed` and, where an update asks for them, maxima in `largest`."""
    sums, largest = floats(worker.mixed), floats(worker.largest)
    for d in range(size):
        sums[d] = 0.0
        if worker.largest != 0:
            largest[d] = -math.inf
    for copy in range(worker.copies):
        sent = floats(packed + 8 * (worker.own + copy) * size)
        for d in range(size):
            sums[d] += sent[d]
        if worker.largest != 0:
            for d in range(size):
                largest[d] = max(largest[d], sent[d])
    if worker.workers == 1:
        return 0
    status = call_int(worker.reduce, (worker.context, worker.mixed, size))
    if status == 0 and worker.largest != 0:
        status = call_int(worker.reduce_max, (worker.context, worker.largest, size))
    return status


@inner
def _average_all(worker, packed):
    """Complete graph, equal weights: one mean, or maximum, for everybody."""
    size = worker.states * _unit(worker)
    status = _gather_all(worker, packed, size)
    if status != 0:
        return status
    mean, largest, place = floats(worker.mixed), floats(worker.largest), 0
    for _ in range(worker.states):
        for i in range(worker.packed_rows + worker.n_sums + worker.n_maxima):
            end = place + (worker.D if i < worker.packed_rows else 1)
            linear = integers(worker.modes)[i] == LINEAR
            for d in range(place, end):
                mean[d] = mean[d] / worker.n_agents if linear else largest[d]
            place = end
    for copy in range(worker.copies):
        _unpack(worker, copy)
    return 0


@inner
def _mix(worker, packed, mode, place, D, lo, hi):
    """D numbers, averaged over an agent's neighbourhood, in `mixed`."""
    columns, shares = integers(worker.columns), floats(worker.shares)
    out = floats(worker.mixed + 8 * place)
    first, stride = packed + 8 * place, 8 * worker.states * _unit(worker)
    for d in range(D):
        out[d] = 0.0 if mode == LINEAR else -math.inf
    for j in range(lo, hi):
        sent, share = floats(first + columns[j] * stride), shares[j]
        if share == 0.0:
            continue
        if mode == LINEAR:
            for d in range(D):
                out[d] += share * sent[d]
        else:
            for d in range(D):
                out[d] = max(out[d], sent[d])
    if mode != LOG:
        return
    for d in range(D):
        total = 0.0
        for j in range(lo, hi):
            if shares[j] > 0.0:
                total += shares[j] * math.exp(floats(first + columns[j] * stride)[d] - out[d])
        out[d] += math.log(total)


@inner
def _average_neighbours(worker, packed, r):
    """Every copy becomes the weighted average of its neighbourhood."""
    which = r if worker.matrices > 1 else 0
    starts = integers(worker.starts + 8 * which * (worker.agents + 1))
    modes, kinds = integers(worker.modes), worker.packed_rows + worker.n_sums + worker.n_maxima
    for copy in range(worker.copies):
        lo, hi = starts[copy], starts[copy + 1]
        for k in range(worker.states):
            place, i = k * _unit(worker), 0
            while i < kinds:
                # Neighbouring rows that are averaged in the same way are one longer row.
                mode, size = modes[i], 0
                while i < kinds and modes[i] == mode:
                    size += worker.D if i < worker.packed_rows else 1
                    i += 1
                _mix(worker, packed, mode, place, size, lo, hi)
                place += size
        _unpack(worker, copy)


@inner
def _communicate(worker, turn, r):
    """Exchange what neighbours average, and average it."""
    size = worker.states * _unit(worker)
    packed = worker.packed + 8 * (turn % worker.buffers) * worker.buffer_rows * size
    _pack_all(worker, packed)
    if worker.complete:
        return _average_all(worker, packed)
    if worker.workers > 1:
        status = call_int(worker.exchange, (worker.context, packed, size))
        if status != 0:
            return status
    _average_neighbours(worker, packed, r)
    return 0


@inner(inlined=True)
def _average_copies(worker, examples, r, eta):
    """Let neighbours average where the period says so."""
    t = examples.t + r
    if t % worker.period != 0:
        return 0
    if worker.period > 1:
        _finish(worker, t, eta)
    return _communicate(worker, t // worker.period, r)


@inner
def _keep_sum(worker):
    """Add the weights of every copy to their sum over the rounds."""
    for copy in range(worker.copies):
        for k in range(worker.states):
            weights = _read_vector(worker, copy, k)
            sums = floats(worker.sums + 8 * (copy * worker.states + k) * worker.D)
            for d in range(worker.D):
                sums[d] += weights[d]
