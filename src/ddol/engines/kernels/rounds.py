"""Algorithm 1, compiled: predict, update, communicate, average, round after round."""

from __future__ import annotations

import numpy as np

from ddol.compiled import (
    call_float,
    call_void,
    entry,
    floats,
    inner,
    integers,
    packed,
    unpacked,
)
from ddol.engines.kernels.average import _average_copies, _keep_sum
from ddol.engines.kernels.fetching import _fetch, _jumps
from ddol.engines.kernels.layout import (
    AHEAD,
    BEGIN,
    BINARY,
    COPIES,
    DERIVATIVE,
    FINISH,
    GROUP,
    OBSERVE,
    SCORE,
    SHARED_ADD,
    SHORT,
    STEP,
    VALUE,
    WEIGHTS,
    Examples,
    Worker,
    _batch_size,
    _part,
    _rate,
    _row,
    _rows_of,
    _squares,
    _state,
)
from ddol.engines.kernels.metrics import _write_down
from ddol.engines.kernels.predict import _penalty, _predict_agent, _unless_finite
from ddol.engines.kernels.update import (
    _absorb_agent,
    _collects,
    _finish,
    _update_copy,
    _update_shared,
)


@inner(inlined=True)
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


@inner(inlined=True)
def _is_alone(worker):
    """One agent with one weight vector, one example a round, answered at once."""
    one = worker.n_agents == 1 and worker.batch == 1 and worker.outputs == 1
    simple = worker.kind == BINARY and worker.delay == 0 and not worker.experts
    return one and simple and worker.sharing == SHARED_ADD and worker.sums == 0


@inner(inlined=True)
def _is_plain(worker):
    """Where a step alone follows a score, as it does without regularisation."""
    before = _part(worker, BEGIN) == 0 and _part(worker, OBSERVE) == 0
    return before and _part(worker, FINISH) == 0 and worker.l2 == 0.0


@inner(inlined=True)
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
        if (worker.branchless_step and n < SHORT) or g != 0.0:
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


@inner(inlined=True)
def _is_usual(worker):
    """Agents with one weight vector and one example a round, answered at once."""
    one = worker.batch == 1 and worker.outputs == 1 and worker.states == 1
    simple = worker.kind == BINARY and worker.delay == 0 and not worker.experts
    return one and simple and not worker.randomized


@inner
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


@inner(inlined=True)
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


@inner
def _play_block(worker, examples):
    lo = 0
    for place in range(examples.n_snapshots):
        hi = integers(examples.snapshots)[place]
        status = _play_rounds(worker, examples, lo, hi)
        if status == 0:
            status = _write_down(worker, examples, place)
        if status != 0:
            return status
        lo = hi
    return _play_rounds(worker, examples, lo, examples.rounds)


@inner
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
