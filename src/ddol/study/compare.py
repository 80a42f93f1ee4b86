"""Differences between runs that are alike in everything else, with their confidence intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import t as student


@dataclass(frozen=True)
class Comparison:
    """One value of an axis against another, over pairs of runs with the same seed.

    Parameters
    ----------
    what : str
        The column that is compared.
    one, other : str
        Values of the axis.
    where : dict
        The other axes.
    pairs : int
    mean_one, mean_other : float
    difference : float
        Mean of one − other.
    low, high : float
        Its confidence interval; infinite with fewer than two pairs.
    wins : int
        Pairs in which ``one`` is smaller.

    Examples
    --------
    >>> rows = [{"seed": seed, "rate": rate, "mistakes": 10 * rate + seed}
    ...         for seed in range(3) for rate in (1, 2)]
    >>> print(compared(rows, "rate", "mistakes", [], 0.95)[0])
    mistakes: 1 11, 2 21; difference -10 [-10, -10] over 3 pairs, fewer in 3: clear
    """

    what: str
    one: Any
    other: Any
    where: dict[str, Any]
    pairs: int
    mean_one: float
    mean_other: float
    difference: float
    low: float
    high: float
    wins: int

    @property
    def clear(self) -> bool:
        """Whether the interval leaves no doubt about the sign."""
        return self.low > 0.0 or self.high < 0.0

    def __str__(self) -> str:
        where = "".join(f"{name} {value}, " for name, value in self.where.items())
        verdict = "clear" if self.clear else "not clear"
        return (
            f"{where}{self.what}: {self.one} {self.mean_one:.5g}, {self.other} {self.mean_other:.5g}; "
            f"difference {self.difference:+.4g} [{self.low:+.4g}, {self.high:+.4g}] over {self.pairs} "
            f"pairs, fewer in {self.wins}: {verdict}"
        )


def compared(
    rows: Sequence[Mapping[str, Any]], axis: str, what: str, rest: Sequence[str], level: float
) -> list[Comparison]:
    """The first value of an axis against each of the others, by the values of the other axes."""
    values = list(dict.fromkeys(row[axis] for row in rows))
    groups: dict[tuple, dict[Any, dict[Any, float]]] = {}
    for row in rows:
        if row.get(what) is not None:
            where = tuple(row[name] for name in rest)
            runs = groups.setdefault(where, {}).setdefault(row[axis], {})
            runs[row.get("seed")] = float(row[what])
    found = []
    for where, by_value in groups.items():
        for other in values[1:]:
            one, two = by_value.get(values[0], {}), by_value.get(other, {})
            seeds = [seed for seed in one if seed in two]
            if seeds:
                pair = np.array([[one[s], two[s]] for s in seeds]).T
                names = dict(zip(rest, where, strict=True))
                found.append(_comparison(what, values[0], other, names, pair, level))
    return found


def _comparison(
    what: str, one: Any, other: Any, where: dict[str, Any], pair: np.ndarray, level: float
) -> Comparison:
    gaps = pair[0] - pair[1]
    mean, half = mean_and_interval(gaps, level)
    half = half if len(gaps) > 1 else np.inf
    return Comparison(
        what,
        one,
        other,
        where,
        pairs=len(gaps),
        mean_one=float(pair[0].mean()),
        mean_other=float(pair[1].mean()),
        difference=float(mean),
        low=float(mean - half),
        high=float(mean + half),
        wins=int(np.count_nonzero(gaps < 0)),
    )


def mean_and_interval(values: ArrayLike, level: float = 0.95) -> tuple[Any, Any]:
    """Mean over the first axis and half its confidence interval (Student's t); 0 for one value.

    Examples
    --------
    >>> mean, half = mean_and_interval([1.0, 2.0, 3.0])
    >>> float(mean), round(float(half), 2)
    (2.0, 2.48)
    """
    known = np.asarray(values, float)
    n = len(known)
    if n < 2:
        return known.mean(axis=0), np.zeros(known.shape[1:])
    spread = known.std(axis=0, ddof=1) / np.sqrt(n)
    return known.mean(axis=0), spread * float(student.ppf(0.5 + level / 2, n - 1))
