"""Algorithm 1, compiled: predict, update, communicate, average, round after round.

A kernel is compiled when a run first needs it, and says for which runs it is: what it says there, the
compiler makes use of.
"""

from __future__ import annotations

import numpy as np

from ddol.compiled import (
    Entry,
    address_of,
    call_float,
    call_int,
    call_void,
    entry,
    floats,
    inner,
    integers,
    unpacked,
)
from ddol.engines.kernels.average import (
    average_copies,
    average_early,
    averages_early,
    keep_sum,
    write_early,
    writes_early,
)
from ddol.engines.kernels.layout import (
    AHEAD,
    BEGIN,
    BINARY,
    BOTH,
    COPIES,
    FINISH,
    GROUP,
    HEAR,
    OBSERVE,
    SCORE,
    STEP,
    TURN,
    WEIGHTS_ALL,
    Examples,
    SnapshotPlaces,
    Worker,
    batch_size,
    part,
    rate_of,
    rows_of,
    squares_at,
    vector_at,
)
from ddol.engines.kernels.metrics import take_snapshot
from ddol.engines.kernels.mixing import left_out
from ddol.engines.kernels.predict import (
    importance_of,
    penalty_of,
    predict_agent,
    unless_finite,
)
from ddol.engines.kernels.reading import (
    begin_row,
    fetch,
    fetch_place,
    forget_rows,
    row_in,
    stored_at,
    wants_fetching,
)
from ddol.engines.kernels.update import absorb_agent, collects, finish, update_copy, update_shared
from ddol.update.turns import SHORT

PLAY = "int64(struct*, struct*, int64, int64)"
WRONG_KERNEL = -(1 << 40)
"""What a kernel returns, before any round, of a run that it is not for."""


# --- one agent -----------------------------------------------------------------------------------


@inner(inlined=True)
def is_usual(worker):
    """Agents with one weight vector and one example a round, answered at once."""
    rules, shape = worker.rules, worker.shape
    one = shape.batch == 1 and shape.outputs == 1 and shape.states == 1 and shape.kept == 0
    simple = rules.kind == BINARY and rules.delay == 0 and not rules.experts
    return one and simple and not rules.randomized and rules.asks == 0


@inner(inlined=True)
def is_alone(worker):
    """One usual agent, whose weights are not averaged over rounds."""
    one = worker.rules.n_agents == 1 and worker.rules.factors == 0
    return one and is_usual(worker) and worker.memory.sums == 0


@inner(inlined=True)
def _example_from(examples, r, hi):
    """The first round from `r` on that has an example for the one agent; `hi` if none has."""
    while r < hi and integers(examples.predicted)[r] < 0:
        r += 1
    return r


@inner(inlined=True)
def _fetch_later(worker, examples, r, i):
    """Ask for the row that comes some rounds later, unless the processor guesses which one that is."""
    if r + AHEAD < examples.rounds:
        ahead = integers(examples.predicted + 8 * r)
        if ahead[AHEAD] != i + AHEAD:
            fetch(worker, examples, ahead[AHEAD], True)
            fetch_place(examples, ahead[min(2 * AHEAD, examples.rounds - 1 - r)])


@inner(inlined=True)
def _begin_at(worker, examples, r, hi):
    """Copy the row of a round behind its 1, if there is such a round, and it is needed there."""
    if examples.ones != 0 and not worker.rules.adds_ones and r < hi:
        begin_row(worker, examples, integers(examples.predicted)[r], r & 3)


@inner(inlined=True)
def _row_of(worker, examples, r):
    """Addresses and length of the row of a round, as a turn takes it."""
    i = integers(examples.predicted)[r]
    if worker.rules.adds_ones:
        return stored_at(worker, examples, i)
    return row_in(worker, examples, i, r & 3)


@inner(inlined=True)
def _turn(worker, examples, r, after, z, eta, learns):
    """Learn from the answer to the example of a round, whose score was z; the score of the one after."""
    memory, rules, D = worker.memory, worker.rules, worker.shape.D
    i = integers(examples.predicted)[r]
    x, index, n = _row_of(worker, examples, r)
    state, y = (memory.theta, memory.scalars, rules.p), floats(examples.y)[i]
    importance = importance_of(worker, examples, i) if learns else 0.0
    given = (z, y, rules.q, importance, eta, rules.l2, learns, memory.loss)
    following = _row_of(worker, examples, after)
    return call_float(part(worker, TURN), (*state, x, index, n, D, *given, *following))


