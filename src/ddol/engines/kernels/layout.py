"""What a worker and a block are in memory, and where to find things in them.

Memory is passed by address: arrays of Numba are counted references, and counting costs more than
the arithmetic of a short row. Inside, an address becomes a pointer that is indexed like an array
(`floats`, `integers`, `indices`)."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ddol.compiled import call_float, call_void, floats, inner, integers

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
    branchless_step: bool
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
    maxima_rows: int
    packed_rows: int
    """Rows of D numbers that one weight vector sends."""
    n_sums: int
    n_maxima: int
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
    maxima: int
    """float64 (states, maxima_rows · D + n_maxima): largest numbers collected for the shared copy."""
    largest: int
    """The same shape: maxima over all agents; 0 where none are taken."""
    mixed: int
    """float64 (states, packed_rows · D + n_sums + n_maxima): what one agent sends."""
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
    """int64 (packed_rows + n_sums + n_maxima,): LINEAR, LOG or MAX"""
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
    snapshots: int
    """int64 (n_snapshots,): rounds played when counters are to be written down, rising."""
    n_snapshots: int
    counters: int
    """float64 (n_snapshots, agents, 4): mistakes, loss, expected mistakes and examples then."""
    metrics: int
    """float64 (n_snapshots, 2): consensus distance and largest log-weight of an expert then."""


@inner(inlined=True)
def _part(worker, place):
    return integers(worker.parts)[place]


@inner(inlined=True)
def _row(worker, examples, i):
    """Addresses and length of a row."""
    if examples.indptr == 0:
        start, n = i * worker.D, worker.D
    else:
        start = integers(examples.indptr)[i]
        n = integers(examples.indptr)[i + 1] - start
    return examples.x + 8 * start, examples.features + 4 * start, n


@inner(inlined=True)
def _state(worker, copy, k):
    """Addresses of the numbers and scalars of one weight vector of one copy."""
    place = copy * worker.states + k
    theta = worker.theta + 8 * place * worker.slots * worker.D
    return theta, worker.scalars + 8 * place * worker.n_scalars


@inner(inlined=True)
def _rate(examples, r):
    """η of a round; a square root is done before the step has use for it, a table must be written."""
    if examples.rates != 0:
        return floats(examples.rates)[r]
    t = np.float64(examples.t + r)
    if examples.exponent == 0.5:
        return examples.scale / math.sqrt(t)
    return examples.scale / t if examples.exponent == 1.0 else examples.scale


@inner(inlined=True)
def _rows_of(worker, examples, table, r, a):
    """The rows that an agent sees in a round."""
    return integers(table + 8 * ((r * examples.columns + examples.first + a) * worker.batch))


@inner(inlined=True)
def _slopes_of(worker, turn, a, b):
    """Slopes of an agent's b-th example of a round, one per output."""
    place = ((turn * worker.agents + a) * worker.batch + b) * worker.outputs
    return floats(worker.slopes + 8 * place)


@inner(inlined=True)
def _turn(worker, t):
    """Where the slopes of round t are kept; a division, so it is skipped where it can be."""
    return t % (worker.delay + 1) if worker.delay > 0 else 0


@inner(inlined=True)
def _batch_size(worker, rows):
    """Examples that an agent has in a round."""
    size = 0
    for b in range(worker.batch):
        size += rows[b] >= 0
    return size


@inner(inlined=True)
def _read_vector(worker, copy, k):
    """The primal weights of one weight vector of one copy, written into `mixed`."""
    w, s = _state(worker, copy, k)
    call_void(_part(worker, WEIGHTS), (w, s, worker.p, worker.D, worker.mixed))
    return floats(worker.mixed)


@inner
def _squares(worker, copy):
    """‖w‖² over all weight vectors of a copy."""
    total = 0.0
    for k in range(worker.states):
        w, s = _state(worker, copy, k)
        if _part(worker, SQUARES) != 0:
            total += call_float(_part(worker, SQUARES), (w, s, worker.p, worker.D))
        else:
            weights = _read_vector(worker, copy, k)
            for d in range(worker.D):
                total += weights[d] ** 2
    return total
