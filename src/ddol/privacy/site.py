"""One site that shares under a privacy budget, and keeps a learner of its own that shares nothing.

*Shared* (DP-FTRL; Kairouz et al. 2021): gradients of the log loss at the shared weights, which move only when
something is released; each is clipped to norm 1, and every so many examples their sum, with the noise of
`TreeNoise`, is added to the dual z. Messages are z and nothing else, so whenever and to whom they are sent,
they tell no more. Neighbours average z, and the weights are w = −η·z/√(t + 4s), t the examples of a site so
far (a number that is no secret) and s about the largest variance of the noise.

*Own*: AdaGrad on the same rows. It sees no noise, and nothing of it leaves.

*Mixture*: the weighted majority of theory.md §9 over both and their mean; its weights stay at the site.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ddol.privacy.budget import Budget
from ddol.privacy.tree import TreeNoise
from ddol.streams.errors import DataError

_CLIPPED = 1e-4
OPINIONS = np.array([0.0, 0.5, 1.0])
"""Weight of the shared learner's score for each expert of the mixture."""
_CAUTION = 4.0
"""Early steps are shorter where there is more noise; 0 is worse on the data tried, 16 no better."""
STATE = 1
"""Version of `state_dict`."""


@dataclass(frozen=True)
class Known:
    """What must be agreed on before any data are seen, since data would give it away.

    Parameters
    ----------
    centre, scale : arrays (D,)
        Of the features: from the units and ranges that are known, or from public rows.
    classes : (negative, positive)
        The labels.
    """

    centre: np.ndarray
    scale: np.ndarray
    classes: tuple[Any, Any] = (-1.0, 1.0)

    def __post_init__(self) -> None:
        centre, scale = (np.array(each, float) for each in (self.centre, self.scale))
        if centre.ndim != 1 or centre.shape != scale.shape or not (scale > 0.0).all():
            raise DataError(
                "privacy: found centre and scale of shapes "
                f"{centre.shape} and {scale.shape}, expected one number above 0 for every feature's scale"
            )
        if not (np.isfinite(centre).all() and np.isfinite(scale).all()):
            raise DataError("privacy: centre and scale must be finite")
        object.__setattr__(self, "centre", centre)
        object.__setattr__(self, "scale", scale)

    def standardised(self, X: np.ndarray) -> np.ndarray:
        """Rows with a 1 in front, of a length near 1: values beyond 4 scales count as 4."""
        X = np.asarray(X, float)
        if X.shape[-1] != len(self.centre) or not np.isfinite(X).all():
            raise DataError(f"expected rows of {len(self.centre)} finite numbers")
        Z = np.clip((X - self.centre) / self.scale, -4.0, 4.0)
        return np.concatenate([np.ones((*X.shape[:-1], 1)), Z], axis=-1) / math.sqrt(
            len(self.centre) + 1
        )


