"""The standardising updates on whole vectors, in NumPy, straight from the text of `docs/algorithms.md`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ddol.update.sketch import sign


def is_sampled(t: int) -> bool:
    """Whether statistics are taken in round t, or averaged in exchange t."""
    return t <= 256 or t * (np.sqrt(5.0) - 1.0) / 2.0 % 1.0 < 1 / 32


class Statistics:
    """What one agent knows of its features."""

    centres = 0.5

    def __init__(self, n_features: int, n_agents: int) -> None:
        self.alone = n_agents == 1
        self.seen = self.sampled = self.look = self.reach = 0.0
        self.samples = True
        self.filled, self.sum, self.squares = np.zeros((3, n_features))
        self.reference, self.centre, self.next = np.zeros((3, n_features))
        self.begun, self.before = np.zeros((2, n_features))
        self.inverse = np.full(n_features, 1e300)
        self.limit = np.full(n_features, np.inf)
        self.size, self.usual = np.full(n_features, np.nan), np.nan

    def wait(self, delay: int) -> None:
        """Slopes are so many rounds old."""

    def observe(self, x: np.ndarray) -> None:
        apart = np.where(x != 0.0, np.clip(x - self.reference, -self.limit, self.limit), 0.0)
        self.seen += 1.0
        if not self.samples:
            return
        self.sampled += 1.0
        self.filled = self.filled + (x != 0.0)
        self.sum = self.sum + apart
        self.squares = self.squares + apart**2

    def place(self, x: np.ndarray) -> np.ndarray:
        return np.clip((x - self.centre) * self.inverse, -self.reach, self.reach)

    def statistics(self) -> list[np.ndarray]:
        total = self.sum + self.filled * self.reference
        return [np.stack([self.filled, total, self.squares]), np.array(self.sampled)]

    def adopt(self, averaged: list[np.ndarray]) -> None:
        (self.filled, total, self.squares), self.sampled = averaged
        self.sum = total - self.filled * self.reference

    def finish(self, t: int) -> None:
        sampled, self.samples = self.samples, is_sampled(t + 1)
        self.retake((self.filled >= self.next) & (self.filled > 0.0))
        self.reach = min(4.0, np.sqrt(self.seen))
        if self.sampled >= self.look:
            self.look = (1.0625 - 1e-8) * self.sampled
            self.retake((self.centre != 0.0) & (self.filled < 0.8 * self.centres * self.sampled))
        if sampled and np.isfinite(self.size).any():
            self.usual = np.nanmean(self.size)

    def retake(self, due: np.ndarray) -> None:
        centre, inverse = self.centre.copy(), self.inverse.copy()
        self.take_anew(due)
        known = due & (inverse > 0.0) & (inverse < 1e299) & (self.inverse > 0.0)
        for d in np.flatnonzero(known):
            ratio, shift = inverse[d] / self.inverse[d], (self.centre[d] - centre[d]) * inverse[d]
            if max(ratio, 1.0 / ratio) * (1.0 + abs(shift)) <= 1.5:
                self.follow(d, ratio, shift)

    def follow(self, d: int, ratio: float, shift: float) -> None:
        """Let what is learned move along with a feature's centre and scale."""

    def take_anew(self, due: np.ndarray) -> None:
        for d in np.flatnonzero(due):
            late, shift = self.filled[d] - self.begun[d], self.sum[d] / self.filled[d]
            if self.begun[d] > 0.0:
                about = self.sum[d] ** 2 / max(late, 1.0)
                rest = self.squares[d] - about
                self.squares[d] += self.before[d]
                gap = self.reference[d] + self.sum[d] / max(late, 1.0)
                told = rest > 1e-13 * about or abs(gap) < 1e-5 * abs(self.reference[d])
                rest = max(rest, 1e-13 * about)
                wild = told and 1000.0 * rest * self.begun[d] < self.before[d] * late
                if self.filled[d] >= self.next[d] and wild:
                    shift, self.squares[d] = self.sum[d] / late, rest * self.filled[d] / late
            if self.next[d] == 0.0:
                rest = self.squares[d] - shift * self.sum[d]
                self.squares[d] = rest if rest > 1e-13 * shift * self.sum[d] else 0.0
            self.reference[d] += shift
            self.sum[d], self.next[d] = 0.0, (1.0625 - 1e-8) * self.filled[d]
            self.begun[d] = self.before[d] = 0.0
            within = self.squares[d] / self.filled[d]
            if self.alone and 6.0 <= self.filled[d] < 24.0:
                self.begun[d], self.before[d] = self.filled[d], self.squares[d]
                self.squares[d], self.next[d] = 0.0, 2.0 * self.filled[d]
            share, mean = self.filled[d] / self.sampled, self.reference[d]
            variance = within + mean**2 * (1.0 - share)
            varies = variance > 1e-28 * mean**2
            self.limit[d] = 8.0 * np.sqrt(variance) if varies else np.inf
            least = 0.8 * self.centres
            part = (
                np.clip((share - least) / (self.centres - 1e-8 - least), 0.0, 1.0) if least else 1.0
            )
            square = within + mean**2
            self.size[d] = np.nan if part == 1.0 or square == 0.0 else np.log(square) / 2.0
            others = self.size[d] if np.isnan(self.usual) else self.usual
            spread = max(share, 1 / 9) * variance
            if part < 1.0:
                beside = np.clip(np.exp(self.size[d] - others), 1 / 3, 1.0)
                about = (
                    share * variance + ((1.0 - part) * share * mean) ** 2
                    if share > 1 / 9
                    else square / 9
                )
                spread = about / (part + (1.0 - part) * beside) ** 2
            self.centre[d] = part * share * mean
            self.inverse[d] = 1.0 / np.sqrt(spread) if varies else 0.0


