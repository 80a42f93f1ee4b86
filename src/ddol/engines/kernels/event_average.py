"""Agents adopt what their mailboxes hold: averages over wires, with one neighbour, push-sum, a token."""

# Signatures say the types of compiled functions.
# mypy: disable-error-code=no-untyped-def

from __future__ import annotations

import math

from ddol.compiled import floats, inner, integers
from ddol.engines.kernels.average import (
    adopt_message,
    average_robustly,
    box_of,
    deliver,
    gather,
    write_message,
)
from ddol.engines.kernels.layout import LINEAR, LOG, ROBUST, part, vector_at
from ddol.engines.kernels.messages import heard_at, own_at
from ddol.engines.kernels.mixing import alike, left_out, unit_of
from ddol.update.trust import passes


@inner
def _heard(worker, memory, a, k, wire, lo, own):
    """What comes by a wire, and counts; the agent's own message in the place of one that failed its tests."""
    tested = worker.shape.wires > 0 and integers(memory.sender)[wire] != memory.first_agent + a
    if tested and not passes(box_of(worker, vector_at(worker, a, k)[1], wire - lo)):
        return own
    return heard_at(memory, wire, lo, own)


@inner
def _mix_robustly(worker, memory, place, size, lo, hi, a, k):
    """Some numbers, averaged over the wires of an agent by a rule."""
    weights, own, count = floats(memory.weight), own_at(memory), 0
    for wire in range(lo, hi):
        if integers(memory.sender)[wire] != memory.first_agent + a and weights[wire] > 0.0:
            message = _heard(worker, memory, a, k, wire, lo, own) + 8 * place
            count = gather(worker, message, weights[wire], count, size)
    average_robustly(worker, own + 8 * place, count, size, worker.scratch.mixed + 8 * place)


@inner
def _mix_numbers(worker, memory, mode, place, size, lo, hi, a, k):
    """Some numbers, averaged over the wires of an agent in one way, in `mixed`."""
    weights, own = floats(memory.weight), own_at(memory)
    if mode == LINEAR and part(worker, ROBUST) != 0:
        _mix_robustly(worker, memory, place, size, lo, hi, a, k)
        return
    out = floats(worker.scratch.mixed + 8 * place)
    for d in range(size):
        out[d] = 0.0 if mode == LINEAR else -math.inf
    for wire in range(lo, hi):
        sent, weight = (
            floats(_heard(worker, memory, a, k, wire, lo, own) + 8 * place),
            weights[wire],
        )
        if weight == 0.0:
            continue
        if mode == LINEAR:
            for d in range(size):
                out[d] += weight * sent[d]
        else:
            for d in range(size):
                out[d] = max(out[d], sent[d])
    if mode == LOG:
        for d in range(size):
            total = 0.0
            for wire in range(lo, hi):
                if weights[wire] > 0.0:
                    sent = floats(_heard(worker, memory, a, k, wire, lo, own) + 8 * place)
                    total += weights[wire] * math.exp(sent[d] - out[d])
            out[d] += math.log(total)


@inner
def _average_two(worker, memory, mode, place, size, wire, a, k):
    """Some numbers, averaged with one neighbour alone."""
    own, lo = floats(own_at(memory) + 8 * place), integers(memory.starts)[a]
    message, there = heard_at(memory, wire, wire, own_at(memory)), own_at(memory)
    if worker.shape.wires == 0 or passes(box_of(worker, vector_at(worker, a, k)[1], wire - lo)):
        there = message
    sent = floats(there + 8 * place)
    out = floats(worker.scratch.mixed + 8 * place)
    if mode == LINEAR and part(worker, ROBUST) != 0:
        count = gather(worker, there + 8 * place, 0.5, 0, size)
        average_robustly(
            worker, own_at(memory) + 8 * place, count, size, worker.scratch.mixed + 8 * place
        )
        return
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
    """Write the average to `mixed`: with one neighbour (`wire`), or with all that send to the agent."""
    modes, rows = integers(worker.links.modes), worker.shape.message_rows
    kinds = rows + worker.shape.linear_scalars + worker.shape.largest_scalars
    lo, hi = integers(memory.starts)[a], integers(memory.starts)[a + 1]
    for k in range(worker.shape.states):
        place, i = k * unit_of(worker), 0
        while i < kinds:
            mode = modes[i]
            size, i = alike(worker, i, worker.shape.D, 0)
            if wire >= 0:
                _average_two(worker, memory, mode, place, size, wire, a, k)
            else:
                _mix_numbers(worker, memory, mode, place, size, lo, hi, a, k)
            place += size


@inner
def _collect_pushed(worker, memory, a):
    """Take in what has been pushed since the last time: the ratio of two sums, in `mixed`."""
    out, own, last = floats(worker.scratch.mixed), floats(own_at(memory)), memory.size - 1
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
def _test_later(worker, memory, a):
    """Keep what comes by the wires of an agent, to be tested on its next examples."""
    lo, own = integers(memory.starts)[a], own_at(memory)
    for k in range(worker.shape.states):
        w, s = vector_at(worker, a, k)
        for wire in range(lo, integers(memory.starts)[a + 1]):
            message = heard_at(memory, wire, lo, own)
            if message != own and integers(memory.sender)[wire] != memory.first_agent + a:
                deliver(worker, w, s, wire - lo, message + 8 * k * unit_of(worker), 0, 0)


@inner
def mix(worker, memory, a, wire):
    """An agent averages with the messages that it has received."""
    write_message(worker, a, own_at(memory))
    row, scalar = 0, 0
    if worker.shape.wires > 0:
        _test_later(worker, memory, a)
    if memory.push and wire < 0:
        _collect_pushed(worker, memory, a)  # nothing that was pushed may be lost
    else:
        _average(worker, memory, a, wire)
        row, scalar = left_out(worker, integers(memory.turns)[a] // worker.rules.period)
    adopt_message(worker, a, row, scalar, worker.scratch.mixed, True)


@inner
def adopt(worker, memory, a, wire):
    """An agent takes a neighbour's newest message as its state."""
    message = integers(memory.box)[wire]
    if message < 0:
        return
    sent, out = floats(memory.messages + 8 * message * memory.size), floats(worker.scratch.mixed)
    for d in range(worker.shape.states * unit_of(worker)):
        out[d] = sent[d]
    adopt_message(worker, a, 0, 0, worker.scratch.mixed, True)
