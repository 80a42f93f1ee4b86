"""A list of events, compiled: the same parts as in rounds, for one agent at a time.

A message is stored once, however many hear it: mailboxes and messages under way refer to it, and its
memory is free when nobody does any more.
"""

# Signatures say the types of compiled functions.
# mypy: disable-error-code=no-untyped-def

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ddol.compiled import (
    atomic_load,
    atomic_store,
    bytes_at,
    call_void,
    entry,
    floats,
    inner,
    integers,
    ints,
    packed,
    unpacked,
    yield_core,
)
from ddol.engines.kernels.average import adopt_message, unit_of, write_message
from ddol.engines.kernels.layout import (
    FINISH,
    LINEAR,
    LOG,
    OBSERVE,
    WEIGHTS_ALL,
    Examples,
    Worker,
    part,
    row_at,
    squares_of,
    vector_at,
)
from ddol.engines.kernels.predict import ask_for_answer, observe_example, predict_example
from ddol.engines.kernels.published import STRIDE, publish, read_newest
from ddol.engines.kernels.shadow import NO_SHADOW, Shadow, follow
from ddol.engines.kernels.update import answer_example, finish_copy
from ddol.schedules.events import (
    ADOPT,
    ANSWER,
    JOIN,
    LEAVE,
    MIX,
    PREDICT,
    PROJECT,
    RECEIVE,
    SEND,
)

# Words that change while events are played.
FREE, TURNS, STATUS, LOGGED = range(4)
N_WORDS = 4
PLAYED, STOPPED, CROWDED, OTHER_MATRIX, ABORTED = range(5)
"""Why playing ended: all events, a point of the curves, no room for a message, a matrix of another turn, or
another thread that failed."""


LEAST_MASS = 1e-3


class EventMemory(NamedTuple):
    """Events, and all that is under way between them. Arrays are given by address."""

    # the events; see `EventChunk`
    n: int
    kind: int
    agent: int
    wire: int
    slot: int
    row: int
    first_row: int
    where: int
    """int64: place of each row, from `first_row` on."""
    # turns
    turns: int
    """int64 (N,): turns that each agent has taken."""
    stop_at: int
    """Turns of all agents before which playing stops."""
    rates: int
    """float64: rates of turns 1, 2, …; 0 where they are scale/n^exponent."""
    scale: float
    exponent: float
    chances: int
    chance_starts: int
    """int64 (N,): where an agent's draws begin, less its turns at the start."""
    # the network
    starts: int
    sender: int
    weight: int
    own: int
    together: bool
    """Everybody hears everybody with the same weight."""
    matrix_of: int
    """int64 (N,): the turn whose weights an agent's wires have; 0 where the matrix stays."""
    spoken: int
    """int64 (N,): wires on which an agent speaks."""
    absent: int
    # messages
    size: int
    """Numbers of a message."""
    box: int
    """int64 by wire: the newest message, or −1."""
    version: int
    """int64 by wire: its place in the list."""
    messages: int
    references: int
    free: int
    under_way: int
    """int64 by slot: the message, or −1."""
    slopes: int
    """float64 (slots, outputs), one slot more for predictions that are never answered."""
    n_slots: int
    # push-sum
    push: bool
    mass: int
    sums: int
    """float64 (N, size): running sums that an agent has sent."""
    heard: int
    """float64 by wire (wires, size): the running sums when they were last taken in."""
    words: int
    # threads: messages are published, and mailboxes are copies of what is read
    live: bool
    published: int
    """float64 (N, size): what agents have sent last."""
    versions: int
    """int64 (N, STRIDE): how often, twice."""
    progress: int
    """int64 (N, STRIDE): how often, as far as anybody need wait for it."""
    staleness: int
    """Exchanges that an agent may be ahead of a neighbour; negative for any number."""
    control: int
    """int64: not 0 when another thread has failed."""
    first_agent: int
    log: int
    """int64: versions that were heard, wire by wire, at every exchange; 0 where nobody wants them."""


# --- turns ---------------------------------------------------------------------------------------


@inner(inlined=True)
def _rate_of(memory, n):
    """η of an agent's n-th turn."""
    if memory.rates != 0:
        return floats(memory.rates)[n - 1]
    if memory.exponent == 0.5:
        return memory.scale / math.sqrt(np.float64(n))
    return memory.scale / np.float64(n) if memory.exponent == 1.0 else memory.scale


@inner(inlined=True)
def _eta(memory, a):
    return _rate_of(memory, max(integers(memory.turns)[a], 1))