class AdaptiveAgent(Statistics):
    """Adaptive: u, and √P by Heron's steps; the intercept's is exact, and comes last."""

    def __init__(self, n_features: int, n_agents: int) -> None:
        super().__init__(n_features, n_agents)
        self.u, self.root = np.zeros((2, n_features + 1))
        self.steps = self.norms = 0.0
        self.mean = self.scale = 1.0
        self.gain, self.begin = n_agents**0.25, 1.0 / n_agents

    def score(self, x: np.ndarray) -> float:
        return self.scale * float(self.u @ np.append(self.place(x), 1.0)) / np.sqrt(self.mean)

    def step(self, x: np.ndarray, slope: float) -> None:
        z = np.append(self.place(x), 1.0)
        power = self.root**2 + (slope * z) ** 2
        first = (self.root == 0.0) & (z != 0.0)
        first[-1] = False
        power = power + np.where(first, self.begin * slope**2, 0.0)
        large = (z != 0.0) & (power >= (1.0625 - 1e-8) * self.root**2)
        large[-1] = True
        self.root = np.where(large, np.sqrt(power), self.root)
        move = np.divide(slope * z, self.root, out=np.zeros_like(z), where=self.root > 0.0)
        self.steps += 1.0
        self.norms += z @ z
        left = 1.0 / (1.0 + self.steps / 1e4)
        eager = 1.0 + left * np.maximum(np.abs(self.u) - 1.0, 0.0)
        eager[-1] = 1.0
        mean = self.norms / self.steps if self.samples else self.mean
        stride = self.gain * (1.0 + left * (2.0 * mean / (mean + z @ z) - 1.0))
        steeper = slope * np.sqrt(self.steps) / self.root[-1]
        part = -0.02 * left * max(steeper * self.score(x), -1.0)
        self.scale = max(
            self.scale * (1.0 + part) if part > 0.0 else self.scale / (1.0 - part), 0.7
        )
        self.u = self.u - stride * (z @ z) / (z @ (eager * z)) * eager * move
        heron = np.divide(power, self.root, out=np.zeros_like(z), where=self.root > 0.0)
        self.root = np.where(large, self.root, (self.root + heron) / 2.0)

    def follow(self, d: int, ratio: float, shift: float) -> None:
        self.u[-1] += self.u[d] * shift if self.root[-1] > 0.0 else 0.0
        self.u[d], self.root[d] = self.u[d] * ratio, self.root[d] / ratio

    def finish(self, t: int) -> None:
        if self.samples and self.steps:
            self.mean = self.norms / self.steps
        super().finish(t)

    def message(self) -> list[np.ndarray]:
        sums = np.array([self.seen, self.steps, self.norms, self.scale])
        return [self.root * self.u, self.root, sums]

    def receive(self, averaged: list[np.ndarray]) -> None:
        dual, self.root, sums = averaged
        self.seen, self.steps, self.norms, self.scale = sums
        self.u = np.divide(dual, self.root, out=np.zeros_like(dual), where=self.root > 0.0)


