"""Games against which the paper's theorems are tried, and two ways to play them.

`play_experts` and `play_mirror` are fixtures with two parameters each: the paper's algorithm line by
line in plain NumPy, and the library's engine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pytest

from ddol.algorithm import Algorithm
from ddol.engines.local import Local
from ddol.engines.state import start_state
from ddol.presets import drwm, dwm_a, dwm_i
from ddol.streams.rows import Block, Rows
from ddol.update import mirrors as ours
from ddol.update.contract import Vector
from ddol.update.domains import everywhere, l1_ball, l2_ball
from ddol.update.losses import Loss, hinge, loss_named

N_CLASSES = 4
"""Of games with more than two; fewer may occur in one."""


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
    """Mistakes and their chance had an expert been drawn (rounds, agents), final log-weights."""

    mistakes: np.ndarray
    expected: np.ndarray
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
    """Weighted votes of all agents: +1 wins a tie of two, the lowest class a tie of more."""
    classes = np.array([1, -1]) if advice.min() < 0 else np.arange(advice.max() + 1)
    votes = [np.sum(share * (advice == c), axis=1) for c in classes]
    return classes[np.argmax(votes, axis=0)]


def play_in_numpy(game, alpha, how, randomized=False):
    """DWM-I (how = dual) and DWM-A (primal), line by line as in the paper."""
    rounds, n_agents, n_experts = game.advice.shape
    rng = np.random.default_rng(0)
    wrong = game.wrong
    log_weights = np.zeros((n_agents, n_experts))
    mistakes = np.zeros((rounds, n_agents), dtype=bool)
    expected = np.zeros((rounds, n_agents))
    for t in range(rounds):
        share = shares(log_weights)
        expected[t] = (share * wrong[t]).sum(axis=1)
        mistakes[t] = (vote(game.advice[t], share) != game.answers[t]) & game.present[t]
        if randomized:
            mistakes[t] = rng.random(n_agents) < expected[t]
        log_weights = average(log_weights + np.log(alpha) * wrong[t], how)
    return Played(mistakes, expected, log_weights[0])


def play_in_engine(game, alpha, how, randomized=False):
    """The same by the library's compiled engine."""
    n_classes = 2 if game.answers.min() < 0 or game.advice.min() < 0 else N_CLASSES
    preset = {"dual": dwm_i, "primal": dwm_a}[how](alpha, n_classes)
    if randomized:
        preset = drwm(alpha, n_classes, average=how)
    states = list(engine_states(preset, game.advice, game.answers, game.present))
    return Played(
        np.diff([s.mistakes for s in states], axis=0),
        np.diff([s.expected for s in states], axis=0),
        preset.update.log_weights(Vector(states[-1].theta[0, 0], states[-1].scalars[0, 0])),
    )


def engine_states(algorithm, x, y, present):
    """The engine's state before each round, and after the last."""
    rounds, n_agents, width = x.shape
    rows = Rows.from_dense(x.reshape(-1, width).astype(float), y.ravel().astype(float))
    table = np.where(present, np.arange(rounds * n_agents).reshape(rounds, n_agents), -1)
    algorithm = algorithm.on(n_agents)
    engine = Local(algorithm, start_state(algorithm, width))
    yield engine.state()
    for t in range(rounds):
        engine.play(Block(rows, table[t : t + 1, :, None]))
        yield engine.state()


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
    errors: list = []
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
    # An attacked agent's answer is −1, as a tie would be lost; elsewhere it is +1.
    answers = np.broadcast_to(np.where(attacked, -1, 1), (len(errors), attacked.size))
    advice = answers[:, :, None] * np.where(np.array(errors, dtype=bool), -1, 1)
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
    update: ours.MirrorDescent


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
        update=ours.MirrorDescent(
            ours.euclidean, l2_ball(radius) if np.isfinite(radius) else everywhere
        ),
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
        update=ours.MirrorDescent(ours.signed_entropy, l1_ball(radius)),
    )


@dataclass(frozen=True)
class Problem:
    """Losses ℓ(⟨w, x⟩, y): examples (rounds, agents, …), who has one, and which ℓ of `LOSSES`."""

    x: np.ndarray
    y: np.ndarray
    present: np.ndarray
    loss: str

    def value(self, w):
        """Losses (rounds, agents) at one w for all rounds, or at one w for each."""
        scores = np.einsum("tid,td->ti", self.x, np.broadcast_to(w, self.x[:, 0].shape))
        return self.present * LOSSES[self.loss].value(scores, self.y)

    def gradients(self, w):
        """Sum over agents of the subgradients (rounds, …) at one w for each round."""
        scores = np.einsum("tid,td->ti", self.x, w)
        slopes = self.present * LOSSES[self.loss].slope(scores, self.y)
        return np.einsum("ti,tid->td", slopes, self.x)