@inner
def _take_turn(worker, examples, memory, shadow, a, slot, row):
    """An agent predicts a row, if there is one, and keeps its slopes until the answer arrives."""
    turns = integers(memory.turns)
    if worker.memory.sums != 0 and turns[a] > 0:
        _keep_sum_of(worker, a)
    turns[a] += 1
    integers(memory.words)[TURNS] += 1
    if row < 0:
        return
    i, chance = integers(memory.where)[row - memory.first_row], 0.0
    if worker.rules.randomized or worker.rules.asks != 0:
        chance = floats(memory.chances)[integers(memory.chance_starts)[a] + turns[a]]
    place = slot if slot >= 0 else memory.n_slots
    slopes = memory.slopes + 8 * place * worker.shape.outputs
    squares = squares_of(worker, a) if worker.rules.l2 > 0.0 else 0.0
    if part(worker, OBSERVE) != 0:
        observe_example(worker, examples, a, i)
    cost = predict_example(worker, examples, a, a, i, chance, slopes)
    penalty = 0.5 * worker.rules.l2 * squares if worker.rules.l2 > 0.0 else 0.0
    floats(worker.memory.loss)[a] += cost + penalty
    if shadow.kind != NO_SHADOW:
        x, index, n = row_at(worker, examples, i)
        scores, sparse = floats(worker.scratch.scores), examples.indptr != 0
        follow(shadow, a, scores, floats(slopes), squares, x, index, n, sparse)
    if worker.rules.asks != 0:
        ask_for_answer(worker, a, chance, slopes)


@inner
def _keep_sum_of(worker, a):
    """Add an agent's weights to their sum over its turns."""
    D, states, out = worker.shape.D, worker.shape.states, worker.scratch.mixed
    for k in range(states):
        w, s = vector_at(worker, a, k)
        call_void(part(worker, WEIGHTS_ALL), (w, s, worker.rules.p, 0, D, D, out))
        sums = floats(worker.memory.sums + 8 * (a * states + k) * D)
        for d in range(D):
            sums[d] += floats(out)[d]


@inner
def _learn(worker, examples, memory, a, slot, row):
    """An answer arrives: one step along the gradient that was kept."""
    i = integers(memory.where)[row - memory.first_row]
    slopes = memory.slopes + 8 * slot * worker.shape.outputs
    answer_example(worker, examples, a, i, slopes, _eta(memory, a))


@inner
def _project(worker, memory, a):
    if part(worker, FINISH) != 0:
        finish_copy(worker, a, max(integers(memory.turns)[a], 1), _eta(memory, a))


# --- messages ------------------------------------------------------------------------------------


@inner
def _release(memory, message):
    """One reference to a message less."""
    if message < 0:
        return
    references, words = integers(memory.references), integers(memory.words)
    references[message] -= 1
    if references[message] == 0:
        integers(memory.free)[words[FREE]] = message
        words[FREE] += 1


@inner(inlined=True)
def _own(worker, memory):
    """Where an agent's own part of an average is written: after all messages."""
    return memory.messages - 8 * memory.size


@inner
def _push(worker, memory, a):
    """Add a share of an agent's mass to the running sums that it sends, as long as it has some left."""
    share = 1.0 / (1.0 + integers(memory.spoken)[a])
    if floats(memory.mass)[a] * share < LEAST_MASS:
        return  # its neighbours are away, and what it pushes does not come back yet
    floats(memory.mass)[a] *= share
    mass, sums = floats(memory.mass)[a], floats(memory.sums + 8 * a * memory.size)
    write_message(worker, a, _own(worker, memory))
    own, last = floats(_own(worker, memory)), memory.size - 1
    for d in range(last):
        sums[d] += mass * own[d]
    sums[last] += mass


@inner
def _write_down(worker, memory, a, slot):
    """An agent's message, under way in a slot."""
    under_way, words = integers(memory.under_way), integers(memory.words)
    if memory.push:
        _push(worker, memory, a)
    if slot < 0:
        return
    _release(memory, under_way[slot])
    words[FREE] -= 1
    message = integers(memory.free)[words[FREE]]
    place = memory.messages + 8 * message * memory.size
    if memory.push:
        for d in range(memory.size):
            floats(place)[d] = floats(memory.sums + 8 * a * memory.size)[d]
    else:
        write_message(worker, a, place)
    integers(memory.references)[message] = 1
    under_way[slot] = message


@inner
def _receive(memory, a, wire, slot, place):
    """A message comes into the mailbox, unless a newer one is there or nobody is."""
    if integers(memory.absent)[a] != 0 or place <= integers(memory.version)[wire]:
        return
    message, box = integers(memory.under_way)[slot], integers(memory.box)
    integers(memory.references)[message] += 1
    _release(memory, box[wire])
    box[wire] = message
    integers(memory.version)[wire] = place


