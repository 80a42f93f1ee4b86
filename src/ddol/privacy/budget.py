"""How much noise a budget (ε, δ) needs, and how much of it is spent; the accounting is dp-accounting's."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

from ddol.streams.errors import DataError

DELTA = 1e-5
_PRECISION = 1e-3
_EXPECTED = "expected epsilon:NUMBER, such as epsilon:4 or epsilon:4,delta:1e-6"


@dataclass(frozen=True)
class Budget:
    """What messages may tell of one example: (ε, δ)-differential privacy over a number of releases.

    Two streams are neighbours if one has an example of no effect in the place of one of the other's. A
    release adds the sum of the clipped gradients since the last one to a sum that is known with noise, by
    tree aggregation (Kairouz et al. 2021): each example is in one leaf, and in at most ⌈log₂ k⌉ + 1 nodes.

    Parameters
    ----------
    epsilon, delta : float
    releases : int
        After so many the budget is used up, and nothing more is sent.

    Examples
    --------
    >>> budget = Budget(4.0, releases=64)
    >>> 3.0 < budget.noise < 3.2
    True
    >>> budget.spent(0), budget.spent(8) < 4.0 and budget.spent(64) <= 4.0
    (0.0, True)
    """

    epsilon: float
    delta: float = DELTA
    releases: int = 64

    def __post_init__(self) -> None:
        if not 0.0 < self.epsilon < math.inf:
            raise DataError(f"privacy: found epsilon {self.epsilon}, expected a number above 0")
        if not 0.0 < self.delta < 1.0:
            raise DataError(f"privacy: found delta {self.delta}, expected a number between 0 and 1")
        if (
            isinstance(self.releases, bool)
            or self.releases != int(self.releases)
            or self.releases < 1
        ):
            raise DataError(f"privacy: found {self.releases} releases, expected at least 1")

    @property
    def noise(self) -> float:
        """Standard deviation of the noise on every node, in units of the clip."""
        return _noise(self.epsilon, self.delta, int(self.releases))

    def spent(self, releases: int) -> float:
        """The ε that so many releases have spent, at the budget's δ."""
        return _epsilon(self.noise, int(releases), self.delta)


def parse_privacy(text: str, releases: int = 64) -> Budget:
    """The budget that a text describes.

    Examples
    --------
    >>> parse_privacy("epsilon:4,delta:1e-6").delta
    1e-06
    >>> parse_privacy("sites:4")
    Traceback (most recent call last):
    ddol.streams.errors.DataError: privacy: found 'sites:4', expected epsilon:NUMBER, ...
    """
    known = {"delta": DELTA}
    for part in text.split(","):
        name, _, number = part.strip().partition(":")
        if name == "unit" and number.strip() == "site":
            raise DataError(
                "privacy: a site's whole stream cannot be the unit: noise that hides one site among few "
                "hides all that is learned; the unit is one example"
            )
        try:
            known[name] = float(number)
        except ValueError:
            raise DataError(f"privacy: found {text!r}, {_EXPECTED}") from None
        if name not in ("epsilon", "delta"):
            raise DataError(f"privacy: found {text!r}, {_EXPECTED}")
    if "epsilon" not in known:
        raise DataError(f"privacy: found {text!r}, {_EXPECTED}")
    return Budget(known["epsilon"], known["delta"], releases)


@functools.lru_cache(maxsize=256)
def _epsilon(noise: float, releases: int, delta: float) -> float:
    """ε of a tree with so many leaves."""
    if releases == 0:
        return 0.0
    try:
        from dp_accounting import NeighboringRelation, SingleEpochTreeAggregationDpEvent
        from dp_accounting.rdp import RdpAccountant
    except ImportError:
        raise DataError("privacy needs dp-accounting; pip install 'ddol[privacy]'") from None
    accountant = RdpAccountant(neighboring_relation=NeighboringRelation.REPLACE_SPECIAL)
    accountant.compose(SingleEpochTreeAggregationDpEvent(noise, releases))
    return float(accountant.get_epsilon(delta))


@functools.lru_cache(maxsize=64)
def _noise(epsilon: float, delta: float, releases: int) -> float:
    """The least noise, within a thousandth, with which all releases stay within ε."""
    low, high = 0.0, 1.0
    while _epsilon(high, releases, delta) > epsilon:
        low, high = high, 2.0 * high
    while high - low > _PRECISION * high:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if _epsilon(middle, releases, delta) > epsilon else (low, middle)
    return high
