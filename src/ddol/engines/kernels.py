"""Algorithm 1, compiled: predict, update, communicate, average, round after round.

One kernel serves every algorithm, engine and shape of input. What differs is called by address: the
update's loops, the loss, and the communicator that brings numbers across workers. A worker hosts some
of the agents; on the local engine it hosts all of them.

Memory is passed by address too: arrays of Numba are counted references, and counting costs more
than the arithmetic of a short row. Inside, an address becomes a pointer that is indexed like an
array (`floats`, `integers`, `indices`).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ddol.compiled import (
    call_float,
    call_int,
    call_void,
    entry,
    floats,
    indices,
    inner,
    integers,
    is_kept,
    packed,
    prefetch,
    prefetch_far,
    unpacked,
)

# Places in `parts`: the update's loops in the order of `Loops`, then the loss.
SCORE, BEGIN, STEP, ABSORB, COMMIT, FINISH, PACK, UNPACK, WEIGHTS = range(9)
SQUARES, OBSERVE, NOTICE, COMMIT_DENSE, VALUE, DERIVATIVE = range(9, 15)

BINARY, CLASSES, REGRESSION = 0, 1, 2
SHARED_ADD, SHARED_ABSORB, COPIES = 0, 1, 2
LINEAR, LOG = 0, 1
SHORT = 128  # non-zeros
AHEAD, MOST_FETCHED = 4, 1024  # rounds, and bytes of a row
GROUP, FAR = 4, 8  # agents, and rows
TIE = 1e-12  # as in ddol.update.majority: rounding must not decide between equal votes
LISTED = 1e-300
"""Marks a feature that is listed already, where its gradient happens to be 0."""


part, inlined = inner, inner(inlined=True)


class Worker(NamedTuple):
    """A share of the agents with all that their rounds need. Arrays are given by address."""

    # the algorithm
    n_agents: int
    kind: int
    """BINARY, CLASSES or REGRESSION."""
    sharing: int
    """SHARED_ADD or SHARED_ABSORB: one copy of the weights for all agents; COPIES: one each."""
    additive: bool
    experts: bool
    cheap: bool
    """A step along a short row costs less than a wrong guess whether there is a slope."""
    randomized: bool
    period: int
    delay: int
    C: float
    l2: float
    parts: int
    """int64: addresses of the compiled parts."""
    p: int
    """float64: the update's parameters."""
    q: int
    """float64: the loss's parameters."""
    # shapes
    agents: int
    """Agents that this worker hosts."""
    copies: int
    batch: int
    outputs: int
    """Scores per example."""
    states: int
    """Weight vectors per copy."""
    slots: int
    n_scalars: int
    D: int
    delta_rows: int
    peak_rows: int
    packed_rows: int
    """Rows of D numbers that one weight vector sends."""
    n_sums: int
    n_peaks: int
    """Scalars that are sums, or maxima, over agents: the first ones."""
    # state
    theta: int
    """float64 (copies, states, slots, D)"""
    scalars: int
    """float64 (copies, states, n_scalars)"""
    sums: int
    """float64 (copies, states, D): sum of the weights over the rounds; 0 if not wanted."""
    mistakes: int
    """int64 (agents,)"""
    loss: int
    """float64 (agents,)"""
    expected: int
    """float64 (agents,)"""
    examples: int
    """int64 (agents,)"""
    slopes: int
    """float64 (delay + 1, agents, batch, outputs): slopes whose answers are under way."""
    # scratch
    scores: int
    """float64 (outputs,)"""
    delta: int
    """float64 (states, delta_rows · D + n_sums) and one more: steps collected for the shared copy."""
    peak: int
    """float64 (states, peak_rows · D + n_peaks): largest numbers collected for the shared copy."""
    largest: int
    """The same shape: maxima over all agents; 0 where none are taken."""
    mixed: int
    """float64 (states, packed_rows · D + n_sums + n_peaks): what one agent sends."""
    mean: int
    """float64 (states, D): the mean of all copies."""
    merged: int
    """float64 (2, D): the gradient of a batch."""
    touched: int
    """uint32 (D,)"""
    # communication
    workers: int
    complete: bool
    """Copies are averaged over all agents with equal weights."""
    packed: int
    """float64 (buffers, rows, …): what agents send."""
    buffers: int
    buffer_rows: int
    own: int
    """Row of `packed` at which this worker's agents begin."""
    starts: int
    """int64 (matrices, agents + 1): rows of the mixing matrices, in CSR form."""
    matrices: int
    """1, or one for each round."""
    columns: int
    """int64: rows of `packed`"""
    shares: int
    """float64: weights of those rows"""
    modes: int
    """int64 (packed_rows + n_sums + n_peaks,): LINEAR, LOG or MAX"""
    reduce: int
    reduce_max: int
    exchange: int
    context: int
    """Functions of the communicator and its memory."""


