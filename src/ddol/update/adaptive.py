"""Adaptive: mirror descent that learns each feature's centre and scale. No rate to choose.

In the coordinates x̃ of `ddol.update.coordinates` the distance-generating function is ψ(z, u) = ½ Σ_d
√P_d·(z_d − u_d)², P_d = ℓ′²/N + Σ g_d² with g = ℓ′·x̃ (AdaGrad, Duchi, Hazan and Singer), where the ℓ′
in front is that of the feature's first gradient: one example alone is little to go by. With A = 1 +
‖x̃‖², M its mean over the t steps so far, and f = 1/(1 + t/10⁴), an agent steps

    u_d ← u_d − η·n^¼·a·k_d·g_d/√P_d,   a = 1 + f·(2M/(M + A) − 1),   k_d ∝ 1 + f·max(|u_d| − 1, 0)

with Σ k_d·x̃_d² = Σ x̃_d². While little is known, a long row takes smaller steps than a short one, and
features whose weight is large take larger ones than the others of their row: a few that matter among many
are found sooner. Both would weigh some rows more than others for ever, and the weights would end
elsewhere than where the loss is least; so they fade, and AdaGrad's step remains. The score is s·(u₀ + Σ
u_d·x̃_d)/√M: one step changes it by as much in any dimension, also one of the first, when no scale is
known and M is 1. s follows the slope of the loss:

    s ← max(s·(1 + e) or s/(1 − e), 0.7),   e = −0.02·f·ℓ′/rms(ℓ′)·score, at most 0.02·f

Where scores are large and wrong, s falls; where they are right and small it rises: a rate would be chosen
for this. s is 1 where answers are numbers, or more than two classes. s and k are 1 where answers are asked
for by how sure an agent is: near a boundary they agree with it.

When a feature's centre and scale are taken anew, its weight, its √P and the intercept move along.

Neighbours average the duals √P·u and the √P with the same matrix and divide, which is the paper's argmin
for this ψ; s is averaged as it is. The mean over n agents is less noisy than one gradient, whence n^¼, found
by trial. n = √(h·N), h = N/Σ A_ij², is how many one exchange averages: N on the complete graph.

Where a gradient adds less than a sixteenth to P, its step goes by the √P before it, which then grows by
one step of Heron's, ½(√P + P/√P): hardly a step waits for a root and a quotient.

*Penalties* act on u/√M, the weights of x̃, decoupled from the gradient; s is 1 then. With h =
η·n^¼/√(M·t) in round t, L2 multiplies all weights by exp(−α₂·h), which is one factor, and L1 reads them
with the soft threshold α₁·Σh (dual averaging's: a feature stays 0 while its mean gradient is too small)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from ddol.compiled import column, inner, row, sparse
from ddol.update import answers, statistics
from ddol.update import coordinates as at
from ddol.update.contract import LOCAL, Field, Layout, Loops
from ddol.update.coordinates import CENTRE, INVERSE
from ddol.update.raw_weights import raw_weights
from ddol.update.standardising import Standardising, standardising_loops

U, ROOT, RATE, MOVE = range(at.OWN, at.OWN + 4)
STEPS, NORMS, DUAL0, ROOT0, ABOVE = range(answers.OWN_SUMS, answers.OWN_SUMS + 5)
"""Examples learned from, the sum of their 1 + ‖x̃‖², the intercept's √P·u and √P, and s − 1."""
FACTOR, SHRUNK, UNIT = range(at.NOTES, at.NOTES + 3)
"""All u are this times what is kept: L2 shrinking costs one multiplication. And 1/FACTOR. And 1/√M, as it was
when statistics were taken last."""
GAIN, PACE, FIRST, L1, L2, EAGER = range(answers.OWN_PARAMETERS, answers.OWN_PARAMETERS + 6)

RIGHT = 1.0
"""How far a score counts that is right, when s is learned: by late answers s would run away."""
FADES = 1e4
"""Steps after which what helps at the beginning counts half."""
LEAST = 0.7
"""Of s: where classes overlap, the least hinge loss may be that of a constant, and s must not find it."""

