"""The virtual clock, compiled: from what is due next to the events that come of it.

What is due lies in a heap by time. A turn of an agent, the arrival of a message, a meeting of two, an
absence: each is taken out, written down as events, and puts back what follows from it. Nothing is kept but
what is under way. Random numbers are drawn beforehand and used up one after the other, so that the list
depends on the seed alone and not on how many events are made at a time.
"""

# Signatures say the types of compiled functions.
# mypy: disable-error-code=no-untyped-def

from __future__ import annotations

import math
from typing import NamedTuple

from ddol.compiled import bytes_at, entry, floats, inner, integers, ints, unpacked
from ddol.schedules.conditions import CONSTANT, GEOMETRIC, UNIFORM
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

ROUNDS, ASYNC, GOSSIP, WALK = range(4)

# What is due: the lowest three bits of a word; an agent or a wire, and a message, lie above.
TURN, ARRIVAL, MEETING, GOING, COMING = range(5)
_WIRE, _MESSAGE = 3, 33

# Why the clock stops.
DONE, STARVED, FULL, MORE_NUMBERS, MORE_ANSWERS, MORE_MESSAGES, MORE_DUE = range(7)

# Words that change while it runs.
DUE, ORDER, FREE_ANSWERS, FREE_MESSAGES, NUMBER, MADE, PLACE = range(7)
SENT, LOST, TOKEN, LATE, LEFT, GOING_ON, ROUND, FIRST_ROW = range(7, 15)
N_WORDS = 16
_MOST_TRIES = 20


class ClockMemory(NamedTuple):
    """The clock in memory; arrays are given by address."""

    schedule: int
    n_agents: int
    period: int
    degree: int
    """Most wires on which an agent speaks."""
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
    # answers under way: a wheel for each agent, with a list of answers in every place
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
def _put(c, time, what):
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
def _take(c):
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
def _uniform(c):
    words = integers(c.words)
    words[NUMBER] += 1
    return floats(c.numbers)[words[NUMBER] - 1]


@inner
def _drawn(c, kind, low, high, whole):
    """See `Draw.take`."""
    if kind == CONSTANT or (kind != UNIFORM and low == 0.0):
        return low
    u = _uniform(c)
    if kind == UNIFORM:
        return math.floor(low + (high + 1.0 - low) * u) if whole else low + (high - low) * u
    if kind == GEOMETRIC:
        return math.floor(math.log1p(-u) / math.log(low / (1.0 + low)))
    drawn = -low * math.log1p(-u)
    return math.floor(drawn + 0.5) if whole else drawn


@inner
def _latency(c, wire):
    if c.latency != 0:
        return floats(c.latency)[wire]
    return _drawn(c, c.latency_kind, c.latency_low, c.latency_high, False)


@inner
def _is_cut(c, wire):
    """Whether a partition of the graph lies between the two ends of a wire now."""
    now, a, b = floats(c.now)[0], integers(c.sender)[wire], integers(c.listener)[wire]
    for k in range(c.n_cuts):
        if floats(c.cut_times)[2 * k] <= now < floats(c.cut_times)[2 * k + 1]:
            groups = integers(c.cut_groups + 8 * k * c.n_agents)
            if groups[a] != groups[b]:
                return True
    return False


@inner
def _is_lost(c, wire):
    """Whether a message on a wire does not arrive."""
    chance = floats(c.drops)[wire] if c.drops != 0 else c.drop
    lost = chance > 0.0 and _uniform(c) < chance
    return lost or (c.n_cuts > 0 and _is_cut(c, wire))


# --- writing events ------------------------------------------------------------------------------


@inner(inlined=True)
def _write(c, kind, agent, wire, slot, row):
    words = integers(c.words)
    k = words[MADE]
    bytes_at(c.kind)[k] = kind
    ints(c.agent)[k] = agent
    ints(c.wire)[k] = wire
    ints(c.slot)[k] = slot
    integers(c.row)[k] = row
    floats(c.time)[k] = floats(c.now)[0]
    words[MADE] += 1
    words[PLACE] += 1


@inner
def _new_message(c):
    """A slot for a message, named by the place of the send event that comes next."""
    words = integers(c.words)
    words[FREE_MESSAGES] -= 1
    slot = integers(c.free_messages)[words[FREE_MESSAGES]]
    integers(c.place_of)[slot] = words[PLACE]
    integers(c.copies)[slot] = 0
    return slot


@inner
def _release(c, slot):
    """Give a message's slot back once no copy of it is under way."""
    words = integers(c.words)
    integers(c.free_messages)[words[FREE_MESSAGES]] = slot
    words[FREE_MESSAGES] += 1


