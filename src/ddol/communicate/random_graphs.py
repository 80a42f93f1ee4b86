"""Random connected graphs, drawn with a seed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ddol.communicate.graph import IntArray, Topology, check_count, from_pairs

MAX_DRAWS = 100


def random_regular(n: int, degree: int, seed: int | np.random.Generator = 0) -> Topology:
    """Draw a connected graph in which every agent has the same number of neighbours.

    Each agent holds out ``degree`` hands, free hands are joined at random, and pairs that would
    make a loop or a second edge let go and try again.

    ::

        0 ─── 1        every agent with `degree` random edges
        │╲    │
        │  ╲  │
        3 ─── 2

    Examples
    --------
    >>> random_regular(10, 3, seed=1).degrees.tolist() == [3] * 10
    True
    """
    if not 0 <= degree < check_count(n):
        raise ValueError(f"random_regular needs a degree from 0 to {n - 1}, got {degree}")
    if n * degree % 2:
        raise ValueError(f"random_regular needs an even n × degree, got {n} × {degree}")
    if degree == n - 1:
        return Topology("complete", n)
    rng = np.random.default_rng(seed)

    def draw() -> Topology | None:
        # Half-dense graphs rarely find free hands to join; the edges left out are few instead.
        sparse = min(degree, n - 1 - degree)
        keys = _join_hands(n, sparse, rng)
        if keys is None:
            return None
        if sparse != degree:
            keys = np.setdiff1d(_all_pairs(n), keys)
        return from_pairs("random-regular", n, keys // n, keys % n)

    return _first_connected(draw, f"random_regular({n}, {degree})", "raise the degree")


def erdos_renyi(n: int, p: float, seed: int | np.random.Generator = 0) -> Topology:
    """Draw a connected graph in which every edge is there with probability p.

    ::

        0 ─── 1     each of the n(n−1)/2 edges by the toss of a coin
          ╲ ╱ ┆
          ╱ ╲ ┆
        3 ┄┄┄ 2

    Examples
    --------
    >>> erdos_renyi(20, 0.3, seed=1).is_connected
    True
    """
    if not 0 <= p <= 1:
        raise ValueError(f"erdos_renyi needs a probability p in [0, 1], got {p}")
    if p == 1 or check_count(n) == 1:
        return Topology("complete", n)
    rng = np.random.default_rng(seed)
    row_starts = np.concatenate([[0], np.cumsum(np.arange(n - 1, 0, -1))])

    def draw() -> Topology:
        ids = _coin_tosses(int(row_starts[-1]), p, rng)
        i = np.searchsorted(row_starts, ids, side="right") - 1
        return from_pairs("erdos-renyi", n, i, ids - row_starts[i] + i + 1)

    return _first_connected(draw, f"erdos_renyi({n}, {p})", "raise p")


def _first_connected(draw: Callable[[], Topology | None], what: str, advice: str) -> Topology:
    for _ in range(MAX_DRAWS):
        graph = draw()
        if graph is not None and graph.n_edges >= graph.n_agents - 1 and graph.is_connected:
            return graph
    raise ValueError(f"{what} was not connected in {MAX_DRAWS} draws; {advice} or change the seed")


def _all_pairs(n: int) -> IntArray:
    i, j = np.triu_indices(n, k=1)
    return i * n + j


def _join_hands(n: int, degree: int, rng: np.random.Generator) -> IntArray | None:
    """Edges i·n + j (i < j) of a random regular graph, or None when the last hands do not fit."""
    hands = np.repeat(np.arange(n, dtype=np.int64), degree)
    edges = np.empty(0, dtype=np.int64)
    failures = 0
    while hands.size and failures < 20:
        pairs = np.sort(rng.permutation(hands).reshape(-1, 2), axis=1)
        keys = pairs[:, 0] * n + pairs[:, 1]
        first = np.zeros(keys.size, dtype=bool)
        first[np.unique(keys, return_index=True)[1]] = True
        fits = first & (pairs[:, 0] != pairs[:, 1]) & ~np.isin(keys, edges)
        edges = np.concatenate([edges, keys[fits]])
        failures = 0 if fits.any() else failures + 1
        hands = pairs[~fits].ravel()
    return edges if hands.size == 0 else None


def _coin_tosses(total: int, p: float, rng: np.random.Generator) -> IntArray:
    """Which of ``total`` coins of probability p show heads, in time proportional to the heads."""
    heads: list[IntArray] = []
    last = -1
    while p > 0 and last < total:
        gaps = rng.geometric(p, size=int(1.1 * p * total) + 16)
        # A gap beyond the end changes nothing but could overflow the sum.
        found = last + np.cumsum(np.minimum(gaps, total + 1))
        heads.append(found[found < total])
        last = int(found[-1])
    return np.concatenate(heads) if heads else np.empty(0, dtype=np.int64)
