"""The virtual clock in memory: conditions, what is known of every agent, and what is under way."""

from __future__ import annotations

from typing import NamedTuple

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