@entry(PLAY)
def _alone_direct(worker, examples, lo, hi):
    """Rounds of one agent where a step follows from its score alone: half of a short row's time."""
    worker, examples = unpacked(Worker, worker), unpacked(Examples, examples)
    if not is_alone(worker) or part(worker, TURN) == 0:
        return WRONG_KERNEL
    memory, mistakes, seen, finite = worker.memory, 0, 0, 0.0
    r = _example_from(examples, lo, hi)
    if r == hi:
        return 0
    after = _example_from(examples, r + 1, hi)
    # A row is copied one round before it is read: what is written last is slow to read.
    _begin_at(worker, examples, r, hi)
    _begin_at(worker, examples, after, hi)
    # Scored as every other row is, but that nothing is learned before: blocks may end anywhere, to the bit.
    z, eta = _turn(worker, examples, r, r, 0.0, 0.0, 0), rate_of(examples, r)
    while r < hi:
        i = integers(examples.predicted)[r]
        later = _example_from(examples, after + 1, hi)
        _begin_at(worker, examples, later, hi)
        _fetch_later(worker, examples, r, i)
        if examples.scores != 0:
            floats(examples.scores)[i] = z
        mistakes += (z >= 0.0) != (floats(examples.y)[i] > 0.0)
        seen += 1
        finite += unless_finite(z)
        to, soon = after if after < hi else r, rate_of(examples, after)
        z = _turn(worker, examples, r, to, z, eta, 1)
        r, after, eta = after, later, soon
    integers(memory.mistakes)[0] += mistakes
    integers(memory.examples)[0] += seen
    floats(memory.loss)[0] += finite
    return 0


@inner(inlined=True)
def _begin_early(worker, examples, r, hi, begun):
    """Copy the rows of this round and the next one behind their 1s; the last round whose row is copied.

    A row is copied one round before it is read: what is written last is slow to read.
    """
    if examples.ones == 0:
        return begun
    if begun != r:
        _begin_at(worker, examples, r, hi)
    if r + 1 < examples.rounds and integers(examples.predicted)[r + 1] >= 0:
        begun = r + 1
        _begin_at(worker, examples, begun, examples.rounds)
    return begun


@entry(PLAY)
def _alone(worker, examples, lo, hi):
    """Rounds where nothing is collected, kept or exchanged.

    Every score waits for the step before it. So from score to step a number goes straight from one
    part to the next: what else is to be done comes after.
    """
    worker, examples = unpacked(Worker, worker), unpacked(Examples, examples)
    if not is_alone(worker):
        return WRONG_KERNEL
    rules, memory = worker.rules, worker.memory
    w, s, p, q, D = memory.theta, memory.scalars, rules.p, rules.q, worker.shape.D
    # Added to what it was, not summed apart: blocks may end anywhere, to the bit.
    mistakes, loss, seen, begun = 0, floats(memory.loss)[0], 0, -1
    for r in range(lo, hi):
        i = integers(examples.predicted)[r]
        if i < 0:
            continue
        eta, y = rate_of(examples, r), floats(examples.y)[i]
        x, index, n = row_in(worker, examples, i, r & 3)
        begun = _begin_early(worker, examples, r, hi, begun)
        _fetch_later(worker, examples, r, i)
        if rules.l2 > 0.0:
            loss += 0.5 * rules.l2 * squares_at(worker, w, s)
        importance = importance_of(worker, examples, i)
        if part(worker, OBSERVE) != 0:
            call_void(part(worker, OBSERVE), (w, s, p, x, index, n, D))
        z = call_float(part(worker, SCORE), (w, s, p, x, index, n, D, 0.0))
        if part(worker, BEGIN) != 0:
            call_void(part(worker, BEGIN), (w, s, p, D, eta, 1.0))
        if part(worker, HEAR) != 0:
            call_void(part(worker, HEAR), (w, s, p, x, index, n, D, y))
        cost = call_float(part(worker, BOTH), (z, y, q, worker.scratch.scores))
        g = importance * floats(worker.scratch.scores)[0]
        if (rules.branchless_step and n < SHORT) or g != 0.0:
            call_void(part(worker, STEP), (w, s, p, x, index, n, D, g, eta, 1.0))
        if part(worker, FINISH) != 0:
            now = np.float64(examples.t + r)
            call_void(part(worker, FINISH), (w, s, p, D, now, eta))
        if examples.scores != 0:
            floats(examples.scores)[i] = z
        mistakes += (z >= 0.0) != (y > 0.0)
        seen += 1
        loss += importance * cost + unless_finite(z)
    integers(memory.mistakes)[0] += mistakes
    integers(memory.examples)[0] += seen
    floats(memory.loss)[0] = loss
    return 0


# --- agents that share one copy ------------------------------------------------------------------


@inner(inlined=True)
def _play_agents(worker, examples, r, eta, copies):
    """Every agent predicts, and learns where that changes no other agent's weights.

    Returns the number of agents that have an answer. A row is near when it is needed again if its
    agent learns soon; one agent alone would keep the processor waiting for each score.
    """
    active, agents = 0.0, worker.shape.agents
    collecting = not copies and collects(worker, examples)
    penalty, fetches = 0.0 if copies else penalty_of(worker, 0), wants_fetching(worker, examples)
    # Neighbours answer with the weights that a round begins with.
    group = GROUP if worker.rules.neighbours == 0 else agents
    early, (row, scalar) = copies and writes_early(worker), left_out(worker, examples.t + r)
    averages, done = early and averages_early(worker), 0
    for lo in range(0, agents, group):
        hi = min(lo + group, agents)
        for a in range(lo, hi):
            own = penalty_of(worker, a) if copies else penalty
            predict_agent(worker, examples, r, a, a if copies else 0, own, fetches)
        for a in range(lo, hi):
            active += batch_size(worker, rows_of(worker, examples, examples.learned, r, a)) > 0
            if copies:
                update_copy(worker, examples, r, a, eta)
            elif collecting:
                absorb_agent(worker, examples, r, a, eta)
        if early:
            for a in range(lo, hi):
                write_early(worker, a, row, scalar)
        if averages:
            done = average_early(worker, examples, r, eta, done, hi)
    return active


