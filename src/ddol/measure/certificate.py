"""A bound on the regret of any run: what one serial learner is promised, and the price of being distributed.

Beside the network runs a shadow: serial mirror descent, fed with the very gradients g_s of all plays. With
x_s the weights that made play s and x̃_s the shadow's, for convex losses and every u of the comparator's set

    Σ_s f_s(x_s) − f_s(u)  ≤  [ D/η_S + (1/2a) Σ_s η_s ‖g_s‖²_* ]  +  Σ_s ⟨g_s, x_s − x̃_s⟩

with D = sup_s ψ(u, x̃_s), whatever the graph, the delays, the losses of messages and the algorithm. The
bracket is the *serial* part; the last sum is the *drift*, and is known agent by agent.

Of an agent's own plays more is known. With z_s their scores, φ_s = (1, x̃_s), where x̃ are the agent's rows at
mean 0 and deviation 1 (over all its rows so far), and u any linear model of φ,

    Σ_s f_s(x_s) − f_s(u)  ≤  Σ_s ℓ′_s·(z_s − ⟨u, φ_s⟩)  ≤  Σ_s ℓ′_s·z_s + ‖u‖₂·‖Σ_s ℓ′_s·φ_s‖₂

Both sums are the agent's own: no number of this *local* certificate comes from a neighbour, and it does not
matter which algorithm, in which coordinates, made the plays.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ddol.recording import Moment, ShadowSums


@dataclass(frozen=True)
class Certificate:
    """A bound on the regret of all plays so far, against every comparator of a set.

    Parameters
    ----------
    serial, drift : float
    agent_drift : (N,)
        The drift of each agent's plays; they sum up to ``drift``.
    comparator : str
        The set that u may come from.

    Examples
    --------
    >>> import ddol
    >>> X = np.random.default_rng(0).standard_normal((500, 3)); y = np.sign(X @ [1.0, -2.0, 0.5])
    >>> trace = ddol.run(ddol.dogd(radius=2.0), (X, y), ddol.ring(4), schedule="async")
    >>> made = trace.certificate
    >>> made.comparator, made.total == made.serial + made.drift
    ('every u with ‖u‖₂ ≤ 2', True)
    """

    serial: float
    drift: float
    agent_drift: np.ndarray
    comparator: str

    @property
    def total(self) -> float:
        """The bound itself."""
        return self.serial + self.drift

    def binds(self, loss: float) -> bool:
        """Whether it says more than the loss of all plays, which no regret exceeds.

        Examples
        --------
        >>> made = Certificate(50.0, 7.0, np.array([3.0, 4.0]), "every u")
        >>> made.binds(100.0), made.binds(20.0)
        (True, False)
        """
        return self.total < loss

    def to_dict(self) -> dict[str, Any]:
        """As ``--json`` writes it."""
        return {
            "serial": self.serial,
            "drift": self.drift,
            "total": self.total,
            "agent_drift": self.agent_drift.tolist(),
            "comparator": self.comparator,
        }


@dataclass(frozen=True)
class LocalCertificate:
    """A bound on the regret of one agent's own plays: `fixed` + `per_norm`·‖u‖ for every linear model u.

    The norm is that of intercept and weights on the agent's rows at mean 0 and deviation 1.

    Examples
    --------
    >>> import ddol
    >>> X = np.random.default_rng(0).standard_normal((900, 3)); y = np.sign(X @ [1.0, -2.0, 0.5])
    >>> trace = ddol.run(ddol.adaptive(), (X, y), ddol.ring(4), certificate=True)
    >>> made = trace.local_certificates[0]
    >>> made.against(1.0) == made.fixed + made.per_norm, made.informative_up_to > 1.0
    (True, True)
    """

    fixed: float
    per_norm: float
    loss: float
    """Of the agent's plays, which no regret exceeds."""

    def against(self, norm: float) -> float:
        """The bound against all models whose norm is at most this."""
        return self.fixed + self.per_norm * norm

    @property
    def informative_up_to(self) -> float:
        """The norm from which on the bound is above the loss, and says nothing."""
        return max(self.loss - self.fixed, 0.0) / self.per_norm if self.per_norm else math.inf

    def to_dict(self) -> dict[str, float | None]:
        """As ``--json`` writes it; None: any norm."""
        most = self.informative_up_to
        figures = {"fixed": self.fixed, "per_norm": self.per_norm, "loss": self.loss}
        return figures | {"informative_up_to": most if math.isfinite(most) else None}