class PrivateSite:
    """A site of two classes; see the module's docstring.

    Parameters
    ----------
    known : Known
    budget : Budget
    every : int
        Examples between two releases.
    rate : float
        η of the shared learner.
    rng : numpy.random.Generator, optional
        Of the noise; for tests only. By default the system's entropy seeds it.

    Examples
    --------
    >>> site = PrivateSite(Known(np.zeros(2), np.ones(2)), Budget(4.0, releases=2), every=10)
    >>> for k in range(20):
    ...     p = site.learn(np.array([1.0, -1.0]), 1.0)
    >>> site.released, site.is_used_up, 3.9 < site.spent <= 4.0
    (2, True, True)
    """

    def __init__(
        self,
        known: Known,
        budget: Budget,
        every: int = 50,
        rate: float = 16.0,
        rng: np.random.Generator | None = None,
    ) -> None:
        if isinstance(every, bool) or int(every) != every or every < 1:
            raise DataError(
                f"privacy: found {every} examples between releases, expected at least 1"
            )
        D = len(known.centre) + 1
        self.known, self.budget, self.every, self.rate = known, budget, int(every), rate
        self._damping = _CAUTION * budget.noise**2 * budget.releases.bit_length()
        self._tree = TreeNoise((D,), budget.noise, rng)
        self._noise = np.zeros(D)
        self._gradients, self._waiting = np.zeros(D), 0
        self.examples = 0
        self.dual, self.shared = np.zeros(D), np.zeros(D)
        self.own, self._squares = np.zeros(D), np.full(D, 1e-8)
        self.shares = np.full(len(OPINIONS), 1.0 / len(OPINIONS))

    # --- the budget ----------------------------------------------------------------------------------

    @property
    def released(self) -> int:
        """Releases so far."""
        return self._tree.prefix

    @property
    def spent(self) -> float:
        """The ε spent so far."""
        return self.budget.spent(self.released)

    @property
    def is_used_up(self) -> bool:
        """Whether nothing more may be released; the site goes on predicting, learning alone and listening."""
        return self.released >= self.budget.releases

    # --- predict and learn ---------------------------------------------------------------------------

    def predict_proba(self, x: np.ndarray) -> float:
        """Probability of the positive class."""
        return float(self.shares @ self._opinions(self.known.standardised(x)))

    def _opinions(self, z: np.ndarray) -> np.ndarray:
        scores = (1.0 - OPINIONS) * (self.own @ z) + OPINIONS * (self.shared @ z)
        return np.clip(_sigmoid(scores), _CLIPPED, 1.0 - _CLIPPED)

    def learn(self, x: np.ndarray, answer: Any) -> np.ndarray:
        """Learn one example; what alone, both and sharing had said of the positive class, and the mixture."""
        if answer not in self.known.classes:
            raise DataError(f"found label {answer!r}, expected one of {self.known.classes}")
        z, y = self.known.standardised(x), float(answer == self.known.classes[1])
        said = self._opinions(z)
        mixed = float(self.shares @ said)
        self._reweigh(said if y else 1.0 - said)
        self._learn_alone(z, y)
        self._gradients += clipped((_sigmoid(self.shared @ z) - y) * z)
        self.examples, self._waiting = self.examples + 1, self._waiting + 1
        if self._waiting >= self.every:
            self._release()
        return np.append(said, mixed)

    def _reweigh(self, likelihood: np.ndarray) -> None:
        """Bayes' rule and fixed share: theory.md §9."""
        w, K, share = self.shares * likelihood, len(OPINIONS), 1.0 / (self.examples + 2.0)
        w /= w.sum()
        self.shares = (1.0 - share) * w + share * (1.0 - w) / (K - 1)

    def _learn_alone(self, z: np.ndarray, y: float) -> None:
        g = (_sigmoid(self.own @ z) - y) * z
        self._squares += g * g
        self.own -= 0.5 * math.sqrt(len(z)) * g / np.sqrt(self._squares) / 2.0

    def _release(self) -> None:
        """Add the sum of the gradients, with noise, to the dual; nothing, once the budget is used up."""
        if not self.is_used_up:
            noise = self._tree.next()
            self.dual = self.dual + self._gradients + noise - self._noise
            self._noise = noise
        self._gradients, self._waiting = np.zeros_like(self._gradients), 0
        self._renew()

    def _renew(self) -> None:
        self.shared = (
            -self.rate * self.dual / math.sqrt(max(self.examples, self.every) + self._damping)
        )

    # --- messages ------------------------------------------------------------------------------------

    def message(self) -> np.ndarray:
        """What neighbours average: the dual, as last released."""
        return self.dual.copy()

    def mix(self, dual: np.ndarray) -> None:
        """Adopt the average of the own message and the neighbours'."""
        dual = np.asarray(dual, float)
        if dual.shape != self.dual.shape or not np.isfinite(dual).all():
            raise DataError(
                f"found a message of shape {dual.shape}, expected {self.dual.shape} finite numbers"
            )
        self.dual = dual.copy()
        self._renew()

    # --- over restarts -------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """All that a restart needs, the budget spent among it. It is for the site only."""
        arrays = {name: getattr(self, name).copy() for name in _ARRAYS}
        counts = {"examples": self.examples, "waiting": self._waiting, "every": self.every}
        budget = (self.budget.epsilon, self.budget.delta, self.budget.releases)
        return {
            "version": STATE,
            "budget": budget,
            "tree": self._tree.state_dict(),
            **counts,
            **arrays,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state_dict`; a state with another budget is refused: spending would begin anew."""
        own = self.budget.epsilon, self.budget.delta, self.budget.releases
        if (
            state.get("version") != STATE
            or tuple(state["budget"]) != own
            or state["every"] != self.every
        ):
            raise DataError(
                f"found a state with the budget {tuple(state.get('budget', ()))}, expected {own}; what was "
                "spent cannot be carried over, so go on with the same budget"
            )
        found = {name: np.array(state[name], float) for name in _ARRAYS}
        for name, value in found.items():
            if value.shape != getattr(self, name).shape or not np.isfinite(value).all():
                raise DataError(f"the state's {name} is damaged")
        self._tree.load_state_dict(state["tree"])
        for name, value in found.items():
            setattr(self, name, value)
        self.examples, self._waiting = int(state["examples"]), int(state["waiting"])


_ARRAYS = ("dual", "shared", "own", "shares", "_squares", "_gradients", "_noise")


def clipped(gradient: np.ndarray) -> np.ndarray:
    """The gradient, or the multiple of it that has norm 1.

    Examples
    --------
    >>> clipped(np.array([3.0, 4.0])), clipped(np.array([0.3, 0.4]))
    (array([0.6, 0.8]), array([0.3, 0.4]))
    """
    return gradient / max(1.0, float(np.linalg.norm(gradient)))


def _sigmoid(score: Any) -> Any:
    return 0.5 * (1.0 + np.tanh(0.5 * score))
