"""What a worker and a block are in memory, and where to find things in them.

Memory is passed by address: arrays of Numba are counted references, and counting costs more than
the arithmetic of a short row. Inside, an address becomes a pointer that is indexed like an array
(`floats`, `integers`, `indices`). A worker itself is passed by address too, and its fields are read where
they are used."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ddol.compiled import call_float, call_void, floats, inner, integers

# Places in `parts`: the update's loops in the order of `ddol.update.contract.CALLS`, those over all
# features, the loss, and all of a turn in one.
SCORE, STEP, BEGIN, FINISH, OBSERVE, SCORE_UNSEEN, HEAR, ABSORB, NOTICE, COMMIT = range(10)
TO_MESSAGE, FROM_MESSAGE, TO_STATISTICS, FROM_STATISTICS, WEIGHTS, SQUARES = range(10, 16)
BLEND, JUDGE = 16, 17
COMMIT_ALL, TO_MESSAGE_ALL, FROM_MESSAGE_ALL, TO_STATISTICS_ALL, FROM_STATISTICS_ALL = range(18, 23)
WEIGHTS_ALL, VALUE, BOTH, TURN, TOGETHER, ROBUST = range(23, 29)

BINARY, CLASSES, REGRESSION = 0, 1, 2
SHARED_ADD, SHARED_COLLECT, COPIES = 0, 1, 2
LINEAR, LOG, LARGEST = 0, 1, 2  # as in ddol.update.contract
AHEAD, MOST_FETCHED = 4, 2048  # rounds, and bytes of a row
GROUP, FAR = 4, 8  # agents, and rows
SLOTS = 16  # rows that begin with a 1
LISTED = 1e-300
"""Marks a feature that is listed already, where its gradient happens to be 0."""


class Rules(NamedTuple):
    """The algorithm."""

    n_agents: int
    kind: int
    """BINARY, CLASSES or REGRESSION."""
    sharing: int
    """SHARED_ADD or SHARED_COLLECT: one copy of the weights for all agents; COPIES: one each."""
    additive: bool
    experts: bool
    shares: bool
    """Experts give shares of their weight to each other."""
    branchless_step: bool
    adds_ones: bool
    """Turns of one agent alone take rows without the 1 in front of them."""
    randomized: bool
    tie: float
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
    arrival: bool
    """Slopes are taken when an answer arrives, at the weights of then."""
    asks: int
    """float64: when agents ask for answers; 0 where they ask for all."""
    factors: int
    """float64: by what the rate of each agent is multiplied; 0 where all have the same."""
    neighbours: int
    """int64: where the neighbours of every agent begin, and then who they are; 0 where none is asked."""


class Shape(NamedTuple):
    """Sizes."""

    D: int
    agents: int
    """Agents that this worker hosts."""
    copies: int
    batch: int
    outputs: int
    """Scores per example."""
    states: int
    """Weight vectors per copy."""
    rows: int
    """Rows of D numbers per weight vector, and its scalars."""
    scalars: int
    sum_rows: int
    """Rows of D numbers that are collected as sums, and as maxima."""
    maxima_rows: int
    message_rows: int
    """Rows of D numbers that one weight vector sends."""
    linear_scalars: int
    largest_scalars: int
    """Scalars that are sums, or maxima, over agents: the first ones."""
    statistics: int
    """Rows that are statistics, the first of a message, and scalars, also the first."""
    counts: int
    sampled: bool
    """Statistics are left out of exchanges that are not sampled."""
    kept: int
    """Scalars that are noted with a prediction, in front of the last one: see `Layout.kept`."""
    wires: int
    box_row: int
    box_rows: int
    box_scalar: int
    box_scalars: int
    """Where messages are kept that are tested: see `ddol.update.layout.Boxes`."""
    most_heard: int
    """Neighbours of an agent at most, where averages are robust; else 0."""
    rows_bytes: int
    """Bytes of one weight vector's rows, scalars, collected sums and collected maxima."""
    scalars_bytes: int
    delta_bytes: int
    maxima_bytes: int


class Memory(NamedTuple):
    """The state of this worker's agents."""

    theta: int
    """float64 (copies, states, rows, D)"""
    scalars: int
    """float64 (copies, states, scalars)"""
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
    asking: int
    """float64 (agents, 6): what agents remember of their asking"""
    slopes: int
    """float64 (delay + 1, agents, batch, outputs · (1 + kept)): slopes whose answers are under way, and
    notes."""


