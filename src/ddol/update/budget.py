"""How much noise a budget (ε, δ) needs, and how much of it is spent; the accounting is dp-accounting's."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ddol.streams.errors import DataError

_PRECISION = 1e-3
_EXPECTED = "expected epsilon:NUMBER, such as epsilon:4 or epsilon:4,delta:1e-6,every:100"


@dataclass(frozen=True)
class Budget:
    """What messages may tell of one example: (ε, δ)-differential privacy over a number of releases.

    Two streams are neighbours if one has an example of no effect in the place of one of the other's. A
    release adds the sum of the clipped gradients since the last one to a sum that is known with noise, by
    tree aggregation (Kairouz et al. 2021): each example is in one leaf, and in at most ⌈log₂ k⌉ + 1 nodes.

    Parameters
    ----------
    epsilon : float
    delta : float
        It should be well below 1/n, n the examples of a site.
    releases : int
        After so many the budget is used up, and nothing more is sent.
    every : int
        Examples between two releases.
    public : int
        The first examples of each site that are no secret: centres and scales of features come from
        them, and are fixed from then on. With 0 features have the centre 0 and the scale 1.
    noise : float, optional
        Standard deviation of the noise on every node, in units of the longest gradient; by default what the
        budget needs.

    Examples
    --------
    >>> budget = Budget(4.0, releases=64)
    >>> 3.0 < budget.noise < 3.2
    True
    >>> budget.spent(0), budget.spent(8) < 4.0 and budget.spent(64) <= 4.0
    (0.0, True)
    """

    epsilon: float
    delta: float = 1e-5
    releases: int = 1024
    every: int = 50
    public: int = 0
    noise: float = -1.0

    def __post_init__(self) -> None:
        if not 0.0 < self.epsilon < math.inf:
            raise DataError(f"privacy: found epsilon {self.epsilon}, expected a number above 0")
        if not 0.0 < self.delta < 1.0:
            raise DataError(f"privacy: found delta {self.delta}, expected a number between 0 and 1")
        for name, least in (("releases", 1), ("every", 1), ("public", 0)):
            found = getattr(self, name)
            if isinstance(found, bool) or not least <= found < 1 << 31 or found != int(found):
                raise DataError(
                    f"privacy: found {name} {found}, expected a whole number of at least {least}"
                )
            object.__setattr__(self, name, int(found))
        if self.noise < 0.0:
            noise = _noise(self.epsilon, self.delta, self.releases)
            object.__setattr__(self, "noise", noise)

    def after(self, released: int) -> dict[str, Any]:
        """How it stands after so many releases, as plain values."""
        return {
            "released": released,
            "spent": self.spent(released),
            "used_up": released >= self.releases,
        }

    def released_after(self, examples: int) -> int:
        """Releases of an agent that has learned so many examples: nothing else decides about them."""
        return min(max(examples - self.public - 1, 0) // self.every, self.releases)

    def check_passes(self, passes: int) -> None:
        """Refuse to learn from an example again: the budget covers one time."""
        if passes > 1:
            raise DataError(
                f"privacy: found {passes} passes, expected 1: the budget is of examples that are seen once"
            )

    def spent(self, releases: int) -> float:
        """The ε that so many releases have spent, at the budget's δ."""
        return _epsilon(self.noise, int(releases), self.delta)


def budget_of(told: Budget | str | Mapping[str, Any] | None) -> Budget | None:
    """The budget that a text or a table describes; a budget is itself.

    Examples
    --------
    >>> budget_of("epsilon:4,delta:1e-6,every:100").every
    100
    >>> budget_of("sites:4")
    Traceback (most recent call last):
    ddol.streams.errors.DataError: privacy: found 'sites:4', expected epsilon:NUMBER, ...
    """
    if told is None or isinstance(told, Budget):
        return told
    if isinstance(told, Mapping):
        return Budget(**told)
    known: dict[str, float] = {}
    for part in str(told).split(","):
        name, _, number = part.strip().partition(":")
        if name == "unit" and number.strip() == "site":
            raise DataError(
                "privacy: a site's whole stream cannot be the unit: noise that hides one site among few "
                "hides all that is learned; the unit is one example"
            )
        try:
            known[name] = float(number)
        except ValueError:
            raise DataError(f"privacy: found {told!r}, {_EXPECTED}") from None
        if name not in ("epsilon", "delta", "releases", "every", "public"):
            raise DataError(f"privacy: found {told!r}, {_EXPECTED}")
    if "epsilon" not in known:
        raise DataError(f"privacy: found {told!r}, {_EXPECTED}")
    return Budget(**known)  # type: ignore[arg-type]


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