LARGE = at.GROWTH - 1.0
TINY = 1e-100
"""√P before any gradient: 0/√P is 0 without a branch."""
UNTOUCHED = 1e3 * TINY
"""√P up to here: there was none yet, though messages were averaged."""
_DUALS, _ROOTS, _SUMS = range(3, 6)
"""Rows of what agents collect for a shared copy, behind the statistics."""


@inner(inlined=True)
def _intercept(s):
    return s[DUAL0] / s[ROOT0] if s[ROOT0] > 0.0 else 0.0


@inner(inlined=True)
def _scale(s):
    return (1.0 + s[ABOVE]) * s[UNIT]


def score(w, s, p, x, index, n, D, which):
    total = _intercept(s) + s[FACTOR] * at.dot(w, s, x, index, n, D)
    return answers.predicted(s, p, _scale(s) * total)


@inner(inlined=True)
def _fading(steps):
    """What is left after so many steps of what helps at the beginning."""
    return 1.0 / (1.0 + steps / FADES)


@inner(inlined=True)
def _eager(s, p, left):
    """By how much larger a step is per |u|, as it is kept, beyond the one that is 1."""
    return left * p[EAGER] * s[FACTOR]


@inner(inlined=True)
def _beyond(u, one):
    """How far |u| is beyond 1, or 0."""
    return max(abs(u) - one, 0.0)


@inner(inlined=True)
def _stride(s, p, eta, steps, norms, norm, further, left):
    """How far to go along g/√P where a weight is 0; `further` is Σx̃² times how much farther others go."""
    squared = s[UNIT] * s[UNIT] if s[at.SAMPLES] == 0.0 else steps / norms
    short = 1.0 + left * (2.0 / (1.0 + norm * squared) - 1.0)
    return eta * p[GAIN] * short * norm / (norm + further)


@inner(inlined=True)
def _rescaled(s, p, g, root, steps, total, left):
    """By how much s changes after a slope at the score s·total/√M."""
    scale, steep = 1.0 + s[ABOVE], g * math.sqrt(steps) / root
    power = -p[PACE] * left * max(steep * _scale(s) * total, -RIGHT)
    changed = scale * (1.0 + power) if power > 0.0 else scale / (1.0 - power)
    return max(changed, LEAST) - scale


@inner(inlined=True)
def _turn(w, s, p, x, index, n, D, squared):
    """Note x̃/√P of a row in MOVE: Σx̃², Σu·x̃, Σx̃² times |u| beyond 1, and if steps come before √P grows."""
    centre, inverse, rate = row(w, CENTRE, D), row(w, INVERSE, D), row(w, RATE, D)
    u, move, most, large = row(w, U, D), row(w, MOVE, D), s[at.REACH], 0
    norm, total, further, one = 0.0, 0.0, 0.0, s[SHRUNK]
    for j in range(n):
        d = column(index, j)
        z = at.clipped((x[j] - centre[d]) * inverse[d], most)
        along = z * rate[d]
        move[j] = along
        norm += z * z
        total += z * u[d]
        further += z * z * _beyond(u[d], one)
        large += squared * along * along >= LARGE
    if large > 0:
        _grow_row(w, p, index, n, D, squared)
    return norm, total, further, large == 0


@inner(inlined=True)
def _grow(w, d, D, added):
    """Let √P grow by one step of Heron's; 1/√P follows without a quotient, to nine digits."""
    root, rate, half = row(w, ROOT, D), row(w, RATE, D), 0.5 * added
    grown, inverse = root[d] + root[d] * half, rate[d] - rate[d] * half
    off = 1.0 - grown * inverse
    root[d] = grown
    rate[d] = inverse + inverse * (off + off * off)


@inner(inlined=True)
def _much_grown(first, root, z, squared):
    """√P behind a gradient that adds much to P; of a feature's first one, with what P begins with."""
    return math.sqrt(root * root + squared * ((first if root < UNTOUCHED else 0.0) + z * z))


@inner(inlined=True)
def _grow_first(w, p, d, j, D, squared):
    """The same before a step, which goes by √P as it then is where a gradient adds much to P."""
    move, along = row(w, MOVE, D), w[MOVE * D + j]
    z, added = along * w[ROOT * D + d], squared * along * along
    if added < LARGE:
        _grow(w, d, D, added)
        return
    w[ROOT * D + d] = _much_grown(p[FIRST], w[ROOT * D + d], z, squared)
    w[RATE * D + d] = 1.0 / w[ROOT * D + d]
    move[j] = z * w[RATE * D + d]


