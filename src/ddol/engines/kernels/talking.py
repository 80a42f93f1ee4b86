"""What an agent sends, and when: pieces of its message that have moved, compressed if asked for.

A message consists, for each weight vector, of rows of D numbers and of scalars. Its first rows and first
scalars may be statistics of the features, which change slowly: they are a piece of their own. What an agent
leaves out of a message stays as it was in the one before, for the sender and for its receivers.
"""

# Signatures say the types of compiled functions.
# mypy: disable-error-code=no-untyped-def

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ddol.communicate.talking import EIGHT_BITS, FLOAT32, TOP
from ddol.compiled import (
    bits,
    floats,
    from_bits,
    inner,
    integers,
)
from ddol.engines.kernels.average import write_message
from ddol.engines.kernels.event_memory import FREE
from ddol.engines.kernels.messages import own_at, release
from ddol.engines.kernels.mixing import left_out, unit_of
from ddol.engines.kernels.neighbours import choose_partners, chooses_partners
from ddol.engines.kernels.published import STRIDE, publish

WEIGHTS, STATISTICS, EVERYTHING = 1, 2, 3
"""Pieces of a message, and all of them."""
_LEAST32, _MOST32 = 1.1754943508222875e-38, 3.4028234663852886e38
_THREE_BITS, _SEVEN_BITS = -(1 << 49), -(1 << 45)
"""Masks that keep so many bits behind the leading one."""
_MANTISSA = 52
_EXPONENTS = 15
"""Powers of two in a row of 8 bits: a sign, 4 bits for the exponent (one of them for 0), and 3 more."""


class Talk(NamedTuple):
    """What agents have sent, and the rules by which they send. Arrays are given by address."""

    plain: bool
    """All agents send everything, uncompressed."""
    chooses: bool
    """Agents may be silent; an agent that has neither sent nor received anything new does not mix."""
    together: bool
    """All agents exchange at the same time: statistics are sent when they are averaged, and else left out."""
    threshold: float
    code: int
    most: int
    """Features of a message, where the code leaves some out."""
    statistics: int
    """First rows of a message that are statistics, and first scalars."""
    counts: int
    projects: bool
    """An agent that does not mix projects instead; else it has done so before."""
    origin: int
    """float64 (size,): the message of an agent that knows nothing."""
    last: int
    """int64 (N,): the message that an agent has sent last, or −1."""
    news: int
    """int64 (N,): whether there is something new to mix."""
    sizes: int
    """float64 (D,): how much each feature has changed, where some are left out."""
    spoken_starts: int
    spoken: int
    pairs: bool
    """Messages go to one neighbour each."""
    coded: int
    """float64 (size,): room for a message that is to be published."""
    messages: int
    """int64 by wire: messages sent, and their bytes."""
    bytes: int
    arrived: int
    """int64 by wire: messages received."""


# --- what has moved ------------------------------------------------------------------------------


@inner(inlined=True)
def _piece_of(talk, r):
    """The piece that a row of a message belongs to."""
    return WEIGHTS if r >= talk.statistics else STATISTICS


@inner(inlined=True)
def _scalars_of(worker):
    """Scalars that one weight vector sends."""
    return worker.shape.linear_scalars + worker.shape.largest_scalars


@inner
def _moved(worker, own, before, origin, r):
    """Share of a row's squared way from the start that lies behind it since it was sent."""
    apart, way, D = 0.0, 0.0, worker.shape.D
    for k in range(worker.shape.states):
        first = k * unit_of(worker) + r * D
        for d in range(first, first + D):
            apart += (own[d] - before[d]) * (own[d] - before[d])
            way += (own[d] - origin[d]) * (own[d] - origin[d])
    if way > 0.0:
        return apart / way
    return math.inf if apart > 0.0 else 0.0


@inner
def _pieces_moved(worker, talk, own, before, limit):
    """The pieces that have moved by more than a limit; of statistics the first row, the counts, tells it."""
    moved = 0
    for r in range(worker.shape.message_rows):
        piece = _piece_of(talk, r)
        if 0 < r < talk.statistics:
            continue
        if moved & piece == 0 and _moved(worker, own, before, floats(talk.origin), r) > limit:
            moved |= piece
    return moved if talk.statistics > 0 or moved == 0 else EVERYTHING


# --- codes ---------------------------------------------------------------------------------------


@inner(inlined=True)
def _single(x):
    """A number in single precision; what is not 0 stays so, and what is finite too."""
    if x == 0.0 or math.isnan(x) or math.isinf(x):
        return x
    size = np.float64(np.float32(min(max(abs(x), _LEAST32), _MOST32)))
    return size if x > 0.0 else -size


@inner(inlined=True)
def _exponent(x):
    return (bits(x) >> _MANTISSA) & 0x7FF


@inner(inlined=True)
def _cut(x, least, mask):
    """A number with its last bits cut off, towards 0; nothing is left of one below the least exponent."""
    return from_bits(bits(x) & mask) if _exponent(x) >= least else 0.0


