"""Adaptive: mirror descent that learns each feature's centre, scale and slope. No rate to choose.

In the coordinates x̃ of `ddol.update.coordinates` the distance-generating function is ψ(z, u) = ½ Σ_d
√P_d·(z_d − u_d)², P_d = Σ g_d² with g = ℓ′·x̃ (AdaGrad, Duchi, Hazan and Singer), and an agent steps
u_d ← u_d − η·N^¼·√(steps/Σ‖x̃‖²)·g_d/√P_d: one step changes a score by as much in any dimension.
Neighbours average the duals √P·u and the √P with the same matrix and divide, which is the paper's
argmin for this ψ. The mean over N agents is less noisy than one gradient, whence N^¼; it was found by
trial.

No step may change the score of its own example by more than 2·N·|ℓ′|/rms(ℓ′): on rows with many rare
features one answer would otherwise decide for all of them.

*Penalties* act on the weights of x̃, decoupled from the gradient. With h = η·N^¼·√(steps/Σ‖x̃‖²)/√t in
round t, L2 multiplies all weights by exp(−α₂·h), which is one factor, and L1 reads them with the soft
threshold α₁·Σh (dual averaging's: a feature stays 0 while its mean gradient is too small). Rows stay
O(non-zeros).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from ddol.compiled import column, inner
from ddol.update import coordinates as at
from ddol.update.contract import COLLECT, LINEAR, LOCAL, Field, Layout, Loops, Update

U, ROOT, MOVE = range(at.OWN, at.OWN + 3)
STEPS, NORMS, DUAL0, ROOT0 = range(at.OWN_SUMS, at.OWN_SUMS + 4)
"""Examples learned from, their Σ‖x̃‖², and the intercept: √P·u and √P."""
FACTOR = at.NOTES
"""All weights are this times what is kept: L2 shrinking costs one multiplication."""
GAIN, MOST, L1, L2 = range(at.OWN_PARAMETERS, at.OWN_PARAMETERS + 4)

TINY = 1e-150
"""√P before any gradient: 0/√P is 0 without a branch."""
_PRESENT = 2.0
_DUAL_SUMS, _ROOT_SUMS, _SUMS = 3, 4, 5
"""Rows of what agents collect for a shared copy, behind the statistics."""


@inner(inlined=True)
def _intercept(s):
    return s[DUAL0] / s[ROOT0] if s[ROOT0] > 0.0 else 0.0


@inner(inlined=True)
def _unit(steps, norms):
    """√(steps/Σ‖x̃‖²): makes one step change a score by as much in any dimension."""
    return math.sqrt(steps / norms) if norms > 0.0 else 0.0


def score(w, s, p, x, index, n, D, which):
    total = 0.0
    if n == D:
        for j in range(n):
            d = column(index, j)
            total += w[U * D + d] * at.standardised(w, d, D, x[j]) + 0.0 * x[j]
    else:
        for k in range(int(s[at.N_CENTRED])):
            d = int(w[at.CENTRED * D + k])
            total += w[U * D + d] * at.absent(w, d, D)
        for j in range(n):
            d = column(index, j)
            z = at.standardised(w, d, D, x[j]) - at.absent(w, d, D)
            total += w[U * D + d] * z + 0.0 * x[j]
    return at.in_units_of_answers(s, p, _intercept(s) + s[FACTOR] * total)


@inner(inlined=True)
def _stride(p, eta, g, steps, norms, root, move):
    """How far to go along g̃/√P, whose own score moves by `move`."""
    stride = eta * p[GAIN] * _unit(steps, norms)
    most = p[MOST] * abs(g) * math.sqrt(steps) / root
    return stride if stride * move <= most else most / move


@inner(inlined=True)
def _turn(w, d, D, lead):
    """Add the gradient along the x̃ in MOVE to P, and put g̃/√P in its place; what that moves the score by."""
    z = w[MOVE * D + d]
    g = lead * z
    root = math.sqrt(w[ROOT * D + d] * w[ROOT * D + d] + g * g)
    w[ROOT * D + d] = root
    w[MOVE * D + d] = g / root
    return g / root * z


@inner
def _turn_absent(w, s, index, n, D, lead):
    """The same for centred features that a sparse row does not have: (Σ z², change of the score)."""
    norm, move = 0.0, 0.0
    for j in range(n):
        w[MOVE * D + column(index, j)] = _PRESENT
    for k in range(int(s[at.N_CENTRED])):
        d = int(w[at.CENTRED * D + k])
        if w[MOVE * D + d] != _PRESENT:
            z = at.absent(w, d, D)
            norm += z * z
            w[MOVE * D + d] = z
            move += _turn(w, d, D, lead)
    return norm, move


@inner
def _follow(w, s, index, n, D, stride):
    """u ← u − stride·g̃/√P."""
    for j in range(n):
        d = column(index, j)
        w[U * D + d] -= stride * w[MOVE * D + d]
        w[MOVE * D + d] = 0.0
    if n < D:
        for k in range(int(s[at.N_CENTRED])):
            d = int(w[at.CENTRED * D + k])
            w[U * D + d] -= stride * w[MOVE * D + d]
            w[MOVE * D + d] = 0.0


def step(w, s, p, x, index, n, D, g, eta, weight):
    g *= weight
    if g == 0.0 or (p[at.REGRESSION] != 0.0 and at.was_blind(s[at.SEEN], s[at.HEARD])):
        return
    lead, first = g * math.sqrt(s[at.WEIGHT]), at.first_size(s[at.SEEN])
    norm, move = 1.0, 0.0
    if n < D:
        more, moved = _turn_absent(w, s, index, n, D, lead)
        norm += more
        move += moved
    for j in range(n):
        d = column(index, j)
        z = at.met(w, d, D, x[j], first)
        w[MOVE * D + d] = z
        norm += z * z
    for j in range(n):
        move += _turn(w, column(index, j), D, lead)
    intercept = _intercept(s)
    root = math.sqrt(s[ROOT0] * s[ROOT0] + g * g)
    s[STEPS] += 1.0
    s[NORMS] += norm
    stride = _stride(p, eta, g, s[STEPS], s[NORMS], root, abs(move + g / root))
    s[ROOT0] = root
    s[DUAL0] = root * (intercept - stride * g / root)
    _follow(w, s, index, n, D, stride / s[FACTOR])


# --- one copy for all agents -------------------------------------------------------------------------


def notice(w, s, p, delta, maxima, x, index, n, D, y, weight):
    at.notice(w, s, p, delta, x, index, n, D, y, weight, _SUMS * D)


@inner(inlined=True)
def _collect(w, delta, d, D, lead, z, weight):
    """What an agent's gradient adds to √P·u and √P, but for the step; what that changes the score by."""
    g, before = lead * z, w[ROOT * D + d]
    root = math.sqrt(before * before + g * g)
    delta[_ROOT_SUMS * D + d] += weight * (root - before)
    delta[_DUAL_SUMS * D + d] += weight * (root - before) * w[U * D + d]
    w[MOVE * D + d] = g
    return g / root * z


