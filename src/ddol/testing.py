"""Contract checks, for the parts of this package and for a user's own.

Each raises `AssertionError` with the combination that fails, and returns nothing otherwise. Our tests
call them for every built-in part; call them for yours in the same way.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from ddol.algorithm import Algorithm
from ddol.communicate.average import linear
from ddol.communicate.consensus import spectral_gap
from ddol.communicate.graph import Topology
from ddol.communicate.mixing import changing, metropolis, uniform
from ddol.communicate.topologies import complete, from_edges, path, ring, star
from ddol.engines.local import Local
from ddol.engines.state import layout_of, start_state
from ddol.job.run import run
from ddol.reference import play_round, start
from ddol.streams.arrays import array_stream
from ddol.streams.dealing import table_round_robin
from ddol.streams.rows import Block, Rows
from ddol.update.checks import check_vectors
from ddol.update.contract import DUAL, PRIMAL, Update, Vector
from ddol.update.losses import REGRESSION, Loss, hinge
from ddol.update.mirrors import Mirror, MirrorDescent
from ddol.update.rates import inverse_sqrt

CLOSE = 1e-12
"""Largest relative difference between the engine and the reference."""


@dataclass(frozen=True)
class Played:
    """What a run came to: per agent, and the weights (N, outputs, D).

    ``ties`` counts predictions that rounding decided: mistakes may differ by so many.
    """

    mistakes: np.ndarray
    loss: np.ndarray
    expected: np.ndarray
    weights: np.ndarray
    ties: np.ndarray


def examples_for(
    algorithm: Algorithm, n: int, n_features: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Random examples (X, y) that an algorithm can learn from: advice of experts, classes or numbers."""
    update = algorithm.update
    if update.experts:
        n_classes = getattr(update, "n_classes", 2)
        labels = np.array([-1.0, 1.0]) if n_classes == 2 else np.arange(float(n_classes))
        return rng.choice(labels, (n, n_features)), rng.choice(labels, n)
    X = rng.standard_normal((n, n_features)) * (rng.random((n, n_features)) < 0.7)
    if not algorithm.classification:
        return X, rng.standard_normal(n)
    if algorithm.outputs > 1:
        return X, rng.integers(0, algorithm.outputs, n).astype(float)
    return X, rng.choice([-1.0, 1.0], n)


def play_reference(
    algorithm: Algorithm, X: np.ndarray, y: np.ndarray, table: np.ndarray, seed: int = 0
) -> Played:
    """Play the rounds of a table with `play_round`."""
    agents, n = start(algorithm, X.shape[1]), algorithm.n_agents
    draws = [np.random.default_rng([seed, agent]) for agent in range(n)]
    mistakes, ties = np.zeros(n, int), np.zeros(n, int)
    loss, expected = np.zeros(n), np.zeros(n)
    for dealt in table:
        rows = [own[own >= 0] for own in dealt]
        ties += [_ties(algorithm, s, X[r]) for s, r in zip(agents.states, rows, strict=True)]
        chances = np.array([draw.random(algorithm.batch) for draw in draws])
        agents, outcome = play_round(algorithm, agents, [(X[r], y[r]) for r in rows], chances)
        mistakes += outcome.mistakes
        loss += outcome.loss
        expected += outcome.expected
    weights = [[algorithm.update.weights(state) for state in states] for states in agents.states]
    return Played(mistakes, loss, expected, np.array(weights), ties)


def _ties(algorithm: Algorithm, states: list[Vector], X: np.ndarray) -> int:
    """Examples whose two best scores, or whose only score and 0, differ by rounding at most."""
    update = algorithm.update
    if update.experts or not algorithm.classification:
        return 0
    scores = np.array([[update.score(state, x) for state in states] for x in X])
    scores = scores.reshape(len(X), len(states))
    if len(states) == 1:
        scores = np.hstack([scores, np.zeros_like(scores)])
    best = np.sort(scores, axis=1)
    return int(np.sum(best[:, -1] - best[:, -2] <= CLOSE * np.abs(best).max(axis=1)))


def play_engine(
    algorithm: Algorithm, rows: Rows, table: np.ndarray, cuts: tuple[int, ...] = (), seed: int = 0
) -> Played:
    """Play the rounds of a table with the local engine, in blocks that end at the given rounds."""
    engine = Local(algorithm, start_state(algorithm, rows.n_features, seed))
    for piece in np.split(table, list(cuts)):
        engine.play(Block(rows, piece))
    state, weights = engine.counters(), engine.weights()
    check_vectors(
        layout_of(algorithm, state.n_features), state.theta, state.scalars, "a state of it"
    )
    everyone = np.broadcast_to(weights, (algorithm.n_agents, *weights.shape[1:]))
    nothing = np.zeros(algorithm.n_agents, int)
    return Played(state.mistakes, state.loss, state.expected, everyone, nothing)


