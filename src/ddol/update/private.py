"""A shared learner whose messages are differentially private (DP-FTRL; Kairouz et al. 2021).

Rows x̃ are features with a centre and a scale that were fixed beforehand, and a 1 in front, at most 4 each;
the score is ⟨w, x̃⟩/‖x̃‖. Gradients of the loss by w are cut to a slope of ±1, so that none is longer than
1. Every so many examples, whatever they are, their sum is added to the dual z with the noise of tree
aggregation (Dwork et al. 2010; Chan, Shi and Song 2011): node j covers 2ʲ releases, and prefix k is known
with the noise of one node for each bit of k that is 1. Messages are z and nothing else, and the weights
are w = −η·12·z/√(t + 4s), t the examples of the agent and s about the largest variance of the noise. So
whenever and to whom messages go, they tell no more than the releases do.

What never leaves is learned by another learner, the agent's own (`ddol.update.safe`), without noise: both are
this update, and a parameter says which of them it is.

Noise is drawn by Philox4×32-10 (Salmon et al. 2011), keyed by the agent's seed and counted by node and
feature: nothing of the tree need be kept, and a run that goes on, or is replayed, draws it again.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ddol.compiled import address_of, column, floats, inner
from ddol.update.budget import Budget
from ddol.update.contract import LOCAL, Field, Layout, Loops, Update
from ddol.update.layout import INTEGER, FeatureList, Vector

Z, SUM, SQUARES, GRADIENT, OFFSET, INVERSE, OWN = range(7)
"""The dual; sums over public rows; the gradients since the last release; x̃ is x·INVERSE + OFFSET. Then the
rows of the agent's own learner."""
_ROWS = (
    Field("z"),
    Field("public sum"),
    Field("public squares"),
    Field("gradient", LOCAL),
    Field("offset", LOCAL),
    Field("inverse", LOCAL, start=1.0),
)
(
    Z0, SEEN, KEY0, KEY1, PUBLIC, EXAMPLES, WAITING, RELEASED, GRADIENT0, CONSTANT, BASES, ETA, FROZEN, SKIPS,
    OWN_SCALARS,
) = range(15)  # fmt: skip
"""The dual of the 1 in front and public rows, which are averaged; the seed; public and other examples, those
since the last release, and releases so far; Σ of the factors of gradients, ⟨z, x̃⟩ and ‖x̃‖² of a row of
zeros; η; whether scales are fixed, and the example at hand is a public one."""
_WHOLE = {"holds": INTEGER, "least": 0.0}
_SCALARS = (
    Field("z 0", least=-math.inf),
    Field("public seen", least=0.0),
    *(Field(name, LOCAL, **_WHOLE) for name in ("key 0", "key 1")),  # type: ignore[arg-type]
    *(Field(name, LOCAL, **_WHOLE) for name in ("public", "examples", "waiting", "released")),  # type: ignore[arg-type]
    *(Field(name, LOCAL) for name in ("gradient 0", "constant", "bases")),
    Field("eta", LOCAL, start=1.0),
    *(Field(name, LOCAL) for name in ("frozen", "skips")),
)
SHARED, NOISE, EVERY, RELEASES, DAMPING, PUBLIC_ROWS, OWN_PARAMETERS = range(7)

RATE = 12.0
_CAUTION = 4.0
"""Early steps are shorter where there is more noise; 0 is worse on the data tried, 16 no better."""
_MOST = 4.0
"""Scales beyond which a value counts no more."""
_WORD = 0xFFFFFFFF


@inner(inlined=True)
def _philox_round(a, b, c, d, k0, k1):
    """One round; products of two words are whole in 64 bits, whether these have a sign or not."""
    p, q = 0xD2511F53 * a, 0xCD9E8D57 * c
    high, low = (p >> 32) & _WORD, (q >> 32) & _WORD
    return low ^ b ^ k0, q & _WORD, high ^ d ^ k1, p & _WORD


@inner
def normal(k0, k1, node, level, place):
    """A draw from the standard normal distribution, by two words of the key and three numbers."""
    a, b, c, d = place, node, level, 0
    for _ in range(10):
        a, b, c, d = _philox_round(a, b, c, d, k0, k1)
        k0, k1 = (k0 + 0x9E3779B9) & _WORD, (k1 + 0xBB67AE85) & _WORD
    one = ((a >> 5) * 67108864.0 + (b >> 6) + 1.0) / 9007199254740992.0
    two = ((c >> 5) * 67108864.0 + (d >> 6)) / 9007199254740992.0
    return math.sqrt(-2.0 * math.log(one)) * math.cos(2.0 * math.pi * two)