@inner
def _show(worker, memory, a):
    """Publish what an agent shares."""
    own, i = _own(worker, memory), memory.first_agent + a
    write_message(worker, a, own)
    target = memory.published + 8 * i * memory.size
    version = publish(integers(memory.versions), i, own, target, memory.size)
    atomic_store(integers(memory.progress), STRIDE * i, version)


@inner
def _listen(memory, a):
    """Copy what neighbours have published last; their messages are numbered by wire."""
    box, version = integers(memory.box), integers(memory.version)
    versions, words = integers(memory.versions), integers(memory.words)
    for wire in range(integers(memory.starts)[a], integers(memory.starts)[a + 1]):
        i, place = integers(memory.sender)[wire], wire - integers(memory.starts)[0]
        if i != memory.first_agent + a:
            source = memory.published + 8 * i * memory.size
            target = memory.messages + 8 * place * memory.size
            known = version[place]
            version[place] = read_newest(versions, i, source, target, memory.size, known)
            box[place] = place if version[place] > 0 else -1
        if memory.log != 0:
            integers(memory.log)[words[LOGGED]] = version[place]
            words[LOGGED] += 1


@inner
def _wait_for_others(memory, a):
    """Wait while a neighbour is too far behind; whether another thread has failed meanwhile."""
    progress, control = integers(memory.progress), integers(memory.control)
    mine = atomic_load(progress, STRIDE * (memory.first_agent + a))
    for wire in range(integers(memory.starts)[a], integers(memory.starts)[a + 1]):
        other = integers(memory.sender)[wire]
        while atomic_load(progress, STRIDE * other) < mine - memory.staleness:
            if atomic_load(control, 0) != 0:
                return True
            yield_core()
    return atomic_load(control, 0) != 0


@inner(inlined=True)
def _heard(worker, memory, wire, own):
    """Address of what comes by a wire: the newest message, or the agent's own where there is none."""
    if memory.live:
        place = wire - integers(memory.starts)[0]
        return (
            memory.messages + 8 * place * memory.size if integers(memory.box)[place] >= 0 else own
        )
    message = integers(memory.box)[wire]
    if message < 0 or integers(memory.absent)[integers(memory.sender)[wire]] != 0:
        return own
    return memory.messages + 8 * message * memory.size


# --- averages ------------------------------------------------------------------------------------


@inner
def _mix_numbers(worker, memory, mode, place, size, lo, hi):
    """Some numbers, averaged over the wires of an agent in one way, in `mixed`."""
    weights, own = floats(memory.weight), _own(worker, memory)
    out = floats(worker.scratch.mixed + 8 * place)
    for d in range(size):
        out[d] = 0.0 if mode == LINEAR else -math.inf
    for wire in range(lo, hi):
        sent, weight = floats(_heard(worker, memory, wire, own) + 8 * place), weights[wire]
        if weight == 0.0:
            continue
        if mode == LINEAR and memory.together:
            for d in range(size):
                out[d] += sent[d]
        elif mode == LINEAR:
            for d in range(size):
                out[d] += weight * sent[d]
        else:
            for d in range(size):
                out[d] = max(out[d], sent[d])
    if mode == LINEAR and memory.together:
        for d in range(size):
            out[d] = out[d] / worker.rules.n_agents
    if mode == LOG:
        for d in range(size):
            total = 0.0
            for wire in range(lo, hi):
                if weights[wire] > 0.0:
                    sent = floats(_heard(worker, memory, wire, own) + 8 * place)
                    total += weights[wire] * math.exp(sent[d] - out[d])
            out[d] += math.log(total)


@inner
def _average_two(worker, memory, mode, place, size, wire):
    """Some numbers, averaged with one neighbour alone."""
    own = floats(_own(worker, memory) + 8 * place)
    sent = floats(_heard(worker, memory, wire, _own(worker, memory)) + 8 * place)
    out = floats(worker.scratch.mixed + 8 * place)
    for d in range(size):
        if mode == LINEAR:
            out[d] = 0.5 * own[d] + 0.5 * sent[d]
        else:
            out[d] = max(own[d], sent[d])
            if mode == LOG:
                out[d] += math.log(
                    0.5 * math.exp(own[d] - out[d]) + 0.5 * math.exp(sent[d] - out[d])
                )


@inner
def _average(worker, memory, a, wire):
    """What an agent adopts, in `mixed`: with one neighbour (`wire`), or with all that it hears."""
    modes, rows = integers(worker.links.modes), worker.shape.message_rows
    kinds = rows + worker.shape.linear_scalars + worker.shape.largest_scalars
    lo, hi = integers(memory.starts)[a], integers(memory.starts)[a + 1]
    for k in range(worker.shape.states):
        place, i = k * unit_of(worker), 0
        while i < kinds:
            # Neighbouring rows that are averaged in the same way are one longer row.
            mode, size = modes[i], 0
            while i < kinds and modes[i] == mode:
                size += worker.shape.D if i < rows else 1
                i += 1
            if wire >= 0:
                _average_two(worker, memory, mode, place, size, wire)
            else:
                _mix_numbers(worker, memory, mode, place, size, lo, hi)
            place += size