class Scratch(NamedTuple):
    """Room to work in."""

    scores: int
    """float64 (outputs · (1 + kept),): scores, and room for what is noted of them"""
    delta: int
    """float64 (states, sum_rows · D + linear_scalars) and one more: steps for the shared copy."""
    maxima: int
    """float64 (states, maxima_rows · D + largest_scalars): largest numbers for the shared copy."""
    union: int
    """uint32 (D + 1,): the features of all rows of a round, and room for one more."""
    in_union: int
    """uint8 (D,): 0 between rounds."""
    mixed: int
    """float64: what one weight vector, or all of an agent, receives."""
    largest: int
    """The same shape: maxima over all agents; 0 where none are taken."""
    mean: int
    """float64 (states, D): the sum of all copies."""
    merged: int
    """float64 (2, D): the gradient of a batch."""
    merged_index: int
    """uint32 (D,)"""
    touched: int
    """uint32 (D,): features that some agent has learned of, in the order of their first time; 0 where
    all are exchanged."""
    n_touched: int
    """int64 (1,)"""
    is_touched: int
    """uint8 (D,)"""
    passed: int
    """int64 (wires,): whose messages an agent averages: its own in the place of those that failed its
    tests."""
    gathered: int
    """float64 (neighbours, D + 2): what a robust average reads: messages, their weights, and room"""
    begun: int
    """float64 (SLOTS, begun_size): rows that begin with a 1 which is not stored, as they are read."""
    begun_index: int
    """uint32 (SLOTS, begun_size)"""
    begun_rows: int
    """int64 (SLOTS,): which row is where."""
    begun_size: int


class Links(NamedTuple):
    """How numbers cross agents and workers."""

    workers: int
    complete: bool
    """Copies are averaged over all agents with equal weights."""
    alike: bool
    """All agents hear all with equal weights: those that trust every neighbour have the same average."""
    whole: bool
    """A message needs all features at once."""
    block: int
    """Features that are exchanged at a time, within one worker."""
    packed: int
    """float64 (buffers, buffer_rows, …): what agents send."""
    buffers: int
    buffer_rows: int
    own: int
    """Row of `packed` at which this worker's agents begin."""
    starts: int
    """int64 (matrices, agents + 1): rows of the mixing matrices, in CSR form."""
    matrices: int
    """1, or one for each round."""
    order: int
    """int64 (matrices, 2, agents): agents by the last one that they hear, and how many of them hear none
    behind each agent."""
    columns: int
    """int64: rows of `packed`"""
    weights: int
    """float64: weights of those rows"""
    modes: int
    """int64 (message_rows + linear_scalars + largest_scalars,): LINEAR, LOG or LARGEST"""
    linear: bool
    """All of them are LINEAR."""
    reduce: int
    reduce_max: int
    exchange: int
    context: int
    """Functions of the communicator and its memory."""


class Worker(NamedTuple):
    """A part of the agents with all that their rounds need. Arrays are given by address."""

    rules: Rules
    shape: Shape
    memory: Memory
    scratch: Scratch
    links: Links


class Examples(NamedTuple):
    """Rows of a block, and who sees which of them when. Arrays are given by address."""

    x: int
    features: int
    indptr: int
    """0 when rows are dense."""
    ones: int
    """1 where a 1 that is not stored comes before every row, else 0."""
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
    scores: int
    """float64 (rows, outputs): scores with which rows are predicted; 0 where they are not asked for."""


class SnapshotPlaces(NamedTuple):
    """When a run is looked at, and where to write what is seen. Arrays are given by address."""

    n: int
    rounds: int
    """int64 (n,): rounds played by then, in rising order."""
    counters: int
    """float64 (n, agents, 4): mistakes, loss, expected mistakes and examples."""
    metrics: int
    """float64 (n, 2): what is seen of the weights; 0 where there is nothing to see."""
    sums: int
    """float64 (n, states, D): sums of this worker's weights; 0 where there is no other worker."""


@inner(inlined=True)
def in_lines(numbers):
    """So many numbers, and what fills their last cache line: vectors of the next message cross none."""
    return (numbers + 7) & -8


@inner(inlined=True)
def part(worker, place):
    """Address of a compiled part; 0 where there is none."""
    return integers(worker.rules.parts)[place]


