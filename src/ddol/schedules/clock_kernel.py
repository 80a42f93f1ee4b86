"""The virtual clock, compiled: from what is due next to the events that come of it.

What is due (a turn of an agent, the arrival of a message, a meeting of two agents, an absence) is in a heap
ordered by time. The earliest is taken out and written down as events, and what follows from it is put in;
only what is under way is kept. Random numbers are drawn beforehand and used one after the other, so that the
list depends on the seed alone and not on how many events are made at a time.
"""

# Signatures say the types of compiled functions.
# mypy: disable-error-code=no-untyped-def

from __future__ import annotations

import math

from ddol.compiled import entry, floats, inner, integers, unpacked
from ddol.schedules.clock_memory import (
    ARRIVAL,
    COMING,
    DONE,
    DUE,
    FREE_ANSWERS,
    FREE_MESSAGES,
    FULL,
    GOING,
    GOING_ON,
    LATE,
    LEFT,
    LOST,
    MADE,
    MEETING,
    MESSAGE,
    MORE_ANSWERS,
    MORE_DUE,
    MORE_MESSAGES,
    MORE_NUMBERS,
    NUMBER,
    ONE_WIRE,
    ROUND,
    ROUNDS,
    SENT,
    STARVED,
    TOKEN,
    TURN,
    WALK,
    WIRE,
    ClockMemory,
    is_lost,
    latency_of,
    put,
    take,
    uniform,
)
from ddol.schedules.clock_turns import (
    answers_due,
    arrive,
    deliver,
    due_answer,
    has_ended,
    has_row,
    meet,
    new_message,
    take_example,
    take_turn,
    walk_on,
    write,
)
from ddol.schedules.events import JOIN, LEAVE, MIX, PROJECT, SEND

# --- from one due time to the next ---------------------------------------------------------------


@inner(inlined=True)
def all_done(c):
    """Whether all agents have finished predicting and learning."""
    words = integers(c.words)
    return words[GOING_ON] + words[LATE] + words[LEFT] == 0


@inner
def _lacks(c, answers, sends):
    """Room that is missing: this many labels, and this many sends to all neighbours."""
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
def _go_or_come(c, i, what, since):
    """An agent leaves or comes back, at a time from which on it is drawn when it does the opposite."""
    absent = integers(c.absent)
    leaves = what == GOING
    absent[i] = 1 if leaves else 0
    write(c, LEAVE if leaves else JOIN, i, -1, -1, -1)
    mean = c.down if leaves else c.up
    put(c, since - mean * math.log1p(-uniform(c)), (COMING if leaves else GOING) + (i << WIRE))
    if not leaves and integers(c.parked)[i] != 0:
        integers(c.parked)[i] = 0
        put(c, since, TURN + (i << WIRE))


@inner
def _starves(c, i):
    """Whether an agent's next example has not been read yet."""
    return integers(c.ended)[i] == 0 and not has_row(c, i)


@inner
def _handle_turn(c, i):
    """The turn of an agent, or of the token's holder."""
    if integers(c.absent)[i] != 0:
        integers(c.parked)[i] = 1
        return
    ended = has_ended(c, i)
    if not ended:
        take_turn(c, i)
    if c.schedule == WALK:
        after = walk_on(c, i)
        put(c, after, TURN + (integers(c.words)[TOKEN] << WIRE))
    elif not ended:
        put(c, floats(c.now)[0] + floats(c.interval)[i], TURN + (i << WIRE))


@inner
def _run_freely(c):
    """Every agent, message and meeting at its own time."""
    while True:
        if all_done(c) or integers(c.words)[DUE] == 0:
            return DONE
        word = integers(c.due_what)[0]
        what, i = word & 7, (word >> WIRE) & ONE_WIRE
        due = 1
        if what == TURN:
            if integers(c.absent)[i] == 0 and _starves(c, i):
                return STARVED
            due = answers_due(c, i)
        status = _lacks(c, due, due if what == TURN else 1)
        if status != DONE:
            return status
        take(c)
        if what == TURN:
            _handle_turn(c, i)
        elif what == ARRIVAL:
            arrive(c, i, word >> MESSAGE)
        elif what == MEETING:
            meet(c, i)
        else:
            _go_or_come(c, i, what, floats(c.now)[0])


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
            write(c, kind, i, -1, -1, -1)


@inner
def _exchange(c):
    """All send, all receive, all mix; the round lasts as long as its slowest message."""
    words, start, longest = integers(c.words), floats(c.now)[0], 0.0
    first = words[FREE_MESSAGES]
    for i in range(c.n_agents):
        if integers(c.absent)[i] == 0:
            write(c, SEND, i, -1, new_message(c), -1)
    taken = first
    for i in range(c.n_agents):
        if integers(c.absent)[i] != 0:
            continue
        taken -= 1
        slot = integers(c.free_messages)[taken]
        for k in range(integers(c.spoken_starts)[i], integers(c.spoken_starts)[i + 1]):
            wire = integers(c.spoken)[k]
            words[SENT] += 1
            if is_lost(c, wire):
                words[LOST] += 1
            else:
                longest = max(longest, latency_of(c, wire))
                deliver(c, wire, slot)
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
            take_example(c, i)
    floats(c.now)[0] += longest
    for i in range(c.n_agents):
        if integers(c.absent)[i] == 0:
            while due_answer(c, i) >= 0:
                pass
    exchanging = words[ROUND] % c.period == 0
    if c.period > 1 or not exchanging:
        _each(c, PROJECT)
    if exchanging:
        _exchange(c)


@inner
def _run_rounds(c):
    while True:
        if all_done(c):
            return DONE
        due = 0
        if integers(c.words)[DUE] > 0 and floats(c.due_time)[0] <= floats(c.now)[0]:
            status = _lacks(c, 1, 1)
            if status != DONE:
                return status
            now, word = floats(c.now)[0], take(c)
            since = floats(c.now)[0]
            floats(c.now)[0] = (
                now  # a round is not interrupted: who left meanwhile is missed after it
            )
            _go_or_come(c, word >> WIRE, word & 7, since)
            continue
        for i in range(c.n_agents):
            if integers(c.absent)[i] == 0:
                if _starves(c, i):
                    return STARVED
                due += answers_due(c, i)
        status = _lacks(c, due, c.n_agents)
        if status != DONE:
            return status
        _play_round(c)


@entry("int64(struct*)")
def run_clock(memory):
    """Make events until there is no room, no example, or nothing left: see the statuses above."""
    c = unpacked(ClockMemory, memory)
    return _run_rounds(c) if c.schedule == ROUNDS else _run_freely(c)