@inner
def _collect_pushed(worker, memory, a):
    """Take in what has been pushed since the last time: the ratio of two sums, in `mixed`."""
    out, own, last = floats(worker.scratch.mixed), floats(_own(worker, memory)), memory.size - 1
    mass = floats(memory.mass)[a]
    for d in range(last):
        out[d] = mass * own[d]
    for wire in range(integers(memory.starts)[a], integers(memory.starts)[a + 1]):
        message = integers(memory.box)[wire]
        if message < 0:
            continue
        sent = floats(memory.messages + 8 * message * memory.size)
        before = floats(memory.heard + 8 * wire * memory.size)
        for d in range(last):
            out[d] += sent[d] - before[d]
            before[d] = sent[d]
        mass += sent[last] - before[last]
        before[last] = sent[last]
    floats(memory.mass)[a] = mass
    for d in range(last):
        out[d] /= mass


@inner
def _mix(worker, memory, a, wire):
    """An agent averages with what it has heard, and projects; alone it has nothing to average."""
    if worker.rules.n_agents > 1:
        write_message(worker, a, _own(worker, memory))
        if memory.push and wire < 0:
            _collect_pushed(worker, memory, a)
        else:
            _average(worker, memory, a, wire)
        adopt_message(worker, a, worker.scratch.mixed)
    _project(worker, memory, a)


@inner
def _adopt(worker, memory, a, wire):
    """An agent takes a neighbour's newest message as its state."""
    message = integers(memory.box)[wire]
    if message < 0:
        return
    sent, out = floats(memory.messages + 8 * message * memory.size), floats(worker.scratch.mixed)
    for d in range(worker.shape.states * unit_of(worker)):
        out[d] = sent[d]
    adopt_message(worker, a, worker.scratch.mixed)


# --- one event after the other -------------------------------------------------------------------


@inner
def _obstacle(memory, kind, a, slot):
    """Why an event cannot be played before Python has done something."""
    words = integers(memory.words)
    if kind == PREDICT and words[TURNS] >= memory.stop_at:
        return STOPPED
    if kind == SEND and slot >= 0 and words[FREE] == 0:
        return CROWDED
    if kind == MIX and memory.live and memory.staleness >= 0 and _wait_for_others(memory, a):
        return ABORTED
    if kind != MIX or memory.matrix_of == 0:
        return PLAYED
    known = integers(memory.matrix_of)[a] == max(integers(memory.turns)[a], 1)
    return PLAYED if known else OTHER_MATRIX


@inner
def _play(worker, examples, memory, shadow, first):
    """Play events from the first on; where it ended, with the reason in STATUS."""
    for e in range(first, memory.n):
        kind, a = bytes_at(memory.kind)[e], ints(memory.agent)[e]
        wire, slot, row = ints(memory.wire)[e], ints(memory.slot)[e], integers(memory.row)[e]
        status = _obstacle(memory, kind, a, slot)
        if status != PLAYED:
            integers(memory.words)[STATUS] = status
            return e
        if kind == PREDICT:
            _take_turn(worker, examples, memory, shadow, a, slot, row)
        elif kind == ANSWER:
            _learn(worker, examples, memory, a, slot, row)
        elif kind == RECEIVE:
            _receive(memory, a, wire, slot, row)
        elif kind == SEND:
            if worker.rules.n_agents == 1:
                continue  # nobody hears it
            if memory.live:
                _show(worker, memory, a)
            else:
                _write_down(worker, memory, a, slot)
        elif kind == MIX:
            if memory.live:
                _listen(memory, a)
            _mix(worker, memory, a, wire)
        elif kind == PROJECT:
            _project(worker, memory, a)
        elif kind == ADOPT:
            _adopt(worker, memory, a, wire)
        elif kind == LEAVE:
            integers(memory.absent)[a] = 1
        elif kind == JOIN:
            integers(memory.absent)[a] = 0
    integers(memory.words)[STATUS] = PLAYED
    return memory.n


@entry("int64(struct*, struct*, struct*, struct*, int64)")
def _events(worker, examples, memory, shadow, first):
    return _play(
        unpacked(Worker, worker),
        unpacked(Examples, examples),
        unpacked(EventMemory, memory),
        unpacked(Shadow, shadow),
        first,
    )


def play_events(
    worker: bytes, examples: bytes, memory: EventMemory, shadow: Shadow, first: int
) -> int:
    """Play events from the first on; the place at which playing ended (see `STATUS`)."""
    return int(_events(worker, examples, packed(memory), packed(shadow), first))
