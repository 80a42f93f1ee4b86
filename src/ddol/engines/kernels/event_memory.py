"""Events in memory, and all that is under way between them."""

# Signatures say the types of compiled functions.
# mypy: disable-error-code=no-untyped-def

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ddol.compiled import floats, inner, integers
from ddol.engines.kernels.layout import own_rate

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
    matrix_of: int
    """int64 (N,): the turn whose weights an agent's wires have; 0 where the matrix stays."""
    spoken: int
    """int64 (N,): wires on which an agent sends."""
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
    # liars
    lies: int
    """Function of a liar, of what all agents would send now, and of where its message is; 0 for none."""
    liars: int
    """int64 (N,): who lies."""
    room: int
    """float64 (N, size)"""
    refused: int
    """int64 (N,): messages that were no numbers, by sender."""
    # threads: messages are published, and mailboxes are copies of what is read
    live: bool
    published: int
    """float64 (N, size): what agents have sent last."""
    versions: int
    """int64 (N, STRIDE): how often, twice."""
    progress: int
    """int64 (N, STRIDE): rounds so far, for agents that wait for this one."""
    rounds_missed: int
    """int64 by agent: rounds in which it had no turn, because its stream was over."""
    period: int
    staleness: int
    """Exchanges that an agent may be ahead of a neighbour; negative for any number."""
    control: int
    """int64: not 0 when another thread has failed."""
    first_agent: int
    log: int
    """int64: versions that were mixed, wire by wire, at every exchange; 0 where they are not recorded."""


@inner(inlined=True)
def _rate_of(memory, n):
    """η of an agent's n-th turn."""
    if memory.rates != 0:
        return floats(memory.rates)[n - 1]
    if memory.exponent == 0.5:
        return memory.scale / math.sqrt(np.float64(n))
    return memory.scale / np.float64(n) if memory.exponent == 1.0 else memory.scale


@inner(inlined=True)
def eta_of(worker, memory, a):
    """η of an agent's present turn."""
    return own_rate(worker, a, _rate_of(memory, max(integers(memory.turns)[a], 1)))
