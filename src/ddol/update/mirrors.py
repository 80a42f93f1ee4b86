"""Mirror maps, and mirror descent with them.

A mirror map is the gradient of the distance-generating function ω: it takes weights w to their dual
θ = ∇ω(w), where steps are taken and neighbours average (Eq. DOGD and DOEG of the paper are the
Euclidean and the entropy map of the same formula). θ is an array (rows, D): one row, or two for the
signed entropy.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from ddol.compiled import check_arguments, scalar
from ddol.update import entropy as entropy_loops
from ddol.update import linear, pnorm, separable
from ddol.update.contract import DUAL, PRIMAL, Layout, Loops, Update, Vector
from ddol.update.domains import EVERYWHERE, L1_BALL, L2_BALL, NORM_BALL, SIMPLEX, Domain, everywhere

_TO_PRIMAL, _TO_DUAL = "to_primal(theta, p)", "to_dual(w, p)"


class Mirror(ABC):
    """A mirror map: its mathematics on whole vectors, and the loops that do the same on rows."""

    kind: ClassVar[str]
    domains: ClassVar[tuple[str, ...]]
    """Sets that it has a projection onto."""
    zero: ClassVar[bool] = True
    """Weights start at 0, whatever the number of features."""
    logarithmic: ClassVar[bool] = False
    """Neighbours' weights are averaged behind their logarithms, which are never exponentiated bare."""
    self_dual: ClassVar[bool] = False
    """Weights are their own dual, so both averages are one."""

    @property
    def name(self) -> str:
        """What messages call it."""
        return self.kind

    @abstractmethod
    def primal(self, theta: np.ndarray) -> np.ndarray:
        """w = (∇ω)⁻¹(θ)."""

    @abstractmethod
    def dual(self, w: np.ndarray) -> np.ndarray:
        """θ = ∇ω(w)."""

    def start(self, n_features: int, domain: Domain) -> np.ndarray:
        """Dual of the first weights."""
        return np.zeros((1, n_features))

    def divergence(self, u: np.ndarray, theta: np.ndarray) -> float:
        """ψ(u, v) with v given by its dual: how far v is from the comparator u."""
        raise ValueError(f"no divergence is known for the mirror {self.name}")

    @abstractmethod
    def layout(self, space: str) -> Layout:
        """Sizes of the compiled state."""

    @abstractmethod
    def loops(self, space: str, l2: float, domain: Domain) -> Loops:
        """The compiled form."""

    @abstractmethod
    def parameters(self, l2: float, domain: Domain) -> list[float]:
        """Numbers that the loops find in ``p``."""

    @abstractmethod
    def vector(self, theta: np.ndarray) -> Vector:
        """State at a dual."""


@dataclass(frozen=True)
class Euclidean(Mirror):
    """ω(w) = ½‖w‖₂²: weights are their own dual."""

    kind = "euclidean"
    domains = (EVERYWHERE, L2_BALL, L1_BALL, SIMPLEX)
    self_dual = True

    def primal(self, theta: np.ndarray) -> np.ndarray:
        """w = θ."""
        return theta[0]

    def dual(self, w: np.ndarray) -> np.ndarray:
        """θ = w."""
        return w[None]

    def start(self, n_features: int, domain: Domain) -> np.ndarray:
        """0, or the middle of the simplex."""
        share = domain.radius / n_features if domain.kind == SIMPLEX else 0.0
        return np.full((1, n_features), share)

    def divergence(self, u: np.ndarray, theta: np.ndarray) -> float:
        """½‖u − v‖²."""
        return float(0.5 * np.sum((u - theta[0]) ** 2))

    def layout(self, space: str) -> Layout:
        """See `ddol.update.linear`; both averages are one."""
        return linear.LAYOUT

    def loops(self, space: str, l2: float, domain: Domain) -> Loops:
        """See `ddol.update.linear`."""
        if domain.kind != EVERYWHERE:
            return linear.LOOPS
        return linear.SHRUNK if l2 > 0.0 else linear.FREE

    def parameters(self, l2: float, domain: Domain) -> list[float]:
        """L2 weight and domain."""
        return [l2, linear.KINDS[domain.kind], domain.radius]

    def vector(self, theta: np.ndarray) -> Vector:
        """The weights, factor 1, and their squared norm."""
        return Vector(theta, np.array([1.0, float(np.sum(theta * theta)), 0.0]))