class CoinAgent(Statistics):
    """Coin: θ, G and R of every feature and, last, of the intercept."""

    def __init__(self, n_features: int, n_agents: int) -> None:
        super().__init__(n_features, n_agents)
        self.theta, self.sizes, self.reward = np.zeros((3, n_features + 1))
        self.steps = self.norms = self.slopes = 0.0
        self.most = 2.0 * n_agents

    def wait(self, delay: int) -> None:
        self.most /= np.sqrt(1.0 + delay)

    def bets(self, theta, sizes, reward, steps, norms) -> np.ndarray:
        endowment = np.sqrt(steps / norms) if norms > 0.0 else 0.0
        return theta / np.maximum(sizes + 1.0, 10.0) * (endowment + reward)

    def score(self, x: np.ndarray) -> float:
        bets = self.bets(self.theta, self.sizes, self.reward, self.steps, self.norms)
        return float(bets @ np.append(self.place(x) / 4.0, 1.0))

    def flipped(self, outcome: np.ndarray) -> list[np.ndarray]:
        bets = self.bets(self.theta, self.sizes, self.reward, self.steps, self.norms)
        rewarded = np.maximum(self.reward + outcome * bets, 0.0)
        return [self.theta + outcome, self.sizes + np.abs(outcome), rewarded]

    def step(self, x: np.ndarray, slope: float) -> None:
        z = np.append(self.place(x) / 4.0, 1.0)
        self.steps += 1.0
        self.norms += z @ z
        self.slopes += slope**2
        slope /= np.sqrt(self.slopes / self.steps)
        before = self.bets(self.theta, self.sizes, self.reward, self.steps, self.norms)
        whole = self.flipped(np.clip(-slope * z, -1.0, 1.0))
        change = abs((self.bets(*whole, self.steps, self.norms) - before) @ z)
        part = slope * min(1.0, self.most * abs(slope) / change)
        self.theta, self.sizes, self.reward = self.flipped(np.clip(-part * z, -1.0, 1.0))

    def message(self) -> list[np.ndarray]:
        coins = np.stack([self.theta, self.sizes, self.reward])
        sums = np.array([self.seen, self.steps, self.norms, self.slopes])
        return [coins, sums]

    def receive(self, averaged: list[np.ndarray]) -> None:
        coins, (self.seen, self.steps, self.norms, self.slopes) = averaged
        self.theta, self.sizes, self.reward = coins


class NewtonAgent(Statistics):
    """Newton with an explicit inverse; the intercept's matrix is a number."""

    centres = 0.0

    def __init__(self, n_features: int, n_agents: int) -> None:
        super().__init__(n_features, n_agents)
        self.u, self.matrix = np.zeros(n_features), np.eye(n_features)
        self.intercept, self.own = 0.0, 1.0
        self.steps = self.slopes = 0.0
        self.n_agents = n_agents

    def score(self, x: np.ndarray) -> float:
        return float(self.u @ self.place(x)) + self.intercept

    def step(self, x: np.ndarray, slope: float) -> None:
        self.steps += 1.0
        self.slopes += slope**2
        slope /= np.sqrt(self.slopes / self.steps)
        ratio = max(abs(slope), 1.0)
        g = slope / ratio * self.place(x)
        self.matrix = self.matrix + np.outer(g, g)
        along = ratio * np.linalg.inv(self.matrix) @ g
        longest = 2.5 * max(1.0, np.sqrt((self.own - 1.0) / 180.0))
        most = self.n_agents * slope**2
        size = min(longest, most / (ratio * g @ along)) if g.any() else longest
        self.u = self.u - size * along
        self.own += (slope / ratio) ** 2
        self.intercept -= size * slope / self.own

    def follow(self, d: int, ratio: float, shift: float) -> None:
        self.intercept += self.u[d] * shift
        self.u[d] *= ratio

    def message(self) -> list[np.ndarray]:
        own = np.array([self.own, self.own * self.intercept, self.seen, self.steps, self.slopes])
        return [self.matrix, self.matrix @ self.u, own]

    def receive(self, averaged: list[np.ndarray]) -> None:
        self.matrix, dual, scalars = averaged
        self.own, own_dual, self.seen, self.steps, self.slopes = scalars
        self.u, self.intercept = np.linalg.solve(self.matrix, dual), own_dual / self.own