@inner
def _grow_row(w, p, index, n, D, squared):
    """The same of a row; where it is dense, of what grows a little at once: few features grow much."""
    move = row(w, MOVE, D)
    if not sparse(index):
        for j in range(n):
            added = squared * move[j] * move[j]
            _grow(w, j, D, added if added < LARGE else 0.0)
    for j in range(n):
        if sparse(index) or squared * move[j] * move[j] >= LARGE:
            _grow_first(w, p, column(index, j), j, D, squared)


@inner
def _turn_absent(w, s, p, n, absent, D, squared):
    """The same for the centred features that a sparse row lacks, which stand behind it in MOVE."""
    norm, total, further, move = 0.0, 0.0, 0.0, row(w, MOVE, D)
    for j in range(n, n + absent):
        d = int(w[at.ABSENT * D + j - n])
        z = at.standardised(w, s, d, D, 0.0)
        move[j] = z * w[RATE * D + d]
        norm += z * z
        total += z * w[U * D + d]
        further += z * z * _beyond(w[U * D + d], s[SHRUNK])
        _grow_first(w, p, d, j, D, squared)
    return norm, total, further


@inner
def _go(w, index, n, D, along, more, one, squared, grows):
    """Step along a row, and let √P grow."""
    u, move = row(w, U, D), row(w, MOVE, D)
    if not grows:
        for j in range(n):
            d = column(index, j)
            u[d] -= (along + more * _beyond(u[d], one)) * move[j]
        return
    for j in range(n):
        d = column(index, j)
        u[d] -= (along + more * _beyond(u[d], one)) * move[j]
        _grow(w, d, D, squared * move[j] * move[j])


def step(w, s, p, x, index, n, D, g, eta, weight):
    if answers.teaches_nothing(s, p, g, weight):
        return
    g *= weight
    lead, absent = g * at.root_of_weight(s), at.list_absent(w, s, index, n, D)
    left = _fading(s[STEPS] + 1.0)
    eager, one = _eager(s, p, left), s[SHRUNK]
    norm, total, further, grows = _turn(w, s, p, x, index, n, D, lead * lead)
    if absent > 0:
        more = _turn_absent(w, s, p, n, absent, D, lead * lead)
        norm, total, further = norm + more[0], total + more[1], further + more[2]
    intercept = _intercept(s)
    root = math.sqrt(s[ROOT0] * s[ROOT0] + g * g)
    s[STEPS] += 1.0
    s[NORMS] += 1.0 + norm
    stride = _stride(s, p, eta, s[STEPS], s[NORMS], 1.0 + norm, eager * further, left)
    s[ABOVE] += _rescaled(s, p, g, root, s[STEPS], intercept + s[FACTOR] * total, left)
    s[ROOT0] = root
    s[DUAL0] = root * intercept - stride * g
    along = stride * lead * s[SHRUNK]
    _go(w, index, n, D, along, along * eager, one, lead * lead, grows)
    for k in range(absent):
        d = int(w[at.ABSENT * D + k])
        times = 1.0 + eager * _beyond(w[U * D + d], one)
        w[U * D + d] -= along * times * w[MOVE * D + n + k]


# --- one copy for all agents -------------------------------------------------------------------------


def notice(w, s, p, delta, maxima, x, index, n, D, y, weight):
    at.notice(w, s, p, delta, maxima, x, index, n, D, y, weight, _SUMS * D)


@inner(inlined=True)
def _collect(w, delta, d, D, z, squared, weight):
    """What an agent's gradient adds to √P·u and √P of one feature, but for the step.

    The step it takes along x̃/√P reaches √P·u with the √P of its message: their quotient times x̃ is returned,
    and whether the gradient adds much to P, which is left to `_collect_much`.
    """
    root, along = w[ROOT * D + d], z * w[RATE * D + d]
    added = squared * along * along
    grown = 0.5 * root * (added if added < LARGE else 0.0)
    delta[_ROOTS * D + d] += weight * grown
    delta[_DUALS * D + d] += weight * grown * w[U * D + d]
    return along * (root + grown), added >= LARGE