@inner
def noise_of(k0, k1, prefix, place):
    """The noise of a prefix of the releases, of standard deviation 1 in each of its nodes."""
    total, level, left = 0.0, 0, prefix
    while left > 0:
        if left % 2 == 1:
            total += normal(k0, k1, left, level, place)
        left, level = left // 2, level + 1
    return total


@inner(inlined=True)
def _cut(z):
    return min(max(z, -_MOST), _MOST)


@inner(inlined=True)
def _squared(w, s, x, index, n, D):
    """‖x̃‖², of which the features that the row lacks have their part."""
    total = 1.0 + s[BASES]
    for j in range(n):
        d = column(index, j)
        base = _cut(w[OFFSET * D + d])
        z = _cut(x[j] * w[INVERSE * D + d] + w[OFFSET * D + d])
        total += z * z - base * base
    return max(total, 1.0)


@inner
def _score(w, s, p, x, index, n, D):
    total = s[Z0] + s[CONSTANT]
    for j in range(n):
        d = column(index, j)
        z = _cut(x[j] * w[INVERSE * D + d] + w[OFFSET * D + d])
        total += w[Z * D + d] * (z - _cut(w[OFFSET * D + d]))
    return -_pace(s, p) * total / math.sqrt(_squared(w, s, x, index, n, D))


@inner(inlined=True)
def _pace(s, p):
    return RATE * s[ETA] / math.sqrt(max(s[EXAMPLES], p[EVERY]) + p[DAMPING])


@inner
def _step(w, s, p, x, index, n, D, g, eta):
    if s[SKIPS] > 0.0 or s[RELEASED] >= p[RELEASES]:
        return
    s[ETA] = eta
    along = min(max(g, -1.0), 1.0) / math.sqrt(_squared(w, s, x, index, n, D))
    s[GRADIENT0] += along
    for j in range(n):
        d = column(index, j)
        z = _cut(x[j] * w[INVERSE * D + d] + w[OFFSET * D + d])
        w[GRADIENT * D + d] += along * (z - _cut(w[OFFSET * D + d]))


@inner
def _hear(w, s, p, x, index, n, D):
    """Count an example, whatever its answer, and release what those before it have added."""
    s[SKIPS] = 1.0 if s[PUBLIC] < p[PUBLIC_ROWS] else 0.0
    if s[SKIPS] > 0.0:
        s[PUBLIC] += 1.0
        s[SEEN] += 1.0
        for j in range(n):
            d = column(index, j)
            w[SUM * D + d] += x[j]
            w[SQUARES * D + d] += x[j] * x[j]
        return
    if s[FROZEN] == 0.0:
        _fix_scales(w, s, D)
    if s[WAITING] >= p[EVERY]:
        _release(w, s, p, D)
    s[WAITING] += 1.0
    s[EXAMPLES] += 1.0


@inner
def _fix_scales(w, s, D):
    """Take centres and scales from public rows, of all sites that have been heard, for good."""
    s[FROZEN] = 1.0
    for d in range(D):
        if s[SEEN] > 0.0 and w[SQUARES * D + d] > 0.0:
            mean = w[SUM * D + d] / s[SEEN]
            spread = w[SQUARES * D + d] / s[SEEN] - mean * mean
            varies = spread > 1e-12 * mean * mean
            w[INVERSE * D + d] = 1.0 / math.sqrt(spread) if varies else 0.0
            w[OFFSET * D + d] = -mean * w[INVERSE * D + d]
    s[CONSTANT], s[BASES] = 0.0, 0.0
    for d in range(D):
        base = _cut(w[OFFSET * D + d])
        s[CONSTANT] += w[Z * D + d] * base
        s[BASES] += base * base


@inner
def _release(w, s, p, D):
    """Add the gradients since the last release, with noise, to the dual, while the budget lasts."""
    s[WAITING] = 0.0
    if s[RELEASED] >= p[RELEASES]:
        return
    before, along = int(s[RELEASED]), s[GRADIENT0]
    k0, k1 = int(s[KEY0]), int(s[KEY1])
    s[RELEASED] += 1.0
    s[Z0] += along + p[NOISE] * (noise_of(k0, k1, before + 1, 0) - noise_of(k0, k1, before, 0))
    s[CONSTANT], s[GRADIENT0] = 0.0, 0.0
    for d in range(D):
        base = _cut(w[OFFSET * D + d])
        drawn = noise_of(k0, k1, before + 1, d + 1) - noise_of(k0, k1, before, d + 1)
        w[Z * D + d] += w[GRADIENT * D + d] + along * base + p[NOISE] * drawn
        w[GRADIENT * D + d] = 0.0
        s[CONSTANT] += w[Z * D + d] * base