@inner
def _collect_absent(w, s, delta, index, n, D, lead, weight):
    norm, move = 0.0, 0.0
    for j in range(n):
        w[MOVE * D + column(index, j)] = _PRESENT
    for k in range(int(s[at.N_CENTRED])):
        d = int(w[at.CENTRED * D + k])
        if w[MOVE * D + d] != _PRESENT:
            z = at.absent(w, d, D)
            norm += z * z
            move += _collect(w, delta, d, D, lead, z, weight)
    return norm, move


@inner
def _collect_steps(w, s, delta, index, n, D, stride):
    for j in range(n):
        d = column(index, j)
        delta[_DUAL_SUMS * D + d] -= stride * w[MOVE * D + d]
        w[MOVE * D + d] = 0.0
    if n < D:
        for k in range(int(s[at.N_CENTRED])):
            d = int(w[at.CENTRED * D + k])
            delta[_DUAL_SUMS * D + d] -= stride * w[MOVE * D + d]
            w[MOVE * D + d] = 0.0


def absorb(w, s, p, delta, maxima, x, index, n, D, g, eta, weight):
    """The step that the agent would take alone, with its own example counted in all sums."""
    seen, heard = s[at.SEEN] + 1.0, s[at.HEARD] + 1.0
    if g == 0.0 or (p[at.REGRESSION] != 0.0 and at.was_blind(seen, heard)):
        return
    lead, first = g * math.sqrt(s[at.WEIGHT]), at.first_size(seen)
    norm, move = 1.0, 0.0
    if n < D:
        more, moved = _collect_absent(w, s, delta, index, n, D, lead, weight)
        norm += more
        move += moved
    for j in range(n):
        d = column(index, j)
        z = at.met(w, d, D, x[j], first)
        norm += z * z
        move += _collect(w, delta, d, D, lead, z, weight)
    root = math.sqrt(s[ROOT0] * s[ROOT0] + g * g)
    total = abs(move + g / root)
    stride = _stride(p, eta, g, s[STEPS] + 1.0, s[NORMS] + norm, root, total)
    sums = _SUMS * D
    delta[sums + STEPS] += weight
    delta[sums + NORMS] += weight * norm
    delta[sums + ROOT0] += weight * (root - s[ROOT0])
    delta[sums + DUAL0] += weight * ((root - s[ROOT0]) * _intercept(s) - stride * g)
    _collect_steps(w, s, delta, index, n, D, weight * stride / s[FACTOR])