class Examples(NamedTuple):
    """Rows of a block, and who sees which of them when. Arrays are given by address."""

    x: int
    features: int
    indptr: int
    """0 when rows are dense."""
    y: int
    weight: int
    """0 when all examples count the same."""
    predicted: int
    """int64 (rounds, columns, batch)"""
    learned: int
    """With a delay, the answers that arrive in a round are not those of its predictions."""
    columns: int
    first: int
    """Column of the tables at which this worker's agents begin."""
    chances: int
    """float64 (rounds, agents, batch): draws of randomised algorithms."""
    rates: int
    """float64 (rounds,); 0 where they are scale/t^exponent."""
    scale: float
    exponent: float
    """0, ½ or 1: the kernel has no use for others, which take longer than a table."""
    rounds: int
    t: int
    """The first round."""
    marks: int
    """int64 (n_marks,): rounds played when counters are to be written down, rising."""
    n_marks: int
    marked: int
    """float64 (n_marks, agents, 4): mistakes, loss, expected mistakes and examples then."""
    looks: int
    """float64 (n_marks, 2): consensus distance and largest log-weight of an expert then."""


@inlined
def _part(worker, place):
    return integers(worker.parts)[place]


@inlined
def _row(worker, examples, i):
    """Addresses and length of a row."""
    if examples.indptr == 0:
        start, n = i * worker.D, worker.D
    else:
        start = integers(examples.indptr)[i]
        n = integers(examples.indptr)[i + 1] - start
    return examples.x + 8 * start, examples.features + 4 * start, n


@inlined
def _state(worker, copy, k):
    """Addresses of the numbers and scalars of one weight vector of one copy."""
    place = copy * worker.states + k
    theta = worker.theta + 8 * place * worker.slots * worker.D
    return theta, worker.scalars + 8 * place * worker.n_scalars


@inlined
def _rate(examples, r):
    """η of a round; a square root is done before the step has use for it, a table must be written."""
    if examples.rates != 0:
        return floats(examples.rates)[r]
    t = np.float64(examples.t + r)
    if examples.exponent == 0.5:
        return examples.scale / math.sqrt(t)
    return examples.scale / t if examples.exponent == 1.0 else examples.scale


@inlined
def _rows_of(worker, examples, table, r, a):
    """The rows that an agent sees in a round."""
    return integers(table + 8 * ((r * examples.columns + examples.first + a) * worker.batch))


@inlined
def _slopes_of(worker, turn, a, b):
    """Slopes of an agent's b-th example of a round, one per output."""
    place = ((turn * worker.agents + a) * worker.batch + b) * worker.outputs
    return floats(worker.slopes + 8 * place)


@inlined
def _turn(worker, t):
    """Where the slopes of round t are kept; a division, so it is skipped where it can be."""
    return t % (worker.delay + 1) if worker.delay > 0 else 0


@inlined
def _batch_size(worker, rows):
    """Examples that an agent has in a round."""
    size = 0
    for b in range(worker.batch):
        size += rows[b] >= 0
    return size


@part
def _squares(worker, copy):
    """‖w‖² over all weight vectors of a copy."""
    total = 0.0
    for k in range(worker.states):
        w, s = _state(worker, copy, k)
        if _part(worker, SQUARES) != 0:
            total += call_float(_part(worker, SQUARES), (w, s, worker.p, worker.D))
        else:
            call_void(_part(worker, WEIGHTS), (w, s, worker.p, worker.D, worker.mixed))
            for d in range(worker.D):
                total += floats(worker.mixed)[d] ** 2
    return total


# --- predict -------------------------------------------------------------------------------------