def _to_message(w, s, p, index, n, D, out):
    for k in range(GRADIENT):
        for j in range(n):
            out[k * n + j] = w[k * D + column(index, j)]


def _from_message(w, s, p, index, n, D, averaged):
    for k in range(GRADIENT):
        for j in range(n):
            d = column(index, j)
            if k == Z:
                s[CONSTANT] += (averaged[j] - w[Z * D + d]) * _cut(w[OFFSET * D + d])
            w[k * D + d] = averaged[k * n + j]


@functools.cache
def private_loops(own: Loops) -> Loops:
    """The loops above where the parameter SHARED is 1; else those of the agent's own learner."""
    found: dict[str, Any] = {
        **_predicting(own),
        **_learning(own),
        "to_message": _to_message,
        "from_message": _from_message,
    }
    for name in ("begin", "finish"):
        loop = getattr(own, name)
        if loop is not None:
            found[name] = {"begin": _begin, "finish": _finish}[name](inner(loop))
    return Loops(**found, additive=True, shared=None)


@inner(inlined=True)
def _own(w, s, p, D):
    """State and parameters of the agent's own learner."""
    return (
        floats(address_of(w, OWN * D)),
        floats(address_of(s, OWN_SCALARS)),
        floats(address_of(p, OWN_PARAMETERS)),
    )


def _predicting(own: Loops) -> dict[str, Callable]:
    seen, unseen = inner(own.score), inner(own.score_unseen or own.score)
    read = inner(own.weights)

    def score(w, s, p, x, index, n, D, which):
        if p[SHARED] > 0.0:
            return _score(w, s, p, x, index, n, D)
        there = _own(w, s, p, D)
        return seen(there[0], there[1], there[2], x, index, n, D, which)

    def score_unseen(w, s, p, x, index, n, D, which):
        if p[SHARED] > 0.0:
            return _score(w, s, p, x, index, n, D)
        there = _own(w, s, p, D)
        return unseen(there[0], there[1], there[2], x, index, n, D, which)

    def weights(w, s, p, index, n, D, out):
        if p[SHARED] > 0.0:
            for j in range(n):
                d = column(index, j)
                out[j] = -_pace(s, p) * w[Z * D + d] * w[INVERSE * D + d]
        else:
            there = _own(w, s, p, D)
            read(there[0], there[1], there[2], index, n, D, out)

    return {"score": score, "score_unseen": score_unseen, "weights": weights}


def _learning(own: Loops) -> dict[str, Callable]:
    stepped, observed = inner(own.step), inner(own.observe or _see_nothing)
    heard = inner(own.hear or _hear_nothing)

    def step(w, s, p, x, index, n, D, g, eta, weight):
        if p[SHARED] > 0.0:
            _step(w, s, p, x, index, n, D, g, eta)
        else:
            there = _own(w, s, p, D)
            stepped(there[0], there[1], there[2], x, index, n, D, g, eta, weight)

    def observe(w, s, p, x, index, n, D):
        if p[SHARED] == 0.0:
            there = _own(w, s, p, D)
            observed(there[0], there[1], there[2], x, index, n, D)

    def hear(w, s, p, x, index, n, D, y):
        if p[SHARED] > 0.0:
            _hear(w, s, p, x, index, n, D)
        else:
            there = _own(w, s, p, D)
            heard(there[0], there[1], there[2], x, index, n, D, y)

    return {"step": step, "observe": observe, "hear": hear}


def _begin(begun: Callable) -> Callable:
    def begin(w, s, p, D, eta, weight):
        if p[SHARED] == 0.0:
            there = _own(w, s, p, D)
            begun(there[0], there[1], there[2], D, eta, weight)

    return begin


def _finish(finished: Callable) -> Callable:
    def finish(w, s, p, D, t, eta):
        if p[SHARED] == 0.0:
            there = _own(w, s, p, D)
            finished(there[0], there[1], there[2], D, t, eta)

    return finish


def _see_nothing(w, s, p, x, index, n, D):
    """Where the agent's own learner sees examples when they are scored."""