@inner(inlined=True)
def _play_shared(worker, examples, lo, hi):
    forget_rows(worker, examples)
    for r in range(lo, hi):
        eta = rate_of(examples, r)
        active = _play_agents(worker, examples, r, eta, False)
        status = update_shared(worker, examples, r, eta, active)
        if status != 0:
            return status
        finish(worker, examples.t + r, eta)
        if worker.memory.sums != 0:
            keep_sum(worker)
    return 0


@entry(PLAY)
def _shared_usual(worker, examples, lo, hi):
    worker, examples = unpacked(Worker, worker), unpacked(Examples, examples)
    if worker.rules.sharing == COPIES or not is_usual(worker):
        return WRONG_KERNEL
    return _play_shared(worker, examples, lo, hi)


@entry(PLAY)
def _shared(worker, examples, lo, hi):
    worker, examples = unpacked(Worker, worker), unpacked(Examples, examples)
    if worker.rules.sharing == COPIES:
        return WRONG_KERNEL
    return _play_shared(worker, examples, lo, hi)


# --- agents with a copy each ---------------------------------------------------------------------


@inner(inlined=True)
def _play_copies(worker, examples, lo, hi):
    forget_rows(worker, examples)
    for r in range(lo, hi):
        eta = rate_of(examples, r)
        _play_agents(worker, examples, r, eta, True)
        if not averages_early(worker):
            status = average_copies(worker, examples, r, eta)
            if status != 0:
                return status
            finish(worker, examples.t + r, eta)
        if worker.memory.sums != 0:
            keep_sum(worker)
    return 0


@entry(PLAY)
def _copies_usual(worker, examples, lo, hi):
    worker, examples = unpacked(Worker, worker), unpacked(Examples, examples)
    if worker.rules.sharing != COPIES or not is_usual(worker):
        return WRONG_KERNEL
    return _play_copies(worker, examples, lo, hi)


@entry(PLAY)
def _copies(worker, examples, lo, hi):
    worker, examples = unpacked(Worker, worker), unpacked(Examples, examples)
    if worker.rules.sharing != COPIES:
        return WRONG_KERNEL
    return _play_copies(worker, examples, lo, hi)


# --- what Python calls ---------------------------------------------------------------------------


@entry("int64(int64, struct*, struct*, struct*, int64, int64)")
def _play(kernel, worker, examples, places, before, rounds):
    there, seen, lo = (
        (address_of(worker, 0), address_of(examples, 0)),
        unpacked(SnapshotPlaces, places),
        0,
    )
    for k in range(seen.n):
        hi = integers(seen.rounds)[k] - before
        if hi > rounds or hi < 0 or (hi == 0 and before > 0):
            continue
        status = call_int(kernel, (*there, lo, hi)) if hi > lo else 0
        if status != 0:
            return status
        take_snapshot(unpacked(Worker, worker), seen, k)
        lo = hi
    return call_int(kernel, (*there, lo, rounds)) if lo < rounds else 0


@entry("void(struct*, int64)")
def _weights(worker, out):
    worker = unpacked(Worker, worker)
    D = worker.shape.D
    for copy in range(worker.shape.copies):
        for k in range(worker.shape.states):
            w, s = vector_at(worker, copy, k)
            place = out + 8 * (copy * worker.shape.states + k) * D
            call_void(part(worker, WEIGHTS_ALL), (w, s, worker.rules.p, 0, D, D, place))


def kernel_for(worker: Worker, direct: bool) -> Entry:
    """The kernel that plays a worker's rounds; by whole turns, if one agent alone learns so."""
    rules = worker.rules
    usual = is_usual(worker)
    if usual and rules.n_agents == 1 and rules.factors == 0 and worker.memory.sums == 0:
        return _alone_direct if direct else _alone
    if rules.sharing == COPIES:
        return _copies_usual if usual else _copies
    return _shared_usual if usual else _shared


def play(
    kernel: Entry, worker: bytes, examples: bytes, places: bytes, before: int, rounds: int
) -> int:
    """Play the rounds of a block, and look at the run in between; 0, or the communicator's error.

    Rounds of snapshots are counted from the block's first one, unless ``before`` rounds came before it.
    """
    status = int(_play(kernel.address, worker, examples, places, before, rounds))
    if status == WRONG_KERNEL:
        raise RuntimeError(f"the kernel {kernel.function.__name__} is not for this run")
    return status


def snapshot_now(worker: bytes, places: bytes) -> None:
    """Look at a run that plays nothing."""
    _play(0, worker, b"", places, 0, 0)


def read_weights(worker: bytes, out: int) -> None:
    """Write the primal weights of every copy: (copies, states, D)."""
    _weights(worker, out)
