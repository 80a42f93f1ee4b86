"""The online Newton step with a sketch of rank m: O(m·non-zeros) an example, for any number of features.

`ddol.update.newton` keeps A = I + Σ g̃g̃ᵀ whole. Here its diagonal 1 + P is kept, always current, and
of the rest a sketch Y = Σ g̃g̃ᵀΩ of m rows, where Ω puts feature d, with a sign drawn by its number,
into group d mod m. With C = ΩᵀY, Nyström's YC⁻¹Yᵀ is Σ g̃g̃ᵀ seen through m sums of its columns, and
what of the diagonal it does not explain stays diagonal:

    A ≈ R + Y(C + I)⁻¹Yᵀ,   R = diag(1 + P − Y(C + I)⁻¹Yᵀ) ≥ 1

Where m ≥ D, every feature has a group of its own, and this is A, but for what the I adds to C. With S =
diag(1 + P)^−½ the inverse is S(F − BBᵀ)S, by Woodbury's formula. F and B, which tell how features go
together, are taken anew when the steps have grown by a quarter, in O(m²·D); S follows every step.

Rare features have large values. Where a feature's first x̃ would be more than 1 without the clip, 1 + P begins
with its square, and at most with the number of steps: else the rare features of an example explain it all
by themselves, and the others learn nothing.

A step goes along A⁻¹g̃/(1 + g̃ᵀA⁻¹g̃), which has its own example in A, and as far as `newton` would. It
moves all weights, so they are kept as u + SBb: a step changes the m numbers b, and u where the row is.

The sketch is a sum, as A is: neighbours average P, Y and the duals (1 + P)·u. The quotient is the paper's
argmin for the diagonal of A, and keeps what agents agree about; B and F stay their own. No theorem covers
it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ddol.compiled import address_of, column, floats, inner, row, sparse
from ddol.update import answers
from ddol.update import coordinates as at
from ddol.update.contract import LINEAR, LOCAL, Field, Layout, Loops
from ddol.update.newton import DUAL0, MATRIX0, SLOPES, STEPS, bend, counted, intercept, length
from ddol.update.raw_weights import raw_weights
from ddol.update.standardising import Standardising, standardising_loops

U, POWER, ROOT, FREE, NOW, KNOWN, SCALED, MOVE, BASIS = range(at.OWN, at.OWN + 9)
"""Weights but for b, P, S, F; of a gradient, place by place, g̃, 1 + P, Sg̃ and a move; B, and behind it Y."""
CHANGED, NEXT = at.CLOCK, at.NOTES
"""Whether a round's steps wait to be followed; the steps at which F and B are taken anew."""
B, WAITING, FOUND, GROUPS, CORE = range(5)
"""Vectors of m numbers behind the other scalars: b, what it waits for, BᵀSg̃, Ωᵀg̃; then two matrices."""
RANK = answers.OWN_PARAMETERS + 1
"""Behind what `newton` has."""
_POWER, _DUALS, _SKETCH = 3, 4, 5
"""Rows of what agents collect for a shared copy, behind the statistics; the last is for b."""

GROWTH = 1.25 - 1e-8
"""As in the coordinates, a little less than what is said."""
MOST = 1000
"""Largest rank: two matrices of m² numbers per weight vector."""


@inner(inlined=True)
def _rank(p):
    return int(p[RANK])


@inner(inlined=True)
def _row(w, k, D):
    return floats(address_of(w, k * D))


@inner(inlined=True)
def _vector(s, p, which):
    return floats(address_of(s, len(at.SCALARS) + which * _rank(p)))


@inner(inlined=True)
def _matrix(s, p, which):
    return floats(address_of(s, len(at.SCALARS) + (CORE + which * _rank(p)) * _rank(p)))


@inner(inlined=True)
def sign(d):
    """+1 or −1, drawn by a feature's number."""
    mixed = (d * 2654435761) & 0xFFFFFFFF
    mixed = ((mixed ^ (mixed >> 15)) * 2246822519) & 0xFFFFFFFF
    return 1.0 if (mixed >> 13) & 1 else -1.0


