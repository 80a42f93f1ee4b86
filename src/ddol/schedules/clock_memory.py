"""The virtual clock in memory: conditions, the state of every agent, what is due, and random numbers."""

# Signatures say the types of compiled functions.
# mypy: disable-error-code=no-untyped-def

from __future__ import annotations

import math
from typing import NamedTuple

from ddol.compiled import floats, inner, integers
from ddol.schedules.conditions import CONSTANT, GEOMETRIC, UNIFORM

ROUNDS, ASYNC, GOSSIP, WALK = range(4)

# What is due: the lowest three bits of a word; an agent or a wire, and a message, lie above.
TURN, ARRIVAL, MEETING, GOING, COMING = range(5)
WIRE, MESSAGE = 3, 33
ONE_WIRE = (1 << (MESSAGE - WIRE)) - 1

# Why the clock stops.
DONE, STARVED, FULL, MORE_NUMBERS, MORE_ANSWERS, MORE_MESSAGES, MORE_DUE = range(7)

# Words that change while it runs.
DUE, ORDER, FREE_ANSWERS, FREE_MESSAGES, NUMBER, MADE, PLACE = range(7)
SENT, LOST, TOKEN, LATE, LEFT, GOING_ON, ROUND, FIRST_ROW = range(7, 15)
N_WORDS = 16


class ClockMemory(NamedTuple):
    """The clock in memory; arrays are given by address."""

    schedule: int
    n_agents: int
    period: int
    degree: int
    """Most wires on which an agent sends."""
    # the network; see `Wiring`
    starts: int
    sender: int
    listener: int
    spoken_starts: int
    spoken: int
    walk: int
    # the conditions
    interval: int
    """float64 (N,): time between two turns."""
    latency_kind: int
    latency_low: float
    latency_high: float
    latency: int
    """float64 by wire, or 0."""
    drop: float
    drops: int
    """float64 by wire, or 0."""
    delay_kind: int
    delay_low: float
    delay_high: float
    delays: int
    """int64 by row, from FIRST_ROW on, or 0."""
    up: float
    down: float
    n_cuts: int
    cut_times: int
    cut_groups: int
    # what is known of every agent
    words: int
    now: int
    """float64 (1,): the present time."""
    turns: int
    answers: int
    late: int
    """Answers under way."""
    absent: int
    parked: int
    """Whether a turn waits for the agent to come back."""
    ended: int
    """Whether no example will follow those in the queue."""
    queue: int
    """int64: rows, each agent's in a stretch of its own; −1 for a turn without an example."""
    queue_at: int
    queue_end: int
    # labels under way: a wheel for each agent, with a list of labels in every place
    wheel: int
    first: int
    last: int
    next_answer: int
    due_turn: int
    row_of: int
    free_answers: int
    # messages under way
    copies: int
    place_of: int
    free_messages: int
    # what is due
    due_time: int
    due_order: int
    due_what: int
    due_room: int
    # random numbers
    numbers: int
    n_numbers: int
    # events
    kind: int
    agent: int
    wire: int
    slot: int
    row: int
    time: int
    room: int


# --- what is due ---------------------------------------------------------------------------------


@inner(inlined=True)
def _set(c, k, time, order, what):
    floats(c.due_time)[k], integers(c.due_order)[k], integers(c.due_what)[k] = time, order, what


@inner(inlined=True)
def _move(c, k, there):
    _set(c, there, floats(c.due_time)[k], integers(c.due_order)[k], integers(c.due_what)[k])


@inner
def put(c, time, what):
    """Put something into the heap; at the same time, whatever was put in first is due first."""
    words, times = integers(c.words), floats(c.due_time)
    k = words[DUE]
    while k > 0 and time < times[(k - 1) >> 1]:
        _move(c, (k - 1) >> 1, k)
        k = (k - 1) >> 1
    _set(c, k, time, words[ORDER], what)
    words[DUE] += 1
    words[ORDER] += 1


@inner
def take(c):
    """Take out what is due first, and let its time be now."""
    words, times, orders = integers(c.words), floats(c.due_time), integers(c.due_order)
    first = integers(c.due_what)[0]
    floats(c.now)[0] = times[0]
    words[DUE] -= 1
    size, k, child = words[DUE], 0, 1
    time, order, what = times[size], orders[size], integers(c.due_what)[size]
    while child < size:
        if child + 1 < size:
            later = times[child + 1] > times[child]
            tied = times[child + 1] == times[child] and orders[child + 1] > orders[child]
            child += not (later or tied)
        if times[child] > time or (times[child] == time and orders[child] > order):
            break
        _move(c, child, k)
        k, child = child, 2 * child + 1
    _set(c, k, time, order, what)
    return first


# --- numbers that are drawn ----------------------------------------------------------------------


@inner(inlined=True)
def uniform(c):
    """The next number in [0, 1)."""
    words = integers(c.words)
    words[NUMBER] += 1
    return floats(c.numbers)[words[NUMBER] - 1]


@inner
def drawn(c, kind, low, high, whole):
    """See `Draw.take`."""
    if kind == CONSTANT or (kind != UNIFORM and low == 0.0):
        return low
    u = uniform(c)
    if kind == UNIFORM:
        return math.floor(low + (high + 1.0 - low) * u) if whole else low + (high - low) * u
    if kind == GEOMETRIC:
        return math.floor(math.log1p(-u) / math.log(low / (1.0 + low)))
    drawn = -low * math.log1p(-u)
    return math.floor(drawn + 0.5) if whole else drawn


@inner
def latency_of(c, wire):
    """Time that a message on a wire is under way."""
    if c.latency != 0:
        return floats(c.latency)[wire]
    return drawn(c, c.latency_kind, c.latency_low, c.latency_high, False)


@inner
def is_cut(c, wire):
    """Whether a partition of the graph lies between the two ends of a wire now."""
    now, a, b = floats(c.now)[0], integers(c.sender)[wire], integers(c.listener)[wire]
    for k in range(c.n_cuts):
        if floats(c.cut_times)[2 * k] <= now < floats(c.cut_times)[2 * k + 1]:
            groups = integers(c.cut_groups + 8 * k * c.n_agents)
            if groups[a] != groups[b]:
                return True
    return False


@inner
def is_lost(c, wire):
    """Whether a message on a wire does not arrive."""
    chance = floats(c.drops)[wire] if c.drops != 0 else c.drop
    lost = chance > 0.0 and uniform(c) < chance
    return lost or is_cut(c, wire)
