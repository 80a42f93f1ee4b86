"""Mirror maps, and mirror descent with them.

A mirror map is the gradient of the distance-generating function ω: it takes weights w to their dual
θ = ∇ω(w), where steps are taken and neighbours average (Eq. DOGD and DOEG of the paper are the
Euclidean and the entropy map of the same formula).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ddol.compiled import check_arguments, scalar
from ddol.update import entropy as entropy_loops
from ddol.update import linear, pnorm, separable
from ddol.update.domains import EVERYWHERE, L1_BALL, L2_BALL, NORM_BALL, SIMPLEX, Domain, everywhere
from ddol.update.rule import DUAL, PRIMAL, Layout, Loops, Update

_TO_PRIMAL, _TO_DUAL = "to_primal(theta, p)", "to_dual(w, p)"


@dataclass(frozen=True)
class Mirror:
    """A mirror map; make your own with `separable_mirror`.

    Parameters
    ----------
    name : str
    kind : "euclidean", "entropy", "signed_entropy", "p_norm" or "separable"
    p : float
        Exponent of the p-norm map.
    to_primal, to_dual : functions ``f(value, p)`` of one number and the parameters
        Of a separable map.
    """

    name: str
    kind: str
    p: float = 2.0
    to_primal: Callable | None = None
    to_dual: Callable | None = None
    own: tuple[float, ...] = ()
    domains: tuple[str, ...] = (EVERYWHERE,)

    def primal(self, theta: np.ndarray) -> np.ndarray:
        """w = (∇ω)⁻¹(θ); the signed entropy's θ has two rows, the others' one."""
        if self.kind == "euclidean":
            return theta[0]
        if self.kind == "entropy":
            return np.exp(theta[0])
        if self.kind == "signed_entropy":
            return np.exp(theta[0]) - np.exp(theta[1])
        if self.kind == "p_norm":
            return _norm_gradient(theta[0], self.p / (self.p - 1.0))
        assert self.to_primal is not None
        return np.array([self.to_primal(value, self.own) for value in theta[0]])

    def dual(self, w: np.ndarray) -> np.ndarray:
        """θ = ∇ω(w), for the maps whose dual is a function of the weights."""
        if self.kind == "euclidean":
            return w[None]
        if self.kind == "entropy":
            return np.log(w)[None]
        if self.kind == "p_norm":
            return _norm_gradient(w, self.p)[None]
        if self.kind == "separable":
            assert self.to_dual is not None
            return np.array([self.to_dual(value, self.own) for value in w])[None]
        raise ValueError("a signed weight w⁺ − w⁻ does not determine its two logarithms")

    def start(self, n_features: int, domain: Domain) -> np.ndarray:
        """Dual of the first weights: 0, or the same positive share for every feature."""
        if self.kind == "entropy":
            total = domain.radius if domain.kind != EVERYWHERE else 1.0
            return np.full((1, n_features), math.log(total / n_features))
        if self.kind == "signed_entropy":
            total = domain.radius if domain.kind != EVERYWHERE else 1.0
            return np.full((2, n_features), math.log(total / (2 * n_features)))
        share = domain.radius / n_features if domain.kind == SIMPLEX else 0.0
        return np.full((1, n_features), share)

    def divergence(self, u: np.ndarray, theta: np.ndarray) -> float:
        """ψ(u, v) with v given by its dual: how far v is from the comparator u.

        For the signed entropy, u is split into its positive and negative part.
        """
        if self.kind == "euclidean":
            return float(0.5 * np.sum((u - theta[0]) ** 2))
        if self.kind == "entropy":
            return _relative_entropy(u, theta[0])
        if self.kind == "signed_entropy":
            return _relative_entropy(np.maximum(u, 0), theta[0]) + _relative_entropy(
                np.maximum(-u, 0), theta[1]
            )
        if self.kind == "p_norm":
            v = self.primal(theta)
            half = (np.linalg.norm(u, self.p) ** 2 - np.linalg.norm(v, self.p) ** 2) / 2
            return float(half - theta[0] @ (u - v))
        raise ValueError(f"no divergence is known for the mirror {self.name}")

    def project(self, theta: np.ndarray, domain: Domain) -> np.ndarray:
        """Bregman projection onto the domain, in the dual."""
        radius = domain.radius
        if domain.kind == EVERYWHERE:
            return theta
        if self.kind in ("entropy", "signed_entropy"):
            largest = theta.max()
            log_sum = largest + math.log(np.exp(theta - largest).sum())
            outside = log_sum > math.log(radius) or domain.kind == SIMPLEX
            return theta + (math.log(radius) - log_sum) if outside else theta
        if domain.kind == L2_BALL:
            return theta * min(1.0, radius / max(float(np.linalg.norm(theta)), 1e-300))
        if domain.kind == NORM_BALL:
            q = self.p / (self.p - 1.0)
            return theta * min(1.0, radius / max(float(np.linalg.norm(theta[0], q)), 1e-300))
        return _soft_threshold(theta[0], radius, domain.kind == SIMPLEX)[None]


def _norm_gradient(v: np.ndarray, p: float) -> np.ndarray:
    """∇ ½‖v‖_p²."""
    norm = np.linalg.norm(v, p)
    if norm == 0.0:
        return np.zeros_like(v)
    return np.sign(v) * np.abs(v) ** (p - 1.0) * norm ** (2.0 - p)


def _relative_entropy(u: np.ndarray, log_v: np.ndarray) -> float:
    positive = u > 0
    terms = np.where(positive, u * (np.log(np.where(positive, u, 1.0)) - log_v), 0.0)
    return float(np.sum(terms - u + np.exp(log_v)))


def _soft_threshold(v: np.ndarray, radius: float, nonnegative: bool) -> np.ndarray:
    """Euclidean projection onto the L1 ball, or onto the simplex."""
    sizes = v if nonnegative else np.abs(v)
    if not nonnegative and sizes.sum() <= radius:
        return v
    ordered = np.sort(sizes)[::-1]
    levels = (np.cumsum(ordered) - radius) / np.arange(1, v.size + 1)
    level = levels[np.flatnonzero(ordered > levels)[-1]]
    kept = np.maximum(sizes - level, 0.0)
    return kept if nonnegative else np.sign(v) * kept


euclidean = Mirror("euclidean", "euclidean", domains=(EVERYWHERE, L2_BALL, L1_BALL, SIMPLEX))
entropy = Mirror("entropy", "entropy", domains=(EVERYWHERE, L1_BALL, SIMPLEX))
signed_entropy = Mirror("signed_entropy", "signed_entropy", domains=(EVERYWHERE, L1_BALL))


def p_norm_mirror(p: float = 2.0) -> Mirror:
    """ω(w) = ½‖w‖_p² with 1 < p ≤ 2: between Euclidean (p = 2) and entropy-like (p → 1).

    Examples
    --------
    >>> half = p_norm_mirror(1.5)
    >>> half.primal(half.dual(np.array([1.0, -2.0]))).round(12)
    array([ 1., -2.])
    """
    if not 1.0 < p <= 2.0:
        raise ValueError(f"`p` of the p-norm mirror must lie in (1, 2], it is {p}")
    return Mirror(f"p_norm({p:g})", "p_norm", p=float(p), domains=(EVERYWHERE, NORM_BALL))


def separable_mirror(
    name: str, to_primal: Callable, to_dual: Callable, parameters: tuple[float, ...] = ()
) -> Mirror:
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
    return Mirror(name, "separable", to_primal=to_primal, to_dual=to_dual, own=tuple(parameters))


@dataclass(frozen=True)
class MirrorDescent(Update):
    """θ⁺ = θ − η g in the dual of a mirror map, then the Bregman projection onto a domain.

    Parameters
    ----------
    mirror : Mirror
    domain : Domain
    l2 : float
        Weight λ of the term λ‖w‖²/2 of the objective.
    """

    mirror: Mirror = euclidean
    domain: Domain = everywhere
    l2: float = 0.0
    grows: bool = field(init=False, default=True)

    def __post_init__(self) -> None:
        if self.domain.kind not in self.mirror.domains:
            raise ValueError(
                f"the mirror {self.mirror.name} has no projection onto {self.domain.kind}; "
                f"use {' or '.join(self.mirror.domains)}"
            )
        if not 0.0 <= self.l2 < math.inf:
            raise ValueError(f"`l2` must be at least 0, it is {self.l2}")
        starts_at_zero = self.mirror.kind not in ("entropy", "signed_entropy")
        object.__setattr__(self, "grows", starts_at_zero and self.domain.kind != SIMPLEX)

    def start(self, n_features: int) -> np.ndarray:
        """Dual of the first weights."""
        return self.mirror.start(n_features, self.domain)

    def weights(self, state: np.ndarray) -> np.ndarray:
        """w = (∇ω)⁻¹(θ)."""
        return self.mirror.primal(state)

    def score(self, state: np.ndarray, x: np.ndarray) -> float:
        """⟨w, x⟩; entropies exponentiate relative to the largest logarithm, so the sign is never lost."""
        if not self._logarithmic:
            return super().score(state, x)
        largest = float(state.max())
        total = self.mirror.primal(state - largest) @ x
        return float(total * math.exp(max(largest, entropy_loops.LEAST)))

    def learn(self, state: np.ndarray, gradient: np.ndarray, rate: float) -> np.ndarray:
        """θ − η g; the two sides of a signed map move in opposite directions."""
        moved = rate * gradient
        return state - np.stack([moved, -moved])[: len(state)]

    def project(self, state: np.ndarray, t: int, rate: float) -> np.ndarray:
        """Bregman projection."""
        return self.mirror.project(state, self.domain)

    def share(self, state: np.ndarray, space: str) -> np.ndarray:
        """θ, or w; entropies stay in logarithms and are averaged behind them."""
        if space == DUAL or self._logarithmic:
            return state
        return self.mirror.primal(state)[None]

    def adopt(self, averaged: np.ndarray, space: str) -> np.ndarray:
        """The dual again."""
        return averaged if space == DUAL or self._logarithmic else self.mirror.dual(averaged[0])

    @property
    def _logarithmic(self) -> bool:
        return self.mirror.kind in ("entropy", "signed_entropy")

    @property
    def _sides(self) -> int:
        return 2 if self.mirror.kind == "signed_entropy" else 1

    def layout(self, space: str, n_features: int) -> Layout:
        """Sizes of the compiled state."""
        if self._logarithmic:
            return entropy_loops.layout(self._sides, logarithmic=space == PRIMAL)
        if self.mirror.kind == "p_norm":
            return pnorm.LAYOUT
        return linear.LAYOUT if self.mirror.kind == "euclidean" else separable.LAYOUT

    def loops(self, space: str) -> Loops:
        """The compiled form."""
        if self._logarithmic:
            return entropy_loops.LOOPS
        if self.mirror.kind == "euclidean":
            free = self.l2 == 0.0 and self.domain.kind == EVERYWHERE
            return linear.FREE if free else linear.LOOPS
        module = pnorm if self.mirror.kind == "p_norm" else separable
        return module.LOOPS if space == DUAL else module.PRIMAL_LOOPS

    def parameters(self) -> np.ndarray:
        """L2 weight, kind and radius of the domain, then what the mirror needs."""
        radius = self.domain.radius
        if self.mirror.kind == "euclidean":
            track = float(self.l2 > 0.0 or self.domain.kind != EVERYWHERE)
            return np.array([self.l2, linear.KINDS[self.domain.kind], radius, track])
        if self._logarithmic:
            return np.array([self.l2, entropy_loops.KINDS[self.domain.kind], radius, self._sides])
        if self.mirror.kind == "p_norm":
            q = self.mirror.p / (self.mirror.p - 1.0)
            return np.array([self.l2, pnorm.KINDS[self.domain.kind], radius, q, self.mirror.p])
        to_primal = scalar(self.mirror.to_primal, _TO_PRIMAL)
        links = to_primal, scalar(self.mirror.to_dual, _TO_DUAL)
        return np.array([self.l2, *map(separable.as_number, links), *self.mirror.own, 0.0])

    def begin_state(self, n_features: int) -> tuple[np.ndarray, np.ndarray]:
        """Compiled state and scalars before the first round."""
        theta = self.start(n_features)
        if self._logarithmic:
            ref = float(theta.max())
            ones = np.ones_like(theta)
            total = float(ones.sum())
            return np.concatenate([theta, ones]), np.array([0.0, ref, total, total, 0.0])
        if self.mirror.kind == "euclidean":
            return theta, np.array([1.0, float(np.sum(theta * theta)), 0.0])
        second = self.mirror.primal(theta)[None]
        zeros = np.zeros(3 if self.mirror.kind == "p_norm" else 0)
        scalars = np.concatenate([[1.0], zeros])
        return np.concatenate([theta, second]), scalars

    def shared_copy(self, space: str) -> str | None:
        """Steps add up in the dual; Euclidean weights are their own dual."""
        return "add" if space == DUAL or self.mirror.kind == "euclidean" else None