def _hear_nothing(w, s, p, x, index, n, D, y):
    """Where the agent's own learner hears no answers before its step."""


@dataclass(frozen=True)
class Private(Update):
    """A shared learner with a privacy budget, or the learner of an agent alone; see the module's docstring.

    Parameters
    ----------
    learner : Update
        Of an agent alone.
    budget : Budget
    shared : bool
        Which of the two it is.
    outputs : int
        Set by `Algorithm`: an example has a gradient for each.

    Examples
    --------
    >>> import ddol
    >>> algorithm = ddol.private(ddol.adaptive(), "epsilon:4")
    >>> shared, own = algorithm.update.learners
    >>> shared.shared, own.shared, [field.name for field in shared.layout("dual", 1).message_fields]
    (True, False, ['z', 'public sum', 'public squares'])
    """

    learner: Update
    budget: Budget
    shared: bool = True
    outputs: int = 1

    family = "private"
    merges = False

    @property
    def grows(self) -> bool:  # type: ignore[override]
        """As the learner."""
        return self.learner.grows

    @property
    def gradient(self) -> str:  # type: ignore[override]
        """As the learner."""
        return self.learner.gradient

    def check(self, n_features: int) -> None:
        """As the learner."""
        self.learner.check(n_features)

    def layout(self, space: str, n_features: int) -> Layout:
        """The shared learner's numbers, of which the dual and public sums are sent; then the own one's."""
        own = self.learner.layout(space, n_features)
        return Layout(
            rows=(
                *_ROWS,
                *(f._replace(name=f"its {f.name}", average=LOCAL) for f in own.row_fields),
            ),
            scalars=(
                *_SCALARS,
                *(f._replace(name=f"its {f.name}", average=LOCAL) for f in own.scalar_fields),
            ),
            lists=tuple(
                FeatureList(*(None if part is None else f"its {part}" for part in listed))  # type: ignore[arg-type]
                for listed in own.lists
            ),
        )

    def loops(self, space: str) -> Loops:
        """Those of both."""
        return private_loops(self.learner.loops(space).filled(self.learner.layout(space, 1)))

    def parameters(self) -> list[float]:
        """Which learner it is, the noise, when there are releases and how many, and the own learner's."""
        budget = self.budget
        # A slope at each of several outputs: together they are longer by their root.
        noise = budget.noise * math.sqrt(self.outputs)
        damping = _CAUTION * noise**2 * budget.releases.bit_length()
        return [
            float(self.shared), noise, float(budget.every), float(budget.releases), damping,
            float(budget.public), *map(float, self.learner.parameters()),
        ]  # fmt: skip

    def start(self, n_features: int) -> Vector:
        """Both at their start."""
        shared = Layout(_ROWS, _SCALARS).start(n_features)
        own = self.learner.start(n_features)
        return Vector(*(np.concatenate(both) for both in zip(shared, own, strict=True)))

    def seeded(self, scalars: np.ndarray, seed: int, first: int = 0) -> np.ndarray:
        """A start (agents, outputs, numbers) in which every agent draws noise of its own."""
        found = scalars.copy()
        for agent, output in np.ndindex(found.shape[:2]):
            words = np.random.SeedSequence([seed, first + agent, output]).generate_state(2)
            found[agent, output, [KEY0, KEY1]] = words
        return found

    def released(self, scalars: np.ndarray) -> int:
        """Releases of an agent, by its scalars (outputs, numbers)."""
        return int(scalars[..., RELEASED].max())

    # --- what an algorithm tells its update ------------------------------------------------------------

    def by_itself(self) -> Private:
        """The agent's own learner."""
        return replace(self, shared=False)

    def with_network(self, n_agents: int, at_once: float | None = None) -> Private:
        """The learner is that of an agent alone, whatever the network."""
        return self

    def _told(self, learner: Update) -> Private:
        return self if learner is self.learner else replace(self, learner=learner)

    def with_gradient(self, fresh: bool) -> Private:
        """As the learner."""
        return self._told(self.learner.with_gradient(fresh))

    def with_delay(self, rounds: int) -> Private:
        """As the learner."""
        return self._told(self.learner.with_delay(rounds))

    def with_outputs(self, outputs: int) -> Private:
        """The same update, told how many outputs there are."""
        told = self._told(self.learner.with_outputs(outputs))
        return told if outputs == self.outputs else replace(told, outputs=outputs)
