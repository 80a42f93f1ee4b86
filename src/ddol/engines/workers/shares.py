"""Parts of a state, one for each worker, and joining them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ddol.engines.state import State, copied, zeros
from ddol.streams.rows import Block, Rows, concatenate

# Two lines of x86, one of Apple's: a processor fetches no more than this at once.
_LINE = 128


def apart(array: np.ndarray) -> np.ndarray:
    """Copy an array into memory that shares no cache line with anything else.

    Two cores that write to one line, even to different words of it, wait for each other.

    Examples
    --------
    >>> apart(np.arange(3.0))
    array([0., 1., 2.])
    """
    if not array.size:
        return array.copy()
    room = zeros((array.nbytes + 2 * _LINE,), np.uint8)
    start = _LINE + -room.ctypes.data % _LINE
    copy = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    return copied(array, copy)


def each_its_own(state: State, n_agents: int) -> State:
    """The state in which every agent has a copy of the weights of its own."""
    if len(state.theta) == n_agents:
        return state
    shape = (n_agents, 1, 1, 1)
    return replace(
        state,
        theta=np.tile(state.theta, shape),
        scalars=np.tile(state.scalars, shape[:3]),
        sums=np.tile(state.sums, shape[:3]),
    )


def part_of(state: State, first: int, agents: int) -> State:
    """State of some agents in a row, in memory of its own.

    A copy of the weights that all agents share is whole in every part, and so are the answers
    under way: their table says which of them belong to whom.

    Examples
    --------
    >>> from ddol.communicate.topologies import ring
    >>> from ddol.engines.state import start_state
    >>> from ddol.presets import dogd
    >>> part_of(start_state(dogd().on(ring(5)), 3), first=2, agents=2).theta.shape
    (2, 1, 1, 3)
    """
    mine = slice(first, first + agents)
    copies = mine if len(state.theta) == len(state.mistakes) else slice(None)
    return replace(
        state,
        theta=apart(state.theta[copies]),
        scalars=apart(state.scalars[copies]),
        sums=apart(state.sums[copies]),
        slopes=apart(state.slopes[:, mine]),
        mistakes=apart(state.mistakes[mine]),
        loss=apart(state.loss[mine]),
        expected=apart(state.expected[mine]),
        examples=apart(state.examples[mine]),
        asking=apart(state.asking[mine]),
    )


def joined(parts: Sequence[State], shared: bool) -> State:
    """Put the parts of all agents together, in memory of their own.

    Parameters
    ----------
    parts
        In the order of the agents.
    shared
        Whether all agents share one copy of the weights.
    """
    whole = parts[0]
    copies = parts[:1] if shared else parts
    return replace(
        whole,
        theta=np.concatenate([part.theta for part in copies]),
        scalars=np.concatenate([part.scalars for part in copies]),
        sums=np.concatenate([part.sums for part in copies]),
        slopes=np.concatenate([part.slopes for part in parts], axis=1),
        asking=np.concatenate([part.asking for part in parts]),
        **joined_counters(parts),
    )


def joined_counters(parts: Sequence[State]) -> dict[str, Any]:
    """Counters of all agents, by name."""
    names = ("mistakes", "loss", "expected", "examples")
    return {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}


def merged(late: Sequence[Block], shares: Sequence[tuple[int, int]]) -> Block:
    """Answers under way at several workers as one block, each worker's for its own agents.

    Parameters
    ----------
    late
        One block per worker, of all agents each.
    shares
        First agent and number of agents of every worker.
    """
    table = np.full_like(late[0].table, -1)
    pieces: list[Rows] = []
    before = 0
    for block, (first, agents) in zip(late, shares, strict=True):
        own = block.table[:, first : first + agents]
        needed = np.unique(own[own >= 0])
        numbers = np.searchsorted(needed, own) + before
        table[:, first : first + agents] = np.where(own >= 0, numbers, -1)
        if len(needed):
            pieces.append(block.rows.take(needed))
        before += len(needed)
    rows = concatenate(pieces) if pieces else late[0].rows.slice(0, 0)
    return Block(rows, table)


def joined_parts(parts: list[State], shares: list[tuple[int, int]], shared: bool) -> State:
    """The whole state, from the parts of all processes and the answers under way at each."""
    whole = joined(parts, shared)
    late = [part.pending for part in parts if part.pending is not None]
    return replace(whole, pending=merged(late, shares)) if late else whole
