"""Whether sites differ by more than chance, by their first rows: each keeps own centres and scales then.

For every feature that is a number the mean of a site is compared with that of the others' rows, and so is
the mean distance from the site's own mean (as in Levene's test of scales; a row changes it by at most twice
its own, which bounds its error); for every class its share. With n the fewer rows of the two sides and
t the difference in standard errors, n·ln(1 + t²/n) is about the square of a normal number where there is no
difference, also for few rows. It is compared with the square that all comparisons together exceed in one of
a thousand runs.

Rows that come in an order, such as of time, are no draws: their sites differ, and may be alike on the whole.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from ddol.streams.coding.discovery import SchemaSample
    from ddol.streams.coding.labels import Label
    from ddol.streams.coding.sites import Moments, SiteSample

CHANCE = 1e-3
"""Of runs with sites that are alike, so many are taken to differ."""
_FEW = 5
"""Fewer values at a site, or rows of a class, tell nothing."""


class Difference(NamedTuple):
    """Where a site differs most from the others."""

    site: str
    what: str
    here: float
    elsewhere: float

    def in_words(self) -> str:
        """What is said of it.

        Examples
        --------
        >>> Difference("nord", "mean of column 'age'", 71.25, 40.0).in_words()
        "sites differ: the mean of column 'age' is 71.25 at nord and 40 at the others"
        """
        return (
            f"sites differ: the {self.what} is {self.here:.4g} at {self.site} and "
            f"{self.elsewhere:.4g} at the others"
        )


def difference(
    samples: Sequence[SchemaSample], sites: Sequence[str], classes: bool
) -> Difference | None:
    """The largest difference between a site and the others; None where chance may explain all.

    Parameters
    ----------
    samples
        First rows of the sites.
    sites
        Their names.
    classes
        Labels are classes, whose shares are compared, too.
    """
    seen = [sample.site for sample in samples[: len(sites)] if sample.site is not None]
    if len(seen) < 2 or len(seen) < len(sites):
        return None
    names, table = _joined(seen, classes)
    if not names:
        return None
    with np.errstate(all="ignore"):  # squares of 1e300 are no numbers, and no difference
        counts, means, deviations, distances = table
        excess, elsewhere = _excess(counts, means, deviations)
        wider, usual = _excess(counts, distances, 2.0 * deviations)
    both = np.nan_to_num(np.stack([excess, wider]), nan=0.0, posinf=0.0)
    kind, k, c = map(int, np.unravel_index(int(both.argmax()), both.shape))
    comparisons = 2 * int((counts >= _FEW).sum())
    if both[kind, k, c] <= 2.0 * math.log(2.0 * max(comparisons, 1) / CHANCE):
        return None
    if kind == 0:
        return Difference(sites[k], names[c], float(means[k, c]), float(elsewhere[k, c]))
    what = f"distance from the {names[c]}"
    return Difference(sites[k], what, float(distances[k, c]), float(usual[k, c]))


def _joined(seen: Sequence[SiteSample], classes: bool) -> tuple[list[str], np.ndarray]:
    """Names of what is compared, and its counts, means, deviations and mean distances at each site."""
    labels = list(dict.fromkeys(label for site in seen for label in site.labels)) if classes else []
    each = [_numbers_of(site, labels) for site in seen]
    names = list(dict.fromkeys(name for site in each for name in site))
    absent = 0.0, np.nan, np.nan, np.nan
    table = [[site.get(name, absent) for name in names] for site in each]
    found = np.array(table, np.float64).reshape(len(seen), len(names), 4)
    return names, found.transpose(2, 0, 1)


def _numbers_of(site: SiteSample, labels: Sequence[Label]) -> dict[str, Moments]:
    """Moments of the features, and of each class as a column of 0 and 1."""
    found = {
        f"mean of {name if name.startswith('column ') else f'column {name!r}'}": moments
        for name, moments in site.moments.items()
    }
    total = sum(site.labels.values())
    for label in labels if total else ():
        share = site.labels.get(label, 0) / total
        spread = share * (1.0 - share)
        found[f"share of the label {label}"] = total, share, math.sqrt(spread), math.nan
    return found


def _excess(
    counts: np.ndarray, means: np.ndarray, deviations: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """How far each site's means are from those of the others, as a square of a normal number; and these."""
    known = np.isfinite(means) & (counts >= _FEW)
    n = np.where(known, counts, 0.0)
    middle = np.where(known, means, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    apart = np.where(known, means - middle, 0.0)
    squares = np.where(known, deviations**2 + apart**2, 0.0)
    others = n.sum(axis=0) - n
    enough = np.maximum(others, 1.0)
    mean = ((n * apart).sum(axis=0) - n * apart) / enough
    variance = ((n * squares).sum(axis=0) - n * squares) / enough - mean**2
    most = np.maximum(variance, np.where(known, deviations**2, 0.0))
    errors = most * (1.0 / np.maximum(n, 1.0) + 1.0 / enough)
    fewer = np.maximum(np.minimum(n, others), 1.0)
    square = np.where(errors > 0.0, (apart - mean) ** 2 / errors, np.nan)
    compared = known & (others >= _FEW)
    return np.where(compared, fewer * np.log1p(square / fewer), np.nan), mean + middle
