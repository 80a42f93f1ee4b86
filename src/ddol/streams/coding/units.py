"""Features in other units at one site: their mean or scale is far from that of the other sites.

A scale that is 30 times as large or as small as usual, or a mean 30 deviations away, is beyond what
populations differ by. It is looked for in the first rows of each site, and in samples while the sites are
read, as units may change later.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ddol.streams.coding.encoding import Encoding
from ddol.streams.rows import Rows

if TYPE_CHECKING:
    from ddol.streams.coding.discovery import SchemaSample

_FACTOR = 30.0
_FEW = 5
_WINDOW, _MOST_WINDOWS = 256, 16
"""Rows of a sample, and samples of a piece of a file."""
_TWICE = 2
"""Samples in a row that must be far away: one may lack the rare large values of a column."""
_MOST_OTHERS = 64
_MOST_COLUMNS, _MOST_NUMBERS = 4096, 1 << 19
"""Columns of all, and of all sites together."""


class UnitDoubt(NamedTuple):
    """A feature of a site beside that of the other sites."""

    site: str
    column: str
    mean: float
    deviation: float
    usual_mean: float
    usual_deviation: float

    def in_words(self, remedy: str, now: str = "") -> str:
        """The warning.

        Examples
        --------
        >>> UnitDoubt("nord", "age", 3e4, 9e3, 30.0, 9.0).in_words("convert it").partition(";")[0]
        "nord: column 'age' has mean 3e+04 and deviation 9000, at most sites 30 and 9"
        """
        return (
            f"{self.site}: column {self.column!r} has {now}mean {self.mean:.4g} and deviation "
            f"{self.deviation:.4g}, at most sites {self.usual_mean:.4g} and {self.usual_deviation:.4g}; "
            f"if its units differ, {remedy}"
        )


def unit_doubts(samples: Sequence[SchemaSample], sites: Sequence[str]) -> list[UnitDoubt]:
    """Features whose mean or scale in the first rows of a site is far from that of the others.

    The site of median deviation stands for all: a mean alone says nothing about units.
    """
    columns, means, scales = _first_moments(samples, sites)
    middle, usual = _of_median_deviation(means, scales)
    return [
        UnitDoubt(sites[k], columns[c], means[k, c], scales[k, c], middle[c], usual[c])
        for c, k in np.argwhere(_far(means, scales, middle, usual).T).tolist()
    ]


def _first_moments(
    samples: Sequence[SchemaSample], sites: Sequence[str]
) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Columns of numbers, and their means and deviations at each site; NaN where they are not known."""
    moments = [{} if p.site is None else p.site.moments for p in samples[: len(sites)]]
    columns = list(dict.fromkeys(c for site in moments for c in site))
    known = np.full((2, len(sites), len(columns)), np.nan)
    for k, site in enumerate(moments):
        for c, name in enumerate(columns):
            count, mean, scale, _ = site.get(name, (0, 0.0, 0.0, 0.0))
            if count >= _FEW and scale > 0.0:
                known[:, k, c] = mean, scale
    return columns, *known