@inner(inlined=True)
def _adopt(w, delta, d, D):
    """Add what was collected to √P·u and √P of one feature."""
    grown, before = delta[_ROOT_SUMS * D + d], w[ROOT * D + d]
    dual = before * w[U * D + d] + delta[_DUAL_SUMS * D + d]
    w[ROOT * D + d] = before + grown
    w[U * D + d] = dual / (before + grown) if grown > 0.0 else w[U * D + d]
    delta[_ROOT_SUMS * D + d] = 0.0
    delta[_DUAL_SUMS * D + d] = 0.0


def commit(w, s, p, delta, maxima, index, n, D, eta):
    at.commit(w, s, delta, index, n, D)
    for j in range(n):
        _adopt(w, delta, column(index, j), D)
    if n < D:
        for k in range(int(s[at.N_CENTRED])):
            _adopt(w, delta, int(w[at.CENTRED * D + k]), D)


# --- exchange, and the end of a round --------------------------------------------------------------


def to_message(w, s, p, index, n, D, out):
    share, factor = 1.0 / math.sqrt(s[at.WEIGHT]), s[FACTOR]
    for j in range(n):
        d = column(index, j)
        root = share * w[ROOT * D + d]
        out[j] = factor * root * w[U * D + d]
        out[n + j] = root
    at.to_message(w, s, index, n, D, out, 2)


def from_message(w, s, p, index, n, D, averaged):
    weight, factor = math.sqrt(s[at.WEIGHT]), s[FACTOR]
    for j in range(n):
        d = column(index, j)
        w[U * D + d] = averaged[j] / (factor * averaged[n + j])
        w[ROOT * D + d] = weight * averaged[n + j]
    at.from_message(w, s, index, n, D, averaged, 2)


@inner
def _penalise(w, s, p, D, passed):
    s[at.CLOCK] += passed
    s[FACTOR] *= math.exp(-p[L2] * passed)
    if s[FACTOR] < 1e-100:
        for d in range(D):
            w[U * D + d] *= s[FACTOR]
        s[FACTOR] = 1.0


def finish(w, s, p, D, t, eta):
    at.take_anew(w, s, D)
    if p[L1] + p[L2] > 0.0:
        _penalise(w, s, p, D, eta * p[GAIN] * _unit(s[STEPS], s[NORMS]) / math.sqrt(t))
    if p[at.KEEP] == 1.0:
        return
    left = at.age(s, p, t)
    s[STEPS] *= left
    s[NORMS] *= left
    s[DUAL0] *= math.sqrt(left)
    s[ROOT0] *= math.sqrt(left)
    weight = at.lighten(w, s, D)
    if weight > 1.0:
        for d in range(D):
            w[ROOT * D + d] = max(w[ROOT * D + d] / math.sqrt(weight), TINY)