@inner
def _deliver(c, wire, slot):
    """A message arrives, unless nobody is there."""
    j = integers(c.listener)[wire]
    if integers(c.absent)[j] != 0:
        integers(c.words)[LOST] += 1
        return
    _write(c, RECEIVE, j, wire, slot, integers(c.place_of)[slot])


@inner
def _arrive(c, wire, slot):
    _deliver(c, wire, slot)
    integers(c.copies)[slot] -= 1
    if integers(c.copies)[slot] == 0:
        _release(c, slot)


@inner
def _send(c, i):
    """An agent sends to all who hear it; what arrives at once arrives before anything else."""
    slot = _new_message(c)
    _write(c, SEND, i, -1, slot, -1)
    words, now = integers(c.words), floats(c.now)[0]
    for k in range(integers(c.spoken_starts)[i], integers(c.spoken_starts)[i + 1]):
        wire = integers(c.spoken)[k]
        words[SENT] += 1
        if _is_lost(c, wire):
            words[LOST] += 1
            continue
        latency = _latency(c, wire)
        if latency == 0.0:
            _deliver(c, wire, slot)
            continue
        integers(c.copies)[slot] += 1
        _put(c, now + latency, ARRIVAL + (wire << _WIRE) + (slot << _MESSAGE))
    if integers(c.copies)[slot] == 0:
        _release(c, slot)


@inner
def _pass_on(c, wire, kind):
    """The sender of a wire writes a message, and its listener takes it at once (`kind`: mix or adopt)."""
    slot = _new_message(c)
    _write(c, SEND, integers(c.sender)[wire], -1, slot, -1)
    _write(c, RECEIVE, integers(c.listener)[wire], wire, slot, integers(c.place_of)[slot])
    _release(c, slot)
    if kind == ADOPT:
        _write(c, ADOPT, integers(c.listener)[wire], wire, -1, -1)


# --- turns ---------------------------------------------------------------------------------------


@inner(inlined=True)
def _has_row(c, i):
    return integers(c.queue_at)[i] < integers(c.queue_end)[i]


@inner(inlined=True)
def _has_ended(c, i):
    """Whether an agent has neither examples left nor answers to wait for."""
    over = integers(c.ended)[i] != 0 and not _has_row(c, i)
    return over and integers(c.late)[i] == 0


@inner
def _delay_of(c, row):
    if c.delays != 0:
        return integers(c.delays)[row - integers(c.words)[FIRST_ROW]]
    return int(_drawn(c, c.delay_kind, c.delay_low, c.delay_high, True))


@inner
def _wait_for(c, i, row):
    """The answer to a row is under way: into the place of the wheel at which it is due."""
    words = integers(c.words)
    words[FREE_ANSWERS] -= 1
    slot = integers(c.free_answers)[words[FREE_ANSWERS]]
    due = integers(c.turns)[i] + _delay_of(c, row)
    place = i * c.wheel + due % c.wheel
    integers(c.due_turn)[slot] = due
    integers(c.row_of)[slot] = row
    integers(c.next_answer)[slot] = -1
    if integers(c.first)[place] < 0:
        integers(c.first)[place] = slot
    else:
        integers(c.next_answer)[integers(c.last)[place]] = slot
    integers(c.last)[place] = slot
    integers(c.late)[i] += 1
    words[LATE] += 1
    return slot


@inner
def _predict(c, i):
    """An agent takes a turn, with an example if it has one."""
    integers(c.turns)[i] += 1
    if not _has_row(c, i):
        _write(c, PREDICT, i, -1, -1, -1)
        return
    row = integers(c.queue)[integers(c.queue_at)[i]]
    integers(c.queue_at)[i] += 1
    integers(c.words)[LEFT] -= 1
    _write(c, PREDICT, i, -1, _wait_for(c, i, row) if row >= 0 else -1, row)


@inner
def _due_answer(c, i):
    """Take out an answer that is due in this turn of an agent: its slot, or −1."""
    now = integers(c.turns)[i]
    place, before = i * c.wheel + now % c.wheel, -1
    slot = integers(c.first)[place]
    while slot >= 0 and integers(c.due_turn)[slot] != now:
        before, slot = slot, integers(c.next_answer)[slot]
    if slot < 0:
        return -1
    after = integers(c.next_answer)[slot]
    if before < 0:
        integers(c.first)[place] = after
    else:
        integers(c.next_answer)[before] = after
    if after < 0:
        integers(c.last)[place] = before
    words = integers(c.words)
    integers(c.free_answers)[words[FREE_ANSWERS]] = slot
    words[FREE_ANSWERS] += 1
    integers(c.late)[i] -= 1
    words[LATE] -= 1
    integers(c.answers)[i] += 1
    _write(c, ANSWER, i, -1, slot, integers(c.row_of)[slot])
    return slot


