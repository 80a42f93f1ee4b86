"""What a run keeps while it goes on: curves at the rounds that `spacing` gives, and moments of its time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

MOST_AGENT_CURVES = 64
"""Agents whose curves are kept one by one."""


@dataclass(frozen=True)
class Curves:
    """The run as it went, at about 1,000 rounds at most, whatever its length.

    Parameters
    ----------
    rounds, examples, mistakes, loss : (points,)
        Totals over all agents up to each recorded round.
    worst : (points,)
        Mistakes of the agent with the most.
    consensus : (points,)
        √(mean over agents of ‖w_i − w̄‖²).
    best_log_weight : (points,)
        Largest log-weight of an expert, from which the mistake bounds follow; NaN without experts.
    agent_examples, agent_mistakes, agent_loss : (points, N)
        Per agent, where there are at most 64; else (points, 0).

    Examples
    --------
    >>> import ddol
    >>> X = np.random.default_rng(0).standard_normal((64, 3))
    >>> curves = ddol.run(ddol.dogd(), (X, np.sign(X[:, 0])), 2).curves
    >>> int(curves.rounds[-1]), int(curves.examples[-1]), curves.agent_mistakes.shape[1]
    (32, 64, 2)
    """

    rounds: np.ndarray
    examples: np.ndarray
    mistakes: np.ndarray
    loss: np.ndarray
    worst: np.ndarray
    consensus: np.ndarray
    best_log_weight: np.ndarray
    agent_examples: np.ndarray
    agent_mistakes: np.ndarray
    agent_loss: np.ndarray


def spacing(rounds: int) -> int:
    """Rounds between two points of a curve: 1 at first, then 16 points in every doubling.

    Recording costs as much as hundreds of rounds, so points are as few as a curve needs: about 250
    in a million rounds, about 500 in 60 thousand million.

    Examples
    --------
    >>> spacing(1), spacing(64), spacing(1_000_000)
    (1, 4, 32768)
    """
    return 1 << max(0, rounds.bit_length() - 5)


def next_point(rounds: int) -> int:
    """First round after ``rounds`` that is to be recorded.

    Examples
    --------
    >>> next_point(64)
    68
    """
    step = spacing(rounds + 1)
    return (rounds // step + 1) * step


@dataclass(frozen=True)
class ShadowSums:
    """What a regret certificate is made of: sums over all plays; see `ddol.measure.certificate`.

    Parameters
    ----------
    entropy : bool
        Whether the shadow has the signed entropy on the L1 ball, and not the Euclidean map.
    radius : float
        Of its ball; infinite for all of the space.
    outputs, plays : int
        Weight vectors, and examples.
    rated_squares : float
        Σ η_s ‖g_s‖²_*.
    last_rate : float
        η_S.
    longest, smallest : float
        Largest ‖x̃_s‖₂, and smallest weight of a feature, over all plays.
    drift : (N,)
        Σ ⟨g_s, x_s − x̃_s⟩ over each agent's plays.
    own : (2, N), or (2, 0)
        Of each agent's plays Σ ⟨g_s, x_s⟩, and ‖Σ g_s‖ in coordinates in which its rows have mean 0 and
        deviation 1; empty where no local certificate is kept.
    """

    entropy: bool
    radius: float
    outputs: int
    plays: int
    rated_squares: float
    last_rate: float
    longest: float
    smallest: float
    drift: np.ndarray
    own: np.ndarray = field(default_factory=lambda: np.empty((2, 0)))


@dataclass(frozen=True)
class WaitingPool:
    """A pool of copies that wait for late answers, and how the best expert did."""

    copies: int
    best_expert: int
    """Its mistakes on all examples; 0 where there are no experts."""


@dataclass(frozen=True)
class Moment:
    """A scheduled run at one moment of its (virtual) time; who is absent is known of the last one.

    Examples
    --------
    >>> import ddol
    >>> X = np.random.default_rng(0).standard_normal((64, 3))
    >>> trace = ddol.run(ddol.dogd(), (X, np.sign(X[:, 0])), ddol.ring(4), schedule="async")
    >>> trace.moments[-1].examples, trace.moments[-1].absent.tolist()
    (64, [False, False, False, False])
    """

    rounds: int
    time: float
    examples: int
    mistakes: int
    loss: float
    shadow: ShadowSums | None = None
    patience: WaitingPool | None = None
    absent: np.ndarray | None = None


@dataclass(frozen=True)
class WeightHistory:
    """Weights over time.

    Parameters
    ----------
    rounds : (points,)
    weights : (points, copies, outputs, D)
        After these rounds; one copy where all agents share it.
    """

    rounds: np.ndarray
    weights: np.ndarray


class Recorder:
    """Collects curves, at the rounds that `spacing` gives."""

    def __init__(self, n_agents: int) -> None:
        self.n_agents, self.detailed = n_agents, n_agents <= MOST_AGENT_CURVES
        self.pieces: list[dict[str, np.ndarray]] = []

    @property
    def last(self) -> int:
        """The last round that was recorded, 0 for none."""
        known = (piece["rounds"][-1] for piece in reversed(self.pieces) if len(piece["rounds"]))
        return int(next(known, 0))

    def between(self, before: int, last: int) -> list[int]:
        """Rounds after ``before``, up to ``last``, that are to be recorded."""
        found: list[int] = []
        first = before + 1
        while first <= last:
            # As many at once as have the same distance from each other.
            step, doubled = spacing(first), 1 << first.bit_length()
            found += range(-(-first // step) * step, min(last + 1, doubled), step)
            first = doubled
        return found

    def record(
        self,
        rounds: Sequence[int] | np.ndarray,
        counters: np.ndarray,
        consensus: np.ndarray,
        best_log_weight: np.ndarray,
    ) -> None:
        """Keep points of the curves.

        Parameters
        ----------
        rounds : (points,)
            Rounds played.
        counters : (points, N, 4)
            Mistakes, loss, expected mistakes and examples of every agent.
        consensus, best_log_weight : (points,)
            See `Curves`.
        """
        if len(rounds):
            self.pieces.append(self._piece(rounds, counters, consensus, best_log_weight))

    def _piece(
        self, rounds: Any, counters: np.ndarray, consensus: Any, best_log_weight: Any
    ) -> dict[str, np.ndarray]:
        mistakes, loss, examples = (
            counters[..., 0].astype(np.int64),
            counters[..., 1],
            counters[..., 3],
        )
        agents = slice(None) if self.detailed else slice(0)
        return {
            "rounds": np.array(rounds, np.int64),
            "examples": examples.sum(axis=1).astype(np.int64),
            "mistakes": mistakes.sum(axis=1),
            "loss": loss.sum(axis=1),
            "worst": mistakes.max(axis=1),
            "consensus": np.array(consensus, float),
            "best_log_weight": np.array(best_log_weight, float),
            "agent_examples": examples[:, agents].astype(np.int64),
            "agent_mistakes": mistakes[:, agents].copy(),
            "agent_loss": loss[:, agents].copy(),
        }

    def finish(self, rounds: int, counters: Any, consensus: float, best: float) -> Curves:
        """The curves, ending with the last round."""
        now = np.array([counters.mistakes, counters.loss, counters.expected, counters.examples])
        end = self._piece([rounds], now.T[None], [consensus], [best])
        known = self.to_dict()
        before = known["rounds"] < rounds
        return Curves(**{k: np.concatenate([v[before], end[k]]) for k, v in known.items()})

    def to_dict(self) -> dict[str, np.ndarray]:
        """Everything, as arrays by name: for checkpoints."""
        pieces = self.pieces or [self._piece([], np.empty((0, self.n_agents, 4)), [], [])]
        names = Curves.__dataclass_fields__
        return {name: np.concatenate([piece[name] for piece in pieces]) for name in names}

    def restore(self, saved: Mapping[str, np.ndarray]) -> None:
        """Go on from what `to_dict` gave."""
        self.pieces = [{name: saved[name] for name in Curves.__dataclass_fields__}]