def weights(w, s, p, index, n, D, out):
    for d in range(D):
        w[MOVE * D + d] = s[FACTOR] * w[U * D + d]
    at.raw_weights(w, s, p, index, n, D, out, MOVE, _intercept(s))
    for d in range(D):
        w[MOVE * D + d] = 0.0


LOOPS = Loops(
    score=score,
    step=step,
    finish=finish,
    observe=at.observe,
    absorb=absorb,
    notice=notice,
    commit=commit,
    to_message=to_message,
    from_message=from_message,
    weights=weights,
    additive=True,
    shared=COLLECT,
    propagates_nan=True,
)


# --- an L1 penalty is a threshold that weights are read with ---------------------------------------


@inner(inlined=True)
def _left(u, threshold):
    """What a soft threshold leaves of a weight."""
    return max(u - threshold, 0.0) + min(u + threshold, 0.0)


def score_left(w, s, p, x, index, n, D, which):
    total, threshold = 0.0, p[L1] * s[at.CLOCK]
    if n < D:
        for k in range(int(s[at.N_CENTRED])):
            d = int(w[at.CENTRED * D + k])
            total += _left(s[FACTOR] * w[U * D + d], threshold) * at.absent(w, d, D)
    for j in range(n):
        d = column(index, j)
        z = at.standardised(w, d, D, x[j]) - (at.absent(w, d, D) if n < D else 0.0)
        total += _left(s[FACTOR] * w[U * D + d], threshold) * z + 0.0 * x[j]
    return at.in_units_of_answers(s, p, _intercept(s) + total)


def weights_left(w, s, p, index, n, D, out):
    for d in range(D):
        w[MOVE * D + d] = _left(s[FACTOR] * w[U * D + d], p[L1] * s[at.CLOCK])
    at.raw_weights(w, s, p, index, n, D, out, MOVE, _intercept(s))
    for d in range(D):
        w[MOVE * D + d] = 0.0


PENALISED = replace(LOOPS, score=score_left, weights=weights_left)


@dataclass(frozen=True)
class Adaptive(Update):
    """Standardising AdaGrad on a network; see the module's docstring.

    Parameters
    ----------
    regression : bool
        Answers are numbers of any size and offset; else they are classes.
    memory : float
        Rounds after which an example counts 1/e; infinite for all alike.
    l1, shrink : float
        α₁ and α₂ of the penalties; `shrink` is not the `l2` of an objective.
    n_agents : int
        Set by `Algorithm.on`.
    """

    regression: bool = False
    memory: float = math.inf
    l1: float = 0.0
    shrink: float = 0.0
    n_agents: int = 1

    family = "adaptive"

    def __post_init__(self) -> None:
        at.parameters(self.memory, self.regression)
        for name in ("l1", "shrink"):
            if not 0.0 <= getattr(self, name) < math.inf:
                raise ValueError(f"`{name}` must be at least 0, it is {getattr(self, name)}")

    def with_network(self, n_agents: int) -> Adaptive:
        """The same update, told how many agents there are."""
        return replace(self, n_agents=n_agents)

    def layout(self, space: str, n_features: int) -> Layout:
        """Statistics, then weights, √P and room for a step."""
        own = (Field("u", LOCAL), Field("root", LOCAL, TINY), Field("move", LOCAL))
        message = (LINEAR, LINEAR, *at.STATISTICS)
        return Layout(at.ROWS + own, at.SCALARS, message, _SUMS, statistics=at.COUNTED)

    def loops(self, space: str) -> Loops:
        """The loops of this module."""
        loops = PENALISED if self.l1 > 0.0 else LOOPS
        return replace(loops, hear=at.hear) if self.regression else loops

    def parameters(self) -> list[float]:
        """How fast to forget, the task, the size of steps and their limit, the penalties."""
        common = at.parameters(self.memory, self.regression)
        gain = (0.25 if self.regression else 1.0) * self.n_agents**0.25
        return [*common, gain, 2.0 * self.n_agents, self.l1, self.shrink]
