"""Asking and talking against loops that were written from the theorems' texts alone, in plain NumPy."""

import math

import numpy as np
import pytest

import ddol

N, D, ROUNDS = 5, 4, 120
RNG = np.random.default_rng(11)
X = RNG.standard_normal((N * ROUNDS, D))
Y = np.where(X @ RNG.standard_normal(D) + 0.3 * RNG.standard_normal(len(X)) > 0, 1.0, -1.0)
AROUND = [((i - 1) % N, (i + 1) % N) for i in range(N)]


def chances(seed=0):
    """A uniform number for every agent and round, as runs draw them."""
    streams = [np.random.PCG64(np.random.SeedSequence([seed, i])) for i in range(N)]
    return np.array([np.random.Generator(bits).random(ROUNDS) for bits in streams]).T


class GradientDescent:
    """Hinge loss, steps 1/√t, agents on a ring that keep a third and take a third from either side.

    Everything that agents may do less of is a function to be replaced.
    """

    def __init__(self):
        self.w, self.mistakes = np.zeros((N, D)), 0
        self.sent, self.last = np.zeros(N, int), np.zeros((N, D))
        self.lessons, self.labels = 0, 0

    def play(self):
        draws = chances()
        for t in range(1, ROUNDS + 1):
            now = slice((t - 1) * N, t * N)
            scores = np.sum(X[now] * self.w, axis=1)
            self.mistakes += np.count_nonzero((scores >= 0) != (Y[now] > 0))
            for i, (x, y, score) in enumerate(zip(X[now], Y[now], scores, strict=True)):
                weight = self.asks(i, t, abs(score), draws[t - 1, i])
                if weight > 0:
                    self.labels += 1
                    self.learn(i, t, x, y, score, weight)
            self.exchange(t)
        return self

    def asks(self, i, t, margin, chance):
        return 1.0

    def learn(self, i, t, x, y, score, weight):
        if y * score < 1:
            self.w[i] = self.w[i] + weight * y * x / math.sqrt(t)

    def says(self, i, t):
        return True

    def written(self, w):
        return w

    def exchange(self, t):
        news = [self.says(i, t) for i in range(N)]
        for i in np.flatnonzero(news):
            self.sent[i] += 1
            self.last[i] = self.written(self.w[i])
        mixed = self.w.copy()
        for i, (left, right) in enumerate(AROUND):
            if news[i] or news[left] or news[right]:
                mixed[i] = (self.w[i] + self.last[left] + self.last[right]) / 3
        self.w = mixed


class Selective(GradientDescent):
    """Cesa-Bianchi, Gentile and Zaniboni: ask with probability b/(b + |score|)."""

    b, unbiased = 0.5, False

    def asks(self, i, t, margin, chance):
        q = self.b / (self.b + margin)
        return (1.0 / q if self.unbiased else 1.0) if chance < q else 0.0


class Unbiased(Selective):
    """The same, and gradients divided by the probability."""

    unbiased = True


class Silent(GradientDescent):
    """Say something when the squared way since the last time is more than E/√t of that from the start."""

    E = 0.02

    def says(self, i, t):
        way = np.sum(self.w[i] ** 2)
        return way > 0 and np.sum((self.w[i] - self.last[i]) ** 2) / way > self.E / math.sqrt(t)


class Single(Silent):
    """The same in single precision."""

    def written(self, w):
        return w.astype(np.float32).astype(float)


class Teacher(GradientDescent):
    """Nothing is said; an example goes to the neighbour whom it brings closest to the teacher's weights."""

    def __init__(self):
        super().__init__()
        self.view = {(i, j): np.zeros(D) for i in range(N) for j in AROUND[i]}
        self.pace = np.zeros(N)  # of the teacher's own last step

    def says(self, i, t):
        return False

    def learn(self, i, t, x, y, score, weight):
        super().learn(i, t, x, y, score, weight)
        eta, best, most = 1 / math.sqrt(t), None, 0.0
        self.pace[i] = eta if y * score < 1 else self.pace[i]
        for j in sorted(AROUND[i]):
            g = -y * x if y * (x @ self.view[i, j]) < 1 else np.zeros(D)
            apart = (self.view[i, j] - self.w[i]) @ g
            change = self.pace[i] ** 2 * g @ g - 2 * self.pace[i] * apart
            if change < most:
                best, most = j, change
        if best is not None:
            self.lessons += 1
            for place, key in ((self.view, (i, best)), (self.w, best)):
                if y * (x @ place[key]) < 1:
                    place[key] = place[key] + eta * y * x


CASES = {
    "plain": (GradientDescent, {}, 8),
    "b": (Selective, {"query": "b:0.5"}, 8),
    "unbiased": (Unbiased, {"query": "unbiased:0.5"}, 8),
    "drift": (Silent, {"talk": "drift:0.02"}, 8),
    "float32": (Single, {"talk": "drift:0.02", "compress": "float32"}, 4),
    "teach": (Teacher, {"talk": "never", "teach": 1}, None),
}


@pytest.mark.parametrize("case", CASES)
def test_gradient_descent_by_hand(case):
    by_hand, options, size = CASES[case]
    expected = by_hand().play()
    trace = ddol.run(ddol.dogd(l2=0.0), (X, Y), ddol.ring(N), **options)
    assert (trace.labels, int(trace.mistakes.sum())) == (expected.labels, expected.mistakes)
    np.testing.assert_allclose(trace.weights[:, 0], expected.w, rtol=1e-9, atol=1e-12)
    if size is None:  # a lesson is an example and its answer
        assert trace.messages == expected.lessons > 0
        assert trace.bytes_sent == 8 * (D + 1) * expected.lessons
    else:
        assert trace.messages == 2 * expected.sent.sum()
        assert trace.bytes_sent == 2 * size * D * expected.sent.sum()


@pytest.mark.parametrize("n_agents", [1, 3])
def test_experts_by_hand(n_agents):
    """Castro, Hellström and van Erven, with geometric means of the weights of all agents."""
    alpha, rounds = 0.8, 150
    answers = RNG.choice([-1.0, 1.0], n_agents * rounds)
    right = RNG.random((len(answers), 6)) < np.array([0.9, 0.7, 0.6, 0.5, 0.5, 0.4])
    advice = np.where(right, answers[:, None], -answers[:, None])
    eta, log_w, labels, mistakes = -math.log(alpha), np.zeros((n_agents, 6)), 0, 0
    streams = [np.random.PCG64(np.random.SeedSequence([0, i])) for i in range(n_agents)]
    draws = np.array([np.random.Generator(bits).random(rounds) for bits in streams])
    for t in range(rounds):
        for i in range(n_agents):
            said, answer = advice[t * n_agents + i], answers[t * n_agents + i]
            w = np.exp(log_w[i] - log_w[i].max())
            A = w[said > 0].sum() / w.sum()
            mistakes += (A >= 0.5) != (answer > 0)
            q = min(4 * A * (1 - A) + eta / 3, 1.0)
            if draws[i, t] < q:
                labels += 1
                log_w[i] -= eta * (said != answer) / q
        log_w[:] = log_w.mean(axis=0)
    trace = ddol.run(ddol.dwm_i(alpha), (advice, answers), n_agents, query="experts")
    assert (trace.labels, int(trace.mistakes.sum())) == (labels, mistakes)
    assert labels < len(answers)
    weights = np.exp(log_w - log_w.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(
        trace.weights[:, 0] / trace.weights[:, 0].sum(axis=1, keepdims=True), weights, rtol=1e-9
    )
