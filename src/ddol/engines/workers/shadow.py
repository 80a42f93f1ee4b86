"""The shadow of a network, with the memory that its addresses point to; see `kernels.shadow`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from ddol.algorithm import Algorithm
from ddol.engines.kernels import shadow as kernel
from ddol.engines.kernels.shadow import Plays, Shadow, follow_plays
from ddol.engines.kernels.shadow_loops import (
    ENTROPY_LOOPS,
    EUCLIDEAN_LOOPS,
    FACTOR,
    LEAST,
    SIZE,
    WANTED,
)
from ddol.engines.workers.inputs import addresses, rates_of
from ddol.recording import Moment, ShadowSums
from ddol.streams.rows import Block, Rows
from ddol.update import linear
from ddol.update.losses import BINARY, Loss

_TRIED = np.geomspace(1e-2, 1e2, 60)
"""Scores at which a loss is tried, on both sides of 0."""
_MOST_OWN = 1 << 24
"""Numbers that local certificates may take; with more agents and features there are none."""
_VARIES = 1e-20
"""A feature whose variance is less, in squares from a reference, is a constant."""


class ShadowLearner:
    """One serial learner beside the network, fed with all gradients.

    For mirror descent with the Euclidean map or the signed entropy it is the algorithm itself, with the rate
    of play s at the s-th play; for others it is Euclidean, on a ball, at the rate R/√(Σ‖g‖²).

    Parameters
    ----------
    algorithm : Algorithm
    n_features : int
    radius : float
        Of the ball for algorithms that have none of these mirrors.
    """

    def __init__(self, algorithm: Algorithm, n_features: int, radius: float = 1.0) -> None:
        update: Any = algorithm.update
        kind = _kind(update)
        own = kind != kernel.NO_SHADOW
        self.algorithm = algorithm
        self.entropy = kind == kernel.ENTROPY
        self.loops = ENTROPY_LOOPS if self.entropy else EUCLIDEAN_LOOPS
        self.radius = update.domain.radius if own else radius
        self.l2 = float(update.l2)
        self.rate = algorithm.rate if own else None
        self.rates = np.empty(0)
        self.scalars = np.zeros((algorithm.outputs, kernel.N_SCALARS))
        self.sums = np.zeros(kernel.N_SUMS)
        self.sums[kernel.SMALLEST] = self.sums[kernel.LAST_RATE] = math.inf
        self.drift = np.zeros(algorithm.n_agents)
        self._parts: dict[bool, np.ndarray] = {}
        kept = (algorithm.n_agents, kernel.PULL + algorithm.outputs, n_features)
        local = not self.l2 and math.prod(kept) <= _MOST_OWN
        self.own = np.zeros((algorithm.n_agents * local, kernel.PULLS + algorithm.outputs))
        self.own_rows = np.zeros((algorithm.n_agents * local, *kept[1:]))
        self._begin(n_features)

    @staticmethod
    def covers(algorithm: Algorithm) -> bool:
        """Whether the certificate's assumptions hold: a convex loss of scores, which experts have not."""
        return not algorithm.update.experts and _is_convex(algorithm.loss)

    def _begin(self, n_features: int) -> None:
        outputs, sides = self.algorithm.outputs, 2 if self.entropy else 1
        start = self.radius / (2 * n_features) if self.entropy else 0.0
        self.weights = np.full((outputs, sides, n_features), start)
        bounded = math.isfinite(self.radius)
        domain = linear.KINDS["l2_ball" if bounded else "everywhere"]
        self.parameters = np.array([self.l2, domain, self.radius if bounded else 0.0])
        self.scalars[:, linear.SCALE] = 1.0
        if self.entropy:
            self.parameters = np.array([self.radius])
            self.scalars[:, FACTOR], self.scalars[:, SIZE] = 1.0, self.radius
            self.scalars[:, LEAST] = self.sums[kernel.SMALLEST] = start

    def widen(self, n_features: int) -> None:
        """Make room for features that have not been seen before."""
        more = n_features - self.weights.shape[2]
        if more > 0:
            blank = np.zeros((*self.weights.shape[:2], more))
            self.weights = np.concatenate([self.weights, blank], axis=2)
            blank = np.zeros((*self.own_rows.shape[:2], more))
            self.own_rows = np.concatenate([self.own_rows, blank], axis=2)

    def memory(self, most_plays: int, dense: bool) -> Shadow:
        """The shadow by address, for so many plays at most of rows of one kind."""
        first, scale, exponent = int(self.sums[kernel.PLAYS]) + 1, 0.0, -1.0
        if self.rate is not None:
            self.rates, scale, exponent = rates_of(self.rate, first, most_plays)
        if dense not in self._parts:
            self._parts[dense] = self.loops.addresses(dense, WANTED, ())
        return Shadow(
            kind=kernel.ENTROPY if self.entropy else kernel.EUCLIDEAN,
            radius=self.radius,
            l2=self.l2,
            outputs=self.algorithm.outputs,
            D=self.weights.shape[2],
            parts=self._parts[dense].ctypes.data,
            p=self.parameters.ctypes.data,
            weights=self.weights.ctypes.data,
            scalars=self.scalars.ctypes.data,
            sums=self.sums.ctypes.data,
            drift=self.drift.ctypes.data,
            rates=self.rates.ctypes.data if len(self.rates) else 0,
            first_play=first,
            scale=scale,
            exponent=exponent,
            dense=int(dense),
            own=self.own.ctypes.data if len(self.own) else 0,
            own_rows=self.own_rows.ctypes.data,
        )

    def follow(
        self,
        rows: Rows,
        agents: np.ndarray,
        places: np.ndarray,
        scores: np.ndarray,
        cost: np.ndarray,
    ) -> None:
        """Follow predictions that were made before, in an order of one's choice.

        Parameters
        ----------
        rows : Rows
        agents, places : (n,)
            Who predicted, and which of the rows.
        scores : (rows, outputs)
            With which rows were predicted.
        cost : (N,)
            What the predictions of each agent cost, with the L2 term.
        """
        self.widen(rows.n_features)
        rows = rows.plain().widen(self.weights.shape[2])
        algorithm, costs = self.algorithm, np.zeros(len(cost))
        agents, places = (np.ascontiguousarray(a, np.int64) for a in (agents, places))
        slopes, q = np.empty(algorithm.outputs), np.array([*algorithm.loss.parameters, 0.0])
        value, derivative = algorithm.loss.addresses()
        plays = Plays(
            n=len(agents), agent=agents.ctypes.data, place=places.ctypes.data, **addresses(rows),
            scores=scores.ctypes.data, slopes=slopes.ctypes.data, classes=algorithm.outputs > 1,
            C=algorithm.C, value=value, derivative=derivative,
            together=algorithm.loss.address_together(algorithm.outputs), q=q.ctypes.data,
            costs=costs.ctypes.data,
        )  # fmt: skip
        follow_plays(self.memory(len(agents), rows.dense), plays)
        if self.l2 > 0.0:
            self.drift += cost - costs

    def follow_block(
        self, block: Block, after: Sequence[int], loss: np.ndarray, losses: np.ndarray
    ) -> list[ShadowSums]:
        """Follow the rounds of a block that was played; what is seen after some of them.

        Parameters
        ----------
        block : Block
            With the scores of its rows.
        after : rising numbers of rounds
        loss : (N,)
            Of every agent before the block.
        losses : (len(after), N)
            The same after these rounds.
        """
        lo, seen, agents = 0, [], np.arange(block.n_agents)[:, None]
        for hi, now in zip(after, losses, strict=True):
            table = block.table[lo:hi]
            used = table >= 0
            who = np.broadcast_to(agents, table.shape)[used]
            assert block.scores is not None
            self.follow(block.rows, who, table[used], block.scores, now - loss)
            seen.append(self.seen())
            lo, loss = hi, now
        return seen

    def seen(self) -> ShadowSums:
        """The sums that the certificate is made of, as they are now."""
        return ShadowSums(
            entropy=self.entropy,
            radius=self.radius,
            outputs=self.algorithm.outputs,
            plays=int(self.sums[kernel.PLAYS]),
            rated_squares=float(self.sums[kernel.RATED]),
            last_rate=float(self.sums[kernel.LAST_RATE]),
            longest=float(self.sums[kernel.LONGEST]),
            smallest=float(self.sums[kernel.SMALLEST]),
            drift=self.drift.copy(),
            own=self._own_regrets(),
        )

    def _own_regrets(self) -> np.ndarray:
        """By agent: Σ g·score, and the norm of Σ g·x̃, with rows of mean 0 and deviation 1."""
        if not len(self.own):
            return np.empty((2, 0))
        plays = np.maximum(self.own[:, kernel.OWN_PLAYS], 1.0)[:, None]
        mean, squares = (
            self.own_rows[:, [kernel.SUM, kernel.SQUARES_SUM]].transpose(1, 0, 2) / plays
        )
        variance = squares - mean * mean
        inverse = np.zeros_like(variance)
        np.divide(1.0, np.sqrt(variance), out=inverse, where=variance > _VARIES * squares)
        pulls = self.own[:, kernel.PULLS :]
        rest = (self.own_rows[:, kernel.PULL :] - mean[:, None] * pulls[:, :, None]) * inverse[
            :, None
        ]
        norm = np.sqrt((pulls**2).sum(axis=1) + (rest**2).sum(axis=(1, 2)))
        return np.array([self.own[:, kernel.HELD], norm])