def _same(found: Played, expected: Played, close: float, what: str) -> None:
    """Mistakes are the same; losses and weights within ``close`` of the largest."""
    wrong = np.flatnonzero(np.abs(found.mistakes - expected.mistakes) > expected.ties)
    assert not wrong.size, f"{what}: agent {wrong[:1]} makes other mistakes"
    for name in ("loss", "expected", "weights"):
        one, other = getattr(found, name), getattr(expected, name)
        gap = np.abs(one - other).max() / max(np.abs(other).max(), 1e-300)
        assert gap <= close, f"{what}: {name} differ by {gap:.2g} of the largest"


def check_algorithm(
    algorithm: Algorithm,
    *,
    sparse: bool | None = None,
    n_examples: int = 61,
    n_features: int = 5,
    seed: int = 0,
) -> None:
    """Check that the compiled engine plays as `play_round` does, and blocks may end anywhere.

    Parameters
    ----------
    algorithm : Algorithm
        On its network.
    sparse : bool, optional
        Give the examples as CSR rows; by default once as they are and once so.
    n_examples, n_features, seed : int
        Size and seed of the random examples.

    Examples
    --------
    >>> import ddol
    >>> check_algorithm(ddol.doeg(radius=2.0).on(ddol.ring(4), batch=2, period=3))
    """
    X, y = examples_for(algorithm, n_examples, n_features, np.random.default_rng(seed))
    table = table_round_robin(n_examples, algorithm.n_agents, algorithm.batch)
    expected = play_reference(algorithm, X, y, table, seed)
    kinds = (False, True) if sparse is None else (sparse,)
    for kind in kinds[:1] if algorithm.update.experts else kinds:
        rows = Rows.from_csr(csr_matrix(X), y) if kind else Rows.from_dense(X, y)
        what = f"{_named(algorithm)}, {'sparse' if kind else 'dense'} rows"
        whole = play_engine(algorithm, rows, table, seed=seed)
        _same(whole, expected, CLOSE, f"engine and reference: {what}")
        cuts = sorted({1, 2, max(2, len(table) // 2)})
        cut = play_engine(algorithm, rows, table, tuple(cuts), seed)
        _same(cut, whole, 0.0, f"in pieces and in one go: {what}")


def _named(algorithm: Algorithm) -> str:
    topology = getattr(getattr(algorithm.mixing, "topology", None), "name", "changing")
    return (
        f"{algorithm.name} with the loss {algorithm.loss.name} on {topology} of "
        f"{algorithm.n_agents}, batch {algorithm.batch}, period {algorithm.period}, delay "
        f"{algorithm.delay}, average {algorithm.average}"
    )


def check_loss(loss: Loss) -> None:
    """Check that a loss is convex, its derivative a subgradient, and both the same when compiled.

    Convex and subgradient are one inequality: ℓ(z') ≥ ℓ(z) + ℓ'(z)(z' − z) for all z and z'. It holds at
    kinks too, so it leaves the choice of the subderivative there to the loss.

    Examples
    --------
    >>> from ddol.update.losses import logistic
    >>> check_loss(logistic)
    """
    answers = (-3.0, -1.0, 0.0, 0.5, 2.0) if loss.task == REGRESSION else (-1.0, 1.0)
    fine = np.linspace(-4.0, 4.0, 161)
    scores = np.concatenate([fine, fine + 1e-4, [-1e4, -50.0, 50.0, 1e4]])
    for y in answers:
        values, slopes = loss.values(scores, y), loss.slopes(scores, y)
        fine_numbers = np.isfinite(values) & np.isfinite(slopes)
        where = scores[~fine_numbers][:1]
        assert fine_numbers.all(), f"{loss.name}: not finite at z = {where}, y = {y:g}"
        lines = values[:, None] + slopes[:, None] * (scores - scores[:, None])
        room = 1e-9 * (1.0 + np.abs(lines) + np.abs(values))
        above = np.argwhere(values < lines - room)
        assert not above.size, (
            f"{loss.name}: at y = {y:g} the derivative at z = {scores[above[0][0]]:g} is no "
            f"subgradient, the loss at z = {scores[above[0][1]]:g} is below its line; "
            "is the derivative right, and the loss convex?"
        )
        for function, found in ((loss.value, values), (loss.derivative, slopes)):
            plain = _interpreted(function, scores, y, loss.parameters)
            same = np.isclose(found, plain, rtol=1e-12, atol=1e-300) | np.isnan(plain)
            assert same.all(), f"{loss.name}: compiled, `{function.__name__}` gives other numbers"


def _interpreted(function: Any, scores: np.ndarray, y: float, p: tuple) -> np.ndarray:
    """What plain Python computes; NaN where it gives up, as ``math.exp`` does beyond the largest number."""

    def call(z: float) -> float:
        try:
            return float(function(z, y, p))
        except OverflowError:
            return math.nan

    return np.array([call(z) for z in scores.tolist()])


def check_mirror(mirror: Mirror, *, seed: int = 0) -> None:
    """Check a mirror map: round trip, monotone, divergence ≥ 0, and mirror descent with it.

    Examples
    --------
    >>> from ddol.update.mirrors import p_norm_mirror
    >>> check_mirror(p_norm_mirror(1.5))
    """
    rng = np.random.default_rng(seed)
    sides = 2 if mirror.kind == "signed_entropy" else 1
    duals = rng.standard_normal((20, sides, 6))
    primals = np.array([mirror.primal(theta) for theta in duals])
    if sides == 1:
        back = np.array([mirror.dual(w) for w in primals])
        gap = np.abs(back - duals).max()
        assert gap < 1e-9, f"{mirror.name}: the dual of the primal is off by {gap:.2g}"
    for (one, w), (other, v) in itertools.combinations(zip(duals, primals, strict=True), 2):
        if sides == 1:
            rise = float((one[0] - other[0]) @ (w - v))
            assert rise >= 0.0, (
                f"{mirror.name}: not monotone, so not the gradient of a convex function"
            )
        if mirror.kind != "separable":
            far = mirror.divergence(w, other)
            assert far >= -1e-9, f"{mirror.name}: a divergence is negative, {far:.2g}"
    for average in (DUAL, PRIMAL):
        check_update(MirrorDescent(mirror), average=average)


def check_topology(topology: Topology, *, seed: int = 0) -> None:
    """Check a graph: connected, undirected, and agents that average on it come to their mean.

    Examples
    --------
    >>> from ddol.communicate.topologies import grid
    >>> check_topology(grid(3, 4))
    """
    n, name = topology.n_agents, topology.name
    assert topology.is_connected, f"{name}: not connected"
    lists = [topology.neighbours(agent) for agent in range(n)]
    for agent, own in enumerate(lists):
        assert agent not in own, f"{name}: agent {agent} is its own neighbour"
        assert np.all(np.diff(own) > 0), f"{name}: the neighbours of {agent} do not rise"
        assert all(agent in lists[other] for other in own), (
            f"{name}: an edge of {agent} has one end"
        )
    assert topology.n_edges == sum(map(len, lists)) // 2, f"{name}: edges are miscounted"
    values = np.random.default_rng(seed).standard_normal((n, 3))
    for mixing in (uniform(topology), metropolis(topology)):
        matrix = mixing.dense()
        assert np.allclose(matrix.sum(axis=1), 1.0, atol=1e-12), f"{name}: rows do not sum to 1"
        assert np.allclose(linear(mixing, values), matrix @ values), f"{name}: averages differ"
    assert np.allclose(matrix.sum(axis=0), 1.0, atol=1e-12), f"{name}: columns do not sum to 1"
    gap = spectral_gap(metropolis(topology))
    assert 0.0 < gap <= 1.0 + 1e-12, f"{name}: spectral gap {gap:g}"
    rounds = int(np.ceil(20.0 / gap))
    mixed = np.linalg.matrix_power(matrix, rounds) @ values
    off = np.abs(mixed - values.mean(axis=0)).max()
    assert off < 1e-6, f"{name}: {off:.2g} from the mean after {rounds} rounds"


def check_update(
    update: Update,
    loss: Loss = hinge,
    *,
    rate: Any = None,
    average: str = DUAL,
    outputs: int = 1,
) -> None:
    """Check an update: loops equal the reference, one copy equals many, agents are equal.

    The engine is compared with `play_round` on one agent and on four networks, with batches, periods
    and delays, dense and sparse. On a complete graph one shared copy must come to what a copy
    each comes to; agents that see the same examples must stay equal to each other and to one agent
    alone; and it must not matter how agents are numbered.

    Examples
    --------
    >>> from ddol.update.mirrors import MirrorDescent
    >>> check_update(MirrorDescent(l2=0.1))
    """
    algorithm = Algorithm(
        "checked", update, loss, rate or inverse_sqrt(0.5), average=average, outputs=outputs
    )
    places: tuple[dict[str, int], ...] = ({}, {"batch": 2}, {"period": 3}, {"delay": 2})
    for place in (*places, {"batch": 3, "period": 2, "delay": 1}):
        for network in (complete(1), complete(3), ring(4), star(4)):
            check_algorithm(algorithm.on(network, **place))
    _check_shared_copy(algorithm)
    _check_equal_agents(algorithm)
    _check_numbering(algorithm)


def _deal(algorithm: Algorithm, n: int = 60, seed: int = 1) -> tuple[Rows, np.ndarray]:
    X, y = examples_for(algorithm, n, 5, np.random.default_rng(seed))
    return Rows.from_dense(X, y), table_round_robin(n, algorithm.n_agents, algorithm.batch)


def _check_shared_copy(algorithm: Algorithm) -> None:
    shared = algorithm.on(3)
    copies = algorithm.on(3, changing(lambda t: np.full((3, 3), 1 / 3)))
    rows, table = _deal(shared)
    found, expected = (play_engine(one, rows, table) for one in (shared, copies))
    _same(found, expected, 1e-9, f"one copy and a copy each: {_named(shared)}")


def _check_equal_agents(algorithm: Algorithm) -> None:
    rows, table = _deal(algorithm.on(1))
    for network in (complete(4), ring(5), path(3)):
        # One agent that steps as one of so many does, where that makes a difference.
        told = algorithm.on(network).update
        expected = play_engine(replace(algorithm.on(1), update=told), rows, table)
        for period in (1, 2):
            team = replace(algorithm.on(network), period=period)
            found = play_engine(team, rows, np.repeat(table, network.n_agents, axis=1))
            what = f"agents with the same examples, and one alone: {_named(team)}"
            for agent in range(network.n_agents):
                own = [getattr(found, f)[agent : agent + 1] for f in Played.__dataclass_fields__]
                if not algorithm.update.randomized:
                    _same(Played(*own), expected, 1e-9, what)


def _check_numbering(algorithm: Algorithm) -> None:
    order = np.array([2, 0, 3, 1])
    edges = np.array([(0, 1), (1, 2), (1, 3)])
    first = algorithm.on(from_edges(4, edges))
    renamed = algorithm.on(from_edges(4, order[edges]))
    rows, table = _deal(first)
    moved = np.empty_like(table)
    moved[:, order] = table
    expected, found = play_engine(first, rows, table), play_engine(renamed, rows, moved)
    back = Played(*[getattr(found, name)[order] for name in Played.__dataclass_fields__])
    if not algorithm.update.randomized:
        _same(back, expected, 1e-9, f"agents renumbered: {_named(first)}")


def check_engine(
    algorithm: Algorithm,
    engine: str,
    workers: int | None = None,
    *,
    sparse: bool = False,
    n_examples: int = 300,
    n_features: int = 7,
    seed: int = 0,
) -> None:
    """Check that an engine plays as the local one does.

    Mistakes of every agent must be the same, losses and weights too; on a complete graph with equal
    weights, where workers add up their own agents first, within 1e-9 of the largest.

    Parameters
    ----------
    algorithm : Algorithm
        On its network.
    engine : str
        The name of the engine; for "mpi" every rank must call this.
    workers : int, optional
        Of the threads engine.
    sparse : bool
        Give the examples as CSR rows.
    n_examples, n_features, seed : int
        Size and seed of the random examples.

    Examples
    --------
    >>> import ddol
    >>> check_engine(ddol.dogd().on(ddol.ring(5), period=2), "threads", workers=2)
    """
    rng = np.random.default_rng(seed)
    X, y = examples_for(algorithm, n_examples, n_features, rng)
    if sparse:
        X = csr_matrix(X)
    streams = [array_stream(X, y)]
    expected = run(algorithm, streams, seed=seed)
    found = run(algorithm, streams, engine=engine, workers=workers, seed=seed)
    what = (
        f"{engine} with {found.workers} workers: {algorithm.name} on {found.topology} of "
        f"{algorithm.n_agents}, batch {algorithm.batch}, period {algorithm.period}, delay "
        f"{algorithm.delay}, average {algorithm.average}, {'sparse' if sparse else 'dense'} rows"
    )
    assert found.rounds == expected.rounds, f"{what}: {found.rounds} rounds, not {expected.rounds}"
    for name in ("mistakes", "expected_mistakes", "loss", "weights"):
        one, other = getattr(found, name), getattr(expected, name)
        assert one.shape == other.shape, f"{what}: {name} {one.shape}, not {other.shape}"
        gap = np.abs(one - other).max() / max(np.abs(other).max(), 1.0)
        sums = name != "mistakes" and algorithm.mixing.is_uniform_complete
        most = 1e-9 if sums else 0.0
        assert gap <= most, f"{what}: {name} differ by {gap:.2g}"
    curves = (found.curves.mistakes, expected.curves.mistakes)
    assert np.array_equal(*curves), f"{what}: the curves of mistakes differ"