@inner(inlined=True)
def _along_basis(w, s, p, d, D, which):
    """A feature's row of B times one of the vectors."""
    total, vector = 0.0, _vector(s, p, which)
    for k in range(_rank(p)):
        total += w[(BASIS + k) * D + d] * vector[k]
    return total


@inner(inlined=True)
def _weight(w, s, p, d, D):
    return w[U * D + d] + w[ROOT * D + d] * _along_basis(w, s, p, d, D, B)


def score(w, s, p, x, index, n, D, which):
    total = intercept(s)
    for j in range(n):
        d = column(index, j)
        z = at.standardised(w, s, d, D, x[j])
        if sparse(index):
            z -= at.standardised(w, s, d, D, 0.0)
        total += _weight(w, s, p, d, D) * z + 0.0 * x[j]
    if sparse(index):
        for k in range(int(s[at.N_CENTRED])):
            d = int(w[at.CENTRED * D + k])
            total += _weight(w, s, p, d, D) * at.standardised(w, s, d, D, 0.0)
    return answers.predicted(s, p, total)


# --- a step ------------------------------------------------------------------------------------------


@inner(inlined=True)
def _feature(w, index, n, j, D):
    """Feature j of a gradient: those of the row, then the centred ones that it lacks."""
    if sparse(index) and j >= n:
        return int(w[at.ABSENT * D + j - n])
    return int(column(index, j))


@inner(inlined=True)
def _known(w, d, D, x, steps):
    """1 + P of a feature before a step; before its first one, what a rare feature begins with."""
    if w[POWER * D + d] > 0.0:
        return 1.0 + w[POWER * D + d]
    z = min(abs(x - w[at.CENTRE * D + d]) * w[at.INVERSE * D + d], 1e100)
    return min(max(z * z, 1.0), steps)


@inner
def _place(w, s, x, index, n, D, slope, steps):
    """NOW ← g̃ of a row; how many features it has, with the centred ones that the row lacks."""
    count = n + at.list_absent(w, s, index, n, D)
    now, known, scaled = row(w, NOW, D), row(w, KNOWN, D), row(w, SCALED, D)
    for j in range(count):
        d, value = _feature(w, index, n, j, D), x[j] if j < n else 0.0
        now[j] = slope * at.standardised(w, s, d, D, value)
        known[j] = _known(w, d, D, value, steps)
        scaled[j] = now[j] / math.sqrt(known[j])
    return count


@inner
def _project(w, s, p, index, n, count, D):
    """FOUND ← BᵀSg̃, GROUPS ← Ωᵀg̃; g̃ᵀA⁻¹g̃."""
    now, scaled, free, m = row(w, NOW, D), row(w, SCALED, D), row(w, FREE, D), _rank(p)
    found, groups, total = _vector(s, p, FOUND), _vector(s, p, GROUPS), 0.0
    for k in range(m):
        groups[k] = 0.0
    for j in range(count):
        d = _feature(w, index, n, j, D)
        total += free[d] * scaled[j] * scaled[j]
        groups[d % m] += sign(d) * now[j]
    for k in range(m):
        basis, along = _row(w, BASIS + k, D), 0.0
        for j in range(count):
            along += basis[_feature(w, index, n, j, D)] * scaled[j]
        found[k] = along
        total -= along * along
    return max(total, 0.0)


@inner
def _turn(w, s, p, index, n, count, D, which):
    """MOVE ← B times one of the vectors, where the gradient is."""
    move, vector = row(w, MOVE, D), _vector(s, p, which)
    for j in range(count):
        move[j] = 0.0
    for k in range(_rank(p)):
        basis, part = _row(w, BASIS + k, D), vector[k]
        for j in range(count):
            move[j] += part * basis[_feature(w, index, n, j, D)]


@inner
def _add_to_sketch(w, s, p, index, n, count, D, weight, out, place):
    """Y ← Y + g̃ g̃ᵀΩ, in rows of `out` from `place` on."""
    now, groups = row(w, NOW, D), _vector(s, p, GROUPS)
    for k in range(_rank(p)):
        sketch, part = _row(out, place + k, D), weight * groups[k]
        for j in range(count):
            sketch[_feature(w, index, n, j, D)] += part * now[j]