@cache
def _is_convex(loss: Loss) -> bool:
    """Whether a loss lies above its tangents, as far as one sees: one's own may be anything."""
    scores = np.concatenate([-_TRIED[::-1], [0.0], _TRIED])
    for y in (-1.0, 1.0) if loss.task == BINARY else (-3.0, -1.0, 0.0, 0.5, 2.0):
        answers = np.full(len(scores), y)
        values, slopes = loss.values(scores, answers), loss.slopes(scores, answers)
        tangents = values[:, None] + slopes[:, None] * (scores - scores[:, None])
        if np.any(values < tangents - 1e-9 * (1.0 + np.abs(tangents))):
            return False
    return True


def moment_of(
    rounds: int, time: float, counters: np.ndarray, shadow: ShadowSums | None = None
) -> Moment:
    """A moment, from the counters (N, 4) of all agents."""
    mistakes, loss, _, examples = counters.sum(axis=0)
    return Moment(rounds, time, int(examples), int(mistakes), float(loss), shadow)


def _kind(update: Any) -> int:
    """The shadow that an update is itself, played serially, if it is one."""
    mirror, domain = getattr(update, "mirror", None), getattr(update, "domain", None)
    if mirror is None or domain is None:
        return kernel.NO_SHADOW
    from ddol.update.domains import EVERYWHERE, L1_BALL, L2_BALL
    from ddol.update.mirrors import euclidean, signed_entropy

    if mirror is signed_entropy and domain.kind == L1_BALL and update.l2 == 0.0:
        return kernel.ENTROPY
    flat = mirror is euclidean and domain.kind in (EVERYWHERE, L2_BALL)
    return kernel.EUCLIDEAN if flat else kernel.NO_SHADOW
