"""What agents do at their turns, and what follows from it, as events, compiled."""

# Signatures say the types of compiled functions.
# mypy: disable-error-code=no-untyped-def

from __future__ import annotations

from ddol.compiled import bytes_at, floats, inner, integers, ints
from ddol.schedules.clock_memory import (
    ARRIVAL,
    ASYNC,
    FIRST_ROW,
    FREE_ANSWERS,
    FREE_MESSAGES,
    GOSSIP,
    LATE,
    LEFT,
    LOST,
    MADE,
    MEETING,
    MESSAGE,
    PLACE,
    SENT,
    TOKEN,
    WIRE,
    drawn,
    is_cut,
    is_lost,
    latency_of,
    put,
    uniform,
)
from ddol.schedules.events import ADOPT, ANSWER, MIX, PREDICT, PROJECT, RECEIVE, SEND

_MOST_TRIES = 20

# --- writing events ------------------------------------------------------------------------------


@inner(inlined=True)
def write(c, kind, agent, wire, slot, row):
    """Write down what happens now."""
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
def new_message(c):
    """A slot for a message, named by the place of the send event that comes next."""
    words = integers(c.words)
    words[FREE_MESSAGES] -= 1
    slot = integers(c.free_messages)[words[FREE_MESSAGES]]
    integers(c.place_of)[slot] = words[PLACE]
    integers(c.copies)[slot] = 0
    return slot


@inner
def release_message(c, slot):
    """Give a message's slot back once no copy of it is under way."""
    words = integers(c.words)
    integers(c.free_messages)[words[FREE_MESSAGES]] = slot
    words[FREE_MESSAGES] += 1


@inner
def deliver(c, wire, slot):
    """A message arrives, unless the receiver is absent."""
    j = integers(c.listener)[wire]
    if integers(c.absent)[j] != 0:
        integers(c.words)[LOST] += 1
        return
    write(c, RECEIVE, j, wire, slot, integers(c.place_of)[slot])


@inner
def arrive(c, wire, slot):
    """A copy of a message is not under way any more; one that meets a partition is lost."""
    if is_cut(c, wire):
        integers(c.words)[LOST] += 1
    else:
        deliver(c, wire, slot)
    integers(c.copies)[slot] -= 1
    if integers(c.copies)[slot] == 0:
        release_message(c, slot)


@inner
def send_to_all(c, i):
    """An agent sends to all its receivers; what arrives at once arrives before anything else."""
    slot = new_message(c)
    write(c, SEND, i, -1, slot, -1)
    words, now = integers(c.words), floats(c.now)[0]
    for k in range(integers(c.spoken_starts)[i], integers(c.spoken_starts)[i + 1]):
        wire = integers(c.spoken)[k]
        words[SENT] += 1
        if is_lost(c, wire):
            words[LOST] += 1
            continue
        latency = latency_of(c, wire)
        if latency == 0.0:
            deliver(c, wire, slot)
            continue
        integers(c.copies)[slot] += 1
        put(c, now + latency, ARRIVAL + (wire << WIRE) + (slot << MESSAGE))
    if integers(c.copies)[slot] == 0:
        release_message(c, slot)


@inner
def pass_on(c, wire, kind):
    """The sender of a wire writes a message, and its listener takes it at once (`kind`: mix or adopt)."""
    slot = new_message(c)
    write(c, SEND, integers(c.sender)[wire], -1, slot, -1)
    write(c, RECEIVE, integers(c.listener)[wire], wire, slot, integers(c.place_of)[slot])
    release_message(c, slot)
    if kind == ADOPT:
        write(c, ADOPT, integers(c.listener)[wire], wire, -1, -1)


# --- turns ---------------------------------------------------------------------------------------


@inner(inlined=True)
def has_row(c, i):
    """Whether an example waits for an agent."""
    return integers(c.queue_at)[i] < integers(c.queue_end)[i]