def step(w, s, p, x, index, n, D, g, eta, weight):
    if answers.teaches_nothing(s, p, g, weight):
        return
    slope = counted(s, g * weight)
    bent = bend(slope)
    ratio = slope / bent
    count = _place(w, s, x, index, n, D, bent, s[STEPS])
    own = _project(w, s, p, index, n, count, D)
    size = length(p, eta, slope, ratio * ratio * own / (1.0 + own), s[MATRIX0])
    along, b, found = size * ratio / (1.0 + own), _vector(s, p, B), _vector(s, p, FOUND)
    for k in range(_rank(p)):
        b[k] += along * found[k]
    _turn(w, s, p, index, n, count, D, B)
    u, power, root, free = row(w, U, D), row(w, POWER, D), row(w, ROOT, D), row(w, FREE, D)
    now, known, move = row(w, NOW, D), row(w, KNOWN, D), row(w, MOVE, D)
    for j in range(count):
        d = _feature(w, index, n, j, D)
        before = root[d]
        grown = known[j] + now[j] * now[j]
        power[d] = grown - 1.0
        root[d] = 1.0 / math.sqrt(grown)
        # SBb stays what it is while S shrinks; and the step that is not along B.
        u[d] += (before - root[d]) * move[j] - along * free[d] * now[j] / known[j]
    _add_to_sketch(w, s, p, index, n, count, D, 1.0, w, BASIS + _rank(p))
    first = intercept(s)
    s[MATRIX0] += bent * bent
    s[DUAL0] = (1.0 + s[MATRIX0]) * first - size * slope


# --- one copy for all agents -------------------------------------------------------------------------


@inner(inlined=True)
def _rows_for(m, D):
    """Rows of D numbers that hold m of them."""
    return (m + D - 1) // D


@inner(inlined=True)
def _sums(p, D):
    """Place of the scalars behind the rows that are collected."""
    return (_SKETCH + _rank(p) + _rows_for(_rank(p), D)) * D


def notice(w, s, p, delta, maxima, x, index, n, D, y, weight):
    at.notice(w, s, p, delta, maxima, x, index, n, D, y, weight, _sums(p, D))


def absorb(w, s, p, delta, maxima, x, index, n, D, g, eta, weight):
    """The step that the agent would take alone; what it moves of everybody's weights is a change of b."""
    if answers.absorbs_nothing(s, p, g, weight):
        return
    slope = g * math.sqrt((s[STEPS] + 1.0) / (s[SLOPES] + g * g))
    bent = bend(slope)
    ratio = slope / bent
    count, m, sums = _place(w, s, x, index, n, D, bent, s[STEPS] + 1.0), _rank(p), _sums(p, D)
    own = _project(w, s, p, index, n, count, D)
    size = length(p, eta, slope, ratio * ratio * own / (1.0 + own), s[MATRIX0])
    along, found = size * ratio / (1.0 + own), _vector(s, p, FOUND)
    _turn(w, s, p, index, n, count, D, FOUND)
    now, known, move, free = row(w, NOW, D), row(w, KNOWN, D), row(w, MOVE, D), row(w, FREE, D)
    for j in range(count):
        d, added = _feature(w, index, n, j, D), now[j] * now[j]
        ahead = (1.0 + added / known[j]) * free[d] * now[j] - added * w[ROOT * D + d] * move[j]
        delta[_POWER * D + d] += weight * (known[j] - 1.0 - w[POWER * D + d] + added)
        delta[_DUALS * D + d] -= weight * along * ahead
    _add_to_sketch(w, s, p, index, n, count, D, weight, delta, _SKETCH)
    for k in range(m):
        delta[(_SKETCH + m) * D + k] += weight * along * found[k]
    squared = bent * bent
    delta[sums + STEPS] += weight
    delta[sums + SLOPES] += weight * g * g
    delta[sums + MATRIX0] += weight * squared
    delta[sums + DUAL0] += weight * (squared * intercept(s) - size * slope)


