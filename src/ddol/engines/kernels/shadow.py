"""The shadow of a network: one serial learner, fed with the very gradients of all agents.

Whatever the network did, with x_s the weights that made play s, g_s the subgradient there and x̃_s the
shadow's weights, Σ ⟨g_s, x_s − u⟩ = Σ ⟨g_s, x̃_s − u⟩ + Σ ⟨g_s, x_s − x̃_s⟩. The first sum is bounded
as that of any mirror descent; the second is the *drift*, summed up here at O(non-zeros) a play: ⟨g_s, x_s⟩
is the slope times the score, which is known. A term λ‖w‖²/2 is the shadow's own: it shrinks, and the drift
counts λ(‖x_s‖² − ‖x̃_s‖²)/2.

Beside it stands what each agent's own plays say of its regret, with no shadow: Σ g_s·score_s, and Σ g_s·x_s
with the mean and the spread of its rows, from which `ddol.measure.certificate` makes a local certificate.

Plays may come in any order: one after the other while events are played, or when a block is through.
"""

# Signatures say the types of compiled functions.
# mypy: disable-error-code=no-untyped-def

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ddol.compiled import (
    call_float,
    call_void,
    entry,
    floats,
    indices,
    inner,
    integers,
    packed,
    unpacked,
)
from ddol.engines.kernels.layout import BEGIN, FINISH, SCORE, SCORE_UNSEEN, SQUARES, STEP

NO_SHADOW, EUCLIDEAN, ENTROPY = range(3)

NORM, EXTENT = SCORE_UNSEEN, SQUARES
"""Parts of the shadow's own in the places of an update's; see `shadow_loops`."""
N_SCALARS = 4

# Of each agent's plays: Σ g·score, how many, and Σ g of each output behind them.
HELD, OWN_PLAYS, PULLS = range(3)
# Rows of D numbers of each agent: a reference, Σ(x − reference) and its squares, and Σ g·(x − reference) of
# each output behind them.
REFERENCE, SUM, SQUARES_SUM, PULL = range(4)

# Of all plays.
PLAYS, RATED, SQUARED, LONGEST, SMALLEST, LAST_RATE = range(6)
N_SUMS = 8


class Shadow(NamedTuple):
    """The shadow in memory; arrays are given by address."""

    kind: int
    radius: float
    """Of the L2 or L1 ball; infinite for all of the space."""
    l2: float
    outputs: int
    D: int
    parts: int
    """int64: addresses of its loops, for rows of one kind."""
    p: int
    """float64: their parameters."""
    weights: int
    """float64 (outputs, 1 or 2, D)"""
    scalars: int
    """float64 (outputs, N_SCALARS)"""
    sums: int
    """float64 (N_SUMS,)"""
    drift: int
    """float64 (agents,)"""
    rates: int
    """float64: rates of the plays from `first_play` on; 0 where they are scale/s^exponent."""
    first_play: int
    scale: float
    exponent: float
    """Negative where the rate follows the gradients."""
    dense: int
    """Whether rows have all features."""
    own: int
    """float64 (agents, PULLS + outputs); 0 where no local certificate is kept."""
    own_rows: int
    """float64 (agents, PULL + outputs, D)"""

    @classmethod
    def none(cls) -> Shadow:
        """No shadow at all."""
        return cls(**{**dict.fromkeys(cls._fields, 0), "kind": NO_SHADOW})


class Plays(NamedTuple):
    """Predictions that were made, in some order, with the scores of their rows. Arrays by address."""

    n: int
    agent: int
    """int64 (n,)"""
    place: int
    """int64 (n,): the row of each, below."""
    x: int
    features: int
    indptr: int
    y: int
    weight: int
    """See `Examples`."""
    scores: int
    """float64 (rows, outputs)"""
    slopes: int
    """float64 (outputs,): room to work in."""
    classes: bool
    C: float
    value: int
    derivative: int
    together: int
    """Of several classes at once; 0 for one against all."""
    q: int
    """The loss."""
    costs: int
    """float64 (agents,): what predictions cost, without an L2 term."""


@inner(inlined=True)
def _vector(shadow, k):
    """Addresses of the k-th weight vector and of its scalars."""
    sides = 2 if shadow.kind == ENTROPY else 1
    return shadow.weights + 8 * k * sides * shadow.D, shadow.scalars + 8 * k * N_SCALARS


@inner
def _rate(shadow, squared):
    """η of this play: of its number, or R/√(Σ‖g‖²) with this gradient included; it never rises."""
    sums = floats(shadow.sums)
    found = math.inf
    if shadow.rates != 0:
        found = floats(shadow.rates)[int(sums[PLAYS]) - shadow.first_play]
    elif shadow.exponent == 0.5:
        found = shadow.scale / math.sqrt(sums[PLAYS])
    elif shadow.exponent >= 0.0:
        found = shadow.scale / sums[PLAYS] if shadow.exponent == 1.0 else shadow.scale
    elif sums[SQUARED] + squared > 0.0:
        found = shadow.radius / math.sqrt(sums[SQUARED] + squared)
    return min(found, sums[LAST_RATE])