@inner(inlined=True)
def has_ended(c, i):
    """Whether an agent has neither examples left nor answers to wait for."""
    over = integers(c.ended)[i] != 0 and not has_row(c, i)
    return over and integers(c.late)[i] == 0


@inner
def _delay_of(c, row):
    if c.delays != 0:
        return integers(c.delays)[row - integers(c.words)[FIRST_ROW]]
    return int(drawn(c, c.delay_kind, c.delay_low, c.delay_high, True))


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
def take_example(c, i):
    """An agent takes a turn, with an example if it has one."""
    integers(c.turns)[i] += 1
    if not has_row(c, i):
        write(c, PREDICT, i, -1, -1, -1)
        return
    row = integers(c.queue)[integers(c.queue_at)[i]]
    integers(c.queue_at)[i] += 1
    integers(c.words)[LEFT] -= 1
    write(c, PREDICT, i, -1, _wait_for(c, i, row) if row >= 0 else -1, row)


@inner
def due_answer(c, i):
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
    write(c, ANSWER, i, -1, slot, integers(c.row_of)[slot])
    return slot


@inner
def answers_due(c, i):
    """How many answers are due in the next turn of an agent, at most."""
    count = 1  # that of the row which it is about to predict
    slot = integers(c.first)[i * c.wheel + (integers(c.turns)[i] + 1) % c.wheel]
    while slot >= 0:
        count += 1
        slot = integers(c.next_answer)[slot]
    return count


@inner
def meet(c, wire):
    """The two ends of a wire adopt the mean of their states, if both are there."""
    a, b = integers(c.listener)[wire], integers(c.sender)[wire]
    words = integers(c.words)
    words[SENT] += 2
    if integers(c.absent)[a] + integers(c.absent)[b] > 0 or is_lost(c, wire):
        words[LOST] += 2
        return
    back = wire_between(c, b, a)
    pass_on(c, wire, MIX)
    pass_on(c, back, MIX)
    write(c, MIX, a, wire, -1, -1)
    write(c, MIX, b, back, -1, -1)


@inner
def wire_between(c, listener, sender):
    """The wire from one agent to another."""
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
    wire = lo + min(int(uniform(c) * (hi - lo - 1)), hi - lo - 2)
    if integers(c.sender)[wire] >= a:
        wire += 1
    latency = latency_of(c, wire)
    if latency == 0.0:
        meet(c, wire)
    else:
        put(c, floats(c.now)[0] + latency, MEETING + (wire << WIRE))


@inner
def take_turn(c, i):
    """One agent predicts and learns from the labels that are due, without waiting for others."""
    take_example(c, i)
    while due_answer(c, i) >= 0:
        write(c, PROJECT, i, -1, -1, -1)
        if integers(c.answers)[i] % c.period == 0:
            if c.schedule == GOSSIP:
                _arrange_meeting(c, i)
            elif c.schedule == ASYNC:
                send_to_all(c, i)
                write(c, MIX, i, -1, -1, -1)


@inner
def walk_on(c, i):
    """The token goes to a neighbour that is drawn, with the state; when it arrives."""
    wire, u = integers(c.starts)[i], uniform(c)
    last = integers(c.starts)[i + 1] - 1
    while wire < last and floats(c.walk)[wire] <= u:
        wire += 1
    j, time = integers(c.sender)[wire], floats(c.now)[0] + floats(c.interval)[i]
    words = integers(c.words)
    if j == i or integers(c.absent)[j] != 0:
        return time
    wire = wire_between(c, j, i)
    if is_cut(c, wire):
        return time
    for _ in range(_MOST_TRIES):  # a token that is lost is sent again
        if not is_lost(c, wire):
            break
        words[SENT] += 1
        words[LOST] += 1
        time += latency_of(c, wire)
    words[SENT] += 1
    pass_on(c, wire, ADOPT)
    words[TOKEN] = j
    return time + latency_of(c, wire)
