"""What a kernel reads, as arrays and addresses: rows, rates, late labels, neighbours to ask."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from ddol.algorithm import Algorithm
from ddol.compiled import packed
from ddol.engines.kernels import Examples
from ddol.engines.state import State
from ddol.engines.workers.partition import Partition
from ddol.streams.rows import Block, Rows, concatenate
from ddol.update.rates import PerAgent, Power, Rate, evaluate


def neighbours_asked(algorithm: Algorithm) -> np.ndarray:
    """Neighbours that agents ask for labels: n + 1 places in the array, and what stands at them."""
    if algorithm.asking is None or not algorithm.asking.neighbours:
        return np.empty(0, np.int64)
    lists = [algorithm.graph.neighbours(i).tolist() for i in range(algorithm.n_agents)]
    starts = np.cumsum([len(lists) + 1, *map(len, lists)])
    return np.array([*starts, *(j for own in lists for j in own)], np.int64)


def factors_of(algorithm: Algorithm, partition: Partition) -> np.ndarray:
    """Factors of the rates of a worker's agents; none where all have the same."""
    rate = algorithm.rate
    if not isinstance(rate, PerAgent):
        return np.empty(0)
    if len(rate.factors) != algorithm.n_agents:
        raise ValueError(
            f"`rate` is given for {len(rate.factors)} agents, expected {algorithm.n_agents}"
        )
    return np.array(rate.factors[partition.first : partition.first + partition.agents])


def rates_of(rate: Rate, t: int, rounds: int) -> tuple[np.ndarray, float, float]:
    """A table of the rates of the rounds t, …, or none where the kernel takes scale/t^exponent."""
    if isinstance(rate, PerAgent):
        return rates_of(rate.rate, t, rounds)
    if isinstance(rate, Power) and rate.exponent in (0.0, 0.5, 1.0):
        return np.empty(0), float(rate.scale), float(rate.exponent)
    return evaluate(rate, t, rounds), 0.0, 0.0


def drawn(seed: int, agent: int, start: int, shape: Any) -> np.ndarray:
    """Uniform numbers that an agent draws: a function of the seed, the agent and the place of the first."""
    bits = np.random.PCG64(np.random.SeedSequence([seed, agent]))
    bits.advance(start)
    return np.random.Generator(bits).random(shape)


def drawn_in_turns(
    algorithm: Algorithm, seed: int, first: int, turns: np.ndarray, counts: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Numbers with which randomised algorithms follow experts in events.

    Parameters
    ----------
    algorithm : Algorithm
    seed : int
    first : int
        First agent of the worker.
    turns : (agents,) of int
        Turns of every agent so far.
    counts : (agents,) of int
        Its turns among the events.

    Returns
    -------
    tuple
        All numbers, and for every agent the place of its first number less the turns before it.
    """
    if not algorithm.draws:
        return np.empty(0), np.empty(0, np.int64)
    own = [drawn(seed, first + a, int(turns[a]), counts[a]) for a in range(len(counts))]
    starts = np.cumsum(counts) - counts - turns - 1
    return np.concatenate(own), starts.astype(np.int64)


def addresses(rows: Rows) -> dict[str, int]:
    """Where the arrays of a block are; 0 for those that it does not have."""
    return {
        "x": rows.data.ctypes.data,
        "features": rows.indices.ctypes.data,
        "indptr": 0 if rows.dense else rows.indptr.ctypes.data,
        "y": rows.y.ctypes.data,
        "weight": rows.weight.ctypes.data if len(rows.weight) else 0,
    }


_NO_ROUNDS = Examples(**dict.fromkeys(Examples._fields, 0))
_ROUND_AT = 8 * Examples._fields.index("t")


class RowsPlace:
    """Addresses of rows, packed for a kernel: mostly the same the next time, but for the round.

    Parameters
    ----------
    rows : Rows
        Kept, so that the addresses stay good.
    """

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.numbers = addresses(rows) | {"ones": int(rows.intercept)}
        self.alone = packed(_NO_ROUNDS._replace(**self.numbers))
        self.table: np.ndarray | None = None
        self.examples = b""

    def at(self, t: int) -> bytes:
        """The packed examples of the same table, in round t."""
        before, after = self.examples[:_ROUND_AT], self.examples[_ROUND_AT + 8 :]
        return before + t.to_bytes(8, sys.byteorder) + after


def scores_at(block: Block, rows: Rows) -> int:
    """Address of the scores of rows, of which the last are the block's; 0 where they are not asked for."""
    if block.scores is None:
        return 0
    outputs = block.scores.shape[1]
    return int(block.scores.ctypes.data) - 8 * outputs * (len(rows) - len(block.rows))


def with_pending(state: State, block: Block) -> tuple[Rows, np.ndarray, np.ndarray, Block | None]:
    """Rows, the tables of predictions and of answers, and what is under way after the block.

    Without a delay both tables are the block's. With a delay of k rounds, the answers of a round are
    those of the predictions k rounds before.
    """
    if state.pending is None:
        return block.rows, block.table, block.table, None
    late, rows = state.pending, block.rows
    if len(late.rows):
        rows, offset = concatenate([late.rows, block.rows]), len(late.rows)
    else:
        offset = 0
    predicted = np.where(block.table >= 0, block.table + offset, -1)
    all_tables = np.concatenate([late.table, predicted])
    learned = all_tables[: len(predicted)]
    rest = all_tables[len(predicted) :]
    needed = np.unique(rest[rest >= 0])
    renumbered = np.where(rest >= 0, np.searchsorted(needed, rest), -1)
    return rows, predicted, learned, Block(rows.take(needed), renumbered)