@inner
def _collect_much(w, p, delta, d, D, z, squared, weight):
    """The same where a gradient adds much to P; the step is along x̃/√P as it then is, and x̃ on its way."""
    along = z * w[RATE * D + d]
    if squared * along * along >= LARGE:
        grown = _much_grown(p[FIRST], w[ROOT * D + d], z, squared) - w[ROOT * D + d]
        delta[_ROOTS * D + d] += weight * grown
        delta[_DUALS * D + d] += weight * grown * w[U * D + d]


@inner
def _collect_absent(w, s, p, delta, n, absent, D, squared, weight):
    """The same for the centred features that a sparse row lacks: what `_turn_absent` sums."""
    norm, total, further = 0.0, 0.0, 0.0
    for k in range(absent):
        d = int(w[at.ABSENT * D + k])
        z = at.standardised(w, s, d, D, 0.0)
        w[MOVE * D + n + k], much = _collect(w, delta, d, D, z, squared, weight)
        if much:
            _collect_much(w, p, delta, d, D, z, squared, weight)
        norm += z * z
        total += z * w[U * D + d]
        further += z * z * _beyond(w[U * D + d], s[SHRUNK])
    return norm, total, further


def absorb(w, s, p, delta, maxima, x, index, n, D, g, eta, weight):
    """The step that the agent would take alone, with its own example counted in all sums."""
    if answers.absorbs_nothing(s, p, g, weight):
        return
    lead, absent = g * at.root_of_weight(s), at.list_absent(w, s, index, n, D)
    u, move, norm, total, further = row(w, U, D), row(w, MOVE, D), 1.0, 0.0, 0.0
    steps, large = s[STEPS] + 1.0, 0
    left = _fading(steps)
    eager, one = _eager(s, p, left), s[SHRUNK]
    for j in range(n):
        d = column(index, j)
        z = at.standardised(w, s, d, D, x[j])
        move[j], much = _collect(w, delta, d, D, z, lead * lead, weight)
        large += much
        norm += z * z
        total += z * u[d]
        further += z * z * _beyond(u[d], one)
    if large > 0:
        for j in range(n):
            d = column(index, j)
            z = at.standardised(w, s, d, D, x[j])
            _collect_much(w, p, delta, d, D, z, lead * lead, weight)
    if absent > 0:
        more = _collect_absent(w, s, p, delta, n, absent, D, lead * lead, weight)
        norm, total, further = norm + more[0], total + more[1], further + more[2]
    root, intercept, sums = math.sqrt(s[ROOT0] * s[ROOT0] + g * g), _intercept(s), _SUMS * D
    norms = s[NORMS] + norm
    stride = _stride(s, p, eta, steps, norms, norm, eager * further, left)
    changed = _rescaled(s, p, g, root, steps, intercept + s[FACTOR] * total, left)
    delta[sums + STEPS] += weight
    delta[sums + NORMS] += weight * norm
    delta[sums + ABOVE] += weight * changed
    delta[sums + ROOT0] += weight * (root - s[ROOT0])
    delta[sums + DUAL0] += weight * ((root - s[ROOT0]) * intercept - stride * g)
    duals, along = row(delta, _DUALS, D), weight * stride * lead * s[SHRUNK]
    for j in range(n):
        d = column(index, j)
        duals[d] -= along * (1.0 + eager * _beyond(u[d], one)) * move[j]
    for k in range(absent):
        d = int(w[at.ABSENT * D + k])
        duals[d] -= along * (1.0 + eager * _beyond(u[d], one)) * move[n + k]


@inner(inlined=True)
def _adopt(w, delta, d, D):
    """Add what was collected to √P·u and √P of one feature."""
    root = w[ROOT * D + d]
    dual = root * w[U * D + d] + delta[_DUALS * D + d]
    root += delta[_ROOTS * D + d]
    rate = 1.0 / root
    w[ROOT * D + d] = root
    w[RATE * D + d] = rate
    w[U * D + d] = rate * dual
    delta[_DUALS * D + d] = 0.0
    delta[_ROOTS * D + d] = 0.0