@part
def _best(worker):
    """Class with the largest score; the lowest class wins a tie."""
    scores, best = floats(worker.scores), 0
    tie = TIE if worker.experts else 0.0
    for k in range(1, worker.outputs):
        if scores[k] > scores[best] + tie:
            best = k
    return best


@part
def _drawn(worker, chance):
    """Class of the expert that is followed: each with the share of its votes."""
    shares, passed = floats(worker.scores), 0.0
    for k in range(worker.outputs):
        passed += shares[k]
        if chance < passed:
            return k
    return worker.outputs - 1


@part
def _count_classes(worker, y, chance, a):
    """Whether the prediction among several classes is wrong."""
    label = np.int64(y)
    if not worker.randomized:
        return _best(worker) != label
    floats(worker.expected)[a] += 1.0 - floats(worker.scores)[label]
    return _drawn(worker, chance) != label


@inlined
def _unless_finite(z):
    """0, or NaN: a loss keeps it, whatever the loss of such a score is. See `Loops.score`."""
    return z - z


@inlined
def _count_binary(worker, z, y, chance, a):
    """Whether the prediction between −1 and +1 is wrong; score 0 predicts +1."""
    if not worker.randomized:
        return (z >= 0.0) != (y > 0.0)
    positive = 0.5 * (1.0 + z)
    floats(worker.expected)[a] += 1.0 - positive if y > 0.0 else positive
    return (chance < positive) != (y > 0.0)


@inlined
def _score(worker, examples, a, i):
    """Scores of one example, one per output."""
    x, index, n = _row(worker, examples, i)
    copy = a if worker.sharing == COPIES else 0
    scores = floats(worker.scores)
    for k in range(worker.outputs):
        w, s = _state(worker, copy, 0 if worker.states == 1 else k)
        arguments = (w, s, worker.p, x, index, n, worker.D, np.float64(k))
        scores[k] = call_float(_part(worker, SCORE), arguments)
    return scores


@inlined
def _predict(worker, examples, a, i, chance, slopes):
    """Predict one example, count what it cost, and keep the slopes for when the answer arrives."""
    y = floats(examples.y)[i]
    scores = _score(worker, examples, a, i)
    wrong = False
    if worker.kind == BINARY:
        wrong = _count_binary(worker, scores[0], y, chance, a)
    elif worker.kind == CLASSES:
        wrong = _count_classes(worker, y, chance, a)
    integers(worker.mistakes)[a] += wrong
    integers(worker.examples)[a] += 1
    importance = worker.C
    if examples.weight != 0:
        importance *= floats(examples.weight)[i]
    if worker.experts:
        slopes[0] = y
        return (importance if wrong else 0.0) + _unless_finite(scores[0])
    cost = 0.0
    for k in range(worker.outputs):
        answer = y
        if worker.kind == CLASSES:
            answer = 1.0 if k == np.int64(y) else -1.0
        arguments = (scores[k], answer, worker.q)
        cost += call_float(_part(worker, VALUE), arguments) + _unless_finite(scores[k])
        slopes[k] = importance * call_float(_part(worker, DERIVATIVE), arguments)
    return importance * cost


@inlined
def _penalty(worker, copy):
    """λ‖w‖²/2, which every loss has beside its own."""
    return 0.5 * worker.l2 * _squares(worker, copy) if worker.l2 > 0.0 else 0.0


@inlined
def _predict_agent(worker, examples, r, a, penalty, fetches):
    """An agent predicts its own examples with its own weights."""
    rows = _rows_of(worker, examples, examples.predicted, r, a)
    for b in range(worker.batch):
        if rows[b] < 0:
            continue
        if fetches:
            _fetch_ahead(worker, examples, r, a * worker.batch + b)
        chance = 0.0
        if worker.randomized:
            chance = floats(examples.chances)[(r * worker.agents + a) * worker.batch + b]
        slopes = _slopes_of(worker, _turn(worker, examples.t + r), a, b)
        cost = _predict(worker, examples, a, rows[b], chance, slopes)
        floats(worker.loss)[a] += cost + penalty


# --- update --------------------------------------------------------------------------------------
# Answers that arrive in round t belong to round t − delay, which has the same slot as t + 1.


@part
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


@inlined
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