@dataclass(frozen=True)
class Entropy(Mirror):
    """ω(w) = Σ w log w on positive weights: the dual is the logarithm."""

    kind = "entropy"
    domains: ClassVar[tuple[str, ...]] = (EVERYWHERE, L1_BALL, SIMPLEX)
    zero = False
    logarithmic = True
    sides: ClassVar[int] = 1

    def primal(self, theta: np.ndarray) -> np.ndarray:
        """w = exp θ."""
        return np.exp(theta[0])

    def dual(self, w: np.ndarray) -> np.ndarray:
        """θ = log w."""
        return np.log(w)[None]

    def start(self, n_features: int, domain: Domain) -> np.ndarray:
        """The same share of the radius for every weight."""
        total = domain.radius if domain.kind != EVERYWHERE else 1.0
        share = total / (self.sides * n_features)
        return np.full((self.sides, n_features), math.log(share))

    def divergence(self, u: np.ndarray, theta: np.ndarray) -> float:
        """Σ u log(u/v) − u + v."""
        return _relative_entropy(u, theta[0])

    def layout(self, space: str) -> Layout:
        """See `ddol.update.entropy`."""
        return entropy_loops.layout(self.sides, logarithmic=space == PRIMAL)

    def loops(self, space: str, l2: float, domain: Domain) -> Loops:
        """See `ddol.update.entropy`."""
        return entropy_loops.DUAL_LOOPS if space == DUAL else entropy_loops.PRIMAL_LOOPS

    def parameters(self, l2: float, domain: Domain) -> list[float]:
        """L2 weight, domain, sides."""
        return [l2, entropy_loops.KINDS[domain.kind], domain.radius, float(self.sides)]

    def vector(self, theta: np.ndarray) -> Vector:
        """Logarithms, and exponentials relative to the largest."""
        largest = float(theta.max())
        relative = np.exp(theta - largest)
        total = float(relative.sum())
        with np.errstate(over="ignore"):
            unit = float(np.exp(max(largest, entropy_loops.LEAST)))
        scalars = np.array([0.0, largest, total, total, 0.0, unit])
        return Vector(np.concatenate([theta, relative]), scalars)


@dataclass(frozen=True)
class SignedEntropy(Entropy):
    """Entropy of w⁺ and w⁻ with w = w⁺ − w⁻ (EG±): two rows of logarithms."""

    kind = "signed_entropy"
    domains = (EVERYWHERE, L1_BALL)
    sides: ClassVar[int] = 2

    def primal(self, theta: np.ndarray) -> np.ndarray:
        """w = exp θ⁺ − exp θ⁻."""
        return np.exp(theta[0]) - np.exp(theta[1])

    def dual(self, w: np.ndarray) -> np.ndarray:
        """Not a function of the weights."""
        raise ValueError("a signed weight w⁺ − w⁻ does not determine its two logarithms")

    def divergence(self, u: np.ndarray, theta: np.ndarray) -> float:
        """Of the positive and the negative part of u."""
        parts = np.maximum(u, 0.0), np.maximum(-u, 0.0)
        return sum(_relative_entropy(part, row) for part, row in zip(parts, theta, strict=True))


@dataclass(frozen=True)
class PNorm(Mirror):
    """ω(w) = ½‖w‖_p² with 1 < p ≤ 2: between Euclidean (p = 2) and entropy-like (p → 1)."""

    p: float = 2.0

    kind = "p_norm"
    domains = (EVERYWHERE, NORM_BALL)

    def __post_init__(self) -> None:
        if not 1.0 < self.p <= 2.0:
            raise ValueError(f"`p` of the p-norm mirror must lie in (1, 2], it is {self.p}")

    @property
    def name(self) -> str:
        """With its exponent."""
        return f"p_norm({self.p:g})"

    @property
    def q(self) -> float:
        """Exponent of the dual norm."""
        return self.p / (self.p - 1.0)

    def primal(self, theta: np.ndarray) -> np.ndarray:
        """∇ ½‖θ‖_q²."""
        return _norm_gradient(theta[0], self.q)

    def dual(self, w: np.ndarray) -> np.ndarray:
        """∇ ½‖w‖_p²."""
        return _norm_gradient(w, self.p)[None]

    def divergence(self, u: np.ndarray, theta: np.ndarray) -> float:
        """½‖u‖_p² − ½‖v‖_p² − ⟨θ, u − v⟩."""
        v = self.primal(theta)
        half = (np.linalg.norm(u, self.p) ** 2 - np.linalg.norm(v, self.p) ** 2) / 2
        return max(float(half - theta[0] @ (u - v)), 0.0)  # rounding may go below

    def layout(self, space: str) -> Layout:
        """See `ddol.update.pnorm`."""
        return pnorm.LAYOUT if space == DUAL else pnorm.PRIMAL_LAYOUT

    def loops(self, space: str, l2: float, domain: Domain) -> Loops:
        """See `ddol.update.pnorm`."""
        return pnorm.LOOPS if space == DUAL else pnorm.PRIMAL_LOOPS

    def parameters(self, l2: float, domain: Domain) -> list[float]:
        """L2 weight, domain, both exponents."""
        return [l2, pnorm.KINDS[domain.kind], domain.radius, self.q, self.p]

    def vector(self, theta: np.ndarray) -> Vector:
        """Zero, factor 1."""
        return pnorm.LAYOUT.start(theta.shape[1])


