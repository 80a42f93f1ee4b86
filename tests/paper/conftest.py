"""Plain NumPy versions of the paper's algorithms, and games against which its theorems are tried.

`play_experts` and `play_mirror` are fixtures: an engine that plays the same games is one more
parameter of each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest


@dataclass(frozen=True)
class Game:
    """Experts' advice (rounds, agents, P), answers (rounds, agents), and who has an example."""

    advice: np.ndarray
    answers: np.ndarray
    present: np.ndarray

    @property
    def wrong(self):
        """Which expert errs where, (rounds, agents, P)."""
        return (self.advice != self.answers[:, :, None]) & self.present[:, :, None]


@dataclass(frozen=True)
class Played:
    """Per round and agent: mistakes, the share of weight on wrong experts; and final weights."""

    mistakes: np.ndarray
    wrong_share: np.ndarray
    log_weights: np.ndarray


def average(log_weights, how):
    """Complete graph: the geometric (dual) or arithmetic (primal) mean, for every agent."""
    if how == "dual":
        mean = log_weights.mean(axis=0)
    else:
        mean = np.logaddexp.reduce(log_weights, axis=0) - np.log(len(log_weights))
    return np.broadcast_to(mean, log_weights.shape)


def shares(log_weights):
    weights = np.exp(log_weights - log_weights.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def vote(advice, share):
    """Weighted vote: +1 wins a tie of two, the lowest class a tie of more."""
    classes = np.unique(advice)
    if set(classes) <= {-1, 1}:
        return 1 if share[advice == 1].sum() >= share[advice == -1].sum() else -1
    return classes[np.argmax([share[advice == c].sum() for c in classes])]


def play_in_numpy(game, alpha, how):
    """DWM-I (how = dual) and DWM-A (primal), line by line as in the paper."""
    rounds, n_agents, n_experts = game.advice.shape
    log_weights = np.zeros((n_agents, n_experts))
    mistakes = np.zeros((rounds, n_agents), dtype=bool)
    wrong_share = np.zeros((rounds, n_agents))
    for t in range(rounds):
        share = shares(log_weights)
        for i in np.flatnonzero(game.present[t]):
            mistakes[t, i] = vote(game.advice[t, i], share[i]) != game.answers[t, i]
        wrong_share[t] = (share * game.wrong[t]).sum(axis=1)
        log_weights = average(log_weights + np.log(alpha) * game.wrong[t], how)
    return Played(mistakes, wrong_share, log_weights)


def random_game(rng, rounds, n_agents, n_experts, n_classes=2):
    """Experts of differing skill, agents of differing difficulty, streams of unequal length."""
    classes = np.array([-1, 1]) if n_classes == 2 else np.arange(n_classes)
    answers = rng.choice(classes, size=(rounds, n_agents))
    skill = rng.beta(0.5, 0.5, size=n_experts)
    hard = rng.beta(0.5, 0.5, size=n_agents)
    wrong = rng.random((rounds, n_agents, n_experts)) < skill * hard[:, None]
    shift = rng.integers(1, n_classes, size=wrong.shape)
    index = np.searchsorted(classes, answers)[:, :, None]
    advice = classes[(index + wrong * shift) % n_classes]
    lengths = rng.integers(1, rounds + 1, size=n_agents)
    lengths[rng.integers(n_agents)] = rounds
    present = np.arange(rounds)[:, None] < lengths
    return Game(advice, answers, present)


def hostile_game(rounds, attacked, n_experts, alpha, how, spare=1):
    """At attacked agents the heaviest experts that hold half the weight err; nobody errs elsewhere.

    The first ``spare`` experts never err. The game ends when the rest no longer holds half.
    ``attacked`` tells for every agent whether it is attacked.
    """
    attacked = np.asarray(attacked, dtype=bool)
    log_weights = np.zeros((attacked.size, n_experts))
    errors = []
    for _ in range(rounds):
        share = shares(log_weights)[0]
        order = spare + np.argsort(-share[spare:], kind="stable")
        held = np.cumsum(share[order])
        # A hair more than half: exactly half could be rounded to either side.
        enough = np.searchsorted(held, 0.5 + 1e-9)
        if enough == order.size:
            break
        wrong = np.zeros((attacked.size, n_experts), dtype=bool)
        wrong[np.ix_(attacked, order[: enough + 1])] = True
        errors.append(wrong)
        log_weights = average(log_weights + np.log(alpha) * wrong, how)
    advice = np.where(np.array(errors), 1, -1)
    answers = np.full(advice.shape[:2], -1)
    return Game(advice, answers, np.ones(answers.shape, dtype=bool))


@dataclass(frozen=True)
class Mirror:
    """A mirror map with its domain; points are kept in the dual, where nothing underflows."""

    name: str
    dim: int
    start: np.ndarray
    to_primal: Callable
    project: Callable
    divergence: Callable
    dual_norm: Callable
    convexity: float
    worst: Callable


def euclidean(dim, radius):
    """All of space (radius = inf) or the L2 ball; the worst comparator stands on its edge."""
    reach = radius if np.isfinite(radius) else 3.0
    return Mirror(
        name="euclidean",
        dim=dim,
        start=np.zeros(dim),
        to_primal=lambda theta: theta,
        project=lambda theta: theta * min(1.0, radius / max(np.linalg.norm(theta), 1e-300)),
        divergence=lambda u, theta: 0.5 * np.sum((u - theta) ** 2),
        dual_norm=np.linalg.norm,
        convexity=1.0,
        worst=lambda g: -reach * g / max(np.linalg.norm(g), 1e-300),
    )


def signed_entropy(dim, radius):
    """w = w⁺ − w⁻ with both positive and ‖w⁺‖₁ + ‖w⁻‖₁ ≤ S, kept as one vector of 2·dim."""

    def divergence(u, theta):
        log_u = np.log(np.where(u > 0, u, 1))
        return np.sum(u * np.where(u > 0, log_u - theta, 0) - u + np.exp(theta))

    def worst(g):
        corner = np.zeros(2 * dim)
        corner[np.argmin(g)] = radius
        return corner

    return Mirror(
        name="signed entropy",
        dim=2 * dim,
        start=np.full(2 * dim, np.log(radius / (2 * dim))),
        to_primal=np.exp,
        project=lambda theta: theta - max(0.0, np.logaddexp.reduce(theta) - np.log(radius)),
        divergence=divergence,
        dual_norm=lambda g: np.abs(g).max(),
        convexity=1 / radius,
        worst=worst,
    )


@dataclass(frozen=True)
class Descent:
    """Duals before each round (rounds, dim), losses and subgradients (rounds, agents, …)."""

    duals: np.ndarray
    losses: np.ndarray
    gradients: np.ndarray


def descend_in_numpy(mirror, loss, rates, n_agents):
    """DOMD on the complete graph; loss(t, i, w) gives value and subgradient."""
    rounds = len(rates)
    duals = np.empty((rounds, mirror.dim))
    losses = np.zeros((rounds, n_agents))
    gradients = np.zeros((rounds, n_agents, mirror.dim))
    theta = mirror.start
    for t, rate in enumerate(rates):
        duals[t] = theta
        for i in range(n_agents):
            losses[t, i], gradients[t, i] = loss(t, i, mirror.to_primal(theta))
        theta = mirror.project((theta - rate * gradients[t]).mean(axis=0))
    return Descent(duals, losses, gradients)


@pytest.fixture(scope="session", params=["numpy"])
def play_experts(request):
    return {"numpy": play_in_numpy}[request.param]


@pytest.fixture(scope="session", params=["numpy"])
def play_mirror(request):
    return {"numpy": descend_in_numpy}[request.param]


@pytest.fixture(scope="session")
def games():
    """The ways to make a game: random ones and hostile ones."""

    class Games:
        random = staticmethod(random_game)
        hostile = staticmethod(hostile_game)

    return Games


@pytest.fixture(scope="session")
def mirrors():
    """The mirror maps by name, each a function of dimension and radius."""
    return {"euclidean": euclidean, "signed entropy": signed_entropy}
