"""Missing numbers filled with the mean of their column so far."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

from ddol.streams.errors import DataError
from ddol.streams.over.wrapped import WrappedStream
from ddol.streams.raw import Table
from ddol.streams.rows import Floats
from ddol.streams.stream import Position


@dataclass
class RunningMeans:
    """Sums and counts of columns of numbers."""

    sums: Floats
    counts: Floats

    @property
    def means(self) -> Floats:
        """Mean of every column; 0 where nothing was seen."""
        return self.sums / np.maximum(self.counts, 1.0)

    def fill(self, column: int, values: Floats, otherwise: float = 0.0) -> Floats:
        """The next values of a column: a missing one is the mean of all above it, which then count.

        Examples
        --------
        >>> RunningMeans.of(None, 1).fill(0, np.array([np.nan, 1.0, np.nan, 4.0, np.nan]))
        array([0. , 1. , 1. , 4. , 2.5])
        """
        missing = np.isnan(values)
        # Added one after the other, so that it does not matter where a stream is cut.
        sums = np.cumsum(np.append(self.sums[column], np.where(missing, 0.0, values)))[1:]
        counts = self.counts[column] + np.cumsum(~missing)
        if missing.any():
            means = np.where(counts > 0.0, sums / np.maximum(counts, 1.0), otherwise)
            values = np.where(missing, means, values)
        if len(values):
            self.sums[column], self.counts[column] = sums[-1], counts[-1]
        return values

    def to_json(self) -> list[list[Any]]:
        """Sums to the bit, as text: every number in a position is a count, and checked as one."""
        return [[value.hex() for value in self.sums.tolist()], [int(n) for n in self.counts]]

    @classmethod
    def of(cls, known: Any, n_columns: int) -> RunningMeans:
        """Read `to_json`; None is the beginning."""
        if known is None:
            return cls(np.zeros(n_columns), np.zeros(n_columns))
        try:
            sums = np.array([float.fromhex(value) for value in known[0]])
            counts = np.array([float(count) for count in known[1]])
        except (TypeError, ValueError, IndexError):
            sums = counts = np.zeros(0)
        if not (len(sums) == len(counts) == n_columns and np.isfinite(sums).all()):
            raise DataError(
                f"--missing mean: found no sums of {n_columns} columns in the checkpoint; start anew"
            )
        return cls(sums, counts)


@dataclass(frozen=True)
class FilledStream(WrappedStream):
    """Another stream of tables whose missing numbers become the mean of their column so far.

    The sums are part of the position, so that a run that goes on fills in the same numbers.

    Parameters
    ----------
    stream
        Where the tables come from.
    columns
        Names of the columns of numbers.
    fills
        What stands in a column before its first number; 0 if not given.
    latest
        The means where reading stands.

    Examples
    --------
    >>> from ddol.streams.coding.encoding import Column, Encoding
    >>> table = Table({"x": np.array([1.0, np.nan, 4.0, np.nan])})
    >>> class Source:
    ...     def read(self, position=None, pass_number=0):
    ...         yield table, 4
    >>> [(filled, _)] = FilledStream(Source(), ("x",)).read()
    >>> filled.columns["x"]
    array([1. , 1. , 4. , 2.5])
    """

    columns: tuple[str, ...]
    fills: tuple[float, ...] = ()
    latest: RunningMeans = field(default_factory=lambda: RunningMeans(np.zeros(0), np.zeros(0)))

    own_positions = True

    def read(
        self, position: Position | None = None, pass_number: int = 0
    ) -> Iterator[tuple[Any, Position]]:
        """Yield the tables without missing numbers."""
        at = position or {"at": None}
        means = RunningMeans.of(at.get("means"), len(self.columns))
        if position:  # the end, perhaps, behind which no block is
            self.latest.sums, self.latest.counts = means.sums.copy(), means.counts.copy()
        for block, after in self.stream.read(at["at"], pass_number):
            if isinstance(block, Table):
                block = filled(block, self.columns, means, self.fills)
            self.latest.sums, self.latest.counts = means.sums.copy(), means.counts.copy()
            yield block, {"at": after, "means": means.to_json()}

    def take_over(self, means: Any) -> None:
        """Set `latest` to what another process has read of the same stream (`RunningMeans.to_json`)."""
        known = RunningMeans.of(means, len(self.columns))
        self.latest.sums, self.latest.counts = known.sums, known.counts


def filled(
    table: Table, columns: Sequence[str], means: RunningMeans, fills: Sequence[float] = ()
) -> Table:
    """A table whose missing numbers are the means so far; `fills` are those before the first number."""
    cells = dict(table.columns)
    for k, name in enumerate(columns):
        values = cells.get(name)
        if values is None and fills and means.counts[k] == 0.0:
            cells[name] = np.full(len(table), fills[k])
        elif isinstance(values, np.ndarray) and values.dtype == np.float64:
            cells[name] = means.fill(k, cast(Floats, values), fills[k] if fills else 0.0)
    return replace(table, columns=cells)


def joint_means(parts: list[RunningMeans]) -> tuple[float, ...]:
    """Means over several streams.

    Examples
    --------
    >>> joint_means([RunningMeans(np.array([2.0]), np.array([2.0])), RunningMeans(np.zeros(1), np.ones(1))])
    (0.6666666666666666,)
    """
    read = [part for part in parts if len(part.sums)]
    if not read:
        return ()
    sums = np.sum([part.sums for part in read], axis=0)
    counts = np.sum([part.counts for part in read], axis=0)
    return tuple((sums / np.maximum(counts, 1.0)).tolist())