@inner(inlined=True)
def vector_at(worker, copy, k):
    """Addresses of the rows and scalars of one weight vector of one copy."""
    shape, memory = worker.shape, worker.memory
    place = copy * shape.states + k
    return memory.theta + place * shape.rows_bytes, memory.scalars + place * shape.scalars_bytes


@inner(inlined=True)
def rate_of(examples, r):
    """η of a round; a square root is done before the step has use for it, a table must be written."""
    if examples.rates != 0:
        return floats(examples.rates)[r]
    t = np.float64(examples.t + r)
    if examples.exponent == 0.5:
        return examples.scale / math.sqrt(t)
    return examples.scale / t if examples.exponent == 1.0 else examples.scale


@inner(inlined=True)
def own_rate(worker, a, eta):
    """What one agent makes of the rate of all."""
    return eta if worker.rules.factors == 0 else eta * floats(worker.rules.factors)[a]


@inner(inlined=True)
def rows_of(worker, examples, table, r, a):
    """The rows that an agent sees in a round."""
    return integers(table + 8 * ((r * examples.columns + examples.first + a) * worker.shape.batch))


@inner(inlined=True)
def slopes_of(worker, turn, a, b):
    """Address of what is kept of an agent's b-th example of a round: see `kept_of`."""
    shape = worker.shape
    place = (turn * shape.agents + a) * shape.batch + b
    return worker.memory.slopes + place * kept_bytes(worker)


@inner(inlined=True)
def answer_of(worker, y, k):
    """What output k learns of an answer: among classes, whether it is its own."""
    if worker.rules.kind == CLASSES:
        return 1.0 if k == np.int64(y) else -1.0
    return y


@inner(inlined=True)
def kept_bytes(worker):
    """Bytes that are kept of a prediction until its answer comes."""
    return 8 * worker.shape.outputs * (1 + worker.shape.kept)


@inner(inlined=True)
def kept_of(worker, slopes, k):
    """The slope of output k, with the scalars behind it that were noted with the prediction."""
    return floats(slopes + 8 * k * (1 + worker.shape.kept))


@inner(inlined=True)
def noted_scores(worker):
    """How many scores an update notes for an output: of its learners, in front of two other numbers."""
    return worker.shape.kept - 2


@inner(inlined=True)
def note(worker, slopes, s, k):
    """Keep what an update noted when it scored output k."""
    kept, first = kept_of(worker, slopes, k), worker.shape.scalars - worker.shape.kept - 1
    for j in range(worker.shape.kept):
        kept[1 + j] = floats(s)[first + j]


@inner(inlined=True)
def remind(worker, slopes, s, k, y):
    """Show an update what it noted when it scored output k, and the answer, as that output learns it."""
    kept, first = kept_of(worker, slopes, k), worker.shape.scalars - worker.shape.kept - 1
    for j in range(worker.shape.kept):
        floats(s)[first + j] = kept[1 + j]
    floats(s)[worker.shape.scalars - 1] = y


@inner(inlined=True)
def turn_of(worker, t):
    """Where the slopes of round t are kept; a division, so it is skipped where it can be."""
    return t % (worker.rules.delay + 1) if worker.rules.delay > 0 else 0


@inner(inlined=True)
def batch_size(worker, rows):
    """Examples that an agent has in a round."""
    size = 0
    for b in range(worker.shape.batch):
        size += rows[b] >= 0
    return size


@inner
def _sum_of_squares(worker, w, s):
    total, D, out = 0.0, worker.shape.D, worker.scratch.mixed
    call_void(part(worker, WEIGHTS_ALL), (w, s, worker.rules.p, 0, D, D, out))
    for d in range(D):
        total += floats(out)[d] ** 2
    return total


@inner(inlined=True)
def squares_at(worker, w, s):
    """‖w‖² of one weight vector."""
    if part(worker, SQUARES) != 0:
        return call_float(part(worker, SQUARES), (w, s, worker.rules.p, worker.shape.D))
    return _sum_of_squares(worker, w, s)


@inner
def squares_of(worker, copy):
    """‖w‖² over all weight vectors of a copy."""
    total = 0.0
    for k in range(worker.shape.states):
        w, s = vector_at(worker, copy, k)
        total += squares_at(worker, w, s)
    return total