@inlined
def _steps(worker, n, slope):
    """Whether a row is stepped along: where it is cheap, even if that changes nothing."""
    return (worker.cheap and n < SHORT) or worker.experts or slope != 0.0


@inlined
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


@inlined
def _begin_shared(worker, eta, active):
    if _part(worker, BEGIN) == 0:
        return
    for k in range(worker.states):
        w, s = _state(worker, 0, k)
        call_void(_part(worker, BEGIN), (w, s, worker.p, worker.D, eta, active, 0.0))


@inlined
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


@inlined
def _collected(worker, k):
    """Addresses of the sums and maxima that were collected for one weight vector."""
    delta = worker.delta + 8 * k * (worker.delta_rows * worker.D + worker.n_sums)
    return delta, worker.peak + 8 * k * (worker.peak_rows * worker.D + worker.n_peaks)


@part
def _notice(worker, examples, rows, k):
    """Collect what one agent's examples tell one weight vector."""
    w, s = _state(worker, 0, k)
    delta, peak = _collected(worker, k)
    share = 1.0 / worker.n_agents
    for b in range(worker.batch):
        if rows[b] >= 0:
            x, index, n = _row(worker, examples, rows[b])
            y = floats(examples.y)[rows[b]]
            arguments = (w, s, worker.p, delta, peak, x, index, n, worker.D, y, share)
            call_void(_part(worker, NOTICE), arguments)


@inlined
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


@part
def _commit_scalars(worker):
    """Add collected scalars to the shared copy's, and clear them."""
    for k in range(worker.states):
        scalars = floats(_state(worker, 0, k)[1])
        delta, peak = _collected(worker, k)
        sums = floats(delta + 8 * worker.delta_rows * worker.D)
        peaks = floats(peak + 8 * worker.peak_rows * worker.D)
        for i in range(worker.n_sums):
            scalars[i] += sums[i]
            sums[i] = 0.0
        for i in range(worker.n_peaks):
            scalars[worker.n_sums + i] = max(scalars[worker.n_sums + i], peaks[i])
            peaks[i] = 0.0


@part
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
                delta, peak = _collected(worker, k)
                arguments = (w, s, worker.p, delta, peak, index, n, worker.D, eta)
                call_void(_part(worker, COMMIT), arguments)


@part
def _commit_whole(worker, eta):
    """Apply what all workers collected, to every feature."""
    for k in range(worker.states):
        w, s = _state(worker, 0, k)
        delta, peak = _collected(worker, k)
        arguments = (w, s, worker.p, delta, peak, 0, worker.D, worker.D, eta)
        call_void(_part(worker, COMMIT_DENSE), arguments)


@part
def _reduce_collected(worker, active):
    """Sum what the workers collected, and the agents that were active: (status, active)."""
    size = worker.states * (worker.delta_rows * worker.D + worker.n_sums)
    floats(worker.delta)[size] = active
    status = call_int(worker.reduce, (worker.context, worker.delta, size + 1))
    peaks = worker.states * (worker.peak_rows * worker.D + worker.n_peaks)
    if status == 0 and peaks > 0:
        status = call_int(worker.reduce_max, (worker.context, worker.peak, peaks))
    return status, floats(worker.delta)[size]


@inlined
def _collects(worker, examples):
    """Whether steps on the shared copy are collected first, so that a row is gone through once.

    Sparse rows would be gone through again to apply what was collected.
    """
    several = worker.workers > 1 or worker.sharing == SHARED_ABSORB
    return several or (examples.indptr == 0 and worker.agents * worker.batch >= GROUP)


@inlined
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


@inlined
def _finish(worker, t, eta):
    """Project every copy."""
    if _part(worker, FINISH) == 0:
        return
    for copy in range(worker.copies):
        for k in range(worker.states):
            w, s = _state(worker, copy, k)
            call_void(_part(worker, FINISH), (w, s, worker.p, worker.D, np.float64(t), eta))


# --- communicate and average ---------------------------------------------------------------------


@inlined
def _unit(worker):
    """Numbers that one weight vector sends: rows of D, then scalars."""
    return worker.packed_rows * worker.D + worker.n_sums + worker.n_peaks