class LossPair(NamedTuple):
    """A loss and its derivative on arrays, and the library's loss of the same name."""

    value: Callable
    slope: Callable
    ours: Loss


LOSSES = {
    "linear": LossPair(
        lambda z, y: y * z,
        lambda z, y: y + 0 * z,
        Loss("linear", lambda z, y, p: y * z, lambda z, y, p: y),
    ),
    "hinge": LossPair(
        lambda z, y: np.maximum(0, 1 - y * z), lambda z, y: np.where(y * z < 1, -y, 0.0), hinge
    ),
    "absolute": LossPair(
        lambda z, y: np.abs(z - y), lambda z, y: np.sign(z - y), loss_named("absolute")
    ),
    "squared": LossPair(lambda z, y: (z - y) ** 2 / 2, lambda z, y: z - y, loss_named("squared")),
}


def descend_in_numpy(mirror, problem, rate, hostile=False):
    """DOMD on the complete graph: duals before each round, and the answers given.

    A hostile environment answers so that the present w loses most.
    """
    loss = LOSSES[problem.loss]
    y = problem.y.copy()
    duals = np.empty((len(y), mirror.dim))
    theta = mirror.start
    for t in range(len(y)):
        duals[t] = theta
        x = problem.x[t]
        scores = x @ mirror.to_primal(theta)
        if hostile:
            worse = loss.value(scores, 1.0) >= loss.value(scores, -1.0)
            y[t] = np.where(worse, 1.0, -1.0)
        slopes = problem.present[t] * loss.slope(scores, y[t])
        theta = mirror.project(theta - rate(np.array([t + 1.0])) * (slopes @ x) / len(x))
    return duals, y


def descend_in_engine(mirror, problem, rate):
    """The same by the library's compiled engine, from the state of which the dual is read."""
    algorithm = Algorithm("descent", mirror.update, LOSSES[problem.loss].ours, rate)
    signed = mirror.name == "signed entropy"
    x = problem.x[:, :, : mirror.dim // 2] if signed else problem.x
    states = list(engine_states(algorithm, x, problem.y, problem.present))[:-1]
    if signed:
        return np.array([(s.theta[0, 0, :2] + s.scalars[0, 0, 0]).ravel() for s in states])
    return np.array([s.theta[0, 0, 0] * s.scalars[0, 0, 0] for s in states])


def random_problem(rng, mirror, rounds, n_agents, loss, rate, hostile):
    """Random examples; some rounds without one; answers at random, or those that hurt most."""
    signed = mirror.name == "signed entropy"
    x = rng.normal(size=(rounds, n_agents, mirror.dim // (1 + signed)))
    x *= rng.choice([0.1, 1.0, 3.0])
    y = rng.choice([-1.0, 1.0], size=(rounds, n_agents))
    present = rng.random((rounds, n_agents)) < 0.9
    problem = Problem(np.concatenate([x, -x], axis=2) if signed else x, y, present, loss)
    if not hostile:
        return problem
    return replace(problem, y=descend_in_numpy(mirror, problem, rate, hostile=True)[1])


@pytest.fixture(scope="session", params=["numpy", "engine"])
def play_experts(request):
    return {"numpy": play_in_numpy, "engine": play_in_engine}[request.param]


@pytest.fixture(scope="session", params=["numpy", "engine"])
def play_mirror(request):
    if request.param == "engine":
        return descend_in_engine
    return lambda mirror, problem, rate: descend_in_numpy(mirror, problem, rate)[0]


@pytest.fixture(scope="session")
def games():
    """The ways to make a game: random ones and hostile ones."""

    class Games:
        random = staticmethod(random_game)
        hostile = staticmethod(hostile_game)

    return Games


@pytest.fixture(scope="session")
def problems():
    """A function that makes a convex problem for a mirror map, random or hostile."""
    return random_problem


@pytest.fixture(scope="session")
def one_each():
    """A function that makes the problem in which agent i always wants |w − goal_i| to be small."""

    def make(goals, rounds):
        y = np.tile(goals, (rounds, 1))
        return Problem(np.ones((*y.shape, 1)), y, np.ones(y.shape, dtype=bool), "absolute")

    return make


@pytest.fixture(scope="session")
def mirrors():
    """The mirror maps by name, each a function of dimension and radius."""
    return {"euclidean": euclidean, "signed entropy": signed_entropy}
