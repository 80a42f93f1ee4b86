"""The memory that a run needs, said before it is taken."""

from __future__ import annotations

from math import prod

from ddol.algorithm import Algorithm
from ddol.engines.kernels import COPIES
from ddol.engines.state import numbers_sent, sharing
from ddol.engines.state_checks import expected_state
from ddol.streams.errors import DataError


def bytes_needed(algorithm: Algorithm, n_features: int, separate: bool = False) -> int:
    """Bytes of the states of all agents, of a copy of them, and of their messages.

    On a schedule (``separate``) every agent has its own copy of the weights.

    Examples
    --------
    >>> from ddol.communicate.topologies import ring
    >>> from ddol.presets import dogd
    >>> bytes_needed(dogd().on(ring(64)), 10**6) // 2**20
    1464
    """
    states = sum(
        8 * prod(n or 0 for n in each.shape)
        for each in expected_state(algorithm, n_features, separate).values()
    )
    copies = algorithm.n_agents if separate or sharing(algorithm) == COPIES else 1
    return 2 * states + 8 * copies * numbers_sent(algorithm, n_features)


def check_memory(
    algorithm: Algorithm, n_features: int, separate: bool = False, held: int = 0
) -> None:
    """Refuse a run that does not fit this machine, with the figure and what to do.

    Parameters
    ----------
    algorithm : Algorithm
    n_features : int
    separate : bool
        See `bytes_needed`.
    held : int
        Bytes of it that are taken already.
    """
    needed = bytes_needed(algorithm, n_features, separate)
    from ddol.streams.store.room import NOTHING, bytes_available

    if needed < NOTHING:
        return
    left = bytes_available()
    if left is None or needed <= left + held:
        return
    n = algorithm.n_agents
    apart = not separate and sharing(algorithm) == COPIES
    fewer = ["a complete graph, whose agents share one copy"] if apart else []
    raise DataError(
        f"{n} agents with {n_features} features each need {needed / 1e9:.1f} GB for states and "
        f"messages, this machine has {(left + held) / 1e9:.1f} GB left; use --bits, fewer agents"
        f"{''.join(f', or {each}' for each in fewer)}"
    )
