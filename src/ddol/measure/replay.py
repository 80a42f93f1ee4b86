"""A run of mirror descent played again, round by round, for what its regret theorem is made of.

D = sup_t ψ(w*, w^t) is known only once w* is, and the norms of the subgradients only round by round, so
the run is repeated on the local engine with a look at the weights before every round.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from ddol.algorithm import Algorithm
from ddol.engines.local import Local
from ddol.engines.state import start_state
from ddol.measure.applicable import strong_convexity
from ddol.measure.solvers import features
from ddol.measure.theorems import DOMD, Bound, find_theorem, on_regret
from ddol.streams.rows import Block
from ddol.update.mirrors import Mirror, MirrorDescent, PNorm, SignedEntropy
from ddol.update.rates import evaluate

_MOST_ROUNDS = 1024


@dataclass(frozen=True)
class Replay:
    """What happened in every round, in the order of the rounds.

    Parameters
    ----------
    divergence : (T,)
        ψ(w*, w^t) before the round.
    norm_squared : (T,)
        ‖Σ_j g_j^t‖_*², in the dual norm of the mirror map.
    rate : (T,)
        η_t.
    loss : (T,)
        Objective of all agents together up to and with the round.
    """

    divergence: np.ndarray
    norm_squared: np.ndarray
    rate: np.ndarray
    loss: np.ndarray


def why_no_bound(algorithm: Algorithm) -> str:
    """Why the regret theorem says nothing about an algorithm; empty where it does."""
    made = find_theorem(algorithm)
    if made.theorem != DOMD or not made.holds:
        return made.reason or "no bound: no theorem of the paper is about its regret"
    assert isinstance(algorithm.update, MirrorDescent)
    if strong_convexity(algorithm.update) is None:
        where = f"{algorithm.update.mirror.name} on {algorithm.update.domain.kind}"
        return f"no bound: no constant of strong convexity is known for {where}"
    if algorithm.outputs > 1:
        return "no bound: the theorem is about one weight vector, not one for each class"
    return ""


def replay(algorithm: Algorithm, blocks: Iterable[Block], comparator: np.ndarray) -> Replay:
    """Play the rounds of blocks one by one, measuring each.

    Parameters
    ----------
    algorithm : Algorithm
        For which `why_no_bound` is empty.
    blocks : of the run, from its first round
    comparator : (D,)
        w*.
    """
    engine = None
    parts: list[tuple[np.ndarray, ...]] = []
    for block in blocks:
        if engine is None:
            engine = Local(algorithm, start_state(algorithm, len(comparator)))
        for lo in range(0, block.n_rounds, _MOST_ROUNDS):
            piece = Block(block.rows, block.table[lo : lo + _MOST_ROUNDS])
            parts.append(_measure(algorithm, engine, piece, comparator))
    divergence, norms, loss = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Replay(divergence, norms, evaluate(algorithm.rate, 1, len(loss)), loss)


def bound_on_regret(algorithm: Algorithm, seen: Replay) -> Bound:
    """The regret theorem at the end of every round, with the D of the rounds so far."""
    a = strong_convexity(algorithm.update)
    assert a is not None
    far = np.maximum.accumulate(seen.divergence)
    norms = np.cumsum(seen.rate * seen.norm_squared)
    return on_regret(far, norms, seen.rate, algorithm.n_agents, a)


def _measure(
    algorithm: Algorithm, engine: Local, piece: Block, comparator: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Divergences, squared norms and cumulated losses of some rounds."""
    rounds = piece.n_rounds
    update = algorithm.update
    assert isinstance(update, MirrorDescent)
    weights = np.empty((rounds, len(comparator)))
    loss, divergence = np.empty(rounds), np.empty(rounds)
    for r in range(rounds):
        weights[r] = engine.weights()[0, 0]
        divergence[r] = update.mirror.divergence(comparator, _dual(engine, weights[r]))
        engine.play(Block(piece.rows, piece.table[r : r + 1]))
        loss[r] = engine.counters().loss.sum()
    norms = np.linalg.norm(
        _gradient_sums(algorithm, piece, weights), _dual_exponent(update.mirror), axis=1
    )
    return divergence, norms**2, loss


def _gradient_sums(algorithm: Algorithm, piece: Block, weights: np.ndarray) -> np.ndarray:
    """Σ_j g_j^t of every round, at the weights before it: (rounds, D)."""
    at, agent = np.nonzero(piece.table[:, :, 0] >= 0)
    rows = piece.rows.take(piece.table[at, agent, 0])
    X = features(rows)
    seen = weights[at, : X.shape[1]]
    scores = np.asarray(X.multiply(seen).sum(axis=1)).ravel() if sp.issparse(X) else None
    scores = np.einsum("kd,kd->k", X, seen) if scores is None else scores
    slopes = algorithm.loss.slopes(scores, rows.y)
    slopes *= algorithm.C * (rows.weight if len(rows.weight) else 1.0)
    # A row a round: the examples seen in it, times their slopes.
    per_round = sp.csr_matrix((slopes, (at, np.arange(len(at)))), (len(weights), len(at)))
    sums = per_round @ X
    sums = np.asarray(sums.todense() if sp.issparse(sums) else sums)
    sums = np.pad(sums, ((0, 0), (0, weights.shape[1] - sums.shape[1])))
    count = np.bincount(at, minlength=len(weights))
    return sums + algorithm.update.l2 * count[:, None] * weights


def _dual(engine: Local, weights: np.ndarray) -> np.ndarray:
    """θ = ∇ω(w) of the shared copy."""
    mirror = engine.algorithm.update.mirror  # type: ignore[attr-defined]
    if not isinstance(mirror, SignedEntropy):
        return mirror.dual(weights)
    # Signed weights do not determine their two logarithms, which are kept up to a common shift.
    state = engine.counters()
    return state.theta[0, 0, :2] + state.scalars[0, 0, 0]


def _dual_exponent(mirror: Mirror) -> float:
    """q of the dual norm ‖·‖_q."""
    if mirror.logarithmic:
        return np.inf
    return mirror.p / (mirror.p - 1.0) if isinstance(mirror, PNorm) else 2.0