@inner
def _adopt(w, s, p, delta, d, D):
    """Add what was collected to the dual, to P and to Y of one feature."""
    added, m = delta[_POWER * D + d], _rank(p)
    if added == 0.0:
        return
    before, lean = w[ROOT * D + d], _along_basis(w, s, p, d, D, B)
    waiting = _along_basis(w, s, p, d, D, WAITING)
    u = w[U * D + d] + before * lean
    w[POWER * D + d] += added
    grown = 1.0 + w[POWER * D + d]
    root = 1.0 / math.sqrt(grown)
    dual = grown * u + waiting / before + delta[_DUALS * D + d]
    w[ROOT * D + d] = root
    w[U * D + d] = dual / grown - root * (lean + waiting)
    delta[_POWER * D + d] = 0.0
    delta[_DUALS * D + d] = 0.0
    for k in range(m):
        w[(BASIS + m + k) * D + d] += delta[(_SKETCH + k) * D + d]
        delta[(_SKETCH + k) * D + d] = 0.0


def commit(w, s, p, delta, maxima, index, n, D, eta):
    at.commit(w, s, delta, index, n, D)
    if s[CHANGED] == 0.0:
        s[CHANGED] = 1.0
        m, waiting = _rank(p), _vector(s, p, WAITING)
        for k in range(m):
            waiting[k] = delta[(_SKETCH + m) * D + k]
            delta[(_SKETCH + m) * D + k] = 0.0
    for j in range(n):
        _adopt(w, s, p, delta, int(column(index, j)), D)
    if sparse(index):
        for k in range(int(s[at.N_CENTRED])):
            _adopt(w, s, p, delta, int(w[at.CENTRED * D + k]), D)


# --- the end of a round, and exchange ----------------------------------------------------------------


@inner
def _factorise(matrix, m):
    """L of a positive matrix, LLᵀ, in the place of its lower triangle."""
    for i in range(m):
        for j in range(i + 1):
            total = matrix[i * m + j]
            for k in range(j):
                total -= matrix[i * m + k] * matrix[j * m + k]
            matrix[i * m + j] = math.sqrt(total) if i == j else total / matrix[j * m + j]


@inner
def _solve(w, m, D, factor):
    """Rows of B ← L⁻¹ times them."""
    for i in range(m):
        own = _row(w, BASIS + i, D)
        for k in range(i):
            known, part = _row(w, BASIS + k, D), factor[i * m + k]
            for d in range(D):
                own[d] -= part * known[d]
        scale = 1.0 / factor[i * m + i]
        for d in range(D):
            own[d] *= scale


@inner
def _settle(w, s, p, D):
    """b ← 0; what it said goes into u. And B ← Y, C ← ΩᵀY + I."""
    m, b, core = _rank(p), _vector(s, p, B), _matrix(s, p, 0)
    u, root = row(w, U, D), row(w, ROOT, D)
    for k in range(m * m):
        core[k] = 1.0 if k % (m + 1) == 0 else 0.0
    for k in range(m):
        basis, sketch, part = _row(w, BASIS + k, D), _row(w, BASIS + m + k, D), b[k]
        for d in range(D):
            u[d] += part * root[d] * basis[d]
            basis[d] = sketch[d]
            core[(d % m) * m + k] += sign(d) * sketch[d]
        b[k] = 0.0


@inner
def _take_anew(w, s, p, D):
    """F and B from P and Y, as the module's docstring says."""
    _settle(w, s, p, D)
    m, core, inside = _rank(p), _matrix(s, p, 0), _matrix(s, p, 1)
    power, root, free, rest = row(w, POWER, D), row(w, ROOT, D), row(w, FREE, D), row(w, MOVE, D)
    _factorise(core, m)
    _solve(w, m, D, core)
    for d in range(D):
        rest[d] = 1.0 + power[d]
    for k in range(m):
        basis = _row(w, BASIS + k, D)
        for d in range(D):
            rest[d] -= basis[d] * basis[d]
    for d in range(D):
        rest[d] = 1.0 / max(rest[d], 1.0)
        free[d] = (1.0 + power[d]) * rest[d]
    for i in range(m):
        for j in range(i + 1):
            one, other, total = _row(w, BASIS + i, D), _row(w, BASIS + j, D), 0.0
            for d in range(D):
                total += one[d] * other[d] * rest[d]
            inside[i * m + j] = total + (1.0 if i == j else 0.0)
    _factorise(inside, m)
    for k in range(m):
        basis = _row(w, BASIS + k, D)
        for d in range(D):
            basis[d] *= free[d] * root[d]
    _solve(w, m, D, inside)