@inner
def _code_row(talk, own, before, out, n):
    """Write n numbers of a row as their receiver will know them; the bytes that it takes.

    In 8 bits differences are cut towards 0: what is sent lies between what was sent and what is true.
    """
    if talk.code == EIGHT_BITS:
        largest = 0
        for d in range(n):
            largest = max(largest, _exponent(own[d] - before[d]))
        least = max(largest - _EXPONENTS + 1, 1)
        for d in range(n):
            out[d] = before[d] + _cut(own[d] - before[d], least, _THREE_BITS)
        return n + 2
    for d in range(n):
        out[d] = _single(own[d]) if talk.code == FLOAT32 else own[d]
    return 4 * n if talk.code == FLOAT32 else 8 * n


@inner
def _code_apart(talk, own, before, out, n):
    """The same for numbers that have no size in common, such as scalars, and statistics of features in units
    of their own: 16 bits each where weights have 8."""
    if talk.code != EIGHT_BITS:
        return _code_row(talk, own, before, out, n)
    for d in range(n):
        out[d] = before[d] + _cut(own[d] - before[d], 1, _SEVEN_BITS)
    return 2 * n


@inner
def _code_pieces(worker, talk, own, before, out, pieces):
    """Code the pieces that are sent; the bytes that they take."""
    shape, spent = worker.shape, 0
    scalars = _scalars_of(worker)
    for k in range(shape.states):
        at = 8 * k * unit_of(worker)
        for r in range(shape.message_rows):
            if pieces & _piece_of(talk, r):
                places = floats(own + at), floats(before + at), floats(out + at)
                if r < talk.statistics:
                    spent += _code_apart(talk, places[0], places[1], places[2], shape.D)
                else:
                    spent += _code_row(talk, places[0], places[1], places[2], shape.D)
            at += 8 * shape.D
        if pieces & STATISTICS:
            places = floats(own + at), floats(before + at), floats(out + at)
            spent += _code_apart(talk, places[0], places[1], places[2], talk.counts)
        at += 8 * talk.counts
        if pieces & WEIGHTS:
            places = floats(own + at), floats(before + at), floats(out + at)
            spent += _code_apart(talk, places[0], places[1], places[2], scalars - talk.counts)
    return spent


# --- few features --------------------------------------------------------------------------------


@inner
def _measure_features(worker, talk, own, before, pieces):
    """How much each feature has changed: squares, each row by its way from the start."""
    sizes, origin, D = floats(talk.sizes), floats(talk.origin), worker.shape.D
    for d in range(D):
        sizes[d] = 0.0
    for r in range(worker.shape.message_rows):
        if pieces & _piece_of(talk, r) == 0:
            continue
        way = 0.0
        for k in range(worker.shape.states):
            first = k * unit_of(worker) + r * D
            for d in range(first, first + D):
                way += (own[d] - origin[d]) * (own[d] - origin[d])
        for k in range(worker.shape.states):
            first = k * unit_of(worker) + r * D
            for d in range(D):
                apart = own[first + d] - before[first + d]
                sizes[d] += apart * apart / (way if way > 0.0 else 1.0)


@inner
def _largest_but(sizes, n, k):
    """The k-th largest of n numbers ≥ 0: bit by bit, since they are ordered as their bits are."""
    word = 0
    for place in range(62, -1, -1):
        least, count = word | (1 << place), 0
        for d in range(n):
            count += bits(sizes[d]) >= least
        if count >= k:
            word = least
    return from_bits(word)


@inner
def _code_features(worker, talk, own, before, out, pieces, most):
    """Send the features that have changed most, wholly, with their numbers; the bytes."""
    D, sizes, shape = worker.shape.D, floats(talk.sizes), worker.shape
    _measure_features(worker, talk, own, before, pieces)
    least, ties, chosen = _largest_but(sizes, D, most), most, 0
    for d in range(D):
        ties -= sizes[d] > least
    for d in range(D):
        tied = sizes[d] == least and ties > 0 and least > 0.0
        if not (sizes[d] > least or tied):
            continue
        ties -= tied
        chosen += 1
        for k in range(shape.states):
            for r in range(shape.message_rows):
                if pieces & _piece_of(talk, r):
                    place = k * unit_of(worker) + r * D + d
                    out[place] = own[place]
    return chosen


@inner
def _code_few(worker, talk, own, before, out, pieces, most):
    """Code all scalars of a message, and at most so many of its features, as they are; the bytes."""
    shape, rows, scalars = worker.shape, 0, _scalars_of(worker)
    for r in range(shape.message_rows):
        rows += shape.states * (pieces & _piece_of(talk, r) != 0)
    chosen = _code_features(worker, talk, floats(own), floats(before), floats(out), pieces, most)
    told = 0
    for k in range(shape.states):
        first = k * unit_of(worker) + shape.message_rows * shape.D
        for i in range(scalars):
            if pieces & (STATISTICS if i < talk.counts else WEIGHTS):
                floats(out)[first + i] = floats(own)[first + i]
                told += 1
    return min(chosen * (4 + 8 * rows), 8 * rows * shape.D) + 8 * told