@part
def _pack_all(worker, packed):
    """Write what every copy sends into its row of `packed`."""
    size = 8 * _unit(worker)
    for copy in range(worker.copies):
        for k in range(worker.states):
            w, s = _state(worker, copy, k)
            place = packed + ((worker.own + copy) * worker.states + k) * size
            call_void(_part(worker, PACK), (w, s, worker.p, worker.D, place))
            scalars = floats(place + 8 * worker.packed_rows * worker.D)
            for i in range(worker.n_sums + worker.n_peaks):
                scalars[i] = floats(s)[i]


@part
def _unpack(worker, copy):
    """Take the rows in `mixed` as the state of one copy."""
    for k in range(worker.states):
        w, s = _state(worker, copy, k)
        place = worker.mixed + 8 * k * _unit(worker)
        scalars = floats(place + 8 * worker.packed_rows * worker.D)
        for i in range(worker.n_sums + worker.n_peaks):
            floats(s)[i] = scalars[i]
        call_void(_part(worker, UNPACK), (w, s, worker.p, worker.D, place))


@part
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


@part
def _average_all(worker, packed):
    """Complete graph, equal weights: one mean, or maximum, for everybody."""
    size = worker.states * _unit(worker)
    status = _gather_all(worker, packed, size)
    if status != 0:
        return status
    mean, largest, place = floats(worker.mixed), floats(worker.largest), 0
    for _ in range(worker.states):
        for i in range(worker.packed_rows + worker.n_sums + worker.n_peaks):
            end = place + (worker.D if i < worker.packed_rows else 1)
            linear = integers(worker.modes)[i] == LINEAR
            for d in range(place, end):
                mean[d] = mean[d] / worker.n_agents if linear else largest[d]
            place = end
    for copy in range(worker.copies):
        _unpack(worker, copy)
    return 0


@part
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


@part
def _average_neighbours(worker, packed, r):
    """Every copy becomes the weighted average of its neighbourhood."""
    which = r if worker.matrices > 1 else 0
    starts = integers(worker.starts + 8 * which * (worker.agents + 1))
    modes, kinds = integers(worker.modes), worker.packed_rows + worker.n_sums + worker.n_peaks
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


@part
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


