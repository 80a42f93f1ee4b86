"""Checks of a state, before it is made (does it fit into memory?) and when it comes from elsewhere."""

from __future__ import annotations

from dataclasses import fields
from math import prod
from typing import Any

import numpy as np

from ddol.algorithm import Algorithm
from ddol.engines.kernels import COPIES
from ddol.engines.state import State, layout_of, n_states, numbers_kept, numbers_sent, sharing
from ddol.storage import Expected, check_arrays
from ddol.streams.errors import DataError
from ddol.streams.rows import Block, Rows
from ddol.update.asking import NUMBERS
from ddol.update.checks import check_vectors

_LARGEST = (1 << 63) - 1


def expected_state(
    algorithm: Algorithm, n_features: int, separate: bool = False, agents: int | None = None
) -> dict[str, Expected]:
    """Type and shape of every array of a state, without the memory that they take.

    On a schedule (``separate``) every agent has its own copy of the weights. Of some `agents` only it is what
    one of several processes holds.

    Examples
    --------
    >>> from ddol.presets import dogd
    >>> expected_state(dogd().on(3), 10)["mistakes"]
    Expected(kind='int64', shape=(3,))
    """
    n = algorithm.n_agents if agents is None else agents
    states = n_states(algorithm)
    copies = n if separate or sharing(algorithm) == COPIES else 1
    layout = layout_of(algorithm, n_features)
    sums = (copies, states, n_features) if algorithm.average_iterates else (0, 0, 0)
    return {
        "theta": Expected("float64", (copies, states, len(layout.rows), n_features)),
        "scalars": Expected("float64", (copies, states, len(layout.scalars))),
        "sums": Expected("float64", sums),
        "mistakes": Expected("int64", (n,)),
        "loss": Expected("float64", (n,)),
        "expected": Expected("float64", (n,)),
        "examples": Expected("int64", (n,)),
        "asking": Expected("float64", (n if algorithm.asking is not None else 0, NUMBERS)),
        "slopes": Expected(
            "float64", (algorithm.delay + 1, n, algorithm.batch, numbers_kept(algorithm))
        ),
    }


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


def check_state(
    algorithm: Algorithm,
    state: State,
    where: str = "the state",
    separate: bool = False,
    agents: int | None = None,
) -> None:
    """Refuse a state that is not one of this algorithm, before an address of it is taken.

    Parameters
    ----------
    algorithm : Algorithm
        On its network.
    state : State
        Of all agents.
    where : str
        Where it came from, for messages.
    separate : bool
        Of a schedule: every agent has its own copy, and labels under way are not in the state.
    agents : int, optional
        How many of the agents it is the state of.
    """
    if not isinstance(state.theta, np.ndarray) or state.theta.ndim != 4 or not state.n_features:
        raise DataError(f"{where}: found no weights, expected (copies, outputs, rows, features)")
    arrays = {f.name: getattr(state, f.name) for f in fields(state)}
    for name, least in (("t", 1), ("seed", 0)):
        check_number(f"{where}: {name}", arrays.pop(name), least)
    pending = arrays.pop("pending")
    check_arrays(where, arrays, expected_state(algorithm, state.n_features, separate, agents))
    for name, array in arrays.items():
        if not array.flags.c_contiguous:
            raise DataError(f"{where}: found `{name}` in pieces, expected contiguous memory")
    for name in ("mistakes", "examples"):
        if arrays[name].min() < 0:
            raise DataError(f"{where}: found {arrays[name].min()} {name}, expected 0 or more")
    if (pending is not None) != (algorithm.delay > 0 and not separate):
        raise DataError(
            f"{where}: found {'no ' if pending is None else ''}labels under way, expected those of "
            f"{algorithm.delay} rounds"
        )
    for name in ("sums", "loss", "expected", "asking"):
        _check_finite(where, name, arrays[name])
    slopes = arrays["slopes"]  # NaN where the label was not asked for
    unasked = algorithm.query is not None
    _check_finite(where, "slopes", slopes[~np.isnan(slopes)] if unasked else slopes)
    layout = layout_of(algorithm, state.n_features)
    check_vectors(layout, state.theta, state.scalars, where)
    if pending is not None:
        _check_pending(algorithm, pending, state.n_features, where)


def _check_finite(where: str, name: str, array: np.ndarray) -> None:
    good = np.isfinite(array)
    if not good.all():
        raise DataError(f"{where}: found {array[~good][0]} in `{name}`, expected finite numbers")