# --- saying it -----------------------------------------------------------------------------------


@inner
def compares_now(talk, turn):
    """Whether an agent compares in this turn what it knows with what it has said.

    In turns that the first power of two above E·√n divides: where all do so at the same time, those who talk
    are averaged with others that are as new.
    """
    if not talk.chooses:
        return True
    gap, often = 1, talk.threshold * math.sqrt(np.float64(turn))
    while gap <= turn and gap <= often:
        gap *= 2
    return turn % gap == 0


@inner
def pieces_to_say(worker, talk, own, before, turn, first):
    """What an agent has to say in one of its turns; 0 for nothing."""
    skipped, _ = left_out(worker, turn // worker.rules.period)
    wanted = WEIGHTS if talk.together and skipped > 0 else EVERYTHING
    if not talk.chooses:
        return wanted
    limit = talk.threshold / math.sqrt(np.float64(turn))
    moved = wanted & _pieces_moved(worker, talk, floats(own), floats(before), limit)
    return EVERYTHING if first and moved != 0 else moved


@inner
def code_message(worker, memory, talk, own, before, out, pieces, first):
    """Write what the receivers will know of an agent, at an address; returns the bytes that are sent.

    The first message is whole: there is nothing that it could be a difference to, but the start.
    """
    for d in range(memory.size):
        floats(out)[d] = floats(before)[d]
    if talk.code == TOP or (talk.code == EIGHT_BITS and first):
        most = worker.shape.D if first else talk.most
        return _code_few(worker, talk, own, before, out, pieces, most)
    return _code_pieces(worker, talk, own, before, out, pieces)


@inner
def count_spoken(talk, a, size):
    """Send a message of so many bytes to all receivers of an agent, where it is not for one alone."""
    if talk.pairs:
        return
    for k in range(integers(talk.spoken_starts)[a], integers(talk.spoken_starts)[a + 1]):
        wire = integers(talk.spoken)[k]
        integers(talk.messages)[wire] += 1
        integers(talk.bytes)[wire] += size


@inner
def hear(memory, talk, a, wire):
    """A message arrives; in meetings its receiver was not known before."""
    integers(talk.news)[a] = 1
    integers(talk.arrived)[wire] += 1
    if talk.pairs:
        integers(talk.messages)[wire] += 1
        integers(talk.bytes)[wire] += (4 if talk.code == FLOAT32 else 8) * memory.size


@inner
def say(worker, memory, talk, near, a, slot, told):
    """An agent sends what it has to say; the pieces, or 0 where it is silent.

    `told` are the pieces that a recording names; −1 where the agent decides.
    """
    own, last, under_way = own_at(memory), integers(talk.last), integers(memory.under_way)
    first, turn, pieces = last[a] < 0, max(integers(memory.turns)[a], 1), told
    before = talk.origin if first else memory.messages + 8 * last[a] * memory.size
    if told <= 0 and not compares_now(talk, turn):
        pieces = 0
    else:
        write_message(worker, a, own)
        if told <= 0:
            pieces = pieces_to_say(worker, talk, own, before, turn, first)
            if pieces != 0 and chooses_partners(talk, near, a):
                pieces = EVERYTHING  # the receiver may not have got the last one
    if slot >= 0:
        release(memory, under_way[slot])
        under_way[slot] = -1
    if pieces == 0:
        return 0
    words = integers(memory.words)
    words[FREE] -= 1
    message = integers(memory.free)[words[FREE]]
    out = memory.messages + 8 * message * memory.size
    size = code_message(worker, memory, talk, own, before, out, pieces, first)
    release(memory, last[a])
    last[a] = message
    integers(memory.references)[message] = 1
    if slot >= 0:
        under_way[slot] = message
        integers(memory.references)[message] = 2
    integers(talk.news)[a] = 1
    if near.partners > 0 and slot >= 0:
        choose_partners(talk, near, a, slot, size)
    else:
        count_spoken(talk, a, size)
    return pieces


@inner
def show(worker, memory, talk, a):
    """Publish what an agent has to say, for other threads; the pieces, or 0 where it is silent."""
    own, i, turn = own_at(memory), memory.first_agent + a, max(integers(memory.turns)[a], 1)
    versions = integers(memory.versions)
    target, pieces, size = memory.published + 8 * i * memory.size, EVERYTHING, 8 * memory.size
    if not compares_now(talk, turn):
        pieces = 0
    else:
        write_message(worker, a, own)
    if pieces != 0 and not talk.plain:
        first = versions[STRIDE * i] == 0
        before = talk.origin if first else target
        pieces = pieces_to_say(worker, talk, own, before, turn, first)
        if pieces != 0:
            size = code_message(worker, memory, talk, own, before, talk.coded, pieces, first)
            own = talk.coded
    if pieces != 0:
        publish(versions, i, own, target, memory.size)
        integers(talk.news)[a] = 1
        count_spoken(talk, i, size)
    return pieces