@dataclass(frozen=True)
class Separable(Mirror):
    """Any map that works feature by feature; made by `separable_mirror`."""

    label: str
    to_primal: Callable
    to_dual: Callable
    own: tuple[float, ...] = ()

    kind = "separable"
    domains = (EVERYWHERE,)

    @property
    def name(self) -> str:
        """The user's."""
        return self.label

    def primal(self, theta: np.ndarray) -> np.ndarray:
        """w_d = f(θ_d)."""
        return np.array([self.to_primal(value, self.own) for value in theta[0]])

    def dual(self, w: np.ndarray) -> np.ndarray:
        """θ_d = f⁻¹(w_d)."""
        return np.array([self.to_dual(value, self.own) for value in w])[None]

    def layout(self, space: str) -> Layout:
        """See `ddol.update.separable`."""
        return separable.LAYOUT

    def loops(self, space: str, l2: float, domain: Domain) -> Loops:
        """See `ddol.update.separable`."""
        return separable.LOOPS if space == DUAL else separable.PRIMAL_LOOPS

    def parameters(self, l2: float, domain: Domain) -> list[float]:
        """L2 weight, addresses of the two functions, the user's numbers."""
        links = scalar(self.to_primal, _TO_PRIMAL), scalar(self.to_dual, _TO_DUAL)
        return [l2, *map(separable.as_number, links), *self.own, 0.0]

    def vector(self, theta: np.ndarray) -> Vector:
        """Dual and weights."""
        return Vector(np.concatenate([theta, self.primal(theta)[None]]), np.zeros(0))


def _norm_gradient(v: np.ndarray, p: float) -> np.ndarray:
    """∇ ½‖v‖_p²."""
    norm = np.linalg.norm(v, p)
    if norm == 0.0:
        return np.zeros_like(v)
    return np.sign(v) * np.abs(v) ** (p - 1.0) * norm ** (2.0 - p)


def _relative_entropy(u: np.ndarray, log_v: np.ndarray) -> float:
    positive = u > 0
    terms = np.where(positive, u * (np.log(np.where(positive, u, 1.0)) - log_v), 0.0)
    return max(float(np.sum(terms - u + np.exp(log_v))), 0.0)  # rounding may go below


euclidean = Euclidean()
entropy = Entropy()
signed_entropy = SignedEntropy()


def p_norm_mirror(p: float = 2.0) -> PNorm:
    """ω(w) = ½‖w‖_p² with 1 < p ≤ 2.

    Examples
    --------
    >>> half = p_norm_mirror(1.5)
    >>> half.primal(half.dual(np.array([1.0, -2.0]))).round(12)
    array([ 1., -2.])
    """
    return PNorm(float(p))


def separable_mirror(
    name: str, to_primal: Callable, to_dual: Callable, parameters: tuple[float, ...] = ()
) -> Separable:
    """Make a mirror map from two functions of one number, w = f(θ, p) and θ = f⁻¹(w, p).

    Weights start at θ = 0. Plain Python on numbers; compiled when first used.

    Examples
    --------
    >>> import math
    >>> sinh = separable_mirror("sinh", lambda t, p: math.sinh(t), lambda w, p: math.asinh(w))
    >>> sinh.primal(np.zeros((1, 2)))
    array([0., 0.])
    """
    check_arguments(to_primal, _TO_PRIMAL)
    check_arguments(to_dual, _TO_DUAL)
    return Separable(name, to_primal, to_dual, tuple(parameters))


@dataclass(frozen=True)
class MirrorDescent(Update):
    """θ⁺ = θ − η g in the dual of a mirror map, then the Bregman projection onto a domain.

    Parameters
    ----------
    mirror : Mirror
    domain : Domain
    l2 : float
        Weight λ of the term λ‖w‖²/2 of the objective.

    Examples
    --------
    >>> from ddol.update.domains import l1_ball
    >>> MirrorDescent(signed_entropy, l1_ball(2.0)).mirror.name
    'signed_entropy'
    >>> MirrorDescent(l2=-1.0)
    Traceback (most recent call last):
    ValueError: `l2` must be at least 0, it is -1.0
    """

    mirror: Mirror = euclidean
    domain: Domain = everywhere
    l2: float = 0.0
    grows: bool = field(init=False, default=True)
    family = "mirror_descent"

    def __post_init__(self) -> None:
        if self.domain.kind not in self.mirror.domains:
            raise ValueError(
                f"the mirror {self.mirror.name} has no projection onto {self.domain.kind}; "
                f"use {' or '.join(self.mirror.domains)}"
            )
        if not 0.0 <= self.l2 < math.inf:
            raise ValueError(f"`l2` must be at least 0, it is {self.l2}")
        object.__setattr__(self, "grows", self.mirror.zero and self.domain.kind != SIMPLEX)

    def start(self, n_features: int) -> Vector:
        """State at the first weights."""
        return self.mirror.vector(self.mirror.start(n_features, self.domain))

    def layout(self, space: str, n_features: int) -> Layout:
        """That of the mirror."""
        return self.mirror.layout(space)

    def loops(self, space: str) -> Loops:
        """Those of the mirror."""
        return self.mirror.loops(space, self.l2, self.domain)

    def parameters(self) -> list[float]:
        """L2 weight, kind and radius of the domain, then what the mirror needs."""
        return self.mirror.parameters(self.l2, self.domain)