def commit(w, s, p, delta, maxima, index, n, D, eta):
    at.commit(w, s, delta, index, n, D)
    for j in range(n):
        _adopt(w, delta, column(index, j), D)
    if sparse(index):
        for k in range(int(s[at.N_CENTRED])):
            d = int(w[at.CENTRED * D + k])
            if delta[_ROOTS * D + d] != 0.0 or delta[_DUALS * D + d] != 0.0:  # no row had it
                _adopt(w, delta, d, D)


# --- exchange, and the end of a round --------------------------------------------------------------


def to_message(w, s, p, index, n, D, out):
    u, root = row(w, U, D), row(w, ROOT, D)
    duals, roots = row(out, 0, n), row(out, 1, n)
    factor, share = s[FACTOR], 1.0 / at.root_of_weight(s)
    for j in range(n):
        d = column(index, j)
        roots[j] = share * root[d]
        duals[j] = factor * share * root[d] * u[d]


def from_message(w, s, p, index, n, D, averaged):
    u, root, rate = row(w, U, D), row(w, ROOT, D), row(w, RATE, D)
    duals, roots = row(averaged, 0, n), row(averaged, 1, n)
    weight, shrunk = at.root_of_weight(s), s[SHRUNK]
    for j in range(n):
        d = column(index, j)
        root[d] = weight * roots[j]
        rate[d] = 1.0 / root[d]
        u[d] = weight * shrunk * duals[j] * rate[d]


@inner
def _follow(w, s, p, D):
    """Move weights, √P and the intercept along with coordinates: √P·u, the dual, is the same in all."""
    for k in range(int(s[at.N_MOVED])):
        d = int(w[at.MOVED * D + k])
        ratio, shift = at.moved(w, p, d, D)
        intercept = _intercept(s) + s[FACTOR] * w[U * D + d] * shift
        s[DUAL0] = s[ROOT0] * intercept
        if w[ROOT * D + d] > UNTOUCHED:
            w[U * D + d] *= ratio
            w[ROOT * D + d] /= ratio
            w[RATE * D + d] = 1.0 / w[ROOT * D + d]
    s[at.N_MOVED] = 0.0


def from_statistics(w, s, p, index, n, D, averaged):
    statistics.from_statistics(w, s, p, index, n, D, averaged)
    _follow(w, s, p, D)


@inner
def _penalise(w, s, p, D, passed):
    s[at.CLOCK] += passed
    s[FACTOR] *= math.exp(-p[L2] * passed)
    if s[FACTOR] < 1e-100:
        for d in range(D):
            w[U * D + d] *= s[FACTOR]
        s[FACTOR] = 1.0
    s[SHRUNK] = 1.0 / s[FACTOR]


def finish(w, s, p, D, t, eta):
    if s[at.SAMPLES] != 0.0 and s[STEPS] > 0.0:
        s[UNIT] = math.sqrt(s[STEPS] / s[NORMS])
    at.take_anew(w, s, p, D, t)
    if s[at.N_MOVED] != 0.0:
        _follow(w, s, p, D)
    if p[L1] + p[L2] > 0.0:
        _penalise(w, s, p, D, eta * p[GAIN] * s[UNIT] / math.sqrt(t))
    if p[answers.KEEP] == 1.0:
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
            w[RATE * D + d] = 1.0 / w[ROOT * D + d]


def weights(w, s, p, index, n, D, out):
    for d in range(D):
        w[MOVE * D + d] = _scale(s) * s[FACTOR] * w[U * D + d]
    raw_weights(w, s, p, index, n, D, out, MOVE, _scale(s) * _intercept(s))
    for d in range(D):
        w[MOVE * D + d] = 0.0


LOOPS = standardising_loops(
    score, step, finish, absorb, notice, commit, to_message, from_message, weights, from_statistics
)


# --- an L1 penalty is a threshold that weights are read with ---------------------------------------


@inner(inlined=True)
def _threshold(s, p):
    """Of u: that of the weights u/√M, times √M."""
    return p[L1] * s[at.CLOCK] / s[UNIT]


