"""Seeded streams of any length that need no data: for examples, tests and experiments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from ddol.streams.errors import DataError
from ddol.streams.rows import Floats, Rows
from ddol.streams.stream import Position

Make: TypeAlias = Callable[[np.random.Generator, int, int], Rows]
"""Rows `first` to `first + n` of a stream, from a generator that is their own."""


@dataclass(frozen=True)
class SyntheticStream:
    """A stream that is computed, the same every time.

    Parameters
    ----------
    make
        Called with a generator, the number of the first row and a number of rows.
    n_examples, n_features
        Rows and columns.
    seed
        Block `k` is made by the generator seeded with (seed, k).
    name
        What messages call it.
    block
        Rows that are made at a time.
    """

    make: Make = field(repr=False)
    n_examples: int
    n_features: int
    seed: int = 0
    name: str = "synthetic"
    block: int = 4096

    @property
    def restartable(self) -> bool:
        """The rows can be computed again."""
        return True

    def read(
        self, position: Position | None = None, pass_number: int = 0
    ) -> Iterator[tuple[Rows, Position]]:
        """Yield the rows of one block after the other; positions count rows."""
        for first in range(position or 0, self.n_examples, self.block):
            n = min(self.block, self.n_examples - first)
            rng = np.random.default_rng([self.seed, first // self.block])
            yield self.make(rng, first, n), first + n

    def describe(self) -> str:
        """Name of the stream."""
        return self.name

    def progress(self, position: Position | None) -> tuple[int, int] | None:
        """Rows read and in total."""
        return position or 0, self.n_examples

    def locate(self, position: Position | None, row: int) -> str:
        """Name and row number."""
        return f"{self.name}: row {(position or 0) + row}"


def linear(n_examples: int, n_features: int, noise: float = 0.1, seed: int = 0) -> SyntheticStream:
    """Dense Gaussian features with the labels sign⟨u, x⟩ of a unit vector u.

    Parameters
    ----------
    n_examples, n_features
        Rows and columns.
    noise
        Probability that a label is turned around, from 0 to 1/2.
    seed
        Seed of u and of the rows.

    Examples
    --------
    >>> rows, position = next(linear(1000, 5).read())
    >>> len(rows), rows.n_features, np.unique(rows.y)
    (1000, 5, array([-1.,  1.]))
    """
    _check_noise(noise)
    u = _direction(n_features, seed)

    def make(rng: np.random.Generator, first: int, n: int) -> Rows:
        X = rng.standard_normal((n, n_features))
        return Rows.from_dense(X, _signs(rng, X @ u, noise))

    return SyntheticStream(make, n_examples, n_features, seed, "linear")


def sparse(
    n_examples: int, n_features: int, nonzeros: int = 50, noise: float = 0.1, seed: int = 0
) -> SyntheticStream:
    """Sparse rows of high dimension: few columns of a power law, as words in text.

    Column j is drawn with probability about 1/j, values are 1, and the label is the sign
    of the sum of the column weights, which are standard normal.

    Parameters
    ----------
    n_examples, n_features
        Rows and columns.
    nonzeros
        Draws in a row; repeated ones count once.
    noise
        Probability that a label is turned around.
    seed
        Seed of the weights and of the rows.

    Examples
    --------
    >>> rows, position = next(sparse(100, 10**6, nonzeros=5).read())
    >>> rows.dense, rows.n_features, bool(np.diff(rows.indptr).max() <= 5)
    (False, 1000000, True)
    """
    _check_noise(noise)
    weights = np.random.default_rng([seed, 1 << 32]).standard_normal(n_features)

    def make(rng: np.random.Generator, first: int, n: int) -> Rows:
        columns = np.minimum(n_features ** rng.random((n, nonzeros)), n_features) - 1
        columns = np.sort(columns.astype(np.uint32), axis=1)
        new = np.ones(columns.shape, dtype=bool)
        new[:, 1:] = columns[:, 1:] != columns[:, :-1]
        scores = np.where(new, weights[columns], 0.0).sum(axis=1)
        indptr = np.zeros(n + 1, dtype=np.int64)
        np.cumsum(new.sum(axis=1), out=indptr[1:])
        y = _signs(rng, scores, noise)
        return Rows(np.ones(indptr[-1]), columns[new], indptr, n_features, y, np.empty(0))

    return SyntheticStream(make, n_examples, n_features, seed, "sparse")


def drifting(
    n_examples: int, n_features: int, turns: float = 1.0, noise: float = 0.1, seed: int = 0
) -> SyntheticStream:
    """Like `linear`, but u turns steadily in a plane: labels sign⟨u(t), x⟩.

    ``u(t) = cos(2π turns t/n) u + sin(2π turns t/n) v`` with orthogonal unit vectors u, v.

    Parameters
    ----------
    n_examples, n_features
        Rows and columns, at least 2 of them.
    turns
        Full turns from the first row to the last.
    noise, seed
        See `linear`.

    Examples
    --------
    >>> drifting(1000, 5).n_examples
    1000
    """
    _check_noise(noise)
    if n_features < 2:
        raise DataError(f"`n_features` must be at least 2, found {n_features}")
    u = _direction(n_features, seed)
    v = _direction(n_features, seed + 1)
    v = v - (u @ v) * u
    v /= np.linalg.norm(v)

    def make(rng: np.random.Generator, first: int, n: int) -> Rows:
        X = rng.standard_normal((n, n_features))
        angle = 2 * np.pi * turns * (first + np.arange(n)) / n_examples
        return Rows.from_dense(
            X, _signs(rng, np.cos(angle) * (X @ u) + np.sin(angle) * (X @ v), noise)
        )

    return SyntheticStream(make, n_examples, n_features, seed, "drifting")


def _direction(n_features: int, seed: int) -> Floats:
    # A key that no block number reaches keeps this apart from the generators of the rows.
    u = np.random.default_rng([seed, 1 << 32]).standard_normal(n_features)
    return u / np.linalg.norm(u)


def _signs(rng: np.random.Generator, scores: Floats, noise: float) -> Floats:
    y = np.where(scores >= 0, 1.0, -1.0)
    return np.where(rng.random(len(y)) < noise, -y, y)


def _check_noise(noise: float) -> None:
    if not 0 <= noise <= 0.5:
        raise DataError(f"`noise` must be from 0 to 0.5, found {noise}")
