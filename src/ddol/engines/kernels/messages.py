"""Messages of events: written once for all receivers, or published for other threads.

Mailboxes and messages under way refer to a message, and its memory is free when none of them does any more.
"""

# Signatures say the types of compiled functions.
# mypy: disable-error-code=no-untyped-def

from __future__ import annotations

from ddol.compiled import (
    atomic_load,
    call_void,
    floats,
    inner,
    integers,
    yield_core,
)
from ddol.engines.kernels.average import write_message
from ddol.engines.kernels.event_memory import FREE, LEAST_MASS, LOGGED
from ddol.engines.kernels.published import STRIDE, read_newest

_FAR = 16  # exchanges


@inner
def release(memory, message):
    """One reference to a message less."""
    if message < 0:
        return
    references, words = integers(memory.references), integers(memory.words)
    references[message] -= 1
    if references[message] == 0:
        integers(memory.free)[words[FREE]] = message
        words[FREE] += 1


@inner(inlined=True)
def own_at(memory):
    """Where an agent's own part of an average is written: after all messages."""
    return memory.messages - 8 * memory.size


@inner
def push(worker, memory, a):
    """Add a share of an agent's mass to the running sums that it sends, as long as it has some left."""
    share = 1.0 / (1.0 + integers(memory.spoken)[a])
    if floats(memory.mass)[a] * share < LEAST_MASS:
        return  # its neighbours are away, and what it pushes does not come back yet
    floats(memory.mass)[a] *= share
    mass, sums = floats(memory.mass)[a], floats(memory.sums + 8 * a * memory.size)
    write_message(worker, a, own_at(memory))
    own, last = floats(own_at(memory)), memory.size - 1
    for d in range(last):
        sums[d] += mass * own[d]
    sums[last] += mass


@inner
def write_down(worker, memory, a, slot):
    """An agent's message, under way in a slot."""
    under_way, words = integers(memory.under_way), integers(memory.words)
    if memory.push:
        push(worker, memory, a)
    if slot < 0:
        return
    release(memory, under_way[slot])
    words[FREE] -= 1
    message = integers(memory.free)[words[FREE]]
    place = memory.messages + 8 * message * memory.size
    if memory.push:
        for d in range(memory.size):
            floats(place)[d] = floats(memory.sums + 8 * a * memory.size)[d]
    else:
        write_message(worker, a, place)
        if memory.lies != 0 and integers(memory.liars)[a] != 0:
            for agent in range(worker.shape.agents):
                write_message(worker, agent, memory.room + 8 * agent * memory.size)
            call_void(memory.lies, (a, memory.room, place))
    integers(memory.references)[message] = 1
    under_way[slot] = message


@inner
def _is_refused(memory, wire, message):
    """Whether a liar has sent what is no number; counted by sender."""
    sender = integers(memory.sender)[wire]
    if integers(memory.liars)[sender] == 0:
        return False
    sent = floats(memory.messages + 8 * message * memory.size)
    for d in range(memory.size):
        if sent[d] - sent[d] != 0.0:
            integers(memory.refused)[sender] += 1
            return True
    return False


@inner
def receive(memory, a, wire, slot, place):
    """Put a message into the mailbox, unless a newer one is there or the agent is absent.

    Returns whether there was a message.
    """
    message, box = integers(memory.under_way)[slot], integers(memory.box)
    if message < 0:
        return False
    if memory.lies != 0 and _is_refused(memory, wire, message):
        return True
    if integers(memory.absent)[a] == 0 and place > integers(memory.version)[wire]:
        integers(memory.references)[message] += 1
        release(memory, box[wire])
        box[wire] = message
        integers(memory.version)[wire] = place
    return True


@inner
def listen(memory, a):
    """Copy what neighbours have published last, for this agent alone; whether there was anything new."""
    box, version = integers(memory.box), integers(memory.version)
    versions, words, news = integers(memory.versions), integers(memory.words), False
    for wire in range(integers(memory.starts)[a], integers(memory.starts)[a + 1]):
        i, place = integers(memory.sender)[wire], wire - integers(memory.starts)[0]
        if i != memory.first_agent + a:
            source = memory.published + 8 * i * memory.size
            target = memory.messages + 8 * (wire - integers(memory.starts)[a]) * memory.size
            known = version[place]
            version[place] = read_newest(versions, i, source, target, memory.size, 0)
            box[place] = place if version[place] > 0 else -1
            news = news or version[place] > known
        if memory.log != 0:
            integers(memory.log)[words[LOGGED]] = version[place]
            words[LOGGED] += 1
    return news


@inner
def wait_for_others(memory, a):
    """Wait while a neighbour is too far behind; whether another thread has failed meanwhile."""
    progress, control = integers(memory.progress), integers(memory.control)
    mine = atomic_load(progress, STRIDE * (memory.first_agent + a))
    for wire in range(integers(memory.starts)[a], integers(memory.starts)[a + 1]):
        other = integers(memory.sender)[wire]
        while atomic_load(progress, STRIDE * other) < mine - memory.staleness * memory.period:
            if atomic_load(control, 0) != 0:
                return True
            yield_core()
    return atomic_load(control, 0) != 0


@inner
def let_others_catch_up(memory, a):
    """Without a bound on staleness: an agent far ahead of a neighbour yields its core a few times."""
    progress = integers(memory.progress)
    mine = atomic_load(progress, STRIDE * (memory.first_agent + a))
    if (mine // memory.period) % _FAR != 0:
        return
    for wire in range(integers(memory.starts)[a], integers(memory.starts)[a + 1]):
        other, offers = STRIDE * integers(memory.sender)[wire], 0
        while offers < _FAR and atomic_load(progress, other) < mine - _FAR * memory.period:
            yield_core()
            offers += 1


@inner(inlined=True)
def heard_at(memory, wire, first, own):
    """Address of what comes by a wire: the newest message, or the agent's own where there is none.

    Wires to the receiving agent begin with `first`.
    """
    if memory.live:
        if integers(memory.box)[wire - integers(memory.starts)[0]] < 0:
            return own
        return memory.messages + 8 * (wire - first) * memory.size
    message = integers(memory.box)[wire]
    if message < 0 or integers(memory.absent)[integers(memory.sender)[wire]] != 0:
        return own
    return memory.messages + 8 * message * memory.size
