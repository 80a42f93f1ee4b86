"""Each agent keeps its own centre and scale of every feature: neighbours average the rest.

Where sites measure in other units, or from other offsets, a feature's mean over all of them is nobody's.
What they can share are the weights of standardised features. So statistics, and the counts that stand in
front of an update's own sums among the scalars, stay with the agent. Sums that are averaged must be a
layout's first scalars: copies of them stand there, the update's scalars behind them, and messages carry
one to the other.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ddol.compiled import address_of, floats, inner
from ddol.update.answers import OWN_SUMS
from ddol.update.contract import LINEAR, LOCAL, Field, Loops

SENT = 6
"""Sums of an update itself, which are averaged."""
assert SENT + OWN_SUMS == 11, "the scalars of `ddol.update.coordinates` that are averaged"


def scalars_of_own(scalars: tuple[Field, ...]) -> tuple[Field, ...]:
    """Copies of the sums that are sent, then all scalars, of which none is.

    Examples
    --------
    >>> from ddol.update.coordinates import SCALARS
    >>> [field.name for field in scalars_of_own(SCALARS)][5:8]
    ['sent own 5', 'sampled', 'seen']
    """
    sums = scalars[OWN_SUMS : OWN_SUMS + SENT]
    copies = tuple(field._replace(name=f"sent {field.name}", average=LINEAR) for field in sums)
    return copies + tuple(field._replace(average=LOCAL) for field in scalars)


@inner(inlined=True)
def _own(s):
    return floats(address_of(s, SENT))


@functools.cache
def loops_of_own(loops: Loops) -> Loops:
    """The loops of a standardising update, whose scalars are those of `scalars_of_own`.

    Parameters
    ----------
    loops : Loops
    """
    found: dict[str, Any] = _learning(loops) | _talking(loops)
    if loops.hear is not None:
        heard = inner(loops.hear)

        def hear(w, s, p, x, index, n, D, y):
            heard(w, _own(s), p, x, index, n, D, y)

        found["hear"] = hear
    return Loops(**found, additive=True, shared=None, propagates_nan=loops.propagates_nan)


def _learning(loops: Loops) -> dict[str, Callable]:
    scored, stepped, observed = inner(loops.score), inner(loops.step), inner(loops.observe)
    finished, read = inner(loops.finish), inner(loops.weights)

    def score(w, s, p, x, index, n, D, which):
        return scored(w, _own(s), p, x, index, n, D, which)

    def step(w, s, p, x, index, n, D, g, eta, weight):
        stepped(w, _own(s), p, x, index, n, D, g, eta, weight)

    def observe(w, s, p, x, index, n, D):
        observed(w, _own(s), p, x, index, n, D)

    def finish(w, s, p, D, t, eta):
        finished(w, _own(s), p, D, t, eta)

    def weights(w, s, p, index, n, D, out):
        read(w, _own(s), p, index, n, D, out)

    return {
        "score": score, "step": step, "observe": observe, "finish": finish, "weights": weights,
    }  # fmt: skip


def _talking(loops: Loops) -> dict[str, Callable]:
    written, taken = inner(loops.to_message), inner(loops.from_message)

    def to_message(w, s, p, index, n, D, out):
        for k in range(SENT):
            s[k] = s[SENT + OWN_SUMS + k]
        written(w, _own(s), p, index, n, D, out)

    def from_message(w, s, p, index, n, D, averaged):
        for k in range(SENT):
            s[SENT + OWN_SUMS + k] = s[k]
        taken(w, _own(s), p, index, n, D, averaged)

    return {"to_message": to_message, "from_message": from_message}