@inner
def _answers_due(c, i):
    """How many answers are due in the next turn of an agent, at most."""
    count = 1  # that of the row which it is about to predict
    slot = integers(c.first)[i * c.wheel + (integers(c.turns)[i] + 1) % c.wheel]
    while slot >= 0:
        count += 1
        slot = integers(c.next_answer)[slot]
    return count


@inner
def _meet(c, wire):
    """The two ends of a wire adopt the mean of their states, if both are there."""
    a, b = integers(c.listener)[wire], integers(c.sender)[wire]
    words = integers(c.words)
    words[SENT] += 2
    if integers(c.absent)[a] + integers(c.absent)[b] > 0 or _is_lost(c, wire):
        words[LOST] += 2
        return
    back = _wire_between(c, b, a)
    _pass_on(c, wire, MIX)
    _pass_on(c, back, MIX)
    _write(c, MIX, a, wire, -1, -1)
    _write(c, MIX, b, back, -1, -1)


@inner
def _wire_between(c, listener, sender):
    """The wire by which one agent hears another."""
    wire = integers(c.starts)[listener]
    while integers(c.sender)[wire] != sender:
        wire += 1
    return wire


@inner
def _arrange_meeting(c, a):
    """Draw a neighbour to meet, after the time that a message takes."""
    lo, hi = integers(c.starts)[a], integers(c.starts)[a + 1]
    if hi - lo < 2:
        return
    wire = lo + min(int(_uniform(c) * (hi - lo - 1)), hi - lo - 2)
    if integers(c.sender)[wire] >= a:
        wire += 1
    latency = _latency(c, wire)
    if latency == 0.0:
        _meet(c, wire)
    else:
        _put(c, floats(c.now)[0] + latency, MEETING + (wire << _WIRE))


@inner
def _turn(c, i):
    """One agent predicts, and learns from the answers that are due; it waits for nobody."""
    _predict(c, i)
    while _due_answer(c, i) >= 0:
        _write(c, PROJECT, i, -1, -1, -1)
        if integers(c.answers)[i] % c.period == 0:
            if c.schedule == GOSSIP:
                _arrange_meeting(c, i)
            elif c.schedule == ASYNC:
                _send(c, i)
                _write(c, MIX, i, -1, -1, -1)


@inner
def _walk_on(c, i):
    """The token goes to a neighbour that is drawn, with the state; when it arrives."""
    wire, u = integers(c.starts)[i], _uniform(c)
    last = integers(c.starts)[i + 1] - 1
    while wire < last and floats(c.walk)[wire] <= u:
        wire += 1
    j, time = integers(c.sender)[wire], floats(c.now)[0] + floats(c.interval)[i]
    words = integers(c.words)
    if j == i or integers(c.absent)[j] != 0:
        return time
    wire = _wire_between(c, j, i)
    for _ in range(_MOST_TRIES):  # a token that is lost is sent again
        if not _is_lost(c, wire):
            break
        words[SENT] += 1
        words[LOST] += 1
        time += _latency(c, wire)
    words[SENT] += 1
    _pass_on(c, wire, ADOPT)
    words[TOKEN] = j
    return time + _latency(c, wire)


# --- one thing after the other -------------------------------------------------------------------


@inner(inlined=True)
def _all_done(c):
    """Whether nobody has anything left to predict or to learn."""
    words = integers(c.words)
    return words[GOING_ON] + words[LATE] + words[LEFT] == 0


@inner
def _lacks(c, answers, sends):
    """What there is no room for: so many answers, and so many sends to everybody."""
    words, N = integers(c.words), c.n_agents
    if words[MADE] + 4 * N + 8 * answers + sends * (c.degree + 2) + 8 > c.room:
        return FULL
    if words[NUMBER] + answers + N + 2 * sends * (c.degree + 2) + 64 > c.n_numbers:
        return MORE_NUMBERS
    if words[FREE_ANSWERS] < N:
        return MORE_ANSWERS
    if words[FREE_MESSAGES] < sends + 2:
        return MORE_MESSAGES
    return MORE_DUE if words[DUE] + sends * c.degree + N + 2 > c.due_room else DONE


@inner
def _go_or_come(c, i, what):
    """An agent leaves or comes back; when it does the opposite is drawn."""
    absent, now = integers(c.absent), floats(c.now)[0]
    leaves = what == GOING
    absent[i] = 1 if leaves else 0
    _write(c, LEAVE if leaves else JOIN, i, -1, -1, -1)
    mean = c.down if leaves else c.up
    _put(c, now - mean * math.log1p(-_uniform(c)), (COMING if leaves else GOING) + (i << _WIRE))
    if not leaves and integers(c.parked)[i] != 0:
        integers(c.parked)[i] = 0
        _put(c, now, TURN + (i << _WIRE))


