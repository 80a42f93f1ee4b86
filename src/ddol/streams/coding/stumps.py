"""Experts for weighted majority: decision stumps, and the advice of any fitted models."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ddol.streams.errors import DataError
from ddol.streams.over.wrapped import mapped
from ddol.streams.rows import Rows
from ddol.streams.stream import Stream

Floats = NDArray[np.float64]

N_THRESHOLDS = 200
_MOST_VALUES = 1 << 20


@dataclass(frozen=True)
class Stumps:
    """Decision stumps: expert p votes s_p where x[f_p] > h_p, and −s_p elsewhere.

    Parameters
    ----------
    features : int64 array (P,)
        The feature f_p that each stump looks at.
    thresholds : float64 array (P,)
        Its threshold h_p.
    signs : float64 array (P,)
        Its sign s_p, −1 or +1.

    Examples
    --------
    >>> stumps = Stumps(np.array([1]), np.array([0.5]), np.array([-1.0]))
    >>> stumps.advice(Rows.from_dense([[9.0, 0.0], [9.0, 1.0]], [1, -1])).data
    array([ 1., -1.])
    """

    features: NDArray[np.int64]
    thresholds: Floats
    signs: Floats

    def __len__(self) -> int:
        return len(self.features)

    def advice(self, rows: Rows) -> Rows:
        """Votes of every expert for every row: dense rows of −1 and +1, one column each."""
        said = np.empty((len(rows), len(self)))
        for lo, X in _pieces(rows, self.features):
            said[lo : lo + len(X)] = np.where(self.thresholds < X, self.signs, -self.signs)
        return Rows.from_dense(said, rows.y, rows.weight if len(rows.weight) else None)

    def stream(self, stream: Stream) -> Stream:
        """The advice on every row of a stream, as a stream."""
        return mapped(stream, lambda rows, where: self.advice(rows), len(self))


def fit_stumps(
    streams: Stream | Sequence[Stream], n_experts: int | None = None, seed: int = 0
) -> Stumps:
    """Find the best stump on each of P features, in two passes and bounded memory.

    Of 200 thresholds evenly spaced from the least to the largest value of the feature, and both
    signs, the pair with the least error on all the data wins; ties go to the sign +1 and then to the
    lowest threshold.

    Parameters
    ----------
    streams : one stream, or several that make up the data together
        Labels are −1 and +1.
    n_experts : int, optional
        Number of features P, chosen at random; all of them, in order, by default.
    seed : int
        Of the choice.

    Examples
    --------
    >>> from ddol.streams.arrays import array_stream
    >>> stream = array_stream([[0.0], [1.0], [2.0]], [-1, 1, 1])
    >>> stumps = fit_stumps(stream)
    >>> stumps.thresholds, stumps.signs
    (array([0.]), array([1.]))
    """
    parts = list(streams) if isinstance(streams, Sequence) else [streams]
    least, largest = _ranges(parts)
    features = _choose(len(least), n_experts, seed)
    grids = np.linspace(least[features], largest[features], N_THRESHOLDS, axis=1)
    below, above = _count(parts, features, grids)
    # Cumulated, `below[:, k]` is the weight of rows with x ≤ h_k; the rest has x > h_k.
    wrong_plus = below[0] + above[1]
    wrong_minus = below[1] + above[0]
    best_plus, best_minus = wrong_plus.argmin(axis=1), wrong_minus.argmin(axis=1)
    every = np.arange(len(features))
    plus = wrong_plus[every, best_plus] <= wrong_minus[every, best_minus]
    chosen = np.where(plus, best_plus, best_minus)
    return Stumps(features, grids[every, chosen], np.where(plus, 1.0, -1.0))


def _choose(n_features: int, n_experts: int | None, seed: int) -> NDArray[np.int64]:
    if n_experts is None or n_experts == n_features:
        return np.arange(n_features)
    if not 1 <= n_experts <= n_features:
        raise DataError(
            f"found {n_features} features for {n_experts} experts, expected at least one feature "
            f"for each; use 1 to {n_features} experts"
        )
    rng = np.random.default_rng(seed)
    return np.sort(rng.choice(n_features, n_experts, replace=False)).astype(np.int64)


def _ranges(streams: Sequence[Stream]) -> tuple[Floats, Floats]:
    """Least and largest value of every feature; what sparse rows leave out is 0."""
    least, largest, stored = np.empty(0), np.empty(0), np.empty(0, np.int64)
    n_rows = 0
    for stream in streams:
        for rows, _ in stream.read():
            more = max(0, rows.n_features - len(least))
            least = np.append(least, np.full(more, np.inf))
            largest = np.append(largest, np.full(more, -np.inf))
            stored = np.append(stored, np.zeros(more, np.int64))
            n_rows += len(rows)
            if rows.dense:
                X = rows.data.reshape(len(rows), rows.n_features)
                least, largest = np.minimum(least, X.min(0)), np.maximum(largest, X.max(0))
                stored += len(rows)
            else:
                np.minimum.at(least, rows.indices, rows.data)
                np.maximum.at(largest, rows.indices, rows.data)
                stored += np.bincount(rows.indices, minlength=len(stored))
    gaps = stored < n_rows
    least[gaps], largest[gaps] = np.minimum(least[gaps], 0.0), np.maximum(largest[gaps], 0.0)
    return least, largest


def _count(
    streams: Sequence[Stream], features: NDArray[np.int64], grids: Floats
) -> tuple[Floats, Floats]:
    """Weight of rows with x ≤ h and with x > h, by class (+1, −1), stump and threshold."""
    bins = N_THRESHOLDS + 1
    counts = np.zeros((2, len(features), bins))
    for stream in streams:
        for rows, _ in stream.read():
            weight = rows.weight if len(rows.weight) else np.ones(len(rows))
            for lo, X in _pieces(rows, features):
                part = slice(lo, lo + len(X))
                negative = bins * (rows.y[part] < 0)
                for p in range(len(features)):
                    # The number of thresholds below x: x > h_k exactly when k is less than it.
                    place = np.searchsorted(grids[p], X[:, p], side="left") + negative
                    found = np.bincount(place, weight[part], minlength=2 * bins)
                    counts[:, p] += found.reshape(2, bins)
    below = np.cumsum(counts, axis=2)
    return below[:, :, :-1], below[:, :, -1:] - below[:, :, :-1]


def _pieces(rows: Rows, features: NDArray[np.int64]) -> Iterator[tuple[int, Floats]]:
    """The chosen columns of the rows as dense arrays, few rows at a time, and where they begin."""
    step = max(1, _MOST_VALUES // max(len(features), rows.n_features if rows.dense else 1))
    for lo in range(0, len(rows), step):
        piece = rows.slice(lo, lo + step)
        if piece.dense:
            X = piece.data.reshape(len(piece), rows.n_features)
            yield lo, X[:, features]
        else:
            wide = piece.widen(int(features.max()) + 1)
            yield lo, wide.to_scipy()[:, features].toarray()
