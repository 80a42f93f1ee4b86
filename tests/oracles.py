"""The built-in updates once more, on whole vectors: NumPy formulas that share no code with the loops.

`play` plays rounds of Algorithm 1 with them. Tests compare it with the reference and the engines, which
drive the loops.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ddol.update.averaging import DualAveraging
from ddol.update.majority import Majority
from ddol.update.mirrors import MirrorDescent
from ddol.update.rates import evaluate


@dataclass
class Totals:
    """What a run came to, per agent, and the weights (N, outputs, D)."""

    mistakes: np.ndarray
    loss: np.ndarray
    expected: np.ndarray
    weights: np.ndarray


def soft_threshold(v, radius, nonnegative):
    """Euclidean projection onto the L1 ball, or onto the simplex."""
    sizes = v if nonnegative else np.abs(v)
    if not nonnegative and sizes.sum() <= radius:
        return v
    ordered = np.sort(sizes)[::-1]
    levels = (np.cumsum(ordered) - radius) / np.arange(1, v.size + 1)
    level = levels[np.flatnonzero(ordered > levels)[-1]]
    kept = np.maximum(sizes - level, 0.0)
    return kept if nonnegative else np.sign(v) * kept


def project(mirror, theta, domain):
    """Bregman projection of a dual (rows, D) onto a domain, in the dual."""
    if domain.kind == "everywhere":
        return theta
    if mirror.kind == "euclidean":
        if domain.kind == "l2_ball":
            return theta * min(1.0, domain.radius / max(float(np.linalg.norm(theta)), 1e-300))
        return soft_threshold(theta[0], domain.radius, domain.kind == "simplex")[None]
    if mirror.kind == "p_norm":
        norm = float(np.linalg.norm(theta[0], mirror.q))
        return theta * min(1.0, domain.radius / max(norm, 1e-300))
    largest = theta.max()
    log_sum = largest + math.log(np.exp(theta - largest).sum())
    outside = log_sum > math.log(domain.radius) or domain.kind == "simplex"
    return theta + (math.log(domain.radius) - log_sum) if outside else theta


class Descent:
    """θ⁺ = θ − η(g + λw) in the dual, then the projection; the dual or the primal is averaged."""

    def __init__(self, update, space):
        self.mirror, self.domain, self.l2 = update.mirror, update.domain, update.l2
        self.primal = space == "primal" and not self.mirror.self_dual
        self.log = self.primal and self.mirror.logarithmic

    def start(self, D):
        return self.mirror.start(D, self.domain)

    def weights(self, theta):
        return self.mirror.primal(theta)

    def score(self, theta, x):
        if not self.mirror.logarithmic:
            return float(self.weights(theta) @ x)
        largest = float(theta.max())  # the sign is not lost where weights are below all numbers
        return float(self.mirror.primal(theta - largest) @ x * math.exp(max(largest, -690.0)))

    def learn(self, theta, gradient, rate):
        moved = rate * (gradient + self.l2 * self.weights(theta))
        return theta - np.stack([moved, -moved])[: len(theta)]

    def project(self, theta, t, rate):
        return project(self.mirror, theta, self.domain)

    def share(self, theta):
        return self.mirror.primal(theta)[None] if self.primal and not self.log else theta

    def adopt(self, own, averaged):
        return self.mirror.dual(averaged[0]) if self.primal and not self.log else averaged


class Averaging:
    """z + g; weights −η·soft(z, λ₁t), within a ball. The state is (z, η, t, factor)."""

    log = False

    def __init__(self, update, space):
        self.l1, self.radius, self.l2 = update.l1, update.radius, 0.0

    def start(self, D):
        return np.zeros(D), 0.0, 0, 1.0

    def weights(self, state):
        z, eta, t, factor = state
        return -factor * eta * np.sign(z) * np.maximum(np.abs(z) - self.l1 * t, 0.0)

    def score(self, state, x):
        return float(self.weights(state) @ x)

    def learn(self, state, gradient, rate):
        return (state[0] + gradient, *state[1:])

    def project(self, state, t, rate):
        norm = float(np.linalg.norm(self.weights((state[0], rate, t, 1.0))))
        return state[0], rate, t, min(1.0, self.radius / norm) if norm > 0.0 else 1.0

    def share(self, state):
        return state[0][None]

    def adopt(self, own, averaged):
        return (averaged[0], *own[1:])


class Experts:
    """Log-weights; a wrong expert loses log(1/α)."""

    l2 = 0.0

    def __init__(self, update, space):
        self.update, self.log = update, space == "primal"

    def start(self, D):
        return np.zeros((1, D))

    def weights(self, theta):
        relative = np.exp(theta[0] - theta[0].max())
        return relative / relative.sum()

    def learn(self, theta, gradient, rate):
        return theta + math.log(self.update.alpha) * gradient

    def project(self, theta, t, rate):
        return theta

    def share(self, theta):
        return theta

    def adopt(self, own, averaged):
        return averaged

    def vote(self, theta, advice, answer, chance):
        """Whether the vote is wrong, and the weight of the experts that are."""
        n, weights = self.update.n_classes, self.weights(theta)
        classes = [-1.0, 1.0] if n == 2 else [float(k) for k in range(n)]
        votes = np.array([weights[advice == c].sum() for c in classes])
        if self.update.randomized:
            order = [1, 0] if n == 2 else list(range(n))  # +1 comes first between two classes
            drawn = int(np.searchsorted(np.cumsum(votes[order]), chance, side="right"))
            wrong = classes[order[min(drawn, n - 1)]] != answer
            return wrong, float(1.0 - votes[classes.index(answer)])
        if n == 2:
            return (1.0 if votes[1] - votes[0] >= -1e-12 else -1.0) != answer, 0.0
        return int(np.argmax(votes > votes.max() - 1e-12)) != answer, 0.0


ORACLES = {MirrorDescent: Descent, DualAveraging: Averaging, Majority: Experts}


def mixed(matrix, shared, log):
    """Σ_j A_ij v_j, or log Σ_j A_ij exp v_j."""
    if not log:
        return np.einsum("ij,j...->i...", matrix, shared)
    largest = shared.max(axis=0)
    with np.errstate(divide="ignore"):
        return largest + np.log(np.einsum("ij,j...->i...", matrix, np.exp(shared - largest)))


def predict(algorithm, oracle, states, x, answer, chance):
    """(wrong, expected, cost, gradients) of one example."""
    if algorithm.update.experts:
        wrong, expected = oracle.vote(states[0], x, answer, chance)
        return wrong, expected, float(wrong), [(x != answer).astype(float)]
    loss, scores = algorithm.loss, [oracle.score(state, x) for state in states]
    answers, wrong = [answer], (scores[0] >= 0) != (answer > 0)
    if len(scores) > 1:
        answers = [1.0 if k == answer else -1.0 for k in range(len(scores))]
        wrong = int(np.argmax(scores)) != answer
    pairs = list(zip(scores, answers, strict=True))
    cost = sum(loss.value(z, a, loss.parameters) for z, a in pairs)
    slopes = [loss.derivative(z, a, loss.parameters) * x for z, a in pairs]
    return bool(wrong) and algorithm.classification, 0.0, cost, slopes


def play(algorithm, X, y, table, seed=0):
    """Play the rounds of a table."""
    n, D = algorithm.n_agents, X.shape[1]
    oracle = ORACLES[type(algorithm.update)](algorithm.update, algorithm.average)
    outputs = 1 if algorithm.update.experts else algorithm.outputs
    states = [[oracle.start(D) for _ in range(outputs)] for _ in range(n)]
    pending = [[None] * n for _ in range(algorithm.delay)]
    draws = [np.random.default_rng([seed, i]) for i in range(n)]
    totals = Totals(np.zeros(n, int), np.zeros(n), np.zeros(n), np.empty(0))
    for t, dealt in enumerate(table, 1):
        rate = float(evaluate(algorithm.rate, t, 1)[0])
        answers = []
        for i in range(n):
            chances, rows = draws[i].random(algorithm.batch), dealt[i][dealt[i] >= 0]
            penalty = oracle.l2 / 2 * sum(float(np.sum(oracle.weights(s) ** 2)) for s in states[i])
            sums = [np.zeros(D) for _ in range(outputs)]
            for b, row in enumerate(rows):
                found = predict(algorithm, oracle, states[i], X[row], y[row], chances[b])
                totals.mistakes[i] += found[0]
                totals.expected[i] += found[1]
                totals.loss[i] += algorithm.C * found[2] + penalty
                for total, slope in zip(sums, found[3], strict=True):
                    total += algorithm.C * slope / len(rows)
            answers.append(sums if len(rows) else None)
        pending.append(answers)
        for i, gradients in enumerate(pending.pop(0)):
            if gradients is not None:
                pairs = zip(states[i], gradients, strict=True)
                states[i] = [oracle.learn(state, g, rate) for state, g in pairs]
        if t % algorithm.period == 0:
            if algorithm.period > 1:
                states = [[oracle.project(s, t, rate) for s in own] for own in states]
            matrix = algorithm.mixing.at(t).dense()
            shared = np.array([[oracle.share(s) for s in own] for own in states])
            averaged = mixed(matrix, shared, oracle.log)
            states = [
                [oracle.adopt(s, a) for s, a in zip(own, new, strict=True)]
                for own, new in zip(states, averaged, strict=True)
            ]
        states = [[oracle.project(s, t, rate) for s in own] for own in states]
    totals.weights = np.array([[oracle.weights(s) for s in own] for own in states])
    return totals