def _of_median_deviation(means: np.ndarray, scales: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each column, mean and deviation of the site whose deviation is the (lower) median; NaN for none."""
    order = np.argsort(scales, axis=0)  # NaN comes last
    place = np.maximum((np.isfinite(scales).sum(axis=0) - 1) // 2, 0)
    chosen = np.take_along_axis(order, place[None], axis=0)
    return (
        np.take_along_axis(means, chosen, axis=0)[0],
        np.take_along_axis(scales, chosen, axis=0)[0],
    )


def _far(mean: np.ndarray, scale: np.ndarray, middle: np.ndarray, usual: np.ndarray) -> np.ndarray:
    """Where moments are far from what is usual; never where one of them is NaN."""
    away = np.abs(mean - middle) > _FACTOR * np.maximum(scale, usual)
    return away | (scale > _FACTOR * usual) | (usual > _FACTOR * scale)


class UnitWatch:
    """Samples the encoded rows of sites, and finds features whose units have changed.

    A sample is far away if it is far both from what the other sites were at first and from what they are
    now: a feature such as the time moves everywhere.

    Parameters
    ----------
    encoding : Encoding
        Its sites, and its columns of numbers, are looked at.
    samples : sequence of SchemaSample
        First rows of the sites, where they were looked at.

    Examples
    --------
    >>> watch = UnitWatch(Encoding(n_features=1, sites=("a", "b")))
    >>> x = np.random.default_rng(0).standard_normal((1024, 1))
    >>> for site, factor in (("a", 1.0), ("b", 1.0), ("b", 1000.0)):
    ...     rows = watch.watching(site)(Rows.from_dense(factor * x, x[:, 0]))
    >>> [(doubt.site, doubt.column) for doubt in watch.doubts]
    [('b', 'column 1')]
    """

    def __init__(self, encoding: Encoding, samples: Sequence[SchemaSample] = ()) -> None:
        self.sites, self.numbers = encoding.sites, encoding.numbers
        self.named = encoding.columns is not None
        n = len(self.numbers) if self.named else encoding.n_features or _MOST_COLUMNS
        self.width = min(n, _MOST_COLUMNS, _MOST_NUMBERS // max(len(self.sites), 1))
        self.first_column = int(encoding.intercept)
        shape = len(self.sites), self.width
        self.first = np.full((2, *shape), np.nan)
        """Means and deviations of each site in the beginning."""
        if self.named and samples:
            columns, *known = _first_moments(samples, self.sites)
            for c, name in enumerate(self.numbers[: self.width]):
                if name in columns:
                    self.first[:, :, c] = [each[:, columns.index(name)] for each in known]
        self.latest = self.first.copy()
        self._rows = np.zeros(len(self.sites), np.int64)
        self._sums = np.zeros((3, *shape))
        self._reference = np.zeros(shape)
        self._streak = np.zeros(shape, np.int8)
        self._lock = threading.Lock()
        self.doubts: list[UnitDoubt] = []
        self.known: set[tuple[str, str]] = set()
        """Sites and columns that were reported already."""
        if len(samples):
            self.known = {(doubt.site, doubt.column) for doubt in unit_doubts(samples, self.sites)}

    @staticmethod
    def useful(encoding: Encoding) -> bool:
        """Whether there are several sites, and features that have names or numbers."""
        kept = encoding.bits is None and encoding.stumps is None
        return (
            len(encoding.sites) > 1
            and kept
            and (encoding.columns is None or bool(encoding.numbers))
        )

    def watching(self, site: str) -> Callable[..., Rows]:
        """A function that checks rows of a site and returns them."""
        return partial(self._look, self.sites.index(site))

    def _look(self, site: int, rows: Rows, where: Callable[[int], str] | None = None) -> Rows:
        step = -(-len(rows) // (_WINDOW * _MOST_WINDOWS))
        row = 0
        with self._lock:
            while row < len(rows):
                end = row + step * int(_WINDOW - self._rows[site])
                self._add(site, rows, slice(row, min(end, len(rows)), step))
                row = end
                if self._rows[site] >= _WINDOW:
                    self._judge(site)
        return rows

    def _add(self, site: int, rows: Rows, picked: slice) -> None:
        """Add rows to the sample of a site: how many, sums, and squares about a reference."""
        counts, sums, squares = self._sums[:, site]
        n = len(range(*picked.indices(len(rows))))
        if rows.dense:
            hidden = self.first_column - rows.intercept
            found = rows.data.reshape(len(rows), rows.n_stored)[
                picked, hidden : hidden + self.width
            ]
            width = found.shape[1]
            if not self._rows[site]:
                self._reference[site, :width] = found[0]
            found = found - self._reference[site, :width]
            counts[:width] += n
            sums[:width] += found.sum(axis=0)
            squares[:width] += np.einsum("ij,ij->j", found, found)
        else:
            if not self._rows[site]:
                self._reference[site] = 0.0
            part = rows.take(np.arange(len(rows))[picked])
            columns = part.indices.astype(np.int64) - self.first_column
            there = (columns >= 0) & (columns < self.width)
            columns, values = columns[there], part.data[there]
            # Of a table's columns zeros count; features that a row names itself are there or not.
            counts += n if self.named else np.bincount(columns, minlength=self.width)
            sums += np.bincount(columns, values, self.width)
            squares += np.bincount(columns, values * values, self.width)
        self._rows[site] += n

    @np.errstate(over="ignore", invalid="ignore")  # squares of 1e300 are infinite, and far away
    def _judge(self, site: int) -> None:
        """Compare a full sample with the other sites, and begin another one."""
        counts, sums, squares = self._sums[:, site]
        enough = np.maximum(counts, 1.0)
        mean = sums / enough
        variance = squares / enough - mean * mean
        known = (counts >= _FEW) & (variance > 1e-9 * mean * mean)
        scale = np.sqrt(np.where(known, variance, np.nan))
        mean = np.where(known, mean + self._reference[site], np.nan)
        self._rows[site], self._sums[:, site] = 0, 0.0
        others = np.delete(np.arange(len(self.sites)), site)
        others = others[:: -(-len(others) // _MOST_OTHERS)]
        now = _of_median_deviation(*self.latest[:, others])
        far = _far(mean, scale, *_of_median_deviation(*self.first[:, others]))
        far &= _far(mean, scale, *now)
        self._streak[site] = np.where(far, np.minimum(self._streak[site] + 1, _TWICE), 0)
        self.latest[:, site] = mean, scale
        new = np.isnan(self.first[0, site])
        self.first[:, site, new] = self.latest[:, site, new]
        for c in np.flatnonzero(self._streak[site] == _TWICE).tolist():
            column = self.numbers[c] if self.named else f"column {c + 1}"
            if (self.sites[site], column) not in self.known:
                self.known.add((self.sites[site], column))
                values = mean[c], scale[c], now[0][c], now[1][c]
                self.doubts.append(UnitDoubt(self.sites[site], column, *map(float, values)))