def check_start(
    algorithm: Algorithm, state: State, events: bool, agents: int | None = None
) -> None:
    """Refuse a state from which rounds, or events, cannot go on.

    Events go on from a state of either: one that all agents share is copied for each.
    """
    own = events and state.pending is None and np.shape(state.theta)[:1] == (algorithm.n_agents,)
    check_state(algorithm, state, separate=own, agents=agents)


def check_number(what: str, value: Any, least: int = 0) -> None:
    """Refuse what is not a whole number from ``least`` on.

    Examples
    --------
    >>> check_number("round", -3)
    Traceback (most recent call last):
    ddol.streams.errors.DataError: round: found -3, expected a whole number of at least 0
    """
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or not least <= value <= _LARGEST:
        raise DataError(f"{what}: found {value}, expected a whole number of at least {least}")


def check_counts(where: str, position: Any) -> None:
    """Refuse a position with numbers that no stream gives: below 0, broken, or too large."""
    if isinstance(position, dict | list):
        for part in position.values() if isinstance(position, dict) else position:
            check_counts(where, part)
    elif not (position is None or isinstance(position, str | bool)):
        check_number(f"{where}: position", position)


def _check_pending(algorithm: Algorithm, late: Block, n_features: int, where: str) -> None:
    table = Expected("int64", (algorithm.delay, algorithm.n_agents, algorithm.batch))
    check_arrays(f"{where}: labels under way", {"table": late.table}, {"table": table})
    check_rows(late.rows, n_features, f"{where}: labels under way")
    try:
        check_examples(algorithm, late)
    except ValueError as error:
        raise DataError(f"{where}: labels under way: {error}") from None


def check_rows(rows: Rows, most_features: int, where: str) -> None:
    """Refuse rows whose arrays do not belong together, or that name columns which do not exist."""
    check_number(f"{where}: features", rows.n_features)
    if rows.n_features > most_features:
        raise DataError(
            f"{where}: found {rows.n_features} features, expected at most {most_features}"
        )
    n = len(rows.y)
    weight = n if len(rows.weight) else 0
    values = n * rows.n_stored if rows.dense else rows.data.size
    arrays = {name: getattr(rows, name) for name in ("data", "indices", "indptr", "y", "weight")}
    expected = {
        "data": Expected("float64", (values,)),
        "indices": Expected("uint32", (0 if rows.dense else values,)),
        "indptr": Expected("int64", (0 if rows.dense else n + 1,)),
        "y": Expected("float64", (n,)),
        "weight": Expected("float64", (weight,)),
    }
    check_arrays(where, arrays, expected)
    for name in ("data", "y", "weight"):
        _check_finite(where, name, arrays[name])
    if rows.dense:
        return
    rising = rows.indptr[0] == 0 and rows.indptr[-1] == values and np.all(np.diff(rows.indptr) >= 0)
    if not rising or (values and rows.indices.max() >= rows.n_stored):
        raise DataError(
            f"{where}: found rows or columns outside of their range, expected columns below "
            f"{rows.n_stored}"
        )
    inner = np.setdiff1d(np.arange(1, values), rows.indptr)  # places that do not begin a row
    if np.any(rows.indices[inner] <= rows.indices[inner - 1]):
        raise DataError(f"{where}: found columns of a row out of order, expected them to rise")


def check_block(algorithm: Algorithm, block: Block) -> None:
    """Refuse a block that was dealt for another number of agents or another batch."""
    found, expected = block.table.shape[1:], (algorithm.n_agents, algorithm.batch)
    if found != expected:
        raise ValueError(
            f"the block was dealt to {found[0]} agents in batches of {found[1]}, expected "
            f"{expected[0]} agents and batches of {expected[1]}"
        )


def check_examples(algorithm: Algorithm, block: Block) -> None:
    """Refuse rows that do not exist and labels that are not encoded: the kernel trusts both."""
    rows, table = block.rows, block.table
    if table.size and not (table.min() >= -1 and table.max() < len(rows)):
        raise ValueError(
            f"the block's table names rows {table.min()} to {table.max()}, expected 0 to "
            f"{len(rows) - 1}, or -1 for none"
        )
    if not algorithm.classification:
        return
    classes = [-1.0, 1.0] if algorithm.outputs == 1 else list(range(algorithm.outputs))
    strange = np.flatnonzero(~np.isin(rows.y, classes))
    if strange.size:
        raise ValueError(
            f"found label {rows.y[strange[0]]:g} in row {strange[0]} of the block, expected one of "
            f"{', '.join(f'{c:g}' for c in classes[:10])}; ddol.run encodes labels by itself"
        )