def finish(w, s, p, D, t, eta):
    at.take_anew(w, s, p, D, t)
    if s[CHANGED] != 0.0:
        s[CHANGED] = 0.0
        b, waiting = _vector(s, p, B), _vector(s, p, WAITING)
        for k in range(_rank(p)):
            b[k] += waiting[k]
            waiting[k] = 0.0
    if s[STEPS] >= s[NEXT]:
        s[NEXT] = GROWTH * s[STEPS]
        _take_anew(w, s, p, D)


def to_message(w, s, p, index, n, D, out):
    """The dual (1 + P)·u, P, and Y."""
    m = _rank(p)
    for j in range(n):
        d = int(column(index, j))
        out[j] = (1.0 + w[POWER * D + d]) * _weight(w, s, p, d, D)
        out[n + j] = w[POWER * D + d]
    for k in range(m):
        sketch = _row(w, BASIS + m + k, D)
        for j in range(n):
            out[(2 + k) * n + j] = sketch[int(column(index, j))]


def from_message(w, s, p, index, n, D, averaged):
    m = _rank(p)
    for j in range(n):
        d = int(column(index, j))
        w[POWER * D + d] = averaged[n + j]
        grown = 1.0 + averaged[n + j]
        root = 1.0 / math.sqrt(grown)
        w[ROOT * D + d] = root
        w[U * D + d] = averaged[j] / grown - root * _along_basis(w, s, p, d, D, B)
    for k in range(m):
        sketch = _row(w, BASIS + m + k, D)
        for j in range(n):
            sketch[int(column(index, j))] = averaged[(2 + k) * n + j]


def weights(w, s, p, index, n, D, out):
    for d in range(D):
        w[NOW * D + d] = _weight(w, s, p, d, D)
    raw_weights(w, s, p, index, n, D, out, NOW, intercept(s))
    for d in range(D):
        w[NOW * D + d] = 0.0


LOOPS = standardising_loops(
    score, step, finish, absorb, notice, commit, to_message, from_message, weights
)


@dataclass(frozen=True, kw_only=True)
class SketchedNewton(Standardising):
    """Second-order mirror descent with a sketch of the matrix; see the module's docstring.

    Parameters
    ----------
    rank : int
        Rows of the sketch.
    """

    rank: int = 10

    family = "newton"
    intercept_sums = (MATRIX0, DUAL0)
    positive_sums = (STEPS, SLOPES, MATRIX0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.rank <= MOST or int(self.rank) != self.rank:
            raise ValueError(f"`rank` must be a whole number from 1 to {MOST}, it is {self.rank}")

    def layout(self, space: str, n_features: int) -> Layout:
        """Weights, the diagonal, room for a step, B and Y; b and room behind the scalars."""
        ones = {"root", "free"}
        names = ["u", "power", "root", "free", "now", "known", "scaled", "move"]
        names += [f"{part} {k}" for part in ("basis", "sketch") for k in range(self.rank)]
        own = tuple(Field(name, LOCAL, float(name in ones)) for name in names)
        room = self.rank * (CORE + 2 * self.rank)
        notes = tuple(Field(f"along {k}", LOCAL) for k in range(room))
        collected = _SKETCH + self.rank + _rows_for(self.rank, n_features)
        return self.standardised_layout(own, (LINEAR,) * (2 + self.rank), collected, notes=notes)

    @property
    def own_loops(self) -> Loops:
        """The loops of this module."""
        return LOOPS

    @property
    def own_parameters(self) -> list[float]:
        """The size of steps, the rank."""
        return [0.5 if self.regression else 2.5, float(self.rank)]
