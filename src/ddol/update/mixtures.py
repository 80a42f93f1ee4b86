"""Weighted majority over learners: how an agent mixes what several learners of its own predict.

Expert k says Σ_m Λ_km·z_m, where z_m is the score of learner m. What is kept of the mixture stands among an
agent's scalars, from `base` on; see `Places`. Two rules move the experts' weights when an answer comes; both
end with fixed share (Herbster and Warmuth), w_k ← (1−α)·w_k + α·(1−w_k)/(K−1) with
α_t = 1/((t+1)·(1 + ln(t+1))), so that an expert that is always best loses a factor of 1 + ln T only:

- `LOG` (log loss): w_k ∝ w_k·p_k(y), with p_k = σ(z_k) clipped to [10⁻⁴, 1−10⁻⁴]. The agent predicts
  p = Σ w_k·p_k, and the score is its logit. Of C classes p_k is the softmax of the scores, or σ of each
  divided by their sum where each class has a loss of its own; p_k becomes (1−10⁻⁴)·p_k + 10⁻⁴/C, and scores
  are ln p, or logits.
- `HEDGED` (any other convex loss): w_k ∝ w_k·exp(−η·ℓ_k), and the scores are Σ w_k·z_k. The rate is that of
  AdaHedge (de Rooij, van Erven, Grünwald and Koolen 2014), η = ln K / Δ, where Δ sums up how much more the
  mixture lost than −ln(Σ w_k·exp(−η·ℓ_k))/η; weights are raised to the power η_t+1/η_t when the rate falls.
  Predictions of numbers by the squared loss are clipped to the centre ± B of the answers so far.

Several classes have one mixture, whose numbers stand in the state of the first class; those of the others are
copies.

Whether sharing helps is told by two bettors (Waudby-Smith and Ramdas 2024): one bets that the mixture
loses less than the agent alone, the other that the shared learner loses more; one example counts at most
1 nat (of losses of numbers the largest spread before it, of other losses of classes a mistake). A bettor's
capital exceeds 1/a at some time with a probability of at most a if it is wrong, at whatever time one looks.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ddol.update.losses import Loss, logistic, logistic_one_vs_all

LOG, HEDGED = range(2)
"""Rules of the weights."""

LEAST = 1e-4
"""Probabilities are at least so large."""
CLIP = math.log((1.0 - LEAST) / LEAST)
"""The score at which a probability is 1 − 10⁻⁴."""
ALIKE = 1e-6
"""Losses that differ by so little of the largest are alike: learners may be the same but for rounding."""
LEAST_GAP = 0.01
"""Of AdaHedge's gaps, in spreads: with less, weights would follow what is rounding."""
SWITCHES = 3
"""Sequences of experts with up to so many changes are followed."""

NUMBERS = (
    "answers", "loss", "mistakes", "mistakes alone", "mistakes shared", "centre", "reach", "alike", "gap",
    "spread", "helps", "helps factor", "helps sum", "helps squares", "harms", "harms factor", "harms sum",
    "harms squares", "late",
)  # fmt: skip
"""What files call the first numbers of a mixture."""
(
    COUNT, LOSS, WRONG, WRONG_ALONE, WRONG_SHARED, CENTRE, REACH, ALIKE_LOSS, GAP, SPREAD,
    HELPS, HELPS_FACTOR, HELPS_SUM, HELPS_SQUARES, HARMS, HARMS_FACTOR, HARMS_SUM, HARMS_SQUARES, LATE, FIXED,
) = range(20)  # fmt: skip
"""Numbers of a mixture: answers, loss and mistakes of the mixture, of the first and of the last expert;
of squared loss the centre and B; of `HEDGED` what rounds cost in which all experts were alike, Δ and the
largest spread; both bettors' capital, as a logarithm and a factor, with the sums and squares of what they
have seen; and the most answers that came between a prediction and its own."""


class Places(NamedTuple):
    """Where the numbers of a mixture of K experts over M learners stand, counted from its first."""

    experts: int
    learners: int

    @property
    def weights(self) -> int:
        """Weights of the experts."""
        return FIXED

    @property
    def losses(self) -> int:
        """Losses of the experts so far."""
        return FIXED + self.experts

    @property
    def best(self) -> int:
        """Least loss of a sequence with m changes that ends in expert k: (SWITCHES + 1, K)."""
        return FIXED + 2 * self.experts

    @property
    def costs(self) -> int:
        """What the last answer cost each expert."""
        return FIXED + (3 + SWITCHES) * self.experts

    @property
    def rest(self) -> int:
        """By softmax, the logarithm of Σ exp(z) over the other classes, of each learner; else 0."""
        return self.costs + self.experts

    @property
    def chances(self) -> int:
        """By `LOG` between two classes, σ of what the experts and the mixture predicted, clipped."""
        return self.rest + self.learners

    @property
    def notes(self) -> int:
        """Scores of the learners and of the mixture as they were predicted with, answers until then, the
        answer."""
        return self.chances + self.experts + 1

    @property
    def names(self) -> tuple[str, ...]:
        """What files call all numbers."""
        each = ["weight", "loss of", *(f"least {m}" for m in range(SWITCHES + 1)), "cost"]
        experts = [f"{name} {k}" for name in each for k in range(self.experts)]
        rest, scores = ([f"{name} {i}" for i in range(self.learners)] for name in ("rest", "score"))
        chances = [f"chance {k}" for k in range(self.experts + 1)]
        return (*NUMBERS, *experts, *rest, *chances, *scores, "score", "answers then", "answer")

    @property
    def size(self) -> int:
        """Numbers in all."""
        return self.notes + self.learners + 3


def rule_for(loss: Loss) -> int:
    """The rule that a loss allows.

    Examples
    --------
    >>> from ddol.update.losses import hinge, squared
    >>> rule_for(logistic) == LOG, rule_for(squared) == HEDGED, rule_for(hinge) == HEDGED
    (True, True, True)
    """
    return LOG if loss.name in (logistic.name, logistic_one_vs_all.name) else HEDGED