@inlined
def _average_copies(worker, examples, r, eta):
    """Let neighbours average where the period says so."""
    t = examples.t + r
    if t % worker.period != 0:
        return 0
    if worker.period > 1:
        _finish(worker, t, eta)
    return _communicate(worker, t // worker.period, r)


@part
def _keep_sum(worker):
    """Add the weights of every copy to their sum over the rounds."""
    for copy in range(worker.copies):
        for k in range(worker.states):
            w, s = _state(worker, copy, k)
            call_void(_part(worker, WEIGHTS), (w, s, worker.p, worker.D, worker.mixed))
            sums = floats(worker.sums + 8 * (copy * worker.states + k) * worker.D)
            for d in range(worker.D):
                sums[d] += floats(worker.mixed)[d]


@inlined
def _ask(address, near):
    """Ask for a line of memory: into the nearest cache, or, as one of many, into the second."""
    if near:
        prefetch(address)
    else:
        prefetch_far(address)


@inlined
def _fetch(worker, examples, i, near):
    """Ask for a row that is to be read soon: steps wait for each other, memory need not."""
    if i < 0:
        return
    x, index, n = _row(worker, examples, i)
    for line in range(0, min(8 * n, MOST_FETCHED), 64):
        _ask(x + line, near)
    if examples.indptr != 0:
        for line in range(0, min(4 * n, MOST_FETCHED), 64):
            _ask(index + line, near)


@inlined
def _fetch_ahead(worker, examples, r, place):
    """Ask for the row that comes some agents later, in this round or the next one."""
    size, place = worker.agents * worker.batch, place + FAR
    if place >= size:
        r, place = r + 1, min(place - size, size - 1)
    if r < examples.rounds:
        i = _rows_of(worker, examples, examples.predicted, r, 0)[place]
        _fetch(worker, examples, i, False)


@inlined
def _jumps(worker, examples):
    """Whether a processor cannot guess which row comes next: other rows or weights lie between."""
    return worker.workers > 1 or (worker.sharing == COPIES and examples.indptr == 0)


@inlined
def _play_agents(worker, examples, r, eta):
    """Every agent predicts, and learns where that changes nobody else's weights.

    Returns the number of agents that have an answer. A row is near when it is needed again if its
    agent learns soon; one agent alone would keep the processor waiting for each score.
    """
    active, copies = 0.0, worker.sharing == COPIES
    collects = not copies and _collects(worker, examples)
    penalty, fetches = 0.0 if copies else _penalty(worker, 0), _jumps(worker, examples)
    for lo in range(0, worker.agents, GROUP):
        hi = min(lo + GROUP, worker.agents)
        for a in range(lo, hi):
            own = _penalty(worker, a) if copies else penalty
            _predict_agent(worker, examples, r, a, own, fetches)
        for a in range(lo, hi):
            rows = _rows_of(worker, examples, examples.learned, r, a)
            active += _batch_size(worker, rows) > 0
            if copies:
                _update_copy(worker, examples, r, a, eta)
            elif collects:
                _absorb_agent(worker, examples, r, a, eta)
    return active


@inlined
def _is_alone(worker):
    """One agent with one weight vector, one example a round, answered at once."""
    one = worker.n_agents == 1 and worker.batch == 1 and worker.outputs == 1
    simple = worker.kind == BINARY and worker.delay == 0 and not worker.experts
    return one and simple and worker.sharing == SHARED_ADD and worker.sums == 0


@inlined
def _is_plain(worker):
    """Where a step alone follows a score, as it does without regularisation."""
    before = _part(worker, BEGIN) == 0 and _part(worker, OBSERVE) == 0
    return before and _part(worker, FINISH) == 0 and worker.l2 == 0.0


@inlined
def _play_alone(worker, examples, lo, hi, plain):
    """The same rounds where nothing is collected, kept or exchanged: half of a short row's time.

    Every score waits for the step before it. So from score to step a number goes straight from one
    part to the next: what else is to be done comes after, and no call that need not be (`plain`)
    comes between.
    """
    w, s, p, q, D = worker.theta, worker.scalars, worker.p, worker.q, worker.D
    # Added to what it was, not summed apart: blocks may end anywhere, to the bit.
    mistakes, loss, seen = 0, floats(worker.loss)[0], 0
    for r in range(lo, hi):
        i = integers(examples.predicted)[r]
        if i < 0:
            continue
        eta, y = _rate(examples, r), floats(examples.y)[i]
        x, index, n = _row(worker, examples, i)
        if r + AHEAD < examples.rounds:
            _fetch(worker, examples, integers(examples.predicted)[r + AHEAD], True)
        if not plain and worker.l2 > 0.0:
            loss += 0.5 * worker.l2 * _squares(worker, 0)
        importance = worker.C
        if examples.weight != 0:
            importance *= floats(examples.weight)[i]
        z = call_float(_part(worker, SCORE), (w, s, p, x, index, n, D, 0.0))
        if not plain and _part(worker, BEGIN) != 0:
            call_void(_part(worker, BEGIN), (w, s, p, D, eta, 1.0, 0.0))
        if not plain and _part(worker, OBSERVE) != 0:
            call_void(_part(worker, OBSERVE), (w, s, p, x, index, n, D, y, 2.0))
        g = importance * call_float(_part(worker, DERIVATIVE), (z, y, q))
        if (worker.cheap and n < SHORT) or g != 0.0:
            call_void(_part(worker, STEP), (w, s, p, x, index, n, D, g, eta, 1.0))
        if not plain and _part(worker, FINISH) != 0:
            now = np.float64(examples.t + r)
            call_void(_part(worker, FINISH), (w, s, p, D, now, eta))
        mistakes += (z >= 0.0) != (y > 0.0)
        seen += 1
        loss += importance * call_float(_part(worker, VALUE), (z, y, q)) + _unless_finite(z)
    integers(worker.mistakes)[0] += mistakes
    integers(worker.examples)[0] += seen
    floats(worker.loss)[0] = loss


@inlined
def _is_usual(worker):
    """Agents with one weight vector and one example a round, answered at once."""
    one = worker.batch == 1 and worker.outputs == 1 and worker.states == 1
    simple = worker.kind == BINARY and worker.delay == 0 and not worker.experts
    return one and simple and not worker.randomized


@part
def _play_rounds(worker, examples, lo, hi):
    """Play the rounds lo, …, hi − 1 of a block; 0, or the communicator's error."""
    if _is_alone(worker):
        if _is_plain(worker):
            _play_alone(worker, examples, lo, hi, True)
        else:
            _play_alone(worker, examples, lo, hi, False)
        return 0
    # The same text twice: where it stands under a condition, the compiler makes use of what it says.
    if _is_usual(worker):
        return _play_together(worker, examples, lo, hi)
    return _play_together(worker, examples, lo, hi)


@inlined
def _play_together(worker, examples, lo, hi):
    for r in range(lo, hi):
        eta = _rate(examples, r)
        active = _play_agents(worker, examples, r, eta)
        if worker.sharing == COPIES:
            status = _average_copies(worker, examples, r, eta)
        else:
            status = _update_shared(worker, examples, r, eta, active)
        if status != 0:
            return status
        _finish(worker, examples.t + r, eta)
        if worker.sums != 0:
            _keep_sum(worker)
    return 0


@part
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


@part
def _sum_of_copies(worker):
    """Sum of the weights over all agents, in `mean`; 0, or the communicator's error."""
    size = worker.states * worker.D
    for d in range(size):
        floats(worker.mean)[d] = 0.0
    for copy in range(worker.copies):
        for k in range(worker.states):
            w, s = _state(worker, copy, k)
            call_void(_part(worker, WEIGHTS), (w, s, worker.p, worker.D, worker.mixed))
            sums = floats(worker.mean + 8 * k * worker.D)
            for d in range(worker.D):
                sums[d] += floats(worker.mixed)[d]
    if worker.workers == 1:
        return 0
    return call_int(worker.reduce, (worker.context, worker.mean, size))


@part
def _squares_around_mean(worker):
    """Sum over this worker's copies of ‖w_i − w̄‖², where `mean` is N·w̄."""
    total = 0.0
    for copy in range(worker.copies):
        for k in range(worker.states):
            w, s = _state(worker, copy, k)
            call_void(_part(worker, WEIGHTS), (w, s, worker.p, worker.D, worker.mixed))
            sums = floats(worker.mean + 8 * k * worker.D)
            for d in range(worker.D):
                total += (floats(worker.mixed)[d] - sums[d] / worker.n_agents) ** 2
    return total


@part
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


@part
def _write_down(worker, examples, mark):
    """Keep the counters as they are now, and what is seen of the weights."""
    out = floats(examples.marked + 32 * mark * worker.agents)
    for a in range(worker.agents):
        out[4 * a] = integers(worker.mistakes)[a]
        out[4 * a + 1] = floats(worker.loss)[a]
        out[4 * a + 2] = floats(worker.expected)[a]
        out[4 * a + 3] = integers(worker.examples)[a]
    look = examples.looks + 16 * mark
    floats(look)[1] = _best_log_weight(worker)
    return _measure_distance(worker, look)


@part
def _play_block(worker, examples):
    lo = 0
    for mark in range(examples.n_marks):
        hi = integers(examples.marks)[mark]
        status = _play_rounds(worker, examples, lo, hi)
        if status == 0:
            status = _write_down(worker, examples, mark)
        if status != 0:
            return status
        lo = hi
    return _play_rounds(worker, examples, lo, examples.rounds)


@part
def _read_weights(worker, out):
    for copy in range(worker.copies):
        for k in range(worker.states):
            w, s = _state(worker, copy, k)
            place = out + 8 * (copy * worker.states + k) * worker.D
            call_void(_part(worker, WEIGHTS), (w, s, worker.p, worker.D, place))


# --- what Python calls ---------------------------------------------------------------------------


@entry("int64(struct*, struct*)")
def _play(worker, examples):
    return _play_block(unpacked(Worker, worker), unpacked(Examples, examples))


@entry("void(struct*, int64)")
def _weights(worker, out):
    _read_weights(unpacked(Worker, worker), out)


def play(worker: Worker, examples: Examples) -> int:
    """Play the rounds of one block; 0, or the communicator's error."""
    return int(_play(packed(worker), packed(examples)))


def read_weights(worker: Worker, out: int) -> None:
    """Write the primal weights of every copy: (copies, states, D)."""
    _weights(packed(worker), out)


def is_compiled() -> bool:
    """Whether this machine has compiled the kernel before; if not, the first run takes some seconds."""
    return is_kept(_play)
