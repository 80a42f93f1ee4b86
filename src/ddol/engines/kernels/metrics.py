"""What is seen of a run while it goes on."""

from __future__ import annotations

import math

import numpy as np

from ddol.compiled import call_void, floats, inner, integers
from ddol.engines.kernels.layout import (
    COPIES,
    TO_MESSAGE_ALL,
    WEIGHTS,
    WEIGHTS_ALL,
    part,
    vector_at,
)


@inner
def _best_log_weight(worker):
    """Largest log-weight of an expert where all agents share one copy; NaN where they do not.

    Where experts share their weights, that of the mean expert: it has the losses of all sequences of experts.
    """
    alone = worker.rules.n_agents == 1
    if not worker.rules.experts or (worker.rules.sharing == COPIES and not alone):
        return math.nan
    w, s = vector_at(worker, 0, 0)
    D, out = worker.shape.D, worker.scratch.mixed
    call_void(part(worker, TO_MESSAGE_ALL), (w, s, worker.rules.p, 0, D, D, out))
    largest = -math.inf
    for d in range(D):
        largest = max(largest, floats(out)[d])
    if not worker.rules.shares:
        return largest
    total = 0.0
    for d in range(D):
        total += math.exp(floats(out)[d] - largest)
    return largest + math.log(total / D)


@inner(inlined=True)
def _weights_met(worker, copy, k):
    """Weights of the features that some agent has met, in `mixed`, and their number.

    All others are the same at every agent.
    """
    w, s = vector_at(worker, copy, k)
    scratch, D, p = worker.scratch, worker.shape.D, worker.rules.p
    if scratch.touched == 0:
        call_void(part(worker, WEIGHTS_ALL), (w, s, p, 0, D, D, scratch.mixed))
        return floats(scratch.mixed), D
    n = integers(scratch.n_touched)[0]
    call_void(part(worker, WEIGHTS), (w, s, p, scratch.touched, n, D, scratch.mixed))
    return floats(scratch.mixed), n


@inner
def _sum_copies(worker, out):
    """Write down the sum of this worker's weights."""
    shape = worker.shape
    met = integers(worker.scratch.n_touched)[0] if worker.scratch.touched != 0 else shape.D
    for k in range(shape.states):
        for d in range(met):
            floats(out + 8 * k * shape.D)[d] = 0.0
    for copy in range(shape.copies):
        for k in range(shape.states):
            weights, n = _weights_met(worker, copy, k)
            sums = floats(out + 8 * k * shape.D)
            for d in range(n):
                sums[d] += weights[d]


@inner
def _squares_around_mean(worker, total_at):
    """Sum over this worker's copies of ‖w_i − w̄‖², where w̄ is their mean and their sum is known."""
    total, shape = 0.0, worker.shape
    for copy in range(shape.copies):
        for k in range(shape.states):
            weights, n = _weights_met(worker, copy, k)
            sums = floats(total_at + 8 * k * shape.D)
            for d in range(n):
                total += (weights[d] - sums[d] / shape.copies) ** 2
    return total


@inner
def _measure_distance(worker, places, k):
    """√(mean over agents of ‖w_i − w̄‖²); of several workers each writes down its sum, and the squares."""
    if worker.scratch.mean == 0:
        return 0.0
    shape, total_at = worker.shape, worker.scratch.mean
    if places.sums != 0:
        total_at = places.sums + 8 * k * shape.states * shape.D
    _sum_copies(worker, total_at)
    squares = _squares_around_mean(worker, total_at)
    return squares if places.sums != 0 else math.sqrt(squares / worker.rules.n_agents)


@inner
def take_snapshot(worker, places, k):
    """Write down counters, and what is seen of the weights."""
    memory, agents = worker.memory, worker.shape.agents
    for a in range(agents):
        seen = floats(places.counters + 32 * (k * agents + a))
        seen[0], seen[1] = np.float64(integers(memory.mistakes)[a]), floats(memory.loss)[a]
        seen[2], seen[3] = floats(memory.expected)[a], np.float64(integers(memory.examples)[a])
    if places.metrics != 0:
        seen = floats(places.metrics + 16 * k)
        seen[0], seen[1] = _measure_distance(worker, places, k), _best_log_weight(worker)