class SketchAgent(NewtonAgent):
    """Newton with a sketch of three rows, with explicit inverses."""

    centres = 0.5

    def __init__(self, n_features: int, n_agents: int) -> None:
        super().__init__(n_features, n_agents)
        self.groups = np.zeros((n_features, 3))
        for d in range(n_features):
            self.groups[d, d % 3] = sign(d)
        self.power, self.sketch = np.zeros(n_features), np.zeros((n_features, 3))
        self.inverse_correlations, self.due = np.eye(n_features), 1.0

    def step(self, x: np.ndarray, slope: float) -> None:
        self.steps += 1.0
        self.slopes += slope**2
        slope /= np.sqrt(self.slopes / self.steps)
        ratio = max(abs(slope), 1.0)
        g = slope / ratio * self.place(x)
        first = np.clip(np.abs(x - self.centre) * self.inverse, 1.0, np.sqrt(self.steps)) ** 2
        self.power = np.where(self.power > 0.0, self.power, first - 1.0)
        root = 1.0 / np.sqrt(1.0 + self.power)
        along = root * (self.inverse_correlations @ (root * g))
        along = ratio * along / (1.0 + g @ along)
        longest = 2.5 * max(1.0, np.sqrt((self.own - 1.0) / 180.0))
        most = self.n_agents * slope**2
        size = min(longest, most / (ratio * g @ along)) if g.any() else longest
        self.u = self.u - size * along
        self.power = self.power + g**2
        self.sketch = self.sketch + np.outer(g, g @ self.groups)
        self.own += (slope / ratio) ** 2
        self.intercept -= size * slope / self.own

    def follow(self, d: int, ratio: float, shift: float) -> None:
        """Nothing moves along yet."""

    def finish(self, t: int) -> None:
        super().finish(t)
        if self.steps < self.due:
            return
        self.due = (1.25 - 1e-8) * self.steps
        core = np.eye(3) + self.groups.T @ self.sketch
        matrix = self.sketch @ np.linalg.solve(core, self.sketch.T)
        np.fill_diagonal(matrix, 1.0 + self.power)
        root = 1.0 / np.sqrt(1.0 + self.power)
        self.inverse_correlations = np.linalg.inv(root[:, None] * matrix * root)

    def message(self) -> list[np.ndarray]:
        *_, own = super().message()
        return [np.column_stack([self.power, (1.0 + self.power) * self.u, self.sketch]), own]

    def receive(self, averaged: list[np.ndarray]) -> None:
        rows, scalars = averaged
        own, own_dual, self.seen, self.steps, self.slopes = scalars
        self.own, self.intercept = own, own_dual / own
        self.power, self.sketch = rows[:, 0], rows[:, 2:]
        self.u = rows[:, 1] / (1.0 + self.power)


AGENTS = {
    "adaptive": AdaptiveAgent,
    "coin": CoinAgent,
    "newton": NewtonAgent,
    "sketch": SketchAgent,
}


def play(
    agents: list,
    X: np.ndarray,
    y: np.ndarray,
    matrix: np.ndarray,
    slope: Callable[[float, float], float],
    period: int = 1,
    delay: int = 0,
    gradient: str = "arrival",
) -> np.ndarray:
    """Scores of all examples, dealt round-robin."""
    n, scores = len(agents), np.empty(len(y))
    for agent in agents:
        agent.wait(delay if gradient == "kept" else 0)
    rounds = -(-len(y) // n)
    slopes = np.empty(len(y))
    for t in range(rounds):
        for i, agent in enumerate(agents):
            now, late = t * n + i, (t - delay) * n + i
            if now < len(y):
                agent.observe(X[now])
                scores[now] = agent.score(X[now])
                slopes[now] = slope(scores[now], y[now])
            if gradient == "arrival" and 0 <= late < len(y):
                slopes[late] = slope(agent.score(X[late]), y[late])
            if 0 <= late < len(y) and slopes[late] != 0.0:
                agent.step(X[late], slopes[late])
        if (t + 1) % period == 0 and n > 1:
            if period > 1:
                for agent in agents:
                    agent.finish(t + 1)
            averaged = mixed(matrix, [agent.message() for agent in agents])
            statistics = mixed(matrix, [agent.statistics() for agent in agents])
            for agent, own, shared in zip(agents, averaged, statistics, strict=True):
                agent.receive(own)
                if is_sampled((t + 1) // period):
                    agent.adopt(shared)
        for agent in agents:
            agent.finish(t + 1)
    return scores


def mixed(matrix: np.ndarray, sent: list[list[np.ndarray]]) -> list[list[np.ndarray]]:
    """What every agent receives: the parts of all messages, averaged by its row of the matrix."""
    parts = [np.array(part) for part in zip(*sent, strict=True)]
    return [[np.tensordot(row, part, 1) for part in parts] for row in matrix]