@inner(inlined=True)
def _left(u, threshold):
    """What a soft threshold leaves of a weight."""
    return max(u - threshold, 0.0) + min(u + threshold, 0.0)


def score_left(w, s, p, x, index, n, D, which):
    total, threshold = 0.0, _threshold(s, p)
    for j in range(n):
        d = column(index, j)
        z = at.standardised(w, s, d, D, x[j])
        if sparse(index):
            z -= at.standardised(w, s, d, D, 0.0)
        total += _left(s[FACTOR] * w[U * D + d], threshold) * z + 0.0 * x[j]
    if sparse(index):
        for k in range(int(s[at.N_CENTRED])):
            d = int(w[at.CENTRED * D + k])
            z = at.standardised(w, s, d, D, 0.0)
            total += _left(s[FACTOR] * w[U * D + d], threshold) * z
    return answers.predicted(s, p, _scale(s) * (_intercept(s) + total))


def weights_left(w, s, p, index, n, D, out):
    threshold = _threshold(s, p)
    for d in range(D):
        w[MOVE * D + d] = _scale(s) * _left(s[FACTOR] * w[U * D + d], threshold)
    raw_weights(w, s, p, index, n, D, out, MOVE, _scale(s) * _intercept(s))
    for d in range(D):
        w[MOVE * D + d] = 0.0


PENALISED = replace(LOOPS, score=score_left, weights=weights_left)


@dataclass(frozen=True, kw_only=True)
class Adaptive(Standardising):
    """Standardising AdaGrad on a network; see the module's docstring.

    Parameters
    ----------
    memory : float
        Rounds after which an example counts 1/e; infinite for all alike.
    l1, shrink : float
        α₁ and α₂ of the penalties; `shrink` is not the `l2` of an objective.
    outputs : int
        Set by `Algorithm`.
    chosen : bool
        Set by `Algorithm`: answers are asked for where the agent is not sure.
    """

    memory: float = math.inf  # type: ignore[misc]  # here it may be chosen
    l1: float = 0.0
    shrink: float = 0.0
    outputs: int = 1
    chosen: bool = False

    family = "adaptive"
    intercept_sums = (DUAL0, ROOT0)
    positive_sums = (STEPS, NORMS, ROOT0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.memory, str) or not self.memory > 1.0:
            raise ValueError(
                f"`memory` must be more than 1 round, or 'auto', it is {self.memory!r}"
            )
        for name in ("l1", "shrink"):
            if not 0.0 <= getattr(self, name) < math.inf:
                raise ValueError(f"`{name}` must be at least 0, it is {getattr(self, name)}")

    def with_outputs(self, outputs: int) -> Adaptive:
        """The same update, told how many outputs there are."""
        return self if outputs == self.outputs else replace(self, outputs=outputs)

    def with_chosen_answers(self, chosen: bool) -> Adaptive:
        """The same update, told whether it sees those answers only that it is not sure of."""
        return self if chosen == self.chosen else replace(self, chosen=chosen)

    def layout(self, space: str, n_features: int) -> Layout:
        """Weights, √P, and room for a step."""
        own = (
            Field("u", LOCAL),
            Field("root", LOCAL, TINY),  # √P
            Field("rate", LOCAL, 1.0 / TINY),  # 1/root
            Field("move", LOCAL),  # along which a step goes
        )
        message = (Field("dual"), Field("root", least=0.0))
        return self.standardised_layout(own, message, _SUMS)

    @property
    def own_loops(self) -> Loops:
        """The loops of this module."""
        return PENALISED if self.l1 > 0.0 else LOOPS

    @property
    def own_parameters(self) -> list[float]:
        """The size of steps, how fast s is learned, what P begins with, the penalties, and if k is used."""
        gain = (0.25 if self.regression else 1.0) * (self.at_once * self.n_agents) ** 0.125
        # Scores of several classes are compared, so that none may have a scale of its own; of two they mirror
        # each other. And answers near a boundary agree with it, wherever it is.
        plain = self.chosen or self.regression or self.outputs > 2 or self.l1 + self.shrink > 0.0
        pace = 0.0 if plain else 0.02
        eager = 0.0 if self.chosen else 1.0
        return [gain, pace, 1.0 / self.n_agents, self.l1, self.shrink, eager]