def local_certificates(sums: ShadowSums, loss: np.ndarray) -> tuple[LocalCertificate, ...]:
    """The certificates of all agents; none where none are kept, or sums left the range of numbers."""
    if not np.isfinite(sums.own).all():
        return ()
    return tuple(map(LocalCertificate, *sums.own.tolist(), loss.tolist())) if sums.own.size else ()


def certificate_of(sums: ShadowSums) -> Certificate | None:
    """The certificate that sums over plays amount to; None where they left the range of numbers.

    Examples
    --------
    >>> sums = ShadowSums(False, 2.0, 1, 100, rated_squares=10.0, last_rate=0.1, longest=1.0, smallest=0.0,
    ...                   drift=np.array([3.0, 4.0]))
    >>> made = certificate_of(sums)
    >>> made.serial, made.drift, made.comparator
    (50.0, 7.0, 'every u with ‖u‖₂ ≤ 2')
    """
    if sums.plays == 0:
        return None
    serial, comparator = (_entropy if sums.entropy else _euclidean)(sums)
    drift = float(sums.drift.sum())
    if not (math.isfinite(serial) and math.isfinite(drift)):
        return None
    if sums.outputs > 1:
        comparator += f", for each of the {sums.outputs} classes"
    return Certificate(serial, drift, sums.drift, comparator)


def certificate_curve(moments: Sequence[Moment]) -> dict[str, np.ndarray]:
    """Serial part, drift and drift of each agent at every moment of a run that has a certificate."""
    made = [(m, certificate_of(m.shadow)) for m in moments if m.shadow is not None]
    kept = [(m, c) for m, c in made if c is not None]
    return {
        "examples": np.array([m.examples for m, _ in kept]),
        "time": np.array([m.time for m, _ in kept]),
        "serial": np.array([c.serial for _, c in kept]),
        "drift": np.array([c.drift for _, c in kept]),
        "agent_drift": np.array([c.agent_drift for _, c in kept]),
    }


def _euclidean(sums: ShadowSums) -> tuple[float, str]:
    """½(R + ‖x̃‖)² is the farthest that a point of the ball can be; without a ball R is as far as x̃ came."""
    bounded = math.isfinite(sums.radius)
    radius = sums.radius if bounded else sums.longest
    far = sums.outputs * 0.5 * (radius + sums.longest) ** 2
    why = "" if bounded else ", the largest norm that the serial learner had"
    return _bracket(far, sums, 1.0), f"every u with ‖u‖₂ ≤ {radius:.4g}{why}"


def _entropy(sums: ShadowSums) -> tuple[float, str]:
    """The farthest point of the L1 ball is the corner of the feature with the least weight, or 0."""
    radius = sums.radius
    far = math.inf
    if sums.smallest > 0.0:
        far = radius * max(math.log(radius / sums.smallest), 1.0)
    return _bracket(sums.outputs * far, sums, 1.0 / radius), f"every u with ‖u‖₁ ≤ {radius:.4g}"


def _bracket(far: float, sums: ShadowSums, convexity: float) -> float:
    """D/η_S + (1/2a) Σ η_s ‖g_s‖²_*; with no gradient at all there is no regret."""
    if sums.rated_squares == 0.0:
        return 0.0
    return far / sums.last_rate + sums.rated_squares / (2.0 * convexity)