@inner
def _step(shadow, k, x, index, n, g, eta):
    """One weight vector steps, and how far it has come is kept."""
    parts, p, D, sums = integers(shadow.parts), shadow.p, shadow.D, floats(shadow.sums)
    w, s = _vector(shadow, k)
    if shadow.l2 > 0.0:
        call_void(parts[BEGIN], (w, s, p, D, eta, 1.0))
    if g != 0.0:
        call_void(parts[STEP], (w, s, p, x, index, n, D, g, eta, 1.0))
    call_void(parts[FINISH], (w, s, p, D, sums[PLAYS], eta))
    extent = call_float(parts[EXTENT], (w, s, p, D))
    if shadow.kind == EUCLIDEAN:
        sums[LONGEST] = max(sums[LONGEST], math.sqrt(extent))
    else:
        sums[SMALLEST] = min(sums[SMALLEST], extent)


@inner
def _note_own(shadow, agent, scores, slopes, x, index, n):
    """What a play says of its agent's own regret."""
    D, outputs, values = shadow.D, shadow.outputs, floats(x)
    own = floats(shadow.own + 8 * agent * (PULLS + outputs))
    rows = floats(shadow.own_rows + 8 * agent * (PULL + outputs) * D)
    for k in range(outputs):
        own[HELD] += slopes[k] * scores[k]
        own[PULLS + k] += slopes[k]
    begins = shadow.dense and own[OWN_PLAYS] == 0.0
    own[OWN_PLAYS] += 1.0
    for j in range(n):
        d = j if shadow.dense else np.int64(indices(index)[j])
        if begins:
            rows[REFERENCE * D + d] = values[j]
        apart = values[j] - rows[REFERENCE * D + d]
        rows[SUM * D + d] += apart
        rows[SQUARES_SUM * D + d] += apart * apart
        for k in range(outputs):
            rows[(PULL + k) * D + d] += slopes[k] * apart


@inner
def follow(shadow, agent, scores, slopes, squares, x, index, n):
    """One play: what the shadow would have scored, how far the agent was from it, and its step.

    Parameters
    ----------
    scores, slopes
        Of the agent's prediction, one per output; float64 pointers.
    squares : float
        ‖x_s‖² of the agent's weights where there is an L2 term.
    x, index, n
        The row.
    """
    parts, p, D, sums = integers(shadow.parts), shadow.p, shadow.D, floats(shadow.sums)
    if shadow.own != 0:
        _note_own(shadow, agent, scores, slopes, x, index, n)
    w, s = _vector(shadow, 0)
    length = call_float(parts[NORM], (w, s, p, x, index, n, D, 0.0))
    drift, squared = 0.5 * shadow.l2 * squares, 0.0
    sums[PLAYS] += 1.0
    for k in range(shadow.outputs):
        g = slopes[k]
        drift += scores[k] - scores[k]  # 0, or NaN: without a score there is no certificate
        if g == 0.0 and shadow.l2 == 0.0:
            continue
        w, s = _vector(shadow, k)
        z = call_float(parts[SCORE], (w, s, p, x, index, n, D, 0.0))
        drift += g * (scores[k] - z)
        squared += g * g * length
        if shadow.l2 > 0.0:
            own = call_float(parts[EXTENT], (w, s, p, D))
            squared += 2.0 * shadow.l2 * g * z + shadow.l2 * shadow.l2 * own
            drift -= 0.5 * shadow.l2 * own
    floats(shadow.drift)[agent] += drift
    eta = _rate(shadow, squared)
    sums[LAST_RATE] = eta
    if squared > 0.0:  # else there is no gradient
        sums[SQUARED] += squared
        sums[RATED] += eta * squared
        for k in range(shadow.outputs):
            _step(shadow, k, x, index, n, slopes[k], eta)


@inner
def _slopes(plays, i, outputs):
    """Slopes of a row at the scores that predicted it, and what it cost."""
    y, importance, cost = floats(plays.y)[i], plays.C, 0.0
    if plays.weight != 0:
        importance *= floats(plays.weight)[i]
    if plays.together != 0:
        scores = plays.scores + 8 * i * outputs
        cost = call_float(plays.together, (scores, outputs, y, plays.q, plays.slopes))
        for k in range(outputs):
            floats(plays.slopes)[k] *= importance
        return importance * cost
    for k in range(outputs):
        answer = y
        if plays.classes:
            answer = 1.0 if k == np.int64(y) else -1.0
        arguments = (floats(plays.scores)[i * outputs + k], answer, plays.q)
        cost += call_float(plays.value, arguments)
        floats(plays.slopes)[k] = importance * call_float(plays.derivative, arguments)
    return importance * cost


@entry("void(struct*, struct*)")
def _follow(shadow, plays):
    shadow, plays = unpacked(Shadow, shadow), unpacked(Plays, plays)
    for s in range(plays.n):
        a, i = integers(plays.agent)[s], integers(plays.place)[s]
        floats(plays.costs)[a] += _slopes(plays, i, shadow.outputs)
        start, n = i * shadow.D, shadow.D
        if plays.indptr != 0:
            start = integers(plays.indptr)[i]
            n = integers(plays.indptr)[i + 1] - start
        x, index = plays.x + 8 * start, plays.features + 4 * start
        scores = floats(plays.scores + 8 * i * shadow.outputs)
        follow(shadow, a, scores, floats(plays.slopes), 0.0, x, index, n)


def follow_plays(shadow: Shadow, plays: Plays) -> None:
    """Let the shadow follow predictions that were made before; squares of weights are not known."""
    _follow(packed(shadow), packed(plays))
