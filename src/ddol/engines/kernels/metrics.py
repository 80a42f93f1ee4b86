"""What is written down of a run while it goes on: counters, and what is seen of the weights."""

from __future__ import annotations

import math

from ddol.compiled import call_int, call_void, floats, inner, integers
from ddol.engines.kernels.layout import COPIES, PACK, _part, _read_vector, _state


@inner
def _best_log_weight(worker):
    """Largest log-weight of an expert on the shared copy; NaN where there is none."""
    if not worker.experts or worker.sharing == COPIES:
        return math.nan
    w, s = _state(worker, 0, 0)
    call_void(_part(worker, PACK), (w, s, worker.p, worker.D, worker.mixed))
    largest = -math.inf
    for d in range(worker.D):
        largest = max(largest, floats(worker.mixed)[d])
    return largest


@inner
def _sum_of_copies(worker):
    """Sum of the weights over all agents, in `mean`; 0, or the communicator's error."""
    size = worker.states * worker.D
    for d in range(size):
        floats(worker.mean)[d] = 0.0
    for copy in range(worker.copies):
        for k in range(worker.states):
            weights, sums = _read_vector(worker, copy, k), floats(worker.mean + 8 * k * worker.D)
            for d in range(worker.D):
                sums[d] += weights[d]
    if worker.workers == 1:
        return 0
    return call_int(worker.reduce, (worker.context, worker.mean, size))


@inner
def _squares_around_mean(worker):
    """Sum over this worker's copies of ‖w_i − w̄‖², where `mean` is N·w̄."""
    total = 0.0
    for copy in range(worker.copies):
        for k in range(worker.states):
            weights, sums = _read_vector(worker, copy, k), floats(worker.mean + 8 * k * worker.D)
            for d in range(worker.D):
                total += (weights[d] - sums[d] / worker.n_agents) ** 2
    return total


@inner
def _measure_distance(worker, out):
    """Write down √(mean over agents of ‖w_i − w̄‖²); 0, or the communicator's error."""
    floats(out)[0] = 0.0
    if worker.sharing != COPIES:
        return 0
    status = _sum_of_copies(worker)
    if status != 0:
        return status
    total = floats(worker.mean)
    total[0] = _squares_around_mean(worker)
    if worker.workers > 1:
        status = call_int(worker.reduce, (worker.context, worker.mean, 1))
    floats(out)[0] = math.sqrt(total[0] / worker.n_agents)
    return status


@inner
def _write_down(worker, examples, place):
    """Keep the counters as they are now, and what is seen of the weights."""
    out = floats(examples.counters + 32 * place * worker.agents)
    for a in range(worker.agents):
        out[4 * a] = integers(worker.mistakes)[a]
        out[4 * a + 1] = floats(worker.loss)[a]
        out[4 * a + 2] = floats(worker.expected)[a]
        out[4 * a + 3] = integers(worker.examples)[a]
    metrics = examples.metrics + 16 * place
    floats(metrics)[1] = _best_log_weight(worker)
    return _measure_distance(worker, metrics)