@inner
def _starves(c, i):
    """Whether an agent's next example has not been read yet."""
    return integers(c.ended)[i] == 0 and not _has_row(c, i)


@inner
def _handle_turn(c, i):
    """The turn of an agent, or of the token's holder."""
    if integers(c.absent)[i] != 0:
        integers(c.parked)[i] = 1
        return
    ended = _has_ended(c, i)
    if not ended:
        _turn(c, i)
    if c.schedule == WALK:
        after = _walk_on(c, i)
        _put(c, after, TURN + (integers(c.words)[TOKEN] << _WIRE))
    elif not ended:
        _put(c, floats(c.now)[0] + floats(c.interval)[i], TURN + (i << _WIRE))


@inner
def _run_freely(c):
    """Every agent, message and meeting at its own time."""
    while True:
        if _all_done(c):
            return DONE
        word = integers(c.due_what)[0]
        what, i = word & 7, (word >> _WIRE) & ((1 << (_MESSAGE - _WIRE)) - 1)
        due = 1
        if what == TURN:
            if integers(c.absent)[i] == 0 and _starves(c, i):
                return STARVED
            due = _answers_due(c, i)
        status = _lacks(c, due, due if what == TURN else 1)
        if status != DONE:
            return status
        _take(c)
        if what == TURN:
            _handle_turn(c, i)
        elif what == ARRIVAL:
            _arrive(c, i, word >> _MESSAGE)
        elif what == MEETING:
            _meet(c, i)
        else:
            _go_or_come(c, i, what)


# --- rounds with a barrier -----------------------------------------------------------------------


@inner
def _slowest(c):
    """Time that a round takes: that of its slowest agent."""
    longest = 0.0
    for i in range(c.n_agents):
        if integers(c.absent)[i] == 0:
            longest = max(longest, floats(c.interval)[i])
    return longest


@inner
def _each(c, kind):
    for i in range(c.n_agents):
        if integers(c.absent)[i] == 0:
            _write(c, kind, i, -1, -1, -1)


@inner
def _exchange(c):
    """All send, all receive, all mix; the round lasts as long as its slowest message."""
    words, start, longest = integers(c.words), floats(c.now)[0], 0.0
    first = words[FREE_MESSAGES]
    for i in range(c.n_agents):
        if integers(c.absent)[i] == 0:
            _write(c, SEND, i, -1, _new_message(c), -1)
    taken = first
    for i in range(c.n_agents):
        if integers(c.absent)[i] != 0:
            continue
        taken -= 1
        slot = integers(c.free_messages)[taken]
        for k in range(integers(c.spoken_starts)[i], integers(c.spoken_starts)[i + 1]):
            wire = integers(c.spoken)[k]
            words[SENT] += 1
            if _is_lost(c, wire):
                words[LOST] += 1
            else:
                longest = max(longest, _latency(c, wire))
                _deliver(c, wire, slot)
    words[FREE_MESSAGES] = first  # the slots above lie untouched where they were taken from
    floats(c.now)[0] = start + longest
    _each(c, MIX)


@inner
def _play_round(c):
    """All predict, all learn, and after every `period`-th round all exchange."""
    words = integers(c.words)
    longest = _slowest(c)
    if longest == 0.0:  # all are away: time goes on until one comes back
        floats(c.now)[0] = floats(c.due_time)[0]
        return
    words[ROUND] += 1
    for i in range(c.n_agents):
        if integers(c.absent)[i] == 0:
            _predict(c, i)
    floats(c.now)[0] += longest
    for i in range(c.n_agents):
        if integers(c.absent)[i] == 0:
            while _due_answer(c, i) >= 0:
                pass
    exchanging = words[ROUND] % c.period == 0
    if c.period > 1 or not exchanging:
        _each(c, PROJECT)
    if exchanging:
        _exchange(c)


@inner
def _run_rounds(c):
    while True:
        if _all_done(c):
            return DONE
        due = 0
        if integers(c.words)[DUE] > 0 and floats(c.due_time)[0] <= floats(c.now)[0]:
            status = _lacks(c, 1, 1)
            if status != DONE:
                return status
            now, word = floats(c.now)[0], _take(c)
            _go_or_come(c, word >> _WIRE, word & 7)
            floats(c.now)[0] = now
            continue
        for i in range(c.n_agents):
            if integers(c.absent)[i] == 0:
                if _starves(c, i):
                    return STARVED
                due += _answers_due(c, i)
        status = _lacks(c, due, c.n_agents)
        if status != DONE:
            return status
        _play_round(c)


@entry("int64(struct*)")
def run_clock(memory):
    """Make events until there is no room, no example, or nothing left: see the statuses above."""
    c = unpacked(ClockMemory, memory)
    return _run_rounds(c) if c.schedule == ROUNDS else _run_freely(c)
